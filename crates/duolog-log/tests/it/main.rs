//! The log, on a disk in memory that fails where it is told to, and on real files.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

/// Builders and checks that the other modules share.
mod kit;

/// What a single writer promises: positions, conditions, limits.
mod append;
/// What is named after its bytes: put once, read whole or not at all.
mod blobs;
/// What lines mean in each dialect, and where turns begin and end.
mod dialects;
/// What derived rows say of a log, folded in steps.
mod digest;
/// Every disk call fails once, every append stops at every byte; what was acknowledged is there.
mod faults;
/// Real files, real processes, real locks.
mod files;
/// Followers: no line lost, doubled or torn.
mod follow;
/// Lines that real systems should not have written, and chance: nothing panics, nothing hides.
mod nasty;
/// A disk that failed closes its log, and a rewrite opens it again.
mod poison;
/// Forward, backward, segments, bad positions.
mod read;
/// From a runtime's events to lines.
mod record;
/// Torn tails, and logs that are not what they were.
mod recover;
/// A whole tree of logs, ours and of others, on real files.
mod roots;
/// What we write line after line, told again by the reader without loss.
mod sequences;
/// Syncs that callers share, and how many logs are open.
mod share;
/// What Claude Code and Codex print for programs: recorded, read, and counted once.
mod streams;
/// Tokens and money, each response counted once.
mod usage;
/// Followers that wake by hints of the system.
mod wake;
/// What we write in others' dialects, their readers' way and ours.
mod write;

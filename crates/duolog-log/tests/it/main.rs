//! The log, on an in-memory disk with planned faults and on real files.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

/// Builders and checks for the other modules.
mod kit;

/// The guarantees of a single writer: positions, conditions, limits.
mod append;
/// Blobs: stored once, and read completely or not at all.
mod blobs;
/// The items of each dialect, and the boundaries of turns.
mod dialects;
/// The input of derived rows, folded in steps.
mod digest;
/// Every disk call fails once, every append stops at every byte; acknowledged lines are there.
mod faults;
/// Real files, real processes, real locks.
mod files;
/// Followers: no line is lost, duplicated or torn.
mod follow;
/// Lines that no program should write, and random input: nothing panics, nothing is hidden.
mod nasty;
/// A disk error closes its log, and a rewrite opens it again.
mod poison;
/// Reading forward, backward and in segments, and invalid positions.
mod read;
/// A runtime's events become lines.
mod record;
/// Torn tails, and logs that were changed.
mod recover;
/// Trees of logs, of Duolog and of other programs, on real files.
mod roots;
/// Written lines are read back without loss.
mod sequences;
/// Shared syncs, and the number of open logs.
mod share;
/// The output of Claude Code and Codex for programs: recorded, read, and counted once.
mod streams;
/// Tokens and money, each response counted once.
mod usage;
/// Followers that wake by file notification.
mod wake;
/// Lines written in other programs' dialects, byte for byte.
mod write;

//! The log, on a disk in memory that fails where it is told to, and on real files.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

/// Builders and checks that the other modules share.
mod kit;

/// What a single writer promises: positions, conditions, limits.
mod append;
/// Every disk call fails once, every append stops at every byte; what was acknowledged is there.
mod faults;
/// Real files, real processes, real locks.
mod files;
/// Followers: no line lost, doubled or torn.
mod follow;
/// A disk that failed closes its log, and a rewrite opens it again.
mod poison;
/// Forward, backward, segments, bad positions.
mod read;
/// Torn tails, and logs that are not what they were.
mod recover;
/// Syncs that callers share, and how many logs are open.
mod share;

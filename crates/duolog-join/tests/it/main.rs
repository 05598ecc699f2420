//! The join with two real stores. Several processes are several joins over one home.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

/// Homes, sessions and batches for the tests.
mod kit;

/// Limits: open logs, marks, operations, the cost of a fold.
mod bounds;
/// Dialect, title and usage, folded from the log alone.
mod digesting;
/// Derived rows: folding, rebuilding, reading while behind.
mod folding;
/// Cursors, epochs and followers.
mod following;
/// The home that may use a log, and what a read-only home may do.
mod homes;
/// Lines that must be written once: transitions and operations.
mod once;
/// Equal lines, deletion and re-creation, failed calls: an acknowledged line is in the log once, and no other line
/// changes.
mod promise;
/// The rules of `promise`, removed one at a time.
mod removed;
/// Several processes on one server, and a server that is killed while they run.
mod server;
/// Locked, closed and unsynced logs, failed operations, several states of one home.
mod stores;
/// Logs with failed writes or changed bytes.
mod trouble;
/// Verification of changed, removed, inserted, swapped and cut bytes, and their repair.
mod verifying;

//! The join, driven through two real stores: several processes are several joins over one home.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

/// Homes, sessions and batches for the tests.
mod kit;

/// What stays bounded: open logs, marks, operations, the cost of looking.
mod bounds;
/// Dialect, title and usage, folded from the log alone.
mod digesting;
/// Derived rows: folding, rebuilding, reading while behind.
mod folding;
/// Cursors, epochs and followers.
mod following;
/// Which home may touch a log, and what a reader of a home may do.
mod homes;
/// Lines that must stand once: transitions and operations.
mod once;
/// Equal lines, deletion and re-creation, failed calls: an acknowledged line is there, once, and nobody else's is touched.
mod promise;
/// Rules of the promise, removed one at a time.
mod removed;
/// Several processes on one server, and a server that is killed under them.
mod server;
/// What an attack on both stores found: locked, closed and unsynced logs, failed operations, several states of one home.
mod stores;
/// Logs that the disk failed or someone changed.
mod trouble;
/// What verifying tells of changed, removed, inserted, swapped and cut bytes, and what a repair makes of them.
mod verifying;

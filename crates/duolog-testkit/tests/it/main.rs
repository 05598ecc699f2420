//! The crash harness in its short form, the private PostgreSQL, and what holds the workspace in shape.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

/// The real binary, driven by random commands.
mod blackbox;
/// Every recorded moment of the workloads, made a crash.
mod enumerated;
/// A process that forks while it has a home open.
mod forked;
/// The stored inputs of every fuzz target, and some mutations of them.
mod fuzzed;
/// Real processes, killed a few times.
mod killed;
/// Which crate may lean on which.
mod layers;
/// Rules removed one at a time.
mod mutants;
/// A real PostgreSQL: started, killed, full, behind a proxy.
mod postgres;
/// The real binary's system calls: recorded and replayed after crashes, stopped, killed.
mod replayed;
/// Many threads on one home through the library.
mod stressed;

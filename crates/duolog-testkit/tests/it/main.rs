//! Short runs of the crash harness and the black-box test, the test servers, and rules about the workspace.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

/// Random commands of the real binary.
mod blackbox;
/// A crash at every recorded point of the workloads.
mod enumerated;
/// A process that forks while it has a home open.
mod forked;
/// The stored inputs of every fuzz target, and mutations of them.
mod fuzzed;
/// Real processes that are killed a few times.
mod killed;
/// The allowed dependencies between crates.
mod layers;
/// Removed rules, one at a time.
mod mutants;
/// A real PostgreSQL server: started, killed, with a full disk, behind a proxy.
mod postgres;
/// The system calls of the real binary: recorded and replayed after crashes, stopped, killed.
mod replayed;
/// Several threads on one home through the library.
mod stressed;
/// The usage of the test tools.
mod usage;

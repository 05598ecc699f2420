//! The workloads, one file each: what is measured, against what, and the required ratio.

pub mod append;
mod backup;
mod commands;
mod conversations;
pub mod follow;
mod many;
mod postgres;
mod read;
mod runs;
mod search;
mod sessions;
mod vectors;

use crate::bench::Bench;
use crate::measure::Case;

/// The name of a workload, and the function that prepares its cases.
pub type Workload = (&'static str, fn(&Bench) -> Vec<Case>);

/// All workloads, in order. The names of a workload's benchmarks start with its name.
pub const ALL: &[Workload] = &[
    ("append", append::cases),
    ("read", read::cases),
    ("many", many::cases),
    ("sessions", sessions::cases),
    ("conversations", conversations::cases),
    ("runs", runs::cases),
    ("vectors", vectors::cases),
    ("postgres", postgres::cases),
    ("commands", commands::cases),
    ("follow", follow::cases),
    ("search", search::cases),
];

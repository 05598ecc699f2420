//! The workloads, one file each: what is measured, against what, and what it should come to.

mod append;
mod checked;
mod conversations;
mod engines;
mod group;
mod last;
mod list;
mod one_shot;
mod open;
mod power;
mod rows;
mod runs;
mod scan;
mod search;
pub mod tail;
mod vectors;
mod wake;

use crate::bench::Bench;
use crate::measure::Figure;

/// A workload's name and how it is run.
pub type Workload = (&'static str, fn(&Bench) -> Vec<Figure>);

/// All of them, in the order they run.
pub const ALL: &[Workload] = &[
    ("append", append::run),
    ("checked", checked::run),
    ("power", power::run),
    ("group", group::run),
    ("scan", scan::run),
    ("last", last::run),
    ("open", open::run),
    ("list", list::run),
    ("conversations", conversations::run),
    ("runs", runs::run),
    ("vectors", vectors::run),
    ("engines", engines::run),
    ("one-shot", one_shot::run),
    ("wake", wake::run),
    ("tail", tail::run),
    ("search", search::run),
];

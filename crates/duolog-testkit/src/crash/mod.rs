//! The crash harness: checks that no acknowledged write can be lost, doubled or torn.
//!
//! `enumerate` runs a scripted workload once and records every disk call and every commit. Each recorded point becomes
//! a crash of the process or of the power, cut at each byte, with each state that could have survived; each crash is
//! recovered from and checked. `kill` does the same to real processes. `mutants` shows that the harness can fail: it
//! must report a violation when any one rule is removed.

mod check;
mod enumerate;
mod equal_lines;
pub mod kill;
mod ledger;
pub mod mutants;
mod script;
mod world;

pub use check::Broken;
pub use enumerate::{Calls, Summary, enumerate, faults};
pub use script::Script;
pub(crate) use world::scratch;

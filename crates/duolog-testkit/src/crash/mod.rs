//! The crash harness: what judges whether anything acknowledged can be lost, doubled or torn.
//!
//! It enumerates: a scripted workload runs once while every disk call and every commit is recorded; then each recorded
//! moment becomes a crash, of the process or of the power, cut at each byte, with each state that could have survived;
//! and each crash is recovered from and held to the invariants. `kill` does the same to real processes. `mutants` shows
//! that the harness can fail: with any one rule removed, it must.

mod alike;
mod check;
mod enumerate;
pub mod kill;
mod ledger;
pub mod mutants;
mod script;
mod world;

pub use check::Broken;
pub use enumerate::{Calls, Summary, enumerate, faults};
pub use script::Script;
pub(crate) use world::scratch;

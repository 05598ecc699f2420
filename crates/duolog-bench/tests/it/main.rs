//! The smoke form, as `cargo test` runs it: results are checked, times are not.

#![allow(clippy::expect_used)]

mod smoke; // every workload runs, and what is asked for wrongly is refused

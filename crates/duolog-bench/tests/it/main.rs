//! The smoke form, as `cargo test` runs it: results are checked, times are not.

mod smoke; // every workload runs, and what is asked for wrongly is refused

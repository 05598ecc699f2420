//! The smoke form, as `cargo test` runs it: results are checked, times are not.

#![allow(clippy::expect_used)]

/// Every workload runs and tells its figures; what is asked for wrongly is refused.
mod smoke;

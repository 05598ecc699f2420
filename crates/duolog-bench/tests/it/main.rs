//! The smoke form, as `cargo test` runs it: results are checked, times are not.

#![allow(clippy::expect_used)]

/// Every workload runs and reports its benchmarks; wrong usage is refused.
mod smoke;

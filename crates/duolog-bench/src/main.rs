//! Workloads measured against the raw limit.

fn main() {}

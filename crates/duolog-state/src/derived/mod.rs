//! Derived tables: functions of log bytes alone, written only by the fold and by a rebuild (I3, I4).

pub mod catalog;
pub mod digests;
pub mod responses;
pub mod usage_by_quarter;

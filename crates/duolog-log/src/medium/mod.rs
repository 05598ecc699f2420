//! Implementations of [`Disk`](crate::Disk).

pub mod files;

//! Development only: what tests need in order to fail, drop and cut any disk call, to say what time it is, and to talk
//! to a PostgreSQL of their own.
//!
//! All but the last is deterministic: the same calls and the same seeds give the same bytes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)]

pub mod clock;
pub mod compat;
pub mod crash;
pub mod disk;
pub mod engines;
pub mod fuzz;
pub mod postgres;
mod random;
pub mod transcripts;

pub use clock::FixedClock;
pub use disk::{Call, CallKind, Crash, Fault, Loss, SimDisk, is_stopped};

//! Development only: what tests need in order to fail, drop and cut any disk call, and to say what time it is.
//!
//! Everything here is deterministic: the same calls and the same seeds give the same bytes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)]

pub mod clock;
pub mod crash;
pub mod disk;
mod random;

pub use clock::FixedClock;
pub use disk::{Call, CallKind, Crash, Fault, Loss, SimDisk, is_stopped};

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

use std::path::Path;

pub use clock::FixedClock;
pub use disk::{Call, CallKind, Crash, Fault, Loss, SimDisk, is_stopped};

/// How many bytes of pages a write-ahead log holds that were written since it was last begun anew: those with its salt.
pub fn written_ahead(log: &Path) -> usize {
    const FRAME: usize = 24 + 4096;
    let bytes = std::fs::read(log).expect("a write-ahead log");
    let salt = bytes.get(16..24).expect("a header");
    bytes[32..].chunks(FRAME).take_while(|frame| frame.get(8..16) == Some(salt)).map(<[u8]>::len).sum()
}

//! Development only: what tests need in order to fail, drop and cut any disk call, to say what time it is, and to talk
//! to a PostgreSQL of their own.
//!
//! All but the last is deterministic: the same calls and the same seeds give the same bytes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)]

pub mod blackbox;
pub mod clock;
pub mod compat;
pub mod crash;
pub mod disk;
pub mod engines;
pub mod postgres;
mod random;
pub mod replay;
pub mod stress;
pub mod transcripts;

use std::path::Path;

pub use clock::FixedClock;
pub use disk::{Call, CallKind, Crash, Fault, Loss, SimDisk, is_stopped};

/// How many bytes of a write-ahead log the first transaction took since it was last begun anew.
pub fn written_ahead(log: &Path) -> usize {
    const FRAME: usize = 24 + 4096;
    let bytes = std::fs::read(log).expect("a write-ahead log");
    let salt = bytes.get(16..24).expect("a header");
    let frames = || bytes[32..].chunks(FRAME).take_while(|frame| frame.get(8..16) == Some(salt));
    // The last frame of a transaction says how large the database is then; the others say 0.
    let last = frames().position(|frame| frame.get(4..8) != Some(&[0; 4])).expect("a transaction");
    frames().take(last + 1).map(<[u8]>::len).sum()
}

//! Development only: a simulated disk, a fixed clock, private PostgreSQL servers, the crash harness, black-box tests.
//!
//! Except for PostgreSQL and real processes, everything is deterministic: equal seeds give equal calls and bytes.

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

use std::ffi::OsStr;
use std::path::Path;

pub use clock::FixedClock;
pub use disk::{Call, CallKind, Crash, Fault, Loss, SimDisk, is_stopped};

/// Returns true if the arguments of a test tool ask for its usage. Arguments after `--` belong to another command.
pub fn is_help_requested<S: AsRef<OsStr>>(arguments: &[S]) -> bool {
    let is = |argument: &S, word: &str| argument.as_ref() == OsStr::new(word);
    let mut options = arguments.iter().take_while(|argument| !is(argument, "--"));
    options.any(|argument| is(argument, "--help") || is(argument, "-h"))
}

/// Returns the bytes of the first transaction in a write-ahead log since its last restart.
pub fn written_ahead(log: &Path) -> usize {
    const FRAME: usize = 24 + 4096;
    let bytes = std::fs::read(log).expect("a write-ahead log");
    let salt = bytes.get(16..24).expect("a header");
    let frames = || bytes[32..].chunks(FRAME).take_while(|frame| frame.get(8..16) == Some(salt));
    // The last frame of a transaction holds the size of the database; the others hold 0.
    let last = frames().position(|frame| frame.get(4..8) != Some(&[0; 4])).expect("a transaction");
    frames().take(last + 1).map(<[u8]>::len).sum()
}

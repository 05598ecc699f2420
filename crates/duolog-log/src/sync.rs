//! Group sync: one sync covers every caller that had written before it began.

use std::io;

use duolog_types::Position;
use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;

/// A position up to which a log is durable. Only a sync of that log creates one (I1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Synced(Position);

impl Synced {
    pub(crate) const fn at(position: Position) -> Self {
        Self(position)
    }

    /// The start of a log: an empty log is durable without a sync.
    pub const ZERO: Self = Self(Position::ZERO);

    /// Returns the position.
    pub const fn position(self) -> Position {
        self.0
    }
}

/// The syncs of one open log.
#[derive(Debug, Default)]
pub(crate) struct SyncGate {
    state: Mutex<State>,
    done: Condvar,
}

#[derive(Debug, Default)]
struct State {
    synced: u64,
    running: bool,
    failed: bool,
}

/// Why a sync did not make bytes durable.
#[derive(Debug)]
pub(crate) enum SyncError {
    /// A sync failed, in this call or in an earlier one: the content of the device is unknown.
    Failed,
    /// The sync was not tried, because the file or directory could not be opened. No byte is lost.
    NotTried(io::Error),
}

impl SyncError {
    /// Returns a copy of the error, for another log of the same sync.
    pub(crate) fn again(&self) -> Self {
        match self {
            Self::Failed => Self::Failed,
            Self::NotTried(error) => Self::NotTried(match error.raw_os_error() {
                Some(code) => io::Error::from_raw_os_error(code),
                None => error.kind().into(),
            }),
        }
    }

    /// Distinguishes a failed sync of a directory from a directory that could not be opened.
    pub(crate) fn of_directory(error: io::Error) -> Self {
        // Errors of `open` that `fsync` does not return.
        let not_opened = [
            Errno::MFILE,
            Errno::NFILE,
            Errno::NOMEM,
            Errno::ACCESS,
            Errno::PERM,
            Errno::NOENT,
            Errno::NOTDIR,
            Errno::LOOP,
        ];
        match error.raw_os_error() {
            Some(code) if not_opened.iter().any(|errno| errno.raw_os_error() == code) => Self::NotTried(error),
            _ => Self::Failed,
        }
    }
}

impl SyncGate {
    /// Returns once everything up to `target` is synced, by this caller or by another.
    ///
    /// `written` returns the end of the written bytes; `sync` makes them durable. A failed sync is never tried again
    /// here.
    pub(crate) fn sync_to(
        &self,
        target: u64,
        written: impl Fn() -> u64,
        sync: impl Fn() -> Result<(), SyncError>,
    ) -> Result<u64, SyncError> {
        let mut state = self.state.lock();
        loop {
            if state.failed {
                return Err(SyncError::Failed);
            }
            if state.synced >= target {
                return Ok(state.synced);
            }
            if !state.running {
                break;
            }
            self.done.wait(&mut state);
        }
        state.running = true;
        drop(state);
        let covers = written();
        let outcome = sync();
        let mut state = self.state.lock();
        state.running = false;
        match &outcome {
            Ok(()) => state.synced = state.synced.max(covers),
            Err(SyncError::Failed) => state.failed = true,
            Err(SyncError::NotTried(_)) => {}
        }
        self.done.notify_all();
        outcome.map(|()| state.synced)
    }

    /// Returns the end of the bytes that are known to be synced.
    pub(crate) fn synced(&self) -> u64 {
        self.state.lock().synced
    }
}

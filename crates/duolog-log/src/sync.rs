//! Syncs that callers share: one covers everyone who had written before it began.

use std::io;

use duolog_types::Position;
use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;

/// A position up to which a log is on the device. Only a sync of that log can make one (I1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Synced(Position);

impl Synced {
    pub(crate) const fn at(position: Position) -> Self {
        Self(position)
    }

    /// An empty log is durable as it is.
    pub const ZERO: Self = Self(Position::ZERO);

    /// The position.
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

/// Why bytes are not known to be on the device.
#[derive(Debug)]
pub(crate) enum SyncError {
    /// A sync failed, now or for someone before: what the device holds is not known.
    Failed,
    /// The sync was not tried, because what it needs could not be opened. Nothing is lost by that.
    NotTried(io::Error),
}

impl SyncError {
    /// The same error, for another log that the sync was for.
    pub(crate) fn again(&self) -> Self {
        match self {
            Self::Failed => Self::Failed,
            Self::NotTried(error) => Self::NotTried(match error.raw_os_error() {
                Some(code) => io::Error::from_raw_os_error(code),
                None => error.kind().into(),
            }),
        }
    }

    /// Tells a failed sync of a directory from a directory that could not be opened.
    pub(crate) fn of_directory(error: io::Error) -> Self {
        // What `open` answers and `fsync` does not.
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
    /// `written` tells how far writers have come; `sync` makes that durable. A failed sync is never tried again here.
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

    /// How far the log is known to be synced.
    pub(crate) fn synced(&self) -> u64 {
        self.state.lock().synced
    }
}

//! Syncs that callers share: one covers everyone who had written before it began.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use duolog_types::Position;

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

/// A sync failed, now or for someone before: what the device holds is not known.
#[derive(Debug)]
pub(crate) struct SyncFailed;

impl SyncGate {
    /// Returns once everything up to `target` is synced, by this caller or by another.
    ///
    /// `written` tells how far writers have come; `sync` makes that durable. A failed sync is never tried again here.
    pub(crate) fn sync_to(
        &self,
        target: u64,
        written: impl Fn() -> u64,
        sync: impl Fn() -> std::io::Result<()>,
    ) -> Result<u64, SyncFailed> {
        let mut state = self.lock();
        loop {
            if state.failed {
                return Err(SyncFailed);
            }
            if state.synced >= target {
                return Ok(state.synced);
            }
            if !state.running {
                break;
            }
            state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.running = true;
        drop(state);
        let covers = written();
        let outcome = sync();
        let mut state = self.lock();
        state.running = false;
        match outcome {
            Ok(()) => state.synced = state.synced.max(covers),
            Err(_) => state.failed = true,
        }
        self.done.notify_all();
        if state.failed { Err(SyncFailed) } else { Ok(state.synced) }
    }

    /// How far the log is known to be synced.
    pub(crate) fn synced(&self) -> u64 {
        self.lock().synced
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

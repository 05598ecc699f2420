//! Appends of plain events: to the log alone, without an SQL transaction (R1).

use std::sync::Arc;

use duolog_log::{Append, Error as LogError};
use duolog_types::{Batch, Cursor, Epoch, Position, SessionId};

use crate::error::{Error, Result};
use crate::life::EpochChange;
use crate::loss::lost_bytes;
use crate::note::LogChange;
use crate::open_log::OpenLog;
use crate::store::Join;

/// The number of times that an append reopens a replaced log before it gives up.
pub(crate) const REOPENINGS_MAX: u32 = 100;

/// An appended batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The number of lines.
    pub lines: usize,
    /// The position of its first byte.
    pub start: Position,
    /// The position after its last newline.
    pub end: Position,
    /// The log's epoch.
    pub epoch: Epoch,
}

impl Committed {
    /// Returns the end of the batch as a cursor.
    pub fn cursor(&self) -> Cursor {
        Cursor { epoch: self.epoch, position: self.end }
    }
}

impl Join {
    /// Appends `batch` to a session's log and wakes its followers.
    ///
    /// Returns when the log has the requested durability. Derived rows are not written here: the session was marked
    /// before the first append of the burst, and a reader of derived rows folds the marked sessions first (I3).
    pub fn append(&self, session: &SessionId, batch: &Batch, how: &Append) -> Result<Committed> {
        self.wait_for_lines(session)?;
        self.check_position(session, how)?;
        Self::reopening(|| self.try_append(session, batch, how))
    }

    /// Returns an error if the log is not at the expected position. This is checked before the session is marked, so
    /// that a refused append changes nothing.
    fn check_position(&self, session: &SessionId, how: &Append) -> Result<()> {
        let Some(expected) = how.if_position.filter(|_| self.open.get(session).is_none()) else { return Ok(()) };
        let known = self.known(session)?;
        let found = match known.reader(&self.disk)? {
            Some(reader) => reader.stable_end(self.limits.busy_timeout)?,
            None => known.row.log_base,
        };
        if found == expected { Ok(()) } else { Err(LogError::Moved { expected, found }.into()) }
    }

    /// Retries `f` if the file of a log was replaced: nothing was written, and the log is opened again. A loss of lines
    /// is another error and is not retried.
    pub(crate) fn reopening<T>(mut f: impl FnMut() -> Result<T>) -> Result<T> {
        let mut left = REOPENINGS_MAX;
        loop {
            match f() {
                Err(Error::Log(error)) if error.lost_its_file() && left > 0 => left -= 1,
                other => return other,
            }
        }
    }

    fn try_append(&self, session: &SessionId, batch: &Batch, how: &Append) -> Result<Committed> {
        let open = self.open_log(session)?;
        let _flight = self.enter(&open)?;
        let appended = open.writer.append(batch, how).map_err(|error| self.look_again(session, &open, error))?;
        self.note_or_keep(&open, appended.mend);
        self.feed.wake(session);
        Ok(Committed { lines: batch.len(), start: appended.start, end: appended.end, epoch: open.epoch })
    }

    /// Maps the error of a writer. If its file was unlinked or replaced, checks whether lines were lost and records it.
    pub(crate) fn look_again(&self, session: &SessionId, open: &Arc<OpenLog>, error: LogError) -> Error {
        self.note_or_keep(open, None);
        if matches!(error, LogError::Poisoned(_) | LogError::Closed { .. } | LogError::Io { .. }) {
            // A repair creates a new file, which this writer would never see.
            self.open.let_go(session, open);
        }
        if !error.lost_its_file() {
            return error.into();
        }
        self.open.let_go(session, open);
        let looked = open.writer.compare_with_path(open.recorded_to).map_err(Error::from);
        let noted = looked.and_then(|standing| {
            let bytes = lost_bytes(standing, open.writer.place().base, open.writer.written());
            let change = LogChange { standing, bytes, detail: None };
            Ok((standing, self.note_change(session, open.epoch, change)?))
        });
        match noted {
            Ok((_, EpochChange::Expected)) => error.into(),
            Ok((standing, EpochChange::Raised(epoch))) => {
                Error::LogChanged { session: session.clone(), standing, epoch }
            }
            Err(error) => error,
        }
    }
}

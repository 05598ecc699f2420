//! Reading a log and comparing it with the recorded state, so that a reader learns of lost bytes.
//!
//! Nothing is written here. A fold, an append or a repair records a loss; from then on the log has a new epoch and is
//! read as any other, and readers get the record until the log or the session is deleted.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use duolog_log::{Error as LogError, LogIdentity, Reader};
use duolog_state::owned::repairs;
use duolog_types::{Position, SessionId};

use crate::append::REOPENINGS_MAX;
use crate::error::{Error, Result};
use crate::inspect::LogStanding;
use crate::store::{Join, Known, known};

/// Recorded bytes that the log no longer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// What happened to the log.
    pub standing: LogIdentity,
    /// The number of lost recorded bytes.
    pub bytes: u64,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes;
        match self.standing {
            LogIdentity::Same => write!(f, "the log is unchanged"),
            LogIdentity::Missing => write!(f, "the log file is missing: {bytes} recorded bytes are lost"),
            LogIdentity::Shorter(end) => write!(f, "the log was cut at {end}: {bytes} recorded bytes are lost"),
            LogIdentity::Replaced => write!(f, "the log was replaced: {bytes} recorded bytes are lost"),
        }
    }
}

/// Recorded losses of a log. The log has a new epoch since, and is complete by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedLoss {
    /// The number of lost recorded bytes, of all losses.
    pub bytes: u64,
}

impl fmt::Display for RecordedLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} recorded bytes were lost earlier", self.bytes)
    }
}

/// A log that was opened for reading.
pub struct ReadLog {
    /// The reader of its file. `None` if it has no file.
    pub reader: Option<Reader>,
    /// The stable end: bytes after it must not be shown.
    pub end: Position,
    /// The recorded bytes that the log lacks.
    pub loss: Option<Loss>,
    /// Earlier losses that are recorded.
    pub recorded_loss: Option<RecordedLoss>,
}

impl Known {
    /// Returns the number of recorded bytes that a log with this finding lacks.
    pub(crate) fn bytes_lost(&self, standing: LogIdentity) -> u64 {
        lost_bytes(standing, self.row.log_base, self.watermark.recorded_to)
    }
}

/// Returns the number of bytes up to `known_to` that a log with this base lacks.
pub(crate) fn lost_bytes(standing: LogIdentity, base: Position, known_to: Position) -> u64 {
    match standing {
        LogIdentity::Same => 0,
        LogIdentity::Shorter(end) => known_to.0.saturating_sub(end.0),
        LogIdentity::Missing | LogIdentity::Replaced => known_to.0.saturating_sub(base.0),
    }
}

impl Join {
    /// Opens a session's log for reading and compares it with the recorded state.
    pub fn read_log(&self, session: &SessionId) -> Result<ReadLog> {
        let mut left = REOPENINGS_MAX;
        loop {
            let (known, recorded_loss) = self.state.read(|tx| {
                let bytes = repairs::lost_of(tx, session)?;
                Ok::<_, Error>((known(tx, session)?, bytes.map(|bytes| RecordedLoss { bytes })))
            })?;
            self.own(&known.row)?;
            let log = ReadLog { recorded_loss, ..self.read_known(&known)? };
            // A deletion or repair raises the epoch: then the rows described another log.
            if log.loss.is_none() || left == 0 || self.known(session)?.row.log_epoch == known.row.log_epoch {
                return Ok(log);
            }
            left -= 1;
        }
    }

    fn read_known(&self, known: &Known) -> Result<ReadLog> {
        let (base, recorded_to) = (known.row.log_base, known.watermark.recorded_to);
        let reader = known.reader(&self.disk)?;
        let (end, standing) = match &reader {
            Some(reader) => {
                let end = reader.stable_end(self.limits.busy_timeout)?;
                (end, self.standing(known, reader, end)?)
            }
            None => (base, if recorded_to > base { LogIdentity::Missing } else { LogIdentity::Same }),
        };
        let loss = (standing != LogIdentity::Same).then(|| Loss { standing, bytes: known.bytes_lost(standing) });
        Ok(ReadLog { reader, end, loss, recorded_loss: None })
    }

    /// Returns the recorded losses of this home's logs.
    pub fn recorded_losses(&self) -> Result<BTreeMap<SessionId, RecordedLoss>> {
        let home = self.home;
        let lost = self.state.read(|tx| repairs::lost_by_session(tx, &home))?;
        Ok(lost.into_iter().map(|(session, bytes)| (session, RecordedLoss { bytes })).collect())
    }

    /// Returns the logs among these that lack folded bytes, with their losses. Costs a stat per log.
    pub fn lost_logs(&self, logs: &[LogStanding]) -> Result<BTreeMap<SessionId, Loss>> {
        let mut lost = BTreeMap::new();
        for log in logs {
            if let Some(loss) = self.loss_of(log)? {
                lost.insert(log.session.clone(), loss);
            }
        }
        Ok(lost)
    }

    /// Returns the folded bytes that a log lacks. Costs the same as [`Join::loss_at`].
    pub fn loss_of(&self, log: &LogStanding) -> Result<Option<Loss>> {
        let folded = log.folded_to.map_or(0, |folded_to| folded_to.0.saturating_sub(log.base.0));
        self.loss_at(&log.session, &log.path, folded)
    }

    /// Returns the loss of a log whose file is missing or shorter than its folded bytes.
    ///
    /// Costs a stat; only a log that is too short is opened.
    pub fn loss_at(&self, session: &SessionId, path: &str, folded_bytes: u64) -> Result<Option<Loss>> {
        if folded_bytes == 0 {
            return Ok(None);
        }
        let path = Path::new(path);
        let length = self.disk.stat(path).map_err(LogError::io("examine", path))?.map_or(0, |stat| stat.len);
        if length >= folded_bytes {
            return Ok(None);
        }
        match self.read_log(session) {
            Ok(log) => Ok(log.loss),
            // Deleted since the rows were read.
            Err(Error::NoSession(_) | Error::Deleted(_)) => Ok(None),
            // It cannot be opened, but its length is known.
            Err(Error::Log(_)) => {
                Ok(Some(Loss { standing: LogIdentity::Shorter(Position(length)), bytes: folded_bytes - length }))
            }
            Err(error) => Err(error),
        }
    }
}

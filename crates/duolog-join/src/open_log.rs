//! The open logs that this process appends to, limited in number (I9).

use std::sync::Arc;

use duolog_log::{Recovery, Writer};
use duolog_state::owned::{behind, operations};
use duolog_types::{Durability, Epoch, Position, SessionId};

use crate::error::{Error, Result};
use crate::marks::{Mark, set_mark};
use crate::operation::SessionRecord;
use crate::store::{Join, Known, known};

/// A log that this process appends to.
pub(crate) struct OpenLog {
    pub(crate) session: SessionId,
    pub(crate) epoch: Epoch,
    pub(crate) writer: Writer,
    /// The recorded end when the log was opened. Only this writer knows the bytes after it.
    pub(crate) recorded_to: Position,
    pub(crate) mark: Arc<Mark>,
}

impl Join {
    /// Returns the log of a session, open for appending. The session is marked before any append.
    pub(crate) fn open_log(&self, session: &SessionId) -> Result<Arc<OpenLog>> {
        // After a fork the writer itself returns an error.
        self.state.check_not_stopped()?;
        if let Some(open) = self.open.get(session) {
            return Ok(open);
        }
        if !self.is_writable() {
            return Err(Error::ReadOnly);
        }
        self.process.announce()?;
        loop {
            self.close_idle(1)?;
            let mark = self.marks.of(session);
            let known = self.known_marked(session, &mark)?;
            self.own(&known.row)?;
            if self.finish_unlink(&known)? {
                continue;
            }
            let opened = self
                .open_writer(&known)
                .and_then(|(writer, recovery)| self.note_recovery(&known, &recovery, None).map(|same| (writer, same)));
            match opened {
                Ok((writer, true)) => {
                    let (epoch, recorded_to) = (known.row.log_epoch, known.watermark.recorded_to);
                    let open = OpenLog { session: session.clone(), epoch, writer, recorded_to, mark };
                    return Ok(self.open.keep(session.clone(), open));
                }
                // Another process replaced this session's log on purpose: try again.
                Ok((_, false)) | Err(Error::Log(duolog_log::Error::Replaced(_))) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Marks a session and returns its log, for appending. If this process has marked the session before, no commit is
    /// needed.
    fn known_marked(&self, session: &SessionId, mark: &Mark) -> Result<Known> {
        let process = self.process.id();
        if mark.is_set() {
            let (known, is_marked) = self.state.read(|tx| {
                let mut known = known(tx, session)?;
                known.watermark.claimed_to = operations::claimed_to(tx, session, known.row.log_epoch)?;
                Ok::<_, Error>((known, behind::is_marked(tx, session, &process)?))
            })?;
            if is_marked {
                return Ok(known);
            }
            mark.note_gone();
        }
        let (row, home, id) = (self.new_mark(session), self.home, session.clone());
        let generation = row.generation;
        let known = self.state.write(Durability::Process, move |tx| {
            let mut known = known(tx, &id)?;
            // The caller refuses a log of another home; a mark would only mislead that home.
            if known.row.home_id == home {
                set_mark(tx, &row)?;
                known.watermark.claimed_to = operations::claimed_to(tx, &id, known.row.log_epoch)?;
            }
            Ok::<_, Error>(known)
        });
        let known = known.map_err(|error| error.of_session(session))?;
        if known.row.home_id == home {
            mark.note_set(generation);
        }
        Ok(known)
    }

    /// Opens the writer of a log with the recorded state.
    pub(crate) fn open_writer(&self, known: &Known) -> Result<(Writer, Recovery)> {
        let record = Arc::new(self.record_of(known));
        Ok(Writer::open_recorded(&self.disk, &known.place(), &known.watermark, &self.limits, record)?)
    }

    /// Returns the access to the recorded state of a log, for a process that holds its lock.
    pub(crate) fn record_of(&self, known: &Known) -> SessionRecord {
        SessionRecord {
            state: self.state.clone(),
            session: known.row.id.clone(),
            path: known.row.log_path.clone(),
            epoch: known.row.log_epoch,
            line_bytes_max: self.limits.line_bytes_max,
        }
    }

    /// Closes logs that are not in use, so that `more` can be opened. Their marks stay.
    pub(crate) fn close_idle(&self, more: usize) -> Result<()> {
        for open in self.open.trim(more) {
            self.note_or_keep(&open, None);
            let session = open.session.clone();
            drop(open);
            self.marks.forget_unused(&session);
        }
        if self.marks.are_too_many() { self.hand_over() } else { Ok(()) }
    }
}

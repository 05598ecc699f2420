//! Lines that tell of a row: written in the row's transaction, copied to the log after it, exactly once (R2).

use std::sync::Arc;

use duolog_log::Append;
use duolog_state::Tx;
use duolog_state::owned::outbox::{self, NewOutbox, OutboxKey, OutboxRow};
use duolog_types::limits::OUTBOX_LINE_BYTES_MAX;
use duolog_types::{Batch, Bounded, Durability, Moment, OutboxId, Position, SessionId, mutant, mutant::Mutant};
use serde_json::{Map, Value};

use crate::behind::OpenLog;
use crate::error::{Error, Result};
use crate::store::Join;

/// The rows one drain takes.
pub(crate) const DRAIN_ROWS: u32 = 256;

/// A line that waits in the outbox for the commit of its row.
#[derive(Clone, Debug)]
pub struct Told {
    session: SessionId,
    line: String,
}

/// Has the session's log tell of what this transaction does, as `{"type":"system","subtype":"duolog.<what>",…}`.
///
/// The line gets an id of its own, by which it is known in the log, and the position behind which to look for it.
pub fn tell(tx: &mut Tx<'_>, session: &SessionId, what: &str, at: Moment, fields: &Map<String, Value>) -> Result<Told> {
    tell_if_there(tx, session, what, at, fields)?.ok_or_else(|| Error::NoSession(session.clone()))
}

/// The same, unless there is no such session, or no longer.
pub fn tell_if_there(
    tx: &mut Tx<'_>,
    session: &SessionId,
    what: &str,
    at: Moment,
    fields: &Map<String, Value>,
) -> Result<Option<Told>> {
    let uuid = OutboxId::new();
    let line = line(session, what, uuid, at, fields);
    Bounded::<OUTBOX_LINE_BYTES_MAX>::new("a line about a row", &line)?;
    let new = NewOutbox { uuid, session_id: session, line: &line, created_at: at };
    let is_there = mutant::is(Mutant::NoOutbox) || outbox::insert(tx, &new)?;
    Ok(is_there.then(|| Told { session: session.clone(), line }))
}

/// The line as it will stand in the log.
fn line(session: &SessionId, what: &str, uuid: OutboxId, at: Moment, fields: &Map<String, Value>) -> String {
    let (what, session) = (Value::from(format!("duolog.{what}")), Value::from(session.as_str()));
    let mut line = format!(
        "{{\"type\":\"system\",\"subtype\":{what},\"uuid\":\"{uuid}\",\"timestamp\":\"{at}\",\"sessionId\":{session}"
    )
    .into_bytes();
    for (name, value) in fields {
        line.push(b',');
        // Writing JSON to memory cannot fail, and it is UTF-8.
        let _ = serde_json::to_writer(&mut line, name);
        line.push(b':');
        let _ = serde_json::to_writer(&mut line, value);
    }
    line.push(b'}');
    String::from_utf8(line).unwrap_or_default()
}

impl Join {
    /// Runs a transition of owned rows and has the logs tell of it.
    ///
    /// It is acknowledged by its commit; where a thread folds in the background, it copies the lines too, a moment later.
    /// Whoever appends to those logs or reads them in this process finds the lines there. A line that cannot be copied now (disk full, a log that is locked or closed)
    /// waits in the outbox, undoes nothing, and holds up that session's lines only.
    pub fn transact<T: Send + 'static>(
        &self,
        durability: Durability,
        f: impl FnMut(&mut Tx<'_>) -> Result<(T, Vec<Told>)> + Send + 'static,
    ) -> Result<T> {
        let (answer, told) = self.write(durability, f)?;
        if mutant::is(Mutant::NoOutbox) {
            for told in told {
                let mut batch = Batch::new(&self.limits);
                batch.push(told.line.as_bytes())?;
                self.append(&told.session, &batch, &Append { durability, if_position: None })?;
            }
            return Ok(answer);
        }
        if told.is_empty() {
            return Ok(answer);
        }
        let mut sessions: Vec<SessionId> = told.into_iter().map(|told| told.session).collect();
        sessions.sort();
        sessions.dedup();
        if self.owed.add(&sessions) {
            return Ok(answer);
        }
        for session in sessions {
            // A failure is kept beside the line for doctor to show; opening and folding try again.
            let _ = self.drain(&session);
        }
        Ok(answer)
    }

    /// Puts the lines into a session's log that the thread in the background has not copied yet, so that what comes now
    /// comes after them. Syncing them is left to it.
    pub(crate) fn put_owed(&self, session: &SessionId) {
        if !self.owed.has(session) {
            return;
        }
        let home = self.home;
        // What cannot be put waits, as it would without a thread.
        let _ =
            self.state.read(|tx| Ok::<_, Error>(outbox::pending(tx, session, &home, DRAIN_ROWS)?)).and_then(|rows| {
                if rows.len() < DRAIN_ROWS as usize {
                    self.copy(session, &rows).map(drop)
                } else {
                    self.drain(session).map(drop)
                }
            });
    }

    /// Copies a session's waiting lines to its log; says how many left the outbox.
    pub fn drain(&self, session: &SessionId) -> Result<usize> {
        let mut drained = 0;
        loop {
            let copied = self.copy_waiting(session)?;
            if copied.is_empty() {
                return Ok(drained);
            }
            drained += self.forget(copied)?;
        }
    }

    /// Copies the first of a session's waiting lines to its log and syncs them; says which may be forgotten.
    pub(crate) fn copy_waiting(&self, session: &SessionId) -> Result<Vec<OutboxKey>> {
        let home = self.home;
        let rows = self.state.read(|tx| outbox::pending(tx, session, &home, DRAIN_ROWS))?;
        let Some(first) = rows.first() else { return Ok(Vec::new()) };
        let copied = self.copy(session, &rows).and_then(|(open, end)| Ok(open.writer.sync_to(end)?));
        if let Err(error) = copied {
            let text: String = error.to_string().chars().take(1024).collect();
            let first = first.clone().into();
            let _ = self.write(Durability::Process, move |tx| Ok(outbox::note_failure(tx, &first, &text)?));
            return Err(error);
        }
        Ok(rows.into_iter().map(OutboxKey::from).collect())
    }

    /// Takes lines out of the outbox that are in their logs and synced; says how many there were.
    pub(crate) fn forget(&self, copied: Vec<OutboxKey>) -> Result<usize> {
        self.write(Durability::Process, move |tx| Ok(outbox::delete(tx, &copied)?))
    }

    /// Appends the lines that are not in the log yet; once they are synced up to there, their rows may go.
    fn copy(&self, session: &SessionId, rows: &[OutboxRow]) -> Result<(Arc<OpenLog>, Position)> {
        match self.try_copy(session, rows) {
            Err(Error::Log(error)) if error.lost_its_file() => self.try_copy(session, rows),
            other => other,
        }
    }

    fn try_copy(&self, session: &SessionId, rows: &[OutboxRow]) -> Result<(Arc<OpenLog>, Position)> {
        let open = self.open_log(session)?;
        let flight = self.enter(&open)?;
        let mut batch = Batch::new(&self.limits);
        for row in rows {
            batch.push(row.line.as_bytes())?;
        }
        // A floor of another epoch speaks of a log that is no longer there.
        let floor = |row: &OutboxRow| if row.epoch == open.epoch { row.floor } else { Position::ZERO };
        let lowest = rows.iter().map(floor).min().unwrap_or(Position::ZERO);
        let appended =
            open.writer.append_absent(&batch, lowest).map_err(|error| self.look_again(session, &open, error))?;
        self.note_or_keep(&open, appended.mend);
        drop(flight);
        self.feed.wake(session);
        Ok((open, appended.end))
    }
}

//! Lines that tell of a row: written in the row's transaction, copied to the log after it, exactly once (R2).

use std::collections::HashMap;
use std::sync::Arc;

use duolog_log::{Append, Error as LogError};
use duolog_state::Tx;
use duolog_state::owned::outbox::{self, NewOutbox, OutboxKey, OutboxRow};
use duolog_types::limits::OUTBOX_LINE_BYTES_MAX;
use duolog_types::{
    Batch, Bounded, Durability, Epoch, OutboxId, Position, SessionId, Timestamp, mutant, mutant::Mutant,
};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::marks::CopiedLine;
use crate::open_log::OpenLog;
use crate::store::Join;
use crate::telling::First;

/// The rows one drain takes.
const DRAIN_ROWS: u32 = 256;

/// The lines of one log that may be copied and not yet forgotten; with more they are synced at once.
const COPIED_MAX: usize = 32;

/// A line that waits in the outbox for the commit of its row.
#[derive(Clone, Debug)]
pub struct OutboxLine {
    pub(crate) session: SessionId,
    uuid: OutboxId,
    line: String,
    /// Where its log ended before the commit, if this process has it open.
    pub(crate) not_before: Option<(Epoch, Position)>,
}

/// Has the session's log tell of what this transaction does, as `{"type":"system","subtype":"duolog.<what>",…}`.
///
/// The line gets an id of its own, by which it is known in the log, and the position behind which to look for it.
pub fn tell(
    tx: &mut Tx<'_>,
    session: &SessionId,
    what: &str,
    at: Timestamp,
    fields: &Map<String, Value>,
) -> Result<OutboxLine> {
    tell_if_there(tx, session, what, at, fields)?.ok_or_else(|| Error::NoSession(session.clone()))
}

/// The same, unless there is no such session, or no longer.
pub fn tell_if_there(
    tx: &mut Tx<'_>,
    session: &SessionId,
    what: &str,
    at: Timestamp,
    fields: &Map<String, Value>,
) -> Result<Option<OutboxLine>> {
    let uuid = OutboxId::new();
    let line = line(session, what, uuid, at, fields);
    Bounded::<OUTBOX_LINE_BYTES_MAX>::new("a line about a row", &line)?;
    let new = NewOutbox { uuid, session_id: session, line: &line, created_at: at };
    let is_there = mutant::is(Mutant::NoOutbox) || outbox::insert(tx, &new)?;
    Ok(is_there.then(|| OutboxLine { session: session.clone(), uuid, line, not_before: None }))
}

/// The line as it will stand in the log.
fn line(session: &SessionId, what: &str, uuid: OutboxId, at: Timestamp, fields: &Map<String, Value>) -> String {
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
    /// Writes the lines of a committed change to their logs. What cannot be written now waits, and the next append or
    /// change of this process that concerns that log tries again first.
    pub(crate) fn put_told(&self, told: &[OutboxLine]) {
        if mutant::is(Mutant::NoOutbox) {
            for told in told {
                let mut batch = Batch::new(&self.limits);
                if batch.push(told.line.as_bytes()).is_ok() {
                    // A mutant: it writes the line without the outbox and forgets it where that fails.
                    let _ = self.append(&told.session, &batch, &Append::default());
                }
            }
            return;
        }
        if mutant::is(Mutant::LinesLeftWaiting) {
            return;
        }
        let mut sessions: Vec<&SessionId> = told.iter().map(|told| &told.session).collect();
        sessions.sort_unstable();
        sessions.dedup();
        for session in sessions {
            let floors: HashMap<OutboxId, (Epoch, Position)> =
                told.iter().filter_map(|told| Some((told.uuid, told.not_before?))).collect();
            // A failure undoes nothing: it is kept beside the line for doctor to show.
            let put = self.put_lines(session, &floors);
            self.telling.set_owes(session, matches!(&put, Err(error) if !error.is_elsewhere()));
        }
    }

    /// Waits until no change of this process is telling of a session, and writes the lines that wait for it: what comes
    /// now comes after them.
    pub(crate) fn wait_for_lines(&self, session: &SessionId) -> Result<()> {
        match self.telling.wait(session, self.limits.busy_timeout) {
            First::Nothing => Ok(()),
            First::Write => {
                self.put_lines(session, &HashMap::new())?;
                self.telling.set_owes(session, false);
                Ok(())
            }
            First::Late => {
                let path = self.known(session)?.place().path;
                Err(LogError::Busy { path, holder: Some(std::process::id()) }.into())
            }
        }
    }

    /// Writes the lines that wait for a session to its log, unsynced, in their order. They are forgotten once they are
    /// synced: by the fold, or here where many have come together.
    fn put_lines(&self, session: &SessionId, floors: &HashMap<OutboxId, (Epoch, Position)>) -> Result<()> {
        loop {
            let home = self.home;
            let rows = self.state.read(|tx| outbox::pending(tx, session, &home, DRAIN_ROWS))?;
            let Some(first) = rows.first().map(OutboxKey::from) else { return Ok(()) };
            let put = self.copy(session, &rows, floors).and_then(|(open, written)| {
                if written && open.mark.copied().len() < COPIED_MAX {
                    Ok(true)
                } else {
                    self.forget_copied(&open).map(|()| false)
                }
            });
            match put {
                Ok(_) if rows.len() < DRAIN_ROWS as usize => return Ok(()),
                Ok(_) => {}
                Err(error) => {
                    let text: String = error.to_string().chars().take(1024).collect();
                    // The reason is for people; the error itself goes to the caller.
                    let _ = self.write(Durability::Process, move |tx| Ok(outbox::note_failure(tx, &first, &text)?));
                    return Err(error);
                }
            }
        }
    }

    /// Writes a session's waiting lines to its log, syncs them and forgets them; says how many there were.
    pub fn drain(&self, session: &SessionId) -> Result<usize> {
        let mut drained = 0;
        loop {
            let home = self.home;
            let rows = self.state.read(|tx| outbox::pending(tx, session, &home, DRAIN_ROWS))?;
            if rows.is_empty() {
                return Ok(drained);
            }
            let (open, _) = self.copy(session, &rows, &HashMap::new())?;
            self.forget_copied(&open)?;
            drained += rows.len();
        }
    }

    /// Syncs the lines that were copied to a log and forgets them.
    fn forget_copied(&self, open: &OpenLog) -> Result<()> {
        let here = |line: &&CopiedLine| line.epoch == open.epoch;
        let Some(end) = open.mark.copied().iter().filter(here).map(|line| line.end).max() else { return Ok(()) };
        let synced = open.writer.sync_to(end)?;
        let copied = open.mark.take_copied(open.epoch, synced.position());
        let keys: Vec<OutboxKey> = copied.iter().map(|line| line.key.clone()).collect();
        let forgotten = self.write(Durability::Process, move |tx| Ok(outbox::delete(tx, &keys)?));
        if forgotten.is_err() {
            open.mark.copied().extend(copied);
        }
        forgotten.map(drop)
    }

    /// Appends the lines that are not in the log yet. Returns the log, and whether every row was new to this process.
    fn copy(
        &self,
        session: &SessionId,
        rows: &[OutboxRow],
        floors: &HashMap<OutboxId, (Epoch, Position)>,
    ) -> Result<(Arc<OpenLog>, bool)> {
        Self::reopening(|| self.try_copy(session, rows, floors))
    }

    fn try_copy(
        &self,
        session: &SessionId,
        rows: &[OutboxRow],
        floors: &HashMap<OutboxId, (Epoch, Position)>,
    ) -> Result<(Arc<OpenLog>, bool)> {
        let open = self.open_log(session)?;
        let flight = self.enter(&open)?;
        // Two threads that copy at once would each look before the other has noted what it wrote.
        let mut copied = open.mark.copied();
        let is_new =
            |row: &&OutboxRow| !copied.iter().any(|line| line.epoch == open.epoch && line.key.uuid == row.uuid);
        let new: Vec<&OutboxRow> = rows.iter().filter(is_new).collect();
        if new.is_empty() {
            drop((copied, flight));
            return Ok((open, false));
        }
        let mut batch = Batch::new(&self.limits);
        for row in &new {
            batch.push(row.line.as_bytes())?;
        }
        // A floor of another epoch speaks of a log that is no longer there.
        let floor = |row: &OutboxRow| {
            let not_before = floors.get(&row.uuid).copied().unwrap_or((row.epoch, row.floor));
            if not_before.0 == open.epoch { not_before.1 } else { Position::ZERO }
        };
        let lowest = new.iter().map(|row| floor(row)).min().unwrap_or(Position::ZERO);
        let appended = open.writer.append_absent(&batch, lowest);
        if let Ok(appended) = &appended {
            let (epoch, end) = (open.epoch, appended.end);
            copied.extend(new.iter().map(|row| CopiedLine { epoch, end, key: OutboxKey::from(*row) }));
        }
        drop(copied);
        let appended = appended.map_err(|error| self.look_again(session, &open, error))?;
        self.note_or_keep(&open, appended.mend);
        drop(flight);
        self.feed.wake(session);
        Ok((open, true))
    }
}

//! Lines about rows: inserted into the outbox in the row's transaction, appended to the log after it, exactly once
//! (R2).

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
use crate::line_order::BeforeAppend;
use crate::marks::CopiedLine;
use crate::open_log::OpenLog;
use crate::store::Join;

/// The number of rows per query.
const DRAIN_ROWS: u32 = 256;

/// The number of appended lines of one log whose outbox rows may remain; with more they are synced at once.
const COPIED_MAX: usize = 32;

/// A line in the outbox, whose transaction may not be committed yet.
#[derive(Clone, Debug)]
pub struct OutboxLine {
    pub(crate) session: SessionId,
    uuid: OutboxId,
    line: String,
    /// The end of its log before the commit, if this process has the log open.
    pub(crate) not_before: Option<(Epoch, Position)>,
}

/// Adds a line about this transaction to the session's log: `{"type":"system","subtype":"duolog.<what>",…}`.
///
/// The line gets its own uuid, which identifies it in the log, and the position after which to search for it.
pub fn tell(
    tx: &mut Tx<'_>,
    session: &SessionId,
    what: &str,
    at: Timestamp,
    fields: &Map<String, Value>,
) -> Result<OutboxLine> {
    tell_if_there(tx, session, what, at, fields)?.ok_or_else(|| Error::NoSession(session.clone()))
}

/// Adds a line as [`tell`] does. Returns `None` if the session does not exist or is deleted.
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
    let exists = mutant::is(Mutant::NoOutbox) || outbox::insert(tx, &new)?;
    Ok(exists.then(|| OutboxLine { session: session.clone(), uuid, line, not_before: None }))
}

/// Returns the line as it is written to the log.
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
    /// Appends the lines of a committed change to their logs. Lines that cannot be appended now stay in the outbox; the
    /// next append or change of this process that concerns the log tries again first.
    pub(crate) fn append_lines(&self, lines: &[OutboxLine]) {
        if mutant::is(Mutant::NoOutbox) {
            for line in lines {
                let mut batch = Batch::new(&self.limits);
                if batch.push(line.line.as_bytes()).is_ok() {
                    // A mutant: it writes the line without the outbox and drops it if that fails.
                    let _ = self.append(&line.session, &batch, &Append::default());
                }
            }
            return;
        }
        if mutant::is(Mutant::LinesLeftWaiting) {
            return;
        }
        let mut sessions: Vec<&SessionId> = lines.iter().map(|line| &line.session).collect();
        sessions.sort_unstable();
        sessions.dedup();
        for session in sessions {
            let floors: HashMap<OutboxId, (Epoch, Position)> =
                lines.iter().filter_map(|line| Some((line.uuid, line.not_before?))).collect();
            // A failure does not undo the change. It is recorded with the line, for `doctor`.
            let put = self.put_lines(session, &floors);
            self.line_order.set_pending(session, matches!(&put, Err(error) if !error.is_elsewhere()));
        }
    }

    /// Waits until no change of this process is about to append lines to a session's log, and appends its pending
    /// lines: a later append comes after them.
    pub(crate) fn wait_for_lines(&self, session: &SessionId) -> Result<()> {
        match self.line_order.wait(session, self.limits.busy_timeout) {
            BeforeAppend::Nothing => Ok(()),
            BeforeAppend::AppendPending => {
                self.put_lines(session, &HashMap::new())?;
                self.line_order.set_pending(session, false);
                Ok(())
            }
            BeforeAppend::TimedOut => {
                let path = self.known(session)?.place().path;
                Err(LogError::Busy { path, holder: Some(std::process::id()) }.into())
            }
        }
    }

    /// Appends the pending lines of a session to its log in order, unsynced. Their outbox rows are deleted after a
    /// sync: by the fold, or here if there are many.
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
                    // The recorded reason is for people; the error itself goes to the caller.
                    let _ = self.write(Durability::Process, move |tx| Ok(outbox::note_failure(tx, &first, &text)?));
                    return Err(error);
                }
            }
        }
    }

    /// Appends a session's pending lines to its log, syncs them and deletes their outbox rows. Returns how many there
    /// were.
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

    /// Syncs the lines that were appended to a log and deletes their outbox rows.
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

    /// Appends the lines that are not in the log yet. Returns the log, and whether a row was new to this process.
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
        // Held during the append: otherwise two threads could both search before either has recorded its lines.
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
        // A floor of another epoch describes a log that no longer exists.
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

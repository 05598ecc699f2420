//! Exporting a session as a document.

use std::collections::BTreeSet;
use std::io::{Read as _, Write};
use std::ops::Range;

use duolog_join::{Error as JoinError, ReadLog, RecordedLoss};
use duolog_log::Blobs;
use duolog_state::owned::branches;
use duolog_state::owned::messages::{self, Content, MessageRow};
use duolog_state::owned::pool_segments::{self, PoolSegmentRow};
use duolog_state::owned::sessions::{self as table, SessionRow};
use duolog_state::owned::{compactions, message_types, progression_items, progressions, status_transitions};
use duolog_state::{Error as StateError, Tx};
use duolog_types::{BadId, BranchId, MessageId, ProgressionId, SessionId};
use serde::Serialize;

use super::document::{
    BLOBS, BRANCHES, BlobPart, BranchPart, COMPACTIONS, CompactionPart, ITEMS, ItemPart, LOG, LOST_BYTES, LinePart,
    MESSAGES, MessagePart, PROGRESSIONS, ProgressionPart, SESSION, STATUSES, SessionPart, StatusPart, VERSION,
    VERSION_KEY,
};
use crate::error::{Damaged, Error, Invalid, Io, NotFound, Result};
use crate::import::{Mapped, MappedItem, MappedMessage};
use crate::sessions::Sessions;
use crate::sessions::contents::Contents;

/// The number of rows that are read at a time.
const ROWS: u32 = 256;

/// The content of a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// The number of branches.
    pub branches: u64,
    /// The number of messages.
    pub messages: u64,
    /// The number of log lines.
    pub lines: u64,
    /// The loss of the log that is on record. The document has the lines that are there.
    pub recorded_loss: Option<RecordedLoss>,
}

impl Sessions {
    /// Writes a session as one document: its row, its status history, its conversations and the lines of its log. The
    /// rows are from one snapshot; the log is at least as new.
    ///
    /// Memory is bounded by the largest message, line or blob. Blobs are included in the document.
    ///
    /// # Errors
    ///
    /// Returns an error if the log lacks recorded bytes and the loss is not on record yet, or if the output cannot be
    /// written.
    pub fn export(&self, session: &SessionId, out: &mut dyn Write) -> Result<Exported> {
        // A log that cannot be read or lacks lines is refused before anything is written, and again when the lines are
        // read.
        self.whole_log(session)?;
        let mut document = Document { out, exported: Exported::default() };
        let contents = Contents::of(&self.store.join);
        self.store.join.state().read(|tx| {
            let row = table::find(tx, session)?.filter(|row| row.deleted_at.is_none());
            let row = row.ok_or_else(|| Error::NotFound(NotFound::Session(session.to_string())))?;
            document.rows(tx, row, &contents)
        })?;
        self.lines(session, &mut document)?;
        if let Some(loss) = document.exported.recorded_loss {
            document.raw(format!(",\n\"{LOST_BYTES}\":{}", loss.bytes).as_bytes())?;
        }
        document.raw(b"}\n")?;
        Ok(document.exported)
    }

    /// Returns the log, if it has all recorded bytes.
    fn whole_log(&self, session: &SessionId) -> Result<ReadLog> {
        let log = self.store.join.read_log(session)?;
        match log.loss {
            Some(loss) => Err(JoinError::LogLost { session: session.clone(), loss }.into()),
            None => Ok(log),
        }
    }

    fn lines(&self, session: &SessionId, document: &mut Document<'_>) -> Result<()> {
        let join = &self.store.join;
        let (mut entries, mut named) = (document.list(LOG)?, BTreeSet::new());
        let ReadLog { reader, end, recorded_loss, .. } = self.whole_log(session)?;
        if let Some(reader) = reader {
            let mut lines = reader.lines(reader.first(), end, join.limits().line_bytes_max)?;
            while let Some(item) = lines.next()? {
                match item {
                    duolog_log::Item::Line(line) => {
                        named.extend(duolog_log::references(line.bytes));
                        entries.push(&LinePart::of(line.bytes.to_vec()))?;
                    }
                    duolog_log::Item::TooLong { start, end } => {
                        let why = format!("{start} to {end} is too long: raise limits.line_bytes_max");
                        return Err(Error::Invalid(Invalid::Value { what: "the log's line from", why }));
                    }
                }
            }
        }
        document.exported.lines = entries.end()?;
        document.exported.recorded_loss = recorded_loss;
        let (mut entries, blobs) = (document.list(BLOBS)?, Blobs::on(join.disk()));
        for id in named {
            let mut bytes = Vec::new();
            match blobs.open(&id).map(|mut blob| blob.read_to_end(&mut bytes)) {
                Ok(Ok(_)) => entries.push(&BlobPart { id: id.to_string(), bytes: LinePart::of(bytes) })?,
                // A lost or damaged blob is left out; the line still refers to it.
                Ok(Err(_)) | Err(duolog_log::Error::NoBlob(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        entries.end().map(drop)
    }
}

/// Writes a session that was converted from another program's rows.
pub(crate) fn write_mapped(mapped: Mapped, out: &mut dyn Write) -> Result<()> {
    let Mapped { session, statuses, progressions, messages, items, branches, .. } = mapped;
    let mut document = Document { out, exported: Exported::default() };
    document.session(session)?;
    document.whole(STATUSES, statuses.into_iter().map(StatusPart::from))?;
    document.whole(PROGRESSIONS, progressions.iter().map(ProgressionPart::from))?;
    let messages = (0..).zip(messages).map(|(ord, MappedMessage { row, class })| {
        let text = match row.content.clone() {
            Content::Text(text) => text,
            Content::Blob { blob, .. } => blob,
        };
        MessagePart::of(row, ord, text, class)
    });
    document.whole(MESSAGES, messages)?;
    let items = items.into_iter().map(|MappedItem { progression, ord, message }| ItemPart {
        progression_id: progression.to_string(),
        ord,
        message_id: message.to_string(),
    });
    document.whole(ITEMS, items)?;
    document.whole(BRANCHES, branches.into_iter().map(BranchPart::from))?;
    for empty in [COMPACTIONS, LOG, BLOBS] {
        document.whole(empty, std::iter::empty::<()>())?;
    }
    document.raw(b"}\n")
}

/// A document that is being written.
struct Document<'o> {
    out: &'o mut dyn Write,
    exported: Exported,
}

/// A list in the document.
struct List<'d> {
    out: &'d mut dyn Write,
    len: u64,
}

impl List<'_> {
    fn push(&mut self, entry: &impl Serialize) -> Result<()> {
        self.out.write_all(if self.len == 0 { b"\n" } else { b",\n" }).map_err(|error| Error::Io(Io::Output(error)))?;
        self.len += 1;
        serde_json::to_writer(&mut *self.out, entry).map_err(|error| Error::Io(Io::Output(error.into())))
    }

    fn end(self) -> Result<u64> {
        self.out.write_all(if self.len == 0 { b"]" } else { b"\n]" }).map_err(|error| Error::Io(Io::Output(error)))?;
        Ok(self.len)
    }
}

impl Document<'_> {
    fn raw(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(|error| Error::Io(Io::Output(error)))
    }

    fn list(&mut self, name: &str) -> Result<List<'_>> {
        self.raw(format!(",\n\"{name}\":[").as_bytes())?;
        Ok(List { out: self.out, len: 0 })
    }

    fn session(&mut self, row: SessionRow) -> Result<()> {
        self.raw(format!("{{\"{VERSION_KEY}\":{VERSION},\n\"{SESSION}\":").as_bytes())?;
        serde_json::to_writer(&mut *self.out, &SessionPart::from(row))
            .map_err(|error| Error::Io(Io::Output(error.into())))
    }

    /// Writes a complete list.
    fn whole<P: Serialize>(&mut self, name: &str, parts: impl Iterator<Item = P>) -> Result<()> {
        let mut entries = self.list(name)?;
        for part in parts {
            entries.push(&part)?;
        }
        entries.end().map(drop)
    }

    /// Writes everything except for the log.
    fn rows(&mut self, tx: &mut Tx<'_>, row: SessionRow, contents: &Contents) -> Result<()> {
        let (id, pool) = (row.id.clone(), row.progression_id.clone());
        let damaged = |error: BadId| StateError::Damaged { what: format!("session {id}"), detail: error.to_string() };
        let pool = pool.map(|pool| ProgressionId::parse(&pool)).transpose().map_err(damaged)?;
        self.session(row)?;
        self.statuses(tx, &id)?;
        let progressions = self.progressions(tx, &id)?;
        self.messages(tx, &id, contents)?;
        let mut entries = self.list(ITEMS)?;
        for progression in progressions.iter().filter(|progression| pool.as_ref() != Some(progression)) {
            each_place(tx, progression, None, |_, ord, message| {
                let (progression_id, message_id) = (progression.to_string(), message.to_string());
                entries.push(&ItemPart { progression_id, ord, message_id })
            })?;
        }
        entries.end()?;
        let branches = self.branches(tx, &id)?;
        self.compactions(tx, &branches)
    }

    fn statuses(&mut self, tx: &mut Tx<'_>, session: &SessionId) -> Result<()> {
        let (mut entries, mut after) = (self.list(STATUSES)?, 0);
        loop {
            let rows = status_transitions::oldest(tx, session, after, ROWS)?;
            let Some((last, _)) = rows.last() else { return entries.end().map(drop) };
            after = *last;
            for (_, row) in rows {
                entries.push(&StatusPart::from(row))?;
            }
        }
    }

    /// Writes the progressions, each after its parent. Returns their ids.
    fn progressions(&mut self, tx: &mut Tx<'_>, session: &SessionId) -> Result<Vec<ProgressionId>> {
        let (mut entries, mut ids) = (self.list(PROGRESSIONS)?, Vec::new());
        let mut after: Option<(u64, ProgressionId)> = None;
        loop {
            let from = after.as_ref().map(|(base_ord, id)| (*base_ord, id));
            let rows = progressions::of_session(tx, session, from, ROWS)?;
            let Some(last) = rows.last() else {
                entries.end()?;
                return Ok(ids);
            };
            after = Some((last.base_ord, last.id.clone()));
            for row in rows {
                entries.push(&ProgressionPart::from(&row))?;
                ids.push(row.id);
            }
        }
    }

    /// Writes every message of the session once, in the order of its pool.
    fn messages(&mut self, tx: &mut Tx<'_>, session: &SessionId, contents: &Contents) -> Result<()> {
        let (mut entries, mut after) = (self.list(MESSAGES)?, None);
        loop {
            let segments = pool_segments::list(tx, session, after, ROWS)?;
            let Some(last) = segments.last() else { break };
            after = Some(last.ord);
            for PoolSegmentRow { ord: first, progression_id, from_ord, to_ord } in segments {
                let places = from_ord..to_ord.unwrap_or(u64::MAX);
                each_place(tx, &progression_id, Some(places), |tx, ord, id| {
                    let broken = |detail| Error::Damaged(Damaged::Item { message: id.clone(), detail });
                    let row = messages::find(tx, &id)?.ok_or_else(|| broken("it is not there".to_owned()))?;
                    let class = class_of(tx, &row)?;
                    let text = contents.text(Ok(row.content.clone())).map_err(broken)?;
                    entries.push(&MessagePart::of(row, first + (ord - from_ord), text, class))
                })?;
            }
        }
        self.exported.messages = entries.end()?;
        Ok(())
    }

    /// Writes the branches, each after its parent. Returns their ids in this order.
    fn branches(&mut self, tx: &mut Tx<'_>, session: &SessionId) -> Result<Vec<BranchId>> {
        let mut entries = self.list(BRANCHES)?;
        let (mut ids, mut at) = (Vec::new(), 0);
        forks(tx, session, None, &mut entries, &mut ids)?;
        while let Some(parent) = ids.get(at).cloned() {
            forks(tx, session, Some(&parent), &mut entries, &mut ids)?;
            at += 1;
        }
        self.exported.branches = entries.end()?;
        Ok(ids)
    }

    fn compactions(&mut self, tx: &mut Tx<'_>, branches: &[BranchId]) -> Result<()> {
        let mut entries = self.list(COMPACTIONS)?;
        for branch in branches {
            let mut after = 0;
            loop {
                let rows = compactions::oldest(tx, branch, after, ROWS)?;
                let Some(last) = rows.last() else { break };
                after = last.seq;
                for row in rows {
                    entries.push(&CompactionPart::from(row))?;
                }
            }
        }
        entries.end().map(drop)
    }
}

/// Passes the entries of a progression in order: those in the given range, or all of them.
fn each_place(
    tx: &mut Tx<'_>,
    progression: &ProgressionId,
    meant: Option<Range<u64>>,
    mut each: impl FnMut(&mut Tx<'_>, u64, MessageId) -> Result<()>,
) -> Result<()> {
    let Range { start: mut from, end } = meant.unwrap_or(0..u64::MAX);
    loop {
        let places = progression_items::from(tx, progression, from, ROWS)?;
        let Some((last, _)) = places.last() else { return Ok(()) };
        from = last + 1;
        for (ord, message) in places {
            if ord >= end {
                return Ok(());
            }
            each(tx, ord, message)?;
        }
    }
}

/// Writes the branches that were forked from `parent`, or those without a parent.
fn forks(
    tx: &mut Tx<'_>,
    session: &SessionId,
    parent: Option<&BranchId>,
    entries: &mut List<'_>,
    ids: &mut Vec<BranchId>,
) -> Result<()> {
    let mut after: Option<BranchId> = None;
    loop {
        let rows = branches::forks(tx, session, parent, after.as_ref(), ROWS)?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = Some(last.id.clone());
        for row in rows {
            ids.push(row.id.clone());
            entries.push(&BranchPart::from(row))?;
        }
    }
}

/// Returns the name of a message's class; `None` if it has none.
fn class_of(tx: &mut Tx<'_>, row: &MessageRow) -> Result<Option<String>> {
    if row.lion_class == message_types::UNKNOWN {
        return Ok(None);
    }
    Ok(message_types::class_of(tx, row.lion_class)?)
}

//! Indexing: adds the folded, and so synced, lines after each session's checkpoint to the index.
//!
//! A batch is one transaction over several sessions or a part of one. If the process dies, the earlier batches are
//! kept.

use std::collections::{HashMap, HashSet};

use duolog_join::LogStanding;
use duolog_log::Reader;
use duolog_search::{Batch, Doc, IndexProgress, IndexedTo, Indexing, SourceId};
use duolog_types::limits::INDEX_BATCH_BYTES;
use duolog_types::{Epoch, Position, SessionId};

use super::model::Indexed;
use super::reading::Reading;
use crate::error::Result;
use crate::store::Store;

/// The progress of the index by session.
pub(super) type Known = HashMap<SessionId, IndexProgress>;

/// The number of sessions that are removed in one transaction.
const FORGOTTEN_AT_ONCE: usize = 64;

/// The pending work, found without opening a log.
pub(super) struct Work<'w> {
    /// Sessions that are in the index and were deleted.
    gone: Vec<SessionId>,
    /// Logs with folded lines that are not in the index.
    behind: Vec<&'w LogStanding>,
    bytes: u64,
}

impl<'w> Work<'w> {
    /// Compares the index with every log, and finds new lines in `logs`.
    pub(super) fn of(known: &Known, every: &[LogStanding], logs: &[&'w LogStanding]) -> Self {
        let there: HashSet<&SessionId> = every.iter().map(|log| &log.session).collect();
        let gone = known.keys().filter(|session| !there.contains(session)).cloned().collect();
        let behind: Vec<_> = logs.iter().filter_map(|log| Some((*log, bytes_behind(known, log)?))).collect();
        let bytes = behind.iter().map(|(_, bytes)| bytes).sum();
        Self { gone, behind: behind.into_iter().map(|(log, _)| log).collect(), bytes }
    }

    pub(super) fn is_done(&self) -> bool {
        self.gone.is_empty() && self.behind.is_empty()
    }
}

/// Adds folded lines to the index, about `budget` bytes of them.
pub(super) struct Fold<'f> {
    pub(super) store: &'f Store,
    pub(super) indexing: &'f Indexing<'f>,
    pub(super) budget: u64,
    pub(super) tell: &'f mut dyn FnMut(&Indexed),
}

/// A batch and the number of log bytes in it.
struct Open<'b> {
    batch: Batch<'b>,
    bytes: u64,
}

/// A log that is being indexed.
struct Pass<'p> {
    session: &'p SessionId,
    epoch: Epoch,
    reader: Reader,
    reading: Reading,
    /// The checkpoint in the index; `None` if the log is indexed from its start.
    checkpoint: Option<IndexedTo>,
    at: Position,
    to: Position,
}

impl Fold<'_> {
    /// Removes deleted sessions and adds new lines.
    pub(super) fn run(&mut self, work: &Work<'_>) -> Result<Indexed> {
        self.forget(&work.gone)?;
        let mut done = Indexed { of_bytes: work.bytes, ..Indexed::default() };
        (self.tell)(&done);
        let mut open = Open { batch: self.indexing.batch()?, bytes: 0 };
        for log in &work.behind {
            if done.bytes >= self.budget {
                break;
            }
            match self.add(&mut open, log, &mut done) {
                // A log that cannot be read does not block the others, and a search that includes it reports it.
                Err(error) if error.join().is_some() => {
                    done.failed.push((log.session.clone(), duolog_types::with_causes(&error)));
                }
                other => other?,
            }
        }
        open.batch.commit()?;
        (self.tell)(&done);
        self.indexing.settle()?;
        Ok(done)
    }

    /// Adds the new lines of one log.
    fn add(&mut self, open: &mut Open<'_>, log: &LogStanding, done: &mut Indexed) -> Result<()> {
        let Some(mut pass) = self.begin(&mut open.batch, log)? else { return Ok(()) };
        done.sessions += 1;
        while pass.at < pass.to && done.bytes < self.budget {
            if open.bytes >= INDEX_BATCH_BYTES {
                open.batch.commit_and_continue()?;
                open.bytes = 0;
                (self.tell)(done);
            }
            let room = (INDEX_BATCH_BYTES - open.bytes).min(self.budget - done.bytes);
            let before = pass.at;
            let outcome = self.step(&mut open.batch, &mut pass, room, done);
            let read = pass.at.0 - before.0;
            open.bytes += read;
            done.bytes += read;
            // Another process was faster, or the last line is incomplete: the log was changed, and the next append or
            // fold notices that.
            if !outcome? || read == 0 {
                break;
            }
        }
        Ok(())
    }

    fn forget(&self, gone: &[SessionId]) -> Result<()> {
        for sessions in gone.chunks(FORGOTTEN_AT_ONCE) {
            let mut batch = self.indexing.batch()?;
            for session in sessions {
                batch.forget(session)?;
            }
            batch.commit()?;
        }
        Ok(())
    }

    /// Opens a log at its checkpoint, or at its start if it is not the log that was indexed.
    fn begin<'p>(&self, batch: &mut Batch<'_>, log: &'p LogStanding) -> Result<Option<Pass<'p>>> {
        let Some(to) = log.folded_to else { return Ok(None) };
        let join = &self.store.join;
        let line_bytes_max = join.limits().line_bytes_max;
        let reader = match join.reader(&log.session) {
            Ok(Some(reader)) => reader,
            // Deleted or removed in the meantime.
            Ok(None) | Err(duolog_join::Error::NoSession(_) | duolog_join::Error::Deleted(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let found = self.indexing.checkpoint(&log.session)?;
        if let Some(checkpoint) = &found
            && let Some(reading) = resume(checkpoint, log.epoch, &reader, to, line_bytes_max)?
        {
            let (session, epoch, at) = (&log.session, log.epoch, checkpoint.position);
            return Ok(Some(Pass { session, epoch, reader, reading, checkpoint: found, at, to }));
        }
        if found.is_some() {
            batch.forget(&log.session)?;
        }
        let reading = Reading::begin(&reader, to, line_bytes_max)?;
        let at = reader.first();
        Ok(Some(Pass { session: &log.session, epoch: log.epoch, reader, reading, checkpoint: None, at, to }))
    }

    /// Adds the next lines, about `room` bytes of them. Returns false if another process was faster.
    fn step(&self, batch: &mut Batch<'_>, pass: &mut Pass<'_>, room: u64, done: &mut Indexed) -> Result<bool> {
        let Some(source) = batch.source(pass.session, pass.checkpoint.as_ref())? else { return Ok(false) };
        let read = add_lines(batch, source, pass, room, self.store.join.limits().line_bytes_max, done);
        if read.as_ref().is_err_and(|error| error.index().is_some()) {
            return read.map(|()| false);
        }
        // Also if the log could not be read any further: the lines that were added are before this position.
        let line_bytes_max = self.store.join.limits().line_bytes_max;
        let checkpoint = IndexedTo {
            epoch: pass.epoch,
            position: pass.at,
            // If the line cannot be read, no line has this hash, and the next search indexes the log again.
            line_hash: pass.reader.line_hash_at(pass.at, line_bytes_max).unwrap_or(Some([0; 32])),
            damaged: pass.reading.damaged,
            memory: pass.reading.memory(),
        };
        batch.advance(source, &checkpoint)?;
        pass.checkpoint = Some(checkpoint);
        read.map(|()| true)
    }
}

fn add_lines(
    batch: &mut Batch<'_>,
    source: SourceId,
    pass: &mut Pass<'_>,
    room: u64,
    line_bytes_max: usize,
    done: &mut Indexed,
) -> Result<()> {
    let from = pass.at;
    let mut lines = pass.reader.lines(from, pass.to, line_bytes_max)?;
    while pass.at.0 - from.0 < room
        && let Some(item) = lines.next()?
    {
        let end = item.end();
        pass.reading.line(item, line_bytes_max, &mut |text| {
            // An empty text never matches.
            if text.words.is_empty() {
                return Ok(());
            }
            done.texts += 1;
            let item = text.item;
            let doc = Doc {
                position: item.position,
                part: item.part,
                at: text.at,
                kind: item.kind.word(),
                role: item.role.as_deref(),
                tool: item.tool.as_deref(),
                text: text.words,
            };
            Ok(batch.add(source, &doc)?)
        })?;
        pass.at = end;
    }
    Ok(())
}

/// Returns the number of folded bytes of a log that are not in the index; `None` if there are none.
fn bytes_behind(known: &Known, log: &LogStanding) -> Option<u64> {
    let to = log.folded_to?;
    match known.get(&log.session) {
        Some(there) if there.epoch == log.epoch && there.position == to => None,
        Some(there) if there.epoch == log.epoch && there.position < to => Some(to.0 - there.position.0),
        _ => Some(to.0),
    }
}

/// Continues reading after a checkpoint, if the log is still the one that was indexed.
pub(super) fn resume(
    checkpoint: &IndexedTo,
    epoch: Epoch,
    reader: &Reader,
    to: Position,
    line_bytes_max: usize,
) -> Result<Option<Reading>> {
    if checkpoint.epoch != epoch || checkpoint.position > to {
        return Ok(None);
    }
    if let Some(hash) = checkpoint.line_hash
        && reader.line_hash_at(checkpoint.position, line_bytes_max)? != Some(hash)
    {
        return Ok(None);
    }
    Reading::go_on(&checkpoint.memory, checkpoint.damaged, reader, to, line_bytes_max)
}

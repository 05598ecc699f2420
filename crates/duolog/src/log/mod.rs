//! The log of one session: append, record, read, replay, follow, verify and repair. All logs of a home are one stream.

mod blob;
mod directory;
mod follow;
mod foreign;
mod model;
mod record;
mod replay;
mod rules;
mod stream;

#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

use duolog_join::{Committed, Loss, ReadLog, RecordedLoss, Repaired, Verified};
use duolog_log::{Append, Block, Item, split_lines};
use duolog_types::line::{check_outline, count_outlined};
use duolog_types::{Batch, Cursor, Durability, OperationId, Position, SessionId};

pub use directory::{Directory, DirectoryLog};
pub use duolog_log::dialect::call::{Call, CallLine, call};
pub use duolog_log::dialect::text::readable;
pub use duolog_log::dialect::turn::Turn;
pub use duolog_log::dialect::{Boundary, Dialect, ItemKind, TimelineItem};
pub use duolog_log::{Progress, ResetReason, Start};
pub use duolog_state::owned::repairs::RepairRow as RecordedRepair;
pub use follow::Follow;
pub use foreign::Foreign;
pub use model::{
    AppendOptions, BadEvent, Ending, Entries, Entry, Full, ReadFrom, RecordFormat, RecordOptions, Recorded,
    ReplayDetail, ReplayEvent, TurnAt, TurnEnd,
};
pub use record::Recording;
pub use replay::{Replay, Replayable};
pub use stream::{Notice, Source, Stream, Streamed};

use crate::error::Result;
use crate::store::Store;

/// The handle for the log of one session.
#[derive(Clone)]
pub struct Log {
    pub(crate) store: Store,
    pub(crate) session: SessionId,
}

impl Log {
    /// Appends a batch: all of its lines in one piece, or none. Returns when the batch is as durable as requested.
    ///
    /// # Errors
    ///
    /// Returns an error if the session does not exist, the log is closed to appends, or the lines cannot be written. An
    /// error of the kind [`ErrorKind::Unknown`](crate::ErrorKind::Unknown) means that the lines may have been appended.
    pub fn append(&self, batch: &Batch, durability: Durability) -> Result<Committed> {
        self.append_with(batch, &AppendOptions { durability, ..AppendOptions::default() })
    }

    /// Appends a batch with options: only if the log ends at a position, or only once under an operation id.
    ///
    /// # Errors
    ///
    /// The same as for [`Self::append`]. Returns an error of the kind [`ErrorKind::Stale`](crate::ErrorKind::Stale) if
    /// the log does not end at that position.
    pub fn append_with(&self, batch: &Batch, options: &AppendOptions) -> Result<Committed> {
        let join = &self.store.join;
        let how = Append { durability: options.durability, if_position: options.if_position };
        Ok(match &options.operation {
            Some(operation) => join.append_once(&self.session, operation, batch, &how)?,
            None => join.append(&self.session, batch, &how)?,
        })
    }

    /// Returns the position after the last complete line.
    pub fn end(&self) -> Result<Position> {
        Ok(self.store.join.read_log(&self.session)?.end)
    }

    /// Returns the recorded bytes that the log lacks; `None` if it is complete.
    pub fn loss(&self) -> Result<Option<Loss>> {
        Ok(self.store.join.read_log(&self.session)?.loss)
    }

    /// Returns the loss that is on record for the log; `None` if there was none, or if the log was deleted since.
    pub fn recorded_loss(&self) -> Result<Option<RecordedLoss>> {
        Ok(self.store.join.read_log(&self.session)?.recorded_loss)
    }

    /// Passes entries to `each` in order until it returns [`ControlFlow::Break`]. Returns the position after the last
    /// entry.
    ///
    /// Memory is bounded by the longest line. A line that is not UTF-8, contains a NUL or is not enclosed in braces is
    /// passed as [`Entry::Damaged`]; the lines after it follow. Only [`Self::verify`] parses lines. If the log lacks
    /// recorded bytes, or lost some before, that is the first entry.
    pub fn read(&self, from: ReadFrom, mut each: impl FnMut(Entry<'_>) -> ControlFlow<()>) -> Result<Position> {
        let mut stopped = None;
        let end = self.read_blocks(from, |block| match block {
            Entries::Single(entry) => each(entry),
            Entries::Lines { start, bytes, .. } => {
                stopped =
                    split_lines(start, bytes).find(|line| each(Entry::Line(*line)).is_break()).map(|line| line.end);
                if stopped.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            }
        })?;
        Ok(stopped.unwrap_or(end))
    }

    /// Reads the same entries as [`Self::read`], but passes undamaged lines in blocks. Use it to copy lines.
    pub fn read_blocks(
        &self,
        from: ReadFrom,
        mut each: impl FnMut(Entries<'_>) -> ControlFlow<()>,
    ) -> Result<Position> {
        let ReadLog { reader, end, loss, recorded_loss } = self.store.join.read_log(&self.session)?;
        let losses = loss.map(Entry::Lost).into_iter().chain(recorded_loss.map(Entry::LostEarlier));
        for loss in losses {
            if each(Entries::Single(loss)).is_break() {
                return Ok(end);
            }
        }
        let Some(reader) = reader else { return Ok(end) };
        let start = match from {
            ReadFrom::Start => reader.first(),
            ReadFrom::Position(position) => position,
            ReadFrom::Last(count) => reader.start_of_last(count, end)?,
        };
        let line_bytes_max = self.store.join.limits().line_bytes_max;
        // A position after the end is an error of the caller, which the reader reports.
        let mut lines = reader.lines(start, end.max(start), line_bytes_max)?;
        while let Some(block) = lines.block()? {
            let (start, bytes) = match block {
                Block::Lines { start, bytes } => (start, bytes),
                Block::TooLong { start, end } => {
                    let entry = Entry::of(Item::TooLong { start, end }, line_bytes_max);
                    if each(Entries::Single(entry)).is_break() {
                        return Ok(end);
                    }
                    continue;
                }
            };
            if let Some(count) = count_outlined(bytes, line_bytes_max) {
                if each(Entries::Lines { start, bytes, count }).is_break() {
                    break;
                }
                continue;
            }
            for line in split_lines(start, bytes) {
                if each(Entries::Single(Entry::of(Item::Line(line), line_bytes_max))).is_break() {
                    return Ok(line.end);
                }
            }
        }
        Ok(lines.position())
    }

    /// Returns the last `count` lines, oldest first. They are all held in memory.
    pub fn last(&self, count: u64) -> Result<Vec<Vec<u8>>> {
        let mut lines = Vec::new();
        self.read(ReadFrom::Last(count), |entry| {
            if let Entry::Line(line) = entry {
                lines.push(line.bytes.to_vec());
            }
            ControlFlow::Continue(())
        })?;
        Ok(lines)
    }

    /// Returns the full text of a line that was shortened, by the reference in the line: `blob:<sha256>`.
    pub fn full(&self, reference: &str) -> Result<Full> {
        self.store.join.state().check()?;
        blob::find(self.store.join.disk(), reference, self.store.join.limits().line_bytes_max)
    }

    /// Follows the log from a cursor, or from the first line.
    pub fn follow(&self, from: Option<Cursor>) -> Result<Follow> {
        Ok(Follow::new(&self.store, self.store.join.follow(&self.session, from)?))
    }

    /// Checks every line and every seal. `each` is called with the bytes checked and the total.
    pub fn verify(&self, each: impl FnMut(u64, u64)) -> Result<Verified> {
        Ok(self.store.join.verify(&self.session, each)?)
    }

    /// Repairs the log and returns the repairs that were made.
    pub fn repair(&self) -> Result<Repaired> {
        let repaired = self.store.join.repair_once(self.store.request_key()?.as_ref(), &self.session)?;
        self.store.end_request();
        Ok(repaired)
    }
}

impl Replayable for Log {
    fn entries(&self, from: ReadFrom, each: &mut dyn FnMut(Entry<'_>) -> ControlFlow<()>) -> Result<Position> {
        self.read(from, each)
    }
}

impl<'b> Entry<'b> {
    /// Returns the entry for an item of a follower: a line, or damaged bytes if it cannot be read.
    pub fn of(item: Item<'b>, line_bytes_max: usize) -> Self {
        match item {
            Item::Line(line) => match check_outline(line.bytes, line_bytes_max) {
                Ok(()) => Self::Line(line),
                Err(fault) => Self::Damaged { start: line.start, end: line.end, reason: fault.to_string() },
            },
            Item::TooLong { start, end } => {
                let reason = format!("it is {} bytes long, over the limit of {line_bytes_max}", end.0 - start.0);
                Self::Damaged { start, end, reason }
            }
        }
    }
}

impl AppendOptions {
    /// Sets the operation id, so that a retry appends nothing.
    #[must_use]
    pub fn once(mut self, operation: OperationId) -> Self {
        self.operation = Some(operation);
        self
    }
}

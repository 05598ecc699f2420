//! The log of one session: appending, recording, reading, replaying, following, verifying, repairing. And all of them at
//! once, as a stream.

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

/// The log of one session.
#[derive(Clone)]
pub struct Log {
    pub(crate) store: Store,
    pub(crate) session: SessionId,
}

impl Log {
    /// Appends a batch: all of its lines, in one piece, or none. Returns once it is as durable as asked.
    pub fn append(&self, batch: &Batch, durability: Durability) -> Result<Committed> {
        self.append_with(batch, &AppendOptions { durability, ..AppendOptions::default() })
    }

    /// Appends a batch only if the log ends at a position, or only once under an operation id.
    pub fn append_with(&self, batch: &Batch, options: &AppendOptions) -> Result<Committed> {
        let join = &self.store.join;
        let how = Append { durability: options.durability, if_position: options.if_position };
        Ok(match &options.operation {
            Some(operation) => join.append_once(&self.session, operation, batch, &how)?,
            None => join.append(&self.session, batch, &how)?,
        })
    }

    /// The position after the last whole line.
    pub fn end(&self) -> Result<Position> {
        Ok(self.store.join.read_log(&self.session)?.end)
    }

    /// What the log lacks of what was recorded of it; `None` if it is complete.
    pub fn loss(&self) -> Result<Option<Loss>> {
        Ok(self.store.join.read_log(&self.session)?.loss)
    }

    /// What the log lost before, as recorded; `None` if nothing, or if the log was deleted since.
    pub fn recorded_loss(&self) -> Result<Option<RecordedLoss>> {
        Ok(self.store.join.read_log(&self.session)?.recorded_loss)
    }

    /// Gives out entries in order until `each` says to stop. Returns the position after the last one given out.
    ///
    /// Memory is bounded by the longest line. A damaged line is given out as such and hides nothing that follows: what is
    /// not UTF-8, holds a NUL or has no braces around it. Only [`Self::verify`] parses lines. A log that lacks recorded
    /// bytes, or lost some before, says so first.
    pub fn read(&self, from: ReadFrom, mut each: impl FnMut(Entry<'_>) -> ControlFlow<()>) -> Result<Position> {
        let mut stopped = None;
        let end = self.read_blocks(from, |block| match block {
            Entries::One(entry) => each(entry),
            Entries::Lines { start, bytes, .. } => {
                stopped =
                    split_lines(start, bytes).find(|line| each(Entry::Line(*line)).is_break()).map(|line| line.end);
                if stopped.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            }
        })?;
        Ok(stopped.unwrap_or(end))
    }

    /// Gives out what [`Self::read`] does, with undamaged lines in blocks as they were read: for copying them.
    pub fn read_blocks(
        &self,
        from: ReadFrom,
        mut each: impl FnMut(Entries<'_>) -> ControlFlow<()>,
    ) -> Result<Position> {
        let ReadLog { reader, end, loss, recorded_loss } = self.store.join.read_log(&self.session)?;
        let losses = loss.map(Entry::Lost).into_iter().chain(recorded_loss.map(Entry::LostEarlier));
        for loss in losses {
            if each(Entries::One(loss)).is_break() {
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
        // A position behind the end is the caller's mistake; the reader says so.
        let mut lines = reader.lines(start, end.max(start), line_bytes_max)?;
        while let Some(block) = lines.block()? {
            let (start, bytes) = match block {
                Block::Lines { start, bytes } => (start, bytes),
                Block::TooLong { start, end } => {
                    let entry = Entry::of(Item::TooLong { start, end }, line_bytes_max);
                    if each(Entries::One(entry)).is_break() {
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
                if each(Entries::One(Entry::of(Item::Line(line), line_bytes_max))).is_break() {
                    return Ok(line.end);
                }
            }
        }
        Ok(lines.position())
    }

    /// The last lines, oldest first, as they stand; for logs whose lines fit in memory that often.
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

    /// The whole of a text that was shortened in its line, by what the line calls it: `blob:<sha256>`.
    pub fn full(&self, reference: &str) -> Result<Full> {
        self.store.join.state().check()?;
        blob::find(self.store.join.disk(), reference, self.store.join.limits().line_bytes_max)
    }

    /// Follows the log from a cursor, or from its first line.
    pub fn follow(&self, from: Option<Cursor>) -> Result<Follow> {
        Ok(Follow::new(&self.store, self.store.join.follow(&self.session, from)?))
    }

    /// Checks every line and every seal; `each` is told how much is done, of how much.
    pub fn verify(&self, each: impl FnMut(u64, u64)) -> Result<Verified> {
        Ok(self.store.join.verify(&self.session, each)?)
    }

    /// Mends what can be mended, and says what was done.
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
    /// Looks whether an item of the log is a line that anyone can read. Followers give out items.
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
    /// The same under an operation id.
    #[must_use]
    pub fn once(mut self, operation: OperationId) -> Self {
        self.operation = Some(operation);
        self
    }
}

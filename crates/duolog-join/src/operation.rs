//! Appends that can be asked again: the same operation id does the same thing once.
//!
//! Lines are written as given, so nothing in the log says which operation wrote them. Instead the state says, before
//! the append, at exactly which position the lines will stand, and the append goes through only there. A retry looks at
//! that position: the lines are there, or they are not; or a prefix of them is, and the rest is appended.

use duolog_log::{Append, Error as LogError, Item, Reader};
use duolog_state::owned::operations::{self, OperationRow};
use duolog_types::{Batch, OperationId, Position, SessionId};

use crate::append::Committed;
use crate::error::{Error, Result};
use crate::store::Join;

impl Join {
    /// Appends `batch` once, however often it is asked with this id.
    pub fn append_once(
        &self,
        session: &SessionId,
        operation: &OperationId,
        batch: &Batch,
        how: &Append,
    ) -> Result<Committed> {
        let content_hash: [u8; 32] = blake3::hash(batch.as_bytes()).into();
        loop {
            let (id, op) = (session.clone(), operation.clone());
            let found = self.state.read(|tx| operations::find(tx, &id, &op))?;
            let mut done = 0;
            if let Some(row) = &found {
                if row.content_hash != content_hash {
                    return Err(Error::OperationReused { operation: operation.clone() });
                }
                let (lines, end) = self.lines_standing_at(session, row, batch)?;
                done = lines;
                if done == batch.len() {
                    return self.answer_again(session, batch, end, how);
                }
            }
            // An empty append tells the end, with what a dead writer left mended.
            let at =
                self.append(session, &Batch::default(), &Append { if_position: how.if_position, ..Append::default() })?;
            let row = OperationRow {
                session_id: session.clone(),
                operation_id: operation.clone(),
                home_id: self.home,
                content_hash,
                lines: batch.len() as u64,
                done_lines: done as u64,
                epoch: at.epoch,
                position: at.end,
                created_at: self.clock.now(),
                updated_at: self.clock.now(),
            };
            let fresh = found.is_none();
            let placed = self.write(how.durability, move |tx| {
                if fresh {
                    return Ok(operations::insert(tx, &row)?);
                }
                let (session, operation) = (&row.session_id, &row.operation_id);
                operations::place(tx, session, operation, row.epoch, row.position, row.done_lines, row.updated_at)?;
                Ok(())
            });
            match placed {
                // Another caller with the same id was first; look at what it did.
                Err(error) if error.is_taken() => continue,
                other => other?,
            }
            match self.append(session, &batch.tail(done), &Append { if_position: Some(at.end), ..*how }) {
                Ok(committed) => return Ok(Committed { lines: batch.len(), ..committed }),
                // Someone appended in between: say the new place, and try there.
                Err(Error::Log(LogError::Moved { found, .. })) if how.if_position.is_none_or(|at| at == found) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// How many lines of the batch are in the log: those placed before, and those that stand where the row says.
    fn lines_standing_at(&self, session: &SessionId, row: &OperationRow, batch: &Batch) -> Result<(usize, Position)> {
        let mut done = usize::try_from(row.done_lines).unwrap_or(usize::MAX).min(batch.len());
        let mut end = row.position;
        let known = self.known(session)?;
        let Some(reader) = self.reader(session)? else { return Ok((0, end)) };
        let stable = reader.stable_end(self.limits.busy_timeout)?;
        if known.row.log_epoch != row.epoch {
            // The log lost bytes since, and the row does not say which: look for the lines wherever they may be.
            return self.lines_standing_anywhere(&reader, stable, batch);
        }
        let mut lines = match reader.lines(row.position, stable, self.limits.line_bytes_max) {
            Ok(lines) => lines,
            // The log was cut or replaced since; the lines are not there.
            Err(LogError::NotABoundary(_) | LogError::BeyondEnd { .. }) => return Ok((done, end)),
            Err(error) => return Err(error.into()),
        };
        for range in batch.lines().skip(done) {
            match lines.next()? {
                Some(Item::Line(line)) if line.bytes == &batch.as_bytes()[range.start..range.end - 1] => {
                    done += 1;
                    end = line.end;
                }
                _ => break,
            }
        }
        Ok((done, end))
    }

    /// How many lines of the batch, from its first on, stand in the log in this order, and where the last of them ends.
    fn lines_standing_anywhere(&self, reader: &Reader, stable: Position, batch: &Batch) -> Result<(usize, Position)> {
        let (mut done, mut end) = (0, Position::ZERO);
        let mut wanted = batch.lines();
        let mut next = wanted.next();
        let mut lines = reader.lines(reader.first(), stable, self.limits.line_bytes_max)?;
        while let (Some(range), Some(item)) = (next.clone(), lines.next()?) {
            if let Item::Line(line) = item
                && line.bytes == &batch.as_bytes()[range.start..range.end - 1]
            {
                (done, end, next) = (done + 1, line.end, wanted.next());
            }
        }
        Ok((done, end))
    }

    fn answer_again(&self, session: &SessionId, batch: &Batch, end: Position, how: &Append) -> Result<Committed> {
        let open = self.open_log(session)?;
        if how.durability == duolog_types::Durability::Power {
            open.writer.sync_to(open.writer.written().max(end))?;
        }
        let start = Position(end.0.saturating_sub(batch.as_bytes().len() as u64));
        Ok(Committed { lines: batch.len(), start, end, epoch: open.epoch })
    }
}

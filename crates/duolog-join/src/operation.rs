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
            let found = self.state.read(|tx| operations::find(tx, session, operation))?;
            if found.as_ref().is_some_and(|row| row.content_hash != content_hash) {
                return Err(Error::OperationReused { operation: operation.clone() });
            }
            // An empty append tells the end, with what a dead writer left mended. It comes before the look: what stands
            // below that end stays, so lines that are not there by then will never be.
            let at = self.append(session, &Batch::default(), &Append::default())?;
            let (done, end) = match &found {
                Some(row) => self.lines_standing_at(session, row, batch)?,
                None => (0, at.end),
            };
            if done == batch.len() {
                return self.answer_again(session, batch, end, how);
            }
            let if_position = how.if_position.filter(|_| done == 0);
            if if_position.is_some_and(|position| position != at.end) {
                // The log refuses it, and says why.
                self.append(session, &Batch::default(), &Append { if_position, ..Append::default() })?;
                continue;
            }
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
            if !self.place_operation(found, row, how)? {
                continue;
            }
            match self.append(session, &batch.tail(done), &Append { if_position: Some(at.end), ..*how }) {
                Ok(committed) => return Ok(Committed { lines: batch.len(), ..committed }),
                // Someone appended in between, perhaps the same: look again.
                Err(Error::Log(LogError::Moved { .. })) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Says where an operation's lines will stand; false where another caller with the same id said so meanwhile.
    fn place_operation(&self, found: Option<OperationRow>, row: OperationRow, how: &Append) -> Result<bool> {
        let placed = self.write(how.durability, move |tx| match &found {
            None => operations::insert(tx, &row).map(|()| true).map_err(Error::from),
            Some(before) => Ok(operations::place(tx, before, &row)?),
        });
        match placed {
            Err(error) if error.is_taken() => Ok(false),
            other => other,
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

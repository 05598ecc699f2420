//! Idempotent appends: an operation id appends its lines once.
//!
//! Lines are written as given, so nothing in the log tells which operation wrote them. The state does: under the log's
//! lock, before the first byte is written, the operation claims the byte range of its lines. No other operation can
//! claim it, and no process can write there first. A claimed operation is done, unless its writer died between the
//! claim and the write. The mode of the file shows that, and the length of the log decides it.

use std::cell::RefCell;
use std::path::PathBuf;

use duolog_log::{Append, Claim, Error as LogError, Item, LogIdentity, LogRecord, Reader, Result as LogResult};
use duolog_state::owned::operations::{self, ClaimedPlace, OperationRow};
use duolog_state::owned::sessions::{self, SessionRow};
use duolog_state::{State, Tx};
use duolog_types::{Batch, Durability, Epoch, OperationId, Position, SessionId, mutant, mutant::Mutant};

use crate::append::{Committed, REOPENINGS_MAX};
use crate::error::{Error, Result};
use crate::store::Join;
use crate::transact::parse_answer;

/// Access to the recorded state of one log, for its writer.
pub(crate) struct SessionRecord {
    pub(crate) state: State,
    pub(crate) session: SessionId,
    pub(crate) path: String,
    pub(crate) epoch: Epoch,
    pub(crate) line_bytes_max: usize,
}

fn record_error(error: duolog_state::Error) -> LogError {
    LogError::Record(Box::new(error))
}

impl LogRecord for SessionRecord {
    fn is_current(&self) -> LogResult<bool> {
        let named = self.state.read(|tx| sessions::names_log(tx, &self.session, &self.path, self.epoch));
        named.map_err(record_error)
    }

    fn settle_claims(&self, log: Option<&Reader>, end: Position) -> LogResult<()> {
        let beyond = self.state.read(|tx| operations::beyond(tx, &self.session, self.epoch, end));
        let mut settled = Vec::new();
        for row in beyond.map_err(record_error)? {
            let Some(place) = row.place else { continue };
            let mut written = 0;
            if let Some(log) = log.filter(|_| place.from < end) {
                let mut lines = log.lines(place.from, end, self.line_bytes_max)?;
                while let Some(Item::Line(_) | Item::TooLong { .. }) = lines.next()? {
                    written += 1;
                }
            }
            settled.push((row, written));
        }
        if settled.is_empty() {
            return Ok(());
        }
        let released = self.state.write(Durability::Power, move |tx| {
            settled
                .iter()
                .try_for_each(|(row, written)| operations::unclaim(tx, row, row.lines_done + written).map(drop))
        });
        released.map_err(record_error)
    }
}

/// Returns the hash of an append. The durability is not part of it: a retry may ask for more.
fn hash_of(batch: &Batch, how: &Append) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    if let Some(position) = how.if_position {
        // A line never starts with a digit, so the hash input is unambiguous.
        hasher.update(position.to_string().as_bytes());
    }
    hasher.update(batch.as_bytes()).finalize().into()
}

/// Returns the scope of the appends to sessions that had this name before.
fn scope_of_former(user: Option<&str>, name: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    // No name contains the byte that ends a part.
    for part in [user.unwrap_or("\u{0}"), name] {
        hasher.update(part.as_bytes()).update(&[0xff]);
    }
    format!("former/{}", hasher.finalize().to_hex())
}

/// Records the appends of a session under the name that it is about to lose: a retry that uses this name must find the
/// session, and must not append to another one.
///
/// # Errors
///
/// Returns an error if the state cannot be written.
pub fn keep_operations_of_name(tx: &mut Tx<'_>, row: &SessionRow) -> Result<()> {
    match row.name.as_deref() {
        Some(name) => retire(tx, row, (row.user_id.as_deref(), name)),
        None => Ok(()),
    }
}

/// Records the appends of a session that is about to be deleted, under its id and its name.
pub(crate) fn keep_operations_of_deleted(tx: &mut Tx<'_>, row: &SessionRow) -> Result<()> {
    retire(tx, row, (None, row.id.as_str()))?;
    keep_operations_of_name(tx, row)
}

fn retire(tx: &mut Tx<'_>, row: &SessionRow, (user, name): (Option<&str>, &str)) -> Result<()> {
    let answer = serde_json::to_string(&row.id).map_err(Error::NoJson)?;
    Ok(operations::retire(tx, &row.id, &scope_of_former(user, name), &answer)?)
}

/// The reason why a claim was not made.
enum Refusal {
    /// Another caller with this operation id was faster.
    Taken,
    /// The log was replaced, and this writer was closed.
    Replaced(LogError),
    /// The state returned an error, or the outcome is unknown.
    Failed(Error),
}

impl Join {
    /// Returns the session of an earlier append under this operation id, if the session had this name then and lost it.
    /// The name may also be a session id, without a user.
    ///
    /// # Errors
    ///
    /// Returns an error if the session was deleted since, or if another append was done under this id.
    pub fn former_session_of_append(
        &self,
        called: (Option<&str>, &str),
        operation: &OperationId,
        batch: &Batch,
        how: &Append,
    ) -> Result<Option<SessionId>> {
        let scope = scope_of_former(called.0, called.1);
        let found = self.state.read(|tx| operations::find(tx, &scope, operation))?;
        if found.as_ref().is_some_and(|row| row.request_hash != hash_of(batch, how)) {
            return Err(Error::OperationReused { operation: operation.clone() });
        }
        self.former_session(called.1, operation, found)
    }

    /// Returns the session of events recorded under an operation id below this one (`id/…`), if the session had this
    /// name then and lost it.
    ///
    /// # Errors
    ///
    /// Returns an error if the session was deleted since.
    pub fn former_session_of_events(
        &self,
        called: (Option<&str>, &str),
        operation: &OperationId,
    ) -> Result<Option<SessionId>> {
        let scope = scope_of_former(called.0, called.1);
        let found = self.state.read(|tx| operations::first_below(tx, &scope, operation))?;
        self.former_session(called.1, operation, found)
    }

    fn former_session(
        &self,
        name: &str,
        operation: &OperationId,
        found: Option<OperationRow>,
    ) -> Result<Option<SessionId>> {
        let Some(row) = found else { return Ok(None) };
        let id: SessionId = parse_answer(operation, row.answer.as_deref().unwrap_or_default())?;
        let session = self.state.read(|tx| sessions::find(tx, &id))?;
        if session.is_none_or(|session| session.deleted_at.is_some()) {
            return Err(Error::OperationOfDeleted { operation: operation.clone(), session: name.to_owned() });
        }
        Ok(Some(id))
    }

    /// Appends `batch` once per operation id.
    pub fn append_once(
        &self,
        session: &SessionId,
        operation: &OperationId,
        batch: &Batch,
        how: &Append,
    ) -> Result<Committed> {
        self.append_once_for(session, operation, hash_of(batch, how), batch, how)
    }

    /// Appends the lines of an event once per operation id.
    ///
    /// The event is the request: its lines may differ in a retry, because they have their own timestamps and ids.
    pub fn append_event_once(
        &self,
        session: &SessionId,
        operation: &OperationId,
        event: &[u8],
        batch: &Batch,
        how: &Append,
    ) -> Result<Committed> {
        self.append_once_for(session, operation, blake3::hash(event).into(), batch, how)
    }

    fn append_once_for(
        &self,
        session: &SessionId,
        operation: &OperationId,
        request_hash: [u8; 32],
        batch: &Batch,
        how: &Append,
    ) -> Result<Committed> {
        if batch.is_empty() {
            return self.append(session, batch, how);
        }
        let scope = format!("log/{session}");
        let mut reopenings = 0;
        loop {
            self.wait_for_lines(session)?;
            let found = self.state.read(|tx| operations::find(tx, &scope, operation))?;
            if found.as_ref().is_some_and(|row| row.request_hash != request_hash) {
                return Err(Error::OperationReused { operation: operation.clone() });
            }
            if mutant::is(Mutant::OperationByContent)
                && let Some(committed) = self.equal_lines_at_end(session, batch)?
            {
                return Ok(committed);
            }
            if let Some(claimed) = found.as_ref().and_then(|row| row.place) {
                if let Some(committed) = self.repeat_answer(session, &scope, (operation, claimed), batch, how)? {
                    return Ok(committed);
                }
                continue;
            }
            let row = found.clone().unwrap_or_else(|| OperationRow {
                scope: scope.clone(),
                operation_id: operation.clone(),
                request_hash,
                answer: None,
                created_at: self.clock.now(),
                session_id: Some(session.clone()),
                lines_done: 0,
                place: None,
            });
            match self.append_claimed(session, &row, found.is_some(), batch, how) {
                Ok(committed) => return Ok(committed),
                Err(Refusal::Failed(error)) => return Err(error),
                Err(Refusal::Taken) => {}
                Err(Refusal::Replaced(error)) if reopenings == REOPENINGS_MAX => return Err(error.into()),
                Err(Refusal::Replaced(_)) => reopenings += 1,
            }
        }
    }

    fn append_claimed(
        &self,
        session: &SessionId,
        row: &OperationRow,
        exists: bool,
        batch: &Batch,
        how: &Append,
    ) -> std::result::Result<Committed, Refusal> {
        let done = usize::try_from(row.lines_done).unwrap_or(usize::MAX).min(batch.len());
        let how = Append { if_position: how.if_position.filter(|_| done == 0), ..*how };
        let open = self.open_log(session).map_err(Refusal::Failed)?;
        let _flight = self.enter(&open).map_err(Refusal::Failed)?;
        let path = open.writer.place().path.to_string_lossy().into_owned();
        let claimed: RefCell<Option<OperationRow>> = RefCell::default();
        let mut refusal = None;
        let mut claim = |from, to| {
            let row = OperationRow { place: Some(ClaimedPlace { epoch: open.epoch, from, to }), ..row.clone() };
            match self.claim(session, &path, row.clone(), exists) {
                Ok(()) => {
                    *claimed.borrow_mut() = Some(row);
                    Claim::Made
                }
                Err(why) => {
                    let is_unknown = matches!(&why, Refusal::Failed(error) if error.is_unknown());
                    refusal = Some(why);
                    if is_unknown { Claim::Unknown } else { Claim::Refused }
                }
            }
        };
        let mut unclaim = || {
            let row = claimed.borrow().clone();
            row.is_some_and(|row| {
                self.write(Durability::Power, move |tx| Ok(operations::unclaim(tx, &row, row.lines_done)?)).is_ok()
            })
        };
        let appended = open.writer.append_claimed(&batch.tail(done), &how, &mut claim, &mut unclaim);
        let appended = match appended {
            Ok(appended) => appended,
            Err(error) => {
                match refusal {
                    // The state has another log, also if a deletion failed and its file still exists.
                    Some(Refusal::Replaced(error)) => {
                        self.open.let_go(session, &open);
                        return Err(Refusal::Replaced(error));
                    }
                    Some(refusal) => return Err(refusal),
                    None => {}
                }
                let lost_its_file = error.lost_its_file() || matches!(error, LogError::Poisoned(_));
                return Err(match self.look_again(session, &open, error) {
                    Error::Log(error) if lost_its_file => Refusal::Replaced(error),
                    error => Refusal::Failed(error),
                });
            }
        };
        self.note_or_keep(&open, appended.mend);
        self.feed.wake(session);
        Ok(Committed { lines: batch.len(), start: appended.start, end: appended.end, epoch: open.epoch })
    }

    /// Claims a place for an operation. The caller holds the lock of its log.
    ///
    /// The claim is synced whatever the durability of the append: the lines may survive a power loss, and a retry must
    /// find them.
    fn claim(
        &self,
        session: &SessionId,
        path: &str,
        row: OperationRow,
        exists: bool,
    ) -> std::result::Result<(), Refusal> {
        let (session_id, log_path, path) = (session, path, path.to_owned());
        let session = session.clone();
        let clock = self.tx_clock();
        let claimed = self.write(Durability::Power, move |tx| {
            let Some(place) = row.place else { return Ok(Some(false)) };
            if !sessions::names_log(tx, &session, &path, place.epoch)? {
                return Ok(None);
            }
            if exists {
                return Ok(Some(operations::claim(tx, &row.scope, &row.operation_id, place)?));
            }
            let created_at = clock.now(tx)?;
            operations::insert(tx, &OperationRow { created_at, ..row.clone() })?;
            Ok(Some(true))
        });
        match claimed {
            Ok(Some(true)) => Ok(()),
            Ok(Some(false)) => Err(Refusal::Taken),
            Ok(None) => Err(Refusal::Replaced(LogError::Replaced(PathBuf::from(log_path)))),
            Err(error) if error.is_taken() => Err(Refusal::Taken),
            Err(error) => Err(Refusal::Failed(error.of_session(session_id))),
        }
    }

    /// Returns the answer of an operation with a claim. `None` if its lines are not in the log; then the claim is
    /// released.
    fn repeat_answer(
        &self,
        session: &SessionId,
        scope: &str,
        (operation, claimed): (&OperationId, ClaimedPlace),
        batch: &Batch,
        how: &Append,
    ) -> Result<Option<Committed>> {
        let is_known = self.is_written(session, claimed, how.durability)?;
        if !is_known {
            // The claiming process may be writing, or may have died before. An empty append waits for the first case
            // and settles the second.
            self.append(session, &Batch::default(), &Append::default())?;
        }
        let Some(row) = self.state.read(|tx| operations::find(tx, scope, operation))? else { return Ok(None) };
        let Some(place) = row.place.filter(|place| !is_known || *place == claimed) else { return Ok(None) };
        let ClaimedPlace { epoch, from, to } = place;
        if how.durability == Durability::Power && !is_known {
            let open = self.open_log(session)?;
            if open.epoch == epoch {
                open.writer.sync_to(open.writer.written().max(to))?;
            } else {
                open.writer.sync_to(open.writer.written())?;
            }
        }
        Ok(Some(Committed { lines: batch.len(), start: from, end: to, epoch }))
    }

    /// Returns true if the lines of a claim are certainly in the log, with the requested durability. Changes nothing;
    /// the log may be closed to appends.
    fn is_written(&self, session: &SessionId, claimed: ClaimedPlace, durability: Durability) -> Result<bool> {
        let known = self.known(session)?;
        self.own(&known.row)?;
        if claimed.epoch != known.row.log_epoch {
            // Raising the epoch released the claims that were not written.
            return Ok(true);
        }
        let Some(reader) = known.reader(&self.disk)? else { return Ok(false) };
        let end = reader.stable_end(self.limits.busy_timeout)?;
        let Some(stat) = known.stat(&self.disk)?.filter(|stat| stat.ident == reader.ident()) else { return Ok(false) };
        if claimed.to > end || stat.is_claimed() || self.standing(&known, &reader, end)? != LogIdentity::Same {
            return Ok(false);
        }
        if durability == Durability::Process || claimed.to <= known.watermark.recorded_to {
            return Ok(true);
        }
        if !stat.is_poisoned() {
            reader.sync_with_name(self.limits.busy_timeout)?;
        }
        Ok(!stat.is_poisoned())
    }

    /// The rule that this module replaces, for the harness: equal lines at the end belong to the operation.
    fn equal_lines_at_end(&self, session: &SessionId, batch: &Batch) -> Result<Option<Committed>> {
        let Some(reader) = self.reader(session)? else { return Ok(None) };
        let end = reader.stable_end(self.limits.busy_timeout)?;
        let Some(start) = end.0.checked_sub(batch.as_bytes().len() as u64).map(Position) else { return Ok(None) };
        let mut bytes = Vec::new();
        reader.each_chunk(start, end, |chunk| {
            bytes.extend_from_slice(chunk);
            Ok(())
        })?;
        let epoch = self.known(session)?.row.log_epoch;
        Ok((bytes == batch.as_bytes()).then_some(Committed { lines: batch.len(), start, end, epoch }))
    }
}

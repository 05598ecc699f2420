//! The life of a log: created, written, cut, replaced, deleted. A path and an epoch identify one log forever.
//!
//! | event | before → after | under | epoch | what is kept |
//! |---|---|---|---|---|
//! | create | none → made | transaction; the path was never used before | the next one | |
//! | import | none → written | transaction; the synced file gets its name inside it; until the commit its mode says draft | the next one | |
//! | first append | made → written | log lock; the row still means this path and epoch | same | |
//! | append | written → written | log lock; the file at the path is the one that was opened | same | all |
//! | operation | written → claimed → written | log lock over claim and write; the mode says claimed | same | all |
//! | failed write or sync | written → closed | log lock; the mode says closed | same | all |
//! | repair of a closed log | closed → written | log lock of the old file over epoch and rename | + 1 | up to the new end |
//! | found shorter | written → written | transaction | + 1 | up to the end found |
//! | found replaced | written → written | transaction | + 1 | nothing |
//! | found missing | written → made | transaction | + 1 | nothing |
//! | delete the log | any → stale | log lock over epoch and unlink; the mode says claimed, the row says `unlink_due` | + 1 | nothing |
//! | finish a deletion | stale → made | log lock over unlink, if the row still says `unlink_due`; then the row is cleared, synced | same | |
//! | delete the session | any → none | log lock over tombstone and unlink; then the row goes | retired | nothing |
//!
//! Every change of a file that writers may have open happens under its lock, together with the row that describes it. A
//! process that waited for the lock finds another file, or reads the state and finds another epoch. An epoch is never
//! used twice: a log that begins after a deletion begins above all deleted epochs. A path is never given to a second
//! session.
//!
//! While a row has `unlink_due`, a file at the path belongs to the previous epoch. Readers treat it as absent. A
//! process that opens the log for writing, repeats the deletion or opens the home finishes the deletion first. No file
//! of the new epoch is created before the row is cleared.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use duolog_log::{Disk, Error as LogError, LogRecord as _, Reader};
use duolog_state::owned::operations::{self, OperationRow};
use duolog_state::owned::repairs::{self, NewRepair, RepairAction};
use duolog_state::owned::sessions::{self, SessionRow};
use duolog_state::owned::status_transitions::{self, StatusTransitionRow};
use duolog_state::owned::{behind, branches, log_epochs, log_paths, outbox, pool_segments};
use duolog_state::{Result as StateResult, Tx};
use duolog_types::names::with_suffix;
use duolog_types::{Durability, Epoch, Position, SessionId, mutant, mutant::Mutant};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Leftover, Result};
use crate::operation::keep_operations_of_deleted;
use crate::project::Derived;
use crate::rows::{empty_row, release_responses, write_rows};
use crate::store::{Join, Known, known, place_of};
use crate::transact::{IdempotencyKey, Write};

/// The parts of a log's file name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stem {
    /// The directory: a safe name.
    pub scope: String,
    /// The file name without its extension: a safe name.
    pub file: String,
    /// The original name, which distinguishes names with the same safe form.
    pub name: String,
}

/// A session to create.
#[derive(Clone, Debug)]
pub struct NewLog {
    /// Its row. The columns of the log's location are set here.
    pub row: SessionRow,
    /// The parts of its file name.
    pub stem: Stem,
}

/// A session to create, with the free paths for its log.
#[derive(Clone)]
pub struct PlannedLog {
    row: SessionRow,
    free: Vec<FreePath>,
    disk: Arc<dyn Disk>,
}

/// A path that a new log may have.
#[derive(Clone)]
pub(crate) struct FreePath {
    pub(crate) path: PathBuf,
    /// If no session has the path: a draft of an import that died is there.
    has_draft: bool,
}

impl FreePath {
    /// Deletes the draft of an import at a path that is taken now: no import can commit there any more.
    pub(crate) fn clear(&self, disk: &dyn Disk) -> Result<()> {
        if !self.has_draft {
            return Ok(());
        }
        match disk.unlink(&self.path) {
            // The transaction ran before and was retried.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            other => Ok(other.map_err(LogError::io("remove", &self.path))?),
        }
    }
}

impl PlannedLog {
    /// Inserts the session, with a path that no other session ever had. It can run again if the transaction is retried.
    pub fn insert(&self, tx: &mut Tx<'_>) -> Result<SessionRow> {
        let mut row = self.row.clone();
        insert_at_free(tx, &mut row, &self.free)?.clear(&*self.disk)?;
        if let Some(status) = row.status {
            status_transitions::insert(tx, &first_status(&row, status))?;
        }
        Ok(row)
    }
}

/// The result of the deletion of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deleted {
    /// The session.
    pub id: SessionId,
    /// Its name.
    pub name: Option<String>,
    /// The size of its log in bytes.
    pub bytes: u64,
    /// The size of its conversations.
    pub conversations: Conversations,
}

/// The size of a session's conversations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversations {
    /// The number of branches.
    pub branches: u64,
    /// The number of messages, each counted once.
    pub messages: u64,
}

/// A deleted log whose session stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedLog {
    /// The session.
    pub id: SessionId,
    /// Its name.
    pub name: Option<String>,
    /// The size of the log in bytes.
    pub bytes: u64,
    /// The epoch of the log that begins now.
    pub epoch: Epoch,
}

/// The stored answer of creating a session: its id.
#[derive(Serialize, Deserialize)]
pub(crate) struct CreatedSession {
    pub(crate) id: SessionId,
    #[serde(skip)]
    pub(crate) row: Option<SessionRow>,
}

/// The result of raising the epoch of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EpochChange {
    /// Bytes that a reader may have seen are lost; this is the new epoch.
    Raised(Epoch),
    /// Nothing was lost: the log is unchanged, or a user deleted or repaired it.
    Expected,
}

/// Returns how much of a log is kept by an event that raises its epoch, from the record of the event.
///
/// `None` if the event does not raise the epoch.
pub(crate) fn kept_to(action: RepairAction, position: Position) -> Option<Position> {
    match action {
        RepairAction::Missing | RepairAction::Replaced | RepairAction::Deleted => Some(Position::ZERO),
        RepairAction::Shorter | RepairAction::Rewritten => Some(position),
        RepairAction::Completed | RepairAction::Quarantined | RepairAction::Terminated | RepairAction::Unsealed => None,
    }
}

impl Join {
    /// Creates a session: its row, with a path that no other session ever had, compared case-insensitively.
    ///
    /// There is no file until the first append; an absent file is an empty log. It is an error if the name is taken.
    pub fn create(&self, new: NewLog, durability: Durability) -> Result<SessionRow> {
        self.create_once(None, new, durability)
    }

    /// Creates a session, under a key if one is given: a retry returns the session that was created first.
    pub fn create_once(&self, key: Option<IdempotencyKey>, new: NewLog, durability: Durability) -> Result<SessionRow> {
        let planned = self.plan(new)?;
        let created: CreatedSession = self.transact::<_, Error>(Write::once(durability, key), move |tx| {
            let row = planned.insert(tx)?;
            Ok((CreatedSession { id: row.id.clone(), row: Some(row) }, Vec::new()))
        })?;
        match created.row {
            Some(row) => Ok(row),
            None => self.known(&created.id).map(|known| known.row),
        }
    }

    /// Finds free paths for the log of a new session, so that a transaction can create the session together with other
    /// rows.
    pub fn plan(&self, new: NewLog) -> Result<PlannedLog> {
        let NewLog { mut row, stem } = new;
        let free = self.free_paths(&stem, &row.id)?;
        row.home_id = self.home;
        row.scope = stem.scope;
        Ok(PlannedLog { row, free, disk: Arc::clone(&self.disk) })
    }

    /// Returns the paths that a log with this name may have, without those where a file exists.
    ///
    /// A file without a row belongs to someone; a new session must not begin with its lines. The paths of two states of
    /// one home differ, so that a path belongs to one session in the whole home.
    pub(crate) fn free_paths(&self, stem: &Stem, id: &SessionId) -> Result<Vec<FreePath>> {
        let folder = Path::new("sessions").join(&stem.scope);
        let (mut free, state) = (Vec::new(), self.file_suffix()?);
        // The last suffix is unique: there is always a free path, however often a name was used and deleted.
        let unique = SessionId::new();
        let suffixes = [stem.name.as_str(), id.as_str(), unique.as_str()];
        for file in std::iter::once(stem.file.clone()).chain(suffixes.map(|suffix| with_suffix(&stem.file, suffix))) {
            let path = folder.join(format!("{file}{state}.jsonl"));
            match self.disk.stat(&path).map_err(LogError::io("examine", &path))? {
                None => free.push(FreePath { path, has_draft: false }),
                Some(stat) if stat.is_draft() => free.push(FreePath { path, has_draft: true }),
                Some(_) => {}
            }
        }
        if free.is_empty() {
            let source = ErrorKind::AlreadyExists.into();
            return Err(LogError::Io { call: "find a free name for", path: folder, source }.into());
        }
        Ok(free)
    }

    /// Returns the size of a session's conversations.
    pub fn conversations_of(&self, session: &SessionId) -> Result<Conversations> {
        Ok(self.state.read(|tx| conversations(tx, session))?)
    }

    /// Deletes the log of a session and keeps the session: its epoch is raised, and the deletion is recorded.
    ///
    /// Both happen under the log's lock, the epoch first: in the other order it would look like a loss of the log. If
    /// the process dies in between, the next process that opens the log finishes the deletion.
    pub fn remove_log(&self, session: &SessionId, detail: Option<&str>) -> Result<RemovedLog> {
        self.remove_log_once(None, session, detail)
    }

    /// Deletes the log of a session, under a key if one is given. The answer has the new epoch.
    pub fn remove_log_once(
        &self,
        key: Option<&IdempotencyKey>,
        session: &SessionId,
        detail: Option<&str>,
    ) -> Result<RemovedLog> {
        if !self.is_writable() {
            return Err(Error::ReadOnly);
        }
        let _no_backup = self.keep_backups_out()?;
        loop {
            // Another process with the same request may be at work.
            if let Some(answer) = key.map_or(Ok(None), |key| self.answer_to(key))? {
                return match self.finish_deletion(session) {
                    // The session was deleted since, with its log.
                    Ok(_) | Err(Error::NoSession(_) | Error::Deleted(_)) => Ok(answer),
                    Err(error) => Err(error),
                };
            }
            let known = self.finish_deletion(session)?;
            let (place, epoch) = (known.place(), known.row.log_epoch);
            let record = self.record_of(&known);
            let mut removed = None;
            let raise = |end: Position| {
                if !record.is_current()? {
                    return Err(LogError::Replaced(place.path.clone()));
                }
                // Claims after the end were never written and are released; the answers of written operations are kept
                // for ever.
                record.settle_claims(Reader::open(&self.disk, &place)?.as_ref(), end)?;
                let mut repair = self.repair_row(session, epoch, RepairAction::Deleted, end);
                repair.bytes = end.0;
                repair.detail = detail.map(str::to_owned);
                if mutant::is(Mutant::EpochAfterUnlink) {
                    removed = Some(end);
                    return Ok(());
                }
                let answer = removed_log(&known, end);
                let raised = self.raise_epoch_at(session, epoch, repair, key.map(|key| (key, &answer)));
                if !raised.map_err(|error| LogError::Record(Box::new(error)))? {
                    // The log was replaced meanwhile.
                    return Err(LogError::Replaced(place.path.clone()));
                }
                removed = Some(end);
                Ok(())
            };
            match duolog_log::remove(&self.disk, &place, &self.limits, raise) {
                Ok(()) => {}
                // The log is deleted since its epoch was raised. The next writer or the next open of the home removes
                // the file.
                Err(error) if removed.is_some() => {
                    return Err(Error::from(error).after_deletion(session, Leftover::LogFile));
                }
                Err(LogError::Replaced(_)) => continue,
                Err(error) => return Err(error.into()),
            }
            match self.note_unlinked(session, epoch.next()) {
                // The next process that opens the log looks for the file again.
                Ok(_) | Err(Error::State(duolog_state::Error::Busy { .. })) => {}
                Err(error) if error.is_full() => {}
                Err(error) => return Err(error.after_deletion(session, Leftover::LogNote)),
            }
            let end = removed.unwrap_or(known.row.log_base);
            if mutant::is(Mutant::EpochAfterUnlink) {
                let repair = self.repair_row(session, epoch, RepairAction::Deleted, end);
                self.raise_epoch_at(session, epoch, repair, None)?;
            }
            if let Some(open) = self.open.get(session) {
                // The next append in this process opens the new log.
                self.open.let_go(session, &open);
            }
            return Ok(removed_log(&known, end));
        }
    }

    /// Returns a log of this home, after finishing a deletion that was begun.
    pub(crate) fn current(&self, session: &SessionId) -> Result<Known> {
        loop {
            let known = self.known(session)?;
            self.own(&known.row)?;
            if !self.finish_unlink(&known)? {
                return Ok(known);
            }
        }
    }

    /// Returns a log of this home, for its deletion. If an earlier deletion cannot be finished, the error says so.
    fn finish_deletion(&self, session: &SessionId) -> Result<Known> {
        loop {
            let known = self.known(session)?;
            self.own(&known.row)?;
            let finished = self.finish_unlink(&known);
            if !finished.map_err(|error| error.after_deletion(session, Leftover::LogFile))? {
                return Ok(known);
            }
        }
    }

    /// Unlinks the file that a deletion of the log left. Returns false if there is nothing to unlink.
    pub(crate) fn finish_unlink(&self, known: &Known) -> Result<bool> {
        let (session, epoch) = (&known.row.id, known.row.log_epoch);
        if !known.row.unlink_due {
            return Ok(false);
        }
        let is_due = |_| {
            let id = session.clone();
            // Synced first: the row may come from a commit whose sync failed, and a power cut must not keep only the
            // unlink.
            let due = self.write(Durability::Power, move |tx| Ok(sessions::confirm_unlink(tx, &id, epoch)?));
            let is_due = due.map_err(|error| LogError::Record(Box::new(error)))?;
            // Another process was faster, and the file may be of the new epoch.
            if is_due { Ok(()) } else { Err(LogError::Replaced(known.place().path)) }
        };
        match duolog_log::remove(&self.disk, &known.place(), &self.limits, is_due) {
            Err(LogError::Replaced(_)) => return Ok(true),
            other => other?,
        }
        self.note_unlinked(session, epoch)?;
        Ok(true)
    }

    /// Records that the file of the previous epoch is gone. Synced, because the record must outlive the lines of the
    /// new file.
    fn note_unlinked(&self, session: &SessionId, epoch: Epoch) -> Result<bool> {
        let id = session.clone();
        self.write(Durability::Power, move |tx| Ok(sessions::note_unlinked(tx, &id, epoch)?))
    }

    /// Raises the epoch from `epoch`. If another process has raised it, that process's record is kept.
    pub(crate) fn raise_epoch(&self, session: &SessionId, epoch: Epoch, repair: NewRepair) -> Result<EpochChange> {
        if self.raise_epoch_at(session, epoch, repair, None)? {
            return Ok(EpochChange::Raised(epoch.next()));
        }
        let row = self.known(session)?.row;
        let noted = self.repairs_of(session)?;
        let lost = noted.iter().any(|row| row.repair.epoch == epoch && row.repair.action.is_loss());
        Ok(if lost && row.log_epoch > epoch { EpochChange::Raised(row.log_epoch) } else { EpochChange::Expected })
    }

    /// Raises the epoch and updates all rows of the old one. Returns false if the epoch was raised before, or the
    /// session is deleted.
    fn raise_epoch_at(
        &self,
        session: &SessionId,
        epoch: Epoch,
        repair: NewRepair,
        answer: Option<(&IdempotencyKey, &RemovedLog)>,
    ) -> Result<bool> {
        let (id, home, at) = (session.clone(), self.home, self.clock.now());
        let answers = answer.map_or_else(|| Ok(Vec::new()), |(key, answer)| key.answered_with(answer, at))?;
        let clock = self.tx_clock();
        self.write(Durability::Power, move |tx| {
            if !sessions::raise_epoch(tx, &id, epoch)? {
                return Ok(false);
            }
            for answer in &answers {
                let created_at = clock.now(tx)?;
                operations::insert(tx, &OperationRow { created_at, ..answer.clone() })?;
            }
            repairs::note(tx, &repair)?;
            release_responses(tx, &id)?;
            if repair.action == RepairAction::Deleted {
                if !mutant::is(Mutant::UnlinkForgotten) {
                    sessions::owe_unlink(tx, &id, epoch.next())?;
                }
                // The pending lines belong to the deleted log; the answers of operations are kept.
                outbox::forget(tx, &id)?;
            } else if let Some(kept) = kept_to(repair.action, repair.position) {
                for row in operations::beyond(tx, &id, epoch, kept)? {
                    operations::unclaim(tx, &row, row.lines_done)?;
                }
            }
            // Counts of lost bytes must not stay; what is left is folded again.
            let rows = Derived::new(empty_row(&known(tx, &id)?)).rows();
            write_rows(tx, None, &rows)?;
            behind::mark_for_nobody(tx, &id, &home, at)?;
            Ok(true)
        })
    }

    /// Deletes a session: first a tombstone and a record, then the files, then the row.
    ///
    /// If the process dies in between, the next open of the home finishes the deletion. If the log is in use, nothing
    /// is changed.
    pub fn delete(&self, session: &SessionId) -> Result<Deleted> {
        self.delete_once(None, session)
    }

    /// Deletes a session, under a key if one is given. The answer is stored with the tombstone.
    pub fn delete_once(&self, key: Option<IdempotencyKey>, session: &SessionId) -> Result<Deleted> {
        if !self.is_writable() {
            return Err(Error::ReadOnly);
        }
        if let Some(answer) = key.as_ref().map_or(Ok(None), |key| self.answer_to(key))? {
            let row = self.state.read(|tx| sessions::find(tx, session))?;
            if row.is_some_and(|row| row.deleted_at.is_some()) {
                // The process died before the files were removed.
                self.delete(session)?;
            }
            return Ok(answer);
        }
        let _no_backup = self.keep_backups_out()?;
        let Some(row) = self.state.read(|tx| sessions::find(tx, session))? else {
            return self.answered_meanwhile(key.as_ref(), Error::NoSession(session.clone()));
        };
        self.own(&row)?;
        let place = place_of(&row);
        // A file that is not a log must not be removed.
        Reader::open(&self.disk, &place)?;
        let mut entombed = None;
        let again = key.clone();
        let entomb = |end: Position| {
            let end = if row.unlink_due { row.log_base } else { end };
            entombed = Some(self.entomb(key, &row, end).map_err(|error| LogError::Record(Box::new(error)))?);
            Ok(())
        };
        let removed = duolog_log::remove(&self.disk, &place, &self.limits, entomb);
        let deleted = match (entombed, removed) {
            (Some(deleted), Ok(())) => deleted,
            // The next open of the home removes the file.
            (Some(_), Err(error)) => {
                return Err(Error::from(error).after_deletion(session, Leftover::SessionFile));
            }
            (None, removed) => {
                let error = removed.err().map_or_else(|| Error::NoSession(session.clone()), Error::from);
                return self.answered_meanwhile(again.as_ref(), error);
            }
        };
        let (id, path) = (session.clone(), row.log_path);
        match self.write(Durability::Power, move |tx| Ok(sessions::remove(tx, &id, &path).map(drop)?)) {
            // The session is deleted since the tombstone; the next open of the home removes the row.
            Err(error) if error.is_busy() || error.is_full() => {}
            Err(error) => return Err(error.after_deletion(session, Leftover::SessionRow)),
            Ok(()) => {}
        }
        if let Some(open) = self.open.get(session) {
            self.open.let_go(session, &open);
        }
        Ok(deleted)
    }

    /// Returns the answer of a concurrent call with the same key, if the session is gone; otherwise the error.
    fn answered_meanwhile(&self, key: Option<&IdempotencyKey>, error: Error) -> Result<Deleted> {
        let Some(key) = key.filter(|_| matches!(error, Error::NoSession(_) | Error::Deleted(_))) else {
            return Err(error);
        };
        self.answer_to(key)?.ok_or(error)
    }

    /// Undoes the creation of a session for an append that failed, and deletes the answer under the key. Returns false
    /// if the session stays, because its log has bytes or it is in use.
    pub fn unmake(&self, key: Option<&IdempotencyKey>, session: &SessionId) -> Result<bool> {
        let known = self.known(session)?;
        self.own(&known.row)?;
        let (row, place) = (&known.row, known.place());
        let is_unused = |end: Position| {
            if end > row.log_base {
                return Ok(false);
            }
            let (id, path, epoch, at) = (row.id.clone(), row.log_path.clone(), row.log_epoch, self.clock.now());
            let (key, home) = (key.cloned(), self.home);
            self.write(Durability::Power, move |tx| {
                // In an epoch with an empty log no operation was done; its claims are deleted with the session.
                let is_used = conversations(tx, &id)? != Conversations::default()
                    || !outbox::pending(tx, &id, &home, 1)?.is_empty()
                    || !sessions::names_log(tx, &id, &path, epoch)?;
                if is_used || !sessions::tombstone(tx, &id, &path, at)? {
                    return Ok(false);
                }
                log_epochs::retire(tx, epoch)?;
                key.as_ref().map_or(Ok(()), |key| key.forget(tx))?;
                Ok(true)
            })
        };
        let entomb = |end| match is_unused(end) {
            Ok(true) => Ok(()),
            Ok(false) => Err(LogError::Replaced(place.path.clone())),
            Err(error) => Err(LogError::Record(Box::new(error))),
        };
        match duolog_log::remove(&self.disk, &place, &self.limits, entomb) {
            Err(LogError::Replaced(_)) => return Ok(false),
            other => other?,
        }
        let (id, path) = (session.clone(), row.log_path.clone());
        self.write(Durability::Power, move |tx| Ok(sessions::remove(tx, &id, &path).map(drop)?))?;
        if let Some(open) = self.open.get(session) {
            self.open.let_go(session, &open);
        }
        Ok(true)
    }

    /// Writes the tombstone of a session and the record of its deletion. The caller holds the lock of its log, which
    /// ends at `end`.
    fn entomb(&self, key: Option<IdempotencyKey>, row: &SessionRow, end: Position) -> Result<Deleted> {
        let (id, path, at) = (row.id.clone(), row.log_path.clone(), self.clock.now());
        let (name, bytes) = (row.name.clone(), end.0);
        let (is_marked, named) = (row.deleted_at.is_some(), row.clone());
        let mut repair = self.repair_row(&row.id, row.log_epoch, RepairAction::Deleted, end);
        repair.bytes = end.0;
        self.transact::<_, Error>(Write::once(Durability::Power, key), move |tx| {
            let conversations = conversations(tx, &id)?;
            if sessions::tombstone(tx, &id, &path, at)? {
                // The sizes are recorded now: a process that finishes after a crash may find no file.
                let detail = Some(deletion_detail(name.as_deref(), conversations)).filter(|text| !text.is_empty());
                repairs::note(tx, &NewRepair { detail, ..repair.clone() })?;
            } else if !is_marked {
                // It is deleted, or another session has its id now.
                return Err(Error::NoSession(id.clone()));
            }
            if let Some(row) = sessions::find(tx, &id)?.filter(|row| row.log_path == path) {
                log_epochs::retire(tx, row.log_epoch)?;
            }
            release_responses(tx, &id)?;
            keep_operations_of_deleted(tx, &named)?;
            Ok((Deleted { id: id.clone(), name: name.clone(), bytes, conversations }, Vec::new()))
        })
    }
}

/// Inserts a session with the first of these paths that no other session ever had, in the first epoch of a new log.
///
/// The caller replaces or clears the draft at that path before the commit.
pub(crate) fn insert_at_free<'f>(tx: &mut Tx<'_>, row: &mut SessionRow, free: &'f [FreePath]) -> Result<&'f FreePath> {
    row.log_epoch = if mutant::is(Mutant::EpochsRestart) { Epoch(0) } else { log_epochs::next(tx)? };
    for place in free {
        row.log_path = place.path.to_string_lossy().into_owned();
        row.log_key = row.log_path.to_lowercase();
        if log_paths::take(tx, &row.home_id, &row.log_key, &row.id)? {
            sessions::insert(tx, row)?;
            return Ok(place);
        }
    }
    let path = Path::new("sessions").join(&row.scope);
    let source = ErrorKind::AlreadyExists.into();
    Err(LogError::Io { call: "find a free name for", path, source }.into())
}

/// Returns the answer to the deletion of a log that ended at `end`.
fn removed_log(known: &Known, end: Position) -> RemovedLog {
    let row = &known.row;
    RemovedLog { id: row.id.clone(), name: row.name.clone(), bytes: end.0, epoch: row.log_epoch.next() }
}

/// Returns the first entry of a session's status history.
fn first_status(row: &SessionRow, status: duolog_types::SessionStatus) -> StatusTransitionRow {
    StatusTransitionRow {
        session_id: row.id.clone(),
        previous_status: None,
        status,
        reason_code: None,
        reason: None,
        actor: None,
        evidence: None,
        created_at: row.created_at,
    }
}

fn conversations(tx: &mut Tx<'_>, session: &SessionId) -> StateResult<Conversations> {
    Ok(Conversations { branches: branches::count(tx, session)?, messages: pool_segments::count(tx, session)? })
}

/// Returns the detail of a deletion's record: the name, and the size of the conversations if there are any.
fn deletion_detail(name: Option<&str>, deleted: Conversations) -> String {
    let name = name.unwrap_or_default();
    if deleted == Conversations::default() {
        return name.to_owned();
    }
    let Conversations { branches, messages } = deleted;
    format!("{name}\n{branches} branches, {messages} messages")
}

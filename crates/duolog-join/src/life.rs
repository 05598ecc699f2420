//! The life of a log: made, written, cut, replaced, deleted. A path and an epoch name one log for ever.
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
//! Every change of a file that writers may have open happens under its lock, together with the row that tells of it: who
//! waits for the lock finds another file, or asks the state and finds another epoch. An epoch is never used twice: a log
//! that begins after a deletion begins above all epochs that were deleted. A path is never given to a second session.
//!
//! While a row says `unlink_due`, a file at the path is of the previous epoch. Readers take it for absent; whoever opens the
//! log for writing, asks for the deletion again or opens the home finishes the deletion first. No file of the new epoch is
//! made before the row is cleared.

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
use crate::rows::{empty_row, leave_responses, write_rows};
use crate::store::{Join, Known, known, place_of};
use crate::transact::{IdempotencyKey, Write};

/// What a log's file is called after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stem {
    /// The folder: a safe name.
    pub scope: String,
    /// The file, without its ending: a safe name.
    pub file: String,
    /// The name that the file's was made from, which tells it from others that came out alike.
    pub name: String,
}

/// A session to be.
#[derive(Clone, Debug)]
pub struct NewLog {
    /// Its row; where the log is, is filled in here.
    pub row: SessionRow,
    /// What its file is called after.
    pub stem: Stem,
}

/// A session to be, and where its log may stand.
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
    /// A file stands there that an import left when it died, if no session has the path.
    has_draft: bool,
}

impl FreePath {
    /// Removes what an import left at a path that is taken now: none can be about to commit there any more.
    pub(crate) fn clear(&self, disk: &dyn Disk) -> Result<()> {
        if !self.has_draft {
            return Ok(());
        }
        match disk.unlink(&self.path) {
            // The transaction ran before.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            other => Ok(other.map_err(LogError::io("remove", &self.path))?),
        }
    }
}

impl PlannedLog {
    /// Makes the session, with a path that no other ever had. It is as planned each time that a transaction runs again.
    pub fn insert(&self, tx: &mut Tx<'_>) -> Result<SessionRow> {
        let mut row = self.row.clone();
        insert_at_free(tx, &mut row, &self.free)?.clear(&*self.disk)?;
        if let Some(status) = row.status {
            status_transitions::insert(tx, &first_status(&row, status))?;
        }
        Ok(row)
    }
}

/// What went with a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deleted {
    /// The session.
    pub id: SessionId,
    /// What it was called.
    pub name: Option<String>,
    /// How many bytes its log had.
    pub bytes: u64,
    /// What its conversations came to.
    pub conversations: Conversations,
}

/// What a session's conversations come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversations {
    /// How many branches.
    pub branches: u64,
    /// How many messages, each counted once.
    pub messages: u64,
}

/// A log that was taken away from a session that stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedLog {
    /// The session.
    pub id: SessionId,
    /// What it was called.
    pub name: Option<String>,
    /// How many bytes it had.
    pub bytes: u64,
    /// The epoch of the log that begins now.
    pub epoch: Epoch,
}

/// What making a session answers: by the id it is found again.
#[derive(Serialize, Deserialize)]
pub(crate) struct Made {
    pub(crate) id: SessionId,
    #[serde(skip)]
    pub(crate) row: Option<SessionRow>,
}

/// What raising the epoch of a log came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Raised {
    /// Bytes that someone may have seen are gone; this is the epoch from now on.
    To(Epoch),
    /// The log is the one that is meant: nothing changed, or somebody deleted or repaired it on purpose.
    OnPurpose,
}

/// How much of a log outlives an event that raises its epoch, by the record of the event.
///
/// `None` if the event raises no epoch.
pub(crate) fn kept_to(action: RepairAction, position: Position) -> Option<Position> {
    match action {
        RepairAction::Missing | RepairAction::Replaced | RepairAction::Deleted => Some(Position::ZERO),
        RepairAction::Shorter | RepairAction::Rewritten => Some(position),
        RepairAction::Completed | RepairAction::Quarantined | RepairAction::Terminated | RepairAction::Unsealed => None,
    }
}

impl Join {
    /// Makes a session: its row, with a path that no other session ever had, whatever the case of its letters.
    ///
    /// There is no file until the first append; an absent file is an empty log. Fails where the name is taken.
    pub fn create(&self, new: NewLog, durability: Durability) -> Result<SessionRow> {
        self.create_once(None, new, durability)
    }

    /// Makes a session, under a key where one is given: asked again, it answers with the session that it made.
    pub fn create_once(&self, key: Option<IdempotencyKey>, new: NewLog, durability: Durability) -> Result<SessionRow> {
        let planned = self.plan(new)?;
        let made: Made = self.transact::<_, Error>(Write::once(durability, key), move |tx| {
            let row = planned.insert(tx)?;
            Ok((Made { id: row.id.clone(), row: Some(row) }, Vec::new()))
        })?;
        match made.row {
            Some(row) => Ok(row),
            None => self.known(&made.id).map(|known| known.row),
        }
    }

    /// Looks where the log of a session to be may stand, so that a transaction can make the session together with the
    /// rows that need it.
    pub fn plan(&self, new: NewLog) -> Result<PlannedLog> {
        let NewLog { mut row, stem } = new;
        let free = self.free_paths(&stem, &row.id)?;
        row.home_id = self.home;
        row.scope = stem.scope;
        Ok(PlannedLog { row, free, disk: Arc::clone(&self.disk) })
    }

    /// The paths that a log called so may have, those left out where a file stands already.
    ///
    /// A file without a row is someone's; a new session must not begin with its lines. Paths of two states of one home
    /// differ, so that a path is one session's in the whole home.
    pub(crate) fn free_paths(&self, stem: &Stem, id: &SessionId) -> Result<Vec<FreePath>> {
        let folder = Path::new("sessions").join(&stem.scope);
        let (mut free, state) = (Vec::new(), self.file_suffix()?);
        // The last one is nobody's: there is always a free path, however often a name was used and deleted.
        let unique = SessionId::new();
        let marks = [stem.name.as_str(), id.as_str(), unique.as_str()];
        for file in std::iter::once(stem.file.clone()).chain(marks.map(|mark| with_suffix(&stem.file, mark))) {
            let path = folder.join(format!("{file}{state}.jsonl"));
            match self.disk.stat(&path).map_err(LogError::io("look at", &path))? {
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

    /// What a session's conversations come to.
    pub fn conversations_of(&self, session: &SessionId) -> Result<Conversations> {
        Ok(self.state.read(|tx| conversations(tx, session))?)
    }

    /// Takes the log of a session away and leaves the session: its epoch is raised, and a record says who asked for it.
    ///
    /// Both happen under the log's lock, the epoch first: the other way round it would look as if someone had lost the log.
    /// Should the process die in between, whoever opens the log next finishes it.
    pub fn remove_log(&self, session: &SessionId, detail: Option<&str>) -> Result<RemovedLog> {
        self.remove_log_once(None, session, detail)
    }

    /// Takes the log of a session away, under a key where one is given. It is answered with the epoch.
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
            // Another who asks the same may be inside.
            if let Some(answer) = key.map_or(Ok(None), |key| self.answer_to(key))? {
                return match self.finish_deletion(session) {
                    // It was deleted since, with its log.
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
                // What was claimed behind the end was never written; what was written is answered for ever.
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
                    // The log is another one by now.
                    return Err(LogError::Replaced(place.path.clone()));
                }
                removed = Some(end);
                Ok(())
            };
            match duolog_log::remove(&self.disk, &place, &self.limits, raise) {
                Ok(()) => {}
                // The log is deleted since its epoch was raised: the next writer or the next opening removes the file.
                Err(error) if removed.is_some() => {
                    return Err(Error::from(error).after_deletion(session, Leftover::LogFile));
                }
                Err(LogError::Replaced(_)) => continue,
                Err(error) => return Err(error.into()),
            }
            match self.note_unlinked(session, epoch.next()) {
                // Whoever opens the log next looks for the file once more.
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
                // Whoever appends here next opens the log that begins now.
                self.open.let_go(session, &open);
            }
            return Ok(removed_log(&known, end));
        }
    }

    /// What is known of a log of this home, once a deletion of it that was begun is finished.
    pub(crate) fn current(&self, session: &SessionId) -> Result<Known> {
        loop {
            let known = self.known(session)?;
            self.own(&known.row)?;
            if !self.finish_unlink(&known)? {
                return Ok(known);
            }
        }
    }

    /// Returns what is known of a log, for the deletion of it that is asked for: a deletion before it that cannot be
    /// finished is an error that says so.
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

    /// Unlinks the file that a deletion of the log left; false if there is none to unlink.
    pub(crate) fn finish_unlink(&self, known: &Known) -> Result<bool> {
        let (session, epoch) = (&known.row.id, known.row.log_epoch);
        if !known.row.unlink_due {
            return Ok(false);
        }
        let is_due = |_| {
            let id = session.clone();
            // Synced first: the row may be of a commit whose sync failed, and a power cut must not keep only the unlink.
            let due = self.write(Durability::Power, move |tx| Ok(sessions::confirm_unlink(tx, &id, epoch)?));
            let is_due = due.map_err(|error| LogError::Record(Box::new(error)))?;
            // Another was faster, and the file may be of the new epoch.
            if is_due { Ok(()) } else { Err(LogError::Replaced(known.place().path)) }
        };
        match duolog_log::remove(&self.disk, &known.place(), &self.limits, is_due) {
            Err(LogError::Replaced(_)) => return Ok(true),
            other => other?,
        }
        self.note_unlinked(session, epoch)?;
        Ok(true)
    }

    /// Notes that the file of the previous epoch is gone. Synced: the note must outlive the lines of the new file.
    fn note_unlinked(&self, session: &SessionId, epoch: Epoch) -> Result<bool> {
        let id = session.clone();
        self.write(Durability::Power, move |tx| Ok(sessions::note_unlinked(tx, &id, epoch)?))
    }

    /// Raises the epoch from the one the caller saw. Whoever did so first, its record stands.
    pub(crate) fn raise_epoch(&self, session: &SessionId, epoch: Epoch, repair: NewRepair) -> Result<Raised> {
        if self.raise_epoch_at(session, epoch, repair, None)? {
            return Ok(Raised::To(epoch.next()));
        }
        let row = self.known(session)?.row;
        let noted = self.repairs_of(session)?;
        let lost = noted.iter().any(|row| row.repair.epoch == epoch && row.repair.action.is_loss());
        Ok(if lost && row.log_epoch > epoch { Raised::To(row.log_epoch) } else { Raised::OnPurpose })
    }

    /// Raises the epoch and settles all that spoke of the old one; false where it is another by now, or the session is gone.
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
            leave_responses(tx, &id)?;
            if repair.action == RepairAction::Deleted {
                if !mutant::is(Mutant::UnlinkForgotten) {
                    sessions::owe_unlink(tx, &id, epoch.next())?;
                }
                // The lines that wait are of the log that goes; what operations were answered stands.
                outbox::forget(tx, &id)?;
            } else if let Some(kept) = kept_to(repair.action, repair.position) {
                for row in operations::beyond(tx, &id, epoch, kept)? {
                    operations::unclaim(tx, &row, row.lines_done)?;
                }
            }
            // Counts of what is gone must not stay; what is left is folded anew.
            let rows = Derived::new(empty_row(&known(tx, &id)?)).rows();
            write_rows(tx, None, &rows)?;
            behind::mark_for_nobody(tx, &id, &home, at)?;
            Ok(true)
        })
    }

    /// Deletes a session: a tombstone and a record of what goes first, then the files, then the row.
    ///
    /// A crash in between is finished when the home is opened next. Where the log is in use, nothing is changed.
    pub fn delete(&self, session: &SessionId) -> Result<Deleted> {
        self.delete_once(None, session)
    }

    /// Deletes a session, under a key where one is given. It is answered by the tombstone.
    pub fn delete_once(&self, key: Option<IdempotencyKey>, session: &SessionId) -> Result<Deleted> {
        if !self.is_writable() {
            return Err(Error::ReadOnly);
        }
        if let Some(answer) = key.as_ref().map_or(Ok(None), |key| self.answer_to(key))? {
            let row = self.state.read(|tx| sessions::find(tx, session))?;
            if row.is_some_and(|row| row.deleted_at.is_some()) {
                // It died before the files were gone.
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
        // What is not a log is not ours to remove.
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
            // Opening the home removes the file.
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
            // It is deleted since the tombstone: opening the home removes the row.
            Err(error) if error.is_busy() || error.is_full() => {}
            Err(error) => return Err(error.after_deletion(session, Leftover::SessionRow)),
            Ok(()) => {}
        }
        if let Some(open) = self.open.get(session) {
            self.open.let_go(session, &open);
        }
        Ok(deleted)
    }

    /// The answer of a request whose retry was faster; otherwise the error of a session that is gone, or any other error.
    fn answered_meanwhile(&self, key: Option<&IdempotencyKey>, error: Error) -> Result<Deleted> {
        let Some(key) = key.filter(|_| matches!(error, Error::NoSession(_) | Error::Deleted(_))) else {
            return Err(error);
        };
        self.answer_to(key)?.ok_or(error)
    }

    /// Takes back a session that was made for an append that failed, and the answer under the key of the request. Returns
    /// false if it stays, because its log has a byte or somebody else uses it.
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
                // In an epoch whose log is empty no operation was done; its claims go with the session.
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

    /// Puts the tombstone of a session and the record of what goes. The caller holds the lock of its log, which ends at
    /// `end`: where the log is in use, nothing is changed.
    fn entomb(&self, key: Option<IdempotencyKey>, row: &SessionRow, end: Position) -> Result<Deleted> {
        let (id, path, at) = (row.id.clone(), row.log_path.clone(), self.clock.now());
        let (name, bytes) = (row.name.clone(), end.0);
        let (is_marked, named) = (row.deleted_at.is_some(), row.clone());
        let mut repair = self.repair_row(&row.id, row.log_epoch, RepairAction::Deleted, end);
        repair.bytes = end.0;
        self.transact::<_, Error>(Write::once(Durability::Power, key), move |tx| {
            let conversations = conversations(tx, &id)?;
            if sessions::tombstone(tx, &id, &path, at)? {
                // What goes is known now: whoever finishes after a crash may find no file.
                let detail = Some(told(name.as_deref(), conversations)).filter(|told| !told.is_empty());
                repairs::note(tx, &NewRepair { detail, ..repair.clone() })?;
            } else if !is_marked {
                // It is gone, or another session has its id by now.
                return Err(Error::NoSession(id.clone()));
            }
            if let Some(row) = sessions::find(tx, &id)?.filter(|row| row.log_path == path) {
                log_epochs::retire(tx, row.log_epoch)?;
            }
            leave_responses(tx, &id)?;
            keep_operations_of_deleted(tx, &named)?;
            Ok((Deleted { id: id.clone(), name: name.clone(), bytes, conversations }, Vec::new()))
        })
    }
}

/// Adds a session with the first of these paths that no other ever had, in the epoch that a new log begins with.
///
/// What an import left there is the caller's to replace or to clear, before the commit.
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

/// The answer to the deletion of a log that ended at `end`.
fn removed_log(known: &Known, end: Position) -> RemovedLog {
    let row = &known.row;
    RemovedLog { id: row.id.clone(), name: row.name.clone(), bytes: end.0, epoch: row.log_epoch.next() }
}

/// How a session stands from the beginning, for its history.
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

/// What the record of a deletion says went besides the log: the name, and the conversations where there were any.
fn told(name: Option<&str>, went: Conversations) -> String {
    let name = name.unwrap_or_default();
    if went == Conversations::default() {
        return name.to_owned();
    }
    let Conversations { branches, messages } = went;
    format!("{name}\n{branches} branches, {messages} messages")
}

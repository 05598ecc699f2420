//! The beginning and the end of a log: the row comes first, and goes last (R7).

use std::path::{Path, PathBuf};

use duolog_log::{Error as LogError, Reader};
use duolog_state::owned::repairs::{self, RepairAction};
use duolog_state::owned::sessions::{self, SessionRow};
use duolog_state::owned::status_transitions::{self, StatusTransitionRow};
use duolog_state::owned::{branches, pool_segments};
use duolog_state::{Result as StateResult, Tx};
use duolog_types::names::with_suffix;
use duolog_types::{Durability, Epoch, SessionId};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::fold::leave_responses;
use crate::store::{Join, place_of};
use crate::transition::{Once, as_text};

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
#[derive(Clone, Debug)]
pub struct PlannedLog {
    row: SessionRow,
    free: Vec<PathBuf>,
}

impl PlannedLog {
    /// Makes the session, with a path that no other has. It is as planned each time that a transaction runs again.
    pub fn insert(&self, tx: &mut Tx<'_>) -> Result<SessionRow> {
        let mut row = self.row.clone();
        insert_at_free(tx, &mut row, &self.free)?;
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
    #[serde(with = "as_text")]
    pub id: SessionId,
    /// What it was called.
    pub name: Option<String>,
    /// How many bytes its log had.
    pub bytes: u64,
}

/// What a session's conversations come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conversations {
    /// How many branches.
    pub branches: u64,
    /// How many messages, each counted once.
    pub messages: u64,
}

/// A log that was taken away from a session that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemovedLog {
    /// How many bytes it had.
    pub bytes: u64,
    /// The epoch of the log that begins now.
    pub epoch: Epoch,
}

/// What making a session answers: by the id it is found again.
#[derive(Serialize, Deserialize)]
struct Made {
    #[serde(with = "as_text")]
    id: SessionId,
    #[serde(skip)]
    row: Option<SessionRow>,
}

impl Join {
    /// Makes a session: its row, with a path that no other session has, whatever the case of its letters.
    ///
    /// There is no file until the first append; an absent file is an empty log. Fails where the name is taken.
    pub fn create(&self, new: NewLog, durability: Durability) -> Result<SessionRow> {
        self.create_once(None, new, durability)
    }

    /// The same, under an operation id where one is given: asked again, it answers with the session that it made.
    pub fn create_once(&self, once: Option<Once>, new: NewLog, durability: Durability) -> Result<SessionRow> {
        let planned = self.plan(new)?;
        let made = self.transact_once(once, durability, move |tx| {
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
        Ok(PlannedLog { row, free })
    }

    /// The paths that a log called so may have, those left out where a file stands already.
    ///
    /// A file without a row is someone's; a new session must not begin with its lines.
    pub(crate) fn free_paths(&self, stem: &Stem, id: &SessionId) -> Result<Vec<PathBuf>> {
        let folder = Path::new("sessions").join(&stem.scope);
        let mut free = Vec::new();
        for file in [stem.file.clone(), with_suffix(&stem.file, &stem.name), with_suffix(&stem.file, id.as_str())] {
            let path = folder.join(format!("{file}.jsonl"));
            if self.disk.stat(&path).map_err(LogError::io("look at", &path))?.is_none() {
                free.push(path);
            }
        }
        if free.is_empty() {
            let source = std::io::ErrorKind::AlreadyExists.into();
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
    /// The epoch goes first: should we die in between, readers look again for nothing and the log can be taken away
    /// again; the other way round it would look as if someone had lost it.
    pub fn remove_log(&self, session: &SessionId, detail: Option<String>) -> Result<RemovedLog> {
        if !self.is_writable() {
            return Err(Error::ReadOnly);
        }
        let _revoked = self.revoke_pass(session)?;
        // A line about a row that waits is of the log that goes; the one that begins now does not begin with it.
        let _ = self.drain(session);
        let known = self.known(session)?;
        self.own(&known.row)?;
        let place = known.place();
        let end = match Reader::open(&self.disk, &place)? {
            Some(reader) => reader.stable_end(self.limits.busy_timeout)?,
            None => known.row.log_base,
        };
        let mut repair = self.repair_row(session, known.row.log_epoch, RepairAction::Deleted, end);
        repair.bytes = end.0;
        repair.detail = detail;
        let epoch = self.raise_epoch(session, known.row.log_epoch, repair)?;
        if let Some(open) = self.open.get(session) {
            // Whoever appends here next opens the log that begins now.
            self.open.let_go(session, &open);
        }
        duolog_log::remove(&self.disk, &place, &self.limits)?;
        self.begin_anew(session)?;
        Ok(RemovedLog { bytes: end.0, epoch })
    }

    /// Deletes a session: a tombstone first, then the files, then the row; a record of what went stays.
    ///
    /// A crash in between is finished when the home is opened next. Where the log is in use, nothing is changed.
    pub fn delete(&self, session: &SessionId) -> Result<Deleted> {
        self.delete_once(None, session)
    }

    /// The same, under an operation id where one is given. It is answered by the tombstone.
    pub fn delete_once(&self, once: Option<Once>, session: &SessionId) -> Result<Deleted> {
        let id = session.clone();
        let row = self.state.read(|tx| sessions::find(tx, &id))?.ok_or_else(|| Error::NoSession(session.clone()))?;
        self.own(&row)?;
        let place = place_of(&row);
        // What is not a log is not ours to remove, and one in use is left alone: both are said before the tombstone.
        let end = match Reader::open(&self.disk, &place)? {
            Some(reader) => reader.stable_end(self.limits.busy_timeout)?,
            None => row.log_base,
        };
        let _revoked = self.revoke_pass(session)?;
        let went = self.conversations_of(session)?;
        let (id, at) = (session.clone(), self.clock.now());
        let deleted = Deleted { id: id.clone(), name: row.name.clone(), bytes: end.0 };
        let deleted = self.transact_once(once, Durability::Power, move |tx| {
            sessions::tombstone(tx, &id, at)?;
            leave_responses(tx, &id)?;
            Ok((deleted.clone(), Vec::new()))
        })?;
        duolog_log::remove(&self.disk, &place, &self.limits)?;
        let mut repair = self.repair_row(session, row.log_epoch, RepairAction::Deleted, end);
        repair.bytes = end.0;
        repair.detail = Some(told(row.name.as_deref(), went)).filter(|told| !told.is_empty());
        let id = session.clone();
        self.write(Durability::Power, move |tx| {
            repairs::note(tx, &repair)?;
            Ok(sessions::remove(tx, &id)?)
        })?;
        Ok(deleted)
    }
}

/// Adds a session with the first of these paths that no other has.
pub(crate) fn insert_at_free(tx: &mut Tx<'_>, row: &mut SessionRow, free: &[PathBuf]) -> Result<PathBuf> {
    for path in free {
        row.log_path = path.to_string_lossy().into_owned();
        row.log_key = row.log_path.to_lowercase();
        if !sessions::log_key_taken(tx, &row.home_id, &row.log_key)? {
            sessions::insert(tx, row)?;
            return Ok(path.clone());
        }
    }
    let path = Path::new("sessions").join(&row.scope);
    let source = std::io::ErrorKind::AlreadyExists.into();
    Err(LogError::Io { call: "find a free name for", path, source }.into())
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

//! The beginning and the end of a log: the row comes first, and goes last (R7).

use std::path::Path;

use duolog_log::{Error as LogError, Reader};
use duolog_state::owned::repairs::{self, RepairAction};
use duolog_state::owned::sessions::{self, SessionRow};
use duolog_types::names::with_suffix;
use duolog_types::{Durability, SessionId};
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
        let NewLog { mut row, stem } = new;
        let folder = Path::new("sessions").join(&stem.scope);
        let mut free = Vec::new();
        for file in [stem.file.clone(), with_suffix(&stem.file, &stem.name), with_suffix(&stem.file, row.id.as_str())] {
            let path = folder.join(format!("{file}.jsonl"));
            // A file without a row is someone's; a new session must not begin with its lines.
            if self.disk.stat(&path).map_err(LogError::io("look at", &path))?.is_none() {
                free.push(path);
            }
        }
        row.home_id = self.home;
        row.scope = stem.scope;
        let made = self.transact_once(once, durability, move |tx| {
            for path in &free {
                row.log_path = path.to_string_lossy().into_owned();
                row.log_key = row.log_path.to_lowercase();
                if !sessions::log_key_taken(tx, &row.home_id, &row.log_key)? {
                    sessions::insert(tx, &row)?;
                    return Ok((Made { id: row.id.clone(), row: Some(row.clone()) }, Vec::new()));
                }
            }
            Err(LogError::Io {
                call: "find a free name for",
                path: folder.clone(),
                source: std::io::ErrorKind::AlreadyExists.into(),
            }
            .into())
        })?;
        match made.row {
            Some(row) => Ok(row),
            None => self.known(&made.id).map(|known| known.row),
        }
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
        repair.detail = row.name;
        let id = session.clone();
        self.write(Durability::Power, move |tx| {
            repairs::note(tx, &repair)?;
            Ok(sessions::remove(tx, &id)?)
        })?;
        Ok(deleted)
    }
}

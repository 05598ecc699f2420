//! The beginning and the end of a log: the row comes first, and goes last (R7).

use std::path::Path;

use duolog_log::{Error as LogError, Reader};
use duolog_state::owned::repairs::{self, RepairAction};
use duolog_state::owned::sessions::{self, SessionRow};
use duolog_types::names::with_suffix;
use duolog_types::{Durability, SessionId};

use crate::error::{Error, Result};
use crate::store::{Join, place_of};

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

impl Join {
    /// Makes a session: its row, with a path that no other session has, whatever the case of its letters.
    ///
    /// There is no file until the first append; an absent file is an empty log. Fails where the name is taken.
    pub fn create(&self, new: NewLog, durability: Durability) -> Result<SessionRow> {
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
        self.write(durability, move |tx| {
            for path in free {
                let path = path.to_string_lossy().into_owned();
                let key = path.to_lowercase();
                if !sessions::log_key_taken(tx, &row.home_id, &key)? {
                    (row.log_path, row.log_key) = (path, key);
                    sessions::insert(tx, &row)?;
                    return Ok(row);
                }
            }
            Err(LogError::Io {
                call: "find a free name for",
                path: folder,
                source: std::io::ErrorKind::AlreadyExists.into(),
            }
            .into())
        })
    }

    /// Deletes a session: a tombstone first, then the files, then the row; a record of what went stays.
    ///
    /// A crash in between is finished when the home is opened next. Where the log is in use, nothing is changed.
    pub fn delete(&self, session: &SessionId) -> Result<()> {
        let id = session.clone();
        let row = self.state.read(|tx| sessions::find(tx, &id))?.ok_or_else(|| Error::NoSession(session.clone()))?;
        self.own(&row)?;
        let place = place_of(&row);
        // What is not a log is not ours to remove, and one in use is left alone: both are said before the tombstone.
        let end = match Reader::open(&self.disk, &place)? {
            Some(reader) => reader.stable_end(self.limits.busy_timeout)?,
            None => row.log_base,
        };
        let (id, at) = (session.clone(), self.clock.now());
        self.write(Durability::Power, move |tx| Ok(sessions::tombstone(tx, &id, at)?))?;
        duolog_log::remove(&self.disk, &place, &self.limits)?;
        let mut repair = self.repair_row(session, row.log_epoch, RepairAction::Deleted, end);
        repair.bytes = end.0;
        repair.detail = row.name;
        let id = session.clone();
        self.write(Durability::Power, move |tx| {
            repairs::note(tx, &repair)?;
            Ok(sessions::remove(tx, &id)?)
        })?;
        Ok(())
    }
}

//! Sessions: what logs and everything else belong to.

mod model;
mod rules;

#[cfg(test)]
mod tests;

use duolog_join::{Told, tell};
use duolog_state::Page;
use duolog_state::owned::sessions as table;
use duolog_types::names::check_name;
use duolog_types::{Durability, SessionId};
use serde_json::Map;

pub use model::{NewSession, Session, SessionFigures, SessionFilter, SessionList, SessionRef, SessionSummary};

use crate::error::{Error, Result};
use crate::store::Store;

/// The sessions of a store.
#[derive(Clone, Copy)]
pub struct Sessions<'s> {
    pub(crate) store: &'s Store,
}

impl Sessions<'_> {
    /// Makes a session. A name that is taken for the same user is a conflict.
    pub fn create(&self, new: &NewSession) -> Result<Session> {
        let join = &self.store.join;
        let log = rules::plan(new, join.home(), join.clock().now())?;
        match join.create(log, Durability::Power) {
            Ok(row) => Ok(row.into()),
            Err(error) if error.is_taken() => Err(Error::NameTaken(new.name.clone().unwrap_or_default())),
            Err(error) => Err(error.into()),
        }
    }

    /// The session to append to under this name: the one whose id or thread name it is exactly, or a new thread.
    pub fn open_thread(&self, name: &str) -> Result<Session> {
        if let Some(found) = self.find_exactly(name)? {
            return Ok(found);
        }
        check_name("thread name", name)?;
        match self.create(&NewSession { name: Some(name.to_owned()), ..NewSession::default() }) {
            // Another process was first: its session is the one we mean.
            Err(Error::NameTaken(_)) => self.find_exactly(name)?.ok_or_else(|| Error::NoSession(name.to_owned())),
            other => other,
        }
    }

    /// The session that a person means, for reading: by id, by thread name, by the beginning of an id, or by user and
    /// name.
    pub fn resolve(&self, reference: &SessionRef) -> Result<Session> {
        let absent = || Error::NoSession(reference.to_string());
        match reference {
            SessionRef::UserAndName { user, name } => {
                let found = self.store.join.state().read(|tx| table::find_addressed(tx, Some(user), name))?;
                found.map(Session::from).ok_or_else(absent)
            }
            SessionRef::Text(text) => {
                if let Some(found) = self.find_exactly(text)? {
                    return Ok(found);
                }
                let mut ids = self.store.join.state().read(|tx| table::starting_with(tx, text, 4))?;
                if ids.len() > 1 {
                    return Err(Error::Ambiguous { prefix: text.clone(), found: ids });
                }
                self.get(&ids.pop().ok_or_else(absent)?)
            }
        }
    }

    /// The session with this id.
    pub fn get(&self, id: &SessionId) -> Result<Session> {
        let row = self.store.join.state().read(|tx| table::find(tx, id))?;
        row.filter(|row| row.deleted_at.is_none()).map(Session::from).ok_or_else(|| Error::NoSession(id.to_string()))
    }

    /// What is known of a session's log, after folding what is waiting of it.
    pub fn figures(&self, id: &SessionId) -> Result<SessionFigures> {
        let join = &self.store.join;
        let behind = join.catch_up(join.limits().fold_before_read_bytes)?;
        let row = join.figures(id)?;
        Ok(SessionFigures {
            events: row.as_ref().map(|row| row.events),
            bytes: row.as_ref().map(|row| row.bytes),
            damaged: row.as_ref().map(|row| row.damaged),
            first_at: row.as_ref().and_then(|row| row.first_at),
            last_at: row.as_ref().and_then(|row| row.last_at),
            behind,
        })
    }

    /// A page of sessions, newest first. What is marked behind is folded first, within a bound, and what is not is said.
    pub fn list(&self, filter: &SessionFilter, page: &Page) -> Result<SessionList> {
        let join = &self.store.join;
        let behind = join.catch_up(join.limits().fold_before_read_bytes)?;
        let filter = filter.into();
        let (rows, next) = join.state().read(|tx| table::list_page(tx, &filter, page))?;
        Ok(SessionList { sessions: rows.into_iter().map(SessionSummary::from).collect(), next, behind })
    }

    /// Gives a session another name; its file stays where it is, and its log tells of it.
    pub fn rename(&self, id: &SessionId, name: &str) -> Result<Session> {
        check_name("session name", name)?;
        let old = self.get(id)?;
        let at = self.store.join.clock().now();
        let (session, new_name) = (id.clone(), name.to_owned());
        let renamed = self.store.join.transact(Durability::Power, move |tx| {
            table::rename(tx, &session, &new_name, at)?;
            let mut fields = Map::new();
            fields.insert("name".to_owned(), new_name.into());
            fields.insert("previousName".to_owned(), old.name.into());
            let told: Told = tell(tx, &session, "renamed", at, fields)?;
            Ok(((), vec![told]))
        });
        match renamed {
            Err(error) if error.is_taken() => Err(Error::NameTaken(name.to_owned())),
            other => {
                other?;
                self.get(id)
            }
        }
    }

    /// Deletes a session with its log.
    pub fn delete(&self, id: &SessionId) -> Result<()> {
        Ok(self.store.join.delete(id)?)
    }

    fn find_exactly(self, text: &str) -> Result<Option<Session>> {
        let row = self.store.join.state().read(|tx| {
            if let Ok(id) = SessionId::parse(text)
                && let Some(row) = table::find(tx, &id)?.filter(|row| row.deleted_at.is_none())
            {
                return Ok::<_, Error>(Some(row));
            }
            Ok(table::find_addressed(tx, None, text)?)
        })?;
        Ok(row.map(Session::from))
    }
}

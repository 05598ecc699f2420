//! The session that a write goes to: one that exists, or one that the write creates.
//!
//! Items are added in the transaction that creates their session. An append is not a transaction of the state:
//! everything that can be refused is checked before its session is created, and a session whose first append fails is
//! deleted again.

use duolog_join::{Committed, IdempotencyKey, PlannedLog, Write};
use duolog_log::{Append, Error as LogError};
use duolog_state::Tx;
use duolog_state::owned::sessions::{self as table, SessionRow};
use duolog_types::names::check_name;
use duolog_types::{Batch, Durability, OperationId, Position, SessionId};
use serde::Serialize;

use super::model::{NewSession, Session, SessionRef};
use super::{Sessions, rules};
use crate::error::{Error, Result};
use crate::log::AppendOptions;

/// How often another process may create or delete the session in between before a write fails.
const TRIES_MAX: u32 = 8;

/// The session that a write goes to. It is created if it does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteTarget {
    /// The session with this id or thread name, or of this user and name.
    Named(SessionRef),
    /// A new session of this user, with a generated name.
    NewOf(String),
}

/// The session of a write's rows.
#[derive(Clone)]
pub(super) enum Destination {
    /// A session that exists.
    Existing(SessionId),
    /// A session that the transaction of the write creates.
    Planned(Box<PlannedLog>),
}

impl Destination {
    /// Returns the session; creates it if it is planned.
    pub(super) fn open(&self, tx: &mut Tx<'_>) -> Result<SessionId> {
        match self {
            Self::Existing(session) => Ok(session.clone()),
            Self::Planned(planned) => Ok(planned.insert(tx)?.id),
        }
    }
}

impl WriteTarget {
    /// Returns the user and the session as given, by which a repeated request is recognised.
    pub(super) fn parts(&self) -> [Option<&str>; 2] {
        match self {
            Self::Named(reference) => rules::parts(reference),
            Self::NewOf(user) => [Some(user), None],
        }
    }

    /// Returns the user and the name of the session, if it has a name before it is created.
    fn called(&self) -> Option<(Option<&str>, &str)> {
        let [user, name] = self.parts();
        name.map(|name| (user, name))
    }

    /// Returns the key of a request that creates the session. An operation id is unique within the named session, the
    /// same as for a session that exists.
    fn key(&self, scope: &str, operation: &OperationId, request: &impl Serialize) -> Result<IdempotencyKey> {
        let mut hasher = blake3::Hasher::new();
        // No name contains the byte that ends a part.
        for part in self.parts() {
            hasher.update(part.unwrap_or("\u{0}").as_bytes()).update(&[0xff]);
        }
        Ok(IdempotencyKey::new(scope, operation, request)?.part(&hasher.finalize().to_hex()))
    }

    fn new_session(&self) -> Result<NewSession> {
        Ok(match self {
            Self::Named(SessionRef::Text(name)) => {
                check_name("thread name", name)?;
                NewSession { name: Some(name.clone()), ..NewSession::default() }
            }
            Self::Named(SessionRef::UserAndName { user, name }) => {
                NewSession { user_id: Some(user.clone()), name: Some(name.clone()), ..NewSession::default() }
            }
            Self::NewOf(user) => NewSession { user_id: Some(user.clone()), ..NewSession::default() },
        })
    }
}

impl Sessions {
    /// Returns the session of a target; `None` if the write would create it.
    pub fn find_target(&self, target: &WriteTarget) -> Result<Option<Session>> {
        let row = self.store.join.state().read(|tx| match target {
            WriteTarget::Named(SessionRef::Text(text)) => find_exactly(tx, text),
            WriteTarget::Named(SessionRef::UserAndName { user, name }) => {
                Ok::<_, Error>(table::find_addressed(tx, Some(user), name)?)
            }
            WriteTarget::NewOf(_) => Ok(None),
        })?;
        Ok(row.map(Session::from))
    }

    /// Runs a write that may create its session. Retries if another process creates the session first.
    pub(super) fn write_to<T>(
        &self,
        target: &WriteTarget,
        mut write: impl FnMut(Destination) -> Result<T>,
    ) -> Result<T> {
        let mut left = TRIES_MAX;
        loop {
            let destination = match self.find_target(target)? {
                Some(session) => Destination::Existing(session.id),
                None => Destination::Planned(Box::new(self.planned(target)?)),
            };
            let is_new = matches!(destination, Destination::Planned(_));
            match write(destination) {
                Err(error) if is_new && left > 0 && error.is_taken() => left -= 1,
                other => return other,
            }
        }
    }

    fn planned(&self, target: &WriteTarget) -> Result<PlannedLog> {
        let join = &self.store.join;
        Ok(join.plan(rules::plan(&target.new_session()?, join.home(), join.clock().now())?)?)
    }

    /// Returns the session of a target; creates it if it does not exist.
    pub fn open_target(&self, target: &WriteTarget) -> Result<Session> {
        self.open_once(target, None)
    }

    /// Returns the session of a target, to record events under an operation id.
    ///
    /// A new session with a generated name is created once under the id. A retry gets the session in which events were
    /// recorded at first, even if it was renamed, or an error if it was deleted.
    pub fn open_to_record(&self, target: &WriteTarget, operation: Option<&OperationId>) -> Result<Session> {
        let Some(operation) = operation else { return self.open_target(target) };
        let Some(called) = target.called() else {
            return self.open_once(target, Some(&target.key("log.record", operation, &())?));
        };
        match self.store.join.former_session_of_events(called, operation)? {
            Some(former) => self.get_made(Some(operation), &former),
            None => self.open_target(target),
        }
    }

    fn open_once(&self, target: &WriteTarget, key: Option<&IdempotencyKey>) -> Result<Session> {
        let id = self.write_to(target, |destination| {
            if let Destination::Existing(id) = destination {
                return Ok(id);
            }
            let how = Write::once(Durability::Power, key.cloned());
            self.store.transact(how, move |tx| Ok((destination.open(tx)?, Vec::new())))
        })?;
        self.get_made(key.map(IdempotencyKey::operation), &id)
    }

    /// Appends a batch to the log of the target session. The session is created if it does not exist.
    ///
    /// An append that is refused creates nothing. Under an operation id, a new session is created once: a retry appends
    /// nothing and returns the session that the lines went to, even if it was renamed, or an error if it was deleted.
    pub fn append(&self, target: &WriteTarget, batch: &Batch, options: &AppendOptions) -> Result<(Session, Committed)> {
        let mut left = TRIES_MAX;
        loop {
            // In this order: a session that loses its name in between is found by one of them.
            let found = self.find_target(target)?;
            if let Some(session) = self.former_target(target, batch, options)?.or(found) {
                match self.store.log(&session.id).append_with(batch, options) {
                    // Another process created it, failed to append to it, and deleted it again.
                    Err(error) if error.is_gone() && left > 0 => left -= 1,
                    appended => return Ok((session, appended?)),
                }
                continue;
            }
            if let Some(expected) = options.if_position.filter(|expected| *expected != Position::ZERO) {
                return Err(LogError::Moved { expected, found: Position::ZERO }.into());
            }
            let request = String::from_utf8_lossy(batch.as_bytes());
            let key = |operation| target.key("log.append", operation, &request);
            let key = options.operation.as_ref().map(key).transpose()?;
            let session = self.open_once(target, key.as_ref())?;
            let appended = self.store.log(&session.id).append_with(batch, options);
            if appended.is_err() {
                // If this fails too, an empty session is left; the error of the append is the one to report.
                let _ = self.store.join.unmake(key.as_ref(), &session.id);
            }
            return Ok((session, appended?));
        }
    }

    /// Returns the session that this append went to before, if the target no longer names it.
    fn former_target(&self, target: &WriteTarget, batch: &Batch, options: &AppendOptions) -> Result<Option<Session>> {
        let Some((operation, called)) = options.operation.as_ref().zip(target.called()) else { return Ok(None) };
        let how = Append { durability: options.durability, if_position: options.if_position };
        let former = self.store.join.former_session_of_append(called, operation, batch, &how)?;
        former.map(|id| self.get_made(Some(operation), &id)).transpose()
    }
}

/// Returns the session with exactly this id or thread name.
pub(super) fn find_exactly(tx: &mut Tx<'_>, text: &str) -> Result<Option<SessionRow>> {
    if let Ok(id) = SessionId::parse(text)
        && let Some(row) = table::find(tx, &id)?.filter(|row| row.deleted_at.is_none())
    {
        return Ok(Some(row));
    }
    Ok(table::find_addressed(tx, None, text)?)
}

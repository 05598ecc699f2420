//! The status of a session, its changes and its owner.

use duolog_join::{Identity, tell};
use duolog_state::owned::session_owners::{self, SessionOwnerRow};
use duolog_state::owned::sessions as table;
use duolog_state::owned::status_transitions::{self, StatusTransitionRow};
use duolog_types::json::check_value;
use duolog_types::limits::{METADATA_BYTES_MAX, NAME_BYTES_MAX, PAGE_MAX, REASON_BYTES_MAX, WORD_BYTES_MAX};
use duolog_types::{Durability, SessionId, SessionStatus, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::rules::bounded;
use crate::error::{Conflict, Error, Invalid, Result};
use crate::store::Store;

pub use duolog_join::Liveness;
pub use duolog_state::owned::status_transitions::StatusTransitionRow as StatusTransition;

/// The handle for the status of a session.
#[derive(Clone)]
pub struct Status {
    pub(crate) store: Store,
    pub(crate) session: SessionId,
}

/// The details of a status change.
#[derive(Clone, Debug, Default)]
pub struct StatusUpdate {
    /// The reason code.
    pub reason_code: Option<String>,
    /// The reason, for the user.
    pub reason: Option<String>,
    /// The actor.
    pub actor: Option<String>,
    /// Evidence, as JSON.
    pub evidence: Option<String>,
    /// The process of this machine that runs the session from now on, if the status becomes running.
    pub pid: Option<u32>,
}

/// The process that runs a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The process id.
    pub pid: u32,
    /// The machine, if it is known.
    pub host: Option<String>,
    /// The time since which it runs the session.
    pub since: Timestamp,
    /// The liveness of the process.
    pub liveness: Liveness,
}

/// The result of a status change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The previous status.
    pub previous: Option<SessionStatus>,
    /// The current status.
    pub status: SessionStatus,
    /// True if the status changed.
    pub changed: bool,
}

impl Status {
    /// Sets the status. A final status is not changed: use [`Status::reopen`] first.
    ///
    /// # Errors
    ///
    /// Returns an error if the session has ended with another status.
    pub fn set(&self, status: SessionStatus, change: &StatusUpdate, durability: Durability) -> Result<Changed> {
        check(change)?;
        self.become_from(change, durability, move |session, previous| keep_ended(session, previous, status))
    }

    /// Sets a session that has ended to running. An actor and a reason are required.
    ///
    /// # Errors
    ///
    /// Returns an error if the session has not ended, or if the actor or the reason is missing.
    pub fn reopen(&self, change: &StatusUpdate, durability: Durability) -> Result<Changed> {
        for (what, text) in [("actor", &change.actor), ("reason", &change.reason)] {
            if text.as_deref().is_none_or(|text| text.trim().is_empty()) {
                return Err(Error::Invalid(Invalid::Value { what, why: "is required to reopen a session".to_owned() }));
            }
        }
        check(change)?;
        self.become_from(change, durability, |session, previous| match previous {
            Some(previous) if previous.is_terminal() => Ok(SessionStatus::Running),
            _ => Err(Error::Conflict(Conflict::NotEnded(session.clone()))),
        })
    }

    /// Sets the process of this machine that runs the session from now on. A session that has ended is reopened.
    pub fn run(&self, pid: u32, change: &StatusUpdate, durability: Durability) -> Result<Changed> {
        self.set(SessionStatus::Running, &StatusUpdate { pid: Some(pid), ..change.clone() }, durability)
    }

    /// Returns the liveness of the process that runs the session; `None` if no process is known.
    pub fn liveness(&self) -> Result<Option<Liveness>> {
        Ok(self.owner()?.map(|owner| owner.liveness))
    }

    /// Returns the process that runs the session; `None` if no process is known.
    pub fn owner(&self) -> Result<Option<Owner>> {
        let join = &self.store.join;
        let owner = join.state().read(|tx| session_owners::find(tx, &self.session))?;
        Ok(owner.map(|row| {
            let SessionOwnerRow { pid, process_started: started, host, boot_id: boot, since, .. } = row;
            let liveness = join.liveness(&Identity { pid, started, host: host.clone(), boot });
            Owner { pid, host, since, liveness }
        }))
    }

    /// Returns the status changes, newest first.
    pub fn transitions(&self, limit: u32) -> Result<Vec<StatusTransition>> {
        let limit = limit.clamp(1, PAGE_MAX);
        Ok(self.store.join.state().read(|tx| status_transitions::newest(tx, &self.session, limit))?)
    }

    fn become_from(
        &self,
        change: &StatusUpdate,
        durability: Durability,
        decide: impl Fn(&SessionId, Option<SessionStatus>) -> Result<SessionStatus> + Send + 'static,
    ) -> Result<Changed> {
        let (session, change, now) = (self.session.clone(), change.clone(), self.store.join.clock().now());
        let owner = change.pid.map(|pid| owner_row(&session, self.store.join.identify(pid), now));
        self.store.transact(durability, move |tx| {
            let gone = || Error::from(duolog_join::Error::NoSession(session.clone()));
            let row = table::find(tx, &session)?.filter(|row| row.deleted_at.is_none()).ok_or_else(gone)?;
            let (previous, status) = (row.status, decide(&session, row.status)?);
            if let Some(owner) = owner.as_ref().filter(|_| status == SessionStatus::Running) {
                session_owners::put(tx, owner)?;
            }
            if previous == Some(status) {
                return Ok((Changed { previous, status, changed: false }, Vec::new()));
            }
            if !table::set_status(tx, &session, previous, status, now)? {
                return Err(gone());
            }
            if status.is_terminal() {
                session_owners::remove(tx, &session)?;
            }
            let StatusUpdate { reason_code, reason, actor, evidence, .. } = change.clone();
            let mut fields: Map<String, Value> = Map::new();
            fields.insert("status".to_owned(), status.as_str().into());
            fields.insert("previousStatus".to_owned(), previous.map(SessionStatus::as_str).into());
            fields.insert("reason".to_owned(), reason.clone().into());
            fields.insert("actor".to_owned(), actor.clone().into());
            let row = StatusTransitionRow {
                session_id: session.clone(),
                previous_status: previous,
                status,
                reason_code,
                reason,
                actor,
                evidence,
                created_at: now,
            };
            status_transitions::insert(tx, &row)?;
            let told = tell(tx, &session, "status", now, &fields)?;
            Ok((Changed { previous, status, changed: true }, vec![told]))
        })
    }
}

/// Returns the new status.
///
/// # Errors
///
/// Returns an error if the session has ended with another status.
fn keep_ended(session: &SessionId, previous: Option<SessionStatus>, to: SessionStatus) -> Result<SessionStatus> {
    match previous {
        Some(previous) if previous.is_terminal() && previous != to => {
            Err(Error::Conflict(Conflict::Ended { session: session.clone(), status: previous }))
        }
        _ => Ok(to),
    }
}

/// Returns the row of a process that runs a session from now on.
pub(super) fn owner_row(session: &SessionId, process: Identity, since: Timestamp) -> SessionOwnerRow {
    let Identity { pid, started, host, boot } = process;
    SessionOwnerRow { session_id: session.clone(), pid, process_started: started, host, boot_id: boot, since }
}

fn check(change: &StatusUpdate) -> Result<()> {
    for (what, text) in [("reason_code", &change.reason_code), ("reason", &change.reason), ("actor", &change.actor)] {
        let Some(text) = text else { continue };
        match what {
            "reason_code" => bounded::<WORD_BYTES_MAX>(what, text)?,
            "reason" => bounded::<REASON_BYTES_MAX>(what, text)?,
            _ => bounded::<NAME_BYTES_MAX>(what, text)?,
        }
        if text.is_empty() {
            return Err(Error::Invalid(Invalid::Value { what, why: "must not be empty; leave it out".to_owned() }));
        }
    }
    if let Some(evidence) = &change.evidence {
        bounded::<METADATA_BYTES_MAX>("evidence", evidence)?;
        check_value(evidence).map_err(|fault| Error::Invalid(Invalid::Item { number: 0, fault }))?;
    }
    Ok(())
}

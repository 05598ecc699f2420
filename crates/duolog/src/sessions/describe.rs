//! Changing the properties of a session.

use duolog_join::{Error as JoinError, tell};
use duolog_state::owned::sessions::{self as table, SessionRow};
use duolog_types::json::check_value;
use duolog_types::limits::{METADATA_BYTES_MAX, NAME_BYTES_MAX, PATH_BYTES_MAX};
use duolog_types::{Durability, SessionStatus};
use serde_json::{Map, Value};

use super::Sessions;
use super::model::{Session, SessionChange, SessionRef};
use super::rules::{bounded, check_times};
use crate::error::{Error, Invalid, Result};

impl Sessions {
    /// Changes the metadata of a session and appends a line about it to the log. Returns the changed session.
    ///
    /// # Errors
    ///
    /// Returns an error, and changes nothing, if a value is too long or the session would end before it starts.
    pub fn set(&self, which: impl Into<SessionRef>, change: &SessionChange, durability: Durability) -> Result<Session> {
        let session = self.resolve(&which.into())?.id;
        check(change)?;
        let (id, change, now) = (session, change.clone(), self.store.join.clock().now());
        self.store.transact(durability, move |tx| {
            let found = table::find(tx, &id)?.filter(|row| row.deleted_at.is_none());
            let mut row = found.ok_or_else(|| Error::from(JoinError::NoSession(id.clone())))?;
            let changed = apply(&change, &mut row);
            if changed.is_empty() {
                return Ok((Session::from(row), Vec::new()));
            }
            if change.ended_at.is_some() && row.status == Some(SessionStatus::Running) {
                return Err(Error::Invalid(Invalid::Value {
                    what: "ended_at",
                    why: "cannot be set: the session is running".to_owned(),
                }));
            }
            check_times(row.started_at, row.ended_at)?;
            table::describe(tx, &row, now)?;
            let told = tell(tx, &id, "described", now, &changed)?;
            let described = table::find(tx, &id)?.ok_or_else(|| Error::from(JoinError::NoSession(id.clone())))?;
            Ok((Session::from(described), vec![told]))
        })
    }
}

/// Changes a row, and returns the fields that changed.
fn apply(change: &SessionChange, row: &mut SessionRow) -> Map<String, Value> {
    let mut changed = Map::new();
    let texts = [
        ("agentName", &change.agent_name, &mut row.agent_name),
        ("playbookName", &change.playbook_name, &mut row.playbook_name),
        ("showTopic", &change.show_topic, &mut row.show_topic),
        ("showPlayName", &change.show_play_name, &mut row.show_play_name),
        ("artifactsPath", &change.artifacts_path, &mut row.artifacts_path),
    ];
    for (name, new, old) in texts {
        let Some(new) = new else { continue };
        let new = Some(new.clone()).filter(|text| !text.is_empty());
        if *old != new {
            changed.insert(name.to_owned(), new.clone().into());
            *old = new;
        }
    }
    if let Some(kind) = change.invocation_kind.filter(|kind| row.invocation_kind != Some(*kind)) {
        row.invocation_kind = Some(kind);
        changed.insert("invocationKind".to_owned(), kind.as_str().into());
    }
    if let Some(kind) = change.source_kind.filter(|kind| row.source_kind != *kind) {
        row.source_kind = kind;
        changed.insert("sourceKind".to_owned(), kind.as_str().into());
    }
    for (name, new, old) in
        [("startedAt", change.started_at, &mut row.started_at), ("endedAt", change.ended_at, &mut row.ended_at)]
    {
        if let Some(at) = new.filter(|at| *old != Some(*at)) {
            *old = Some(at);
            changed.insert(name.to_owned(), at.to_string().into());
        }
    }
    if let Some(metadata) = &change.node_metadata {
        let new = Some(metadata.clone()).filter(|text| !text.is_empty());
        if row.node_metadata != new {
            // Metadata may be as large as a line of the log, so the line only says that it changed.
            changed.insert("nodeMetadata".to_owned(), true.into());
            row.node_metadata = new;
        }
    }
    changed
}

fn check(change: &SessionChange) -> Result<()> {
    let names = [
        ("agent_name", &change.agent_name),
        ("playbook_name", &change.playbook_name),
        ("show_topic", &change.show_topic),
        ("show_play_name", &change.show_play_name),
    ];
    for (what, text) in names {
        bounded::<NAME_BYTES_MAX>(what, text.as_deref().unwrap_or_default())?;
    }
    bounded::<PATH_BYTES_MAX>("artifacts_path", change.artifacts_path.as_deref().unwrap_or_default())?;
    if let Some(metadata) = change.node_metadata.as_deref().filter(|text| !text.is_empty()) {
        bounded::<METADATA_BYTES_MAX>("node_metadata", metadata)?;
        check_value(metadata).map_err(|fault| Error::Invalid(Invalid::Item { number: 0, fault }))?;
    }
    Ok(())
}

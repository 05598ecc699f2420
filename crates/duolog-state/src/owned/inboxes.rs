//! `inboxes`: messages sent to a recipient on a channel, each a progression in the order of the commits.

use duolog_types::{ProgressionId, SessionId};

use super::progressions;
use crate::engine::Tx;
use crate::error::Result;
use crate::params;

/// The recipient of a message. Ids and topics are separate namespaces: a topic may have the name of a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A session or a branch, by its id.
    Id(String),
    /// A topic, by its name. A topic belongs to no session.
    Topic(String),
}

impl Address {
    /// Returns the id or the name, without the namespace.
    pub fn as_str(&self) -> &str {
        let (Self::Id(text) | Self::Topic(text)) = self;
        text
    }

    /// Returns the namespace, the value of the column `kind`.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Id(_) => "id",
            Self::Topic(_) => "topic",
        }
    }
}

/// Returns the progression of an inbox. `None` if nothing was ever sent to it. `""` is no channel.
pub fn find(tx: &mut Tx<'_>, to: &Address, channel: &str) -> Result<Option<ProgressionId>> {
    let sql = "SELECT progression_id FROM inboxes WHERE kind = ?1 AND recipient = ?2 AND channel = ?3";
    tx.find(sql, params![to.kind(), to.as_str(), channel], |row| row.get(0))
}

/// Returns the progression of an inbox, for adding to it. On a server, this conflicts with concurrent senders, so one
/// of them is retried.
pub fn enter(tx: &mut Tx<'_>, to: &Address, channel: &str) -> Result<Option<ProgressionId>> {
    let sql = "UPDATE inboxes SET progression_id = progression_id WHERE kind = ?1 AND recipient = ?2 AND channel = ?3 \
               RETURNING progression_id";
    tx.find(sql, params![to.kind(), to.as_str(), channel], |row| row.get(0))
}

/// Inserts an inbox. If it exists, that is a unique-constraint error.
///
/// On a server, this conflicts with a concurrent deletion of the recipient's session, so this transaction is retried.
pub fn insert(tx: &mut Tx<'_>, to: &Address, channel: &str, progression: &ProgressionId) -> Result<()> {
    if let Address::Id(id) = to {
        let of_branch = "UPDATE sessions SET updated_at = updated_at \
                         WHERE id = (SELECT session_id FROM branches WHERE id = ?1)";
        if tx.execute("UPDATE sessions SET updated_at = updated_at WHERE id = ?1", params![id])? == 0 {
            tx.execute(of_branch, params![id])?;
        }
    }
    let sql = "INSERT INTO inboxes (kind, recipient, channel, progression_id) VALUES (?1, ?2, ?3, ?4)";
    tx.execute(sql, params![to.kind(), to.as_str(), channel, progression]).map(drop)
}

/// Returns the channels of a recipient after this one, in order.
pub fn channels(tx: &mut Tx<'_>, to: &Address, after: Option<&str>, limit: u32) -> Result<Vec<String>> {
    let Some(after) = after else {
        let sql = "SELECT channel FROM inboxes WHERE kind = ?1 AND recipient = ?2 ORDER BY channel LIMIT ?3";
        return tx.all(sql, params![to.kind(), to.as_str(), limit], |row| row.get(0));
    };
    let sql =
        "SELECT channel FROM inboxes WHERE kind = ?1 AND recipient = ?2 AND channel > ?4 ORDER BY channel LIMIT ?3";
    tx.all(sql, params![to.kind(), to.as_str(), limit, after], |row| row.get(0))
}

/// Deletes the inboxes of a session, their cursors, and the messages that nothing else references.
pub(super) fn remove_of_session(tx: &mut Tx<'_>, session: &SessionId) -> Result<()> {
    remove(tx, session.as_str())
}

/// Deletes the inboxes of a session's branches, their cursors, and the messages that nothing else references.
pub(super) fn remove_of_branches(tx: &mut Tx<'_>, session: &SessionId) -> Result<()> {
    let sql = "SELECT DISTINCT i.recipient FROM branches b JOIN inboxes i ON i.kind = 'id' AND i.recipient = b.id \
               WHERE b.session_id = ?1";
    let ids: Vec<String> = tx.all(sql, params![session], |row| row.get(0))?;
    ids.iter().try_for_each(|id| remove(tx, id))
}

fn remove(tx: &mut Tx<'_>, id: &str) -> Result<()> {
    let sql = "DELETE FROM inboxes WHERE kind = 'id' AND recipient = ?1 RETURNING progression_id";
    let inboxes: Vec<ProgressionId> = tx.all(sql, params![id], |row| row.get(0))?;
    inboxes.iter().try_for_each(|inbox| progressions::remove_inbox(tx, inbox))?;
    tx.execute("DELETE FROM inbox_cursors WHERE kind = 'id' AND recipient = ?1", params![id]).map(drop)
}

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
    /// A topic, by its name: a named place that belongs to no session.
    Topic(String),
}

impl Address {
    /// The id or the name, without the namespace.
    pub fn as_str(&self) -> &str {
        let (Self::Id(text) | Self::Topic(text)) = self;
        text
    }

    /// The namespace, as the column `kind` has it.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Id(_) => "id",
            Self::Topic(_) => "topic",
        }
    }
}

/// The progression of an inbox. `None` if nothing was ever sent there. No channel is `""`.
pub fn find(tx: &mut Tx<'_>, to: &Address, channel: &str) -> Result<Option<ProgressionId>> {
    let sql = "SELECT progression_id FROM inboxes WHERE kind = ?1 AND recipient = ?2 AND channel = ?3";
    tx.find(sql, params![to.kind(), to.as_str(), channel], |row| row.get(0))
}

/// Finds the progression of an inbox to add to: on a server, a transaction that another one overtook here is run again.
pub fn enter(tx: &mut Tx<'_>, to: &Address, channel: &str) -> Result<Option<ProgressionId>> {
    let sql = "UPDATE inboxes SET progression_id = progression_id WHERE kind = ?1 AND recipient = ?2 AND channel = ?3 \
               RETURNING progression_id";
    tx.find(sql, params![to.kind(), to.as_str(), channel], |row| row.get(0))
}

/// Adds an inbox. One that is there already is a unique-constraint error.
///
/// On a server, one who was overtaken by the deletion of the recipient's session is run again.
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

/// The channels on which anything was ever sent to a recipient, in order, after this one.
pub fn channels(tx: &mut Tx<'_>, to: &Address, after: Option<&str>, limit: u32) -> Result<Vec<String>> {
    let Some(after) = after else {
        let sql = "SELECT channel FROM inboxes WHERE kind = ?1 AND recipient = ?2 ORDER BY channel LIMIT ?3";
        return tx.all(sql, params![to.kind(), to.as_str(), limit], |row| row.get(0));
    };
    let sql =
        "SELECT channel FROM inboxes WHERE kind = ?1 AND recipient = ?2 AND channel > ?4 ORDER BY channel LIMIT ?3";
    tx.all(sql, params![to.kind(), to.as_str(), limit, after], |row| row.get(0))
}

/// Removes the inboxes of a session, how far they were read, and the messages that nothing names then.
pub(super) fn remove_of_session(tx: &mut Tx<'_>, session: &SessionId) -> Result<()> {
    remove(tx, session.as_str())
}

/// Removes the inboxes of the branches of a session, likewise.
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

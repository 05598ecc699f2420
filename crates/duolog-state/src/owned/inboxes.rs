//! `inboxes` and `mailboxes`: what was sent to whom on which channel, each a progression in the order of the commits.

use duolog_types::{ProgressionId, SessionId};

use super::progressions;
use crate::engine::Tx;
use crate::error::Result;
use crate::params;

/// The recipient of a message. The two are namespaces of their own: a mailbox may have the name of a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A session or a branch, by its id.
    Id(String),
    /// A mailbox, by its name.
    Mailbox(String),
}

impl Address {
    /// The id or the name, without the namespace.
    pub fn as_str(&self) -> &str {
        let (Self::Id(text) | Self::Mailbox(text)) = self;
        text
    }

    fn inboxes(&self) -> &'static str {
        match self {
            Self::Id(_) => "inboxes",
            Self::Mailbox(_) => "mailboxes",
        }
    }

    pub(super) fn cursors(&self) -> &'static str {
        match self {
            Self::Id(_) => "inbox_cursors",
            Self::Mailbox(_) => "mailbox_cursors",
        }
    }
}

/// The progression of an inbox, where anything was ever sent there. No channel is `""`.
pub fn find(tx: &mut Tx<'_>, to: &Address, channel: &str) -> Result<Option<ProgressionId>> {
    let sql = format!("SELECT progression_id FROM {} WHERE recipient = ?1 AND channel = ?2", to.inboxes());
    tx.find(&sql, params![to.as_str(), channel], |row| row.get(0))
}

/// The same, to be added to: on a server, one who was overtaken by another that adds there is run again.
pub fn enter(tx: &mut Tx<'_>, to: &Address, channel: &str) -> Result<Option<ProgressionId>> {
    let sql = format!(
        "UPDATE {} SET progression_id = progression_id WHERE recipient = ?1 AND channel = ?2 RETURNING progression_id",
        to.inboxes()
    );
    tx.find(&sql, params![to.as_str(), channel], |row| row.get(0))
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
    let sql = format!("INSERT INTO {} (recipient, channel, progression_id) VALUES (?1, ?2, ?3)", to.inboxes());
    tx.execute(&sql, params![to.as_str(), channel, progression]).map(drop)
}

/// The channels on which anything was ever sent to a recipient, in order, after this one.
pub fn channels(tx: &mut Tx<'_>, to: &Address, after: Option<&str>, limit: u32) -> Result<Vec<String>> {
    let table = to.inboxes();
    let Some(after) = after else {
        let sql = format!("SELECT channel FROM {table} WHERE recipient = ?1 ORDER BY channel LIMIT ?2");
        return tx.all(&sql, params![to.as_str(), limit], |row| row.get(0));
    };
    let sql = format!("SELECT channel FROM {table} WHERE recipient = ?1 AND channel > ?3 ORDER BY channel LIMIT ?2");
    tx.all(&sql, params![to.as_str(), limit, after], |row| row.get(0))
}

/// Removes the inboxes of a session, how far they were read, and the messages that nothing names then.
pub(super) fn remove_of_session(tx: &mut Tx<'_>, session: &SessionId) -> Result<()> {
    remove(tx, session.as_str())
}

/// Removes the inboxes of the branches of a session, likewise.
pub(super) fn remove_of_branches(tx: &mut Tx<'_>, session: &SessionId) -> Result<()> {
    let sql =
        "SELECT DISTINCT i.recipient FROM branches b JOIN inboxes i ON i.recipient = b.id WHERE b.session_id = ?1";
    let ids: Vec<String> = tx.all(sql, params![session], |row| row.get(0))?;
    ids.iter().try_for_each(|id| remove(tx, id))
}

fn remove(tx: &mut Tx<'_>, id: &str) -> Result<()> {
    let sql = "DELETE FROM inboxes WHERE recipient = ?1 RETURNING progression_id";
    let inboxes: Vec<ProgressionId> = tx.all(sql, params![id], |row| row.get(0))?;
    inboxes.iter().try_for_each(|inbox| progressions::remove_inbox(tx, inbox))?;
    tx.execute("DELETE FROM inbox_cursors WHERE recipient = ?1", params![id]).map(drop)
}

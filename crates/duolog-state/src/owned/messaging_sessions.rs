//! `messaging_sessions`: chats with people on platforms. A platform, channel, thread and user have at most one active
//! chat.

use duolog_types::{ChatId, SessionId, Timestamp};

use crate::engine::{Row, Tx, Value};
use crate::error::Result;
use crate::page::PageOrder;
use crate::params;

macro_rules! columns {
    () => {
        "id, platform, channel_id, thread_id, user_id, agent_session_id, created_at, last_activity_at, message_count, \
         active"
    };
}

/// The place and the user of a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatPlace {
    /// The platform, such as `slack`.
    pub platform: String,
    /// The channel.
    pub channel_id: String,
    /// The thread; `''` if there is none.
    pub thread_id: String,
    /// The user.
    pub user_id: String,
}

/// A chat.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatRow {
    /// Its id.
    pub id: ChatId,
    /// Its place and user.
    pub place: ChatPlace,
    /// The session of the agent that answers.
    pub agent_session_id: Option<SessionId>,
    /// When it was created.
    pub created_at: Timestamp,
    /// The time of the last activity.
    pub last_activity_at: Timestamp,
    /// The number of messages.
    pub message_count: u64,
    /// True if it is active.
    pub active: bool,
}

/// The filter of a list of chats.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChatFilter {
    /// Only chats on this platform.
    pub platform: Option<String>,
    /// Only active chats.
    pub active: bool,
}

impl ChatRow {
    fn read(row: &Row<'_>) -> Result<Self> {
        let place =
            ChatPlace { platform: row.get(1)?, channel_id: row.get(2)?, thread_id: row.get(3)?, user_id: row.get(4)? };
        Ok(Self {
            id: row.get(0)?,
            place,
            agent_session_id: row.get(5)?,
            created_at: row.get(6)?,
            last_activity_at: row.get(7)?,
            message_count: row.get(8)?,
            active: row.get(9)?,
        })
    }
}

/// Inserts a chat. A second active chat at its place is a unique-constraint error.
pub fn insert(tx: &mut Tx<'_>, row: &ChatRow) -> Result<()> {
    let sql =
        concat!("INSERT INTO messaging_sessions (", columns!(), ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)");
    let values = params![
        &row.id,
        &row.place.platform,
        &row.place.channel_id,
        &row.place.thread_id,
        &row.place.user_id,
        row.agent_session_id.as_ref(),
        row.created_at,
        row.last_activity_at,
        row.message_count,
        row.active,
    ];
    tx.execute(sql, values).map(drop)
}

/// Returns the chat with this id.
pub fn find(tx: &mut Tx<'_>, id: &ChatId) -> Result<Option<ChatRow>> {
    tx.find(concat!("SELECT ", columns!(), " FROM messaging_sessions WHERE id = ?1"), params![id], ChatRow::read)
}

/// Returns the active chat at a place.
pub fn find_active(tx: &mut Tx<'_>, place: &ChatPlace) -> Result<Option<ChatRow>> {
    let sql = concat!(
        "SELECT ",
        columns!(),
        " FROM messaging_sessions WHERE platform = ?1 AND channel_id = ?2 AND thread_id = ?3 AND user_id = ?4 \
         AND active = 1"
    );
    let values = params![&place.platform, &place.channel_id, &place.thread_id, &place.user_id];
    tx.find(sql, values, ChatRow::read)
}

/// Returns the ids with this prefix, in order.
pub fn starting_with(tx: &mut Tx<'_>, prefix: &str, limit: u32) -> Result<Vec<ChatId>> {
    let sql = "SELECT id FROM messaging_sessions WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3";
    // Ids are ASCII: an id with the prefix sorts before the prefix followed by the last character.
    let end = format!("{prefix}\u{10ffff}");
    tx.all(sql, params![prefix, end, limit], |row| row.get(0))
}

/// Records activity. The timestamp never moves back, so that the order of a list is stable.
pub fn touch(tx: &mut Tx<'_>, id: &ChatId, at: Timestamp) -> Result<bool> {
    let sql = "UPDATE messaging_sessions \
               SET last_activity_at = CASE WHEN last_activity_at < ?2 THEN ?2 ELSE last_activity_at END WHERE id = ?1";
    Ok(tx.execute(sql, params![id, at])? == 1)
}

/// Counts a message, before it is inserted. On a server, concurrent senders wait for each other here, so the ids are in
/// the order of the commits.
pub fn count_message(tx: &mut Tx<'_>, id: &ChatId, at: Timestamp) -> Result<bool> {
    let sql = "UPDATE messaging_sessions SET message_count = message_count + 1, \
               last_activity_at = CASE WHEN last_activity_at < ?2 THEN ?2 ELSE last_activity_at END WHERE id = ?1";
    Ok(tx.execute(sql, params![id, at])? == 1)
}

/// Deactivates a chat. Returns false if it is not active.
pub fn deactivate(tx: &mut Tx<'_>, id: &ChatId) -> Result<bool> {
    let sql = "UPDATE messaging_sessions SET active = 0 WHERE id = ?1 AND active = 1";
    Ok(tx.execute(sql, params![id])? == 1)
}

/// Sets the agent's session of a chat. Returns false if the chat does not exist.
pub fn set_agent_session(tx: &mut Tx<'_>, id: &ChatId, session: Option<&SessionId>) -> Result<bool> {
    let sql = "UPDATE messaging_sessions SET agent_session_id = ?2 WHERE id = ?1";
    Ok(tx.execute(sql, params![id, session])? == 1)
}

/// Returns chats after this one: by last activity or by creation, newest first.
pub fn list(
    tx: &mut Tx<'_>,
    filter: &ChatFilter,
    order: PageOrder,
    after: Option<(Timestamp, &str)>,
    limit: u32,
) -> Result<Vec<ChatRow>> {
    let key = match order {
        PageOrder::Updated => "last_activity_at",
        PageOrder::Created => "created_at",
    };
    // `~` sorts after every timestamp.
    let (at, id) = after.map_or_else(|| ("~".to_owned(), ""), |(at, id)| (at.to_string(), id));
    let mut values = params![at, id, limit].to_vec();
    let active = if filter.active { " AND active = 1" } else { "" };
    let platform = if filter.platform.is_some() { " AND platform = ?4" } else { "" };
    values.extend(filter.platform.as_ref().map(Value::from));
    let sql = format!(
        concat!(
            "SELECT ",
            columns!(),
            " FROM messaging_sessions WHERE ({key}, id) < (?1, ?2){active}{platform} ",
            "ORDER BY {key} DESC, id DESC LIMIT ?3"
        ),
        key = key,
        active = active,
        platform = platform
    );
    tx.all(&sql, &values, ChatRow::read)
}

//! Importing from Skillet: items by user and session name, in one table.

use std::path::Path;

use duolog_log::BlobId;
use duolog_state::Foreign;
use duolog_state::owned::branches::BranchRow;
use duolog_state::owned::messages::{Content, MessageRow};
use duolog_state::owned::progressions::ProgressionRow;
use duolog_state::owned::sessions::SessionRow;
use duolog_types::{BranchId, HomeId, MessageId, ProgressionId, SessionId, SourceKind, Timestamp};

use super::{Mapped, MappedItem, MappedMessage, bad};
use crate::error::Result;
use crate::sessions::seen_in;

/// A row of `session_items`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemSource {
    /// The number of the row.
    pub id: i64,
    /// The time of creation, in milliseconds since 1970.
    pub created_at: i64,
    /// The content.
    pub item_json: String,
}

/// Converts one conversation; its items are in the order of Skillet.
///
/// Ids are derived from the user, the name and the numbers of the rows, so that a repeated conversion gives the same
/// ids.
pub fn map(user: &str, name: &str, items: Vec<ItemSource>) -> Result<Mapped, String> {
    let hash = BlobId::of_bytes(format!("{user}\0{name}").as_bytes()).to_string();
    let stem = format!("skillet-{}", &hash[..32]);
    let text = |error: duolog_types::BadId| error.to_string();
    let id = SessionId::parse(&stem).map_err(text)?;
    let at = |millis: i64| Timestamp::from_micros(millis.saturating_mul(1000));
    let first = items.iter().map(|item| item.created_at).min().unwrap_or_default();
    let last = items.iter().map(|item| item.created_at).max().unwrap_or_default();
    let mut session = SessionRow::new(id.clone(), HomeId::new(), "", "", at(first));
    session.user_id = Some(user.to_owned());
    session.name = Some(name.to_owned());
    session.addressed = true;
    session.source_kind = SourceKind::ImportedSkillet;
    session.started_at = Some(at(first));
    session.updated_at = at(last);
    let progression = |end: &str| {
        let id = ProgressionId::parse(&format!("{stem}-{end}"));
        id.map(|id| ProgressionRow { id, ..ProgressionRow::new(None, at(first)) }).map_err(text)
    };
    let (pool, head) = (progression("pool")?, progression("items")?);
    let (mut messages, mut places, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    for item in items {
        let (role, compactable) = match seen_in(&item.item_json) {
            Ok(seen) => (seen.role.into_owned(), seen.compactable),
            Err(fault) => {
                left_out.push(format!("item {}: {fault:?}", item.id));
                continue;
            }
        };
        let message = MessageId::parse(&format!("{stem}-{}", item.id)).map_err(text)?;
        let content = Content::Text(item.item_json);
        let row = MessageRow { compactable, ..MessageRow::new(message.clone(), &role, content, at(item.created_at)) };
        let ord = messages.len() as u64;
        messages.push(MappedMessage { row, class: None });
        places.push(MappedItem { progression: head.id.clone(), ord, message });
    }
    session.progression_id = Some(pool.id.to_string());
    session.first_msg_id = messages.first().map(|message: &MappedMessage| message.row.id.to_string());
    session.last_msg_id = messages.last().map(|message| message.row.id.to_string());
    let branch = BranchRow {
        id: BranchId::parse(&format!("{stem}-branch")).map_err(text)?,
        created_at: at(first),
        node_metadata: None,
        user_id: None,
        name: None,
        session_id: id,
        progression_id: head.id.clone(),
        system_msg_id: None,
        forked: None,
        is_default: true,
    };
    Ok(Mapped {
        session,
        statuses: Vec::new(),
        progressions: vec![pool, head],
        messages,
        items: places,
        branches: vec![branch],
        left_out,
    })
}

/// Passes on every conversation of a Skillet store, by user and name. The file is not changed: a write-ahead log that a
/// crash left is applied to a copy, in a folder below `aside` that is removed afterwards.
pub fn read(path: &Path, aside: &Path, mut each: impl FnMut(Mapped) -> Result<()>) -> Result<()> {
    let source = Foreign::open(path, aside)?;
    let mut names: Vec<(String, String)> = Vec::new();
    let sql = "SELECT DISTINCT user_id, session_name FROM session_items ORDER BY user_id, session_name";
    source.each(sql, &[], &mut |row| {
        names.push((row.get(0)?, row.get(1)?));
        Ok(())
    })?;
    for (user, name) in names {
        let mut items = Vec::new();
        let sql = "SELECT id, created_at, item_json FROM session_items WHERE user_id = ?1 AND session_name = ?2 \
                   ORDER BY created_at, id";
        source.each(sql, &[&user, &name], &mut |row| {
            items.push(ItemSource { id: row.get(0)?, created_at: row.get(1)?, item_json: row.get(2)? });
            Ok(())
        })?;
        each(map(&user, &name, items).map_err(|why| bad(path, why))?)?;
    }
    Ok(())
}

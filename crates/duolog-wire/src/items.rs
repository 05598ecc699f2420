//! Items of a conversation, their summaries, and messages between sessions.

use std::ops::Range;

use duolog::sessions;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Json;
use crate::page::Listed;

/// Items that were added to a branch.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ItemsAdded {
    /// The session.
    pub session_id: String,
    /// The branch.
    pub branch_id: String,
    /// How many were new.
    pub added: u64,
    /// The ordinal of the first.
    pub from_ord: u64,
    /// The ordinal behind the last: the items that the branch has.
    pub to_ord: u64,
}

impl From<&sessions::Added> for ItemsAdded {
    fn from(added: &sessions::Added) -> Self {
        Self {
            session_id: added.session.to_string(),
            branch_id: added.branch.to_string(),
            added: added.end - added.from_ord,
            from_ord: added.from_ord,
            to_ord: added.end,
        }
    }
}

/// Items of a branch, as they were given.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ItemList {
    /// The items.
    pub items: Vec<Json>,
    /// How many there are in all.
    pub item_count: u64,
    /// False if there are others than these, or than those that the summaries among them cover.
    pub complete: bool,
    /// The token of the next page.
    pub next: Option<String>,
}

/// Items of a branch, with what is known of each.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ItemDetailList {
    /// The items.
    pub items: Vec<ItemDetail>,
    /// How many there are in all.
    pub item_count: u64,
    /// False if there are others than these, or than those that the summaries among them cover.
    pub complete: bool,
    /// The token of the next page.
    pub next: Option<String>,
}

/// An item, and what is known of it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ItemDetail {
    /// Message id.
    pub id: String,
    /// Its ordinal; null for a system item, a summary, and in the pool.
    pub ord: Option<u64>,
    /// Role.
    pub role: String,
    /// Sender.
    pub sender: Option<String>,
    /// Recipient.
    pub recipient: Option<String>,
    /// Channel.
    pub channel: Option<String>,
    /// Its class in the program that made it.
    pub lion_class: Option<String>,
    /// What its maker keeps with it.
    pub node_metadata: Option<Json>,
    /// When it was created.
    pub created_at: String,
    /// Its embedding.
    pub embedding: Option<Vec<f32>>,
    /// The items that it is a summary of.
    pub summary_of: Option<OrdRange>,
    /// The item as it was given.
    pub content: Json,
}

impl From<&sessions::Described> for ItemDetail {
    fn from(item: &sessions::Described) -> Self {
        let message = &item.message;
        Self {
            id: message.id.to_string(),
            ord: item.ord,
            role: message.role.clone(),
            sender: message.sender.clone(),
            recipient: message.recipient.clone(),
            channel: message.channel.clone(),
            lion_class: message.lion_class.clone(),
            node_metadata: message.node_metadata.as_deref().map(Json::of),
            created_at: message.created_at.to_string(),
            embedding: message.embedding.clone(),
            summary_of: item.stands_for.as_ref().map(OrdRange::from),
            content: Json::of(&message.content),
        }
    }
}

/// A range of items.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct OrdRange {
    /// The ordinal of the first.
    pub from_ord: u64,
    /// The ordinal behind the last.
    pub to_ord: u64,
}

impl From<&Range<u64>> for OrdRange {
    fn from(range: &Range<u64>) -> Self {
        Self { from_ord: range.start, to_ord: range.end }
    }
}

/// Items that were removed from a branch.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ItemCleared {
    /// The session.
    pub session_id: String,
    /// How many.
    pub cleared: u64,
}

/// The last item, which was removed from a branch.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ItemPopped {
    /// The session.
    pub session_id: String,
    /// The item as it was given; null if there was none.
    pub item: Option<Json>,
}

/// A summary of a range of items.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Compacted {
    /// The branch.
    pub branch_id: String,
    /// The ordinal of the first item.
    pub from_ord: u64,
    /// The ordinal behind the last item.
    pub to_ord: u64,
    /// The summary.
    pub message_id: String,
}

impl From<&sessions::Summarised> for Compacted {
    fn from(one: &sessions::Summarised) -> Self {
        Self {
            branch_id: one.branch.to_string(),
            from_ord: one.range.start,
            to_ord: one.range.end,
            message_id: one.message.to_string(),
        }
    }
}

/// How far a branch is summarised.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CompactionInfo {
    /// Items of the branch.
    pub item_count: u64,
    /// Items, other than those of users, that no summary covers.
    pub uncompacted: u64,
    /// The number of those above which a summary is due.
    pub threshold: u64,
    /// True if a summary is due.
    pub due: bool,
    /// The summaries.
    pub summaries: Vec<Compacted>,
}

impl From<&sessions::CompactionInfo> for CompactionInfo {
    fn from(info: &sessions::CompactionInfo) -> Self {
        Self {
            item_count: info.items,
            uncompacted: info.uncompacted,
            threshold: info.threshold,
            due: info.is_due(),
            summaries: info.summaries.iter().map(Compacted::from).collect(),
        }
    }
}

/// A message that was sent.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MessageSent {
    /// The message.
    pub message_id: String,
    /// Its ordinal in the inbox.
    pub ord: u64,
}

/// A message in an inbox.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct InboxMessage {
    /// Its ordinal in the inbox.
    pub ord: u64,
    /// Message id.
    pub id: String,
    /// Sender.
    pub sender: Option<String>,
    /// Role.
    pub role: Option<String>,
    /// The message as it was given; null if it cannot be read.
    pub content: Option<Json>,
}

impl Listed for InboxMessage {
    const PLURAL: &'static str = "messages";
}

impl From<&sessions::Received> for InboxMessage {
    fn from(one: &sessions::Received) -> Self {
        Self {
            ord: one.ord,
            id: one.id.to_string(),
            sender: one.sender.clone(),
            role: one.role.clone(),
            content: one.content.as_ref().ok().map(|text| Json::of(text)),
        }
    }
}

/// The messages whose embeddings are nearest.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SimilarMessages {
    /// The messages, nearest first.
    pub messages: Vec<SimilarMessage>,
}

/// A message whose embedding is near.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SimilarMessage {
    /// Message id.
    pub id: String,
    /// The cosine, 1 for the same direction; or the distance, 0 for the same vector.
    pub score: f32,
    /// Role.
    pub role: Option<String>,
    /// The message as it was given; null if it cannot be read.
    pub content: Option<Json>,
}

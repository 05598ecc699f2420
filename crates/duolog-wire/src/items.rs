//! Items of a conversation, their summaries, and messages between sessions.

use std::ops::Range;

use duolog::sessions;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Json;
use crate::page::Listed;

/// Items added to a branch.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ItemsAdded {
    /// The session.
    pub session_id: String,
    /// The branch.
    pub branch_id: String,
    /// Number of new items.
    pub added: u64,
    /// Ordinal of the first item.
    pub from_ord: u64,
    /// Ordinal after the last item; the number of items of the branch.
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

/// Items of a branch, as they were added.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ItemList {
    /// The items.
    pub items: Vec<Json>,
    /// Total number of items.
    pub item_count: u64,
    /// False if the branch has items that are neither listed nor covered by a listed summary.
    pub complete: bool,
    /// The token of the next page.
    pub next: Option<String>,
}

/// Items of a branch with their metadata.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ItemDetailList {
    /// The items.
    pub items: Vec<ItemDetail>,
    /// Total number of items.
    pub item_count: u64,
    /// False if the branch has items that are neither listed nor covered by a listed summary.
    pub complete: bool,
    /// The token of the next page.
    pub next: Option<String>,
}

/// An item and its metadata.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ItemDetail {
    /// Message id.
    pub id: String,
    /// Ordinal; null for a system item, a summary and an item in the pool.
    pub ord: Option<u64>,
    /// Role.
    pub role: String,
    /// Sender.
    pub sender: Option<String>,
    /// Recipient.
    pub recipient: Option<String>,
    /// Channel.
    pub channel: Option<String>,
    /// Class name in the program that wrote it.
    pub lion_class: Option<String>,
    /// Metadata of the writer.
    pub node_metadata: Option<Json>,
    /// Creation time.
    pub created_at: String,
    /// Embedding.
    pub embedding: Option<Vec<f32>>,
    /// The range of items that the summary covers.
    pub summary_of: Option<OrdRange>,
    /// The item as it was added.
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
    /// Ordinal of the first item.
    pub from_ord: u64,
    /// Ordinal after the last item.
    pub to_ord: u64,
}

impl From<&Range<u64>> for OrdRange {
    fn from(range: &Range<u64>) -> Self {
        Self { from_ord: range.start, to_ord: range.end }
    }
}

/// Items removed from a branch.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ItemCleared {
    /// The session.
    pub session_id: String,
    /// Number of removed items.
    pub cleared: u64,
}

/// The last item, removed from a branch.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ItemPopped {
    /// The session.
    pub session_id: String,
    /// The item as it was added; null if there was none.
    pub item: Option<Json>,
}

/// A summary of a range of items.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Compacted {
    /// The branch.
    pub branch_id: String,
    /// Ordinal of the first item.
    pub from_ord: u64,
    /// Ordinal after the last item.
    pub to_ord: u64,
    /// The summary.
    pub message_id: String,
}

impl From<&sessions::RangeSummary> for Compacted {
    fn from(one: &sessions::RangeSummary) -> Self {
        Self {
            branch_id: one.branch.to_string(),
            from_ord: one.range.start,
            to_ord: one.range.end,
            message_id: one.message.to_string(),
        }
    }
}

/// The summary status of a branch.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CompactionInfo {
    /// Items of the branch.
    pub item_count: u64,
    /// Number of items without a summary, except items of users.
    pub uncompacted: u64,
    /// Number of such items above which a summary is due.
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

/// A sent message.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MessageSent {
    /// The message.
    pub message_id: String,
    /// Ordinal in the inbox.
    pub ord: u64,
}

/// A message in an inbox.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct InboxMessage {
    /// Ordinal in the inbox.
    pub ord: u64,
    /// Message id.
    pub id: String,
    /// Sender.
    pub sender: Option<String>,
    /// Role.
    pub role: Option<String>,
    /// The message as it was sent; null if it cannot be read.
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

/// The messages with the most similar embeddings.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SimilarMessages {
    /// The messages, nearest first.
    pub messages: Vec<SimilarMessage>,
}

/// A message with a similar embedding.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SimilarMessage {
    /// Message id.
    pub id: String,
    /// Cosine similarity (1 is the same direction) or distance (0 is the same vector).
    pub score: f32,
    /// Role.
    pub role: Option<String>,
    /// The message as it was sent; null if it cannot be read.
    pub content: Option<Json>,
}

//! Pure decisions about what a replay shows.

use duolog_log::dialect::{Dialect, ItemKind, TimelineItem};

/// Returns true if an item is part of the conversation itself. Failures always are.
pub fn is_conversation(item: &TimelineItem) -> bool {
    match item.kind {
        ItemKind::User | ItemKind::Assistant => !item.sidechain,
        ItemKind::Result | ItemKind::Error => true,
        // The status of a run is part of the conversation.
        ItemKind::Note => item.failed || matches!(item.what.as_deref(), Some("duolog.run" | "duolog.gate")),
        ItemKind::Thinking | ItemKind::ToolCall | ItemKind::ToolResult => false,
    }
}

/// Returns true if a dialect marks the end of a turn, so that a turn without a mark was cut off.
pub const fn has_endings(dialect: Dialect) -> bool {
    !matches!(dialect, Dialect::Transcript)
}

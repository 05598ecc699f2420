//! Pure decisions about what is told.

use duolog_log::dialect::{Dialect, ItemKind, TimelineItem};

/// Whether an item is part of what was said, and not of how it came about. Failures always are.
pub fn is_conversation(item: &TimelineItem) -> bool {
    match item.kind {
        ItemKind::User | ItemKind::Assistant => !item.sidechain,
        ItemKind::Result | ItemKind::Error => true,
        // What became of a run is part of the story.
        ItemKind::Note => item.failed || matches!(item.what.as_deref(), Some("duolog.run" | "duolog.gate")),
        ItemKind::Thinking | ItemKind::ToolCall | ItemKind::ToolResult => false,
    }
}

/// Whether a dialect has a word for the end of a turn, so that a turn without one was cut off.
pub const fn has_endings(dialect: Dialect) -> bool {
    !matches!(dialect, Dialect::Transcript)
}

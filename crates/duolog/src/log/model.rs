//! What callers give and get.

use duolog_log::Line;
use duolog_types::{Durability, OperationId, Position};

/// How to append.
#[derive(Clone, Debug, Default)]
pub struct AppendOptions {
    /// What the batch survives once it is acknowledged.
    pub durability: Durability,
    /// Append only if the log ends here.
    pub if_position: Option<Position>,
    /// Append only once under this id, however often it is asked.
    pub operation: Option<OperationId>,
}

/// Where to begin reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    /// At the first line.
    Start,
    /// At a position, which must be the start of a line.
    Position(Position),
    /// So many lines before the end.
    Last(u64),
}

/// What stands at a place in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry<'b> {
    /// A line.
    Line(Line<'b>),
    /// Bytes that are not a line anyone can read.
    Damaged {
        /// Where they begin.
        start: Position,
        /// Where they end.
        end: Position,
        /// What is wrong with them.
        reason: String,
    },
}

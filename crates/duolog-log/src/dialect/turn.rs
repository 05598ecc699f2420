//! Groups items into turns.

use duolog_types::{Position, Timestamp};

use super::timeline::{Boundary, ItemKind, TimelineItem};

/// A turn, complete or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The line that starts it.
    pub start: Position,
    /// The last line that belongs to it.
    pub end: Position,
    /// The line that completed it; `None` if it was cut off.
    pub closed: Option<Position>,
    /// Number of items.
    pub items: u64,
    /// Number of tool calls.
    pub tool_calls: u64,
    /// When it started.
    pub started_at: Option<Timestamp>,
    /// The time of its last item.
    pub ended_at: Option<Timestamp>,
}

impl Turn {
    /// Returns true if the turn is complete. In dialects without an end of turn, every turn looks cut off.
    pub const fn is_complete(&self) -> bool {
        self.closed.is_some()
    }
}

/// Groups items into turns. Items before the first turn belong to none.
#[derive(Clone, Debug, Default)]
pub struct TurnFold {
    open: Option<Turn>,
}

impl TurnFold {
    /// Adds the next item; returns the previous turn if the item starts a new one.
    pub fn item(&mut self, item: &TimelineItem) -> Option<Turn> {
        if item.boundary == Boundary::Opens {
            let (at, started_at) = (item.position, item.at);
            let next =
                Turn { start: at, end: at, closed: None, items: 1, tool_calls: 0, started_at, ended_at: started_at };
            return self.open.replace(next);
        }
        let turn = self.open.as_mut()?;
        turn.end = item.position;
        turn.items += 1;
        turn.tool_calls += u64::from(item.kind == ItemKind::ToolCall);
        turn.ended_at = item.at.or(turn.ended_at);
        if item.boundary == Boundary::Closes {
            // The first of several endings counts; later items still belong to the turn.
            turn.closed.get_or_insert(item.position);
        }
        None
    }

    /// Returns the last turn.
    pub const fn last(&self) -> Option<Turn> {
        self.open
    }
}

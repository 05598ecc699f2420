//! From items to turns: where each begins, and whether it came to its end.

use duolog_types::{Position, Timestamp};

use super::timeline::{Boundary, ItemKind, TimelineItem};

/// One turn, as far as it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The line that began it.
    pub start: Position,
    /// The last line that belongs to it.
    pub end: Position,
    /// The line that completed it; none if it was cut off.
    pub closed: Option<Position>,
    /// How many items it has.
    pub items: u64,
    /// How many tools were called in it.
    pub tool_calls: u64,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When its last item was.
    pub ended_at: Option<Timestamp>,
}

impl Turn {
    /// Whether the turn came to its end. Dialects without a word for that show only cut-off turns.
    pub const fn is_complete(&self) -> bool {
        self.closed.is_some()
    }
}

/// Follows items and gives out turns. Items before the first turn belong to none.
#[derive(Clone, Debug, Default)]
pub struct TurnFold {
    open: Option<Turn>,
}

impl TurnFold {
    /// Takes the next item; gives the turn that it ended by beginning the next.
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
            // Of several endings the first one counts; what follows is still shown with the turn.
            turn.closed.get_or_insert(item.position);
        }
        None
    }

    /// The turn that no other followed.
    pub const fn last(&self) -> Option<Turn> {
        self.open
    }
}

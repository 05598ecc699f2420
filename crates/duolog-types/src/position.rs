//! Positions, epochs and cursors.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::serde_as_text;

/// A byte offset after a complete line, counted from the first byte the session ever wrote.
///
/// Paging, tails and rows use it. It stays valid after archiving, because a hot file with a base
/// continues to count where the archived segments end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position(pub u64);

impl Position {
    /// The start of every log.
    pub const ZERO: Self = Self(0);
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of times a log lost or changed bytes that were readable. Positions of different epochs cannot be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Epoch(pub u32);

impl Epoch {
    /// Returns the next epoch.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A position with its epoch; written `epoch:position`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cursor {
    /// The epoch of the position.
    pub epoch: Epoch,
    /// The position.
    pub position: Position,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.epoch, self.position)
    }
}

/// The error of a text that is not a cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a cursor; a cursor looks like 0:1234 (epoch:position)")]
pub struct BadCursor(String);

impl FromStr for Cursor {
    type Err = BadCursor;

    fn from_str(text: &str) -> Result<Self, BadCursor> {
        let bad = || BadCursor(text.chars().take(64).collect());
        let (epoch, position) = text.split_once(':').ok_or_else(bad)?;
        Ok(Self {
            epoch: Epoch(epoch.parse().map_err(|_| bad())?),
            position: Position(position.parse().map_err(|_| bad())?),
        })
    }
}

serde_as_text!(Cursor);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_what_it_prints() {
        let cursor = Cursor { epoch: Epoch(3), position: Position(1234) };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for text in ["", "3", "3:", ":4", "a:1", "1:-1", "1:99999999999999999999"] {
            assert!(text.parse::<Cursor>().is_err(), "{text}");
        }
    }
}

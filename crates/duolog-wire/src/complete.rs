//! How complete an answer from derived rows is.

use duolog::CaughtUp;
use schemars::JsonSchema;
use serde::Serialize;

/// The completeness of derived rows.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Completeness {
    /// True if nothing is missing.
    pub complete: bool,
    /// The missing log content.
    pub missing: Missing,
}

/// The log content that derived rows lack.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Missing {
    /// Sessions whose logs have lines that are not folded yet.
    pub lagging_sessions: u64,
    /// Size of those lines.
    pub lagging_bytes: u64,
    /// Sessions of other homes with the same state; only those homes can fold them.
    pub other_home_sessions: u64,
    /// Sessions whose logs lost recorded bytes.
    pub lost_sessions: u64,
    /// Number of lost bytes.
    pub lost_bytes: u64,
}

impl From<&CaughtUp> for Completeness {
    fn from(caught_up: &CaughtUp) -> Self {
        let missing = Missing {
            lagging_sessions: caught_up.sessions_behind,
            lagging_bytes: caught_up.bytes_behind,
            other_home_sessions: caught_up.sessions_elsewhere,
            lost_sessions: caught_up.sessions_lost,
            lost_bytes: caught_up.bytes_lost,
        };
        Self { complete: caught_up.is_complete(), missing }
    }
}

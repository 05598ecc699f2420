//! How far an answer made of derived rows tells of the logs.

use duolog::CaughtUp;
use schemars::JsonSchema;
use serde::Serialize;

/// If derived rows tell of all that the logs hold, and what they lack.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Completeness {
    /// True if nothing is missing.
    pub complete: bool,
    /// What is missing.
    pub missing: Missing,
}

/// What derived rows do not tell of.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Missing {
    /// Sessions whose logs have lines that are not folded yet.
    pub lagging_sessions: u64,
    /// The bytes of those lines.
    pub lagging_bytes: u64,
    /// Sessions of other homes with the same state, which only those homes can fold.
    pub other_home_sessions: u64,
    /// Sessions whose logs lack bytes that were recorded.
    pub lost_sessions: u64,
    /// Those bytes.
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

//! Lines that were appended to a log.

use duolog::log;
use duolog::{Committed, Cursor, SessionId};
use schemars::JsonSchema;
use serde::Serialize;

/// Lines that were appended. What is not there is null if the input was empty.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Appended {
    /// The id of the session. Its name is promised; elsewhere such a field is `session_id`.
    #[serde(rename = "session")]
    pub session_id: Option<String>,
    /// How many lines.
    pub appended: u64,
    /// The end of the log.
    pub position: Option<u64>,
    /// The end of the log, with its epoch.
    pub cursor: Option<String>,
}

impl Appended {
    /// The answer to a batch.
    pub fn of(session: &SessionId, committed: &Committed) -> Self {
        Self { appended: committed.lines as u64, ..Self::nothing(Some(session), Some(committed.cursor())) }
    }

    /// The answer to empty input.
    pub fn nothing(session: Option<&SessionId>, cursor: Option<Cursor>) -> Self {
        Self {
            session_id: session.map(SessionId::to_string),
            appended: 0,
            position: cursor.map(|cursor| cursor.position.0),
            cursor: cursor.map(|cursor| cursor.to_string()),
        }
    }
}

/// A recording of what a runtime said.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Recorded {
    /// The session.
    pub session_id: String,
    /// Lines that were appended.
    pub appended: u64,
    /// Lines of the input.
    pub input_lines: u64,
    /// Texts that are kept in full as blobs.
    pub blob_count: u64,
    /// Lines that are not in the dialect, and are kept as they are.
    pub other_dialect_lines: u64,
    /// Lines of no known format, kept as they are in `system` lines, or as remarks if they are no JSON.
    pub unknown_lines: u64,
    /// Lines that no log takes, and are kept as remarks.
    pub remark_lines: u64,
    /// Lines that are too long, and are not kept.
    pub refused_lines: u64,
    /// The first of the lines that were kept as remarks or refused.
    pub bad_lines: Vec<BadLine>,
    /// The end of the log.
    pub position: Option<u64>,
    /// The end of the log, with its epoch.
    pub cursor: Option<String>,
    /// The dialect that was written; `raw` for lines of any.
    pub dialect: &'static str,
    /// True if a signal ended it.
    pub interrupted: bool,
}

/// A line of the input that no log takes as it is.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BadLine {
    /// Its number in the input, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub reason: String,
    /// True if it was kept as a remark.
    pub is_kept: bool,
}

impl From<&log::BadEvent> for BadLine {
    fn from(bad: &log::BadEvent) -> Self {
        Self { line: bad.number, reason: bad.fault.to_string(), is_kept: bad.is_kept }
    }
}

impl Recorded {
    /// The answer to a recording.
    pub fn of(
        session: &SessionId,
        dialect: log::RecordFormat,
        recorded: &log::Recorded,
        bad: &[log::BadEvent],
    ) -> Self {
        Self {
            session_id: session.to_string(),
            appended: recorded.lines,
            input_lines: recorded.events,
            blob_count: recorded.blobs,
            other_dialect_lines: recorded.others,
            unknown_lines: recorded.unknown,
            remark_lines: recorded.remarks,
            refused_lines: recorded.refused,
            bad_lines: bad.iter().map(BadLine::from).collect(),
            position: recorded.cursor.map(|cursor| cursor.position.0),
            cursor: recorded.cursor.map(|cursor| cursor.to_string()),
            dialect: dialect.word(),
            interrupted: false,
        }
    }
}

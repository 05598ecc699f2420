//! Lines appended to a log.

use duolog::log;
use duolog::{Committed, Cursor, SessionId};
use schemars::JsonSchema;
use serde::Serialize;

/// Appended lines. Fields without a value are null if the input was empty.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Appended {
    /// Id of the session. This field name is fixed; elsewhere it is `session_id`.
    #[serde(rename = "session")]
    pub session_id: Option<String>,
    /// Number of appended lines.
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

/// A recording of a runtime's output.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Recorded {
    /// The session.
    pub session_id: String,
    /// Appended lines.
    pub appended: u64,
    /// Lines of the input.
    pub input_lines: u64,
    /// Texts kept in full as blobs.
    pub blob_count: u64,
    /// Lines that are not in the dialect; they are kept unchanged.
    pub other_dialect_lines: u64,
    /// Lines in an unknown format, kept in `system` lines, or as remarks if they are not JSON.
    pub unknown_lines: u64,
    /// Lines that are not valid log lines; they are kept as remarks.
    pub remark_lines: u64,
    /// Lines that are too long; they are not kept.
    pub refused_lines: u64,
    /// The first lines that were kept as remarks or rejected.
    pub bad_lines: Vec<BadLine>,
    /// The end of the log.
    pub position: Option<u64>,
    /// The end of the log, with its epoch.
    pub cursor: Option<String>,
    /// Dialect of the appended lines; `raw` for lines of any dialect.
    pub dialect: &'static str,
    /// True if a signal ended it.
    pub interrupted: bool,
}

/// An input line that is not a valid log line.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BadLine {
    /// Line number in the input, from 1.
    pub line: u64,
    /// Reason.
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

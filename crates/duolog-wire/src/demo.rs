//! The results of the demo.

use schemars::JsonSchema;
use serde::Serialize;

/// An agent killed in the middle of a write, and the content of its log.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Demo {
    /// True if every check of the demo passed.
    pub holds: bool,
    /// The home.
    pub home: String,
    /// True if the home was kept.
    pub is_home_kept: bool,
    /// The session.
    pub session_id: String,
    /// Path of the log, relative to the state directory.
    pub log_path: String,
    /// Number of kills.
    pub kills: u32,
    /// `half_line` if no kill tore a line and another process wrote half a line.
    #[schemars(extend("enum" = ["kill", "half_line"]))]
    pub torn_by: &'static str,
    /// Size of the line that was written during the kill.
    pub line_bytes: u64,
    /// Bytes of that line in the log.
    pub torn_bytes: u64,
    /// Repairs made when the home was opened.
    pub repair_count: u64,
    /// The log after the kill.
    pub after_kill: DemoComparison,
    /// The log at the end.
    pub at_end: DemoComparison,
    /// Events in the log.
    pub events: u64,
    /// Size of the log.
    pub bytes: u64,
    /// Number of seals.
    pub seals: u64,
    /// Places where sealed bytes changed or are missing.
    pub damaged_places: u64,
    /// The workflow; null if the home had no free slot.
    pub workflow: Option<DemoWorkflow>,
}

/// The acknowledged events compared with the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DemoComparison {
    /// Events that were acknowledged.
    pub acknowledged: u64,
    /// Acknowledged events that are in the log exactly once.
    pub found: u64,
    /// Acknowledged events that are not in the log.
    pub lost: u64,
    /// Acknowledged events that are in the log more than once.
    pub repeated: u64,
    /// True if the events are in the order of their acknowledgement.
    pub in_order: bool,
    /// Lines in the log that were not acknowledged.
    pub unacknowledged: u64,
}

/// The workflow whose runner was killed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DemoWorkflow {
    /// True if every phase succeeded exactly once.
    pub holds: bool,
    /// The run.
    pub workflow_run_id: String,
    /// Status.
    pub status: &'static str,
    /// Number of takeovers from dead owners.
    pub restart_count: u32,
    /// Phases that were already done and did not run again.
    pub not_repeated: Vec<String>,
    /// Recorded executions.
    pub execution_count: u64,
    /// The gate.
    pub approval_id: String,
}

//! What the demo found.

use schemars::JsonSchema;
use serde::Serialize;

/// An agent that was killed in mid-write, and what its log holds.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Demo {
    /// True if every promise was kept.
    pub holds: bool,
    /// The home.
    pub home: String,
    /// True if the home was not removed.
    pub is_home_kept: bool,
    /// The session.
    pub session_id: String,
    /// Its log, relative to the state directory.
    pub log_path: String,
    /// How often the agent was killed.
    pub kills: u32,
    /// `half_line` if no kill tore a line, and another process wrote half of one.
    #[schemars(extend("enum" = ["kill", "half_line"]))]
    pub torn_by: &'static str,
    /// Size of the line that was being written.
    pub line_bytes: u64,
    /// Bytes of it that were in the log.
    pub torn_bytes: u64,
    /// Repairs that opening the home made.
    pub repair_count: u64,
    /// The log after the kill.
    pub after_kill: DemoComparison,
    /// The log at the end.
    pub at_end: DemoComparison,
    /// Events in the log.
    pub events: u64,
    /// Size of the log.
    pub bytes: u64,
    /// Its seals.
    pub seals: u64,
    /// Places where sealed bytes changed or are gone.
    pub damaged_places: u64,
    /// The workflow; null if the home had no slot for another run.
    pub workflow: Option<DemoWorkflow>,
}

/// What was acknowledged against what is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DemoComparison {
    /// Events that were acknowledged.
    pub acknowledged: u64,
    /// Those that are in the log once, byte for byte.
    pub found: u64,
    /// Those that are not there.
    pub lost: u64,
    /// Those that are there more than once.
    pub repeated: u64,
    /// True if they are in the order in which they were acknowledged.
    pub in_order: bool,
    /// Lines of the log that were not acknowledged.
    pub unacknowledged: u64,
}

/// A workflow whose runner was killed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DemoWorkflow {
    /// True if every phase ran once.
    pub holds: bool,
    /// The run.
    pub workflow_run_id: String,
    /// Its status.
    pub status: &'static str,
    /// How often it was taken over from an owner that died.
    pub restart_count: u32,
    /// Phases that were done before, and did not run again.
    pub not_repeated: Vec<String>,
    /// Executions on record.
    pub execution_count: u64,
    /// The gate.
    pub approval_id: String,
}

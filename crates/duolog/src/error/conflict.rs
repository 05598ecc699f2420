//! Details of [`ErrorKind::Conflict`](crate::ErrorKind::Conflict).

use duolog_types::{
    ApprovalId, ApprovalStatus, BranchId, ExecutionId, MessageId, RunId, RunStatus, SessionId, SessionStatus,
};

use super::fault::Fault;
use crate::runs::{Event, ExecutionOutcome, next};

/// The current state of the store forbids the request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Conflict {
    /// Another session has this name.
    #[error("a session named {0:?} already exists")]
    NameTaken(String),
    /// Another branch of the session has this name.
    #[error("cannot name a branch {name:?}: branch {branch} of session {session} has that name")]
    BranchNameTaken {
        /// The name.
        name: String,
        /// The branch that has it.
        branch: BranchId,
        /// Their session.
        session: SessionId,
    },
    /// A session with this id exists.
    #[error("session {0} already exists")]
    SessionTaken(SessionId),
    /// Another message has this id.
    #[error("cannot add message {0}: another message has this id, and a stored message is never changed")]
    MessageTaken(MessageId),
    /// The target of a copy is not an empty directory.
    #[error("{} exists and is not an empty directory", .0.display())]
    NotEmpty(std::path::PathBuf),
    /// The target contains the incomplete copy of a backup that died or is still running.
    #[error("{} is an incomplete copy: a backup died or is still running", .0.display())]
    PartialBackup(std::path::PathBuf),
    /// A range that partly overlaps a summary.
    #[error("cannot summarise range {from}..{to}: it partly overlaps the summary of {other_from}..{other_to}")]
    RangeCrosses {
        /// The first place of the range.
        from: u64,
        /// The place after the last of the range.
        to: u64,
        /// The first place of the summarised range.
        other_from: u64,
        /// The place after the last of the summarised range.
        other_to: u64,
    },
    /// A session that has ended.
    #[error("cannot change the status of session {session}: it is {status}, which is final")]
    Ended {
        /// The session.
        session: SessionId,
        /// Its status.
        status: SessionStatus,
    },
    /// A session that has not ended.
    #[error("session {0} has not ended")]
    NotEnded(SessionId),
    /// A transition that a run in this status does not allow.
    #[error("cannot {} run {run}: it is {status}{}", verb_of(*.event), possible(*.status))]
    RunCannot {
        /// The run.
        run: RunId,
        /// Its status.
        status: RunStatus,
        /// The requested transition.
        event: Event,
    },
    /// A run with this id exists and was started with different content.
    #[error("cannot start run {run}: a run with this id exists and has another {field}")]
    RunTaken {
        /// The run.
        run: RunId,
        /// The first field that differs.
        field: &'static str,
    },
    /// An execution with this id exists and differs.
    #[error("cannot begin execution {execution}: an execution with this id exists and has another {field}")]
    ExecutionTaken {
        /// The execution.
        execution: ExecutionId,
        /// The first field that differs.
        field: &'static str,
    },
    /// A gate with this id exists and differs.
    #[error("cannot open gate {gate}: a gate with this id exists and has another {field}")]
    GateTaken {
        /// The gate.
        gate: ApprovalId,
        /// The first field that differs.
        field: &'static str,
    },
    /// The request needs a running run.
    #[error("cannot claim or write run {run}: it is {status}, not running")]
    RunStands {
        /// The run.
        run: RunId,
        /// Its status.
        status: RunStatus,
    },
    /// A run that failed because too many of its owners died.
    #[error("cannot claim run {run}: it failed after {restarts} takeovers from dead owners")]
    GivenUp {
        /// The run.
        run: RunId,
        /// The number of takeovers.
        restarts: u32,
    },
    /// A disabled workflow.
    #[error("workflow {workflow:?} is disabled{}", by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default())]
    WorkflowDisabled {
        /// The workflow.
        workflow: String,
        /// The user who disabled it.
        by: Option<String>,
    },
    /// Another run of the same workflow and trigger is active.
    #[error("cannot retry run {run}: run {other} of the same workflow and trigger is active")]
    TriggerActive {
        /// The run.
        run: RunId,
        /// The active run.
        other: RunId,
    },
    /// An execution that has ended.
    #[error("execution {execution} has ended: {outcome}{}", why.as_ref().map(|why| format!(", {why}")).unwrap_or_default())]
    ExecutionClosed {
        /// The execution.
        execution: ExecutionId,
        /// The outcome.
        outcome: ExecutionOutcome,
        /// The reason.
        why: Option<String>,
    },
    /// A gate that was answered or has expired.
    #[error("gate {gate} is already {status}{}", by.as_ref().map(|by| format!(", by {by}")).unwrap_or_default())]
    GateResolved {
        /// The gate.
        gate: ApprovalId,
        /// Its status.
        status: ApprovalStatus,
        /// The user who answered.
        by: Option<String>,
    },
    /// A run that waits for an answer at a gate.
    #[error("cannot resume run {run}: it waits for an answer at gate {gate}")]
    GatePending {
        /// The run.
        run: RunId,
        /// The gate.
        gate: ApprovalId,
    },
    /// A gate without an answer, which cannot be acknowledged.
    #[error("cannot acknowledge gate {gate}: it is {status} and has no answer")]
    GateNotAnswered {
        /// The gate.
        gate: ApprovalId,
        /// Its status.
        status: ApprovalStatus,
    },
    /// An error of the stores.
    #[error(transparent)]
    Store(Fault),
}

fn verb_of(event: Event) -> &'static str {
    event.verb().map_or(event.as_str(), |(verb, _)| verb)
}

/// Returns the transitions that a run in this status allows, as the end of a sentence.
fn possible(status: RunStatus) -> String {
    let legal = Event::ALL.iter().filter(|event| next(status, **event).is_some());
    let verbs: Vec<&str> = legal.filter_map(|event| event.verb()).map(|(_, done)| done).collect();
    match verbs.as_slice() {
        [] => ", which is final".to_owned(),
        [only] => format!("; a {status} run can only be {only}"),
        [most @ .., last] => format!("; a {status} run can be {} or {last}", most.join(", ")),
    }
}

//! What can be in the way.

use duolog_types::{
    ApprovalId, ApprovalStatus, BranchId, ExecutionId, MessageId, RunId, RunStatus, SessionId, SessionStatus,
};

use super::fault::Fault;
use crate::runs::{Event, ExecutionOutcome, next};

/// Something is in the way.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Conflict {
    /// Another session is called that.
    #[error("a session called {0:?} exists already")]
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
    /// A session with this id is there.
    #[error("session {0} is there already")]
    SessionTaken(SessionId),
    /// Another message has this id.
    #[error("cannot add message {0}: another message has this id, and a stored message is never changed")]
    MessageTaken(MessageId),
    /// A copy is only made where nothing is.
    #[error("{} exists and is not an empty directory", .0.display())]
    NotEmpty(std::path::PathBuf),
    /// A backup that died left its copy.
    #[error("{} is a copy that is not whole: a backup died, or is still running", .0.display())]
    PartialBackup(std::path::PathBuf),
    /// A range that a summary reaches into.
    #[error("cannot summarise range {from}..{to}: it partly overlaps the summary of {other_from}..{other_to}")]
    RangeCrosses {
        /// Its first place.
        from: u64,
        /// The place after its last.
        to: u64,
        /// The first place of what the summary stands for.
        other_from: u64,
        /// The place after its last.
        other_to: u64,
    },
    /// A session that came to its end.
    #[error("session {session} is {status}, and only reopening it changes that")]
    Ended {
        /// The session.
        session: SessionId,
        /// How it stands.
        status: SessionStatus,
    },
    /// A session that did not come to an end.
    #[error("session {0} has not ended")]
    NotEnded(SessionId),
    /// An event that a run of this status does not take.
    #[error("cannot {} run {run}: it is {status}{}", verb_of(*.event), possible(*.status))]
    RunCannot {
        /// The run.
        run: RunId,
        /// Its status.
        status: RunStatus,
        /// What was asked for.
        event: Event,
    },
    /// A run with this id exists, and was started with something else.
    #[error("cannot start run {run}: a run with this id exists and has another {field}")]
    RunTaken {
        /// The run.
        run: RunId,
        /// The first field that differs.
        field: &'static str,
    },
    /// An execution with this id exists, and is another one.
    #[error("cannot begin execution {execution}: an execution with this id exists and has another {field}")]
    ExecutionTaken {
        /// The execution.
        execution: ExecutionId,
        /// The first field that differs.
        field: &'static str,
    },
    /// A gate with this id exists, and asks for something else.
    #[error("cannot open gate {gate}: a gate with this id exists and has another {field}")]
    GateTaken {
        /// The gate.
        gate: ApprovalId,
        /// The first field that differs.
        field: &'static str,
    },
    /// What only a run that runs does.
    #[error("cannot claim or write run {run}: it is {status}, not running")]
    RunStands {
        /// The run.
        run: RunId,
        /// How it stands.
        status: RunStatus,
    },
    /// A run that was taken over as often as it may be.
    #[error("run {run} was taken over {restarts} times from owners that died, and was given up")]
    GivenUp {
        /// The run.
        run: RunId,
        /// How often.
        restarts: u32,
    },
    /// A workflow that is switched off.
    #[error("workflow {workflow:?} is disabled{}", by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default())]
    WorkflowDisabled {
        /// The workflow.
        workflow: String,
        /// Who did so.
        by: Option<String>,
    },
    /// Another run of the same workflow and trigger is active.
    #[error("run {run} cannot run again while run {other}, of the same workflow and trigger, is active")]
    TriggerActive {
        /// The run.
        run: RunId,
        /// The active one.
        other: RunId,
    },
    /// An execution that has ended.
    #[error("execution {execution} has ended: {outcome}{}", why.as_ref().map(|why| format!(", {why}")).unwrap_or_default())]
    ExecutionClosed {
        /// The execution.
        execution: ExecutionId,
        /// How.
        outcome: ExecutionOutcome,
        /// Why.
        why: Option<String>,
    },
    /// A gate that was answered, or can no longer be.
    #[error("gate {gate} is {status} already{}", by.as_ref().map(|by| format!(", by {by}")).unwrap_or_default())]
    GateResolved {
        /// The gate.
        gate: ApprovalId,
        /// How it stands.
        status: ApprovalStatus,
        /// Who answered.
        by: Option<String>,
    },
    /// A run that waits for an answer.
    #[error("run {run} waits at gate {gate}, and goes on once that is answered")]
    GatePending {
        /// The run.
        run: RunId,
        /// The gate.
        gate: ApprovalId,
    },
    /// A gate without an answer that a run could take note of.
    #[error("cannot acknowledge gate {gate}: it is {status} and has no answer")]
    GateNotAnswered {
        /// The gate.
        gate: ApprovalId,
        /// How it stands.
        status: ApprovalStatus,
    },
    /// The stores answered so.
    #[error(transparent)]
    Store(Fault),
}

fn verb_of(event: Event) -> &'static str {
    event.verb().map_or(event.as_str(), |(verb, _)| verb)
}

/// What a run of this status takes, as the end of a sentence.
fn possible(status: RunStatus) -> String {
    let legal = Event::ALL.iter().filter(|event| next(status, **event).is_some());
    let verbs: Vec<&str> = legal.filter_map(|event| event.verb()).map(|(_, done)| done).collect();
    match verbs.as_slice() {
        [] => ", which is final".to_owned(),
        [only] => format!("; a {status} run can only be {only}"),
        [most @ .., last] => format!("; a {status} run can be {} or {last}", most.join(", ")),
    }
}

//! Runs, claims and their results.

use std::fmt;
use std::str::FromStr;

use duolog_log::dialect::money::Money;
use duolog_state::owned::workflow_runs::{RunRow, RunSummaryRow};
use duolog_types::{ApprovalId, ExecutionId, RunId, RunStatus, SessionId, Timestamp, TriggerType};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::runs::rules;

/// A new run.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// The id [default: a new one].
    pub id: Option<RunId>,
    /// The name of the workflow.
    pub workflow_name: String,
    /// The type of the trigger.
    pub trigger_type: TriggerType,
    /// The trigger id. Only one run per workflow and trigger is active at a time.
    pub trigger_id: String,
    /// The owner of the repository.
    pub owner: Option<String>,
    /// The repository, as `repo` or `owner/repo`.
    pub repo: Option<String>,
    /// The number of the issue.
    pub issue_number: Option<u64>,
    /// The user who triggers it.
    pub triggered_by: Option<String>,
    /// The context, as JSON. It never changes.
    pub context: Option<String>,
    /// The session whose log gets the lines about it [default: a new one].
    pub session_id: Option<SessionId>,
    /// The first phase.
    pub phase: Option<String>,
    /// Whether the run may start at once.
    pub admission: Admission,
    /// The owner that claims the run in the same transaction, if it starts at once.
    pub claimed_by: Option<String>,
    /// The maximum number of takeovers from dead owners [default: the configured limit].
    pub restart_cap: Option<u32>,
}

impl NewRun {
    /// Returns a new run of a workflow and a trigger, with the defaults.
    pub fn new(workflow_name: &str, trigger_type: TriggerType, trigger_id: &str) -> Self {
        Self {
            id: None,
            workflow_name: workflow_name.to_owned(),
            trigger_type,
            trigger_id: trigger_id.to_owned(),
            owner: None,
            repo: None,
            issue_number: None,
            triggered_by: None,
            context: None,
            session_id: None,
            phase: None,
            admission: Admission::IfFree,
            claimed_by: None,
            restart_cap: None,
        }
    }
}

/// The admission of a new run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The run starts if there is a free slot that no queued run waits for; otherwise it is queued.
    IfFree,
    /// The run is queued until it is admitted.
    Queue,
}

/// The result of starting a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// The run.
    pub run: RunSummary,
    /// True if it existed: a run with the same id, or an active run of the same workflow and trigger.
    pub existed: bool,
    /// The fence of the claim, if the run was claimed.
    pub fence: Option<Fence>,
}

/// The fence of a claim. Every write of the owner carries it. A later claim has a higher fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fence(pub u64);

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Fence {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// The author of a change, and the reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attribution {
    /// The actor.
    pub actor: Option<String>,
    /// The reason.
    pub reason: Option<String>,
}

/// The result of a status change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusChange {
    /// The previous status.
    pub previous: RunStatus,
    /// True if the status changed.
    pub changed: bool,
    /// The run after the change.
    pub run: RunSummary,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It succeeded.
    Succeeded,
    /// It failed with this error.
    Failed(String),
}

/// A claim of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// The run.
    pub run: RunSummary,
    /// The fence, which every write of the owner carries.
    pub fence: Fence,
    /// The time at which the lease expires unless it is renewed.
    pub lease_expires_at: Timestamp,
    /// True if it was taken over from a dead owner.
    pub taken_over: bool,
    /// The executions of the dead owner, which were closed.
    pub closed: Vec<ExecutionId>,
    /// The answers that no claim has acknowledged yet.
    pub unconsumed: Vec<ApprovalId>,
}

/// The filter of a worker: the runs to take, and how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakeFilter {
    /// The workflows whose runs are taken; all of them if empty.
    pub workflows: Vec<String>,
    /// The maximum number of runs.
    pub limit: u32,
}

impl Default for TakeFilter {
    /// Returns a filter that takes every run.
    fn default() -> Self {
        Self { workflows: Vec::new(), limit: u32::MAX }
    }
}

impl TakeFilter {
    /// Returns true if runs of this workflow are taken.
    pub fn takes(&self, workflow: &str) -> bool {
        self.workflows.is_empty() || self.workflows.iter().any(|name| name == workflow)
    }
}

/// The result of [`crate::runs::Runs::take_next`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Next {
    /// The claim of the run that was taken; `None` if there was none.
    pub claim: Option<Claim>,
    /// Runs that failed because they were taken over too often.
    pub given_up: Vec<RunSummary>,
    /// Runs that were cancelled because they were queued for too long.
    pub expired: Vec<RunSummary>,
}

/// The result of [`crate::runs::Runs::recover`].
#[derive(Debug, Default)]
pub struct Recovered {
    /// Runs that the caller has claimed and must resume.
    pub resumed: Vec<Claim>,
    /// Runs that failed because they were taken over too often.
    pub given_up: Vec<RunSummary>,
    /// Runs that could not be claimed, with the error.
    pub failed: Vec<(RunId, Error)>,
    /// True if every run whose lease ended was tried; false if an error of the whole state ended the call before.
    pub complete: bool,
    /// Runs that were found and not tried, because an error ended the call. There may be more.
    pub untried: Vec<RunId>,
    /// The error that ended the call when further runs were looked up; `None` if it ended otherwise.
    pub stopped: Option<Error>,
}

/// The result of [`crate::runs::Runs::admit`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Admitted {
    /// Runs that are running now, longest wait first, with the fence of each if a claim was requested.
    pub admitted: Vec<(RunSummary, Option<Fence>)>,
    /// Runs that were cancelled because they waited too long.
    pub expired: Vec<RunSummary>,
}

/// The result of [`crate::runs::Runs::expire`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Expired {
    /// Runs that were cancelled because they waited too long for a slot.
    pub queued: Vec<RunSummary>,
    /// Runs that failed because their gate was not answered in time.
    pub gates: Vec<RunSummary>,
}

/// A run in a list, without text of unlimited length (I5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// The id.
    pub id: RunId,
    /// The name of the workflow.
    pub workflow_name: String,
    /// The type of the trigger.
    pub trigger_type: TriggerType,
    /// The trigger id.
    pub trigger_id: String,
    /// The owner of the repository.
    pub owner: Option<String>,
    /// The repository, without its owner.
    pub repo: Option<String>,
    /// The number of the issue.
    pub issue_number: Option<u64>,
    /// The current or the last phase.
    pub current_phase: String,
    /// The status.
    pub status: RunStatus,
    /// The session whose log has the lines about it.
    pub session_id: Option<SessionId>,
    /// The owner of its lease.
    pub lease_owner: Option<String>,
    /// The number of takeovers from dead owners since it was last started or retried.
    pub restart_count: u32,
    /// The number of retries after its end.
    pub retry_count: u32,
    /// The user who triggered it.
    pub triggered_by: Option<String>,
    /// The cost of its executions, as far as reported.
    pub cost: Option<Money>,
    /// The tokens of its executions, as far as reported.
    pub tokens: Option<u64>,
    /// The time at which it was started.
    pub started_at: Timestamp,
    /// The time of the last change.
    pub updated_at: Timestamp,
    /// The time at which it ended.
    pub finished_at: Option<Timestamp>,
    /// The end of its lease; `None` if it is not running. A running run without an owner has a lease too.
    #[serde(default)]
    pub lease_expires_at: Option<Timestamp>,
}

impl RunSummary {
    /// Returns true if the run is running and its lease has expired, so that any owner may take it over.
    pub fn is_stale(&self, now: Timestamp) -> bool {
        rules::is_stale(self.status, self.lease_expires_at, now)
    }
}

impl From<RunSummaryRow> for RunSummary {
    fn from(row: RunSummaryRow) -> Self {
        Self {
            id: row.id,
            workflow_name: row.workflow_name,
            trigger_type: row.trigger_type,
            trigger_id: row.trigger_id,
            owner: row.owner,
            repo: row.repo,
            issue_number: row.issue_number,
            current_phase: row.current_phase,
            status: row.status,
            session_id: row.session_id,
            lease_owner: row.lease_owner,
            restart_count: row.restart_count,
            retry_count: row.retry_count,
            triggered_by: row.triggered_by,
            cost: row.cost_picos.map(|picos| Money::from_picos(picos.into())),
            tokens: row.tokens,
            started_at: row.started_at,
            updated_at: row.updated_at,
            finished_at: row.finished_at,
            lease_expires_at: row.lease_expires_at,
        }
    }
}

impl From<&RunRow> for RunSummary {
    fn from(row: &RunRow) -> Self {
        Self {
            id: row.id.clone(),
            workflow_name: row.workflow_name.clone(),
            trigger_type: row.trigger_type,
            trigger_id: row.trigger_id.clone(),
            owner: row.owner.clone(),
            repo: row.repo.clone(),
            issue_number: row.issue_number,
            current_phase: row.current_phase.clone(),
            status: row.status,
            session_id: row.session_id.clone(),
            lease_owner: row.lease_owner.clone(),
            restart_count: row.restart_count,
            retry_count: row.retry_count,
            triggered_by: row.triggered_by.clone(),
            cost: row.cost_picos.map(|picos| Money::from_picos(picos.into())),
            tokens: row.tokens,
            started_at: row.started_at,
            updated_at: row.updated_at,
            finished_at: row.finished_at,
            lease_expires_at: row.lease_expires_at,
        }
    }
}

/// A run with all of its data.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The data in a list.
    pub summary: RunSummary,
    /// The reason why it failed or was cancelled.
    pub error: Option<String>,
    /// The fence of the last claim.
    pub fence: Fence,
    /// The maximum number of takeovers from dead owners.
    pub restart_cap: u32,
    /// The actor of the last status change.
    pub actor: Option<String>,
    /// The time since which it waits for a slot.
    pub queued_at: Option<Timestamp>,
    /// True if it was resumed, so that it waits ahead of every run that has not started.
    pub is_resumed: bool,
    /// The context, as JSON.
    pub context: Option<String>,
    /// The data that phases pass to each other: keys, and values as JSON.
    pub scratch: Vec<(String, String)>,
    /// The phases that ended, each as JSON, oldest first.
    pub phase_history: Vec<String>,
    /// The statuses of its nodes: names, and values as JSON.
    pub node_statuses: Vec<(String, String)>,
    /// The gate at which it waits.
    pub pending: Option<ApprovalId>,
    /// The answers that no claim has acknowledged yet.
    pub unconsumed: Vec<ApprovalId>,
}

/// The state of a phase, as recorded in the ledger of executions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PhaseState {
    /// It must run: it never did, or it did not succeed.
    Run,
    /// It is running, in this execution.
    Running(ExecutionId),
    /// It has succeeded, in this execution.
    Done(ExecutionId),
}

/// The condition to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Until {
    /// The run has ended.
    Ended,
    /// The run has one of these statuses.
    Status(Vec<RunStatus>),
    /// The run has ended or waits for an answer.
    Settled,
}

impl Until {
    /// Returns true if a run with this status meets the condition.
    pub fn is_met(&self, status: RunStatus) -> bool {
        match self {
            Self::Ended => status.is_terminal(),
            Self::Status(statuses) => statuses.contains(&status),
            Self::Settled => status.is_terminal() || status == RunStatus::Paused,
        }
    }
}

//! Runs as they are given in and out.

use std::fmt;
use std::str::FromStr;

use duolog_log::dialect::money::Money;
use duolog_state::owned::workflow_runs::{RunRow, RunSummaryRow};
use duolog_types::{ApprovalId, ExecutionId, RunId, RunStatus, SessionId, Timestamp, TriggerType};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::runs::rules;

/// A run to be started.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// Its id; one is minted where none is given.
    pub id: Option<RunId>,
    /// What it is a run of.
    pub workflow_name: String,
    /// What kind of thing sets it off.
    pub trigger_type: TriggerType,
    /// What sets it off. While a run of the same workflow and trigger is active, no second one begins.
    pub trigger_id: String,
    /// Whose repository it works on.
    pub owner: Option<String>,
    /// The repository, as `repo` or `owner/repo`.
    pub repo: Option<String>,
    /// The issue.
    pub issue_number: Option<u64>,
    /// Who sets it off.
    pub triggered_by: Option<String>,
    /// What sets it off, as JSON. It never changes.
    pub context: Option<String>,
    /// The session whose log is to tell of it; it gets one of its own where none is given.
    pub session_id: Option<SessionId>,
    /// The phase that it begins with.
    pub phase: Option<String>,
    /// Whether it may begin at once.
    pub admission: Admission,
    /// Who claims it in the same step, if it begins at once.
    pub claimed_by: Option<String>,
    /// How often it may be taken over from a dead owner; the limit in force where nothing is said.
    pub restart_cap: Option<u32>,
}

impl NewRun {
    /// A run of a workflow that a trigger sets off, and nothing else said.
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

/// Whether a run may begin at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// If a slot is free beside those that queued runs wait for; otherwise it is queued.
    IfFree,
    /// It waits, until somebody admits it.
    Queue,
}

/// A run that was started, or was there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// The run.
    pub run: RunSummary,
    /// Whether it was there: a run of the same id, or an active run of the same workflow and trigger.
    pub existed: bool,
    /// The claim on it, if it was claimed.
    pub fence: Option<Fence>,
}

/// What a claim of a run is known by. Every write of its owner carries it, and a later claim outranks it.
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

/// Who does something to a run, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attribution {
    /// Who.
    pub actor: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

/// What became of a change of status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusChange {
    /// How the run stood.
    pub previous: RunStatus,
    /// Whether it stands otherwise now.
    pub changed: bool,
    /// The run as it is.
    pub run: RunSummary,
}

/// How a run ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Well.
    Succeeded,
    /// With an error.
    Failed(String),
}

/// A run that somebody claimed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// The run.
    pub run: RunSummary,
    /// What every write of its owner carries.
    pub fence: Fence,
    /// When the lease ends if it is not renewed.
    pub lease_expires_at: Timestamp,
    /// Whether it was taken over from an owner that died.
    pub taken_over: bool,
    /// The executions that the dead owner left, which are closed.
    pub closed: Vec<ExecutionId>,
    /// The answers that no claim has acknowledged yet.
    pub unconsumed: Vec<ApprovalId>,
}

/// Which runs a worker takes, and how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakeFilter {
    /// The workflows whose runs are taken; all of them if empty.
    pub workflows: Vec<String>,
    /// Maximum number of runs.
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

/// What [`crate::runs::Runs::take_next`] found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Next {
    /// The claim on the run that was taken; `None` if there was none to take.
    pub claim: Option<Claim>,
    /// Runs that were taken over too often, and failed.
    pub given_up: Vec<RunSummary>,
    /// Runs that were queued for too long, and were cancelled.
    pub expired: Vec<RunSummary>,
}

/// What [`crate::runs::Runs::recover`] did.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Runs that the caller has claimed and is to resume.
    pub resumed: Vec<Claim>,
    /// Runs that were taken over too often, and failed.
    pub given_up: Vec<RunSummary>,
    /// Runs that could not be taken up, and why.
    pub failed: Vec<(RunId, Error)>,
    /// True if every run whose lease ended was tried; false if an error of the whole state ended the call before.
    pub complete: bool,
    /// Runs that were found and not tried, because an error ended the call. There may be more.
    pub untried: Vec<RunId>,
    /// The error that ended the call when further runs were looked up; `None` if it ended otherwise.
    pub stopped: Option<Error>,
}

/// What [`crate::runs::Runs::admit`] did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Admitted {
    /// Runs that run now, the one that waited longest first, and the claim on each where one was asked for.
    pub admitted: Vec<(RunSummary, Option<Fence>)>,
    /// Runs that waited too long, and were cancelled.
    pub expired: Vec<RunSummary>,
}

/// What [`crate::runs::Runs::expire`] did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Expired {
    /// Runs that waited too long for a place, and were cancelled.
    pub queued: Vec<RunSummary>,
    /// Runs whose gate was not answered in time, and failed.
    pub gates: Vec<RunSummary>,
}

/// A run in a list. Text that can grow has no place here (I5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// Its id.
    pub id: RunId,
    /// What it is a run of.
    pub workflow_name: String,
    /// What kind of thing set it off.
    pub trigger_type: TriggerType,
    /// What set it off.
    pub trigger_id: String,
    /// Whose repository it works on.
    pub owner: Option<String>,
    /// The repository, without its owner.
    pub repo: Option<String>,
    /// The issue.
    pub issue_number: Option<u64>,
    /// The phase it is in, or came to last.
    pub current_phase: String,
    /// How it stands.
    pub status: RunStatus,
    /// The session whose log tells of it.
    pub session_id: Option<SessionId>,
    /// Who runs it.
    pub lease_owner: Option<String>,
    /// How often it was taken over from an owner that died, since it was last started or retried.
    pub restart_count: u32,
    /// How often somebody had it run again after its end.
    pub retry_count: u32,
    /// Who set it off.
    pub triggered_by: Option<String>,
    /// What its executions cost, as far as they said.
    pub cost: Option<Money>,
    /// Their tokens of all kinds, as far as they said.
    pub tokens: Option<u64>,
    /// When it was started.
    pub started_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it came to its end.
    pub finished_at: Option<Timestamp>,
    /// The end of its lease; `None` if it is not running. A run that nobody has claimed has one, too.
    #[serde(default)]
    pub lease_expires_at: Option<Timestamp>,
}

impl RunSummary {
    /// Returns true if the run is running and its lease has expired: anybody may take it over.
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

/// A run, whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// What a list says of it.
    pub summary: RunSummary,
    /// Why it failed or was cancelled.
    pub error: Option<String>,
    /// The last claim on it.
    pub fence: Fence,
    /// How often it may be taken over from a dead owner.
    pub restart_cap: u32,
    /// Who changed its status last.
    pub actor: Option<String>,
    /// Since when it waits for a slot.
    pub queued_at: Option<Timestamp>,
    /// True if it was resumed and waits before every run that has not begun.
    pub is_resumed: bool,
    /// What set it off, as JSON.
    pub context: Option<String>,
    /// What its phases leave to each other: keys, and values as JSON.
    pub scratch: Vec<(String, String)>,
    /// The phases that ended, each as JSON, in order.
    pub phase_history: Vec<String>,
    /// How its nodes stand: names, and statuses as JSON.
    pub node_statuses: Vec<(String, String)>,
    /// The gate that it waits at.
    pub pending: Option<ApprovalId>,
    /// The answers that no claim has acknowledged yet.
    pub unconsumed: Vec<ApprovalId>,
}

/// What is to be done of a phase, as the ledger of executions says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PhaseStanding {
    /// It is to be run: it never was, or did not succeed.
    Run,
    /// It is being run.
    Running(ExecutionId),
    /// It was run, and succeeded.
    Done(ExecutionId),
}

/// Until when to wait for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Until {
    /// Until it has come to its end.
    Ended,
    /// Until it stands in one of these ways.
    Status(Vec<RunStatus>),
    /// Until it ended, or waits for an answer.
    Settled,
}

impl Until {
    /// Whether a run that stands so is what is waited for.
    pub fn is_met(&self, status: RunStatus) -> bool {
        match self {
            Self::Ended => status.is_terminal(),
            Self::Status(statuses) => statuses.contains(&status),
            Self::Settled => status.is_terminal() || status == RunStatus::Paused,
        }
    }
}

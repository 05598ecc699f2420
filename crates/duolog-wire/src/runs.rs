//! Workflow runs and the answers to their changes.

use duolog::{ApprovalId, Clock as _, ExecutionId, RunStatus, SessionId, SystemClock, TriggerType, runs};
use schemars::JsonSchema;
use serde::Serialize;

use crate::schema::{words, words_or_null};
use crate::{Approval, Error, Execution, Json, Members, Usd};

/// A run in a list.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunSummary {
    /// Run id.
    pub id: String,
    /// Workflow name.
    pub workflow_name: String,
    /// Trigger type.
    #[schemars(extend("enum" = words(TriggerType::ALL, TriggerType::as_str)))]
    pub trigger_type: &'static str,
    /// Trigger id; one active run per workflow and trigger.
    pub trigger_id: String,
    /// Owner of the repository.
    pub owner: Option<String>,
    /// Repository.
    pub repo: Option<String>,
    /// Issue number.
    pub issue_number: Option<u64>,
    /// The current phase; empty before the first phase.
    pub current_phase: String,
    /// Status.
    #[schemars(extend("enum" = words(RunStatus::ALL, RunStatus::as_str)))]
    pub status: &'static str,
    /// The session whose log records the run.
    pub session_id: Option<String>,
    /// The owner of the claim.
    pub lease_owner: Option<String>,
    /// Expiry of the lease.
    pub lease_expires_at: Option<String>,
    /// True if the run is running and its lease has expired; the status stays running until a takeover.
    pub is_stale: bool,
    /// Number of takeovers from dead owners.
    pub restart_count: u32,
    /// Number of retries.
    pub retry_count: u32,
    /// Actor that triggered it.
    pub triggered_by: Option<String>,
    /// Start time.
    pub started_at: String,
    /// Time of the last change.
    pub updated_at: String,
    /// End time.
    pub finished_at: Option<String>,
    /// Cost of its executions; null if no execution reported a cost.
    pub cost_usd: Option<Usd>,
    /// Tokens of its executions; null if no execution reported tokens.
    pub tokens: Option<u64>,
}

impl From<&runs::RunSummary> for RunSummary {
    fn from(run: &runs::RunSummary) -> Self {
        Self {
            id: run.id.to_string(),
            workflow_name: run.workflow_name.clone(),
            trigger_type: run.trigger_type.as_str(),
            trigger_id: run.trigger_id.clone(),
            owner: run.owner.clone(),
            repo: run.repo.clone(),
            issue_number: run.issue_number,
            current_phase: run.current_phase.clone(),
            status: run.status.as_str(),
            session_id: run.session_id.as_ref().map(SessionId::to_string),
            lease_owner: run.lease_owner.clone(),
            lease_expires_at: run.lease_expires_at.map(|at| at.to_string()),
            is_stale: run.is_stale(SystemClock.now()),
            restart_count: run.restart_count,
            retry_count: run.retry_count,
            triggered_by: run.triggered_by.clone(),
            started_at: run.started_at.to_string(),
            updated_at: run.updated_at.to_string(),
            finished_at: run.finished_at.map(|at| at.to_string()),
            cost_usd: run.cost.map(Usd),
            tokens: run.tokens,
        }
    }
}

/// A run with its context, scratch and history.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Run {
    /// The fields of a list.
    #[serde(flatten)]
    pub summary: RunSummary,
    /// Error message.
    pub error_message: Option<String>,
    /// Fence of the last claim.
    pub fence: u64,
    /// Maximum number of takeovers.
    pub restart_cap: u32,
    /// Actor of the last status change.
    pub actor: Option<String>,
    /// Time when the run was queued.
    pub queued_at: Option<String>,
    /// True if the run is queued because no slot was free when it was resumed.
    pub is_resumed: bool,
    /// The gate at which the run waits.
    pub pending_approval_id: Option<String>,
    /// Answered gates that the owner has not acknowledged.
    pub unconsumed_approval_ids: Vec<String>,
    /// Context of the run.
    pub context: Option<Json>,
    /// Scratch values that phases share.
    pub scratch: Members,
    /// The recorded phases of the run.
    pub phase_history: Vec<Json>,
    /// The statuses of the nodes, if the phases are a graph.
    pub node_statuses: Members,
}

impl From<&runs::Run> for Run {
    fn from(run: &runs::Run) -> Self {
        Self {
            summary: (&run.summary).into(),
            error_message: run.error.clone(),
            fence: run.fence.0,
            restart_cap: run.restart_cap,
            actor: run.actor.clone(),
            queued_at: run.queued_at.map(|at| at.to_string()),
            is_resumed: run.is_resumed,
            pending_approval_id: run.pending.as_ref().map(ApprovalId::to_string),
            unconsumed_approval_ids: run.unconsumed.iter().map(ApprovalId::to_string).collect(),
            context: run.context.as_deref().map(Json::of),
            scratch: Members::of(&run.scratch),
            phase_history: run.phase_history.iter().map(|entry| Json::of(entry)).collect(),
            node_statuses: Members::of(&run.node_statuses),
        }
    }
}

/// `{"run": {…}}`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunAnswer {
    /// The run after the change.
    pub run: RunSummary,
}

/// A status change.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunTransition {
    /// The run after the change.
    pub run: RunSummary,
    /// Status before the change.
    #[schemars(extend("enum" = words(RunStatus::ALL, RunStatus::as_str)))]
    pub previous_status: &'static str,
    /// False if the session already had this status.
    pub changed: bool,
}

impl From<&runs::StatusChange> for RunTransition {
    fn from(turned: &runs::StatusChange) -> Self {
        Self { run: (&turned.run).into(), previous_status: turned.previous.as_str(), changed: turned.changed }
    }
}

/// A started run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunStarted {
    /// The run.
    pub run: RunSummary,
    /// True if a run with the same id, or an active run of the same workflow and trigger, existed.
    pub existed: bool,
    /// Fence of the claim, if the run was claimed.
    pub fence: Option<u64>,
}

impl From<&runs::Started> for RunStarted {
    fn from(started: &runs::Started) -> Self {
        Self { run: (&started.run).into(), existed: started.existed, fence: started.fence.map(|fence| fence.0) }
    }
}

/// A claim on a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Claim {
    /// The run.
    pub run: RunSummary,
    /// Fence of the claim; every write of the owner carries it.
    pub fence: u64,
    /// Expiry of the lease.
    pub lease_expires_at: String,
    /// True if the run was taken over from a dead owner.
    pub taken_over: bool,
    /// Running executions of the previous owner, which are closed now.
    pub closed_execution_ids: Vec<String>,
    /// Answered gates to acknowledge.
    pub unconsumed_approval_ids: Vec<String>,
}

impl From<&runs::Claim> for Claim {
    fn from(claim: &runs::Claim) -> Self {
        Self {
            run: (&claim.run).into(),
            fence: claim.fence.0,
            lease_expires_at: claim.lease_expires_at.to_string(),
            taken_over: claim.taken_over,
            closed_execution_ids: claim.closed.iter().map(ExecutionId::to_string).collect(),
            unconsumed_approval_ids: claim.unconsumed.iter().map(ApprovalId::to_string).collect(),
        }
    }
}

/// A renewed lease.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Lease {
    /// The run.
    pub workflow_run_id: String,
    /// Fence of the claim.
    pub fence: Option<u64>,
    /// Expiry of the lease.
    pub lease_expires_at: String,
}

/// Queued runs that got a slot.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Admitted {
    /// The admitted runs.
    pub admitted: Vec<AdmittedRun>,
    /// Runs cancelled because they were queued for too long.
    pub cancelled_runs: Vec<RunSummary>,
}

/// A queued run that got a slot.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AdmittedRun {
    /// The run.
    pub run: RunSummary,
    /// Fence of the claim, if the run was claimed.
    pub fence: Option<u64>,
}

impl From<&runs::Admitted> for Admitted {
    fn from(done: &runs::Admitted) -> Self {
        let admitted = done.admitted.iter();
        Self {
            admitted: admitted
                .map(|(run, fence)| AdmittedRun { run: run.into(), fence: fence.map(|fence| fence.0) })
                .collect(),
            cancelled_runs: done.expired.iter().map(RunSummary::from).collect(),
        }
    }
}

/// Runs that exceeded a time limit.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Expired {
    /// Runs cancelled because they were queued for too long.
    pub cancelled_runs: Vec<RunSummary>,
    /// Runs that failed because their gate expired.
    pub failed_runs: Vec<RunSummary>,
}

impl From<&runs::Expired> for Expired {
    fn from(done: &runs::Expired) -> Self {
        Self {
            cancelled_runs: done.queued.iter().map(RunSummary::from).collect(),
            failed_runs: done.gates.iter().map(RunSummary::from).collect(),
        }
    }
}

/// Runs recovered from dead owners.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Recovered {
    /// The claims on the runs to resume.
    pub claims: Vec<Claim>,
    /// Runs that failed because they reached the takeover limit.
    pub failed_runs: Vec<RunSummary>,
    /// Runs that could not be recovered, and why.
    pub errors: Vec<RunError>,
    /// False if an error stopped the command before the last run.
    pub complete: bool,
    /// The runs that were found and not tried, because an error stopped the command. There may be more.
    pub untried_runs: Vec<String>,
}

/// A run that could not be recovered.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunError {
    /// The run.
    pub workflow_run_id: String,
    /// The error.
    pub error: Error,
}

/// A page of runs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunList {
    /// The runs.
    pub runs: Vec<RunSummary>,
    /// The token of the next page.
    pub next: Option<String>,
    /// Number of runs on all pages; null unless requested.
    pub total: Option<u64>,
}

/// Everything about a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunDetail {
    /// The run.
    pub run: Run,
    /// A page of its executions, oldest first.
    pub executions: Vec<Execution>,
    /// The token of the next page of executions.
    pub executions_next: Option<String>,
    /// Gates.
    pub approvals: Vec<Approval>,
    /// Possible next steps.
    pub next_steps: Vec<NextStep>,
}

/// A possible next step of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NextStep {
    /// Description of the step.
    pub text: String,
    /// The command for the step.
    pub command: Option<String>,
}

/// The scratch values of a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Scratch {
    /// The run.
    pub workflow_run_id: String,
    /// The keys and their values.
    pub scratch: Members,
}

/// The result of waiting for a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunWait {
    /// The run.
    pub run: RunSummary,
    /// False if the wait timed out or the run ended in another status.
    pub met: bool,
}

/// A command that ran as the owner of a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunExecuted {
    /// The run after the command.
    pub run: RunSummary,
    /// The phase that the command executes.
    pub phase: String,
    /// The execution of the phase; null if none was started.
    pub execution_id: Option<String>,
    /// Exit code of the command; 128 plus the signal if a signal ended it; null if it did not run.
    pub exit_code: Option<i32>,
    /// Outcome; the result of the command is recorded if it is `succeeded` or `failed`.
    #[schemars(extend("enum" = ["succeeded", "failed", "done", "waiting", "lost"]))]
    pub command_result: &'static str,
}

/// The status changes and claims of a run, oldest first.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunHistory {
    /// The changes.
    pub history: Vec<RunChange>,
    /// Log lines that contradict the state of the run; they are not shown.
    pub rejected_lines: u64,
    /// False if the log has further lines, or lines that are unreadable, lost or rejected.
    pub complete: bool,
    /// Recorded bytes of the log that are lost.
    pub lost_bytes: u64,
}

/// A status change or claim from the log.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunChange {
    /// Time of the event.
    pub occurred_at: Option<String>,
    /// Event.
    pub event: Option<String>,
    /// Status before the change.
    #[schemars(extend("enum" = words_or_null(RunStatus::ALL, RunStatus::as_str)))]
    pub previous_status: Option<String>,
    /// Status after the change.
    #[schemars(extend("enum" = words_or_null(RunStatus::ALL, RunStatus::as_str)))]
    pub status: Option<String>,
    /// The phase at that time.
    pub phase: Option<String>,
    /// Actor of the change.
    pub actor: Option<String>,
    /// Reason.
    pub reason: Option<String>,
    /// The owner of the claim.
    pub lease_owner: Option<String>,
    /// Fence of the claim.
    pub fence: Option<u64>,
}

//! Runs of workflows, and what is answered where one is changed.

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
    /// The workflow that it is a run of.
    pub workflow_name: String,
    /// Trigger type.
    #[schemars(extend("enum" = words(TriggerType::ALL, TriggerType::as_str)))]
    pub trigger_type: &'static str,
    /// Trigger id; one run per workflow and trigger is active at a time.
    pub trigger_id: String,
    /// Owner of the repository.
    pub owner: Option<String>,
    /// Repository.
    pub repo: Option<String>,
    /// Issue number.
    pub issue_number: Option<u64>,
    /// The phase that it entered last; empty before the first.
    pub current_phase: String,
    /// Status.
    #[schemars(extend("enum" = words(RunStatus::ALL, RunStatus::as_str)))]
    pub status: &'static str,
    /// The session whose log tells of it.
    pub session_id: Option<String>,
    /// The owner of the claim.
    pub lease_owner: Option<String>,
    /// When the lease ends.
    pub lease_expires_at: Option<String>,
    /// True if it is running and its lease has expired; its status stays running until it is taken over.
    pub is_stale: bool,
    /// Number of takeovers from dead owners.
    pub restart_count: u32,
    /// How often a person had it retried.
    pub retry_count: u32,
    /// Actor that triggered it.
    pub triggered_by: Option<String>,
    /// Start time.
    pub started_at: String,
    /// When it last changed.
    pub updated_at: String,
    /// End time.
    pub finished_at: Option<String>,
    /// Cost of its executions; null if none of them reported one.
    pub cost_usd: Option<Usd>,
    /// Tokens of its executions; null if none of them reported any.
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

/// A run with everything that can grow.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Run {
    /// What lists show.
    #[serde(flatten)]
    pub summary: RunSummary,
    /// Why it failed.
    pub error_message: Option<String>,
    /// The number of its last claim.
    pub fence: u64,
    /// How often it may be taken over.
    pub restart_cap: u32,
    /// Who changed its status last.
    pub actor: Option<String>,
    /// When it was queued.
    pub queued_at: Option<String>,
    /// True if it is queued because no slot was free when it was resumed.
    pub is_resumed: bool,
    /// The gate that it waits at.
    pub pending_approval_id: Option<String>,
    /// Answered gates that its owner has not acknowledged.
    pub unconsumed_approval_ids: Vec<String>,
    /// What it was started with.
    pub context: Option<Json>,
    /// What its phases leave to each other.
    pub scratch: Members,
    /// The phases that it went through, as they were recorded.
    pub phase_history: Vec<Json>,
    /// The statuses of its nodes, where its phases are a graph.
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

/// A change of status.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunTransition {
    /// The run after the change.
    pub run: RunSummary,
    /// Its status before.
    #[schemars(extend("enum" = words(RunStatus::ALL, RunStatus::as_str)))]
    pub previous_status: &'static str,
    /// False if it had this status already.
    pub changed: bool,
}

impl From<&runs::StatusChange> for RunTransition {
    fn from(turned: &runs::StatusChange) -> Self {
        Self { run: (&turned.run).into(), previous_status: turned.previous.as_str(), changed: turned.changed }
    }
}

/// A run that was started.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunStarted {
    /// The run.
    pub run: RunSummary,
    /// True if a run with the same id, or an active run of the same workflow and trigger, was there.
    pub existed: bool,
    /// The number of its claim, if it was claimed.
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
    /// The number of the claim; every write of its owner carries it.
    pub fence: u64,
    /// When the lease ends.
    pub lease_expires_at: String,
    /// True if it was taken over from an owner that died.
    pub taken_over: bool,
    /// Executions of that owner that were in flight, and are closed now.
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

/// A lease that was renewed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Lease {
    /// The run.
    pub workflow_run_id: String,
    /// The number of the claim.
    pub fence: Option<u64>,
    /// When the lease ends.
    pub lease_expires_at: String,
}

/// Queued runs that were given a slot.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Admitted {
    /// The runs that start.
    pub admitted: Vec<AdmittedRun>,
    /// Runs that were queued for too long, and are cancelled.
    pub cancelled_runs: Vec<RunSummary>,
}

/// A queued run that was given a slot.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AdmittedRun {
    /// The run.
    pub run: RunSummary,
    /// The number of its claim, if it was claimed.
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

/// Runs that waited for too long.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Expired {
    /// Runs that were queued for too long, and are cancelled.
    pub cancelled_runs: Vec<RunSummary>,
    /// Runs whose gate was not answered in time, and that failed.
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

/// Runs that were recovered from owners that died.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Recovered {
    /// The claims on the runs to resume.
    pub claims: Vec<Claim>,
    /// Runs that were taken over too often, and failed.
    pub failed_runs: Vec<RunSummary>,
    /// Runs that could not be recovered, and why.
    pub errors: Vec<RunError>,
    /// False if an error kept other runs from being tried.
    pub complete: bool,
}

/// A run that could not be recovered.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunError {
    /// The run.
    pub workflow_run_id: String,
    /// Why.
    pub error: Error,
}

/// A page of runs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunList {
    /// The runs.
    pub runs: Vec<RunSummary>,
    /// The token of the next page.
    pub next: Option<String>,
    /// The number of runs on all pages; null unless it was asked for.
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
    /// Its gates.
    pub approvals: Vec<Approval>,
    /// What would happen next.
    pub next_steps: Vec<NextStep>,
}

/// Something that would happen next to a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NextStep {
    /// What, for people.
    pub text: String,
    /// The command that does it.
    pub command: Option<String>,
}

/// What the phases of a run leave to each other.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Scratch {
    /// The run.
    pub workflow_run_id: String,
    /// The keys and their values.
    pub scratch: Members,
}

/// What came of waiting for a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunWait {
    /// The run.
    pub run: RunSummary,
    /// False if the time was over, or the run ended in another status.
    pub met: bool,
}

/// A command that was run as the owner of a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunExecuted {
    /// The run after the command.
    pub run: RunSummary,
    /// The phase that the command is.
    pub phase: String,
    /// The execution of the phase; null if none was started.
    pub execution_id: Option<String>,
    /// Exit code of the command, 128 and the signal if a signal ended it; null if it was not run.
    pub exit_code: Option<i32>,
    /// What came of it; the result of the command is recorded if it succeeded or failed.
    #[schemars(extend("enum" = ["succeeded", "failed", "done", "waiting", "lost"]))]
    pub result: &'static str,
}

/// The status changes and claims of a run, oldest first.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunHistory {
    /// The changes.
    pub history: Vec<RunChange>,
    /// Lines of the log that contradict the state of the run, and are not shown.
    pub rejected_lines: u64,
    /// False if the log has more, or lines that cannot be read, are lost or were rejected.
    pub complete: bool,
    /// Bytes that were recorded of the log and are lost.
    pub lost_bytes: u64,
}

/// A status change or a claim, as the log tells it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunChange {
    /// When.
    pub occurred_at: Option<String>,
    /// What happened.
    pub event: Option<String>,
    /// Its status before.
    #[schemars(extend("enum" = words_or_null(RunStatus::ALL, RunStatus::as_str)))]
    pub previous_status: Option<String>,
    /// Its status after.
    #[schemars(extend("enum" = words_or_null(RunStatus::ALL, RunStatus::as_str)))]
    pub status: Option<String>,
    /// The phase that it was in.
    pub phase: Option<String>,
    /// Who changed it.
    pub actor: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// The owner of the claim.
    pub lease_owner: Option<String>,
    /// The number of the claim.
    pub fence: Option<u64>,
}

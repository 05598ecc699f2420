//! Executions: the ledger of a run.

use duolog::runs;
use duolog::{ExecutionId, RunId, SessionId, TriggerType};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Usd;
use crate::page::Listed;
use crate::schema::words;

/// An execution of a phase, or of work outside of runs such as a chat turn. Values that were not reported are null.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Execution {
    /// Execution id.
    pub id: String,
    /// The run of the execution.
    pub workflow_run_id: Option<String>,
    /// `workflow:phase`, or `chat`.
    pub skill: String,
    /// Outcome.
    #[schemars(extend("enum" = ["succeeded", "failed", "skipped", "deferred", "in_flight"]))]
    pub outcome: &'static str,
    /// Trigger type.
    #[schemars(extend("enum" = words(TriggerType::ALL, TriggerType::as_str)))]
    pub trigger_type: &'static str,
    /// Trigger id.
    pub trigger_id: String,
    /// Owner of the repository.
    pub owner: Option<String>,
    /// Repository.
    pub repo: Option<String>,
    /// Issue number.
    pub issue_number: Option<u64>,
    /// The agent's session.
    pub session_id: Option<String>,
    /// Actor that triggered it.
    pub triggered_by: Option<String>,
    /// Start time.
    pub started_at: String,
    /// End time.
    pub finished_at: Option<String>,
    /// True if the execution succeeded.
    pub success: Option<bool>,
    /// Error message.
    pub error_message: Option<String>,
    /// Number of model responses.
    pub turns: Option<u64>,
    /// Duration.
    pub duration_ms: Option<u64>,
    /// Cost.
    pub cost_usd: Option<Usd>,
    /// Input tokens, without cache reads and writes.
    pub input_tokens: Option<u64>,
    /// Input tokens written to a cache.
    pub cache_creation_input_tokens: Option<u64>,
    /// Input tokens read from a cache.
    pub cache_read_input_tokens: Option<u64>,
    /// Output tokens.
    pub output_tokens: Option<u64>,
    /// Duration of the model calls.
    pub api_duration_ms: Option<u64>,
    /// Stop reason.
    pub stop_reason: Option<String>,
}

impl Listed for Execution {
    const PLURAL: &'static str = "executions";
}

impl From<&runs::Execution> for Execution {
    fn from(execution: &runs::Execution) -> Self {
        let end = execution.end.as_ref().map(|end| &end.finish);
        Self {
            id: execution.id.to_string(),
            workflow_run_id: execution.run_id.as_ref().map(RunId::to_string),
            skill: execution.skill.clone(),
            outcome: execution.outcome().as_str(),
            trigger_type: execution.trigger_type.as_str(),
            trigger_id: execution.trigger_id.clone(),
            owner: execution.owner.clone(),
            repo: execution.repo.clone(),
            issue_number: execution.issue_number,
            session_id: execution.session_id.as_ref().map(SessionId::to_string),
            triggered_by: execution.triggered_by.clone(),
            started_at: execution.started_at.to_string(),
            finished_at: execution.end.as_ref().map(|end| end.at.to_string()),
            success: end.map(|end| end.success),
            error_message: execution.error().map(str::to_owned),
            turns: end.and_then(|end| end.turns),
            duration_ms: end.and_then(|end| end.duration_ms),
            cost_usd: end.and_then(|end| end.cost).map(Usd),
            input_tokens: end.and_then(|end| end.input_tokens),
            cache_creation_input_tokens: end.and_then(|end| end.cache_creation_input_tokens),
            cache_read_input_tokens: end.and_then(|end| end.cache_read_input_tokens),
            output_tokens: end.and_then(|end| end.output_tokens),
            api_duration_ms: end.and_then(|end| end.api_duration_ms),
            stop_reason: end.and_then(|end| end.stop_reason.clone()),
        }
    }
}

/// `{"execution": {…}}`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ExecutionAnswer {
    /// The execution.
    pub execution: Execution,
}

impl From<&runs::Execution> for ExecutionAnswer {
    fn from(execution: &runs::Execution) -> Self {
        Self { execution: execution.into() }
    }
}

/// The last text of an execution.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ExecutionOutput {
    /// The execution.
    pub execution_id: String,
    /// The text or its end; null if none was stored.
    pub text: Option<String>,
    /// The size of the full text.
    pub bytes: Option<u64>,
    /// The blob with the full text, if the row has only its end.
    pub blob_id: Option<String>,
}

/// The status of a phase.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PhaseStatus {
    /// The run.
    pub workflow_run_id: String,
    /// The phase.
    pub phase: String,
    /// `run`: it is to be run; `started`: this call started it; `running`: an execution of it is in flight; `done`: one
    /// succeeded.
    #[schemars(extend("enum" = ["run", "started", "running", "done"]))]
    pub status: &'static str,
    /// The execution; null if there is none.
    pub execution_id: Option<String>,
}

impl PhaseStatus {
    /// The status of a phase, without starting it.
    pub fn of(run: &RunId, phase: &str, standing: &runs::PhaseState) -> Self {
        match standing {
            runs::PhaseState::Run => Self::new(run, phase, "run", None),
            runs::PhaseState::Running(execution) => Self::new(run, phase, "running", Some(execution)),
            runs::PhaseState::Done(execution) => Self::new(run, phase, "done", Some(execution)),
        }
    }

    /// The status of a phase after an attempt to start it.
    pub fn begun(run: &RunId, phase: &str, begun: &runs::Begun) -> Self {
        match begun {
            runs::Begun::Started(execution) => Self::new(run, phase, "started", Some(&execution.id)),
            runs::Begun::Running(execution) => Self::new(run, phase, "running", Some(execution)),
            runs::Begun::Done(execution) => Self::new(run, phase, "done", Some(execution)),
        }
    }

    fn new(run: &RunId, phase: &str, status: &'static str, execution: Option<&ExecutionId>) -> Self {
        Self {
            workflow_run_id: run.to_string(),
            phase: phase.to_owned(),
            status,
            execution_id: execution.map(ExecutionId::to_string),
        }
    }
}

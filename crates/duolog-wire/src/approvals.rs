//! Gates, and what was answered there.

use duolog::{ApprovalKind, ApprovalStatus, ExecutionId, approvals};
use schemars::JsonSchema;
use serde::Serialize;

use crate::RunSummary;
use crate::page::Listed;
use crate::schema::words;

/// A gate, and its answer.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Approval {
    /// Approval id.
    pub id: String,
    /// The run that waits.
    pub workflow_run_id: String,
    /// The name of the gate in the workflow.
    pub gate: String,
    /// What resolves it.
    #[schemars(extend("enum" = words(ApprovalKind::ALL, ApprovalKind::as_str)))]
    pub kind: &'static str,
    /// Status.
    #[schemars(extend("enum" = words(ApprovalStatus::ALL, ApprovalStatus::as_str)))]
    pub status: &'static str,
    /// What is asked.
    pub summary: String,
    /// Who asks.
    pub requested_by: Option<String>,
    /// Who answered.
    pub responded_by: Option<String>,
    /// The answer.
    pub response: Option<String>,
    /// A hash of what is asked about; an answer must carry it.
    pub content_hash: Option<String>,
    /// The key of the scratch that keeps the loop which asks.
    pub loop_key: Option<String>,
    /// The iteration of the loop.
    pub iteration: Option<u64>,
    /// The execution whose output is the question.
    pub output_execution_id: Option<String>,
    /// When it was asked.
    pub created_at: String,
    /// Until when it can be answered.
    pub expires_at: Option<String>,
    /// When it was answered, or expired.
    pub responded_at: Option<String>,
    /// When the resumed run acknowledged the answer.
    pub consumed_at: Option<String>,
}

impl Listed for Approval {
    const PLURAL: &'static str = "approvals";
}

impl From<&approvals::Approval> for Approval {
    fn from(approval: &approvals::Approval) -> Self {
        Self {
            id: approval.id.to_string(),
            workflow_run_id: approval.workflow_run_id.to_string(),
            gate: approval.gate.clone(),
            kind: approval.kind.as_str(),
            status: approval.status.as_str(),
            summary: approval.summary.clone(),
            requested_by: approval.requested_by.clone(),
            responded_by: approval.responded_by.clone(),
            response: approval.response.clone(),
            content_hash: approval.content_hash.clone(),
            loop_key: approval.loop_key.clone(),
            iteration: approval.iteration,
            output_execution_id: approval.output_execution_id.as_ref().map(ExecutionId::to_string),
            created_at: approval.created_at.to_string(),
            expires_at: approval.expires_at.map(|at| at.to_string()),
            responded_at: approval.responded_at.map(|at| at.to_string()),
            consumed_at: approval.consumed_at.map(|at| at.to_string()),
        }
    }
}

/// A gate that was answered, and its run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ApprovalAnswered {
    /// The gate.
    pub approval: Approval,
    /// The run.
    pub run: RunSummary,
}

impl From<&approvals::Answered> for ApprovalAnswered {
    fn from(answered: &approvals::Answered) -> Self {
        Self { approval: (&answered.approval).into(), run: (&answered.run).into() }
    }
}

/// A gate, and the text that asks.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ApprovalDetail {
    /// The gate.
    pub approval: Approval,
    /// The output of the execution that asks, if the gate names one.
    pub question: Option<String>,
}

/// An answer that the run's owner acknowledged.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ApprovalAcknowledged {
    /// The gate.
    pub approval: Approval,
    /// False if it was acknowledged before.
    pub changed: bool,
}

/// A gate that a run paused at.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GateOpened {
    /// The gate.
    pub approval: Approval,
    /// True if a gate with the same id and content was there, and nothing changed.
    pub existed: bool,
}

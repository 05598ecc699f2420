//! Gates and their answers.

use duolog::{ApprovalKind, ApprovalStatus, ExecutionId, approvals};
use schemars::JsonSchema;
use serde::Serialize;

use crate::RunSummary;
use crate::page::Listed;
use crate::schema::words;

/// A gate and its answer.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Approval {
    /// Approval id.
    pub id: String,
    /// The run at the gate.
    pub workflow_run_id: String,
    /// The name of the gate in the workflow.
    pub gate: String,
    /// Kind of answer.
    #[schemars(extend("enum" = words(ApprovalKind::ALL, ApprovalKind::as_str)))]
    pub kind: &'static str,
    /// Status.
    #[schemars(extend("enum" = words(ApprovalStatus::ALL, ApprovalStatus::as_str)))]
    pub status: &'static str,
    /// The question.
    pub summary: String,
    /// Requester.
    pub requested_by: Option<String>,
    /// Author of the answer.
    pub responded_by: Option<String>,
    /// The answer.
    pub response: Option<String>,
    /// The hash of the gate's content; an answer must contain it.
    pub content_hash: Option<String>,
    /// Scratch key of the loop that opened the gate.
    pub loop_key: Option<String>,
    /// Iteration of the loop.
    pub iteration: Option<u64>,
    /// The execution whose output is the question of the gate.
    pub output_execution_id: Option<String>,
    /// Creation time of the gate.
    pub created_at: String,
    /// Expiry of the gate.
    pub expires_at: Option<String>,
    /// Time of the answer or expiry.
    pub responded_at: Option<String>,
    /// Time of the acknowledgement by the resumed run.
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

/// An answered gate and its run.
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

/// A gate and its text.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ApprovalDetail {
    /// The gate.
    pub approval: Approval,
    /// The output of the execution, if the gate has one.
    pub question: Option<String>,
}

/// An acknowledged answer.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ApprovalAcknowledged {
    /// The gate.
    pub approval: Approval,
    /// False if it was already acknowledged.
    pub changed: bool,
}

/// A gate that a run paused at.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GateOpened {
    /// The gate.
    pub approval: Approval,
    /// True if a gate with the same id and content existed; nothing changed.
    pub existed: bool,
}

//! What callers give and get.

use duolog_state::ListId;
use duolog_state::owned::workflow_approvals::ApprovalRow;
use duolog_types::{ApprovalId, ApprovalKind, ApprovalStatus, ExecutionId, Moment, RunId};
use serde::{Deserialize, Serialize};

use crate::runs::{RunSummary, RunToken};

/// A gate, and what was answered there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// Its id.
    pub id: ApprovalId,
    /// The run that waits at it, or did.
    pub workflow_run_id: RunId,
    /// What the workflow calls it.
    pub gate: String,
    /// What is asked, for people.
    pub summary: String,
    /// How it stands.
    pub status: ApprovalStatus,
    /// What resolves it.
    pub kind: ApprovalKind,
    /// Who asks.
    pub requested_by: Option<String>,
    /// Who answered.
    pub responded_by: Option<String>,
    /// What was answered.
    pub response: Option<String>,
    /// When it was answered, or expired.
    pub responded_at: Option<Moment>,
    /// When it was asked.
    pub created_at: Moment,
    /// The hash of what is asked about.
    pub content_hash: Option<String>,
    /// Until when it may be answered.
    pub expires_at: Option<Moment>,
    /// When the resumed run took note of the answer.
    pub consumed_at: Option<Moment>,
    /// The key of the run's scratch that keeps the loop that asks.
    pub loop_key: Option<String>,
    /// Which turn of the loop.
    pub iteration: Option<u64>,
    /// The execution whose last text is the question.
    pub output_execution_id: Option<ExecutionId>,
}

impl From<ApprovalRow> for Approval {
    fn from(row: ApprovalRow) -> Self {
        Self {
            id: row.id,
            workflow_run_id: row.workflow_run_id,
            gate: row.gate,
            summary: row.summary,
            status: row.status,
            kind: row.kind,
            requested_by: row.requested_by,
            responded_by: row.responded_by,
            response: row.response,
            responded_at: row.responded_at,
            created_at: row.created_at,
            content_hash: row.content_hash,
            expires_at: row.expires_at,
            consumed_at: row.consumed_at,
            loop_key: row.loop_key,
            iteration: row.iteration,
            output_execution_id: row.output_execution_id,
        }
    }
}

/// What somebody answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Who.
    pub by: Option<String>,
    /// What: a reason, or the reply itself.
    pub response: Option<String>,
    /// The hash of what was looked at. A gate that has one refuses an answer without it, or with another.
    pub content_hash: Option<String>,
    /// The run that is meant; a gate of another is refused.
    pub run: Option<RunId>,
}

/// A gate that was answered, and what became of its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answered {
    /// The gate.
    pub approval: Approval,
    /// The run.
    pub run: RunSummary,
}

/// Which gates to list. Nothing said is all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApprovalFilter {
    /// Only those that stand so.
    pub status: Option<ApprovalStatus>,
    /// Only those of this run.
    pub run: Option<RunId>,
}

impl ApprovalFilter {
    /// The list of these gates, as its page tokens name it.
    pub(super) fn list(&self) -> ListId {
        ListId::of("approvals", &[self.status.map(ApprovalStatus::as_str), self.run.as_ref().map(RunId::as_str)])
    }
}

/// A page of gates.
#[derive(Clone, Debug, PartialEq)]
pub struct ApprovalList {
    /// The gates.
    pub approvals: Vec<Approval>,
    /// Where the next page begins; nothing where this is the last.
    pub next: Option<RunToken>,
}

//! What callers give and get.

use duolog_state::owned::workflow_approvals::Approval;
use duolog_state::{ListId, PageToken};
use duolog_types::{ApprovalStatus, RunId};
use serde::{Deserialize, Serialize};

use crate::runs::RunSummary;

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
    pub next: Option<PageToken>,
}

//! The types that callers pass and get.

use duolog_state::owned::workflow_approvals::Approval;
use duolog_state::{ListId, PageToken};
use duolog_types::{ApprovalStatus, RunId};
use serde::{Deserialize, Serialize};

use crate::runs::RunSummary;

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The user who answers.
    pub by: Option<String>,
    /// The text: a reason, or the reply.
    pub response: Option<String>,
    /// The hash of the content that was shown. A gate with a content hash refuses an answer without the same hash.
    pub content_hash: Option<String>,
    /// The expected run of the gate. A gate of another run is refused.
    pub run: Option<RunId>,
}

/// An answered gate and its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answered {
    /// The gate.
    pub approval: Approval,
    /// The run.
    pub run: RunSummary,
}

/// The filter of a list of gates. The default is all gates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApprovalFilter {
    /// Only gates with this status.
    pub status: Option<ApprovalStatus>,
    /// Only gates of this run.
    pub run: Option<RunId>,
}

impl ApprovalFilter {
    /// Returns the list id, for page tokens.
    pub(super) fn list(&self) -> ListId {
        ListId::of("approvals", &[self.status.map(ApprovalStatus::as_str), self.run.as_ref().map(RunId::as_str)])
    }
}

/// A page of gates.
#[derive(Clone, Debug, PartialEq)]
pub struct ApprovalList {
    /// The gates.
    pub approvals: Vec<Approval>,
    /// The token of the next page; `None` if this is the last page.
    pub next: Option<PageToken>,
}

//! Hints for errors, in terms of this library's methods. A surface has its own hints.

use duolog_search::BadQuery;
use duolog_types::ApprovalKind;

use super::{Busy, Conflict, Damaged, Error, Invalid, Io, NotFound, Stale};

impl Error {
    /// Returns a hint: a method to call, or an action. `None` if there is none.
    pub fn hint(&self) -> Option<String> {
        if let Some(fault) = self.fault() {
            return fault.remedy().map(|remedy| remedy.to_string());
        }
        match self {
            Self::NotFound(error) => not_found(error),
            Self::Conflict(error) => conflict(error),
            Self::Stale(error) => stale(error),
            Self::Invalid(error) => invalid(error),
            Self::Busy(Busy::Claimed { .. }) => Some("wait until the run is released, or its lease ends".to_owned()),
            Self::Closed => Some("open the store again".to_owned()),
            Self::Io(Io::ClockBefore1970) => Some("set the clock of this machine".to_owned()),
            Self::Damaged(Damaged::Item { .. } | Damaged::Store(_))
            | Self::Io(Io::Output(_) | Io::Thread(_) | Io::Store(_))
            | Self::Busy(Busy::Store(_))
            | Self::Unknown(_)
            | Self::Full(_)
            | Self::ReadOnly(_)
            | Self::Unsupported(_) => None,
        }
    }
}

fn not_found(error: &NotFound) -> Option<String> {
    match error {
        NotFound::Session(_) => Some("Sessions::list returns the sessions".to_owned()),
        NotFound::Schedule { near: Some(near), .. } => Some(format!("did you mean {near}?")),
        NotFound::Schedule { .. } => Some("Schedules::list returns the schedules".to_owned()),
        NotFound::Chat(_) => Some("Chats::list returns the chats".to_owned()),
        NotFound::Run(_) => Some("Runs::list returns the runs".to_owned()),
        NotFound::Approval(_) => Some("Approvals::list returns the gates".to_owned()),
        NotFound::Branch { .. } => Some("Branches::list returns the branches".to_owned()),
        NotFound::Recipient(_) => Some(
            "Sessions::list returns the sessions; Recipient::Topic names a topic, which is not a session".to_owned(),
        ),
        NotFound::Summary => Some("Compaction::info returns the summaries".to_owned()),
        NotFound::Message(_) | NotFound::Execution(_) | NotFound::Store(_) => None,
    }
}

fn conflict(error: &Conflict) -> Option<String> {
    match error {
        Conflict::RunStands { .. } | Conflict::RunCannot { .. } => {
            Some("Runs::get returns the run and its status".to_owned())
        }
        Conflict::RunTaken { .. } => Some("Runs::get returns it; use another id for the new run".to_owned()),
        Conflict::GateTaken { .. } => Some("Approvals::get returns it; use another id for the new gate".to_owned()),
        Conflict::GivenUp { .. } => Some("find out why its owners died, then call RunHandle::retry".to_owned()),
        Conflict::WorkflowDisabled { .. } => Some("Workflows::enable allows its runs".to_owned()),
        Conflict::TriggerActive { other, .. } => Some(format!("wait for run {other}, or cancel it")),
        Conflict::GatePending { .. } => Some("Approvals::get returns the gate".to_owned()),
        Conflict::NameTaken(_) => Some("choose another name, or append to the existing session".to_owned()),
        Conflict::PartialBackup(path) => Some(format!("if no backup is running: rm -r {}", path.display())),
        Conflict::NotEmpty(_) => Some("use a directory that does not exist yet".to_owned()),
        Conflict::BranchNameTaken { branch, .. } => Some(format!("choose another name, or use branch {branch}")),
        Conflict::RangeCrosses { .. } => Some("contain the summary, exclude it, or undo it first".to_owned()),
        Conflict::Ended { .. } => Some("Status::reopen reopens the session".to_owned()),
        Conflict::SessionTaken(id) => Some(format!("import it into another home, or delete {id} first")),
        Conflict::MessageTaken(_) => Some("use another id; import a document into another home".to_owned()),
        Conflict::ExecutionClosed { .. }
        | Conflict::ExecutionTaken { .. }
        | Conflict::GateResolved { .. }
        | Conflict::GateNotAnswered { .. }
        | Conflict::NotEnded(_)
        | Conflict::Store(_) => None,
    }
}

fn stale(error: &Stale) -> Option<String> {
    match error {
        Stale::ClaimEnded { .. } => Some("stop; claim the run again once it is running".to_owned()),
        Stale::Overtaken { .. } => Some("stop: the new owner continues the run".to_owned()),
        Stale::GateChanged { .. } => Some("Approvals::get returns the gate as it is now".to_owned()),
        Stale::OtherSuffix { .. } => Some("read the items again, then decide again".to_owned()),
        Stale::GateExpired { .. } | Stale::Store(_) => None,
    }
}

fn invalid(error: &Invalid) -> Option<String> {
    match error {
        Invalid::OtherPage(_) => {
            Some("use the token with the filters and the order that it was returned for".to_owned())
        }
        Invalid::Ambiguous { .. } => Some("use a longer prefix of the id".to_owned()),
        Invalid::GateHashMissing { .. } => Some("Approvals::get returns the hash; set Answer::content_hash".to_owned()),
        Invalid::ExecutionOfRun { .. } => Some("change it through its run: RunHandle::end".to_owned()),
        Invalid::GateKind { kind: ApprovalKind::Reply, .. } => Some("answer with Approvals::reply".to_owned()),
        Invalid::GateKind { .. } => Some("answer with Approvals::approve or reject".to_owned()),
        Invalid::Shortened { id, .. } => Some(format!("give the full id: {id}")),
        Invalid::Line(_) => Some("write one JSON object per line, for example with: jq -c .".to_owned()),
        Invalid::Query(BadQuery::Empty | BadQuery::OnlyExcludes) => Some("give a word to search for".to_owned()),
        Invalid::Query(_) => Some("use fewer or shorter search terms".to_owned()),
        Invalid::OtherSession { .. } => Some("Branches::list returns the branches".to_owned()),
        Invalid::AmbiguousBranch { .. } => Some("use its id".to_owned()),
        Invalid::Item { .. } => Some("an item is one JSON value; NaN and Infinity are not JSON".to_owned()),
        Invalid::PastEnd { len, .. } => Some(format!("use a number from 0 to {len}")),
        Invalid::EmptyRange { .. } => Some("use a range whose end is after its start".to_owned()),
        Invalid::Document { .. } => {
            Some("nothing was changed; write the document again with Sessions::export".to_owned())
        }
        Invalid::Name(_) | Invalid::Value { .. } | Invalid::GateOfOtherRun { .. } | Invalid::Store(_) => None,
    }
}

//! Details of [`ErrorKind::Invalid`](crate::ErrorKind::Invalid).

use duolog_search::BadQuery;
use duolog_state::{ListId, PageToken};
use duolog_types::json::JsonFault;
use duolog_types::names::BadName;
use duolog_types::{ApprovalId, ApprovalKind, BranchId, ExecutionId, RunId, SessionId};

use super::Error;
use super::fault::Fault;

/// A request that is not valid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Invalid {
    /// Several ids start with a prefix.
    #[error("{prefix:?} is a prefix of more than one {noun}: {}", listed(.found))]
    Ambiguous {
        /// The kind of id.
        noun: &'static str,
        /// The prefix.
        prefix: String,
        /// The first matches.
        found: Vec<String>,
    },
    /// Several branches have this name. They were imported from another program.
    #[error("more than one branch is named {name:?}: {}", listed(.found))]
    AmbiguousBranch {
        /// The name.
        name: String,
        /// The ids of the first branches with this name.
        found: Vec<String>,
    },
    /// An answer that the gate does not accept.
    #[error("gate {gate} takes {}", if *kind == ApprovalKind::Reply { "a reply" } else { "an approval or a rejection" })]
    GateKind {
        /// The gate.
        gate: ApprovalId,
        /// The kind of answer that the gate accepts.
        kind: ApprovalKind,
    },
    /// A gate of another run.
    #[error("gate {gate} belongs to run {run}")]
    GateOfOtherRun {
        /// The gate.
        gate: ApprovalId,
        /// The run of the gate.
        run: RunId,
    },
    /// An answer without the hash of the gate's content.
    #[error("cannot answer gate {gate}: it has a content hash, and the answer carries none")]
    GateHashMissing {
        /// The gate.
        gate: ApprovalId,
    },
    /// An execution that belongs to a run, given where only standalone executions are allowed.
    #[error("cannot change execution {execution} by itself: it belongs to run {run}")]
    ExecutionOfRun {
        /// The execution.
        execution: ExecutionId,
        /// Its run.
        run: RunId,
    },
    /// A prefix of an id, given for a deletion.
    #[error("{prefix:?} is a prefix of an id; use a full id or an exact name")]
    Shortened {
        /// The prefix.
        prefix: String,
        /// The session that it matches.
        id: SessionId,
    },
    /// A page token of another list, or of the same list with another filter or order.
    #[error("page token {0}: this token belongs to another list or other filters")]
    OtherPage(String),
    /// A branch of another session.
    #[error("branch {branch} belongs to session {session}: forks and items stay within a session")]
    OtherSession {
        /// The branch.
        branch: BranchId,
        /// The session of the branch.
        session: SessionId,
    },
    /// A place after the end of the history.
    #[error("{at} is past the end of the history, which has {len} items")]
    PastEnd {
        /// The place.
        at: u64,
        /// The number of items.
        len: u64,
    },
    /// An empty range.
    #[error("range {from}..{to} is empty")]
    EmptyRange {
        /// Its first place.
        from: u64,
        /// The place after its last.
        to: u64,
    },
    /// An invalid name.
    #[error(transparent)]
    Name(BadName),
    /// A line that cannot be appended.
    #[error(transparent)]
    Line(duolog_types::BadLine),
    /// An invalid search query.
    #[error(transparent)]
    Query(BadQuery),
    /// An invalid item.
    #[error("{}{}", if *number > 0 { format!("item {number}: ") } else { String::new() }, fault_of(*fault))]
    Item {
        /// The number of the item, from 1; 0 if only one was given.
        number: usize,
        /// The fault.
        fault: JsonFault,
    },
    /// An invalid value.
    #[error("{what} {why}")]
    Value {
        /// The name of the value.
        what: &'static str,
        /// The reason.
        why: String,
    },
    /// A document that cannot be imported.
    #[error("cannot import the document: {at}: {why}")]
    Document {
        /// The place in the document.
        at: String,
        /// The reason.
        why: String,
    },
    /// An error of the stores.
    #[error(transparent)]
    Store(Fault),
}

fn fault_of(fault: JsonFault) -> String {
    match fault {
        JsonFault::NotAnObject => "it is JSON, but not an object".to_owned(),
        JsonFault::Syntax(at) => format!("it is not JSON, from byte {at} on"),
        JsonFault::TooDeep(at) => format!("it nests too deep, at byte {at}"),
    }
}

impl Invalid {
    /// Returns an error if a page token belongs to another list.
    pub(crate) fn check_page(token: Option<&PageToken>, list: ListId) -> Result<(), Error> {
        let other = token.filter(|token| token.list() != list);
        other.map_or(Ok(()), |token| Err(Error::Invalid(Self::OtherPage(token.to_string()))))
    }
}

fn listed(ids: &[String]) -> String {
    let shown: Vec<&str> = ids.iter().take(3).map(String::as_str).collect();
    shown.join(", ") + if ids.len() > 3 { ", …" } else { "" }
}

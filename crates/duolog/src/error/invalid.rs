//! What cannot be right about a request.

use duolog_search::BadQuery;
use duolog_state::{ListId, PageToken};
use duolog_types::json::JsonFault;
use duolog_types::names::BadName;
use duolog_types::{ApprovalId, ApprovalKind, BranchId, ExecutionId, RunId, SessionId};

use super::Error;
use super::fault::Fault;

/// A request that cannot be right.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Invalid {
    /// More than one id begins with a prefix.
    #[error("{prefix:?} is a prefix of more than one {noun}: {}", some(.found))]
    Ambiguous {
        /// What kind of id it is.
        noun: &'static str,
        /// What was asked for.
        prefix: String,
        /// The first that fit.
        found: Vec<String>,
    },
    /// Several branches have this name; a document of another program brought them.
    #[error("more than one branch is named {name:?}: {}", some(.found))]
    AmbiguousBranch {
        /// The name.
        name: String,
        /// The ids of the first that have it.
        found: Vec<String>,
    },
    /// An answer of the wrong kind.
    #[error("gate {gate} takes {}", if *kind == ApprovalKind::Reply { "a reply in words" } else { "a yes or a no" })]
    GateKind {
        /// The gate.
        gate: ApprovalId,
        /// What resolves it.
        kind: ApprovalKind,
    },
    /// A gate of another run.
    #[error("gate {gate} is one of run {run}")]
    GateOfOtherRun {
        /// The gate.
        gate: ApprovalId,
        /// The run that it is one of.
        run: RunId,
    },
    /// An answer without the hash of what it is about.
    #[error("cannot answer gate {gate}: it has a content hash, and the answer carries none")]
    GateHashMissing {
        /// The gate.
        gate: ApprovalId,
    },
    /// An execution of a run that was named as one outside of any.
    #[error("cannot change execution {execution} by itself: it belongs to run {run}")]
    ExecutionOfRun {
        /// The execution.
        execution: ExecutionId,
        /// Its run.
        run: RunId,
    },
    /// A prefix of an id was given to delete something.
    #[error("{prefix:?} is only a prefix of an id, and this command takes full ids and exact names")]
    Shortened {
        /// What was given.
        prefix: String,
        /// The session that it fits.
        id: SessionId,
    },
    /// A page token of another list, or of the same with other filters or in another order.
    #[error("page token {0}: this token belongs to another list or other filters")]
    OtherPage(String),
    /// A branch of another session.
    #[error("branch {branch} is one of session {session}: forks and items stay within a session")]
    OtherSession {
        /// The branch.
        branch: BranchId,
        /// The session that it is one of.
        session: SessionId,
    },
    /// A place that the history does not have.
    #[error("the history has {len} items, and {at} is past its end")]
    PastEnd {
        /// What was asked for.
        at: u64,
        /// How many items there are.
        len: u64,
    },
    /// A range with nothing in it.
    #[error("nothing lies from {from} to before {to}")]
    EmptyRange {
        /// Its first place.
        from: u64,
        /// The place after its last.
        to: u64,
    },
    /// The name cannot be used.
    #[error(transparent)]
    Name(BadName),
    /// A line cannot be appended.
    #[error(transparent)]
    Line(duolog_types::BadLine),
    /// What to look for cannot be meant.
    #[error(transparent)]
    Query(BadQuery),
    /// What was given is not an item.
    #[error("{}{}", if *number > 0 { format!("item {number}: ") } else { String::new() }, fault_of(*fault))]
    Item {
        /// Which of several, from 1; 0 where there was one.
        number: usize,
        /// What is wrong with it.
        fault: JsonFault,
    },
    /// What was given does not fit its place.
    #[error("{what} {why}")]
    Value {
        /// What.
        what: &'static str,
        /// Why not.
        why: String,
    },
    /// A document that cannot be taken.
    #[error("the document is refused at {at}: {why}")]
    Document {
        /// Where in it.
        at: String,
        /// Why.
        why: String,
    },
    /// The stores answered so.
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
    /// Returns an error if a page token is of another list.
    pub(crate) fn check_page(token: Option<&PageToken>, list: ListId) -> Result<(), Error> {
        let other = token.filter(|token| token.list() != list);
        other.map_or(Ok(()), |token| Err(Error::Invalid(Self::OtherPage(token.to_string()))))
    }
}

fn some(ids: &[String]) -> String {
    let shown: Vec<&str> = ids.iter().take(3).map(String::as_str).collect();
    shown.join(", ") + if ids.len() > 3 { ", …" } else { "" }
}

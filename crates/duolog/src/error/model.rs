//! Details of the error kinds with few cases.

use duolog_types::{ApprovalId, ExecutionId, MessageId, RunId, RunStatus, SessionId, Timestamp};

use super::fault::Fault;

/// A thing that does not exist.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotFound {
    /// No session has this id or name.
    #[error("there is no session {0:?}")]
    Session(String),
    /// The session has no such branch.
    #[error("session {session} has no branch {branch:?}")]
    Branch {
        /// The id or name.
        branch: String,
        /// The session.
        session: SessionId,
    },
    /// No message has this id.
    #[error("there is no message {0}")]
    Message(MessageId),
    /// The branch has no summary.
    #[error("this branch has no summary")]
    Summary,
    /// The configuration has no schedule with this name.
    #[error("the configuration has no schedule {name:?}")]
    Schedule {
        /// The name.
        name: String,
        /// The most similar name of a schedule.
        near: Option<String>,
    },
    /// No chat has this id.
    #[error("there is no chat {0}")]
    Chat(String),
    /// No recipient has this name.
    #[error("there is no session or branch {0:?}")]
    Recipient(String),
    /// No run has this id.
    #[error("there is no run {0:?}")]
    Run(String),
    /// No execution has this id, or it belongs to another run.
    #[error("there is no execution {0}")]
    Execution(ExecutionId),
    /// No gate has this id.
    #[error("there is no gate {0:?}")]
    Approval(String),
    /// An error of the stores.
    #[error(transparent)]
    Store(Fault),
}

/// The caller's data is outdated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Stale {
    /// The history does not end as expected.
    #[error("the history has {end} items and does not end as expected")]
    OtherSuffix {
        /// The number of items.
        end: u64,
    },
    /// A claim that was overtaken by another claim.
    #[error("claim {fence} on run {run} was overtaken by claim {now}{}", owner_suffix(.by.as_ref()))]
    Overtaken {
        /// The run.
        run: RunId,
        /// The fence of the caller.
        fence: u64,
        /// The current fence.
        now: u64,
        /// The current owner; `None` if the run failed or has no owner now.
        by: Option<String>,
    },
    /// A claim that ended when its run stopped.
    #[error("cannot write run {run} under fence {fence}: the run is {status}, which ended the claim")]
    ClaimEnded {
        /// The run.
        run: RunId,
        /// The fence of the claim.
        fence: u64,
        /// The status of the run.
        status: RunStatus,
    },
    /// An expired gate.
    #[error("cannot answer gate {gate}: it expired at {at}, and its run failed")]
    GateExpired {
        /// The gate.
        gate: ApprovalId,
        /// The time at which it expired.
        at: Timestamp,
    },
    /// The content of a gate changed since it was shown.
    #[error("cannot answer gate {gate}: its content changed since it was shown (hash mismatch)")]
    GateChanged {
        /// The gate.
        gate: ApprovalId,
    },
    /// An error of the stores.
    #[error(transparent)]
    Store(Fault),
}

/// Another process or owner holds it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Busy {
    /// A run that another owner has claimed.
    #[error("run {run} is claimed by {by} until {until}")]
    Claimed {
        /// The run.
        run: RunId,
        /// The owner.
        by: String,
        /// The end of the lease, unless the owner renews it.
        until: Timestamp,
    },
    /// An error of the stores.
    #[error(transparent)]
    Store(Fault),
}

/// The stored bytes differ from the bytes that were written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Damaged {
    /// The content of a message cannot be read.
    #[error("cannot read message {message}: {detail}")]
    Item {
        /// The message.
        message: MessageId,
        /// The reason.
        detail: String,
    },
    /// An error of the stores.
    #[error(transparent)]
    Store(Fault),
}

/// A failure of the system.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Io {
    /// The output cannot be written.
    #[error("cannot write the output")]
    Output(#[source] std::io::Error),
    /// No thread could be started.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
    /// The clock is before 1970, which no timestamp can represent.
    #[error("cannot open the store: the clock of this machine is before 1970")]
    ClockBefore1970,
    /// An error of the stores.
    #[error(transparent)]
    Store(Fault),
}

fn owner_suffix(owner: Option<&String>) -> String {
    owner.map_or_else(|| ", which has no owner".to_owned(), |owner| format!(" of {owner}"))
}

//! What exactly happened, for the kinds of error with few cases.

use duolog_types::{ApprovalId, ExecutionId, MessageId, RunId, RunStatus, SessionId, Timestamp};

use super::fault::Fault;

/// A thing that does not exist.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotFound {
    /// Nothing is called that.
    #[error("there is no session {0:?}")]
    Session(String),
    /// There is no such branch.
    #[error("session {session} has no branch {branch:?}")]
    Branch {
        /// What was asked for.
        branch: String,
        /// Where it was looked for.
        session: SessionId,
    },
    /// There is no such message.
    #[error("there is no message {0}")]
    Message(MessageId),
    /// No summary holds.
    #[error("no summary holds on this branch")]
    Summary,
    /// The configuration has no such schedule.
    #[error("the configuration has no schedule {name:?}")]
    Schedule {
        /// What was asked for.
        name: String,
        /// The one that was probably meant.
        near: Option<String>,
    },
    /// There is no such chat.
    #[error("there is no chat {0}")]
    Chat(String),
    /// A message for nobody that is known.
    #[error("no session or branch is called {0:?}")]
    Recipient(String),
    /// There is no such run.
    #[error("there is no run {0:?}")]
    Run(String),
    /// There is no such execution, or it is one of another run.
    #[error("there is no execution {0} here")]
    Execution(ExecutionId),
    /// There is no such gate.
    #[error("there is no gate {0:?}")]
    Approval(String),
    /// The stores answered so.
    #[error(transparent)]
    Store(Fault),
}

/// What the caller saw is outdated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Stale {
    /// The history does not end as expected.
    #[error("the history, {end} items long, does not end as expected")]
    OtherSuffix {
        /// How many items there are.
        end: u64,
    },
    /// A claim that is over.
    #[error("claim {fence} on run {run} was overtaken by claim {now}{}", of_whom(.by.as_ref()))]
    Overtaken {
        /// The run.
        run: RunId,
        /// The claim of whoever asked.
        fence: u64,
        /// The claim that holds.
        now: u64,
        /// Whose it is; nothing where the run was given up, or nobody holds it now.
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
    /// A gate whose time is over.
    #[error("gate {gate} could be answered until {at}, and its run has failed")]
    GateExpired {
        /// The gate.
        gate: ApprovalId,
        /// Until when it could be.
        at: Timestamp,
    },
    /// The content of a gate changed since it was shown.
    #[error("cannot answer gate {gate}: its content changed since it was shown (hash mismatch)")]
    GateChanged {
        /// The gate.
        gate: ApprovalId,
    },
    /// The stores answered so.
    #[error(transparent)]
    Store(Fault),
}

/// Someone else holds it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Busy {
    /// A run that another owner holds.
    #[error("run {run} is claimed by {by} until {until}")]
    Claimed {
        /// The run.
        run: RunId,
        /// Who holds it.
        by: String,
        /// Until when, unless it renews.
        until: Timestamp,
    },
    /// The stores answered so.
    #[error(transparent)]
    Store(Fault),
}

/// Stored bytes that are not what was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Damaged {
    /// What an item says cannot be read.
    #[error("what message {message} says cannot be read: {detail}")]
    Item {
        /// The message.
        message: MessageId,
        /// What is wrong with it.
        detail: String,
    },
    /// The stores answered so.
    #[error(transparent)]
    Store(Fault),
}

/// A failure of the machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Io {
    /// What was to be written could not be.
    #[error("the output cannot be written")]
    Output(#[source] std::io::Error),
    /// No thread could be started.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
    /// The clock shows a time that no timestamp can say.
    #[error("cannot open the store: the clock of this machine is before 1970")]
    ClockBefore1970,
    /// The stores answered so.
    #[error(transparent)]
    Store(Fault),
}

fn of_whom(owner: Option<&String>) -> String {
    owner.map_or_else(|| ", which nobody holds".to_owned(), |owner| format!(" of {owner}"))
}

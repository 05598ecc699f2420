//! One error for callers: what happened, to what, of which kind, and what to do.

use duolog_join::{Error as JoinError, HomeError};
use duolog_log::Error as LogError;
use duolog_search::{BadQuery, Error as IndexError};
use duolog_state::{ConstraintKind, Error as StateError};
use duolog_types::json::JsonFault;
use duolog_types::names::BadName;
use duolog_types::{
    ApprovalId, ApprovalKind, ApprovalStatus, BranchId, ExecutionId, MessageId, Moment, RunId, RunStatus, SessionId,
    SessionStatus,
};

use crate::config::ADDRESS_FORMS;
use crate::runs::{Event, Outcome, next};

/// The result of a call on a store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a caller can do about an error. Every surface maps it once: exit code, HTTP status, exception class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// There is no such thing.
    NotFound,
    /// Something is in the way: a name is taken, a position moved.
    Conflict,
    /// What the caller saw is no longer so.
    Stale,
    /// The request cannot be right.
    Invalid,
    /// Someone else holds it; try again.
    Busy,
    /// Whether it happened is not known; ask again with the same operation id, or look.
    Unknown,
    /// The store is not what it should be.
    Damaged,
    /// The machine failed: disk full, no permission.
    Io,
}

impl Kind {
    /// The word in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::Stale => "stale",
            Self::Invalid => "invalid",
            Self::Busy => "busy",
            Self::Unknown => "unknown",
            Self::Damaged => "damaged",
            Self::Io => "io",
        }
    }
}

/// A call on a store that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing is called that.
    #[error("there is no session {0:?}")]
    NoSession(String),
    /// The beginning of an id fits several.
    #[error("{prefix:?} fits more than one session: {}", some(.found))]
    Ambiguous {
        /// What was asked for.
        prefix: String,
        /// The first that fit.
        found: Vec<SessionId>,
    },
    /// Only the beginning of an id was given for a change.
    #[error("{prefix:?} is only the beginning of an id, and what changes a session names it whole")]
    Shortened {
        /// What was given.
        prefix: String,
        /// The session that it fits.
        id: SessionId,
    },
    /// The clock shows a time that no timestamp can say.
    #[error("cannot open the store: the clock of this machine is before 1970")]
    ClockBefore1970,
    /// A page token of another list, or of the same with other filters or in another order.
    #[error("page token {0}: this token belongs to another list or other filters")]
    OtherPage(String),
    /// Another session is called that.
    #[error("a session called {0:?} exists already")]
    NameTaken(String),
    /// The name cannot be used.
    #[error(transparent)]
    BadName(#[from] BadName),
    /// A line cannot be appended.
    #[error(transparent)]
    BadLine(#[from] duolog_types::BadLine),
    /// The home cannot be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// A copy is only made where nothing is.
    #[error("{} exists and is not an empty directory", .0.display())]
    NotEmpty(std::path::PathBuf),
    /// A backup that died left its copy.
    #[error("{} is a copy that is not whole: a backup died, or is still running", .0.display())]
    PartialBackup(std::path::PathBuf),
    /// No thread could be started.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
    /// What to look for cannot be meant.
    #[error(transparent)]
    BadQuery(#[from] BadQuery),
    /// The search index cannot be made.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// There is no such branch.
    #[error("session {session} has no branch {branch:?}")]
    NoBranch {
        /// What was asked for.
        branch: String,
        /// Where it was looked for.
        session: SessionId,
    },
    /// A branch of another session.
    #[error("branch {branch} is one of session {session}: forks and items stay within a session")]
    OtherSession {
        /// The branch.
        branch: BranchId,
        /// The session that it is one of.
        session: SessionId,
    },
    /// Several branches have this name; a document of another program brought them.
    #[error("more than one branch is named {name:?}: {}", some_texts(.found))]
    AmbiguousBranch {
        /// The name.
        name: String,
        /// The ids of the first that have it.
        found: Vec<String>,
    },
    /// Another branch of the session has this name.
    #[error("cannot name a branch {name:?}: branch {branch} of session {session} has that name")]
    BranchNameTaken {
        /// The name.
        name: String,
        /// The branch that has it.
        branch: BranchId,
        /// Their session.
        session: SessionId,
    },
    /// There is no such message.
    #[error("there is no message {0}")]
    NoMessage(MessageId),
    /// What was given is not an item.
    #[error("{}{}", if *number > 0 { format!("item {number}: ") } else { String::new() }, fault_of(*fault))]
    BadItem {
        /// Which of several, from 1; 0 where there was one.
        number: usize,
        /// What is wrong with it.
        fault: JsonFault,
    },
    /// What was given does not fit its place.
    #[error("{what} {why}")]
    BadValue {
        /// What.
        what: &'static str,
        /// Why not.
        why: String,
    },
    /// What an item says cannot be read.
    #[error("what message {message} says cannot be read: {detail}")]
    BrokenItem {
        /// The message.
        message: MessageId,
        /// What is wrong with it.
        detail: String,
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
    /// A range that a summary reaches into.
    #[error(
        "a summary stands for {other_from} to before {other_to}: {from} to before {to} is neither around nor apart from it"
    )]
    RangeCrosses {
        /// Its first place.
        from: u64,
        /// The place after its last.
        to: u64,
        /// The first place of what the summary stands for.
        other_from: u64,
        /// The place after its last.
        other_to: u64,
    },
    /// No summary holds.
    #[error("no summary holds on this branch")]
    NothingToUndo,
    /// The history does not end as expected.
    #[error("the history, {end} items long, does not end as expected")]
    OtherSuffix {
        /// How many items there are.
        end: u64,
    },
    /// A session that came to its end.
    #[error("session {session} is {status}, and only reopening it changes that")]
    Ended {
        /// The session.
        session: SessionId,
        /// How it stands.
        status: SessionStatus,
    },
    /// A session that did not come to an end.
    #[error("session {0} has not ended")]
    NotEnded(SessionId),
    /// The configuration has no such schedule.
    #[error("the configuration has no schedule {name:?}")]
    NoSchedule {
        /// What was asked for.
        name: String,
        /// The one that was probably meant.
        near: Option<String>,
    },
    /// There is no such chat.
    #[error("there is no chat {0}")]
    NoChat(String),
    /// The beginning of an id fits several chats.
    #[error("{0:?} fits more than one chat")]
    AmbiguousChat(String),
    /// What was to be written could not be.
    #[error("the output cannot be written")]
    Output(#[source] std::io::Error),
    /// A document that cannot be taken.
    #[error("the document is refused at {at}: {why}")]
    BadDocument {
        /// Where in it.
        at: String,
        /// Why.
        why: String,
    },
    /// A session with this id is there.
    #[error("session {0} is there already")]
    SessionTaken(SessionId),
    /// Another message has this id.
    #[error("cannot add message {0}: another message has this id, and a stored message is never changed")]
    MessageTaken(MessageId),
    /// A message for nobody that is known.
    #[error("no session or branch is called {0:?}")]
    NoRecipient(String),
    /// There is no such run.
    #[error("there is no run {0:?}")]
    NoRun(String),
    /// The beginning of an id fits several.
    #[error("{prefix:?} is the beginning of more than one id: {}", some_texts(.found))]
    AmbiguousRun {
        /// What was asked for.
        prefix: String,
        /// The first that fit.
        found: Vec<String>,
    },
    /// There is no such execution, or it is one of another run.
    #[error("there is no execution {0} here")]
    NoExecution(ExecutionId),
    /// There is no such gate.
    #[error("there is no gate {0:?}")]
    NoApproval(String),
    /// An event that a run of this status does not take.
    #[error("cannot {} run {run}: it is {status}{}", verb_of(*.event), possible(*.status))]
    RunCannot {
        /// The run.
        run: RunId,
        /// Its status.
        status: RunStatus,
        /// What was asked for.
        event: Event,
    },
    /// A run with this id exists, and was started with something else.
    #[error("cannot start run {run}: a run with this id exists and has another {field}")]
    RunTaken {
        /// The run.
        run: RunId,
        /// The first field that differs.
        field: &'static str,
    },
    /// What only a run that runs does.
    #[error("run {run} is {status}, and only one that is running is claimed or written")]
    RunStands {
        /// The run.
        run: RunId,
        /// How it stands.
        status: RunStatus,
    },
    /// A run that another owner holds.
    #[error("run {run} is claimed by {by} until {until}")]
    Claimed {
        /// The run.
        run: RunId,
        /// Who holds it.
        by: String,
        /// Until when, unless it renews.
        until: Moment,
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
    /// A run that was taken over as often as it may be.
    #[error("run {run} was taken over {restarts} times from owners that died, and was given up")]
    GivenUp {
        /// The run.
        run: RunId,
        /// How often.
        restarts: u32,
    },
    /// A workflow that is switched off.
    #[error("workflow {workflow:?} is disabled{}", by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default())]
    WorkflowDisabled {
        /// The workflow.
        workflow: String,
        /// Who did so.
        by: Option<String>,
    },
    /// Another run of the same workflow and trigger is active.
    #[error("run {run} cannot run again while run {other}, of the same workflow and trigger, is active")]
    TriggerActive {
        /// The run.
        run: RunId,
        /// The active one.
        other: RunId,
    },
    /// An execution that has ended.
    #[error("execution {execution} has ended: {outcome}{}", why.as_ref().map(|why| format!(", {why}")).unwrap_or_default())]
    ExecutionClosed {
        /// The execution.
        execution: ExecutionId,
        /// How.
        outcome: Outcome,
        /// Why.
        why: Option<String>,
    },
    /// An execution with this id exists, and is another one.
    #[error("cannot begin execution {execution}: an execution with this id exists and has another {field}")]
    ExecutionTaken {
        /// The execution.
        execution: ExecutionId,
        /// The first field that differs.
        field: &'static str,
    },
    /// An execution of a run that was named as one outside of any.
    #[error("cannot change execution {execution} by itself: it belongs to run {run}")]
    ExecutionOfRun {
        /// The execution.
        execution: ExecutionId,
        /// Its run.
        run: RunId,
    },
    /// A gate with this id exists, and asks for something else.
    #[error("cannot open gate {gate}: a gate with this id exists and has another {field}")]
    GateTaken {
        /// The gate.
        gate: ApprovalId,
        /// The first field that differs.
        field: &'static str,
    },
    /// An answer without the hash of what it is about.
    #[error("cannot answer gate {gate}: it has a content hash, and the answer carries none")]
    GateHashMissing {
        /// The gate.
        gate: ApprovalId,
    },
    /// A gate that was answered, or can no longer be.
    #[error("gate {gate} is {status} already{}", by.as_ref().map(|by| format!(", by {by}")).unwrap_or_default())]
    GateResolved {
        /// The gate.
        gate: ApprovalId,
        /// How it stands.
        status: ApprovalStatus,
        /// Who answered.
        by: Option<String>,
    },
    /// A gate whose time is over.
    #[error("gate {gate} could be answered until {at}, and its run has failed")]
    GateExpired {
        /// The gate.
        gate: ApprovalId,
        /// Until when it could be.
        at: Moment,
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
    /// A gate that asks about something else than what was looked at.
    #[error("gate {gate} asks about something else than what was looked at")]
    GateChanged {
        /// The gate.
        gate: ApprovalId,
    },
    /// A run that waits for an answer.
    #[error("run {run} waits at gate {gate}, and goes on once that is answered")]
    GatePending {
        /// The run.
        run: RunId,
        /// The gate.
        gate: ApprovalId,
    },
    /// A gate without an answer that a run could take note of.
    #[error("gate {gate} is {status}: there is no answer to take note of")]
    GateNotAnswered {
        /// The gate.
        gate: ApprovalId,
        /// How it stands.
        status: ApprovalStatus,
    },
    /// The stores refused.
    #[error(transparent)]
    Join(#[from] JoinError),
}

fn fault_of(fault: JsonFault) -> String {
    match fault {
        JsonFault::NotAnObject => "it is JSON, but not an object".to_owned(),
        JsonFault::Syntax(at) => format!("it is not JSON, from byte {at} on"),
        JsonFault::TooDeep(at) => format!("it nests too deep, at byte {at}"),
    }
}

impl Error {
    /// Whether a row with this key is there already.
    pub(crate) fn is_taken(&self) -> bool {
        matches!(self, Self::Join(error) if error.is_taken())
    }
}

impl From<StateError> for Error {
    fn from(error: StateError) -> Self {
        Self::Join(error.into())
    }
}

impl From<LogError> for Error {
    fn from(error: LogError) -> Self {
        Self::Join(error.into())
    }
}

fn some_texts(ids: &[String]) -> String {
    let shown: Vec<&str> = ids.iter().take(3).map(String::as_str).collect();
    shown.join(", ") + if ids.len() > 3 { ", …" } else { "" }
}

fn verb_of(event: Event) -> &'static str {
    event.verb().map_or(event.as_str(), |(verb, _)| verb)
}

/// What a run of this status takes, as the end of a sentence.
fn possible(status: RunStatus) -> String {
    let legal = Event::ALL.iter().filter(|event| next(status, **event).is_some());
    let verbs: Vec<&str> = legal.filter_map(|event| event.verb()).map(|(_, done)| done).collect();
    match verbs.as_slice() {
        [] => ", which is final".to_owned(),
        [only] => format!("; a {status} run can only be {only}"),
        [most @ .., last] => format!("; a {status} run can be {} or {last}", most.join(", ")),
    }
}

fn of_whom(owner: Option<&String>) -> String {
    owner.map_or_else(|| ", which nobody holds".to_owned(), |owner| format!(" of {owner}"))
}

fn some(ids: &[SessionId]) -> String {
    let shown: Vec<&str> = ids.iter().take(3).map(SessionId::as_str).collect();
    shown.join(", ") + if ids.len() > 3 { ", …" } else { "" }
}

impl Error {
    /// Whether the disk, the quota or the largest file size is used up.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Join(error) if error.is_full())
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::NoSession(_)
            | Self::NoRecipient(_)
            | Self::NoBranch { .. }
            | Self::NoMessage(_)
            | Self::NothingToUndo
            | Self::NoSchedule { .. }
            | Self::NoChat(_)
            | Self::NoRun(_)
            | Self::NoExecution(_)
            | Self::NoApproval(_)
            | Self::Home(HomeError::Missing(_)) => Kind::NotFound,
            Self::OtherSuffix { .. }
            | Self::Overtaken { .. }
            | Self::ClaimEnded { .. }
            | Self::GateExpired { .. }
            | Self::GateChanged { .. } => Kind::Stale,
            Self::Ambiguous { .. }
            | Self::AmbiguousChat(_)
            | Self::AmbiguousRun { .. }
            | Self::GateKind { .. }
            | Self::GateOfOtherRun { .. }
            | Self::GateHashMissing { .. }
            | Self::ExecutionOfRun { .. }
            | Self::Shortened { .. }
            | Self::OtherPage(_)
            | Self::BadName(_)
            | Self::BadLine(_)
            | Self::BadQuery(_)
            | Self::BadItem { .. }
            | Self::BadValue { .. }
            | Self::AmbiguousBranch { .. }
            | Self::OtherSession { .. }
            | Self::PastEnd { .. }
            | Self::BadDocument { .. }
            | Self::EmptyRange { .. } => Kind::Invalid,
            Self::Index(IndexError::Busy(_)) | Self::Claimed { .. } => Kind::Busy,
            Self::NameTaken(_)
            | Self::BranchNameTaken { .. }
            | Self::SessionTaken(_)
            | Self::MessageTaken(_)
            | Self::Index(IndexError::Foreign(_))
            | Self::NotEmpty(_)
            | Self::PartialBackup(_)
            | Self::RangeCrosses { .. }
            | Self::Ended { .. }
            | Self::RunCannot { .. }
            | Self::RunTaken { .. }
            | Self::ExecutionTaken { .. }
            | Self::GateTaken { .. }
            | Self::RunStands { .. }
            | Self::GivenUp { .. }
            | Self::WorkflowDisabled { .. }
            | Self::TriggerActive { .. }
            | Self::ExecutionClosed { .. }
            | Self::GateResolved { .. }
            | Self::GatePending { .. }
            | Self::GateNotAnswered { .. }
            | Self::NotEnded(_) => Kind::Conflict,
            Self::Home(HomeError::BadId(_)) | Self::BrokenItem { .. } => Kind::Damaged,
            Self::Home(_) | Self::Thread(_) | Self::Index(_) | Self::Output(_) | Self::ClockBefore1970 => Kind::Io,
            Self::Join(error) => join_kind(error),
        }
    }

    /// One thing to do about it, where there is one.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoSession(_) => "duolog sessions list shows what there is".to_owned(),
            Self::ClockBefore1970 => "set the clock of this machine".to_owned(),
            Self::OtherPage(_) => {
                "give the command that printed the token, with the same filters and order, and --after".to_owned()
            }
            Self::NoSchedule { near: Some(near), .. } => format!("did you mean {near}?"),
            Self::NoSchedule { .. } => "duolog schedules list shows what there is".to_owned(),
            Self::NoChat(_) => "duolog chats list shows what there is".to_owned(),
            Self::Ambiguous { .. } | Self::AmbiguousChat(_) | Self::AmbiguousRun { .. } => {
                "give more of the id".to_owned()
            }
            Self::NoRun(_) => "duolog runs list shows what there is".to_owned(),
            Self::NoApproval(_) => "duolog approvals list shows what there is".to_owned(),
            Self::RunStands { run, .. } | Self::RunCannot { run, .. } => {
                format!("duolog runs show {run} tells how it stands")
            }
            Self::Claimed { .. } => "wait until it is given up, or its lease ends".to_owned(),
            Self::RunTaken { run, .. } => format!("duolog runs show {run} shows it; start the other with another id"),
            Self::GateTaken { gate, .. } => format!("duolog approvals show {gate} shows it; give the other another id"),
            Self::GateHashMissing { gate } => {
                format!("duolog approvals show {gate} shows what it is about; answer with --hash")
            }
            Self::ExecutionOfRun { execution, run } => format!("duolog runs phase end {run} {execution}"),
            Self::ClaimEnded { run, .. } => format!("stop; once it is running: duolog runs claim {run} --owner NAME"),
            Self::Overtaken { .. } => "stop: whoever holds the run now does the rest".to_owned(),
            Self::GivenUp { run, .. } => format!("find out why it died, then: duolog runs retry {run}"),
            Self::WorkflowDisabled { workflow, .. } => format!("duolog workflows enable {workflow}"),
            Self::TriggerActive { other, .. } => format!("wait for run {other}, or cancel it"),
            Self::GateKind { gate, kind: ApprovalKind::Reply } => format!("duolog approvals reply {gate} TEXT"),
            Self::GateKind { gate, .. } => format!("duolog approvals approve {gate}, or reject"),
            Self::GatePending { gate, .. } => format!("duolog approvals show {gate}"),
            Self::GateChanged { gate } => format!("look again: duolog approvals show {gate}"),
            Self::Shortened { id, .. } => format!("give the whole id: {id}"),
            Self::NameTaken(_) => "choose another name, or append to the one that is there".to_owned(),
            Self::BadLine(_) => "one JSON object per line; `jq -c .` makes one line of each".to_owned(),
            Self::PartialBackup(path) => format!("if no backup is running: rm -r {}", path.display()),
            Self::NotEmpty(_) => "name a directory that does not exist yet".to_owned(),
            Self::Home(HomeError::OpenToOthers { path, .. }) => format!("chmod go-w {}", path.display()),
            Self::Home(HomeError::Missing(_)) => "duolog init makes one".to_owned(),
            Self::Home(HomeError::NotADirectory(_)) => "name another directory with --home or DUOLOG_HOME".to_owned(),
            Self::Home(HomeError::BadId(_)) => "restore the file from a backup of this home".to_owned(),
            Self::BadQuery(BadQuery::Empty | BadQuery::OnlyExcludes) => {
                "give a word to look for, like: duolog log search 'deadlock -test'".to_owned()
            }
            Self::BadQuery(_) => "look for less at a time".to_owned(),
            Self::Index(IndexError::Busy(_)) => "try again".to_owned(),
            Self::Index(IndexError::Foreign(path)) => format!("move {} away", path.display()),
            Self::Index(IndexError::Full(_)) => "make room on the disk; the logs are as they were".to_owned(),
            Self::Index(_) => "duolog log search --no-index reads the logs instead".to_owned(),
            Self::NoBranch { session, .. } | Self::OtherSession { session, .. } => {
                format!("duolog sessions branches {session} shows what there is")
            }
            Self::AmbiguousBranch { .. } => "name it by its id".to_owned(),
            Self::BranchNameTaken { branch, .. } => {
                format!("choose another name, or use the one there: --branch {branch}")
            }
            Self::BadItem { .. } => "an item is one JSON text; NaN and Infinity are none".to_owned(),
            Self::PastEnd { len, .. } => format!("use a place from 0 to {len}"),
            Self::EmptyRange { .. } => "a range ends after it begins".to_owned(),
            Self::RangeCrosses { .. } => "take all of it in, or leave it out; or undo it first".to_owned(),
            Self::OtherSuffix { .. } => "read the items again, then decide again".to_owned(),
            Self::Ended { session, .. } => format!("duolog sessions reopen {session} --reason WHY"),
            Self::BadDocument { .. } => {
                "nothing was changed; write the document anew with duolog sessions export".to_owned()
            }
            Self::SessionTaken(id) => format!("import it into another home, or delete {id} first"),
            Self::MessageTaken(_) => "use another id; import a document into another home".to_owned(),
            Self::NoRecipient(name) => {
                format!("duolog sessions list shows the sessions; --mailbox {name:?} is a mailbox of no session")
            }
            Self::NothingToUndo => "duolog sessions compact --info shows what holds".to_owned(),
            Self::Join(error) => return join_hint(error),
            Self::BadName(_)
            | Self::BadValue { .. }
            | Self::NoMessage(_)
            | Self::NoExecution(_)
            | Self::ExecutionClosed { .. }
            | Self::ExecutionTaken { .. }
            | Self::GateResolved { .. }
            | Self::GateExpired { .. }
            | Self::GateOfOtherRun { .. }
            | Self::GateNotAnswered { .. }
            | Self::NotEnded(_)
            | Self::BrokenItem { .. }
            | Self::Home(_)
            | Self::Output(_)
            | Self::Thread(_) => return None,
        };
        Some(hint)
    }
}

fn join_kind(error: &JoinError) -> Kind {
    match error {
        JoinError::NoSession(_) | JoinError::Deleted(_) => Kind::NotFound,
        JoinError::OtherHome { .. } | JoinError::OperationReused { .. } | JoinError::OtherStates { .. } => {
            Kind::Conflict
        }
        JoinError::BackupRunning { .. } => Kind::Busy,
        JoinError::LogChanged { .. } | JoinError::LogLost { .. } => Kind::Damaged,
        JoinError::TooLong(_) | JoinError::BadLine(_) => Kind::Invalid,
        JoinError::Log(error) => log_kind(error),
        JoinError::State(error) => state_kind(error),
        _ => Kind::Io,
    }
}

fn log_kind(error: &LogError) -> Kind {
    match error {
        LogError::Busy { .. } => Kind::Busy,
        LogError::Moved { .. } => Kind::Stale,
        LogError::NotSynced { .. } => Kind::Unknown,
        LogError::Poisoned(_) | LogError::NotALog { .. } => Kind::Damaged,
        error if error.lost_its_file() => Kind::Damaged,
        LogError::BatchTooLarge { .. }
        | LogError::NotABoundary(_)
        | LogError::BeyondEnd { .. }
        | LogError::BeforeBase { .. } => Kind::Invalid,
        _ => Kind::Io,
    }
}

fn state_kind(error: &StateError) -> Kind {
    match error {
        StateError::Busy { .. } | StateError::Conflict { .. } => Kind::Busy,
        StateError::Unknown { .. } => Kind::Unknown,
        StateError::Damaged { .. } => Kind::Damaged,
        StateError::Constraint { kind: ConstraintKind::Unique, .. } | StateError::Exists { .. } => Kind::Conflict,
        StateError::Constraint { .. }
        | StateError::OutOfRange { .. }
        | StateError::Nul
        | StateError::BadAddress { .. }
        | StateError::PathTooLong { .. }
        | StateError::NotHere { .. } => Kind::Invalid,
        StateError::Missing { .. } => Kind::NotFound,
        StateError::SchemaChanged { .. } => Kind::Stale,
        _ => Kind::Io,
    }
}

fn join_hint(error: &JoinError) -> Option<String> {
    let hint = match error {
        JoinError::LogChanged { .. } => {
            "it is on record; `duolog doctor` tells, and the next append goes on in the log as it is now"
        }
        JoinError::LogLost { session, .. } => {
            return Some(format!(
                "duolog log verify {session} shows what is gone; duolog log repair {session} records it"
            ));
        }
        JoinError::NoSession(_) => "duolog sessions list shows what there is",
        JoinError::OtherHome { .. } => "run the command in that home",
        JoinError::OperationReused { .. } => "use a new operation id for other content",
        JoinError::OtherStates { .. } => "delete the record of a state that no longer exists from states/ in the home",
        JoinError::ReadOnly => "the directory cannot be written; copy the home or change its permissions",
        JoinError::BackupRunning { holder } | JoinError::Log(LogError::Busy { holder, .. }) => {
            return Some(try_again(*holder));
        }
        JoinError::Log(LogError::NotSynced { .. }) => {
            "do not append them again without the same operation id; a power loss may still take them"
        }
        JoinError::Unfinished { .. } => "the next command in this home removes the file",
        JoinError::Log(LogError::Poisoned(_) | LogError::Closed { .. }) => {
            "duolog log repair --session ID copies what can be read into a new file"
        }
        JoinError::Log(LogError::Moved { .. }) => "read what was appended since, then decide again",
        JoinError::Log(LogError::Full(_)) => "make room on the disk; nothing was written",
        JoinError::Log(LogError::NotALog { .. }) => "move it away, then run duolog doctor",
        JoinError::Log(LogError::NotABoundary(_) | LogError::BeyondEnd { .. }) => "use a position that duolog printed",
        JoinError::State(error) => return state_hint(error),
        _ => return None,
    };
    Some(hint.to_owned())
}

fn state_hint(error: &StateError) -> Option<String> {
    let hint = match error {
        StateError::Busy { what, holder: None } if what.contains("connection") => {
            "try again; close what is not needed, or raise the server's max_connections"
        }
        StateError::Busy { holder, .. } => return Some(try_again(*holder)),
        StateError::Conflict { .. } => "try again",
        StateError::Unknown { .. } => "ask again with the same operation id, or read before trying again",
        StateError::Full { .. } => "make room on the disk; nothing was written",
        StateError::SyncFailed { .. } => {
            "see what the system reports about the disk, then try again; nothing was written"
        }
        StateError::Damaged { what, .. } if is_server(what) => {
            "duolog doctor says what is damaged; restore the database from a copy of it (pg_dump)"
        }
        StateError::Damaged { .. } => "duolog doctor says what is damaged; restore state.db from a backup",
        StateError::Newer { .. } => "upgrade duolog, or open the home it came from",
        StateError::NeedsMigration { .. } => "duolog state migrate brings it up to date",
        StateError::Missing { place } if is_server(place) => {
            "see that the address is right; duolog state migrate makes the tables there"
        }
        StateError::Missing { .. } => "see that the address is right; duolog state migrate makes it there",
        StateError::Foreign { place } if is_server(place) => "name an empty database, made for duolog alone",
        StateError::Foreign { .. } => "name another directory with --home or DUOLOG_HOME",
        StateError::PathTooLong { .. } => "name a home with a shorter path with --home or DUOLOG_HOME",
        StateError::BadAddress { .. } => return Some(format!("an address is {ADDRESS_FORMS}")),
        StateError::Unreachable { .. } => "see that the server runs, and that host and port are right",
        StateError::Denied { .. } => {
            "see that user, password, database and rights are right; PGPASSWORD is taken where the address has no password"
        }
        StateError::TooOld { .. } => "upgrade the server, or name another one",
        StateError::Unopenable { .. } => "allow more open files (ulimit -n), and see that the directory can be read",
        StateError::WriteFailed { .. } => {
            "see that the disk works and that the file size is not limited (ulimit -f); nothing was written"
        }
        StateError::ReadOnly => "it takes no writes: name a server that does, or a directory that can be written",
        _ => return None,
    };
    Some(hint.to_owned())
}

fn try_again(holder: Option<u32>) -> String {
    holder.map_or_else(|| "try again".to_owned(), |pid| format!("try again, or see what process {pid} is doing"))
}

/// Whether a place is one on a server: a path never begins so.
fn is_server(place: &str) -> bool {
    place.starts_with("postgres://")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn cause() -> duolog_state::Cause {
        Arc::new(std::io::Error::other("why"))
    }

    #[test]
    fn what_a_server_answers_has_a_kind_and_something_to_do() {
        let place = || "postgres://ada@h/d".to_owned();
        let detail = || "what was seen".to_owned();
        let cases = [
            (StateError::BadAddress { detail: detail() }, Kind::Invalid, "postgres://USER"),
            (StateError::Unreachable { place: place(), detail: detail() }, Kind::Io, "host and port"),
            (StateError::Denied { place: place(), detail: detail() }, Kind::Io, "PGPASSWORD"),
            (
                StateError::TooOld { place: place(), found: "9.6".to_owned(), needed: 15 },
                Kind::Io,
                "upgrade the server",
            ),
            (StateError::Foreign { place: place() }, Kind::Io, "an empty database"),
            (StateError::Foreign { place: "/srv/state.db".to_owned() }, Kind::Io, "another directory"),
            (StateError::Missing { place: place() }, Kind::NotFound, "duolog state migrate"),
            (StateError::Damaged { what: place(), detail: detail() }, Kind::Damaged, "pg_dump"),
            (StateError::Damaged { what: "/srv/state.db".to_owned(), detail: detail() }, Kind::Damaged, "state.db"),
            (StateError::Conflict { source: cause() }, Kind::Busy, "try again"),
            (
                StateError::Busy { what: "every connection of this process", holder: None },
                Kind::Busy,
                "max_connections",
            ),
            (StateError::Busy { what: "the state", holder: None }, Kind::Busy, "try again"),
            (StateError::Unknown { source: cause() }, Kind::Unknown, "the same operation id"),
            (StateError::SyncFailed { source: cause() }, Kind::Io, "the disk"),
            (StateError::PathTooLong { path: "/srv".into(), bytes: 505, max: 504 }, Kind::Invalid, "a shorter path"),
            (StateError::NeedsMigration { found: 1, known: 2 }, Kind::Io, "duolog state migrate"),
        ];
        for (error, kind, hint) in cases {
            let error = Error::from(error);
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.hint().is_some_and(|told| told.contains(hint)), "{error}: {:?}", error.hint());
        }
        for error in [StateError::Nul, StateError::NotHere { what: "this", instead: "that" }] {
            assert_eq!(Error::from(error).kind(), Kind::Invalid);
        }
    }
}

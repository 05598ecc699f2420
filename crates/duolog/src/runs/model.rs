//! What callers give and get.

use std::fmt;
use std::str::FromStr;

use duolog_log::dialect::money::Money;
use duolog_state::ListId;
use duolog_state::owned::executions::{EndRow, ExecutionRow};
use duolog_state::owned::workflow_runs::{RunRow, RunSummaryRow};
use duolog_types::limits::{PAGE_DEFAULT, PAGE_MAX};
use duolog_types::{ApprovalId, ExecutionId, Moment, RunId, RunStatus, SessionId, TriggerType};
use serde::{Deserialize, Serialize};

use super::rules;
use crate::error::Error;

/// A run to be started.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// Its id; one is minted where none is given.
    pub id: Option<RunId>,
    /// What it is a run of.
    pub workflow_name: String,
    /// What kind of thing sets it off.
    pub trigger_type: TriggerType,
    /// What sets it off. While a run of the same workflow and trigger is active, no second one begins.
    pub trigger_id: String,
    /// Whose repository it works on.
    pub owner: Option<String>,
    /// The repository, as `repo` or `owner/repo`.
    pub repo: Option<String>,
    /// The issue.
    pub issue_number: Option<u64>,
    /// Who sets it off.
    pub triggered_by: Option<String>,
    /// What sets it off, as JSON. It never changes.
    pub context: Option<String>,
    /// The session whose log is to tell of it; it gets one of its own where none is given.
    pub session_id: Option<SessionId>,
    /// The phase that it begins with.
    pub phase: Option<String>,
    /// Whether it may begin at once.
    pub admission: Admission,
    /// Who claims it in the same step, if it begins at once.
    pub claimed_by: Option<String>,
    /// How often it may be taken over from a dead owner; the limit in force where nothing is said.
    pub restart_cap: Option<u32>,
}

impl NewRun {
    /// A run of a workflow that a trigger sets off, and nothing else said.
    pub fn new(workflow_name: &str, trigger_type: TriggerType, trigger_id: &str) -> Self {
        Self {
            id: None,
            workflow_name: workflow_name.to_owned(),
            trigger_type,
            trigger_id: trigger_id.to_owned(),
            owner: None,
            repo: None,
            issue_number: None,
            triggered_by: None,
            context: None,
            session_id: None,
            phase: None,
            admission: Admission::IfFree,
            claimed_by: None,
            restart_cap: None,
        }
    }
}

/// Whether a run may begin at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// If a slot is free beside those that queued runs wait for; otherwise it is queued.
    IfFree,
    /// It waits, until somebody admits it.
    Queue,
}

/// A run that was started, or was there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// The run.
    pub run: RunSummary,
    /// Whether it was there: a run of the same id, or an active run of the same workflow and trigger.
    pub existed: bool,
    /// The claim on it, if it was claimed.
    pub fence: Option<Fence>,
}

/// What a claim of a run is known by. Every write of its owner carries it, and a later claim outranks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fence(pub u64);

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Fence {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// Who does something to a run, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Act {
    /// Who.
    pub actor: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

/// What became of a change of status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turned {
    /// How the run stood.
    pub previous: RunStatus,
    /// Whether it stands otherwise now.
    pub changed: bool,
    /// The run as it is.
    pub run: RunSummary,
}

/// How a run ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Well.
    Succeeded,
    /// With an error.
    Failed(String),
}

/// A run that somebody claimed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// The run.
    pub run: RunSummary,
    /// What every write of its owner carries.
    pub fence: Fence,
    /// When the lease ends if it is not renewed.
    pub lease_expires_at: Moment,
    /// Whether it was taken over from an owner that died.
    pub taken_over: bool,
    /// The executions that the dead owner left, which are closed.
    pub closed: Vec<ExecutionId>,
    /// The answers that no claim has acknowledged yet.
    pub unconsumed: Vec<ApprovalId>,
}

/// What [`super::Runs::recover`] did.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Runs that the caller has claimed and is to resume.
    pub resumed: Vec<Claim>,
    /// Runs that were taken over too often, and failed.
    pub given_up: Vec<RunSummary>,
    /// Runs that could not be taken up, and why.
    pub failed: Vec<(RunId, Error)>,
    /// True if every run whose lease ended was tried; false if an error of the machine ended the call before.
    pub complete: bool,
}

/// What [`super::Runs::admit`] did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Admitted {
    /// Runs that run now, the one that waited longest first, and the claim on each where one was asked for.
    pub admitted: Vec<(RunSummary, Option<Fence>)>,
    /// Runs that waited too long, and were cancelled.
    pub expired: Vec<RunSummary>,
}

/// What [`super::Runs::expire`] did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Expired {
    /// Runs that waited too long for a place, and were cancelled.
    pub queued: Vec<RunSummary>,
    /// Runs whose gate was not answered in time, and failed.
    pub gates: Vec<RunSummary>,
}

/// A run in a list. Text that can grow has no place here (I5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// Its id.
    pub id: RunId,
    /// What it is a run of.
    pub workflow_name: String,
    /// What kind of thing set it off.
    pub trigger_type: TriggerType,
    /// What set it off.
    pub trigger_id: String,
    /// Whose repository it works on.
    pub owner: Option<String>,
    /// The repository, without its owner.
    pub repo: Option<String>,
    /// The issue.
    pub issue_number: Option<u64>,
    /// The phase it is in, or came to last.
    pub current_phase: String,
    /// How it stands.
    pub status: RunStatus,
    /// The session whose log tells of it.
    pub session_id: Option<SessionId>,
    /// Who runs it.
    pub lease_owner: Option<String>,
    /// How often it was taken over from an owner that died, since it was last started or retried.
    pub restart_count: u32,
    /// How often somebody had it run again after its end.
    pub retry_count: u32,
    /// Who set it off.
    pub triggered_by: Option<String>,
    /// What its executions cost, as far as they said.
    pub cost: Option<Money>,
    /// Their tokens of all kinds, as far as they said.
    pub tokens: Option<u64>,
    /// When it was started.
    pub started_at: Moment,
    /// When it last changed.
    pub updated_at: Moment,
    /// When it came to its end.
    pub finished_at: Option<Moment>,
}

impl From<RunSummaryRow> for RunSummary {
    fn from(row: RunSummaryRow) -> Self {
        Self {
            id: row.id,
            workflow_name: row.workflow_name,
            trigger_type: row.trigger_type,
            trigger_id: row.trigger_id,
            owner: row.owner,
            repo: row.repo,
            issue_number: row.issue_number,
            current_phase: row.current_phase,
            status: row.status,
            session_id: row.session_id,
            lease_owner: row.lease_owner,
            restart_count: row.restart_count,
            retry_count: row.retry_count,
            triggered_by: row.triggered_by,
            cost: row.cost_picos.map(|picos| Money::from_picos(picos.into())),
            tokens: row.tokens,
            started_at: row.started_at,
            updated_at: row.updated_at,
            finished_at: row.finished_at,
        }
    }
}

impl From<&RunRow> for RunSummary {
    fn from(row: &RunRow) -> Self {
        Self {
            id: row.id.clone(),
            workflow_name: row.workflow_name.clone(),
            trigger_type: row.trigger_type,
            trigger_id: row.trigger_id.clone(),
            owner: row.owner.clone(),
            repo: row.repo.clone(),
            issue_number: row.issue_number,
            current_phase: row.current_phase.clone(),
            status: row.status,
            session_id: row.session_id.clone(),
            lease_owner: row.lease_owner.clone(),
            restart_count: row.restart_count,
            retry_count: row.retry_count,
            triggered_by: row.triggered_by.clone(),
            cost: row.cost_picos.map(|picos| Money::from_picos(picos.into())),
            tokens: row.tokens,
            started_at: row.started_at,
            updated_at: row.updated_at,
            finished_at: row.finished_at,
        }
    }
}

/// A run, whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// What a list says of it.
    pub summary: RunSummary,
    /// Why it failed or was cancelled.
    pub error: Option<String>,
    /// The last claim on it.
    pub fence: Fence,
    /// Until when whoever runs it, or is to take it up, is waited for.
    pub lease_expires_at: Option<Moment>,
    /// How often it may be taken over from a dead owner.
    pub restart_cap: u32,
    /// Who changed its status last.
    pub actor: Option<String>,
    /// Since when it waits for a slot.
    pub queued_at: Option<Moment>,
    /// True if it was resumed and waits before every run that has not begun.
    pub is_resumed: bool,
    /// What set it off, as JSON.
    pub context: Option<String>,
    /// What its phases leave to each other: keys, and values as JSON.
    pub scratch: Vec<(String, String)>,
    /// The phases that ended, each as JSON, in order.
    pub phase_history: Vec<String>,
    /// How its nodes stand: names, and statuses as JSON.
    pub node_statuses: Vec<(String, String)>,
    /// The gate that it waits at.
    pub pending: Option<ApprovalId>,
    /// The answers that no claim has acknowledged yet.
    pub unconsumed: Vec<ApprovalId>,
}

/// Which runs to list. Nothing said is all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunFilter {
    /// Only those that stand in one of these ways; none is all.
    pub statuses: Vec<RunStatus>,
    /// Only those of this workflow.
    pub workflow_name: Option<String>,
    /// Only those of this owner; it takes a repository too.
    pub owner: Option<String>,
    /// Only those that work on this repository, as `owner/repo`, or as `repo` whoever owns it.
    pub repo: Option<String>,
    /// Only those that this set off.
    pub trigger_id: Option<String>,
    /// Only those that were started then or later.
    pub since: Option<Moment>,
    /// In which order.
    pub order: RunOrder,
}

impl RunFilter {
    /// The list of these runs, as its page tokens name it.
    pub(crate) fn list(&self) -> ListId {
        let mut statuses: Vec<&str> = self.statuses.iter().map(|status| status.as_str()).collect();
        statuses.sort_unstable();
        statuses.dedup();
        let (owner, repo) = rules::split_repo(self.owner.as_deref(), self.repo.as_deref());
        let filters = [
            Some(statuses.join(",")),
            self.workflow_name.clone(),
            owner,
            repo,
            self.trigger_id.clone(),
            (self.order == RunOrder::Started).then(|| "started".to_owned()),
        ];
        ListId::of("runs", &filters.each_ref().map(Option::as_deref))
    }
}

/// The order of a list of runs that is not filtered by workflow, repository or trigger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunOrder {
    /// Running, paused and queued runs first, then all others, each newest first. A run that changes its status between
    /// two pages may be missed or listed twice; every other run is listed once.
    #[default]
    Active,
    /// Newest first, whatever the status: a key that never changes. Every run that was there when the first page was read
    /// is listed exactly once.
    Started,
}

/// Which page of runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPage {
    limit: u32,
    after: Option<RunToken>,
}

impl RunPage {
    /// A page of that many runs, clamped to what a page may hold (I9), after the token or from the start.
    pub fn new(limit: u32, after: Option<RunToken>) -> Self {
        Self { limit: limit.clamp(1, PAGE_MAX), after }
    }

    /// The runs at most.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Where it begins.
    pub fn after(&self) -> Option<&RunToken> {
        self.after.as_ref()
    }
}

impl Default for RunPage {
    fn default() -> Self {
        Self::new(PAGE_DEFAULT, None)
    }
}

/// Where a page of runs, gates or executions ends and the next begins. Its text is for handing back, not for reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunToken {
    /// The list.
    pub(crate) list: ListId,
    /// The stretch of the list: active ones come in their order, then all others.
    pub(crate) rank: u32,
    /// When the last row of the page was started.
    pub(crate) at: Moment,
    /// Which row it was, by an id of its kind. Those of all kinds are made alike.
    pub(crate) id: Box<str>,
}

impl RunToken {
    /// Returns an error if it is of another list.
    pub(crate) fn check(&self, list: ListId) -> Result<(), Error> {
        if self.list == list { Ok(()) } else { Err(Error::OtherPage(self.to_string())) }
    }
}

impl fmt::Display for RunToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.2.{}.{:x}.{}", self.list, self.rank, self.at.as_micros(), self.id)
    }
}

/// The text is not a token of a page of runs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a page token; take it from the previous page, unchanged")]
pub struct BadRunToken(String);

impl FromStr for RunToken {
    type Err = BadRunToken;

    fn from_str(text: &str) -> Result<Self, BadRunToken> {
        let parse = || {
            // The id may hold dots, the parts before it cannot.
            let (list, rest) = ListId::split(text)?;
            let (rank, rest) = rest.strip_prefix("2.")?.split_once('.')?;
            let (micros, id) = rest.split_once('.')?;
            let at = Moment::from_micros(i64::from_str_radix(micros, 16).ok()?);
            Some(Self { list, rank: rank.parse().ok()?, at, id: RunId::parse(id).ok()?.as_str().into() })
        };
        // Only what prints back as given was ever handed out.
        parse().filter(|token| token.to_string() == text).ok_or_else(|| BadRunToken(text.chars().take(64).collect()))
    }
}

/// A page of runs.
#[derive(Clone, Debug, PartialEq)]
pub struct RunList {
    /// The runs. Without a workflow, a repository or a trigger in the filter the active ones come first: running, paused,
    /// queued; the others, and all with such a filter, come newest first.
    pub runs: Vec<RunSummary>,
    /// Where the next page begins; nothing where this is the last. A page with several filters may be short before that.
    pub next: Option<RunToken>,
}

/// What is to be done of a phase, as the ledger of executions says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PhaseStanding {
    /// It is to be run: it never was, or did not succeed.
    Run,
    /// It is being run.
    Running(ExecutionId),
    /// It was run, and succeeded.
    Done(ExecutionId),
}

/// How an execution ended, derived from what the ledger says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Well.
    Succeeded,
    /// With an error.
    Failed,
    /// It was left out.
    Skipped,
    /// It was put off, for a quota.
    Deferred,
    /// It has not ended.
    InFlight,
}

impl Outcome {
    /// The word in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Deferred => "deferred",
            Self::InFlight => "in_flight",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// An execution: of a phase of a run, or a turn of a chat. What it said is asked for apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    /// Its id.
    pub id: ExecutionId,
    /// What kind of thing set it off.
    pub trigger_type: TriggerType,
    /// What set it off.
    pub trigger_id: String,
    /// What it does: `workflow:phase` or `chat`.
    pub skill: String,
    /// Whose repository it works on.
    pub owner: Option<String>,
    /// The repository, without its owner.
    pub repo: Option<String>,
    /// The issue.
    pub issue_number: Option<u64>,
    /// The run that it is of.
    pub run_id: Option<RunId>,
    /// The session whose log tells of it.
    pub session_id: Option<SessionId>,
    /// Who set it off.
    pub triggered_by: Option<String>,
    /// When it began.
    pub started_at: Moment,
    /// How it ended; nothing while it is in flight.
    pub end: Option<Ended>,
}

/// How an execution ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// When.
    pub at: Moment,
    /// What was said of it.
    pub finish: Finish,
}

impl Execution {
    /// How it ended.
    pub fn outcome(&self) -> Outcome {
        rules::outcome(self.end.as_ref().map(EndRow::from).as_ref())
    }

    /// Why it did not succeed.
    pub fn error(&self) -> Option<&str> {
        self.end.as_ref().and_then(|end| end.finish.error.as_deref())
    }
}

impl From<ExecutionRow> for Execution {
    fn from(row: ExecutionRow) -> Self {
        Self {
            id: row.id,
            trigger_type: row.trigger_type,
            trigger_id: row.trigger_id,
            skill: row.skill,
            owner: row.owner,
            repo: row.repo,
            issue_number: row.issue_number,
            run_id: row.workflow_run_id,
            session_id: row.session_id,
            triggered_by: row.triggered_by,
            started_at: row.started_at,
            end: row.end.map(Ended::from),
        }
    }
}

impl From<EndRow> for Ended {
    fn from(row: EndRow) -> Self {
        Self {
            at: row.finished_at,
            finish: Finish {
                success: row.success,
                error: row.error,
                turns: row.turns,
                duration_ms: row.duration_ms,
                cost: row.cost_picos.map(|picos| Money::from_picos(picos.into())),
                input_tokens: row.input_tokens,
                cache_creation_input_tokens: row.cache_creation_input_tokens,
                cache_read_input_tokens: row.cache_read_input_tokens,
                output_tokens: row.output_tokens,
                api_duration_ms: row.api_duration_ms,
                stop_reason: row.stop_reason,
            },
        }
    }
}

impl From<&Ended> for EndRow {
    fn from(ended: &Ended) -> Self {
        let Ended { at, finish } = ended;
        Self {
            finished_at: *at,
            success: finish.success,
            error: finish.error.clone(),
            turns: finish.turns,
            duration_ms: finish.duration_ms,
            cost_picos: finish.cost.map(rules::picos),
            input_tokens: finish.input_tokens,
            cache_creation_input_tokens: finish.cache_creation_input_tokens,
            cache_read_input_tokens: finish.cache_read_input_tokens,
            output_tokens: finish.output_tokens,
            api_duration_ms: finish.api_duration_ms,
            stop_reason: finish.stop_reason.clone(),
        }
    }
}

/// What is said of an execution at its end. What is not known is left out, which is not zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Finish {
    /// Whether it ended well.
    pub success: bool,
    /// Why not.
    pub error: Option<String>,
    /// How many turns it took.
    pub turns: Option<u64>,
    /// How long it took.
    pub duration_ms: Option<u64>,
    /// What it cost. [`super::dollars`] makes it of a number.
    pub cost: Option<Money>,
    /// Tokens read anew.
    pub input_tokens: Option<u64>,
    /// Tokens put into the cache.
    pub cache_creation_input_tokens: Option<u64>,
    /// Tokens read from the cache.
    pub cache_read_input_tokens: Option<u64>,
    /// Tokens written.
    pub output_tokens: Option<u64>,
    /// How long the model took.
    pub api_duration_ms: Option<u64>,
    /// Why it stopped, in a word. `skipped` and `error_quota` make it one that did not fail.
    pub stop_reason: Option<String>,
}

/// How an execution ends, and what is kept with its end: all of it, or nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ending {
    /// How it ended.
    pub finish: Finish,
    /// What it said last.
    pub output: Option<String>,
    /// An entry for its phase in the history of the run, with these words.
    pub summary: Option<String>,
    /// The session whose log tells of it, if it was not known before.
    pub session_id: Option<SessionId>,
}

impl From<&Finish> for Ending {
    fn from(finish: &Finish) -> Self {
        Self { finish: finish.clone(), ..Self::default() }
    }
}

/// What became of the wish to run a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Begun {
    /// It is to be run, and this is its execution.
    Started(Box<Execution>),
    /// Another execution of it is in flight.
    Running(ExecutionId),
    /// It was run, and succeeded.
    Done(ExecutionId),
}

/// An execution that belongs to no run: a turn of a chat.
#[derive(Clone, Debug)]
pub struct NewExecution {
    /// Its id; one is made if none is given.
    pub id: Option<ExecutionId>,
    /// What kind of thing sets it off.
    pub trigger_type: TriggerType,
    /// What sets it off: a thread, a messaging session.
    pub trigger_id: String,
    /// What it does: `chat`, or `workflow:phase`.
    pub skill: String,
    /// The session whose log tells of it, if it is known already.
    pub session_id: Option<SessionId>,
    /// Whose repository it works on.
    pub owner: Option<String>,
    /// The repository, as `repo` or `owner/repo`.
    pub repo: Option<String>,
    /// The issue.
    pub issue_number: Option<u64>,
    /// Who sets it off.
    pub triggered_by: Option<String>,
}

/// What an execution said last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// The text, or the end of it where it is long.
    pub text: String,
    /// The bytes of the whole.
    pub bytes: u64,
    /// The blob that holds the whole, where `text` is only its end.
    pub blob: Option<String>,
}

/// A page of executions.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecutionList {
    /// The executions.
    pub executions: Vec<Execution>,
    /// Where the next page begins; nothing where this is the last.
    pub next: Option<RunToken>,
}

/// Until when to wait for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Until {
    /// Until it has come to its end.
    Ended,
    /// Until it stands in one of these ways.
    Status(Vec<RunStatus>),
    /// Until it ended, or waits for an answer.
    Settled,
}

impl Until {
    /// Whether a run that stands so is what is waited for.
    pub fn is_met(&self, status: RunStatus) -> bool {
        match self {
            Self::Ended => status.is_terminal(),
            Self::Status(statuses) => statuses.contains(&status),
            Self::Settled => status.is_terminal() || status == RunStatus::Paused,
        }
    }
}

/// How long the stretches of a roll-up are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// A day.
    Day,
    /// An hour.
    Hour,
}

/// Which roll-up is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollupQuery {
    /// How long its stretches are.
    pub every: Every,
    /// How many, up to the present one. At most 366 days or 744 hours.
    pub last: u32,
    /// The zone whose days and hours they are, like `Europe/Berlin`; UTC where nothing is said.
    pub zone: Option<String>,
    /// Only this workflow's.
    pub workflow: Option<String>,
}

/// What one stretch of time saw of executions. They count where they began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rollup {
    /// The stretch: `2026-01-31` or `2026-01-31T09:00` in the zone that was asked for.
    pub label: String,
    /// How many began.
    pub started: u64,
    /// How many of those succeeded.
    pub succeeded: u64,
    /// How many failed.
    pub failed: u64,
    /// How many were left out.
    pub skipped: u64,
    /// How many were put off.
    pub deferred: u64,
    /// How many have not ended.
    pub in_flight: u64,
    /// How many turns they took.
    pub turns: u64,
    /// How long they took together.
    pub duration_ms: u64,
    /// What they cost.
    pub cost: Money,
    /// Tokens read anew.
    pub input_tokens: u64,
    /// Tokens put into the cache.
    pub cache_creation_input_tokens: u64,
    /// Tokens read from the cache.
    pub cache_read_input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
}

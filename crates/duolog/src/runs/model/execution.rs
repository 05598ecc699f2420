//! Executions, and what is summed up of them.

use duolog_log::dialect::money::Money;
use duolog_state::PageToken;
use duolog_state::owned::executions::{EndRow, ExecutionRow};
use duolog_types::{ExecutionId, RunId, SessionId, Timestamp, TriggerType};
use serde::{Deserialize, Serialize};

use crate::runs::rules;

duolog_types::words!(
/// How an execution ended, derived from what the ledger says of it.
ExecutionOutcome, "outcome of an execution", {
    /// Well.
    Succeeded = "succeeded",
    /// With an error.
    Failed = "failed",
    /// It was left out.
    Skipped = "skipped",
    /// It was put off, for a quota.
    Deferred = "deferred",
    /// It has not ended.
    InFlight = "in_flight",
});

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
    pub started_at: Timestamp,
    /// How it ended; nothing while it is in flight.
    pub end: Option<Ended>,
}

/// How an execution ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// When.
    pub at: Timestamp,
    /// What was said of it.
    pub finish: Finish,
}

impl Execution {
    /// How it ended.
    pub fn outcome(&self) -> ExecutionOutcome {
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
    /// What it cost. [`crate::runs::dollars`] makes it of a number.
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
    pub next: Option<PageToken>,
}

/// How long the stretches of a roll-up are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RollupInterval {
    /// A day.
    Day,
    /// An hour.
    Hour,
}

/// Which roll-up is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollupQuery {
    /// How long its stretches are.
    pub every: RollupInterval,
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

//! Executions and their roll-ups.

use duolog_log::dialect::money::Money;
use duolog_state::PageToken;
use duolog_state::owned::executions::{EndRow, ExecutionRow};
use duolog_types::{ExecutionId, RunId, SessionId, Timestamp, TriggerType};
use serde::{Deserialize, Serialize};

use crate::runs::rules;

duolog_types::words!(
/// The outcome of an execution, derived from its row in the ledger.
ExecutionOutcome, "outcome of an execution", {
    /// It succeeded.
    Succeeded = "succeeded",
    /// It failed with an error.
    Failed = "failed",
    /// It was skipped.
    Skipped = "skipped",
    /// It was deferred because of a quota.
    Deferred = "deferred",
    /// It has not ended.
    InFlight = "in_flight",
});

/// An execution of a phase of a run, or of a turn of a chat. Its output is read separately.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    /// The id.
    pub id: ExecutionId,
    /// The type of the trigger.
    pub trigger_type: TriggerType,
    /// The trigger id.
    pub trigger_id: String,
    /// The skill: `workflow:phase` or `chat`.
    pub skill: String,
    /// The owner of the repository.
    pub owner: Option<String>,
    /// The repository, without its owner.
    pub repo: Option<String>,
    /// The number of the issue.
    pub issue_number: Option<u64>,
    /// The run; `None` for a turn of a chat.
    pub run_id: Option<RunId>,
    /// The session whose log has the lines about it.
    pub session_id: Option<SessionId>,
    /// The user who triggered it.
    pub triggered_by: Option<String>,
    /// The time at which it started.
    pub started_at: Timestamp,
    /// The end; `None` while it is in flight.
    pub end: Option<Ended>,
}

/// The end of an execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// The time.
    pub at: Timestamp,
    /// The reported result.
    pub finish: Finish,
}

impl Execution {
    /// Returns the outcome.
    pub fn outcome(&self) -> ExecutionOutcome {
        rules::outcome(self.end.as_ref().map(EndRow::from).as_ref())
    }

    /// Returns the error, if it did not succeed.
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

/// The result of an execution. An unknown value is `None`, not zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Finish {
    /// True if it succeeded.
    pub success: bool,
    /// The error.
    pub error: Option<String>,
    /// The number of turns.
    pub turns: Option<u64>,
    /// The duration in milliseconds.
    pub duration_ms: Option<u64>,
    /// The cost. [`crate::runs::dollars`] converts a number.
    pub cost: Option<Money>,
    /// Input tokens that were not cached.
    pub input_tokens: Option<u64>,
    /// Input tokens that were written to the cache.
    pub cache_creation_input_tokens: Option<u64>,
    /// Input tokens that were read from the cache.
    pub cache_read_input_tokens: Option<u64>,
    /// Output tokens.
    pub output_tokens: Option<u64>,
    /// The duration of the model's API calls in milliseconds.
    pub api_duration_ms: Option<u64>,
    /// The stop reason. With `skipped` or `error_quota`, the execution does not count as failed.
    pub stop_reason: Option<String>,
}

/// The end of an execution with everything that is stored with it, in one transaction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ending {
    /// The result.
    pub finish: Finish,
    /// The last output.
    pub output: Option<String>,
    /// The summary of an entry for its phase in the history of the run.
    pub summary: Option<String>,
    /// The session whose log has the lines about it, if it was not known before.
    pub session_id: Option<SessionId>,
}

impl From<&Finish> for Ending {
    fn from(finish: &Finish) -> Self {
        Self { finish: finish.clone(), ..Self::default() }
    }
}

/// The result of beginning a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Begun {
    /// The phase can run; this is its execution.
    Started(Box<Execution>),
    /// Another execution of it is in flight.
    Running(ExecutionId),
    /// It has succeeded already, in this execution.
    Done(ExecutionId),
}

/// A new execution without a run: a turn of a chat.
#[derive(Clone, Debug)]
pub struct NewExecution {
    /// The id [default: a new one].
    pub id: Option<ExecutionId>,
    /// The type of the trigger.
    pub trigger_type: TriggerType,
    /// The trigger id: a thread or a messaging session.
    pub trigger_id: String,
    /// The skill: `chat` or `workflow:phase`.
    pub skill: String,
    /// The session whose log gets the lines about it, if it is known already.
    pub session_id: Option<SessionId>,
    /// The owner of the repository.
    pub owner: Option<String>,
    /// The repository, as `repo` or `owner/repo`.
    pub repo: Option<String>,
    /// The number of the issue.
    pub issue_number: Option<u64>,
    /// The user who triggers it.
    pub triggered_by: Option<String>,
}

/// The last output of an execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// The text, or the end of a long text.
    pub text: String,
    /// The length of the complete text in bytes.
    pub bytes: u64,
    /// The blob with the complete text, if `text` is only its end.
    pub blob: Option<String>,
}

/// A page of executions.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecutionList {
    /// The executions.
    pub executions: Vec<Execution>,
    /// The token of the next page; `None` if this is the last page.
    pub next: Option<PageToken>,
}

/// The interval of a roll-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RollupInterval {
    /// A day.
    Day,
    /// An hour.
    Hour,
}

/// A query for roll-ups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollupQuery {
    /// The interval.
    pub every: RollupInterval,
    /// The number of intervals up to the current one: at most 366 days or 744 hours.
    pub last: u32,
    /// The time zone of the days and hours, like `Europe/Berlin` [default: UTC].
    pub zone: Option<String>,
    /// Only executions of this workflow.
    pub workflow: Option<String>,
}

/// The executions that started in one interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rollup {
    /// The start of the interval in the requested time zone: `2026-01-31` or `2026-01-31T09:00`.
    pub label: String,
    /// The number that started.
    pub started: u64,
    /// The number that succeeded.
    pub succeeded: u64,
    /// The number that failed.
    pub failed: u64,
    /// The number that were skipped.
    pub skipped: u64,
    /// The number that were deferred.
    pub deferred: u64,
    /// The number that are in flight.
    pub in_flight: u64,
    /// The number of turns.
    pub turns: u64,
    /// The total duration in milliseconds.
    pub duration_ms: u64,
    /// The total cost.
    pub cost: Money,
    /// Input tokens that were not cached.
    pub input_tokens: u64,
    /// Input tokens that were written to the cache.
    pub cache_creation_input_tokens: u64,
    /// Input tokens that were read from the cache.
    pub cache_read_input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
}

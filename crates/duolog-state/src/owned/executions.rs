//! `executions`: the ledger of executions. Resuming a run depends on it alone.

use duolog_types::{ExecutionId, HomeId, RunId, SessionId, Timestamp, TriggerType};

use crate::engine::{Columns, Row, Tx, Value, row};
use crate::error::Result;
use crate::params;

/// An execution. Its output is in `execution_bodies`.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutionRow {
    /// Its id.
    pub id: ExecutionId,
    /// The home that started it.
    pub home_id: HomeId,
    /// The type of its trigger.
    pub trigger_type: TriggerType,
    /// The id of its trigger.
    pub trigger_id: String,
    /// Its skill: a workflow, a colon and a phase, or `chat`.
    pub skill: String,
    /// The owner of its repository.
    pub owner: Option<String>,
    /// Its repository, without the owner.
    pub repo: Option<String>,
    /// Its issue number.
    pub issue_number: Option<u64>,
    /// When it started.
    pub started_at: Timestamp,
    /// Its run.
    pub workflow_run_id: Option<RunId>,
    /// The user who triggered it.
    pub triggered_by: Option<String>,
    /// The fence of the claim under which it started; 0 outside a run.
    pub fence: u64,
    /// The session whose log records it.
    pub session_id: Option<SessionId>,
    /// Its end. `None` while it is in flight.
    pub end: Option<EndRow>,
}

/// The end of an execution.
#[derive(Debug, Clone, PartialEq)]
pub struct EndRow {
    /// When it finished.
    pub finished_at: Timestamp,
    /// True if it succeeded.
    pub success: bool,
    /// The error, if it failed.
    pub error: Option<String>,
    /// The number of turns.
    pub turns: Option<u64>,
    /// The duration.
    pub duration_ms: Option<u64>,
    /// The cost in picodollars.
    pub cost_picos: Option<u64>,
    /// Input tokens that were not cached.
    pub input_tokens: Option<u64>,
    /// Tokens written to the cache.
    pub cache_creation_input_tokens: Option<u64>,
    /// Tokens read from the cache.
    pub cache_read_input_tokens: Option<u64>,
    /// Output tokens.
    pub output_tokens: Option<u64>,
    /// The duration of the model's API calls.
    pub api_duration_ms: Option<u64>,
    /// The reason why it stopped.
    pub stop_reason: Option<String>,
}

row!(ExecutionRow, columns:
    id, home_id, trigger_type, trigger_id, skill, owner, repo, issue_number, started_at, session_id, workflow_run_id,
    triggered_by, fence;
    end as "finished_at, success, error, turns, duration_ms, cost_picos, input_tokens, cache_creation_input_tokens, \
            cache_read_input_tokens, output_tokens, api_duration_ms, stop_reason"
);

row!(EndRow:
    finished_at, success, error, turns, duration_ms, cost_picos, input_tokens, cache_creation_input_tokens,
    cache_read_input_tokens, output_tokens, api_duration_ms, stop_reason
);

/// The number of columns of an [`EndRow`].
const END_COLUMNS: usize = 12;

impl Columns for Option<EndRow> {
    fn read_at(row: &Row<'_>, at: &mut usize) -> Result<Self> {
        if row.get::<Option<Timestamp>>(*at)?.is_none() {
            *at += END_COLUMNS;
            return Ok(None);
        }
        EndRow::read_at(row, at).map(Some)
    }

    fn add_to<'v>(&'v self, values: &mut Vec<Value<'v>>) {
        values.extend(self.as_ref().map_or_else(|| vec![Value::Null; END_COLUMNS], EndRow::values));
    }
}

/// Inserts an execution. A second one in flight for the same phase of a run is a unique-constraint error.
pub fn insert(tx: &mut Tx<'_>, row: &ExecutionRow) -> Result<()> {
    let sql = concat!(
        "INSERT INTO executions (",
        columns!(),
        ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, \
         ?22, ?23, ?24, ?25)"
    );
    tx.execute(sql, &row.values()).map(drop)
}

/// Returns the execution with this id.
pub fn find(tx: &mut Tx<'_>, id: &ExecutionId) -> Result<Option<ExecutionRow>> {
    tx.find(concat!("SELECT ", columns!(), " FROM executions WHERE id = ?1"), params![id], ExecutionRow::read)
}

/// Returns the ids with this prefix, in order.
pub fn starting_with(tx: &mut Tx<'_>, prefix: &str, limit: u32) -> Result<Vec<ExecutionId>> {
    let end = format!("{prefix}\u{7f}");
    let sql = "SELECT id FROM executions WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3";
    tx.all(sql, params![prefix, &end, limit], |row| row.get(0))
}

/// Sets the session of an execution in flight. Returns false if it is not in flight.
pub fn set_session(tx: &mut Tx<'_>, id: &ExecutionId, session: &SessionId) -> Result<bool> {
    let sql = "UPDATE executions SET session_id = ?2 WHERE id = ?1 AND finished_at IS NULL";
    Ok(tx.execute(sql, params![id, session])? == 1)
}

/// Ends an execution in flight. Returns false if it is not in flight.
pub fn finish(tx: &mut Tx<'_>, id: &ExecutionId, end: &EndRow) -> Result<bool> {
    let sql = "UPDATE executions SET finished_at = ?2, success = ?3, error = ?4, turns = ?5, duration_ms = ?6, \
               cost_picos = ?7, input_tokens = ?8, cache_creation_input_tokens = ?9, cache_read_input_tokens = ?10, \
               output_tokens = ?11, api_duration_ms = ?12, stop_reason = ?13 WHERE id = ?1 AND finished_at IS NULL";
    let values = [vec![id.into()], end.values()].concat();
    Ok(tx.execute(sql, &values)? == 1)
}

/// Returns the execution of a run's phase that is in flight, with true; otherwise the last one that succeeded, with
/// false.
pub fn standing(tx: &mut Tx<'_>, run: &RunId, skill: &str) -> Result<Option<(ExecutionId, bool)>> {
    let sql = "SELECT id FROM executions WHERE workflow_run_id = ?1 AND skill = ?2 AND finished_at IS NULL";
    if let Some(id) = tx.find(sql, params![run, skill], |row| row.get(0))? {
        return Ok(Some((id, true)));
    }
    let sql = "SELECT id FROM executions WHERE workflow_run_id = ?1 AND skill = ?2 AND success = 1 \
               ORDER BY started_at DESC, id DESC LIMIT 1";
    Ok(tx.find(sql, params![run, skill], |row| row.get(0))?.map(|id| (id, false)))
}

/// Returns the executions of a run in flight, after this skill, by skill. A phase has at most one.
pub fn in_flight(tx: &mut Tx<'_>, run: &RunId, after: &str, limit: u32) -> Result<Vec<ExecutionRow>> {
    let sql = concat!(
        "SELECT ",
        columns!(),
        " FROM executions WHERE workflow_run_id = ?1 AND finished_at IS NULL AND skill > ?3 ORDER BY skill LIMIT ?2"
    );
    tx.all(sql, params![run, limit, after], ExecutionRow::read)
}

/// Returns the executions of a run after this one, by phase and start.
pub fn of_run(tx: &mut Tx<'_>, run: &RunId, after: Option<&ExecutionRow>, limit: u32) -> Result<Vec<ExecutionRow>> {
    const FIRST: &str = concat!(
        "SELECT ",
        columns!(),
        " FROM executions WHERE workflow_run_id = ?1 ORDER BY skill, started_at, id LIMIT ?2"
    );
    const NEXT: &str = concat!(
        "SELECT ",
        columns!(),
        " FROM executions WHERE workflow_run_id = ?1 AND (skill, started_at, id) > (?3, ?4, ?5) \
         ORDER BY skill, started_at, id LIMIT ?2"
    );
    match after {
        None => tx.all(FIRST, params![run, limit], ExecutionRow::read),
        Some(last) => tx.all(NEXT, params![run, limit, &last.skill, last.started_at, &last.id], ExecutionRow::read),
    }
}

/// Returns the executions of a trigger after this one, newest first.
pub fn of_trigger(
    tx: &mut Tx<'_>,
    kind: TriggerType,
    trigger: &str,
    after: Option<(Timestamp, &ExecutionId)>,
    limit: u32,
) -> Result<Vec<ExecutionRow>> {
    const FIRST: &str = concat!(
        "SELECT ",
        columns!(),
        " FROM executions WHERE trigger_type = ?1 AND trigger_id = ?2 ORDER BY started_at DESC, id DESC LIMIT ?3"
    );
    const NEXT: &str = concat!(
        "SELECT ",
        columns!(),
        " FROM executions WHERE trigger_type = ?1 AND trigger_id = ?2 AND (started_at, id) < (?4, ?5) \
         ORDER BY started_at DESC, id DESC LIMIT ?3"
    );
    match after {
        Some((at, id)) => tx.all(NEXT, params![kind, trigger, limit, at, id], ExecutionRow::read),
        None => tx.all(FIRST, params![kind, trigger, limit], ExecutionRow::read),
    }
}

/// Returns the executions with an error after this one, newest first.
pub fn with_error(tx: &mut Tx<'_>, after: Option<(Timestamp, &ExecutionId)>, limit: u32) -> Result<Vec<ExecutionRow>> {
    const FIRST: &str = concat!(
        "SELECT ",
        columns!(),
        " FROM executions WHERE error IS NOT NULL ORDER BY started_at DESC, id DESC LIMIT ?1"
    );
    const NEXT: &str = concat!(
        "SELECT ",
        columns!(),
        " FROM executions WHERE error IS NOT NULL AND (started_at, id) < (?2, ?3) \
         ORDER BY started_at DESC, id DESC LIMIT ?1"
    );
    match after {
        None => tx.all(FIRST, params![limit], ExecutionRow::read),
        Some((at, id)) => tx.all(NEXT, params![limit, at, id], ExecutionRow::read),
    }
}

//! `executions`: the ledger of what was run. It says what is done, and resuming asks nothing else.

use duolog_types::{ExecutionId, HomeId, Moment, RunId, SessionId, TriggerType};

use crate::engine::{Row, Tx};
use crate::error::Result;
use crate::params;

macro_rules! columns {
    () => {
        "id, home_id, trigger_type, trigger_id, skill, owner, repo, issue_number, started_at, finished_at, success, \
         error, turns, duration_ms, session_id, cost_picos, input_tokens, cache_creation_input_tokens, \
         cache_read_input_tokens, output_tokens, api_duration_ms, stop_reason, workflow_run_id, triggered_by, fence"
    };
}

/// An execution. What it said is in `execution_bodies`.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutionRow {
    /// Its id.
    pub id: ExecutionId,
    /// The home that started it.
    pub home_id: HomeId,
    /// What kind of thing set it off.
    pub trigger_type: TriggerType,
    /// What set it off.
    pub trigger_id: String,
    /// What it does: a workflow, a colon and a phase, or `chat`.
    pub skill: String,
    /// Whose repository it works on.
    pub owner: Option<String>,
    /// The repository, without its owner.
    pub repo: Option<String>,
    /// The issue.
    pub issue_number: Option<u64>,
    /// When it began.
    pub started_at: Moment,
    /// The run that it is of.
    pub workflow_run_id: Option<RunId>,
    /// Who set it off.
    pub triggered_by: Option<String>,
    /// The claim of its run that it was begun under; 0 outside a run.
    pub fence: u64,
    /// The session whose log tells of it.
    pub session_id: Option<SessionId>,
    /// How it ended; nothing while it is in flight.
    pub end: Option<EndRow>,
}

/// How an execution ended.
#[derive(Debug, Clone, PartialEq)]
pub struct EndRow {
    /// When.
    pub finished_at: Moment,
    /// Whether well.
    pub success: bool,
    /// Why not.
    pub error: Option<String>,
    /// How many turns it took.
    pub turns: Option<u64>,
    /// How long it took.
    pub duration_ms: Option<u64>,
    /// What it cost, in picodollars.
    pub cost_picos: Option<u64>,
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
    /// Why it stopped, in a word.
    pub stop_reason: Option<String>,
}

impl ExecutionRow {
    fn read(row: &Row<'_>) -> Result<Self> {
        let end = match (row.get::<Option<Moment>>(9)?, row.get::<Option<bool>>(10)?) {
            (Some(finished_at), Some(success)) => Some(EndRow {
                finished_at,
                success,
                error: row.get(11)?,
                turns: row.get(12)?,
                duration_ms: row.get(13)?,
                cost_picos: row.get(15)?,
                input_tokens: row.get(16)?,
                cache_creation_input_tokens: row.get(17)?,
                cache_read_input_tokens: row.get(18)?,
                output_tokens: row.get(19)?,
                api_duration_ms: row.get(20)?,
                stop_reason: row.get(21)?,
            }),
            _ => None,
        };
        Ok(Self {
            id: row.get(0)?,
            home_id: row.get(1)?,
            trigger_type: row.get(2)?,
            trigger_id: row.get(3)?,
            skill: row.get(4)?,
            owner: row.get(5)?,
            repo: row.get(6)?,
            issue_number: row.get(7)?,
            started_at: row.get(8)?,
            session_id: row.get(14)?,
            workflow_run_id: row.get(22)?,
            triggered_by: row.get(23)?,
            fence: row.get(24)?,
            end,
        })
    }
}

/// Adds an execution. A second one in flight of the same phase of a run is a unique-constraint error.
pub fn insert(tx: &mut Tx<'_>, row: &ExecutionRow) -> Result<()> {
    let sql = concat!(
        "INSERT INTO executions (",
        columns!(),
        ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, \
         ?22, ?23, ?24, ?25)"
    );
    let end = row.end.as_ref();
    let values = params![
        &row.id,
        row.home_id,
        row.trigger_type,
        &row.trigger_id,
        &row.skill,
        row.owner.as_ref(),
        row.repo.as_ref(),
        row.issue_number,
        row.started_at,
        end.map(|end| end.finished_at),
        end.map(|end| end.success),
        end.and_then(|end| end.error.as_ref()),
        end.and_then(|end| end.turns),
        end.and_then(|end| end.duration_ms),
        row.session_id.as_ref(),
        end.and_then(|end| end.cost_picos),
        end.and_then(|end| end.input_tokens),
        end.and_then(|end| end.cache_creation_input_tokens),
        end.and_then(|end| end.cache_read_input_tokens),
        end.and_then(|end| end.output_tokens),
        end.and_then(|end| end.api_duration_ms),
        end.and_then(|end| end.stop_reason.as_ref()),
        row.workflow_run_id.as_ref(),
        row.triggered_by.as_ref(),
        row.fence,
    ];
    tx.execute(sql, values).map(drop)
}

/// The execution with this id.
pub fn find(tx: &mut Tx<'_>, id: &ExecutionId) -> Result<Option<ExecutionRow>> {
    tx.find(concat!("SELECT ", columns!(), " FROM executions WHERE id = ?1"), params![id], ExecutionRow::read)
}

/// The ids that begin with a text, in order.
pub fn starting_with(tx: &mut Tx<'_>, prefix: &str, limit: u32) -> Result<Vec<ExecutionId>> {
    let end = format!("{prefix}\u{7f}");
    let sql = "SELECT id FROM executions WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3";
    tx.all(sql, params![prefix, &end, limit], |row| row.get(0))
}

/// Sets the session of an execution that is in flight; false if it is not.
pub fn set_session(tx: &mut Tx<'_>, id: &ExecutionId, session: &SessionId) -> Result<bool> {
    let sql = "UPDATE executions SET session_id = ?2 WHERE id = ?1 AND finished_at IS NULL";
    Ok(tx.execute(sql, params![id, session])? == 1)
}

/// Ends an execution that is in flight; false where it is not.
pub fn finish(tx: &mut Tx<'_>, id: &ExecutionId, end: &EndRow) -> Result<bool> {
    let sql = "UPDATE executions SET finished_at = ?2, success = ?3, error = ?4, turns = ?5, duration_ms = ?6, \
               cost_picos = ?7, input_tokens = ?8, cache_creation_input_tokens = ?9, cache_read_input_tokens = ?10, \
               output_tokens = ?11, api_duration_ms = ?12, stop_reason = ?13 WHERE id = ?1 AND finished_at IS NULL";
    let values = params![
        id,
        end.finished_at,
        end.success,
        end.error.as_ref(),
        end.turns,
        end.duration_ms,
        end.cost_picos,
        end.input_tokens,
        end.cache_creation_input_tokens,
        end.cache_read_input_tokens,
        end.output_tokens,
        end.api_duration_ms,
        end.stop_reason.as_ref(),
    ];
    Ok(tx.execute(sql, values)? == 1)
}

/// What the ledger says of a phase of a run: the execution in flight, else the one that did it; the second tells which.
pub fn standing(tx: &mut Tx<'_>, run: &RunId, skill: &str) -> Result<Option<(ExecutionId, bool)>> {
    let sql = "SELECT id FROM executions WHERE workflow_run_id = ?1 AND skill = ?2 AND finished_at IS NULL";
    if let Some(id) = tx.find(sql, params![run, skill], |row| row.get(0))? {
        return Ok(Some((id, true)));
    }
    let sql = "SELECT id FROM executions WHERE workflow_run_id = ?1 AND skill = ?2 AND success = 1 \
               ORDER BY started_at DESC, id DESC LIMIT 1";
    Ok(tx.find(sql, params![run, skill], |row| row.get(0))?.map(|id| (id, false)))
}

/// The executions of a run that are in flight, by skill, after this one. There is one a phase at most.
pub fn in_flight(tx: &mut Tx<'_>, run: &RunId, after: &str, limit: u32) -> Result<Vec<ExecutionRow>> {
    let sql = concat!(
        "SELECT ",
        columns!(),
        " FROM executions WHERE workflow_run_id = ?1 AND finished_at IS NULL AND skill > ?3 ORDER BY skill LIMIT ?2"
    );
    tx.all(sql, params![run, limit, after], ExecutionRow::read)
}

/// The executions of a run, by phase and in the order they began, from behind one on.
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

/// The executions that something set off, newest first, from behind one on.
pub fn of_trigger(
    tx: &mut Tx<'_>,
    kind: TriggerType,
    trigger: &str,
    after: Option<(Moment, &ExecutionId)>,
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

/// Executions that have an error, newest first, from behind one on.
pub fn with_error(tx: &mut Tx<'_>, after: Option<(Moment, &ExecutionId)>, limit: u32) -> Result<Vec<ExecutionRow>> {
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

//! `workflow_runs`: one row per run. Data that can grow is in the tables `workflow_run_*`.

use duolog_types::{HomeId, RunId, RunStatus, SessionId, Timestamp, TriggerType};

use crate::engine::{Columns, Row, Sql, Tx, Value, row};
use crate::error::Result;
use crate::params;

/// The columns that may change without a change of status. No index contains them.
macro_rules! plain_columns {
    () => {
        "current_phase = ?4, error = ?5, lease_owner = ?6, lease_expires_at = ?7, fence = ?8, restart_count = ?9, \
         retry_count = ?10, actor = ?11, phases = ?12, phases_bytes = ?13, scratch_bytes = ?14, nodes_bytes = ?15, \
         cost_picos = ?16, tokens = ?17, updated_at = ?18, finished_at = ?19"
    };
}

/// The condition that the run is as the caller read it.
macro_rules! unchanged {
    () => {
        " WHERE id = ?1 AND status = ?2 AND fence = ?3"
    };
}

/// A position in the queue. Runs are admitted in the order of their positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePlace {
    /// True for a resumed run, which comes before runs that have not started.
    pub is_resumed: bool,
    /// The queue number, in the order of arrival.
    pub ord: u64,
    /// When it was queued.
    pub at: Timestamp,
}

impl QueuePlace {
    fn rank(self) -> u32 {
        u32::from(!self.is_resumed)
    }
}

impl Columns for Option<QueuePlace> {
    fn read_at(row: &Row<'_>, at: &mut usize) -> Result<Self> {
        let (ord, queued_at): (Option<u64>, Option<Timestamp>) = (row.next(at)?, row.next(at)?);
        let is_resumed = row.next::<u32>(at)? == 0;
        Ok(ord.zip(queued_at).map(|(ord, at)| QueuePlace { is_resumed, ord, at }))
    }

    fn add_to<'v>(&'v self, values: &mut Vec<Value<'v>>) {
        let (ord, at) = (self.map(|place| place.ord), self.map(|place| place.at));
        values.extend([ord.into(), at.into(), self.map_or(1, QueuePlace::rank).into()]);
    }
}

/// A run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRow {
    /// Its id.
    pub id: RunId,
    /// The home that started it.
    pub home_id: HomeId,
    /// Its workflow.
    pub workflow_name: String,
    /// The type of its trigger.
    pub trigger_type: TriggerType,
    /// The id of its trigger: an issue, a thread, a schedule.
    pub trigger_id: String,
    /// The owner of its repository.
    pub owner: Option<String>,
    /// Its repository, without the owner.
    pub repo: Option<String>,
    /// Its issue number.
    pub issue_number: Option<u64>,
    /// Its current or last phase.
    pub current_phase: String,
    /// Its status.
    pub status: RunStatus,
    /// Its position in the queue, while it is queued.
    pub queued: Option<QueuePlace>,
    /// The session whose log records it.
    pub session_id: Option<SessionId>,
    /// Why it failed or was cancelled.
    pub error: Option<String>,
    /// The owner of its claim.
    pub lease_owner: Option<String>,
    /// When its lease expires. For a run without an owner: when the time to claim it ends.
    pub lease_expires_at: Option<Timestamp>,
    /// The number of claims. Writes of an earlier claim are refused.
    pub fence: u64,
    /// The number of times it was recovered from a dead owner.
    pub restart_count: u32,
    /// The maximum of `restart_count`.
    pub restart_cap: u32,
    /// The number of retries after its end.
    pub retry_count: u32,
    /// The user who triggered it.
    pub triggered_by: Option<String>,
    /// The user who changed its status last.
    pub actor: Option<String>,
    /// The number of entries in `workflow_run_phases`.
    pub phases: u64,
    /// The size of those entries in bytes.
    pub phases_bytes: u64,
    /// The size of its scratch in bytes.
    pub scratch_bytes: u64,
    /// The size of its nodes in bytes.
    pub nodes_bytes: u64,
    /// The cost of its executions in picodollars, as far as reported.
    pub cost_picos: Option<u64>,
    /// All tokens of its executions, as far as reported.
    pub tokens: Option<u64>,
    /// When it was started.
    pub started_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it finished.
    pub finished_at: Option<Timestamp>,
}

row!(RunRow, columns:
    id, home_id, workflow_name, trigger_type, trigger_id, owner, repo, issue_number, current_phase, status,
    session_id, error, lease_owner, lease_expires_at, fence, restart_count, restart_cap, retry_count, triggered_by,
    actor, phases, phases_bytes, scratch_bytes, nodes_bytes, cost_picos, tokens, started_at, updated_at, finished_at;
    queued as "queue_ord, queued_at, queue_rank"
);

/// A run in a list, without its error and without data that can grow (I5).
#[derive(Debug, Clone, PartialEq)]
pub struct RunSummaryRow {
    /// Its id.
    pub id: RunId,
    /// Its workflow.
    pub workflow_name: String,
    /// The type of its trigger.
    pub trigger_type: TriggerType,
    /// The id of its trigger.
    pub trigger_id: String,
    /// The owner of its repository.
    pub owner: Option<String>,
    /// Its repository, without the owner.
    pub repo: Option<String>,
    /// Its issue number.
    pub issue_number: Option<u64>,
    /// Its current or last phase.
    pub current_phase: String,
    /// Its status.
    pub status: RunStatus,
    /// The session whose log records it.
    pub session_id: Option<SessionId>,
    /// The owner of its claim.
    pub lease_owner: Option<String>,
    /// The number of times it was recovered from a dead owner.
    pub restart_count: u32,
    /// The number of retries after its end.
    pub retry_count: u32,
    /// The user who triggered it.
    pub triggered_by: Option<String>,
    /// The cost of its executions in picodollars, as far as reported.
    pub cost_picos: Option<u64>,
    /// All tokens of its executions, as far as reported.
    pub tokens: Option<u64>,
    /// When it was started.
    pub started_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it finished.
    pub finished_at: Option<Timestamp>,
    /// The end of its lease; `None` if it is not running.
    pub lease_expires_at: Option<Timestamp>,
}

row!(RunSummaryRow, summary_columns:
    id, workflow_name, trigger_type, trigger_id, owner, repo, issue_number, current_phase, status, session_id,
    lease_owner, restart_count, retry_count, triggered_by, cost_picos, tokens, started_at, updated_at,
    finished_at, lease_expires_at
);

/// Inserts a run. A second active run of its workflow and trigger is a [`crate::ConstraintKind::Unique`] error.
pub fn insert(tx: &mut Tx<'_>, row: &RunRow) -> Result<()> {
    let sql = concat!(
        "INSERT INTO workflow_runs (",
        columns!(),
        ", active_rank) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, \
         ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33)"
    );
    let mut values = row.values();
    values.push(row.status.active_rank().into());
    tx.execute(sql, &values).map(drop)
}

/// Returns the run with this id.
pub fn find(tx: &mut Tx<'_>, id: &RunId) -> Result<Option<RunRow>> {
    tx.find(concat!("SELECT ", columns!(), " FROM workflow_runs WHERE id = ?1"), params![id], RunRow::read)
}

/// Returns the run with this id and locks it for a change: on a server, no other transaction changes it before this one
/// ends, and those that waited are retried.
pub fn enter(tx: &mut Tx<'_>, id: &RunId) -> Result<Option<RunRow>> {
    const FIND: &str = concat!("SELECT ", columns!(), " FROM workflow_runs WHERE id = ?1");
    const LOCK: &str = concat!("SELECT ", columns!(), " FROM workflow_runs WHERE id = ?1 FOR UPDATE");
    tx.find(Sql::each(FIND, LOCK), params![id], RunRow::read)
}

/// Returns the ids with this prefix, in order.
pub fn starting_with(tx: &mut Tx<'_>, prefix: &str, limit: u32) -> Result<Vec<RunId>> {
    // Every byte of an id is below this one, so all ids with the prefix are between the two.
    let end = format!("{prefix}\u{7f}");
    let sql = "SELECT id FROM workflow_runs WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3";
    tx.all(sql, params![prefix, &end, limit], |row| row.get(0))
}

/// Returns the active run of a workflow and a trigger, if any.
pub fn find_active(tx: &mut Tx<'_>, workflow: &str, trigger: &str) -> Result<Option<RunRow>> {
    let sql = concat!(
        "SELECT ",
        columns!(),
        " FROM workflow_runs WHERE workflow_name = ?1 AND trigger_id = ?2 AND active_rank < 3"
    );
    tx.find(sql, params![workflow, trigger], RunRow::read)
}

/// Writes the changes of a run. Returns false if its status or fence is not that of `before`.
///
/// Columns that are set at the start are not written. If neither status nor queue position changes, no index is
/// updated.
pub fn put(tx: &mut Tx<'_>, before: &RunRow, after: &RunRow) -> Result<bool> {
    const PLAIN: &str = concat!("UPDATE workflow_runs SET ", plain_columns!(), unchanged!());
    const STATUS: &str =
        concat!("UPDATE workflow_runs SET ", plain_columns!(), ", status = ?20, active_rank = ?21", unchanged!());
    const QUEUE: &str = concat!(
        "UPDATE workflow_runs SET ",
        plain_columns!(),
        ", status = ?20, active_rank = ?21, queue_ord = ?22, queued_at = ?23, queue_rank = ?24",
        unchanged!()
    );
    let mut values = vec![
        (&before.id).into(),
        before.status.into(),
        before.fence.into(),
        (&after.current_phase).into(),
        after.error.as_ref().into(),
        after.lease_owner.as_ref().into(),
        after.lease_expires_at.into(),
        after.fence.into(),
        after.restart_count.into(),
        after.retry_count.into(),
        after.actor.as_ref().into(),
        after.phases.into(),
        after.phases_bytes.into(),
        after.scratch_bytes.into(),
        after.nodes_bytes.into(),
        after.cost_picos.into(),
        after.tokens.into(),
        after.updated_at.into(),
        after.finished_at.into(),
    ];
    let mut sql = PLAIN;
    if before.status != after.status || before.queued != after.queued {
        sql = STATUS;
        values.extend([after.status.into(), Value::from(after.status.active_rank())]);
    }
    if before.queued != after.queued {
        sql = QUEUE;
        values.extend([
            after.queued.map(|place| place.ord).into(),
            Value::from(after.queued.map(|place| place.at)),
            after.queued.map_or(1, QueuePlace::rank).into(),
        ]);
    }
    Ok(tx.execute(sql, &values)? == 1)
}

/// Returns the number of running runs.
pub fn count_running(tx: &mut Tx<'_>) -> Result<u64> {
    let sql = "SELECT COUNT(*) FROM workflow_runs WHERE status = 'running'";
    Ok(tx.find(sql, &[], |row| row.get(0))?.unwrap_or_default())
}

/// Returns the queued runs after a position, in the order of admission.
pub fn queued(tx: &mut Tx<'_>, after: Option<QueuePlace>, limit: u32) -> Result<Vec<RunRow>> {
    const FIRST: &str = concat!(
        "SELECT ",
        columns!(),
        " FROM workflow_runs WHERE queue_ord IS NOT NULL ORDER BY queue_rank, queue_ord LIMIT ?1"
    );
    const NEXT: &str = concat!(
        "SELECT ",
        columns!(),
        " FROM workflow_runs WHERE queue_ord IS NOT NULL AND (queue_rank, queue_ord) > (?2, ?3) \
         ORDER BY queue_rank, queue_ord LIMIT ?1"
    );
    match after {
        None => tx.all(FIRST, params![limit], RunRow::read),
        Some(place) => tx.all(NEXT, params![limit, place.rank(), place.ord], RunRow::read),
    }
}

/// Restarts the waiting time of a workflow's queued runs.
pub fn restart_wait(tx: &mut Tx<'_>, workflow: &str, now: Timestamp) -> Result<usize> {
    let sql =
        "UPDATE workflow_runs SET queued_at = ?2 WHERE workflow_name = ?1 AND status = 'queued' AND queued_at < ?2";
    tx.execute(sql, params![workflow, now])
}

/// A running run that can be claimed: its start, its id and its workflow.
pub type ClaimableRun = (Timestamp, RunId, String);

/// Returns the running runs with an expired lease after this one, newest first. All running runs are scanned: they are
/// few.
pub fn expired(
    tx: &mut Tx<'_>,
    now: Timestamp,
    after: Option<&(Timestamp, RunId)>,
    limit: u32,
) -> Result<Vec<ClaimableRun>> {
    let first = "SELECT started_at, id, workflow_name FROM workflow_runs \
                 WHERE status = 'running' AND lease_expires_at <= ?1 ORDER BY started_at DESC, id DESC LIMIT ?2";
    let next = "SELECT started_at, id, workflow_name FROM workflow_runs \
                WHERE status = 'running' AND lease_expires_at <= ?1 AND (started_at, id) < (?3, ?4) \
                ORDER BY started_at DESC, id DESC LIMIT ?2";
    select_claimable(tx, [first, next], now, after, limit)
}

/// Returns the running runs without a claim or with an expired lease after this one, oldest first.
pub fn claimable(
    tx: &mut Tx<'_>,
    now: Timestamp,
    after: Option<&(Timestamp, RunId)>,
    limit: u32,
) -> Result<Vec<ClaimableRun>> {
    let first = "SELECT started_at, id, workflow_name FROM workflow_runs \
                 WHERE status = 'running' AND (lease_owner IS NULL OR lease_expires_at <= ?1) \
                 ORDER BY started_at, id LIMIT ?2";
    let next = "SELECT started_at, id, workflow_name FROM workflow_runs \
                WHERE status = 'running' AND (lease_owner IS NULL OR lease_expires_at <= ?1) \
                AND (started_at, id) > (?3, ?4) ORDER BY started_at, id LIMIT ?2";
    select_claimable(tx, [first, next], now, after, limit)
}

fn select_claimable(
    tx: &mut Tx<'_>,
    [first, next]: [&'static str; 2],
    now: Timestamp,
    after: Option<&(Timestamp, RunId)>,
    limit: u32,
) -> Result<Vec<ClaimableRun>> {
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    match after {
        Some((at, id)) => tx.all(next, params![now, limit, *at, id], read),
        None => tx.all(first, params![now, limit], read),
    }
}

/// Returns the names of workflows with runs after this one, in order. Each name costs one lookup, however many runs it
/// has.
pub fn names(tx: &mut Tx<'_>, after: &str, limit: u32) -> Result<Vec<String>> {
    let sql = "SELECT workflow_name FROM workflow_runs WHERE workflow_name > ?1 ORDER BY workflow_name LIMIT 1";
    let mut names: Vec<String> = Vec::new();
    while names.len() < limit as usize {
        let last = names.last().map_or(after, String::as_str);
        match tx.find(sql, params![last], |row| row.get(0))? {
            Some(name) => names.push(name),
            None => break,
        }
    }
    Ok(names)
}

/// Returns the number of runs per status.
pub fn count_by_status(tx: &mut Tx<'_>) -> Result<Vec<(RunStatus, u64)>> {
    let sql = "SELECT status, COUNT(*) FROM workflow_runs GROUP BY status ORDER BY status";
    tx.all(sql, &[], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// A set of runs that one index lists, newest first.
#[derive(Debug, Clone, PartialEq)]
pub enum RunsOf {
    /// All runs.
    All,
    /// Runs with this status.
    Status(RunStatus),
    /// Runs of this workflow.
    Workflow(String),
    /// Runs on a repository: its owner, or any, and its name.
    Repo(Option<String>, String),
    /// Runs with this trigger.
    Trigger(String),
}

/// The filter of a count of runs. `None` does not filter.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunFilter {
    /// Only runs with one of these statuses; empty does not filter.
    pub statuses: Vec<RunStatus>,
    /// Only runs of this workflow.
    pub workflow_name: Option<String>,
    /// Only runs on this repository, of this owner or of any.
    pub repo: Option<(Option<String>, String)>,
    /// Only runs with this trigger.
    pub trigger_id: Option<String>,
    /// Only runs that were started at this time or later.
    pub since: Option<Timestamp>,
}

/// A statement under construction, with its values.
struct Statement<'a> {
    sql: String,
    values: Vec<Value<'a>>,
}

impl<'a> Statement<'a> {
    /// Appends a clause with one value, written as `?#`.
    fn and(&mut self, clause: &str, value: impl Into<Value<'a>>) {
        self.values.push(value.into());
        self.sql.push_str(&clause.replace("?#", &format!("?{}", self.values.len())));
    }

    /// Appends a condition on the repository, in the form of the index with or without the owner.
    fn repo(&mut self, owner: Option<&'a String>, repo: &'a String) {
        match owner {
            Some(owner) => {
                self.and(" AND COALESCE(owner, '') = ?#", owner);
                self.and(" AND repo = ?#", repo);
            }
            // The expression of its own index, so that a list with an owner does not use that one.
            None => self.and(" AND (repo || '') = ?#", repo),
        }
    }
}

/// Returns runs of a set after this one, newest first.
pub fn list(
    tx: &mut Tx<'_>,
    of: &RunsOf,
    since: Option<Timestamp>,
    after: Option<(Timestamp, &RunId)>,
    limit: u32,
) -> Result<Vec<RunSummaryRow>> {
    let Statement { sql, values } = list_statement(of, since, after, limit);
    tx.all(&sql, &values, RunSummaryRow::read)
}

/// The statement of [`list`]. Each set has an index in exactly this order.
fn list_statement<'a>(
    of: &'a RunsOf,
    since: Option<Timestamp>,
    after: Option<(Timestamp, &'a RunId)>,
    limit: u32,
) -> Statement<'a> {
    let sql = concat!("SELECT ", summary_columns!(), " FROM workflow_runs WHERE 1 = 1").to_owned();
    let mut list = Statement { sql, values: Vec::new() };
    match of {
        RunsOf::All => {}
        RunsOf::Status(status) => list.and(" AND status = ?#", *status),
        RunsOf::Workflow(name) => list.and(" AND workflow_name = ?#", name),
        RunsOf::Repo(owner, repo) => list.repo(owner.as_ref(), repo),
        RunsOf::Trigger(trigger) => list.and(" AND trigger_id = ?#", trigger),
    }
    if let Some(since) = since {
        list.and(" AND started_at >= ?#", since);
    }
    if let Some((at, id)) = after {
        list.and(" AND (started_at, id) < (?#", at);
        list.and(", ?#)", id);
    }
    list.and(" ORDER BY started_at DESC, id DESC LIMIT ?#", limit);
    list
}

/// Returns the engine's plan for [`list`], a line per step, for a test that it uses its index.
pub fn explain_list(
    tx: &mut Tx<'_>,
    of: &RunsOf,
    since: Option<Timestamp>,
    after: Option<(Timestamp, &RunId)>,
) -> Result<Vec<String>> {
    let Statement { sql, values } = list_statement(of, since, after, 21);
    let (sqlite, postgres) = (format!("EXPLAIN QUERY PLAN {sql}"), format!("EXPLAIN (COSTS OFF) {sql}"));
    tx.all(Sql::each(&sqlite, &postgres), &values, |row| row.get(row.width() - 1))
}

/// Returns the number of runs that match the filter. It counts all of them, so it is slow for many.
pub fn count(tx: &mut Tx<'_>, filter: &RunFilter) -> Result<u64> {
    let mut count = Statement { sql: "SELECT COUNT(*) FROM workflow_runs WHERE 1 = 1".to_owned(), values: Vec::new() };
    if let [first, rest @ ..] = filter.statuses.as_slice() {
        count.and(" AND status IN (?#", *first);
        for status in rest {
            count.and(", ?#", *status);
        }
        count.sql.push(')');
    }
    if let Some(name) = &filter.workflow_name {
        count.and(" AND workflow_name = ?#", name);
    }
    if let Some((owner, repo)) = &filter.repo {
        count.repo(owner.as_ref(), repo);
    }
    if let Some(trigger) = &filter.trigger_id {
        count.and(" AND trigger_id = ?#", trigger);
    }
    if let Some(since) = filter.since {
        count.and(" AND started_at >= ?#", since);
    }
    Ok(tx.find(&count.sql, &count.values, |row| row.get(0))?.unwrap_or_default())
}

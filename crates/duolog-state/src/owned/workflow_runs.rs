//! `workflow_runs`: one row per run. What can grow stands in the tables `workflow_run_*`.

use duolog_types::{HomeId, RunId, RunStatus, SessionId, Timestamp, TriggerType};

use crate::engine::{Columns, Row, Sql, Tx, Value, row};
use crate::error::Result;
use crate::params;

/// What may change of a run without a change of its status. No index has any of these.
macro_rules! noted {
    () => {
        "current_phase = ?4, error = ?5, lease_owner = ?6, lease_expires_at = ?7, fence = ?8, restart_count = ?9, \
         retry_count = ?10, actor = ?11, phases = ?12, phases_bytes = ?13, scratch_bytes = ?14, nodes_bytes = ?15, \
         cost_picos = ?16, tokens = ?17, updated_at = ?18, finished_at = ?19"
    };
}

/// As whoever changes a run saw it.
macro_rules! seen {
    () => {
        " WHERE id = ?1 AND status = ?2 AND fence = ?3"
    };
}

/// A place in the queue. Places compare as the queue is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePlace {
    /// True for a run that was resumed, which waits before those that have not begun.
    pub is_resumed: bool,
    /// The number that was drawn, in the order of arrival.
    pub ord: u64,
    /// Since when.
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

/// A run, whole.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRow {
    /// Its id.
    pub id: RunId,
    /// The home that started it.
    pub home_id: HomeId,
    /// What it is a run of.
    pub workflow_name: String,
    /// What kind of thing set it off.
    pub trigger_type: TriggerType,
    /// What set it off: an issue, a thread, a schedule.
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
    /// Its place in the queue, while it waits there.
    pub queued: Option<QueuePlace>,
    /// The session whose log tells of it.
    pub session_id: Option<SessionId>,
    /// Why it failed or was cancelled.
    pub error: Option<String>,
    /// Who runs it.
    pub lease_owner: Option<String>,
    /// Until when whoever runs it, or is to take it up, is waited for.
    pub lease_expires_at: Option<Timestamp>,
    /// How often it was claimed: writes of an earlier claim are refused.
    pub fence: u64,
    /// How often it was taken over from an owner that died.
    pub restart_count: u32,
    /// How often it may be.
    pub restart_cap: u32,
    /// How often somebody had it run again after its end.
    pub retry_count: u32,
    /// Who set it off.
    pub triggered_by: Option<String>,
    /// Who changed its status last.
    pub actor: Option<String>,
    /// How many entries its history has.
    pub phases: u64,
    /// Their bytes.
    pub phases_bytes: u64,
    /// The bytes of its scratch.
    pub scratch_bytes: u64,
    /// The bytes of what is said of its nodes.
    pub nodes_bytes: u64,
    /// What its executions cost, in picodollars, as far as they said.
    pub cost_picos: Option<u64>,
    /// Their tokens of all kinds, as far as they said.
    pub tokens: Option<u64>,
    /// When it was started.
    pub started_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it came to its end.
    pub finished_at: Option<Timestamp>,
}

row!(RunRow, columns:
    id, home_id, workflow_name, trigger_type, trigger_id, owner, repo, issue_number, current_phase, status,
    session_id, error, lease_owner, lease_expires_at, fence, restart_count, restart_cap, retry_count, triggered_by,
    actor, phases, phases_bytes, scratch_bytes, nodes_bytes, cost_picos, tokens, started_at, updated_at, finished_at;
    queued as "queue_ord, queued_at, queue_rank"
);

/// A run in a list, without its error and what can grow (I5).
#[derive(Debug, Clone, PartialEq)]
pub struct RunSummaryRow {
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
    /// How often it was taken over from an owner that died.
    pub restart_count: u32,
    /// How often somebody had it run again after its end.
    pub retry_count: u32,
    /// Who set it off.
    pub triggered_by: Option<String>,
    /// What its executions cost, in picodollars, as far as they said.
    pub cost_picos: Option<u64>,
    /// Their tokens of all kinds, as far as they said.
    pub tokens: Option<u64>,
    /// When it was started.
    pub started_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it came to its end.
    pub finished_at: Option<Timestamp>,
    /// The end of its lease; `None` if it is not running.
    pub lease_expires_at: Option<Timestamp>,
}

row!(RunSummaryRow, summary_columns:
    id, workflow_name, trigger_type, trigger_id, owner, repo, issue_number, current_phase, status, session_id,
    lease_owner, restart_count, retry_count, triggered_by, cost_picos, tokens, started_at, updated_at,
    finished_at, lease_expires_at
);

/// Adds a run. A second active one of its workflow and trigger is a [`crate::ConstraintKind::Unique`] error.
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

/// The run with this id.
pub fn find(tx: &mut Tx<'_>, id: &RunId) -> Result<Option<RunRow>> {
    tx.find(concat!("SELECT ", columns!(), " FROM workflow_runs WHERE id = ?1"), params![id], RunRow::read)
}

/// The run with this id, which is to be changed: on a server nobody else changes it before this transaction ends, and who
/// waited for that begins anew.
pub fn enter(tx: &mut Tx<'_>, id: &RunId) -> Result<Option<RunRow>> {
    const FIND: &str = concat!("SELECT ", columns!(), " FROM workflow_runs WHERE id = ?1");
    const LOCK: &str = concat!("SELECT ", columns!(), " FROM workflow_runs WHERE id = ?1 FOR UPDATE");
    tx.find(Sql::each(FIND, LOCK), params![id], RunRow::read)
}

/// The ids that begin with a text, in order.
pub fn starting_with(tx: &mut Tx<'_>, prefix: &str, limit: u32) -> Result<Vec<RunId>> {
    // The last byte of an id is below this one, so all that begin alike stand between the two.
    let end = format!("{prefix}\u{7f}");
    let sql = "SELECT id FROM workflow_runs WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3";
    tx.all(sql, params![prefix, &end, limit], |row| row.get(0))
}

/// The active run of a workflow and a trigger, if there is one.
pub fn find_active(tx: &mut Tx<'_>, workflow: &str, trigger: &str) -> Result<Option<RunRow>> {
    let sql = concat!(
        "SELECT ",
        columns!(),
        " FROM workflow_runs WHERE workflow_name = ?1 AND trigger_id = ?2 AND active_rank < 3"
    );
    tx.find(sql, params![workflow, trigger], RunRow::read)
}

/// Writes what changed of a run, if it stands as the caller saw, under the claim that the caller saw; false otherwise.
///
/// What it was started with stays. Where neither status nor place in the queue changes, no index is touched.
pub fn put(tx: &mut Tx<'_>, before: &RunRow, after: &RunRow) -> Result<bool> {
    const NOTE: &str = concat!("UPDATE workflow_runs SET ", noted!(), seen!());
    const TURN: &str = concat!("UPDATE workflow_runs SET ", noted!(), ", status = ?20, active_rank = ?21", seen!());
    const QUEUE: &str = concat!(
        "UPDATE workflow_runs SET ",
        noted!(),
        ", status = ?20, active_rank = ?21, queue_ord = ?22, queued_at = ?23, queue_rank = ?24",
        seen!()
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
    let mut sql = NOTE;
    if before.status != after.status || before.queued != after.queued {
        sql = TURN;
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

/// How many run.
pub fn count_running(tx: &mut Tx<'_>) -> Result<u64> {
    let sql = "SELECT COUNT(*) FROM workflow_runs WHERE status = 'running'";
    Ok(tx.find(sql, &[], |row| row.get(0))?.unwrap_or_default())
}

/// The runs in the queue in the order they are admitted, from behind a place on.
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

/// Counts the wait of a workflow's queued runs from this instant on.
pub fn restart_wait(tx: &mut Tx<'_>, workflow: &str, now: Timestamp) -> Result<usize> {
    let sql =
        "UPDATE workflow_runs SET queued_at = ?2 WHERE workflow_name = ?1 AND status = 'queued' AND queued_at < ?2";
    tx.execute(sql, params![workflow, now])
}

/// A running run that may be taken up: when it was started, its id and its workflow.
pub type Left = (Timestamp, RunId, String);

/// Returns the running runs whose lease has expired, newest first, from behind one on. All running runs are looked at:
/// they are few.
pub fn expired(tx: &mut Tx<'_>, now: Timestamp, after: Option<&(Timestamp, RunId)>, limit: u32) -> Result<Vec<Left>> {
    let first = "SELECT started_at, id, workflow_name FROM workflow_runs \
                 WHERE status = 'running' AND lease_expires_at <= ?1 ORDER BY started_at DESC, id DESC LIMIT ?2";
    let next = "SELECT started_at, id, workflow_name FROM workflow_runs \
                WHERE status = 'running' AND lease_expires_at <= ?1 AND (started_at, id) < (?3, ?4) \
                ORDER BY started_at DESC, id DESC LIMIT ?2";
    left(tx, [first, next], now, after, limit)
}

/// Returns the running runs that nobody has claimed or whose lease has expired, oldest first, from behind one on.
pub fn claimable(tx: &mut Tx<'_>, now: Timestamp, after: Option<&(Timestamp, RunId)>, limit: u32) -> Result<Vec<Left>> {
    let first = "SELECT started_at, id, workflow_name FROM workflow_runs \
                 WHERE status = 'running' AND (lease_owner IS NULL OR lease_expires_at <= ?1) \
                 ORDER BY started_at, id LIMIT ?2";
    let next = "SELECT started_at, id, workflow_name FROM workflow_runs \
                WHERE status = 'running' AND (lease_owner IS NULL OR lease_expires_at <= ?1) \
                AND (started_at, id) > (?3, ?4) ORDER BY started_at, id LIMIT ?2";
    left(tx, [first, next], now, after, limit)
}

fn left(
    tx: &mut Tx<'_>,
    [first, next]: [&'static str; 2],
    now: Timestamp,
    after: Option<&(Timestamp, RunId)>,
    limit: u32,
) -> Result<Vec<Left>> {
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    match after {
        Some((at, id)) => tx.all(next, params![now, limit, *at, id], read),
        None => tx.all(first, params![now, limit], read),
    }
}

/// The names of workflows that have runs, in order, from behind this one on. Each costs one look, however many runs.
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

/// How many runs stand how.
pub fn count_by_status(tx: &mut Tx<'_>) -> Result<Vec<(RunStatus, u64)>> {
    let sql = "SELECT status, COUNT(*) FROM workflow_runs GROUP BY status ORDER BY status";
    tx.all(sql, &[], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Runs that stand together in one index, newest first.
#[derive(Debug, Clone, PartialEq)]
pub enum RunsOf {
    /// All there are.
    All,
    /// Those that stand so.
    Status(RunStatus),
    /// Those of a workflow.
    Workflow(String),
    /// Those that work on a repository: its owner, or any, and its name.
    Repo(Option<String>, String),
    /// Those that this set off.
    Trigger(String),
}

/// Which runs are counted. Nothing said is all of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunFilter {
    /// Only those that stand in one of these ways; none is all.
    pub statuses: Vec<RunStatus>,
    /// Only those of this workflow.
    pub workflow_name: Option<String>,
    /// Only those that work on this repository of that owner, or of any.
    pub repo: Option<(Option<String>, String)>,
    /// Only those that this set off.
    pub trigger_id: Option<String>,
    /// Only those that were started then or later.
    pub since: Option<Timestamp>,
}

/// A statement on its way, and the values it has so far.
struct Building<'a> {
    sql: String,
    values: Vec<Value<'a>>,
}

impl<'a> Building<'a> {
    /// Adds text with a value where `?#` stands.
    fn and(&mut self, clause: &str, value: impl Into<Value<'a>>) {
        self.values.push(value.into());
        self.sql.push_str(&clause.replace("?#", &format!("?{}", self.values.len())));
    }

    /// Adds a repository, in the words of the index that has its owner, or of the one that has none.
    fn repo(&mut self, owner: Option<&'a String>, repo: &'a String) {
        match owner {
            Some(owner) => {
                self.and(" AND COALESCE(owner, '') = ?#", owner);
                self.and(" AND repo = ?#", repo);
            }
            // In the words of its own index, which the list with an owner must not take.
            None => self.and(" AND (repo || '') = ?#", repo),
        }
    }
}

/// A stretch of runs, newest first, from behind a run on.
pub fn list(
    tx: &mut Tx<'_>,
    of: &RunsOf,
    since: Option<Timestamp>,
    after: Option<(Timestamp, &RunId)>,
    limit: u32,
) -> Result<Vec<RunSummaryRow>> {
    let Building { sql, values } = list_statement(of, since, after, limit);
    tx.all(&sql, &values, RunSummaryRow::read)
}

/// The statement of [`list`]; each kind of runs has an index in this very order.
fn list_statement<'a>(
    of: &'a RunsOf,
    since: Option<Timestamp>,
    after: Option<(Timestamp, &'a RunId)>,
    limit: u32,
) -> Building<'a> {
    let sql = concat!("SELECT ", summary_columns!(), " FROM workflow_runs WHERE 1 = 1").to_owned();
    let mut list = Building { sql, values: Vec::new() };
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

/// How the engine says that it answers [`list`], a line per step: for holding it to its index.
pub fn explain_list(
    tx: &mut Tx<'_>,
    of: &RunsOf,
    since: Option<Timestamp>,
    after: Option<(Timestamp, &RunId)>,
) -> Result<Vec<String>> {
    let Building { sql, values } = list_statement(of, since, after, 21);
    let (sqlite, postgres) = (format!("EXPLAIN QUERY PLAN {sql}"), format!("EXPLAIN (COSTS OFF) {sql}"));
    tx.all(Sql::each(&sqlite, &postgres), &values, |row| row.get(row.width() - 1))
}

/// How many runs there are of those asked for. All of them are counted, which takes its time.
pub fn count(tx: &mut Tx<'_>, filter: &RunFilter) -> Result<u64> {
    let mut count = Building { sql: "SELECT COUNT(*) FROM workflow_runs WHERE 1 = 1".to_owned(), values: Vec::new() };
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

//! Last Light's runs, executions, gates, switches and chats: imported into a real home, read back through the library,
//! and compared with their facts and with every value of every row.

mod rows;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use duolog::approvals::ApprovalFilter;
use duolog::chats::ChatFilter;
use duolog::import::lastlight::{self, Counts, ImportReport};
use duolog::limits::PAGE_MAX;
use duolog::runs::{Execution, RollupInterval, Run, RunFilter, RunPage};
use duolog::schedules::{BaseSchedule, CatchUp};
use duolog::{
    ApprovalId, ApprovalStatus, ChatId, Durability, ExecutionId, Home, Money, RunId, RunStatus, Store, StoreOptions,
    Timestamp, TriggerType,
};
use duolog_state::Foreign;
use serde_json::{Map, Value, json};

use super::source::{Row, Rows};
use super::{Verdict, expected};
use crate::clock::FixedClock;

/// The last of the three days in their daily statistics, at noon.
const LAST_DAY: &str = "2026-05-28T12:00:00.000000Z";
/// A day after the last timestamp in the copy.
const DAY_AFTER: &str = "2026-08-21T12:00:00.000000Z";

fn other(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

/// A home with everything that a database contains.
struct ImportedHome {
    /// Kept while the home is read.
    _directory: tempfile::TempDir,
    store: Store,
    first: ImportReport,
    again: ImportReport,
    /// All of their rows, by table.
    rows: BTreeMap<&'static str, Vec<Value>>,
}

pub(super) const TABLES: [&str; 7] = [
    "workflow_runs",
    "executions",
    "workflow_approvals",
    "cron_overrides",
    "workflow_overrides",
    "messaging_sessions",
    "messaging_messages",
];

/// Imports a database and compares the result with these rows.
pub(super) fn differences(database: &Path, rows: &Rows) -> io::Result<Vec<String>> {
    let mut verdict = Verdict::default();
    let (directory, store) = home(LAST_DAY)?;
    let first = lastlight::import(&store, database, Durability::Process, |_| {}).map_err(other)?;
    verdict.same("import errors", &first.errors.notes, &Vec::new());
    let object = |row: &Row| row.cells.iter().map(|(name, cell)| (name.clone(), cell.value.clone())).collect();
    let rows = rows.iter().map(|(table, rows)| (*table, rows.iter().map(object).collect())).collect();
    verdict.same("rows left out", &first.left_out.notes, &Vec::new());
    verdict.same("imported rows", &first.imported, &counts(&rows));
    let taken = ImportedHome { _directory: directory, store, again: first.clone(), first, rows };
    rows::compare(&mut verdict, &taken)?;
    Ok(verdict.differences)
}

/// Creates a home with a clock that shows `now`.
fn home(now: &str) -> io::Result<(tempfile::TempDir, Store)> {
    let directory = tempfile::tempdir()?;
    let mut options = StoreOptions::at(Home::beneath(directory.path())).one_shot();
    options.clock = Arc::new(FixedClock::at(now.parse::<Timestamp>().map_err(other)?.as_micros()));
    options.schedules = ["cron-triage", "cron-health", "cron-security"].map(schedule).into();
    let store = Store::open(options).map_err(other)?;
    Ok((directory, store))
}

fn counts(rows: &BTreeMap<&'static str, Vec<Value>>) -> Counts {
    Counts {
        runs: rows["workflow_runs"].len() as u64,
        executions: rows["executions"].len() as u64,
        approvals: rows["workflow_approvals"].len() as u64,
        schedules: rows["cron_overrides"].len() as u64,
        workflows: rows["workflow_overrides"].len() as u64,
        chats: rows["messaging_sessions"].len() as u64,
        messages: rows["messaging_messages"].len() as u64,
    }
}

/// Imports a database twice; the second import must change nothing.
fn taken(root: &Path, now: &str, verdict: &mut Verdict) -> io::Result<ImportedHome> {
    let before = contents(root)?;
    let database = root.join("lastlight.db");
    let (directory, store) = home(now)?;
    let mut seen = lastlight::Progress::default();
    let first = lastlight::import(&store, &database, Durability::Process, |so_far| seen = *so_far).map_err(other)?;
    let again = lastlight::import(&store, &database, Durability::Process, |_| {}).map_err(other)?;
    verdict.same("progress", &seen.done, &seen.all);
    verdict.same("import errors", &first.errors.notes, &Vec::new());
    verdict.same("rows of the second import", &again.imported, &Counts::default());
    verdict.same("unchanged rows of the second import", &again.unchanged, &first.imported);
    let foreign = Foreign::open(&database, directory.path()).map_err(other)?;
    let mut rows = BTreeMap::new();
    for table in TABLES {
        rows.insert(table, rows_of(&foreign, table)?);
    }
    verdict.same("bytes of their files", &contents(root)?, &before);
    verdict.same("imported rows", &first.imported, &counts(&rows));
    Ok(ImportedHome { _directory: directory, store, first, again, rows })
}

/// Returns a schedule whose configuration differs from their override.
fn schedule(name: &str) -> BaseSchedule {
    BaseSchedule {
        name: name.to_owned(),
        cron: "0 0 1 1 *".to_owned(),
        zone: "UTC".to_owned(),
        enabled: true,
        workflow: None,
        context: None,
        catch_up: CatchUp::default(),
        description: None,
        line: 1,
    }
}

/// Returns the database and the files next to it, byte for byte.
fn contents(root: &Path) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            found.push((entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path())?));
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the rows of a table as objects, as SQLite writes them.
fn rows_of(foreign: &Foreign, table: &str) -> io::Result<Vec<Value>> {
    let mut members = Vec::new();
    let mut each = |name: String| members.push(format!("'{name}', \"{name}\""));
    let columns = "SELECT name FROM pragma_table_info(?1)";
    foreign
        .each(columns, &[table], &mut |row| {
            each(row.get(0)?);
            Ok(())
        })
        .map_err(other)?;
    let mut texts: Vec<String> = Vec::new();
    let sql = format!("SELECT json_object({}) FROM {table} ORDER BY rowid", members.join(", "));
    foreign
        .each(&sql, &[], &mut |row| {
            texts.push(row.get(0)?);
            Ok(())
        })
        .map_err(other)?;
    texts.iter().map(|text| serde_json::from_str(text).map_err(other)).collect()
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

fn at(moment: Timestamp) -> Value {
    super::lastlight::milliseconds(moment).into()
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

fn object(members: &[(String, String)]) -> Value {
    Value::Object(members.iter().map(|(key, value)| (key.clone(), parsed(value))).collect::<Map<_, _>>())
}

/// Parses a number of dollars exactly.
fn money(number: &Value) -> Option<Money> {
    number.as_f64().and_then(|number| Money::parse(&format!("{number}")))
}

pub(super) fn check(root: &Path) -> io::Result<Vec<Verdict>> {
    let mut verdict = Verdict::of("lastlight runs");
    let taken = taken(root, LAST_DAY, &mut verdict)?;
    verdict.same("rows left out", &taken.first.left_out.notes, &Vec::new());
    rows::compare(&mut verdict, &taken)?;
    let right = expected(root, "expected/runs-detail.json")?;
    for (id, right) in right.as_object().into_iter().flatten() {
        let run = taken.store.runs().get(&RunId::parse(id).map_err(other)?).map_err(other)?;
        let mut ours = shown(&run);
        for (name, absent) in [("scratch", json!({})), ("nodeStatuses", json!({}))] {
            if ours[name] == absent && right.get(name).is_none() {
                ours.as_object_mut().map(|ours| ours.remove(name));
            }
        }
        let mut right = right.clone();
        // We store a repository with its owner in two columns; the original text is compared with the rows.
        right["repo"] = ours["repo"].clone();
        verdict.same(&format!("run {id}"), &ours, &right);
    }
    compare_lists(&mut verdict, root, &taken.store)?;
    compare_misc(&mut verdict, root, &taken)?;
    compare_facts(&mut verdict, root, &taken.store)?;
    verdict.counts = import_counts(&taken);
    Ok(vec![verdict])
}

pub(super) fn check_crash_copy(root: &Path) -> io::Result<Vec<Verdict>> {
    let mut verdict = Verdict::of("lastlight runs after a power loss");
    let taken = taken(root, DAY_AFTER, &mut verdict)?;
    rows::compare(&mut verdict, &taken)?;
    let Counts { runs, executions, messages, .. } = taken.first.imported;
    verdict.same(
        "runs, executions and messages, including the write-ahead log",
        &(runs, executions, messages),
        &(31, 55, 71),
    );
    let waiting = RunFilter { statuses: vec![RunStatus::Queued], ..RunFilter::default() };
    let queued = taken.store.runs().list(&waiting, &RunPage::new(PAGE_MAX, None)).map_err(other)?.runs;
    let mut first: Vec<_> = queued.iter().map(|run| (run.started_at, run.id.clone())).collect();
    first.sort();
    for (place, (_, id)) in first.iter().enumerate() {
        let before = taken.store.runs().waiting_before(id).map_err(other)?;
        verdict.same(&format!("queue position of {id}"), &before, &u32::try_from(place).ok());
    }
    let admitted = taken.store.runs().admit(None, PAGE_MAX).map_err(other)?;
    verdict.same("imported waiting time does not expire runs", &admitted.expired.len(), &0);
    verdict.reader_losses.push("a copy of lastlight.db alone has 28 runs, 47 executions and no messages".to_owned());
    verdict.counts = import_counts(&taken);
    Ok(vec![verdict])
}

fn import_counts(taken: &ImportedHome) -> String {
    let Counts { runs, executions, approvals, schedules, workflows, chats, messages } = taken.first.imported;
    let (lost, lost_again) = (taken.first.left_out.count(), taken.again.left_out.count());
    format!(
        "{runs} runs, {executions} executions, {approvals} gates, {} switches, {chats} chats, {messages} messages; \
         {lost} values left out, {lost_again} in the second import",
        schedules + workflows
    )
}

/// Returns a run in the shape of their facts.
fn shown(run: &Run) -> Value {
    let summary = &run.summary;
    let phases: Vec<Value> = run.phase_history.iter().map(|entry| parsed(entry)).collect();
    json!({
        "id": summary.id.as_str(),
        "workflowName": summary.workflow_name,
        "triggerId": summary.trigger_id,
        "repo": summary.repo,
        "issueNumber": summary.issue_number,
        "currentPhase": summary.current_phase,
        "phaseHistory": phases,
        "status": summary.status.as_str(),
        "context": run.context.as_deref().map(parsed),
        "scratch": object(&run.scratch),
        "nodeStatuses": object(&run.node_statuses),
        "restartCount": summary.restart_count,
        "startedAt": at(summary.started_at),
        "updatedAt": at(summary.updated_at),
        "finishedAt": summary.finished_at.map(at),
    })
}

/// Compares the lists: all runs, active first, and the runs of each workflow.
fn compare_lists(verdict: &mut Verdict, root: &Path, store: &Store) -> io::Result<()> {
    let list = expected(root, "expected/runs-list-all.json")?;
    let theirs: Vec<&Value> = list["runs"].as_array().into_iter().flatten().collect();
    let rank = |run: &Value| text(run, "status").parse().map_or(u32::MAX, RunStatus::active_rank);
    let mut right = theirs.clone();
    right.sort_by_key(|run| rank(run));
    let page = RunPage::new(PAGE_MAX, None);
    let ours = store.runs().list(&RunFilter::default(), &page).map_err(other)?.runs;
    let ids = |runs: &[&Value]| runs.iter().map(|run| text(run, "id").to_owned()).collect::<Vec<_>>();
    let listed: Vec<String> = ours.iter().map(|run| run.id.to_string()).collect();
    verdict.same("list of runs, active first", &listed, &ids(&right));
    verdict.same("total of runs", &json!(store.runs().count(&RunFilter::default()).map_err(other)?), &list["total"]);
    let ended = theirs.iter().position(|run| rank(run) > 2).unwrap_or(theirs.len());
    let behind = theirs[ended..].iter().filter(|run| rank(run) < 3).count();
    verdict.reader_losses.push(format!("{behind} active runs are behind ended ones in their list"));
    let names: BTreeSet<&str> = theirs.iter().map(|run| text(run, "workflowName")).collect();
    for name in names {
        let filter = RunFilter { workflow_name: Some(name.to_owned()), ..RunFilter::default() };
        let ours = store.runs().list(&filter, &page).map_err(other)?.runs;
        let listed: Vec<String> = ours.iter().map(|run| run.id.to_string()).collect();
        let right: Vec<&Value> = theirs.iter().copied().filter(|run| run["workflowName"] == name).collect();
        verdict.same(&format!("list of {name}"), &listed, &ids(&right));
    }
    Ok(())
}

fn compare_misc(verdict: &mut Verdict, root: &Path, taken: &ImportedHome) -> io::Result<()> {
    let (misc, store) = (expected(root, "expected/misc.json")?, &taken.store);
    let counts = store.runs().count_by_status().map_err(other)?;
    let ours: Map<String, Value> =
        counts.into_iter().map(|(status, count)| (status.as_str().to_owned(), count.into())).collect();
    verdict.same("runs by status", &Value::Object(ours), &misc["statusCounts"]);
    let filter = ApprovalFilter { status: Some(ApprovalStatus::Pending), run: None };
    let pending = store.approvals().list(&filter, &RunPage::new(PAGE_MAX, None)).map_err(other)?.approvals;
    let ours: Vec<Value> = pending
        .iter()
        .map(|gate| json!([gate.id.as_str(), gate.gate, gate.kind.as_str(), at(gate.created_at)]))
        .collect();
    let right = misc["pending"].as_array().into_iter().flatten();
    let right: Vec<Value> =
        right.map(|gate| ["id", "gate", "kind", "createdAt"].map(|name| gate[name].clone()).into()).collect();
    verdict.same("pending gates, newest first", &ours, &right);
    let workflows = store.workflows().list(None, PAGE_MAX).map_err(other)?;
    let names: Vec<&str> = workflows.iter().filter(|one| one.has_runs).map(|one| one.name.as_str()).collect();
    verdict.same("names of workflows", &json!(names), &misc["names"]);
    compare_days(verdict, store, &misc)?;
    compare_skills(verdict, taken, &misc)?;
    let right = misc["execForRun0"].as_array().cloned().unwrap_or_default();
    let first = right.last().map(|row| text(row, "workflowRunId").to_owned()).unwrap_or_default();
    let trigger = right.last().map(|row| text(row, "triggerId").to_owned()).unwrap_or_default();
    let of_trigger =
        store.runs().executions().of_trigger(TriggerType::Webhook, &trigger, PAGE_MAX, None).map_err(other)?.executions;
    let meant = |one: &&Execution| one.run_id.as_ref().is_none_or(|run| run.as_str() == first);
    let ours: Vec<&str> = of_trigger.iter().filter(meant).map(|one| one.id.as_str()).collect();
    let ids: Vec<&str> = right.iter().map(|row| text(row, "id")).collect();
    verdict.same("executions of a run and of its trigger", &ours, &ids);
    for thread in misc["chat"].as_array().into_iter().flatten() {
        let turns = store.runs().executions().of_trigger(TriggerType::Chat, text(thread, "triggerId"), PAGE_MAX, None);
        let turns = turns.map_err(other)?.executions;
        let ends: Vec<_> = turns.iter().filter_map(|one| one.end.as_ref().map(|end| &end.finish)).collect();
        let sum = |of: fn(&duolog::runs::Finish) -> Option<u64>| ends.iter().filter_map(|end| of(end)).sum::<u64>();
        let tokens = json!([
            turns.len(),
            sum(|end| end.input_tokens),
            sum(|end| end.output_tokens),
            sum(|end| end.cache_read_input_tokens)
        ]);
        let right = ["turnCount", "inputTokens", "outputTokens", "cacheReadTokens"].map(|name| thread[name].clone());
        verdict.same("turns of a chat, and their tokens", &tokens, &Value::Array(right.into()));
        let cost = ends.iter().filter_map(|end| end.cost).reduce(|a, b| a + b);
        verdict.same("cost of a chat", &cost, &money(&thread["totalCost"]));
        let id = ChatId::parse(text(thread, "triggerId")).map_err(other)?;
        let last = store.chats().history(&id, None, 1).map_err(other)?.messages.pop().map(|message| message.content);
        verdict.same("last assistant message of a chat", &last.as_deref(), &thread["lastAssistantContent"].as_str());
    }
    Ok(())
}

/// Compares their days: executions and cost. Their costs are sums of binary fractions.
fn compare_days(verdict: &mut Verdict, store: &Store, misc: &Value) -> io::Result<()> {
    let query = duolog::runs::RollupQuery { every: RollupInterval::Day, last: 3, zone: None, workflow: None };
    let days = store.runs().rollups(&query).map_err(other)?;
    let right = misc["daily3"].as_array().cloned().unwrap_or_default();
    verdict.same("days", &days.len(), &right.len());
    for (ours, right) in days.iter().zip(&right) {
        let shown = json!([
            ours.label,
            ours.started,
            ours.succeeded,
            ours.failed,
            ours.input_tokens + ours.output_tokens + ours.cache_read_input_tokens,
            ours.input_tokens,
            ours.output_tokens,
            ours.cache_read_input_tokens,
        ]);
        let names = [
            "date",
            "executions",
            "successes",
            "failures",
            "totalTokens",
            "inputTokens",
            "outputTokens",
            "cacheReadTokens",
        ];
        verdict.same("a day", &shown, &Value::Array(names.map(|name| right[name].clone()).into()));
        // To the billionth of a dollar: beyond that their sum is not exact.
        let theirs = format!("{:.9}", right["costUsd"].as_f64().unwrap_or_default());
        verdict.same("cost of a day", &Some(ours.cost), &Money::parse(&theirs));
        if ours.cache_creation_input_tokens > 0 {
            let lost = format!(
                "{} cache creation tokens on {} are missing in all of their sums",
                ours.cache_creation_input_tokens, ours.label
            );
            verdict.reader_losses.push(lost);
        }
    }
    Ok(())
}

fn compare_skills(verdict: &mut Verdict, taken: &ImportedHome, misc: &Value) -> io::Result<()> {
    let mut ours: BTreeMap<String, [u64; 3]> = BTreeMap::new();
    let (mut by_trigger, mut in_flight) = (BTreeMap::<&str, u64>::new(), 0);
    for row in &taken.rows["executions"] {
        let id = ExecutionId::parse(text(row, "id")).map_err(other)?;
        let execution = taken.store.runs().executions().get(&id).map_err(other)?;
        let success = execution.end.as_ref().map(|end| end.finish.success);
        let of = ours.entry(execution.skill.clone()).or_default();
        of[0] += 1;
        of[1] += u64::from(success == Some(true));
        of[2] += u64::from(success == Some(false));
        in_flight += u64::from(success.is_none());
        *by_trigger.entry(execution.trigger_type.as_str()).or_default() += 1;
    }
    let shown: Map<String, Value> = ours
        .into_iter()
        .map(|(skill, [count, success, fail])| (skill, json!({"count": count, "success": success, "fail": fail})))
        .collect();
    verdict.same("executions by skill", &Value::Object(shown), &misc["stats"]["by_skill"]);
    verdict.same("executions by trigger", &json!(by_trigger), &misc["stats"]["by_trigger"]);
    verdict.same("executions in flight", &json!(in_flight), &misc["stats"]["running"]);
    Ok(())
}

/// Compares the facts about runs and chats by their roles; at the end running runs are recovered.
fn compare_facts(verdict: &mut Verdict, root: &Path, store: &Store) -> io::Result<()> {
    let facts = expected(root, "expected/facts.json")?;
    let mut running = BTreeSet::new();
    for (role, fact) in facts["runs"].as_object().into_iter().flatten() {
        let run = store.runs().get(&RunId::parse(text(fact, "id")).map_err(other)?).map_err(other)?;
        if let Some(restarts) = fact["restartCount"].as_u64() {
            verdict.same(&format!("restarts of {role}"), &u64::from(run.summary.restart_count), &restarts);
        }
        if role.starts_with("paused") {
            verdict.same(
                &format!("gate of {role}"),
                &run.pending.as_ref().map(ApprovalId::as_str),
                &fact["approval"].as_str(),
            );
        }
        if role.starts_with("running") {
            running.insert(run.summary.id.clone());
        }
    }
    let filter = ChatFilter::default();
    let chats = store.chats().list(&filter, None, PAGE_MAX).map_err(other)?.chats;
    let ours: Vec<(&str, bool)> = chats.iter().map(|chat| (chat.id.as_str(), chat.active)).collect();
    let right = vec![(text(&facts["chat"], "fresh"), true), (text(&facts["chat"], "old"), false)];
    verdict.same("chats, last active first", &ours, &right);
    let recovered = store.runs().recover("new owner").map_err(other)?;
    let resumed: BTreeSet<RunId> = recovered.resumed.iter().map(|claim| claim.run.id.clone()).collect();
    verdict.same("recovered runs", &resumed, &running);
    verdict.same(
        "executions that the recovery ended",
        &recovered.resumed.iter().map(|one| one.closed.len()).sum(),
        &running.len(),
    );
    Ok(())
}

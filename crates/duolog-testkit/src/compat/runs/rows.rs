//! Compares every value of every row of theirs with the result of the library.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use duolog::approvals::Approval;
use duolog::import::lastlight::ImportReport;
use duolog::limits::{PAGE_MAX, SCRATCH_VALUE_BYTES_MAX};
use duolog::runs::{Execution, RollupInterval, RollupQuery};
use duolog::schedules::Origin;
use duolog::{ApprovalId, ApprovalKind, ApprovalStatus, ChatId, ExecutionId, Money, RunId, Store};
use serde_json::{Value, json};

use super::{ImportedHome, LAST_DAY, at, money, object, other, parsed, text};
use crate::compat::Verdict;

/// Compares every value of every row.
pub(super) fn compare(verdict: &mut Verdict, taken: &ImportedHome) -> io::Result<()> {
    let mut executions: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for row in &taken.rows["executions"] {
        compare_execution(verdict, &taken.store, row)?;
        executions.entry(text(row, "workflow_run_id")).or_default().push(row);
    }
    let mut bare = 0;
    for row in &taken.rows["workflow_runs"] {
        bare += u32::from(row["owner"].is_null() && row["repo"].as_str().is_some_and(|repo| !repo.contains('/')));
        let of_run = executions.get(text(row, "id")).map_or(&[][..], Vec::as_slice);
        compare_run(verdict, taken, row, of_run)?;
    }
    if bare > 0 {
        let lost = format!("{bare} runs have their repository without its owner, and a list by owner/repo misses them");
        verdict.reader_losses.push(lost);
    }
    for row in &taken.rows["workflow_approvals"] {
        compare_gate(verdict, taken, row)?;
    }
    for row in &taken.rows["messaging_sessions"] {
        compare_chat(verdict, taken, row)?;
    }
    for row in &taken.rows["cron_overrides"] {
        let now = LAST_DAY.parse().map_err(other)?;
        let schedule = taken.store.schedules().get(text(row, "name"), now).map_err(other)?;
        let ours = json!([
            u8::from(schedule.enabled.value),
            (schedule.cron.from == Origin::Override).then_some(schedule.cron.value.as_str()),
            schedule.overridden.map(|(when, by)| json!([at(when), by]))
        ]);
        let right = json!([row["enabled"], row["schedule"], [row["updated_at"], row["updated_by"]]]);
        verdict.same(&format!("schedule {}", row["name"]), &ours, &right);
        verdict.same(&format!("problem of schedule {}", row["name"]), &schedule.problem, &None);
    }
    compare_sums(verdict, taken)?;
    let workflows = taken.store.workflows().list(None, PAGE_MAX).map_err(other)?;
    for row in &taken.rows["workflow_overrides"] {
        let found = workflows.iter().find(|workflow| workflow.name == text(row, "name"));
        let ours = found.map(|found| {
            json!([u8::from(found.enabled), found.overridden.clone().map(|(when, by)| (at(when).to_string(), by))])
        });
        let said = (row["updated_at"].to_string(), row["updated_by"].as_str());
        verdict.same(&format!("workflow {}", row["name"]), &ours, &Some(json!([row["enabled"], said])));
    }
    Ok(())
}

/// Compares the sums of a year's roll-ups with those of the rows.
fn compare_sums(verdict: &mut Verdict, taken: &ImportedHome) -> io::Result<()> {
    let query = RollupQuery { every: RollupInterval::Day, last: 366, zone: None, workflow: None };
    let days = taken.store.runs().rollups(&query).map_err(other)?;
    let rows = &taken.rows["executions"];
    let sum = |name: &str| rows.iter().filter_map(|row| row[name].as_u64()).sum::<u64>();
    let ours = [
        days.iter().map(|day| day.started).sum(),
        days.iter().map(|day| day.succeeded).sum(),
        days.iter().map(|day| day.failed + day.skipped + day.deferred).sum(),
        days.iter().map(|day| day.turns).sum(),
        days.iter().map(|day| day.duration_ms).sum(),
        days.iter().map(|day| day.input_tokens).sum(),
        days.iter().map(|day| day.cache_creation_input_tokens).sum(),
        days.iter().map(|day| day.cache_read_input_tokens).sum(),
        days.iter().map(|day| day.output_tokens).sum::<u64>(),
    ];
    let bad = rows.iter().filter(|row| row["success"] == 0).count() as u64;
    let mut right = vec![rows.len() as u64, sum("success"), bad, sum("turns"), sum("duration_ms")];
    right.extend(TOKENS.map(sum));
    verdict.same("sums of all executions", &ours.to_vec(), &right);
    let cost = rows.iter().filter_map(|row| money(&row["cost_usd"])).fold(Money::ZERO, |a, b| a + b);
    verdict.same("cost of all executions", &days.iter().map(|day| day.cost).fold(Money::ZERO, |a, b| a + b), &cost);
    Ok(())
}

/// Returns true if the report has this note.
fn is_told(report: &ImportReport, unit: &str, reason: &str) -> bool {
    report.left_out.notes.iter().any(|note| note.unit == unit && note.reason.contains(reason))
}

fn compare_run(verdict: &mut Verdict, taken: &ImportedHome, row: &Value, executions: &[&Value]) -> io::Result<()> {
    let store = &taken.store;
    let id = RunId::parse(text(row, "id")).map_err(other)?;
    let run = store.runs().get(&id).map_err(other)?;
    let (summary, what) = (&run.summary, format!("run {id}"));
    verdict.same(&format!("context of {what}"), &run.context.as_deref(), &row["context"].as_str());
    let history = format!("[{}]", run.phase_history.join(","));
    verdict.same(&format!("phase_history of {what}"), &history.as_str(), &text(row, "phase_history"));
    for (name, ours) in [("scratch", object(&run.scratch)), ("node_statuses", object(&run.node_statuses))] {
        let mut right = row[name].as_str().map_or_else(|| json!({}), parsed);
        // A value that does not fit a row is reported; nothing else is missing.
        let fits = |key: &str, value: &Value| {
            value.to_string().len() <= SCRATCH_VALUE_BYTES_MAX
                || !is_told(&taken.first, &what, &format!("{name}.{key} is"))
        };
        if let Some(right) = right.as_object_mut() {
            right.retain(|key, value| fits(key, value));
        }
        verdict.same(&format!("{name} of {what}"), &ours, &right);
    }
    let ours = json!([
        summary.workflow_name,
        summary.trigger_id,
        summary.issue_number,
        summary.current_phase,
        summary.status.as_str(),
        summary.restart_count,
        summary.triggered_by,
        at(summary.started_at),
        at(summary.updated_at),
        summary.finished_at.map(at),
    ]);
    let names =
        ["workflow_name", "trigger_id", "issue_number", "current_phase", "status", "restart_count", "triggered_by"];
    let mut right: Vec<Value> = names.iter().map(|name| row[name].clone()).collect();
    right.extend(["started_at", "updated_at", "finished_at"].map(|name| row[name].clone()));
    verdict.same(&what, &ours, &Value::Array(right));
    let repository = repository(row);
    verdict.same(&format!("repository of {what}"), &(summary.owner.clone(), summary.repo.clone()), &repository);
    let error = row["context"].as_str().map(parsed).and_then(|context| context["error"].as_str().map(str::to_owned));
    verdict.same(&format!("error of {what}"), &run.error, &error);
    let kind = executions.first().and_then(|first| first["trigger_type"].as_str());
    let kind = kind.unwrap_or_else(|| match row["trigger_actor_type"].as_str() {
        Some("github") => "webhook",
        Some("cron") => "cron",
        Some("cli") => "cli",
        Some("admin" | "system") => "api",
        None if !summary.trigger_id.starts_with("slack:") => "webhook",
        _ => "chat",
    });
    verdict.same(&format!("trigger of {what}"), &summary.trigger_type.as_str(), &kind);
    let cost = executions.iter().filter_map(|row| money(&row["cost_usd"])).reduce(|a, b| a + b);
    let tokens = executions.iter().flat_map(|row| TOKENS.map(|name| row[name].as_u64())).flatten().reduce(|a, b| a + b);
    verdict.same(&format!("cost and tokens of {what}"), &(summary.cost, summary.tokens), &(cost, tokens));
    let page = store.runs().open(&id).executions(PAGE_MAX, None).map_err(other)?;
    let ours: BTreeSet<String> = page.executions.iter().map(|one| one.id.to_string()).collect();
    let right: BTreeSet<String> = executions.iter().map(|row| text(row, "id").to_owned()).collect();
    verdict.same(&format!("executions of {what}"), &ours, &right);
    verdict.same(&format!("lease of {what}"), &run.summary.lease_expires_at.is_some(), &(row["status"] == "running"));
    verdict.same(&format!("restart limit of {what}"), &(run.restart_cap >= summary.restart_count), &true);
    Ok(())
}

const TOKENS: [&str; 4] = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"];

/// Returns the owner and the repository of a row: the owner is in `repo`, in `owner` or in the trigger.
fn repository(row: &Value) -> (Option<String>, Option<String>) {
    let Some(repo) = row["repo"].as_str() else { return (row["owner"].as_str().map(str::to_owned), None) };
    let bare = repo.rsplit('/').next().unwrap_or(repo);
    let (trigger, before) = (text(row, "trigger_id"), repo.strip_suffix(&format!("/{bare}")));
    let in_trigger = trigger.split_once('#').and_then(|(named, _)| named.strip_suffix(&format!("/{bare}")));
    let owner = row["owner"].as_str().or(before).or(in_trigger);
    (owner.map(str::to_owned), Some(bare.to_owned()))
}

fn compare_execution(verdict: &mut Verdict, store: &Store, row: &Value) -> io::Result<()> {
    let id = ExecutionId::parse(text(row, "id")).map_err(other)?;
    let ours = store.runs().executions().get(&id).map_err(other)?;
    let output = store.runs().executions().full_output(&id).map_err(other)?;
    verdict.same(&format!("output of execution {id}"), &output.as_deref(), &row["output_text"].as_str());
    verdict.same(&format!("repository of execution {id}"), &(ours.owner.clone(), ours.repo.clone()), &repository(row));
    let cost = ours.end.as_ref().and_then(|end| end.finish.cost);
    verdict.same(&format!("cost of execution {id}"), &cost, &money(&row["cost_usd"]));
    let shown = shown_execution(&ours);
    for (name, value) in shown.as_object().into_iter().flatten() {
        let right = match row.get(name) {
            Some(right) if name == "success" => right.as_i64().map_or(Value::Null, |number| (number == 1).into()),
            Some(right) => right.clone(),
            None => Value::Null,
        };
        verdict.same(&format!("{name} of execution {id}"), value, &right);
    }
    Ok(())
}

/// Returns an execution in the shape of their rows.
fn shown_execution(execution: &Execution) -> Value {
    let finish = execution.end.as_ref().map(|end| &end.finish);
    json!({
        "trigger_type": execution.trigger_type.as_str(),
        "trigger_id": execution.trigger_id,
        "skill": execution.skill,
        "issue_number": execution.issue_number,
        "workflow_run_id": execution.run_id.as_ref().map(RunId::as_str),
        "session_id": execution.session_id.as_ref().map(duolog::SessionId::as_str),
        "triggered_by": execution.triggered_by,
        "started_at": at(execution.started_at),
        "finished_at": execution.end.as_ref().map(|end| at(end.at)),
        "success": finish.map(|finish| finish.success),
        "error": finish.and_then(|finish| finish.error.clone()),
        "turns": finish.and_then(|finish| finish.turns),
        "duration_ms": finish.and_then(|finish| finish.duration_ms),
        "input_tokens": finish.and_then(|finish| finish.input_tokens),
        "cache_creation_input_tokens": finish.and_then(|finish| finish.cache_creation_input_tokens),
        "cache_read_input_tokens": finish.and_then(|finish| finish.cache_read_input_tokens),
        "output_tokens": finish.and_then(|finish| finish.output_tokens),
        "api_duration_ms": finish.and_then(|finish| finish.api_duration_ms),
        "stop_reason": finish.and_then(|finish| finish.stop_reason.clone()),
    })
}

/// Returns a gate in the shape of their rows; a reply is `approved` there.
fn shown_gate(gate: &Approval) -> Value {
    let status = match (gate.kind, gate.status) {
        (ApprovalKind::Reply, ApprovalStatus::Answered) => "approved",
        (_, status) => status.as_str(),
    };
    json!({
        "workflow_run_id": gate.workflow_run_id.as_str(),
        "gate": gate.gate,
        "summary": gate.summary,
        "status": status,
        "kind": gate.kind.as_str(),
        "requested_by": gate.requested_by,
        "responded_by": gate.responded_by,
        "response": gate.response,
        "responded_at": gate.responded_at.map(at),
        "created_at": at(gate.created_at),
    })
}

fn compare_gate(verdict: &mut Verdict, taken: &ImportedHome, row: &Value) -> io::Result<()> {
    let id = ApprovalId::parse(text(row, "id")).map_err(other)?;
    let gate = taken.store.approvals().get(&id).map_err(other)?;
    for (name, value) in shown_gate(&gate).as_object().into_iter().flatten() {
        verdict.same(&format!("{name} of gate {id}"), value, &row[name]);
    }
    let is_run = |run: &&Value| run["id"] == row["workflow_run_id"];
    let run = taken.rows["workflow_runs"].iter().find(is_run).unwrap_or(&Value::Null);
    let is_later = |one: &&Value| {
        one["workflow_run_id"] == row["workflow_run_id"] && text(one, "created_at") > text(row, "responded_at")
    };
    let began = |one: &&Value| {
        one["workflow_run_id"] == row["workflow_run_id"] && text(one, "started_at") >= text(row, "responded_at")
    };
    let went_on = run["finished_at"].is_string()
        || taken.rows["workflow_approvals"].iter().any(|one| is_later(&one))
        || taken.rows["executions"].iter().any(|one| began(&one));
    let is_consumed = row["status"] == "approved" && went_on;
    verdict.same(&format!("acknowledgement of gate {id}"), &gate.consumed_at.is_some(), &is_consumed);
    if row["status"] == "approved" && !is_consumed {
        let lost = format!(
            "run {} stays paused although {} was approved: ours gives the response to the process that resumes it",
            text(run, "id"),
            text(row, "gate")
        );
        verdict.reader_losses.push(lost);
    }
    Ok(())
}

fn compare_chat(verdict: &mut Verdict, taken: &ImportedHome, row: &Value) -> io::Result<()> {
    let id = ChatId::parse(text(row, "id")).map_err(other)?;
    let chat = taken.store.chats().get(&id).map_err(other)?;
    let ours = json!([
        chat.key.platform,
        chat.key.channel,
        chat.key.thread,
        chat.key.user,
        chat.agent_session_id.as_ref().map(duolog::SessionId::as_str),
        at(chat.created_at),
        at(chat.last_activity_at),
        u8::from(chat.active),
    ]);
    let names = [
        "platform",
        "channel_id",
        "thread_id",
        "user_id",
        "agent_session_id",
        "created_at",
        "last_activity_at",
        "active",
    ];
    verdict.same(&format!("chat {id}"), &ours, &Value::Array(names.map(|name| row[name].clone()).into()));
    let mut right: Vec<&Value> =
        taken.rows["messaging_messages"].iter().filter(|message| message["session_id"] == row["id"]).collect();
    right.sort_by_key(|message| (text(message, "timestamp"), message["id"].as_i64()));
    let right: Vec<Value> = right
        .iter()
        .map(|message| {
            let mut content = text(message, "content").to_owned();
            // No column of ours can hold a NUL byte, and the import reports that.
            if content.contains('\0')
                && is_told(&taken.first, &format!("message {} of chat {id}", message["id"]), "NUL")
            {
                content = content.replace('\0', "");
            }
            json!([message["role"], content, message["timestamp"], message["platform_message_id"]])
        })
        .collect();
    let history = taken.store.chats().history(&id, None, PAGE_MAX).map_err(other)?;
    let one = |message: &duolog::chats::ChatMessage| {
        json!([message.role.as_str(), message.content, at(message.timestamp), message.platform_message_id])
    };
    let ours: Vec<Value> = history.messages.iter().map(one).collect();
    verdict.same(&format!("messages of chat {id}"), &ours, &right);
    verdict.same(&format!("count of chat {id}"), &chat.message_count, &(right.len() as u64));
    if row["message_count"].as_u64() != Some(right.len() as u64) {
        let lost = format!("chat {id} has {} messages and counts {}", right.len(), row["message_count"]);
        verdict.reader_losses.push(lost);
    }
    Ok(())
}

//! `duolog runs show`.

use clap::Args;
use duolog::approvals::{Approval, ApprovalFilter};
use duolog::runs::{Execution, Run, RunPage};
use duolog::{ApprovalStatus, PageToken, Store, Timestamp, limits};
use duolog_wire as wire;

use super::next::{self, RunSituation};
use super::phases::{self, phase_of, stands};
use super::{Context, repository, tone};
use crate::commands::approvals;
use crate::commands::sessions::one_line;
use crate::failure::{CommandResult, Ended, Failure};
use crate::figures;
use crate::out::{Column, Table, Text, Tone, plain};

const AFTER: &str = "\
Examples:
  duolog runs show 019364
  duolog runs show \"$run\" --json | jq -r '.next_steps[].command'

JSON:
  {\"run\": {… as runs list …, \"error_message\", \"fence\", \"lease_expires_at\", \"restart_cap\", \"actor\",
     \"queued_at\", \"is_resumed\", \"pending_approval_id\", \"unconsumed_approval_ids\": [id, …],
     \"context\", \"scratch\": {…}, \"phase_history\": [{\"phase\", \"timestamp\", \"success\", …}],
     \"node_statuses\": {…}},
   \"executions\": [{… as runs phase end …}], \"executions_next\": token|null,
   \"approvals\": [{… as approvals list …}], \"next_steps\": [{\"text\", \"command\": command|null}]}
  executions_next is the value for --after; null if there are no more executions
  is_resumed is true if the run is queued because no slot was free when it was resumed";

/// Show a run
///
/// This includes its owner, phases, executions, gates and next steps.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Show {
    /// Run id or a unique prefix
    #[arg(value_name = "RUN")]
    run: String,
    /// Maximum number of results [max: 200]
    #[arg(long, short = 'n', value_name = "N", default_value_t = limits::PAGE_MAX)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::PAGE_MAX)))]
    limit: u32,
    /// Page token printed by the previous page
    #[arg(long, value_name = "TOKEN")]
    after: Option<PageToken>,
}

impl Show {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_read()?;
        let id = store.runs().resolve(&self.run)?;
        let run = store.runs().get(&id)?;
        let list = store.runs().open(&id).executions(self.limit, self.after.as_ref())?;
        let mut executions = list.executions;
        // The store returns them by phase.
        executions.sort_by(|a, b| (a.started_at, &a.id).cmp(&(b.started_at, &b.id)));
        let filter = ApprovalFilter { run: Some(id), status: None };
        let gates = store.approvals().list(&filter, &RunPage::new(limits::PAGE_MAX, None))?.approvals;
        let now = store.now()?;
        let queue_wait = context.config()?.limits().runs.queue_wait;
        let after = next::of(&RunSituation {
            run: &run,
            gates: &with_those_that_count(&store, &run, &gates)?,
            is_in_flight: executions.iter().any(|execution| execution.end.is_none()),
            before: store.runs().waiting_before(&run.summary.id)?,
            is_enabled: store.workflows().is_enabled(&run.summary.workflow_name)?,
            queue_wait,
            now,
        });
        let more = list.next.as_ref().map(ToString::to_string);
        let shape = wire::RunDetail {
            run: (&run).into(),
            executions: executions.iter().map(wire::Execution::from).collect(),
            executions_next: more.clone(),
            approvals: gates.iter().map(wire::Approval::from).collect(),
            next_steps: after.clone(),
        };
        context.out.answer(&shape, |text| {
            describe(text, &run, now);
            phases::draw(text, &run, &executions);
            draw_executions(text, &executions, now);
            draw_gates(text, &gates, now);
            draw_next(text, &after);
        })?;
        if let Some(more) = more {
            context.out.note(format_args!("there are more executions: add --after {more}"));
        }
        Ok(Ended::Done)
    }
}

/// Adds the pending gate and those with unacknowledged answers, if they are not on the first page of gates.
fn with_those_that_count(store: &Store, run: &Run, gates: &[Approval]) -> Result<Vec<Approval>, Failure> {
    let mut all = gates.to_vec();
    for id in run.pending.iter().chain(&run.unconsumed) {
        if !all.iter().any(|gate| gate.id == *id) {
            all.push(store.approvals().get(id)?);
        }
    }
    Ok(all)
}

fn describe(text: &mut Text, run: &Run, now: Timestamp) {
    let summary = &run.summary;
    let when = |at: Timestamp| format!("{at}  ({})", figures::age(at, now));
    let by = summary.triggered_by.as_ref().map(|by| format!(", by {by}")).unwrap_or_default();
    let trigger = plain(&format!("{} ({}{by})", summary.trigger_id, summary.trigger_type));
    let repository = repository(summary.owner.as_deref(), summary.repo.as_deref(), summary.issue_number);
    let of = |count: u32, cap: u32| (count > 0).then(|| format!("{count} of {cap}"));
    let error = run.error.as_deref().map(|error| text.tone(Tone::Bad, &below(error)));
    let fields = [
        ("id", Some(text.tone(Tone::Strong, summary.id.as_str()))),
        ("workflow", Some(plain(&summary.workflow_name))),
        ("status", Some(text.tone(tone(summary.status), summary.status.as_str()))),
        ("error", error),
        ("phase", Some(summary.current_phase.clone()).filter(|phase| !phase.is_empty())),
        ("trigger", Some(trigger)),
        ("repository", Some(plain(&repository)).filter(|repository| !repository.is_empty())),
        ("session", summary.session_id.as_ref().map(ToString::to_string)),
        ("owner", owner(run, now)),
        ("restarts", of(summary.restart_count, run.restart_cap)),
        ("retries", (summary.retry_count > 0).then(|| summary.retry_count.to_string())),
        ("changed by", run.actor.as_deref().map(plain)),
        ("started", Some(when(summary.started_at))),
        ("queued", run.queued_at.map(when)),
        ("updated", Some(when(summary.updated_at))),
        ("ended", summary.finished_at.map(when)),
        ("used", used(run)),
        ("context", run.context.as_deref().map(|context| shortened(&one_line(context)))),
    ];
    for (label, value) in fields {
        if let Some(value) = value {
            text.field(label, value);
        }
    }
    for (at, (key, value)) in run.scratch.iter().enumerate() {
        text.field(
            if at == 0 { "scratch" } else { "" },
            format_args!("{}: {}", plain(key), shortened(&one_line(value))),
        );
    }
    for (at, (node, status)) in run.node_statuses.iter().enumerate() {
        text.field(
            if at == 0 { "nodes" } else { "" },
            format_args!("{}: {}", plain(node), shortened(&one_line(status))),
        );
    }
}

fn owner(run: &Run, now: Timestamp) -> Option<String> {
    let (owner, until) = (run.summary.lease_owner.as_ref()?, run.summary.lease_expires_at?);
    let lease = if until > now {
        format!("lease expires {}", figures::ahead(until, now))
    } else {
        format!("lease expired {}", figures::age(until, now))
    };
    Some(format!("{}, fence {}, {lease}", plain(owner), run.fence))
}

fn used(run: &Run) -> Option<String> {
    let tokens = run.summary.tokens.map(|tokens| figures::things(tokens, "token"));
    let cost = run.summary.cost.map(figures::dollars);
    let said: Vec<String> = [tokens, cost].into_iter().flatten().collect();
    (!said.is_empty()).then(|| said.join(", "))
}

fn draw_executions(text: &mut Text, executions: &[Execution], now: Timestamp) {
    if executions.is_empty() {
        return;
    }
    let mut table = Table::new(&[
        (Column::Id, "ID"),
        (Column::Word, "PHASE"),
        (Column::Word, "OUTCOME"),
        (Column::Figure, "DURATION"),
        (Column::Figure, "TURNS"),
        (Column::Figure, "TOKENS"),
        (Column::Figure, "COST_USD"),
        (Column::Word, "STOP_REASON"),
    ])
    .dropping(&["TURNS", "TOKENS", "STOP_REASON", "COST_USD", "DURATION"]);
    for execution in executions {
        let end = execution.end.as_ref().map(|end| &end.finish);
        let tokens: Vec<u64> = end.map_or_else(Vec::new, |end| {
            [end.input_tokens, end.cache_creation_input_tokens, end.cache_read_input_tokens, end.output_tokens]
                .into_iter()
                .flatten()
                .collect()
        });
        let until = execution.end.as_ref().map_or(now, |end| end.at).as_micros();
        let ms = until.saturating_sub(execution.started_at.as_micros()).max(0) / 1_000;
        let ms = end.and_then(|end| end.duration_ms).unwrap_or_else(|| ms.unsigned_abs());
        table.row(vec![
            execution.id.to_string(),
            phase_of(execution).to_owned(),
            execution.outcome().to_string(),
            figures::duration(ms),
            end.and_then(|end| end.turns).map(figures::count).unwrap_or_default(),
            if tokens.is_empty() { String::new() } else { figures::count(tokens.iter().sum()) },
            end.and_then(|end| end.cost).map(figures::dollars).unwrap_or_default(),
            end.and_then(|end| end.stop_reason.clone()).unwrap_or_default(),
        ]);
        table.tone(2, stands(execution.outcome()).tone);
    }
    text.line("");
    text.table(&["TURNS", "TOKENS", "COST_USD", "STOP_REASON"].into_iter().fold(table, Table::without_empty));
}

fn draw_gates(text: &mut Text, gates: &[Approval], now: Timestamp) {
    if gates.is_empty() {
        return;
    }
    let mut table = Table::new(&[
        (Column::Id, "ID"),
        (Column::Word, "GATE"),
        (Column::Word, "KIND"),
        (Column::Word, "STATUS"),
        (Column::Text, "RESPONDED_BY"),
        (Column::Text, "RESPONSE"),
        (Column::Word, "CONSUMED_AT"),
        (Column::Word, "CREATED_AT"),
    ])
    .dropping(&["CONSUMED_AT", "KIND", "RESPONSE", "CREATED_AT", "RESPONDED_BY"]);
    for gate in gates {
        let is_answered = matches!(gate.status, ApprovalStatus::Approved | ApprovalStatus::Answered);
        let noted = match (is_answered, gate.consumed_at) {
            (true, Some(at)) => figures::age(at, now),
            (true, None) => "not yet".to_owned(),
            (false, _) => String::new(),
        };
        table.row(vec![
            gate.id.to_string(),
            gate.gate.clone(),
            gate.kind.to_string(),
            gate.status.to_string(),
            gate.responded_by.clone().unwrap_or_default(),
            gate.response.as_deref().map(|response| shortened(&one_line(response))).unwrap_or_default(),
            noted,
            figures::age(gate.created_at, now),
        ]);
        table.tone(3, approvals::tone(gate.status));
    }
    text.line("");
    text.table(&["RESPONDED_BY", "RESPONSE", "CONSUMED_AT"].into_iter().fold(table, Table::without_empty));
}

fn draw_next(text: &mut Text, after: &[wire::NextStep]) {
    text.line("");
    for (at, wire::NextStep { text: said, command }) in after.iter().enumerate() {
        text.field(if at == 0 { "next" } else { "" }, plain(said));
        if let Some(command) = command {
            text.field("", text.tone(Tone::Strong, &plain(command)));
        }
    }
}

/// Returns the beginning of a long text. The JSON output has the full text.
pub(super) fn shortened(said: &str) -> String {
    const CHARS: usize = 100;
    let shown: String = said.chars().take(CHARS).collect();
    let more = if shown.len() < said.len() { "…" } else { "" };
    plain(&shown) + more
}

/// Indents a text of several lines to the column of field values.
fn below(said: &str) -> String {
    plain(said.trim_end()).replace('\n', &format!("\n{:13}", ""))
}

//! Pure conversions of runs, executions and gates. A value that cannot be imported unchanged is noted; a row without
//! valid ids or statuses is refused with the reason.

use std::collections::BTreeMap;

use duolog_log::BlobId;
use duolog_state::owned::execution_bodies::OutputRow;
use duolog_state::owned::executions::{EndRow, ExecutionRow};
use duolog_state::owned::workflow_approvals::Approval;
use duolog_state::owned::workflow_runs::{QueuePlace, RunRow};
use duolog_types::limits::{
    CONTEXT_BYTES_MAX, METADATA_BYTES_MAX, NAME_BYTES_MAX, NODES_BYTES_MAX, OUTPUT_BYTES_MAX, REASON_BYTES_MAX,
    SCRATCH_BYTES_MAX, SCRATCH_VALUE_BYTES_MAX, SKILL_BYTES_MAX, USAGE_TOKENS_MAX, WORD_BYTES_MAX, WORKFLOW_BYTES_MAX,
};
use duolog_types::{
    ApprovalId, ApprovalKind, ApprovalStatus, ExecutionId, HomeId, RunId, RunStatus, Timestamp, TriggerType,
};

use super::model::NoteList;
use super::source::{ApprovalSource, ExecutionSource, Raw, RunSource};
use super::taking::{Taking, instant};
use crate::runs::rules::{self, member};
use crate::runs::{PhaseLabel, PhaseTurn};

/// A converted run with all of its data except for executions and gates.
#[derive(Clone, Debug, PartialEq)]
pub struct MappedRun {
    /// The run. Its cost and its place in the queue are set later.
    pub row: RunRow,
    /// The context, byte for byte.
    pub context: Option<String>,
    /// The scratch: values as JSON, by key.
    pub scratch: BTreeMap<String, String>,
    /// The phases that ended, as JSON, oldest first.
    pub phases: Vec<String>,
    /// The statuses of its nodes, as JSON, by name.
    pub nodes: BTreeMap<String, String>,
}

impl MappedRun {
    /// Sets the fields that follow from its executions: the cost and the type of the trigger.
    ///
    /// Last Light does not store the trigger type with a run. It is the type of the first execution; if there is none,
    /// it follows from the actor, and otherwise from the form of the trigger id.
    pub fn settle(&mut self, facts: &RunFacts) {
        self.row.trigger_type = facts.first.map_or(self.row.trigger_type, |(_, kind)| kind);
        self.row.cost_picos = facts.cost_picos;
        self.row.tokens = facts.tokens;
    }
}

/// A converted execution with its last output.
#[derive(Clone, Debug, PartialEq)]
pub struct MappedExecution {
    /// The execution.
    pub row: ExecutionRow,
    /// The complete last output.
    pub output: Option<String>,
}

/// Facts about a run from its executions and gates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunFacts {
    /// The start and trigger type of the first execution.
    pub first: Option<(Timestamp, TriggerType)>,
    /// The start of the last execution.
    pub last_begun: Option<Timestamp>,
    /// The time of the last gate.
    pub last_asked: Option<Timestamp>,
    /// The last gate without an answer.
    pub pending: Option<String>,
    /// The cost of its executions, in picodollars.
    pub cost_picos: Option<u64>,
    /// The tokens of its executions.
    pub tokens: Option<u64>,
}

impl RunFacts {
    /// Adds an execution of the run.
    pub fn see_execution(&mut self, row: &ExecutionRow) {
        if self.first.is_none_or(|(at, _)| row.started_at < at) {
            self.first = Some((row.started_at, row.trigger_type));
        }
        self.last_begun = self.last_begun.max(Some(row.started_at));
        if let Some(end) = &row.end {
            self.cost_picos = rules::sum(self.cost_picos, end.cost_picos);
            self.tokens = rules::sum(self.tokens, rules::tokens(end));
        }
    }

    /// Adds a gate of the run; gates come in order.
    pub fn see_approval(&mut self, source: &ApprovalSource) {
        self.last_asked = self.last_asked.max(source.created_at.text().and_then(instant));
        if source.status.text() == Some("pending") {
            self.pending = source.id.text().map(str::to_owned);
        }
    }
}

/// Returns the owner of a repository if the trigger is `owner/repo#number` or `owner/repo::workflow`.
fn owner_in<'t>(trigger: &'t str, repo: &str) -> Option<&'t str> {
    let (owner, rest) = trigger.split_once('/')?;
    let rest = rest.strip_prefix(repo)?;
    let is_plain = !owner.is_empty() && !owner.contains([':', '#', ' ']);
    (is_plain && (rest.starts_with('#') || rest.starts_with("::"))).then_some(owner)
}

/// Returns the trigger type by the form of a trigger id.
fn by_shape(trigger: &str) -> TriggerType {
    if trigger.starts_with("slack:") {
        TriggerType::Chat
    } else if trigger.contains("::") {
        TriggerType::Cron
    } else if trigger.split_once('#').is_some_and(|(repo, number)| repo.contains('/') && number.parse::<u64>().is_ok())
    {
        TriggerType::Webhook
    } else {
        TriggerType::Api
    }
}

/// Returns the trigger type by the type of the actor.
fn by_actor(kind: &Raw) -> Option<TriggerType> {
    match kind.text()? {
        "github" => Some(TriggerType::Webhook),
        "slack" => Some(TriggerType::Chat),
        "cli" => Some(TriggerType::Cli),
        "cron" => Some(TriggerType::Cron),
        "admin" | "system" => Some(TriggerType::Api),
        _ => None,
    }
}

/// Converts a run.
///
/// [`MappedRun::settle`] sets the fields that follow from its executions. The lease of a running run expires at its
/// last change, so that the next `recover` claims it.
pub fn run(source: &RunSource, home: HomeId, notes: &mut NoteList) -> Result<MappedRun, String> {
    let mut taking = Taking::of("run", &source.id, notes);
    let id = Taking::id("id", &source.id, RunId::parse)?;
    let workflow_name = Taking::name("workflow_name", &source.workflow_name, WORKFLOW_BYTES_MAX)?;
    rules::check_workflow(&workflow_name).map_err(|error| error.to_string())?;
    let trigger_id = Taking::name("trigger_id", &source.trigger_id, NAME_BYTES_MAX)?;
    let status: RunStatus = Taking::word("status", &source.status)?;
    let started_at = Taking::beginning("started_at", &source.started_at)?;
    let updated_at = taking.moment("updated_at", &source.updated_at).unwrap_or(started_at).max(started_at);
    let finished_at = taking.moment("finished_at", &source.finished_at);
    if status.is_terminal() && finished_at.is_none() {
        taking.note("has no end time: imported with the time of its last change");
    } else if !status.is_terminal() && finished_at.is_some() {
        taking.note(format!("is {status} and has an end time, which is left out"));
    }
    let (owner, repo) = taking.repo(&source.owner, &source.repo, &trigger_id);
    let context = taking.json("context", &source.context, CONTEXT_BYTES_MAX).map(str::to_owned);
    let error = context.as_deref().filter(|_| status.is_terminal()).and_then(error_in).map(Raw::Text);
    let error = error.and_then(|error| taking.text("context.error", &error, REASON_BYTES_MAX));
    let scratch = taking.members("scratch", &source.scratch, SCRATCH_VALUE_BYTES_MAX, SCRATCH_BYTES_MAX);
    let node_statuses = taking.members("node_statuses", &source.node_statuses, METADATA_BYTES_MAX, NODES_BYTES_MAX);
    let phases = taking.phases(&source.phase_history);
    let restart_count = taking.number("restart_count", &source.restart_count, u64::from(u32::MAX)).unwrap_or_default();
    let restart_count = u32::try_from(restart_count).unwrap_or(u32::MAX);
    let bytes = |members: &BTreeMap<String, String>| -> u64 {
        members.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum()
    };
    let row = RunRow {
        id,
        home_id: home,
        workflow_name,
        trigger_type: by_actor(&source.trigger_actor_type).unwrap_or_else(|| by_shape(&trigger_id)),
        trigger_id,
        owner,
        repo,
        issue_number: taking.number("issue_number", &source.issue_number, i64::MAX.unsigned_abs()),
        current_phase: taking.text("current_phase", &source.current_phase, WORD_BYTES_MAX).unwrap_or_default(),
        status,
        queued: (status == RunStatus::Queued).then_some(QueuePlace { is_resumed: false, ord: 0, at: started_at }),
        session_id: None,
        error,
        lease_owner: None,
        lease_expires_at: (status == RunStatus::Running).then_some(updated_at),
        fence: 0,
        restart_count,
        restart_cap: restart_count,
        retry_count: 0,
        triggered_by: taking.text("triggered_by", &source.triggered_by, NAME_BYTES_MAX),
        actor: None,
        phases: phases.len() as u64,
        phases_bytes: phases.iter().map(|entry| entry.len() as u64).sum(),
        scratch_bytes: bytes(&scratch),
        nodes_bytes: bytes(&node_statuses),
        cost_picos: None,
        tokens: None,
        started_at,
        updated_at,
        finished_at: status.is_terminal().then(|| finished_at.unwrap_or(updated_at)),
    };
    Ok(MappedRun { row, context, scratch, phases, nodes: node_statuses })
}

/// Returns the error of a run, which Last Light stores in its context.
fn error_in(context: &str) -> Option<String> {
    let error = member(context, "error").filter(|error| error.starts_with('"'))?;
    // Text that is not Unicode is kept as written.
    Some(serde_json::from_str(error).unwrap_or_else(|_| error.to_owned()))
}

/// The parent of an execution.
#[derive(Clone, Copy, Debug)]
pub enum Parent<'r> {
    /// A run.
    Run {
        /// The id.
        run: &'r RunId,
        /// The end and final status of the run, if it has ended.
        ended: Option<(Timestamp, RunStatus)>,
        /// True if another execution of the same phase is in flight and started later.
        overtaken: bool,
    },
    /// No run, or one that does not exist.
    NoRun,
}

/// Converts an execution.
///
/// Of several executions in flight of one phase, only the last stays in flight. An execution in flight of a run that
/// has ended ends with the run.
pub fn execution(
    source: &ExecutionSource,
    of: Parent<'_>,
    home: HomeId,
    notes: &mut NoteList,
) -> Result<MappedExecution, String> {
    let mut taking = Taking::of("execution", &source.id, notes);
    let id = Taking::id("id", &source.id, ExecutionId::parse)?;
    let trigger_id = Taking::name("trigger_id", &source.trigger_id, NAME_BYTES_MAX)?;
    let skill = Taking::name("skill", &source.skill, SKILL_BYTES_MAX)?;
    if !(1..=WORKFLOW_BYTES_MAX).contains(&rules::workflow_of(&skill).len()) {
        return Err(format!("its skill {:?} has no workflow", rules::clip(&skill, 64)));
    }
    let started_at = Taking::beginning("started_at", &source.started_at)?;
    let trigger_type = match Taking::word("trigger_type", &source.trigger_type) {
        Ok(kind) => kind,
        Err(why) => {
            let kind = if skill == "chat" { TriggerType::Chat } else { by_shape(&trigger_id) };
            taking.note(format!("{why}: imported as {kind}"));
            kind
        }
    };
    let workflow_run_id = match (of, source.workflow_run_id.text()) {
        (Parent::Run { run, .. }, _) => Some(run.clone()),
        (Parent::NoRun, Some(run)) => {
            let run = rules::clip(run, WORD_BYTES_MAX).to_owned();
            taking.note(format!("refers to run {run}, which does not exist: imported without a run"));
            None
        }
        (Parent::NoRun, None) => None,
    };
    let (owner, repo) = taking.repo(&source.owner, &source.repo, &trigger_id);
    let row = ExecutionRow {
        id,
        home_id: home,
        trigger_type,
        trigger_id,
        skill,
        owner,
        repo,
        issue_number: taking.number("issue_number", &source.issue_number, i64::MAX.unsigned_abs()),
        started_at,
        workflow_run_id,
        triggered_by: taking.text("triggered_by", &source.triggered_by, NAME_BYTES_MAX),
        fence: 0,
        session_id: taking.session("session_id", &source.session_id),
        end: taking.end(source, of, started_at),
    };
    let output = match &source.output_text {
        Raw::Text(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Raw::Null => None,
        other => {
            taking.note(format!("output_text is {}, and is left out", other.kind()));
            None
        }
    };
    Ok(MappedExecution { row, output })
}

impl Taking<'_> {
    /// Returns the owner and the name of the repository. Some rows have both in one column, and some have the owner
    /// only in the trigger.
    fn repo(&mut self, owner: &Raw, repo: &Raw, trigger: &str) -> (Option<String>, Option<String>) {
        let (owner, repo) = (self.text("owner", owner, NAME_BYTES_MAX), self.text("repo", repo, NAME_BYTES_MAX));
        let (owner, repo) = rules::split_repo(owner.as_deref(), repo.as_deref());
        let named = repo.as_deref().and_then(|repo| owner_in(trigger, repo));
        (owner.or_else(|| named.map(str::to_owned)), repo)
    }

    /// Notes values that a row has although its status does not allow them.
    fn left_out(&mut self, standing: &str, values: &[(&str, &Raw)]) {
        for (name, _) in values.iter().filter(|(_, value)| **value != Raw::Null) {
            self.note(format!("{standing} and has a value in {name}, which is left out"));
        }
    }

    /// Returns the end of an execution; `None` while it is in flight.
    fn end(&mut self, source: &ExecutionSource, of: Parent<'_>, started_at: Timestamp) -> Option<EndRow> {
        let finished_at = self.moment("finished_at", &source.finished_at);
        let success = self.yes("success", &source.success);
        let mut error = self.text("error", &source.error, REASON_BYTES_MAX);
        let mut stop_reason = self.text("stop_reason", &source.stop_reason, WORD_BYTES_MAX);
        let (finished_at, success) = match (finished_at, success, of) {
            (Some(at), Some(success), _) => (at, success),
            (Some(at), None, _) => {
                self.note("has ended without a result: imported as failed");
                (at, false)
            }
            (None, Some(success), _) => {
                self.note("has no end time: imported with its start time");
                (started_at, success)
            }
            (None, None, Parent::Run { overtaken: true, .. }) => {
                self.note("is in flight, and another execution of its phase started later: imported as stale");
                error = Some("stale: another execution of its phase started later".to_owned());
                stop_reason = Some("stale".to_owned());
                (started_at, false)
            }
            (None, None, Parent::Run { ended: Some((at, status)), .. }) => {
                self.note(format!("is in flight, and its run was {status}: imported as ended with it"));
                error = Some(format!("its run was {status} while it was in flight"));
                stop_reason = Some("run_ended".to_owned());
                (at, false)
            }
            (None, None, _) => {
                let figures = [
                    ("error", &source.error),
                    ("stop_reason", &source.stop_reason),
                    ("turns", &source.turns),
                    ("duration_ms", &source.duration_ms),
                    ("cost_usd", &source.cost_usd),
                    ("input_tokens", &source.input_tokens),
                    ("cache_creation_input_tokens", &source.cache_creation_input_tokens),
                    ("cache_read_input_tokens", &source.cache_read_input_tokens),
                    ("output_tokens", &source.output_tokens),
                    ("api_duration_ms", &source.api_duration_ms),
                ];
                self.left_out("is in flight", &figures);
                return None;
            }
        };
        Some(EndRow {
            finished_at,
            success,
            error,
            turns: self.number("turns", &source.turns, USAGE_TOKENS_MAX),
            duration_ms: self.number("duration_ms", &source.duration_ms, USAGE_TOKENS_MAX),
            cost_picos: self.cost(&source.cost_usd),
            input_tokens: self.number("input_tokens", &source.input_tokens, USAGE_TOKENS_MAX),
            cache_creation_input_tokens: self.number(
                "cache_creation_input_tokens",
                &source.cache_creation_input_tokens,
                USAGE_TOKENS_MAX,
            ),
            cache_read_input_tokens: self.number(
                "cache_read_input_tokens",
                &source.cache_read_input_tokens,
                USAGE_TOKENS_MAX,
            ),
            output_tokens: self.number("output_tokens", &source.output_tokens, USAGE_TOKENS_MAX),
            api_duration_ms: self.number("api_duration_ms", &source.api_duration_ms, USAGE_TOKENS_MAX),
            stop_reason,
        })
    }
}

/// Returns true if an output needs a blob: it is too long for its row, or contains NUL bytes.
pub fn needs_blob(text: &str) -> bool {
    text.len() > OUTPUT_BYTES_MAX || text.contains('\0')
}

/// Returns the row of an output: its end if it is long, without NUL bytes.
pub fn output(text: &str, home: HomeId) -> OutputRow {
    OutputRow {
        text: rules::tail(&text.replace('\0', ""), OUTPUT_BYTES_MAX).to_owned(),
        bytes: text.len() as u64,
        blob: needs_blob(text).then(|| (BlobId::of_bytes(text.as_bytes()).to_string(), home)),
    }
}

/// Converts a gate of a run.
///
/// An answer counts as acknowledged if the run has ended or continued after it. A gate that can no longer be answered,
/// because its run has ended or asked again, is expired.
pub fn approval(
    source: &ApprovalSource,
    run: &MappedRun,
    facts: &RunFacts,
    notes: &mut NoteList,
) -> Result<Approval, String> {
    let mut taking = Taking::of("gate", &source.id, notes);
    let id = Taking::id("id", &source.id, ApprovalId::parse)?;
    let gate = Taking::name("gate", &source.gate, WORD_BYTES_MAX)?;
    let kind = if source.kind == Raw::Null { ApprovalKind::Approve } else { Taking::word("kind", &source.kind)? };
    let created_at = Taking::beginning("created_at", &source.created_at)?;
    let theirs: ApprovalStatus = Taking::word("status", &source.status)?;
    let ended = run.row.finished_at;
    let status = match (kind, theirs) {
        (ApprovalKind::Reply, ApprovalStatus::Approved) => ApprovalStatus::Answered,
        (ApprovalKind::Reply, ApprovalStatus::Rejected) | (ApprovalKind::Approve, ApprovalStatus::Answered) => {
            taking.note(format!("is {theirs}, which is not valid for its kind: imported as expired"));
            ApprovalStatus::Expired
        }
        (_, ApprovalStatus::Pending) if ended.is_some() => {
            taking.note("is pending, and its run has ended: imported as expired");
            ApprovalStatus::Expired
        }
        (_, ApprovalStatus::Pending) if facts.pending.as_deref() != Some(id.as_str()) => {
            taking.note("is pending, and its run waits at a later gate: imported as expired");
            ApprovalStatus::Expired
        }
        (_, status) => status,
    };
    let said_at = taking.moment("responded_at", &source.responded_at);
    let is_open = status == ApprovalStatus::Pending;
    if is_open {
        let answer = [
            ("responded_by", &source.responded_by),
            ("response", &source.response),
            ("responded_at", &source.responded_at),
        ];
        taking.left_out("is pending", &answer);
    } else if said_at.is_none() && theirs != ApprovalStatus::Pending {
        taking.note("has no answer time: imported with the end of its run or its own time");
    }
    let responded_at = (!is_open).then(|| said_at.or(ended).unwrap_or(created_at));
    let went_on = |at: Timestamp| {
        ended.is_some()
            || facts.last_begun.is_some_and(|begun| begun >= at)
            || facts.last_asked.is_some_and(|a| a >= at)
    };
    let is_answer = matches!(status, ApprovalStatus::Approved | ApprovalStatus::Answered);
    let at = loop_of(&gate, kind, &run.scratch);
    Ok(Approval {
        id,
        workflow_run_id: run.row.id.clone(),
        gate,
        summary: taking.text("summary", &source.summary, REASON_BYTES_MAX).unwrap_or_default(),
        status,
        kind,
        requested_by: taking.text("requested_by", &source.requested_by, NAME_BYTES_MAX),
        responded_by: taking.text("responded_by", &source.responded_by, NAME_BYTES_MAX).filter(|_| !is_open),
        response: taking.text("response", &source.response, METADATA_BYTES_MAX).filter(|_| !is_open),
        responded_at,
        created_at,
        content_hash: None,
        expires_at: None,
        consumed_at: responded_at.filter(|at| is_answer && went_on(*at)),
        loop_key: at.as_ref().map(|at| at.0.clone()),
        iteration: at.as_ref().map(|at| at.1),
        output_execution_id: at.and_then(|at| at.2),
    })
}

/// Returns the loop and iteration of a gate named `NAME_iter_N`, from the run's scratch under `NAME`.
fn loop_of(
    gate: &str,
    kind: ApprovalKind,
    scratch: &BTreeMap<String, String>,
) -> Option<(String, u64, Option<ExecutionId>)> {
    let PhaseLabel { name, turn: Some(PhaseTurn::Iteration(turn)) } = PhaseLabel::parse(gate).ok()? else {
        return None;
    };
    let kept = scratch.get(&name).filter(|_| kind == ApprovalKind::Reply)?;
    let is_this = member(kept, "iteration").and_then(|turn| turn.parse().ok()) == Some(u64::from(turn));
    let output = member(kept, "lastOutputExecutionId").filter(|_| is_this);
    let output = output.and_then(|id| serde_json::from_str::<String>(id).ok());
    Some((name, turn.into(), output.and_then(|id| ExecutionId::parse(&id).ok())))
}

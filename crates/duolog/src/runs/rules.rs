//! Pure decisions: the state machine of runs, the labels of phases, and the outcome of executions.

use duolog_log::dialect::money::Money;
use duolog_state::owned::executions::EndRow;
use duolog_state::owned::workflow_runs::RunRow;
use duolog_types::json::{check_object, check_value};
use duolog_types::limits::{
    COST_PICOS_MAX, NAME_BYTES_MAX, REASON_BYTES_MAX, SCRATCH_VALUE_BYTES_MAX, USAGE_COST_MAX, USAGE_TOKENS_MAX,
    WORD_BYTES_MAX, WORKFLOW_BYTES_MAX,
};
use duolog_types::mutant::{self, Mutant};
use duolog_types::names::check_name;
use duolog_types::{Bounded, RunId, RunStatus, Timestamp};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::model::{Attribution, Execution, ExecutionOutcome, Finish};
use crate::error::{Conflict, Error, ErrorKind, Invalid, Result};

/// An event of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A slot is free.
    Admit,
    /// It gives up its slot and waits for another.
    Requeue,
    /// It stops until it is resumed or its gate is answered.
    Pause,
    /// It is running again.
    Resume,
    /// It is queued ahead of every run that has not started.
    ResumeLater,
    /// It succeeded.
    Succeed,
    /// It failed.
    Fail,
    /// It was cancelled.
    Cancel,
    /// It waited too long for a slot.
    Expire,
    /// It was retried after its end and is running.
    Retry,
    /// It was retried after its end and is queued.
    RetryLater,
}

impl Event {
    /// Every event.
    pub const ALL: &'static [Self] = &[
        Self::Admit,
        Self::Requeue,
        Self::Pause,
        Self::Resume,
        Self::ResumeLater,
        Self::Succeed,
        Self::Fail,
        Self::Cancel,
        Self::Expire,
        Self::Retry,
        Self::RetryLater,
    ];

    /// Returns the word in a log line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admit => "admit",
            Self::Requeue => "requeue",
            Self::Pause => "pause",
            Self::Resume | Self::ResumeLater => "resume",
            Self::Succeed => "succeed",
            Self::Fail => "fail",
            Self::Cancel => "cancel",
            Self::Expire => "expire",
            Self::Retry | Self::RetryLater => "retry",
        }
    }

    /// Returns the verb and its participle for error messages; `None` if no caller requests the event by name.
    pub(crate) const fn verb(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Self::Admit => ("admit", "admitted"),
            Self::Requeue => ("requeue", "requeued"),
            Self::Pause => ("pause", "paused"),
            Self::Resume => ("resume", "resumed"),
            Self::Succeed => ("finish", "finished"),
            Self::Fail => ("fail", "failed"),
            Self::Cancel => ("cancel", "cancelled"),
            Self::Retry => ("retry", "retried"),
            Self::Expire | Self::ResumeLater | Self::RetryLater => return None,
        })
    }

    /// Returns the status after the event.
    pub const fn target(self) -> RunStatus {
        match self {
            Self::Admit | Self::Resume | Self::Retry => RunStatus::Running,
            Self::Requeue | Self::ResumeLater | Self::RetryLater => RunStatus::Queued,
            Self::Pause => RunStatus::Paused,
            Self::Succeed => RunStatus::Succeeded,
            Self::Fail => RunStatus::Failed,
            Self::Cancel | Self::Expire => RunStatus::Cancelled,
        }
    }
}

/// Returns the status after an event; `None` if the event is not allowed. This is the complete state machine.
///
/// Only a retry leaves a final status, and never `succeeded`.
pub const fn next(status: RunStatus, event: Event) -> Option<RunStatus> {
    use RunStatus::{Cancelled, Failed, Paused, Queued, Running};
    let legal = matches!(
        (status, event),
        (Queued, Event::Admit | Event::Cancel | Event::Expire)
            | (Running, Event::Requeue | Event::Pause | Event::Succeed | Event::Fail | Event::Cancel)
            | (Paused, Event::Resume | Event::ResumeLater | Event::Fail | Event::Cancel)
            | (Failed | Cancelled, Event::Retry | Event::RetryLater)
    );
    if legal { Some(event.target()) } else { None }
}

/// Returns the possible next statuses.
pub fn may_become(status: RunStatus) -> Vec<RunStatus> {
    let all = RunStatus::ALL.iter().copied();
    all.filter(|to| Event::ALL.iter().any(|event| next(status, *event) == Some(*to))).collect()
}

/// Returns the status after an event; `None` if the run has that status already.
///
/// # Errors
///
/// Returns an error if the event is not allowed.
pub(super) fn decide(run: &RunId, status: RunStatus, event: Event) -> Result<Option<RunStatus>> {
    match next(status, event) {
        Some(status) => Ok(Some(status)),
        None if is_so_already(status, event) => Ok(None),
        None => Err(Error::Conflict(Conflict::RunCannot { run: run.clone(), status, event })),
    }
}

/// Returns true if the effect of an event is there already: for example, a retry finds the run active, or a resume
/// finds it queued.
const fn is_so_already(status: RunStatus, event: Event) -> bool {
    match event {
        Event::Retry | Event::RetryLater => matches!(status, RunStatus::Running | RunStatus::Queued),
        Event::Requeue => matches!(status, RunStatus::Queued),
        Event::Resume | Event::ResumeLater => matches!(status, RunStatus::Running | RunStatus::Queued),
        Event::Admit => matches!(status, RunStatus::Running),
        Event::Pause => matches!(status, RunStatus::Paused),
        Event::Succeed => matches!(status, RunStatus::Succeeded),
        Event::Fail => matches!(status, RunStatus::Failed),
        Event::Cancel | Event::Expire => matches!(status, RunStatus::Cancelled),
    }
}

/// Returns true if a run is running and its lease has expired.
pub(super) fn is_stale(status: RunStatus, lease_expires_at: Option<Timestamp>, now: Timestamp) -> bool {
    status == RunStatus::Running && lease_expires_at.is_none_or(|until| until <= now)
}

/// Returns true if this error of a renewal means that the claim is lost, and not that it should be retried.
pub(super) fn is_claim_lost(error: &Error) -> bool {
    use ErrorKind::{Closed, Conflict, Invalid, NotFound, ReadOnly, Stale, Unsupported};
    matches!(error.kind(), Stale | Conflict | NotFound | Invalid | ReadOnly | Unsupported | Closed)
}

/// Returns the timestamp plus a duration.
pub(super) fn later(at: Timestamp, by: Duration) -> Timestamp {
    let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(at.as_micros().saturating_add(micros))
}

/// Returns a run with a new status and the fields that depend on it. The caller sets its place in the queue.
pub(super) fn turned(before: &RunRow, status: RunStatus, now: Timestamp, lease: Duration) -> RunRow {
    let mut after = touched(before, now);
    after.status = status;
    after.lease_owner = None;
    // A run that stops loses its owner. A final status keeps the fence, so that the owner may repeat the call.
    after.fence += u64::from(!status.is_terminal());
    after.lease_expires_at = (status == RunStatus::Running).then(|| later(now, lease));
    after.finished_at = status.is_terminal().then_some(now);
    after.queued = None;
    if !status.is_terminal() {
        after.error = None;
    }
    after
}

/// Returns a run after a change that keeps its status. A timestamp never goes back, even if the clock was set back.
pub(super) fn touched(before: &RunRow, now: Timestamp) -> RunRow {
    let mut after = before.clone();
    after.updated_at = before.updated_at.max(now);
    after
}

/// Returns the outcome of an execution: not every unsuccessful end is a failure.
pub(super) fn outcome(end: Option<&EndRow>) -> ExecutionOutcome {
    let Some(end) = end else { return ExecutionOutcome::InFlight };
    match (end.success, end.stop_reason.as_deref()) {
        (true, _) => ExecutionOutcome::Succeeded,
        (false, Some("skipped")) => ExecutionOutcome::Skipped,
        (false, Some("error_quota")) => ExecutionOutcome::Deferred,
        (false, _) => ExecutionOutcome::Failed,
    }
}

/// A parsed phase label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseLabel {
    /// The name of the phase.
    pub name: String,
    /// The repetition, if the label has one.
    pub turn: Option<PhaseTurn>,
}

/// The repetition of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhaseTurn {
    /// `name_iter_N`
    Iteration(u32),
    /// `name_iter_N_retry`
    IterationRetry(u32),
    /// `name_fix_N`
    Fix(u32),
    /// `name_recheck_N`
    Recheck(u32),
}

impl PhaseLabel {
    /// Parses a label: 1 to 128 of `A-Z a-z 0-9 _ . -`, optionally ending in `_iter_N`, `_iter_N_retry`, `_fix_N` or
    /// `_recheck_N`.
    pub fn parse(label: &str) -> Result<Self> {
        let is_safe = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
        if label.is_empty() || label.len() > WORD_BYTES_MAX || !label.bytes().all(is_safe) {
            let why = format!("{:?} is not a phase: 1 to {WORD_BYTES_MAX} of A-Z a-z 0-9 _ . -", clip(label, 64));
            return Err(Error::Invalid(Invalid::Value { what: "phase", why }));
        }
        let (body, is_retry) = label.strip_suffix("_retry").map_or((label, false), |body| (body, true));
        for (word, turn) in [
            ("_iter_", if is_retry { PhaseTurn::IterationRetry as fn(u32) -> PhaseTurn } else { PhaseTurn::Iteration }),
            ("_fix_", PhaseTurn::Fix),
            ("_recheck_", PhaseTurn::Recheck),
        ] {
            let Some((name, number)) = body.rsplit_once(word) else { continue };
            let number = number.parse().ok().filter(|_| number.bytes().all(|b| b.is_ascii_digit()));
            if let (false, Some(number)) = (name.is_empty() || (is_retry && word != "_iter_"), number) {
                return Ok(Self { name: name.to_owned(), turn: Some(turn(number)) });
            }
        }
        Ok(Self { name: label.to_owned(), turn: None })
    }
}

/// Returns the skill of an execution of a phase.
pub(super) fn skill(workflow: &str, phase: &str) -> String {
    format!("{workflow}:{phase}")
}

/// Returns the workflow of a skill; `chat` is its own workflow.
pub(crate) fn workflow_of(skill: &str) -> &str {
    skill.rsplit_once(':').map_or(skill, |(workflow, _)| workflow)
}

/// Returns the phase of a skill; `chat` is its own phase.
pub(super) fn phase_of(skill: &str) -> &str {
    skill.rsplit_once(':').map_or(skill, |(_, phase)| phase)
}

/// Checks a workflow's name: it must not contain a colon, which ends it in a skill.
pub(crate) fn check_workflow(name: &str) -> Result<()> {
    check_name("workflow name", name)?;
    bounded::<WORKFLOW_BYTES_MAX>("workflow", name)?;
    if name.contains(':') {
        return Err(Error::Invalid(Invalid::Value { what: "workflow", why: format!("{name:?} contains a colon") }));
    }
    Ok(())
}

/// Checks an optional name.
pub(crate) fn check_named(what: &'static str, name: Option<&String>) -> Result<()> {
    let Some(name) = name else { return Ok(()) };
    bounded::<NAME_BYTES_MAX>(what, name)?;
    if name.is_empty() {
        return Err(Error::Invalid(Invalid::Value { what, why: "must not be empty; leave it out".to_owned() }));
    }
    Ok(())
}

/// Checks the actor and the reason.
pub(super) fn check_act(act: &Attribution) -> Result<()> {
    check_named("actor", act.actor.as_ref())?;
    act.reason.as_ref().map_or(Ok(()), |reason| bounded::<REASON_BYTES_MAX>("reason", reason))
}

/// Returns an error if a text is too long for its column or contains a NUL.
pub(crate) fn bounded<const MAX: usize>(what: &'static str, text: &str) -> Result<()> {
    if text.contains('\0') {
        return Err(Error::Invalid(Invalid::Value { what, why: "contains a NUL byte".to_owned() }));
    }
    Bounded::<MAX>::new(what, text).map(drop).map_err(Error::from)
}

/// Splits a repository into owner and name. An explicit owner overrides the one before a slash.
pub(crate) fn split_repo(owner: Option<&str>, repo: Option<&str>) -> (Option<String>, Option<String>) {
    let (inside, bare) = match repo.and_then(|repo| repo.split_once('/')) {
        Some((inside, bare)) if !inside.is_empty() && !bare.is_empty() => (Some(inside), Some(bare)),
        _ => (None, repo),
    };
    (owner.or(inside).map(str::to_owned), bare.map(str::to_owned))
}

/// Returns the keys and values of a patch to the scratch: a JSON object, each value as written.
pub(super) fn patch(text: &str) -> Result<BTreeMap<String, String>> {
    let bad = |fault| Error::Invalid(Invalid::Item { number: 0, fault });
    check_object(text).map_err(bad)?;
    let members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text).map_err(|error| {
        Error::Invalid(Invalid::Value { what: "scratch", why: format!("has a key that cannot be read: {error}") })
    })?;
    let mut patch = BTreeMap::new();
    for (key, value) in members {
        bounded::<NAME_BYTES_MAX>("a key of the scratch", &key)?;
        let value = value.get().trim();
        if value.len() > SCRATCH_VALUE_BYTES_MAX {
            return Err(Error::Invalid(Invalid::Value {
                what: "scratch",
                why: format!(
                    "value {:?} is {} bytes, and a row takes {SCRATCH_VALUE_BYTES_MAX}: text that can grow belongs in an \
                     execution's output_text, and the scratch points at it",
                    clip(&key, 64),
                    value.len()
                ),
            }));
        }
        patch.insert(key, value.to_owned());
    }
    Ok(patch)
}

/// Sets members of a JSON object. All other members keep their text and order. A loop's state is stored this way.
pub(super) fn with_members(key: &str, before: Option<&str>, set: &[(&str, String)]) -> Result<String> {
    let text = before.map(str::trim).filter(|text| *text != "null").unwrap_or("{}");
    let bad =
        |why: &str| Error::Invalid(Invalid::Value { what: "loop key", why: format!("{:?} {why}", clip(key, 64)) });
    let text = if mutant::is(Mutant::LoopStateReplaced) && !text.starts_with('{') { "{}" } else { text };
    if !text.starts_with('{') {
        return Err(bad("is not a JSON object, which the state of a loop needs"));
    }
    let members: Members<'_> = serde_json::from_str(text).map_err(|_| bad("is an object that cannot be parsed"))?;
    let is_set = |name: &RawValue| set.iter().any(|(other, _)| is_named(name, other));
    let kept = members.0.iter().filter(|(name, _)| !is_set(name));
    let kept = kept.map(|(name, value)| format!("{}:{}", name.get(), value.get()));
    let set = set.iter().map(|(name, value)| format!("\"{name}\":{value}"));
    Ok(format!("{{{}}}", kept.chain(set).collect::<Vec<_>>().join(",")))
}

/// Returns a member of a JSON object as written, the last of several with the same name; `None` if the text is not an
/// object.
///
/// The rest of the object may be any JSON, such as half of a surrogate pair or `1e999`.
pub(crate) fn member<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let members: Members<'a> = serde_json::from_str(text).ok()?;
    members.0.iter().rev().find(|(key, _)| is_named(key, name)).map(|(_, value)| value.get())
}

fn is_named(key: &RawValue, name: &str) -> bool {
    serde_json::from_str::<String>(key.get()).is_ok_and(|key| key == name)
}

/// The members of a JSON object in order, names and values as written.
struct Members<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> std::result::Result<Self::Value, M::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Each)
    }
}

/// Checks a JSON text of any type and its length.
pub(super) fn json<const MAX: usize>(what: &'static str, text: &str) -> Result<()> {
    Bounded::<MAX>::new(what, text).map_err(Error::from)?;
    check_value(text).map_err(|fault| Error::Invalid(Invalid::Item { number: 0, fault }))
}

/// Returns the size after a change, if it is within the limit.
pub(super) fn grown(what: &'static str, bytes: u64, by: i64, max: u64) -> Result<u64> {
    let bytes = bytes.saturating_add_signed(by);
    if bytes > max {
        let why = format!("would be {bytes} bytes, over the limit of {max}: store text in executions and refer to it");
        return Err(Error::Invalid(Invalid::Value { what, why }));
    }
    Ok(bytes)
}

/// Converts a number of dollars.
///
/// # Errors
///
/// Returns an error if the number is negative, not finite, or too large.
pub fn dollars(number: f64) -> Result<Money> {
    let bad = || Error::Invalid(Invalid::Value { what: "cost_usd", why: format!("is {number}; expected 0 or more") });
    if !number.is_finite() || number < 0.0 {
        return Err(bad());
    }
    let over = || Error::Invalid(Invalid::Value { what: "cost_usd", why: format!("is {number}, which is too large") });
    Money::parse(&format!("{number}")).ok_or_else(over)
}

/// Checks the result of an execution.
pub(super) fn check_finish(finish: &Finish) -> Result<()> {
    if let Some(error) = &finish.error {
        bounded::<REASON_BYTES_MAX>("error", error)?;
    }
    if let Some(word) = &finish.stop_reason {
        bounded::<WORD_BYTES_MAX>("stop_reason", word)?;
        if word.is_empty() {
            return Err(Error::Invalid(Invalid::Value {
                what: "stop_reason",
                why: "must not be empty; leave it out".to_owned(),
            }));
        }
    }
    if finish.cost.is_some_and(|cost| cost > Money::from_dollars(USAGE_COST_MAX)) {
        let why = format!("is over the limit of {USAGE_COST_MAX} dollars");
        return Err(Error::Invalid(Invalid::Value { what: "cost", why }));
    }
    let tokens =
        [finish.input_tokens, finish.cache_creation_input_tokens, finish.cache_read_input_tokens, finish.output_tokens];
    let numbers = [finish.turns, finish.duration_ms, finish.api_duration_ms];
    if tokens.into_iter().chain(numbers).flatten().any(|number| number > USAGE_TOKENS_MAX) {
        let why = format!("are over the limit of {USAGE_TOKENS_MAX}");
        return Err(Error::Invalid(Invalid::Value { what: "its numbers", why }));
    }
    Ok(())
}

/// Returns the cost in picodollars, limited to what a column can store.
pub(crate) fn picos(money: Money) -> u64 {
    u64::try_from(money.picos()).unwrap_or(COST_PICOS_MAX).min(COST_PICOS_MAX)
}

/// Adds two optional values, limited to what a column can store.
pub(crate) fn sum(known: Option<u64>, more: Option<u64>) -> Option<u64> {
    match (known, more) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0)).min(COST_PICOS_MAX)),
    }
}

/// Returns the total number of tokens that an execution reported; `None` if it reported none.
pub(crate) fn tokens(end: &EndRow) -> Option<u64> {
    [end.input_tokens, end.cache_creation_input_tokens, end.cache_read_input_tokens, end.output_tokens]
        .into_iter()
        .fold(None, sum)
}

/// Returns the start of a text, cut between characters.
pub(crate) fn clip(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// Returns the end of a text, cut between characters.
pub(crate) fn tail(text: &str, max: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(max))..]
}

/// Returns true if the fields of an execution contain a text, ignoring case.
pub(super) fn is_about(execution: &Execution, lowered: &str) -> bool {
    let holds = |text: &str| text.to_lowercase().contains(lowered);
    let repo = match (&execution.owner, &execution.repo) {
        (Some(owner), Some(repo)) => Some(format!("{owner}/{repo}")),
        (_, repo) => repo.clone(),
    };
    execution.error().is_some_and(holds) || holds(&execution.skill) || repo.as_deref().is_some_and(holds)
}

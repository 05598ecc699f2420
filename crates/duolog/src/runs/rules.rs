//! The state machine of runs, what a phase may be called, and how an execution ended: pure decisions.

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

/// What happens to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A place is free for it.
    Admit,
    /// It gives its place up and waits for another.
    Requeue,
    /// It stops until somebody says something.
    Pause,
    /// It goes on.
    Resume,
    /// It is to go on once a slot is free, before all that have not begun.
    ResumeLater,
    /// It reached its end.
    Succeed,
    /// It came to a bad end.
    Fail,
    /// It is ended from outside.
    Cancel,
    /// It waited too long for a place.
    Expire,
    /// Somebody has it run again after its end.
    Retry,
    /// The same, once there is a place.
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

    /// The word in a log line.
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

    /// The verb in a refusal, and its participle; none if nobody asks for it by name.
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

    /// How a run stands after it.
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

/// The whole machine: how a run stands after an event, or nothing where that may not happen to it.
///
/// Only a retry leaves an end, and never a good one.
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

/// What a run that stands so may become.
pub fn may_become(status: RunStatus) -> Vec<RunStatus> {
    let all = RunStatus::ALL.iter().copied();
    all.filter(|to| Event::ALL.iter().any(|event| next(status, *event) == Some(*to))).collect()
}

/// How a run stands after an event; nothing where it stands so already; or why it cannot.
pub(super) fn decide(run: &RunId, status: RunStatus, event: Event) -> Result<Option<RunStatus>> {
    match next(status, event) {
        Some(status) => Ok(Some(status)),
        None if is_so_already(status, event) => Ok(None),
        None => Err(Error::Conflict(Conflict::RunCannot { run: run.clone(), status, event })),
    }
}

/// True if an event finds what it would make: a retry, for one, finds the run active again, and so does a resumption
/// whose run waits for a slot.
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

/// Returns true if a renewal that failed so means that the claim is lost, and not only that it is to be tried again.
pub(super) fn is_claim_lost(error: &Error) -> bool {
    use ErrorKind::{Closed, Conflict, Invalid, NotFound, ReadOnly, Stale, Unsupported};
    matches!(error.kind(), Stale | Conflict | NotFound | Invalid | ReadOnly | Unsupported | Closed)
}

/// The instant that long after another.
pub(super) fn later(at: Timestamp, by: Duration) -> Timestamp {
    let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(at.as_micros().saturating_add(micros))
}

/// A run after an event: what goes with a status comes and goes with it. Its place in a queue is the caller's matter.
pub(super) fn turned(before: &RunRow, status: RunStatus, now: Timestamp, lease: Duration) -> RunRow {
    let mut after = touched(before, now);
    after.status = status;
    after.lease_owner = None;
    // Whoever held it before it stopped owns it no longer. An end keeps the fence, so that its owner may ask again.
    after.fence += u64::from(!status.is_terminal());
    after.lease_expires_at = (status == RunStatus::Running).then(|| later(now, lease));
    after.finished_at = status.is_terminal().then_some(now);
    after.queued = None;
    if !status.is_terminal() {
        after.error = None;
    }
    after
}

/// A run after a change that leaves its status. A clock that was set back does not take an instant back.
pub(super) fn touched(before: &RunRow, now: Timestamp) -> RunRow {
    let mut after = before.clone();
    after.updated_at = before.updated_at.max(now);
    after
}

/// How an execution ended, as the ledger tells: not every bad end is a failure.
pub(super) fn outcome(end: Option<&EndRow>) -> ExecutionOutcome {
    let Some(end) = end else { return ExecutionOutcome::InFlight };
    match (end.success, end.stop_reason.as_deref()) {
        (true, _) => ExecutionOutcome::Succeeded,
        (false, Some("skipped")) => ExecutionOutcome::Skipped,
        (false, Some("error_quota")) => ExecutionOutcome::Deferred,
        (false, _) => ExecutionOutcome::Failed,
    }
}

/// A phase's label, as the runner of a workflow makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseLabel {
    /// The phase.
    pub name: String,
    /// Which time of it this is, where it has several.
    pub turn: Option<PhaseTurn>,
}

/// Which time of a phase.
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
    /// Reads a label: 1 to 128 of `A-Z a-z 0-9 _ . -`, which may end in `_iter_N`, `_iter_N_retry`, `_fix_N`,
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

/// What an execution of a phase does.
pub(super) fn skill(workflow: &str, phase: &str) -> String {
    format!("{workflow}:{phase}")
}

/// The workflow of a skill; `chat` is its own.
pub(crate) fn workflow_of(skill: &str) -> &str {
    skill.rsplit_once(':').map_or(skill, |(workflow, _)| workflow)
}

/// The phase of a skill; `chat` is its own.
pub(super) fn phase_of(skill: &str) -> &str {
    skill.rsplit_once(':').map_or(skill, |(_, phase)| phase)
}

/// Checks a workflow's name: it stands before a colon in what an execution does.
pub(crate) fn check_workflow(name: &str) -> Result<()> {
    check_name("workflow", name)?;
    bounded::<WORKFLOW_BYTES_MAX>("workflow", name)?;
    if name.contains(':') {
        return Err(Error::Invalid(Invalid::Value { what: "workflow", why: format!("{name:?} has a colon in it") }));
    }
    Ok(())
}

/// Checks a name that may be absent.
pub(crate) fn check_named(what: &'static str, name: Option<&String>) -> Result<()> {
    let Some(name) = name else { return Ok(()) };
    bounded::<NAME_BYTES_MAX>(what, name)?;
    if name.is_empty() {
        return Err(Error::Invalid(Invalid::Value { what, why: "must not be empty; leave it out".to_owned() }));
    }
    Ok(())
}

/// Checks who does something, and why.
pub(super) fn check_act(act: &Attribution) -> Result<()> {
    check_named("actor", act.actor.as_ref())?;
    act.reason.as_ref().map_or(Ok(()), |reason| bounded::<REASON_BYTES_MAX>("reason", reason))
}

/// Checks that a text fits its row.
pub(crate) fn bounded<const MAX: usize>(what: &'static str, text: &str) -> Result<()> {
    if text.contains('\0') {
        return Err(Error::Invalid(Invalid::Value { what, why: "has a NUL byte in it".to_owned() }));
    }
    Bounded::<MAX>::new(what, text).map(drop).map_err(Error::from)
}

/// A repository that may be given with its owner, split. An owner that is said goes before the one in front of a slash.
pub(crate) fn split_repo(owner: Option<&str>, repo: Option<&str>) -> (Option<String>, Option<String>) {
    let (inside, bare) = match repo.and_then(|repo| repo.split_once('/')) {
        Some((inside, bare)) if !inside.is_empty() && !bare.is_empty() => (Some(inside), Some(bare)),
        _ => (None, repo),
    };
    (owner.or(inside).map(str::to_owned), bare.map(str::to_owned))
}

/// The keys and values of a patch to a scratch: a JSON object, each value as it is written there.
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

/// A JSON object with members set: all others stay as they are written, in their order. A loop's state is kept so.
pub(super) fn with_members(key: &str, before: Option<&str>, set: &[(&str, String)]) -> Result<String> {
    let text = before.map(str::trim).filter(|text| *text != "null").unwrap_or("{}");
    let bad =
        |why: &str| Error::Invalid(Invalid::Value { what: "loop key", why: format!("{:?} {why}", clip(key, 64)) });
    let text = if mutant::is(Mutant::LoopStateReplaced) && !text.starts_with('{') { "{}" } else { text };
    if !text.starts_with('{') {
        return Err(bad("holds JSON that is not an object, and a loop keeps its state in one"));
    }
    let members: Members<'_> = serde_json::from_str(text).map_err(|_| bad("holds an object that cannot be read"))?;
    let is_set = |name: &RawValue| set.iter().any(|(other, _)| is_named(name, other));
    let kept = members.0.iter().filter(|(name, _)| !is_set(name));
    let kept = kept.map(|(name, value)| format!("{}:{}", name.get(), value.get()));
    let set = set.iter().map(|(name, value)| format!("\"{name}\":{value}"));
    Ok(format!("{{{}}}", kept.chain(set).collect::<Vec<_>>().join(",")))
}

/// A member of a JSON object as it is written; of two with one name the last. None if the text is not an object.
///
/// What else the object holds may be anything that JSON is, such as half of a surrogate pair or `1e999`.
pub(crate) fn member<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let members: Members<'a> = serde_json::from_str(text).ok()?;
    members.0.iter().rev().find(|(key, _)| is_named(key, name)).map(|(_, value)| value.get())
}

fn is_named(key: &RawValue, name: &str) -> bool {
    serde_json::from_str::<String>(key.get()).is_ok_and(|key| key == name)
}

/// The members of a JSON object in their order, names and values as they are written.
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

/// Checks a JSON text of any kind that fits its row.
pub(super) fn json<const MAX: usize>(what: &'static str, text: &str) -> Result<()> {
    Bounded::<MAX>::new(what, text).map_err(Error::from)?;
    check_value(text).map_err(|fault| Error::Invalid(Invalid::Item { number: 0, fault }))
}

/// Bytes after a change, if they are within what all of them may be.
pub(super) fn grown(what: &'static str, bytes: u64, by: i64, max: u64) -> Result<u64> {
    let bytes = bytes.saturating_add_signed(by);
    if bytes > max {
        let why = format!("would be {bytes} bytes, and all of it may be {max}: keep pointers, and text in executions");
        return Err(Error::Invalid(Invalid::Value { what, why }));
    }
    Ok(bytes)
}

/// Dollars as a number. What is negative or no number is refused; nothing said is not zero.
pub fn dollars(number: f64) -> Result<Money> {
    let bad =
        || Error::Invalid(Invalid::Value { what: "cost_usd", why: format!("is {number}, and a cost is 0 or more") });
    if !number.is_finite() || number < 0.0 {
        return Err(bad());
    }
    let over = || {
        Error::Invalid(Invalid::Value {
            what: "cost_usd",
            why: format!("is {number}, which is more than can be counted"),
        })
    };
    Money::parse(&format!("{number}")).ok_or_else(over)
}

/// Checks how an execution ended.
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
        let why = format!("is over {USAGE_COST_MAX} dollars, which no execution costs");
        return Err(Error::Invalid(Invalid::Value { what: "cost", why }));
    }
    let tokens =
        [finish.input_tokens, finish.cache_creation_input_tokens, finish.cache_read_input_tokens, finish.output_tokens];
    let numbers = [finish.turns, finish.duration_ms, finish.api_duration_ms];
    if tokens.into_iter().chain(numbers).flatten().any(|number| number > USAGE_TOKENS_MAX) {
        let why = format!("are over {USAGE_TOKENS_MAX}, which no execution reaches");
        return Err(Error::Invalid(Invalid::Value { what: "its figures", why }));
    }
    Ok(())
}

/// Picodollars that fit a row.
pub(crate) fn picos(money: Money) -> u64 {
    u64::try_from(money.picos()).unwrap_or(COST_PICOS_MAX).min(COST_PICOS_MAX)
}

/// One more of what may not be known, within what a row holds.
pub(crate) fn sum(known: Option<u64>, more: Option<u64>) -> Option<u64> {
    match (known, more) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0)).min(COST_PICOS_MAX)),
    }
}

/// The tokens of all kinds that an execution said it used; nothing where it said nothing.
pub(crate) fn tokens(end: &EndRow) -> Option<u64> {
    [end.input_tokens, end.cache_creation_input_tokens, end.cache_read_input_tokens, end.output_tokens]
        .into_iter()
        .fold(None, sum)
}

/// The start of a text, cut between characters.
pub(crate) fn clip(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// The end of a text, cut between characters.
pub(crate) fn tail(text: &str, max: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(max))..]
}

/// Whether a text stands in what an execution says of itself, whatever the case of its letters.
pub(super) fn is_about(execution: &Execution, lowered: &str) -> bool {
    let holds = |text: &str| text.to_lowercase().contains(lowered);
    let repo = match (&execution.owner, &execution.repo) {
        (Some(owner), Some(repo)) => Some(format!("{owner}/{repo}")),
        (_, repo) => repo.clone(),
    };
    execution.error().is_some_and(holds) || holds(&execution.skill) || repo.as_deref().is_some_and(holds)
}

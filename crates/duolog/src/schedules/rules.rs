//! What is in force, what is due, and what counts as a failure: pure decisions.

use duolog_state::owned::cron_overrides::CronOverrideRow;
use duolog_types::limits::{CATCH_UP_MAX, REASON_BYTES_MAX, SCHEDULE_GRACE};
use duolog_types::{CronOutcome, Moment};

use super::model::{BaseSchedule, CatchUp, InForce, Origin, Standing};
use super::timetable::Timetable;

/// The values of a schedule that are in force.
pub(super) struct Effective {
    pub(super) cron: InForce<String>,
    pub(super) zone: InForce<String>,
    pub(super) enabled: InForce<bool>,
}

/// What is in force: what was said over a schedule, and where nothing was, what the configuration says.
pub(super) fn effective(base: &BaseSchedule, said: Option<&CronOverrideRow>) -> Effective {
    fn over<T: Clone>(said: Option<T>, base: &T) -> InForce<T> {
        match said {
            Some(value) => InForce { value, from: Origin::Override },
            None => InForce { value: base.clone(), from: Origin::Base },
        }
    }
    Effective {
        cron: over(said.and_then(|said| said.schedule.clone()), &base.cron),
        zone: over(said.and_then(|said| said.zone.clone()), &base.zone),
        enabled: over(said.and_then(|said| said.enabled), &base.enabled),
    }
}

impl Effective {
    /// When it fires; what cannot be used is told as a sentence.
    pub(super) fn timetable(&self) -> Result<Timetable, String> {
        Timetable::parse(&self.cron.value, &self.zone.value).map_err(|bad| format!("{} {}", bad.key, bad.why))
    }
}

/// From when on times count: those before were looked at, or passed before somebody changed the schedule.
pub(super) fn since(ticked_at: Option<Moment>, said: Option<&CronOverrideRow>, now: Moment) -> Option<Moment> {
    // A change by a clock that was ahead must not silence the schedule until then.
    let changed_at = said.map(|said| said.updated_at).filter(|at| *at <= now);
    // A schedule that nobody looked at before begins now: what lies behind it was not missed.
    ticked_at.map(|at| changed_at.map_or(at, |changed_at| at.max(changed_at)))
}

/// A time that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DueAt {
    pub(super) at: Moment,
    /// How many before it are left out, as far as was counted.
    pub(super) missed: u32,
    /// Whether it is only to be kept on record.
    pub(super) is_too_late: bool,
}

/// The times after one instant and up to another that are to be fired, in their order.
pub(super) fn due(timetable: &Timetable, since: Moment, now: Moment, catch_up: CatchUp) -> Vec<DueAt> {
    let mut times = Vec::new();
    let mut until = now;
    // From the last one back, so that a long silence costs no more than a short one.
    while times.len() < CATCH_UP_MAX {
        let Some(at) = timetable.latest(until).filter(|at| *at > since) else { break };
        times.push(at);
        until = Moment::from_micros(at.as_micros().saturating_sub(1));
    }
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let grace = i64::try_from(SCHEDULE_GRACE.as_micros()).unwrap_or(i64::MAX);
    match (catch_up, times.first().copied()) {
        (_, None) => Vec::new(),
        (CatchUp::All, _) => times.iter().rev().map(|at| DueAt { at: *at, missed: 0, is_too_late: false }).collect(),
        (CatchUp::Latest | CatchUp::None, Some(at)) => {
            let is_late = now.as_micros().saturating_sub(at.as_micros()) > grace;
            let is_too_late = catch_up == CatchUp::None && is_late;
            vec![DueAt { at, missed: count(times.len() - 1), is_too_late }]
        }
    }
}

/// How many firings failed one after another, the last first, and since when. What was left out, or goes on, says
/// nothing.
pub(super) fn failures(firings: impl Iterator<Item = (Moment, Standing)>) -> (u32, Option<Moment>) {
    let (mut failures, mut since) = (0, None);
    for (at, standing) in firings {
        match standing {
            Standing::Ended(CronOutcome::Ok | CronOutcome::Nothing) => break,
            Standing::Ended(CronOutcome::Failed) | Standing::Lost => (failures, since) = (failures + 1, Some(at)),
            Standing::Ended(CronOutcome::Skipped) | Standing::Running => {}
        }
    }
    (failures, since)
}

/// What is kept on record of a firing: what it said itself, and what was left out before it.
pub(super) fn told(detail: Option<&str>, missed: u32) -> Option<String> {
    match (detail, told_missed(missed)) {
        (Some(detail), Some(missed)) => {
            let room = REASON_BYTES_MAX - missed.len() - "; ".len();
            Some(format!("{}; {missed}", &detail[..detail.floor_char_boundary(room)]))
        }
        (detail, missed) => detail.map(str::to_owned).or(missed),
    }
}

/// What is kept on record of times that are left out.
pub(super) fn told_missed(missed: u32) -> Option<String> {
    let or_more = if missed as usize + 1 >= CATCH_UP_MAX { " or more" } else { "" };
    match missed {
        0 => None,
        1 => Some("1 earlier time was missed".to_owned()),
        _ => Some(format!("{missed}{or_more} earlier times were missed")),
    }
}

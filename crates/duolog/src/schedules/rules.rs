//! Pure decisions: the values in force, the due times and the failures.

use duolog_state::owned::cron_overrides::CronOverrideRow;
use duolog_state::owned::cron_runs::CronEnd;
use duolog_types::limits::{CATCH_UP_MAX, REASON_BYTES_MAX, SCHEDULE_GRACE};
use duolog_types::{CronOutcome, Timestamp};

use super::model::{BaseSchedule, CatchUp, Due, FiringResult, FiringStatus, InForce, Origin};
use super::timetable::Timetable;

/// The values of a schedule that are in force.
#[derive(Clone)]
pub(super) struct Effective {
    pub(super) cron: InForce<String>,
    pub(super) zone: InForce<String>,
    pub(super) enabled: InForce<bool>,
}

/// Returns the values in force: an override takes precedence over the configuration.
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
    /// Returns the timetable. The error is a sentence.
    pub(super) fn timetable(&self) -> Result<Timetable, String> {
        Timetable::parse(&self.cron.value, &self.zone.value).map_err(|bad| format!("{} {}", bad.key, bad.why))
    }
}

impl Effective {
    /// Returns true if both fire at the same times.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let values = |one: &Self| (one.cron.value.clone(), one.zone.value.clone(), one.enabled.value);
        values(self) == values(other)
    }
}

/// Returns true if the clock at the last tick was ahead of now by more than the clocks of several machines differ.
pub(super) fn was_ahead(ticked_at: Timestamp, now: Timestamp) -> bool {
    ticked_at.as_micros().saturating_sub(now.as_micros()) > micros(SCHEDULE_GRACE)
}

/// A due time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DueAt {
    pub(super) at: Timestamp,
    /// The number of earlier times that are skipped, up to a limit.
    pub(super) missed: u32,
    /// The reason why it is not fired but only recorded.
    pub(super) skipped: Option<String>,
}

/// Returns the times after `since` and up to `now` that are fired or recorded, oldest first.
pub(super) fn due(timetable: &Timetable, since: Timestamp, now: Timestamp, catch_up: CatchUp) -> Vec<DueAt> {
    let mut times = Vec::new();
    let mut until = now;
    // Searched backwards, so that a long pause costs no more than a short one. One more than are fired.
    while times.len() <= CATCH_UP_MAX {
        let Some(at) = timetable.latest(until).filter(|at| *at > since) else { break };
        times.push(at);
        until = Timestamp::from_micros(at.as_micros().saturating_sub(1));
    }
    let Some(latest) = times.first().copied() else { return Vec::new() };
    let is_late = now.as_micros().saturating_sub(latest.as_micros()) > micros(SCHEDULE_GRACE);
    let missed = u32::try_from(times.len() - 1).unwrap_or(u32::MAX);
    match catch_up {
        CatchUp::All => {
            let fires = |at: &Timestamp| DueAt { at: *at, missed: 0, skipped: None };
            let beyond = times.get(CATCH_UP_MAX).map(|at| DueAt { skipped: Some(told_beyond(since)), ..fires(at) });
            beyond.into_iter().chain(times.iter().take(CATCH_UP_MAX).rev().map(fires)).collect()
        }
        CatchUp::None if is_late => {
            let minutes = SCHEDULE_GRACE.as_secs() / 60;
            let why = format!("missed by more than {minutes} minutes, and catch_up is \"none\"");
            vec![DueAt { at: latest, missed, skipped: told(Some(&why), missed) }]
        }
        CatchUp::Latest | CatchUp::None => vec![DueAt { at: latest, missed, skipped: None }],
    }
}

/// Returns the last of the times that passed before a schedule was changed and were not fired, to be recorded.
pub(super) fn passed(timetable: &Timetable, since: Timestamp, now: Timestamp) -> Option<DueAt> {
    let time = due(timetable, since, now, CatchUp::Latest).pop()?;
    let skipped = told(Some("the schedule was changed before this time was fired"), time.missed);
    Some(DueAt { skipped, ..time })
}

fn told_beyond(since: Timestamp) -> String {
    format!(
        "this time and every earlier one after {since} are skipped: catch_up fires {CATCH_UP_MAX} missed times at most"
    )
}

fn micros(time: std::time::Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// Returns the number of consecutive failures, newest first, and the time of the first. Skipped and running firings do
/// not count.
pub(super) fn failures(firings: impl Iterator<Item = (Timestamp, FiringStatus)>) -> (u32, Option<Timestamp>) {
    let (mut failures, mut since) = (0, None);
    for (at, standing) in firings {
        match standing {
            FiringStatus::Ended(CronOutcome::Ok | CronOutcome::Nothing) => break,
            FiringStatus::Ended(CronOutcome::Failed) | FiringStatus::Lost => {
                (failures, since) = (failures + 1, Some(at));
            }
            FiringStatus::Ended(CronOutcome::Skipped) | FiringStatus::Running => {}
        }
    }
    (failures, since)
}

/// Returns the record of a firing that ended.
pub(super) fn end(due: &Due, result: &FiringResult, finished_at: Timestamp) -> CronEnd {
    CronEnd {
        finished_at,
        outcome: result.outcome,
        error: result.error.clone(),
        detail: told(result.detail.as_deref(), due.missed),
        workflow_run_id: result.workflow_run_id.clone(),
    }
}

/// Returns the detail to record for a firing: its own detail, and the number of times that were missed before it.
pub(super) fn told(detail: Option<&str>, missed: u32) -> Option<String> {
    match (detail, told_missed(missed)) {
        (Some(detail), Some(missed)) => {
            let room = REASON_BYTES_MAX - missed.len() - "; ".len();
            Some(format!("{}; {missed}", &detail[..detail.floor_char_boundary(room)]))
        }
        (detail, missed) => detail.map(str::to_owned).or(missed),
    }
}

/// Returns the detail to record for missed times.
pub(super) fn told_missed(missed: u32) -> Option<String> {
    let or_more = if missed as usize >= CATCH_UP_MAX { " or more" } else { "" };
    match missed {
        0 => None,
        1 => Some("1 earlier time was missed".to_owned()),
        _ => Some(format!("{missed}{or_more} earlier times were missed")),
    }
}

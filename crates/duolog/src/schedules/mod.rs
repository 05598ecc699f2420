//! Schedules, their overrides and their history.
//!
//! Schedules are defined in the configuration. An override is in the state, for all homes that share it, and takes
//! precedence. Any number of processes may tick: a process inserts the row of a due time into `cron_runs` before it
//! fires, and only the process that inserted the row fires. A time is therefore fired at most once; if its process
//! dies, that is recorded.

mod fire;
mod model;
mod rules;
mod tick;
mod timetable;

#[cfg(test)]
mod tests;

use duolog_state::owned::cron_overrides::{self, CronOverrideRow};
use duolog_state::owned::cron_runs::{self, CronRunRow};
use duolog_state::owned::cron_ticks::{self, TickRow};
use duolog_state::{ListId, PageToken, Tx};
use duolog_types::limits::{NAME_BYTES_MAX, PAGE_MAX, SCHEDULE_NEXT};
use duolog_types::{CronOutcome, CronRunId, Durability, HomeId, ProcessId, Timestamp};

pub(crate) use fire::check as check_firing;
pub use fire::fire;
pub use model::{
    BaseSchedule, CatchUp, CronRun, Due, Fired, FiringList, FiringResult, FiringStatus, InForce, Interrupted, Origin,
    Schedule, ScheduleChange, ScheduleList, Ticked, Time,
};
pub(crate) use timetable::{BadTimetable, CRON_FORM, Timetable, ZONE_FORM};

use crate::error::{Error, Invalid, NotFound, Result};
use crate::sessions::bounded;
use crate::store::Store;

/// The number of firings that are searched for consecutive failures.
const STREAK_MAX: u32 = 100;

/// The handle for schedules.
#[derive(Clone)]
pub struct Schedules {
    pub(crate) store: Store,
    pub(crate) actor: Option<String>,
}

impl Schedules {
    /// Sets the actor of changes and firings.
    #[must_use]
    pub fn by(mut self, actor: Option<String>) -> Self {
        self.actor = actor.filter(|actor| !actor.is_empty());
        self
    }

    /// Returns every schedule with the values in force, in the order of the configuration.
    pub fn list(&self, now: Timestamp) -> Result<ScheduleList> {
        let bases = &self.store.core.schedules;
        self.store.join.state().read(|tx| {
            let schedules = bases.iter().map(|base| in_force(tx, base, now)).collect::<Result<Vec<_>>>()?;
            let said = cron_overrides::list(tx, "", PAGE_MAX)?;
            let elsewhere = said.into_iter().map(|row| row.name);
            let elsewhere = elsewhere.filter(|name| bases.iter().all(|base| base.name != *name)).collect();
            Ok(ScheduleList { schedules, elsewhere })
        })
    }

    /// Returns one schedule with the values in force.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration has no schedule with this name.
    pub fn get(&self, name: &str, now: Timestamp) -> Result<Schedule> {
        let base = self.base(name)?;
        self.store.join.state().read(|tx| in_force(tx, base, now))
    }

    /// Overrides a schedule from now on. Fields that the change leaves out keep their override; fields that it clears
    /// return to the configuration.
    ///
    /// If the times of the schedule stay the same, due times stay due. Otherwise times that passed and were not fired
    /// are recorded as skipped.
    pub fn set(&self, name: &str, change: &ScheduleChange, durability: Durability) -> Result<Schedule> {
        let base = self.base(name)?.clone();
        self.check_actor()?;
        let (change, actor, by) = (change.clone(), self.actor.clone(), self.by_now()?);
        let now = by.at;
        self.store.transact(durability, move |tx| {
            let before = cron_overrides::find(tx, &base.name)?;
            let was = rules::effective(&base, before.as_ref());
            let (enabled, schedule, zone) =
                before.map_or((None, None, None), |row| (row.enabled, row.schedule, row.zone));
            let row = CronOverrideRow {
                name: base.name.clone(),
                enabled: change.enabled.unwrap_or(enabled),
                schedule: change.cron.clone().unwrap_or(schedule),
                zone: change.zone.clone().unwrap_or(zone),
                updated_at: now,
                updated_by: actor.clone(),
            };
            // Checked together, because an expression depends on its time zone.
            let effective = rules::effective(&base, Some(&row));
            Timetable::parse(&effective.cron.value, &effective.zone.value)
                .map_err(|BadTimetable { key, why }| Error::Invalid(Invalid::Value { what: key, why }))?;
            if row.enabled.is_none() && row.schedule.is_none() && row.zone.is_none() {
                cron_overrides::remove(tx, &base.name)?;
            } else {
                cron_overrides::put(tx, &row)?;
            }
            restart(tx, &base, &was, &effective, &by)?;
            Ok(((), Vec::new()))
        })?;
        self.get(name, now)
    }

    /// Removes the override of a schedule. Returns false if it has none. The schedule need not be in the configuration
    /// any more.
    pub fn clear(&self, name: &str, durability: Durability) -> Result<bool> {
        let (name, by) = (name.to_owned(), self.by_now()?);
        let base = self.store.core.schedules.iter().find(|base| base.name == name).cloned();
        self.store.transact(durability, move |tx| {
            let before = cron_overrides::find(tx, &name)?;
            let removed = cron_overrides::remove(tx, &name)?;
            if let (true, Some(base)) = (removed, &base) {
                let was = rules::effective(base, before.as_ref());
                restart(tx, base, &was, &rules::effective(base, None), &by)?;
            }
            Ok((removed, Vec::new()))
        })
    }

    /// Returns a page of firings, of one schedule or of all, newest first.
    ///
    /// # Errors
    ///
    /// Returns an error if the token belongs to another list.
    pub fn runs(&self, name: Option<&str>, after: Option<&PageToken>, limit: u32) -> Result<FiringList> {
        let (limit, of_list) = (limit.clamp(1, PAGE_MAX), ListId::of("firings", &[name]));
        Invalid::check_page(after, of_list)?;
        let now = self.store.now()?;
        let mut rows = self.store.join.state().read(|tx| match name {
            Some(name) => cron_runs::newest_of(tx, name, after.map(PageToken::at), limit + 1),
            None => cron_runs::newest(tx, after.map(|token| (token.at(), token.key())), limit + 1),
        })?;
        let is_more = rows.len() > limit as usize;
        rows.truncate(limit as usize);
        let last = rows.last().filter(|_| is_more);
        let next = last.map(|row| PageToken::new(of_list, 1, row.due_at, &row.name));
        Ok(FiringList { runs: rows.into_iter().map(|row| CronRun::of(row, now)).collect(), next })
    }

    /// Returns the firing with this id; `None` if there is none.
    pub fn run(&self, id: CronRunId) -> Result<Option<CronRun>> {
        let now = self.store.now()?;
        let row = self.store.join.state().read(|tx| cron_runs::find(tx, id))?;
        Ok(row.map(|row| CronRun::of(row, now)))
    }

    fn by_now(&self) -> Result<By> {
        let join = &self.store.join;
        Ok(By { home: join.home(), process: join.process(), actor: self.actor.clone(), at: self.store.now()? })
    }

    fn base(&self, name: &str) -> Result<&BaseSchedule> {
        find_base(&self.store.core.schedules, name)
    }

    fn check_actor(&self) -> Result<()> {
        self.actor.as_deref().map_or(Ok(()), |actor| bounded::<NAME_BYTES_MAX>("actor", actor))
    }
}

/// Returns the time from which on the times of a schedule count, and true if the clock was set back since; `None` if
/// the schedule was never ticked, so that nothing was missed.
fn since(tx: &mut Tx<'_>, name: &str, now: Timestamp, clock: Timestamp) -> Result<Option<(Timestamp, bool)>> {
    let Some(TickRow { ticked_at, from_at }) = cron_ticks::find(tx, name)? else { return Ok(None) };
    // A caller may tick for a time in the past; that does not mean that the clock was set back.
    if !rules::was_ahead(ticked_at, now.max(clock)) {
        return Ok(Some((ticked_at, false)));
    }
    // The clock was ahead at the last tick: times after the last one with a row were not fired.
    let until = Timestamp::from_micros(now.as_micros().saturating_add(1));
    let fired = cron_runs::newest_of(tx, name, Some(until), 1)?.pop().map(|row| row.due_at);
    let since = if from_at.is_some_and(|at| at > now) { None } else { fired.max(from_at) };
    Ok(Some((since.unwrap_or(now), true)))
}

/// Records the time up to which a schedule was ticked.
fn move_to(tx: &mut Tx<'_>, name: &str, at: Timestamp, back: bool) -> duolog_state::Result<()> {
    if back { cron_ticks::set_back(tx, name, at) } else { cron_ticks::advance(tx, name, at) }
}

/// Makes a changed schedule count from now on, and records the times that passed and were not fired.
fn restart(tx: &mut Tx<'_>, base: &BaseSchedule, was: &rules::Effective, is: &rules::Effective, by: &By) -> Result<()> {
    if was.is_same(is) {
        return Ok(());
    }
    let Some((since, _)) = since(tx, &base.name, by.at, by.at)? else { return Ok(()) };
    if was.enabled.value
        && let Ok(timetable) = was.timetable()
        && let Some(time) = rules::passed(&timetable, since, by.at)
    {
        cron_runs::claim(tx, &row_of(base, CronRunId::new(), &time, by))?;
    }
    Ok(cron_ticks::restart(tx, &base.name, by.at)?)
}

/// The actor and process of a firing.
struct By {
    home: HomeId,
    process: ProcessId,
    actor: Option<String>,
    /// The current time by the clock of the state. The caller may tick for another time.
    at: Timestamp,
}

fn row_of(base: &BaseSchedule, id: CronRunId, time: &rules::DueAt, by: &By) -> CronRunRow {
    let is_skipped = time.skipped.is_some();
    CronRunRow {
        id,
        name: base.name.clone(),
        workflow: base.workflow.clone(),
        due_at: time.at,
        started_at: by.at,
        finished_at: is_skipped.then_some(by.at),
        outcome: is_skipped.then_some(CronOutcome::Skipped),
        error: None,
        detail: time.skipped.clone().or_else(|| rules::told_missed(time.missed)),
        workflow_run_id: None,
        home_id: by.home,
        process_id: by.process,
        actor: by.actor.clone(),
    }
}

/// Returns the schedule with this name.
///
/// # Errors
///
/// Returns an error that suggests the most similar name if there is no such schedule.
pub fn find_base<'b>(bases: &'b [BaseSchedule], name: &str) -> Result<&'b BaseSchedule> {
    bases.iter().find(|base| base.name == name).ok_or_else(|| {
        let names = bases.iter().map(|base| base.name.as_str());
        let near = names.filter_map(|known| Some((crate::config::near(name, known)?, known))).min();
        Error::NotFound(NotFound::Schedule { name: name.to_owned(), near: near.map(|(_, known)| known.to_owned()) })
    })
}

/// Returns a schedule without its override and history, for a home without a state.
pub fn as_configured(base: &BaseSchedule, now: Timestamp) -> Schedule {
    told(base, None, now)
}

/// Returns a schedule with the values in force.
fn in_force(tx: &mut Tx<'_>, base: &BaseSchedule, now: Timestamp) -> Result<Schedule> {
    let said = cron_overrides::find(tx, &base.name)?;
    let latest = cron_runs::newest_of(tx, &base.name, None, 1)?.pop().map(|row| CronRun::of(row, now));
    let standings = cron_runs::last_outcomes(tx, &base.name, STREAK_MAX)?;
    let firings = standings.into_iter().map(|(at, outcome)| (at, FiringStatus::of(at, outcome, now)));
    let (failures, failing_since) = rules::failures(firings);
    Ok(Schedule { latest, failures, failing_since, ..told(base, said, now) })
}

/// Returns a schedule with its override, without its history.
fn told(base: &BaseSchedule, said: Option<CronOverrideRow>, now: Timestamp) -> Schedule {
    let effective = rules::effective(base, said.as_ref());
    let (next, problem) = match effective.timetable() {
        Ok(timetable) if effective.enabled.value => (coming(&timetable, now), None),
        Ok(_) => (Vec::new(), None),
        Err(why) => (Vec::new(), Some(why)),
    };
    let rules::Effective { cron, zone, enabled } = effective;
    Schedule {
        base: base.clone(),
        cron,
        zone,
        enabled,
        overridden: said.map(|row| (row.updated_at, row.updated_by)),
        next,
        problem,
        latest: None,
        failures: 0,
        failing_since: None,
    }
}

fn coming(timetable: &Timetable, now: Timestamp) -> Vec<Time> {
    let times = std::iter::successors(timetable.next(now), |at| timetable.next(*at));
    times.take(SCHEDULE_NEXT).map(|at| Time { at, local: timetable.on_the_wall(at) }).collect()
}

//! Schedules: what fires when, what is said over it, and what came of each time.
//!
//! The configuration has the schedules; what is said over one lives in the state, for all homes that share it, and goes
//! before. Any number of processes may tick: the row of a time in `cron_runs` is added before it is fired, and only who
//! added it fires it. So a time is fired once or, where whoever took it dies, not at all, and that is on record.

mod fire;
mod model;
mod rules;
mod timetable;

#[cfg(test)]
mod tests;

use duolog_state::Tx;
use duolog_state::owned::cron_overrides::{self, CronOverrideRow};
use duolog_state::owned::cron_runs::{self, CronEnd, CronRunRow};
use duolog_state::owned::cron_ticks;
use duolog_types::limits::{NAME_BYTES_MAX, PAGE_MAX, SCHEDULE_NEXT};
use duolog_types::{CronOutcome, CronRunId, Durability, HomeId, Moment, ProcessId};
use serde::{Deserialize, Serialize};

pub use fire::fire;
pub use model::{
    BaseSchedule, CatchUp, CronRun, Due, Fired, InForce, Origin, Outcome, RunList, RunsToken, Schedule, ScheduleChange,
    ScheduleList, Standing, Ticked, Time,
};
pub(crate) use timetable::{BadTimetable, CRON_FORM, Timetable, ZONE_FORM};

use crate::error::{Error, Result};
use crate::sessions::bounded;
use crate::store::Store;

/// The firings that are looked at for failures one after another.
const STREAK_MAX: u32 = 100;

/// The schedules of a store.
#[derive(Clone)]
pub struct Schedules<'s> {
    pub(crate) store: &'s Store,
    pub(crate) actor: Option<String>,
}

impl Schedules<'_> {
    /// The same, with who changes or fires them.
    #[must_use]
    pub fn by(mut self, actor: Option<String>) -> Self {
        self.actor = actor.filter(|actor| !actor.is_empty());
        self
    }

    /// Every schedule as it is in force, in the order of the configuration.
    pub fn list(&self, now: Moment) -> Result<ScheduleList> {
        let bases = &self.store.schedules;
        self.store.join.state().read(|tx| {
            let schedules = bases.iter().map(|base| in_force(tx, base, now)).collect::<Result<Vec<_>>>()?;
            let said = cron_overrides::list(tx, "", PAGE_MAX)?;
            let elsewhere = said.into_iter().map(|row| row.name);
            let elsewhere = elsewhere.filter(|name| bases.iter().all(|base| base.name != *name)).collect();
            Ok(ScheduleList { schedules, elsewhere })
        })
    }

    /// One schedule as it is in force.
    pub fn get(&self, name: &str, now: Moment) -> Result<Schedule> {
        let base = self.base(name)?;
        self.store.join.state().read(|tx| in_force(tx, base, now))
    }

    /// Says something over a schedule, from now on. What is said already and not mentioned stays; what is cleared is as
    /// the configuration has it.
    pub fn set(&self, name: &str, change: &ScheduleChange, durability: Durability) -> Result<Schedule> {
        let base = self.base(name)?.clone();
        self.check_actor()?;
        let now = self.store.join.clock().now();
        let (change, actor) = (change.clone(), self.actor.clone());
        self.store.transact(durability, move |tx| {
            let before = cron_overrides::find(tx, &base.name)?;
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
            // Checked together: an expression is one in its zone.
            let effective = rules::effective(&base, Some(&row));
            Timetable::parse(&effective.cron.value, &effective.zone.value)
                .map_err(|BadTimetable { key, why }| Error::BadValue { what: key, why })?;
            if row.enabled.is_none() && row.schedule.is_none() && row.zone.is_none() {
                take_back(tx, &base.name, now)?;
            } else {
                cron_overrides::put(tx, &row)?;
            }
            Ok(((), Vec::new()))
        })?;
        self.get(name, now)
    }

    /// Has a schedule as the configuration has it again; false where nothing was said over it. The configuration need
    /// not have it any more.
    pub fn clear(&self, name: &str, durability: Durability) -> Result<bool> {
        let name = name.to_owned();
        let now = self.store.join.clock().now();
        self.store.transact(durability, move |tx| Ok((take_back(tx, &name, now)?, Vec::new())))
    }

    /// A page of firings, the latest time first: of one schedule, or of all.
    pub fn runs(&self, name: Option<&str>, after: Option<&RunsToken>, limit: u32) -> Result<RunList> {
        let limit = limit.clamp(1, PAGE_MAX);
        let now = self.store.join.clock().now();
        let mut rows = self.store.join.state().read(|tx| match name {
            Some(name) => cron_runs::newest_of(tx, name, after.map(|token| token.due_at), limit + 1),
            None => cron_runs::newest(tx, after.map(|token| (token.due_at, token.name.as_str())), limit + 1),
        })?;
        let is_more = rows.len() > limit as usize;
        rows.truncate(limit as usize);
        let last = rows.last().filter(|_| is_more);
        let next = last.map(|row| RunsToken { due_at: row.due_at, name: row.name.clone() });
        Ok(RunList { runs: rows.into_iter().map(|row| CronRun::of(row, now)).collect(), next })
    }

    /// The firing with this id.
    pub fn run(&self, id: CronRunId) -> Result<Option<CronRun>> {
        let now = self.store.join.clock().now();
        let row = self.store.join.state().read(|tx| cron_runs::find(tx, id))?;
        Ok(row.map(|row| CronRun::of(row, now)))
    }

    /// Fires what has become due since the last tick: what each time is for is done by `fire`, and what it answers is
    /// kept.
    ///
    /// Several processes, in several homes, may tick at once; each time is fired by one of them. The first look at a
    /// schedule fires nothing. When a process dies inside `fire`, that time is not fired again, and stands as lost.
    pub fn tick(&self, now: Moment, mut fire: impl FnMut(&Due) -> Outcome) -> Result<Ticked> {
        self.check_actor()?;
        let mut ticked = Ticked::default();
        let mut idle = Vec::new();
        for base in &self.store.schedules {
            match self.look(base, now)? {
                Look::Nothing => idle.push(base.name.clone()),
                Look::Due => {
                    let claimed = self.claim(base, now)?;
                    ticked.taken += claimed.taken;
                    for due in claimed.due {
                        let outcome = fire(&due);
                        self.finish(&due, &outcome)?;
                        ticked.fired.push(Fired { due, outcome });
                    }
                }
                Look::Wrong(why) => ticked.problems.push((base.name.clone(), why)),
            }
        }
        if !idle.is_empty() {
            // Lost with the power it is looked at again, and nothing is due twice.
            self.store.transact(Durability::Process, move |tx| {
                for name in &idle {
                    cron_ticks::put(tx, name, now)?;
                }
                Ok(((), Vec::new()))
            })?;
        }
        Ok(ticked)
    }

    /// Whether anything of a schedule is due. Most ticks end here.
    fn look(&self, base: &BaseSchedule, now: Moment) -> Result<Look> {
        self.store.join.state().read(|tx| {
            let said = cron_overrides::find(tx, &base.name)?;
            let effective = rules::effective(base, said.as_ref());
            let timetable = match effective.timetable() {
                Ok(timetable) => timetable,
                Err(why) => return Ok(Look::Wrong(why)),
            };
            let since = rules::since(cron_ticks::find(tx, &base.name)?, said.as_ref(), now);
            let is_due = since.is_some_and(|since| timetable.latest(now).is_some_and(|at| at > since));
            Ok::<_, Error>(if is_due && effective.enabled.value { Look::Due } else { Look::Nothing })
        })
    }

    /// Takes what is due of a schedule, as far as nobody has. Synced, so that a power cut fires nothing twice.
    fn claim(&self, base: &BaseSchedule, now: Moment) -> Result<Claimed> {
        let join = &self.store.join;
        let base = base.clone();
        let by = By { home: join.home(), process: join.process(), actor: self.actor.clone(), at: join.clock().now() };
        self.store.transact(Durability::Power, move |tx| {
            let said = cron_overrides::find(tx, &base.name)?;
            let effective = rules::effective(&base, said.as_ref());
            let since = rules::since(cron_ticks::find(tx, &base.name)?, said.as_ref(), now);
            cron_ticks::put(tx, &base.name, now)?;
            let mut claimed = Claimed::default();
            let (Some(since), true, Ok(timetable)) = (since, effective.enabled.value, effective.timetable()) else {
                return Ok((claimed, Vec::new()));
            };
            for time in rules::due(&timetable, since, now, base.catch_up) {
                let row = row_of(&base, &time, &by);
                if !cron_runs::claim(tx, &row)? {
                    claimed.taken += 1;
                } else if !time.is_too_late {
                    claimed.due.push(Due {
                        id: row.id,
                        name: row.name,
                        workflow: row.workflow,
                        context: base.context.clone(),
                        due_at: row.due_at,
                        missed: time.missed,
                    });
                }
            }
            Ok((claimed, Vec::new()))
        })
    }

    fn finish(&self, due: &Due, outcome: &Outcome) -> Result<()> {
        let id = due.id;
        let end = CronEnd {
            finished_at: self.store.join.clock().now(),
            outcome: outcome.outcome,
            error: outcome.error.clone(),
            detail: rules::told(outcome.detail.as_deref(), due.missed),
            workflow_run_id: outcome.workflow_run_id.clone(),
        };
        self.store.transact(Durability::Power, move |tx| Ok((cron_runs::finish(tx, id, &end)?, Vec::new()))).map(drop)
    }

    fn base(&self, name: &str) -> Result<&BaseSchedule> {
        find_base(&self.store.schedules, name)
    }

    fn check_actor(&self) -> Result<()> {
        self.actor.as_deref().map_or(Ok(()), |actor| bounded::<NAME_BYTES_MAX>("actor", actor))
    }
}

/// Takes back what was said over a schedule; false where nothing was.
fn take_back(tx: &mut Tx<'_>, name: &str, now: Moment) -> duolog_state::Result<bool> {
    let was = cron_overrides::remove(tx, name)?;
    // What passed while something else was in force was not missed.
    if was && cron_ticks::find(tx, name)?.is_some() {
        cron_ticks::put(tx, name, now)?;
    }
    Ok(was)
}

/// What a look at a schedule shows.
enum Look {
    Nothing,
    Due,
    Wrong(String),
}

/// What a process took of a schedule.
#[derive(Default, Serialize, Deserialize)]
struct Claimed {
    due: Vec<Due>,
    taken: u32,
}

/// Who fires.
struct By {
    home: HomeId,
    process: ProcessId,
    actor: Option<String>,
    /// When, by the clock: the times that are due are looked for up to another instant, if the caller wants.
    at: Moment,
}

fn row_of(base: &BaseSchedule, time: &rules::DueAt, by: &By) -> CronRunRow {
    let missed = rules::told_missed(time.missed);
    let detail = if time.is_too_late { Some("it was missed, and is not made up for".to_owned()) } else { missed };
    CronRunRow {
        id: CronRunId::new(),
        name: base.name.clone(),
        workflow: base.workflow.clone(),
        due_at: time.at,
        started_at: by.at,
        finished_at: time.is_too_late.then_some(by.at),
        outcome: time.is_too_late.then_some(CronOutcome::Skipped),
        error: None,
        detail,
        workflow_run_id: None,
        home_id: by.home,
        process_id: by.process,
        actor: by.actor.clone(),
    }
}

/// The schedule of this name. Where there is none, the error names the nearest.
pub fn find_base<'b>(bases: &'b [BaseSchedule], name: &str) -> Result<&'b BaseSchedule> {
    bases.iter().find(|base| base.name == name).ok_or_else(|| {
        let names = bases.iter().map(|base| base.name.as_str());
        let near = names.filter_map(|known| Some((crate::config::near(name, known)?, known))).min();
        Error::NoSchedule { name: name.to_owned(), near: near.map(|(_, known)| known.to_owned()) }
    })
}

/// A schedule as the configuration has it, where there is no state that could say anything over it.
pub fn as_configured(base: &BaseSchedule, now: Moment) -> Schedule {
    told(base, None, now)
}

/// A schedule as it is in force.
fn in_force(tx: &mut Tx<'_>, base: &BaseSchedule, now: Moment) -> Result<Schedule> {
    let said = cron_overrides::find(tx, &base.name)?;
    let latest = cron_runs::newest_of(tx, &base.name, None, 1)?.pop().map(|row| CronRun::of(row, now));
    let standings = cron_runs::standings(tx, &base.name, STREAK_MAX)?;
    let firings = standings.into_iter().map(|(at, outcome)| (at, Standing::of(at, outcome, now)));
    let (failures, failing_since) = rules::failures(firings);
    Ok(Schedule { latest, failures, failing_since, ..told(base, said, now) })
}

/// A schedule with what is said over it, and nothing of what came of it.
fn told(base: &BaseSchedule, said: Option<CronOverrideRow>, now: Moment) -> Schedule {
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

fn coming(timetable: &Timetable, now: Moment) -> Vec<Time> {
    let times = std::iter::successors(timetable.next(now), |at| timetable.next(*at));
    times.take(SCHEDULE_NEXT).map(|at| Time { at, local: timetable.on_the_wall(at) }).collect()
}

//! Ticks: due times are claimed, fired and recorded.

use duolog_join::{IdempotencyKey, Write};
use duolog_state::owned::{cron_overrides, cron_runs, cron_ticks};
use duolog_types::limits::PAGE_MAX;
use duolog_types::{CronOutcome, CronRunId, Durability, Timestamp};
use serde::{Deserialize, Serialize};

use super::model::{BaseSchedule, Due, Fired, FiringResult, Interrupted, Ticked};
use super::{Schedules, move_to, row_of, rules, since};
use crate::error::{Error, Result};
use crate::store::Store;

impl Schedules {
    /// Fires the times that became due since the last tick: `fire` is called for each time, and its result is recorded.
    ///
    /// Several processes, in several homes, may tick at once; each time is fired by one of them. The first tick of a
    /// schedule fires nothing. A time is claimed right before it is fired: if the process dies inside `fire`, that time
    /// is not fired again and is recorded as lost, and the later times stay due. [`super::fire`] records its result in
    /// the transaction that starts the run, and that record is final. `now` is [`crate::Store::now`] or earlier.
    ///
    /// Under an operation id ([`crate::Store::once`]), a retry returns the times that were fired before, fires those
    /// that were claimed and not finished, and continues up to the same time. `fire` is called again only for
    /// unfinished times. It gets a store handle, through which one change is made once.
    ///
    /// # Errors
    ///
    /// Returns the first error, together with the times that were fired before it.
    pub fn tick(
        &self,
        now: Timestamp,
        mut fire: impl FnMut(&Store, &Due) -> FiringResult,
    ) -> std::result::Result<Ticked, Box<Interrupted>> {
        let mut ticked = Ticked::default();
        let done = self.store.request_key().and_then(|key| {
            // Each part of the request has its own key; other work has no key.
            let schedules = Self { store: self.store.under(None), actor: self.actor.clone() };
            schedules.tick_all(now, key.as_ref(), &mut fire, &mut ticked)
        });
        match done {
            Ok(()) => {
                self.store.end_request();
                Ok(ticked)
            }
            Err(error) => Err(Box::new(Interrupted { ticked, error })),
        }
    }

    fn tick_all(
        &self,
        now: Timestamp,
        key: Option<&IdempotencyKey>,
        fire: &mut dyn FnMut(&Store, &Due) -> FiringResult,
        ticked: &mut Ticked,
    ) -> Result<()> {
        self.check_actor()?;
        let before: Option<Timestamp> = key.map_or(Ok(None), |key| self.store.join.answer_to(key))?;
        let now = match (before, key) {
            (Some(before), _) => before,
            (None, Some(key)) => {
                let how = Write::once(Durability::Power, Some(key.clone()));
                self.store.transact(how, move |_| Ok((now, Vec::new())))?
            }
            (None, None) => now,
        };
        let clock = self.store.now()?;
        let mut idle = Vec::new();
        for base in &self.store.core.schedules {
            if let Some(key) = key.filter(|_| before.is_some()) {
                self.resume(base, now, key, fire, ticked)?;
            }
            match self.look(base, now, clock)? {
                Look::Nothing(idled) => idle.push(idled),
                Look::Wrong(why) => ticked.problems.push((base.name.clone(), why)),
                Look::Due(effective, times) => {
                    for (at, time) in times.iter().enumerate() {
                        // After the last time, the schedule is up to date; before that, an error leaves the other times
                        // due.
                        let until = if at + 1 == times.len() { now } else { time.at };
                        match self.claim(base, time, &effective, (now, until), key)? {
                            Claim::Taken => ticked.taken += 1,
                            Claim::Changed => break,
                            Claim::Mine(due) => {
                                if let Some(why) = &time.skipped {
                                    ticked.fired.push(Fired { due, outcome: FiringResult::skipped(why) });
                                } else {
                                    self.fire(due, key, fire, ticked)?;
                                }
                            }
                        }
                    }
                }
            }
        }
        if idle.is_empty() {
            return Ok(());
        }
        // If a power loss undoes this, the schedule is examined again; no time becomes due twice.
        self.store.transact(Durability::Process, move |tx| {
            for Idle { name, enabled } in &idle {
                let row = cron_ticks::find(tx, name)?;
                let back = row.is_some_and(|row| rules::was_ahead(row.ticked_at, now.max(clock)));
                if *enabled {
                    move_to(tx, name, now, back)?;
                } else if back || row.is_none_or(|row| row.ticked_at < now) {
                    cron_ticks::restart(tx, name, now)?;
                }
            }
            Ok(((), Vec::new()))
        })
    }

    /// Fires a claimed time, and records the result.
    fn fire(
        &self,
        due: Due,
        key: Option<&IdempotencyKey>,
        fire: &mut dyn FnMut(&Store, &Due) -> FiringResult,
        ticked: &mut Ticked,
    ) -> Result<()> {
        let part = key.map(|key| key.part(&due.id.to_string()));
        let store = self.store.under(part.as_ref().map(|part| part.part("fire")));
        let outcome = fire(&store, &due);
        let kept = self.finish(&due, &outcome, part.map(|part| part.part("end")));
        ticked.fired.push(Fired { due, outcome });
        kept
    }

    /// Returns the times of a schedule that were claimed under this key before, and fires those that were not finished.
    fn resume(
        &self,
        base: &BaseSchedule,
        now: Timestamp,
        key: &IdempotencyKey,
        fire: &mut dyn FnMut(&Store, &Due) -> FiringResult,
        ticked: &mut Ticked,
    ) -> Result<()> {
        let join = &self.store.join;
        let until = Timestamp::from_micros(now.as_micros().saturating_add(1));
        let rows = join.state().read(|tx| cron_runs::newest_of(tx, &base.name, Some(until), PAGE_MAX))?;
        for row in rows.into_iter().rev() {
            let part = key.part(&row.id.to_string());
            let Some(Claim::Mine(due)) = join.answer_to(&part)? else { continue };
            let ended: Option<FiringResult> = join.answer_to(&part.part("end"))?;
            if let Some(outcome) = ended {
                ticked.fired.push(Fired { due, outcome });
            } else if row.outcome == Some(CronOutcome::Skipped) {
                ticked.fired.push(Fired { due, outcome: FiringResult::skipped(row.detail.unwrap_or_default()) });
            } else {
                self.fire(due, Some(key), fire, ticked)?;
            }
        }
        Ok(())
    }

    /// Finds the due times of a schedule. Most ticks end here.
    fn look(&self, base: &BaseSchedule, now: Timestamp, clock: Timestamp) -> Result<Look> {
        self.store.join.state().read(|tx| {
            let said = cron_overrides::find(tx, &base.name)?;
            let effective = rules::effective(base, said.as_ref());
            let timetable = match effective.timetable() {
                Ok(timetable) => timetable,
                Err(why) => return Ok(Look::Wrong(why)),
            };
            let since = since(tx, &base.name, now, clock)?.map(|(since, _)| since);
            let enabled = effective.enabled.value;
            let since = since.filter(|since| enabled && timetable.latest(now).is_some_and(|at| at > *since));
            Ok::<_, Error>(match since {
                Some(since) => Look::Due(effective, rules::due(&timetable, since, now, base.catch_up)),
                None => Look::Nothing(Idle { name: base.name.clone(), enabled }),
            })
        })
    }

    /// Claims a due time, unless another process claimed it or the schedule was changed in the meantime. The claim is
    /// synced, so that a power loss does not lead to a second firing.
    fn claim(
        &self,
        base: &BaseSchedule,
        time: &rules::DueAt,
        looked: &rules::Effective,
        (now, until): (Timestamp, Timestamp),
        key: Option<&IdempotencyKey>,
    ) -> Result<Claim> {
        let (base, time, by, looked) = (base.clone(), time.clone(), self.by_now()?, looked.clone());
        let id = CronRunId::new();
        let how = Write::once(Durability::Power, key.map(|key| key.part(&id.to_string())));
        self.store.transact(how, move |tx| {
            let said = cron_overrides::find(tx, &base.name)?;
            let none = Vec::new();
            if !rules::effective(&base, said.as_ref()).is_same(&looked) {
                return Ok((Claim::Changed, none));
            }
            let since = since(tx, &base.name, now, by.at)?;
            let Some((_, back)) = since.filter(|(since, _)| *since < time.at) else { return Ok((Claim::Taken, none)) };
            let is_mine = cron_runs::claim(tx, &row_of(&base, id, &time, &by))?;
            move_to(tx, &base.name, until, back)?;
            Ok((if is_mine { Claim::Mine(Due::of(&base, id, time.at, time.missed)) } else { Claim::Taken }, none))
        })
    }

    fn finish(&self, due: &Due, outcome: &FiringResult, key: Option<IdempotencyKey>) -> Result<()> {
        let (id, answer) = (due.id, outcome.clone());
        let end = rules::end(due, outcome, self.store.now()?);
        let finished = self.store.transact(Write::once(Durability::Power, key), move |tx| {
            cron_runs::finish(tx, id, &end)?;
            Ok((answer.clone(), Vec::new()))
        });
        finished.map(drop)
    }
}

/// The due times of a schedule.
enum Look {
    Nothing(Idle),
    Due(rules::Effective, Vec<rules::DueAt>),
    Wrong(String),
}

/// A schedule without due times.
struct Idle {
    name: String,
    enabled: bool,
}

/// The result of claiming a due time.
#[derive(Serialize, Deserialize)]
enum Claim {
    Mine(Due),
    /// Another process claimed it.
    Taken,
    /// The schedule was changed.
    Changed,
}

//! Claims, leases, and the recovery of runs whose owner died.

use std::time::Duration;

use duolog_join::{Error as JoinError, IdempotencyKey, OutboxLine, TxClock, Write};
use duolog_state::owned::{executions, workflow_approvals, workflow_runs as table};
use duolog_state::{Address, Error as StateError, Tx};
use duolog_types::limits::PAGE_MAX;
use duolog_types::{RunId, RunStatus, Timestamp};
use serde::{Deserialize, Serialize};

use super::change::{Changing, Closing, Left};
use super::model::{Attribution, Claim, Fence, Recovered, RunSummary, TakeFilter};
use super::queue::{EARLIER, page_key};
use super::rules::{self, Event};
use super::{RunHandle, Runs};
use crate::error::{Busy, Conflict, Error, Invalid, Result, Stale};

/// The result of trying to claim a run.
#[derive(Serialize, Deserialize)]
pub(super) enum Taken {
    /// The caller has claimed it.
    Claimed(Box<Claim>),
    /// It failed because it was taken over too often.
    GivenUp(Box<RunSummary>),
    /// Another owner has it, or it is no longer running.
    Left,
}

/// A request for a claim.
#[derive(Clone)]
pub(super) struct Wish {
    owner: String,
    lease: Duration,
    pub(super) clock: TxClock,
    /// True to leave a run without an owner alone while its lease is valid.
    pub(super) only_idle: bool,
}

impl Runs {
    /// Recovers the runs of dead owners. Call it at startup and from time to time.
    ///
    /// Runs whose lease has expired are claimed for the caller, which must resume them. Their executions in flight are
    /// closed, and the takeover is counted. A run that was taken over too often fails instead. Queued runs and runs at
    /// a gate are not changed. A running run without an owner has a lease too, from its start or its last write.
    ///
    /// Each run has its own transaction, and all runs are tried. A run that cannot be recovered is returned in
    /// [`Recovered::failed`]. An error of the whole state (unreachable, full, in use, unknown outcome) ends the call:
    /// then [`Recovered::complete`] is false, and [`Recovered::untried`] has the runs that were found and not tried.
    /// Under an operation id, a retry returns the claims that were made, and continues with the runs that were not
    /// tried or could not be recovered.
    ///
    /// # Errors
    ///
    /// Returns an error if the runs cannot be looked up and nothing was done.
    pub fn recover(&self, owner: &str) -> Result<Recovered> {
        self.recover_some(owner, &TakeFilter::default())
    }

    /// Recovers the runs of dead owners, as [`Runs::recover`] does, filtered by workflow and up to a limit.
    ///
    /// [`Recovered::complete`] is true if the limit ended the call.
    pub fn recover_some(&self, owner: &str, filter: &TakeFilter) -> Result<Recovered> {
        let wish = self.wish(owner, self.store.join.limits().runs.lease)?;
        let key = self.store.request_key()?;
        let (mut done, mut after) = (Recovered::default(), None);
        for number in 0_u64.. {
            let page = match self.expired_page(&wish, page_key(key.as_ref(), number), after, filter) {
                Err(error) if number > 0 => {
                    done.stopped = Some(error);
                    break;
                }
                page => page?,
            };
            // Runs that cannot be claimed are skipped, so that they do not block the others.
            let Some(last) = page.last() else {
                done.complete = true;
                break;
            };
            after = Some(last.clone());
            if !self.recover_page(page, &wish, key.as_ref(), filter.limit, &mut done) {
                break;
            }
            if done.resumed.len() >= filter.limit as usize {
                done.complete = true;
                break;
            }
        }
        if done.complete {
            self.store.end_request();
        }
        Ok(done)
    }

    /// Returns the next runs whose lease has expired. Under an operation id they are recorded first: a retry tries the
    /// same runs and no others.
    fn expired_page(
        &self,
        wish: &Wish,
        key: Option<IdempotencyKey>,
        after: Option<(Timestamp, RunId)>,
        filter: &TakeFilter,
    ) -> Result<Vec<(Timestamp, RunId)>> {
        let (clock, filter) = (wish.clock.clone(), filter.clone());
        let expired = move |tx: &mut Tx<'_>| {
            let (now, mut after) = (clock.now(tx)?, after.clone());
            loop {
                let page = table::expired(tx, now, after.as_ref(), PAGE_MAX)?;
                let Some((at, id, _)) = page.last() else { return Ok::<_, Error>(Vec::new()) };
                after = Some((*at, id.clone()));
                let taken = page.into_iter().filter(|(_, _, workflow)| filter.takes(workflow));
                let taken: Vec<_> = taken.map(|(at, id, _)| (at, id)).collect();
                if !taken.is_empty() {
                    return Ok(taken);
                }
            }
        };
        if key.is_none() {
            return self.store.join.state().read(expired);
        }
        self.store.transact(Write::once(self.durability, key), move |tx| Ok((expired(tx)?, Vec::new())))
    }

    /// Recovers the runs of a page, up to the limit of claims. Returns false if an error of the whole state ended it.
    fn recover_page(
        &self,
        page: Vec<(Timestamp, RunId)>,
        wish: &Wish,
        key: Option<&IdempotencyKey>,
        limit: u32,
        done: &mut Recovered,
    ) -> bool {
        let mut page = page.into_iter().map(|(_, run)| run);
        while let Some(run) = page.next() {
            if done.resumed.len() >= limit as usize {
                return true;
            }
            match self.take(&run, wish, key.map(|key| key.part(run.as_str()))) {
                Ok(Taken::Claimed(claim)) => done.resumed.push(*claim),
                Ok(Taken::GivenUp(run)) => done.given_up.push(*run),
                // Another owner was faster.
                Ok(Taken::Left) => {}
                Err(error) => {
                    let is_of_one = self.is_of_one_run(&error);
                    done.failed.push((run, error));
                    if !is_of_one {
                        done.untried.extend(page);
                        return false;
                    }
                }
            }
        }
        true
    }

    /// Returns true if an error concerns only the run on which it occurred: other runs may be recovered.
    fn is_of_one_run(&self, error: &Error) -> bool {
        match error.join() {
            Some(JoinError::State(StateError::Engine { .. } | StateError::Conflict { .. })) => true,
            // A server locks rows, a file is locked as a whole.
            Some(JoinError::State(StateError::Busy { .. })) => {
                matches!(self.store.join.state().address(), Address::Server(_))
            }
            _ => !error.is_general(),
        }
    }

    pub(super) fn wish(&self, owner: &str, lease: Duration) -> Result<Wish> {
        let owner = owner.to_owned();
        rules::check_named("owner", Some(&owner))?;
        if lease.is_zero() {
            return Err(Error::Invalid(Invalid::Value { what: "lease", why: "must be longer than zero".to_owned() }));
        }
        Ok(Wish { owner, lease, clock: self.store.join.tx_clock(), only_idle: false })
    }

    pub(super) fn take(&self, run: &RunId, wish: &Wish, key: Option<IdempotencyKey>) -> Result<Taken> {
        let (run, wish) = (run.clone(), wish.clone());
        let taken = self.store.transact(Write::once(self.durability, key), move |tx| take(tx, &run, &wish))?;
        if let Taken::GivenUp(run) = &taken {
            self.store.core.observers.tell(run);
        }
        Ok(taken)
    }
}

impl RunHandle {
    /// Claims a running run that has no owner, or whose lease has expired, until the lease expires.
    ///
    /// # Errors
    ///
    /// Returns an error of the kind [`ErrorKind::Busy`](crate::ErrorKind::Busy) if another owner has the run.
    pub fn claim(&self, owner: &str, lease: Option<Duration>) -> Result<Claim> {
        let runs = Runs { store: self.store.clone(), durability: self.durability };
        let wish = runs.wish(owner, lease.unwrap_or(self.store.join.limits().runs.lease))?;
        match runs.take(&self.run, &wish, None)? {
            Taken::Claimed(claim) => Ok(*claim),
            Taken::GivenUp(run) => Err(Error::Conflict(Conflict::GivenUp { run: run.id, restarts: run.restart_count })),
            Taken::Left => {
                let run = runs.get(&self.run)?;
                match (run.summary.lease_owner, run.summary.lease_expires_at) {
                    (Some(by), Some(until)) => Err(Error::Busy(Busy::Claimed { run: self.run.clone(), by, until })),
                    _ => {
                        Err(Error::Conflict(Conflict::RunStands { run: self.run.clone(), status: run.summary.status }))
                    }
                }
            }
        }
    }

    /// Renews the lease of this claim and returns its new end. Renew it after each third of the lease.
    pub fn renew(&self, lease: Option<Duration>) -> Result<Timestamp> {
        let fence = self.fenced()?;
        let lease = lease.unwrap_or(self.store.join.limits().runs.lease);
        let (run, clock) = (self.run.clone(), self.store.join.tx_clock());
        self.store.transact(self.durability, move |tx| {
            let now = clock.now(tx)?;
            let mut run = Changing::open(tx, &run, now, lease)?;
            run.check_held(fence)?;
            let until = rules::later(now, lease);
            run.row.lease_expires_at = Some(until);
            let (_, told) = run.done()?;
            Ok((until, told))
        })
    }

    /// Releases the run: it stays running and can be claimed by another owner.
    pub fn release(&self) -> Result<RunSummary> {
        let fence = self.fenced()?;
        self.write(move |run| {
            run.check_held(fence)?;
            run.row.lease_owner = None;
            // Writes under this claim are refused from now on.
            run.row.fence += 1;
            run.tell_claim("release", None)
        })
    }

    fn fenced(&self) -> Result<Fence> {
        self.fence.ok_or_else(|| {
            Error::Invalid(Invalid::Value { what: "fence", why: "is required: pass the fence of the claim".to_owned() })
        })
    }
}

impl Changing<'_, '_> {
    /// Returns an error unless this is the current claim.
    fn check_held(&self, fence: Fence) -> Result<()> {
        self.check_runs(Some(fence))?;
        if self.row.lease_owner.is_some() {
            return Ok(());
        }
        let run = self.row.id.clone();
        Err(Error::Stale(Stale::Overtaken { run, fence: fence.0, now: self.row.fence, by: None }))
    }
}

/// Claims a run if it has no owner.
fn take(tx: &mut Tx<'_>, run: &RunId, wish: &Wish) -> Result<(Taken, Vec<OutboxLine>)> {
    let now = wish.clock.now(tx)?;
    let mut run = Changing::open(tx, run, now, wish.lease)?;
    let row = &run.row;
    let is_held = row.lease_owner.is_some() && row.lease_expires_at.is_some_and(|until| until > now);
    if row.status != RunStatus::Running || is_held {
        return Ok((Taken::Left, Vec::new()));
    }
    let is_over = row.lease_expires_at.is_none_or(|until| until <= now);
    let dead = row.lease_owner.clone();
    if wish.only_idle && !is_over && !executions::in_flight(run.tx, &run.row.id, "", 1)?.is_empty() {
        return Ok((Taken::Left, Vec::new()));
    }
    let error = match &dead {
        Some(owner) => format!("stale: its owner {owner} did not renew its lease"),
        None => "stale: its owner is gone".to_owned(),
    };
    // A run without an owner is alive while its lease is valid; its executions continue under the new claim.
    let closed = if is_over {
        run.close_executions(&Closing { stop_reason: "stale", error: &error }, Left::ByAnyone)?
    } else {
        run.close_executions(&EARLIER, Left::ByEarlierClaims)?
    };
    // A run that had no owner and nothing in flight was not taken over, and neither was one that was just resumed.
    let taken_over = dead.is_some() || (is_over && !closed.is_empty());
    if taken_over && run.row.restart_count >= run.row.restart_cap {
        let times = run.row.restart_count;
        let reason = format!("taken over {times} times from dead owners, which is the limit");
        run.turn(Event::Fail, &Attribution { actor: Some(wish.owner.clone()), reason: Some(reason) })?;
        let (row, told) = run.done()?;
        return Ok((Taken::GivenUp(Box::new(RunSummary::from(&row))), told));
    }
    run.row.restart_count += u32::from(taken_over);
    let fence = run.claim(&wish.owner, wish.lease);
    run.tell_claim(if taken_over { "takeover" } else { "claim" }, dead.as_deref())?;
    let unconsumed = workflow_approvals::unconsumed_of(run.tx, &run.row.id, PAGE_MAX)?;
    let (row, told) = run.done()?;
    let claim = Claim {
        run: RunSummary::from(&row),
        fence,
        lease_expires_at: rules::later(now, wish.lease),
        taken_over,
        closed,
        unconsumed,
    };
    Ok((Taken::Claimed(Box::new(claim)), told))
}

//! Taking the next run as a worker, and waiting for one.

use std::time::Duration;

use duolog_log::{Bell, Progress, RootFollower, RootOptions, Start, Writers};
use duolog_state::owned::workflow_runs as table;
use duolog_types::limits::PAGE_MAX;

use super::Runs;
use super::model::{Claim, Next, TakeFilter};
use super::recover::Taken;
use crate::error::{Error, Result};

/// The directory of a home's logs, below its state directory.
const LOGS: &str = "sessions";

/// The longest wait before the state is read again: another home may have started the run, or a notification may be
/// lost.
const LOOK_AFTER: Duration = Duration::from_secs(2);

/// The shortest pause between two reads of the state, however much is appended.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

impl Runs {
    /// Claims the next run for a worker: running runs without an owner or with an expired lease, oldest first, then the
    /// first run of the queue if a slot is free.
    ///
    /// A run without an owner is left alone while its lease is valid. A run that was taken over too often fails
    /// instead, and a run that was queued for too long is cancelled. `filter.limit` has no effect.
    pub fn take_next(&self, owner: &str, filter: &TakeFilter, lease: Option<Duration>) -> Result<Next> {
        let mut wish = self.wish(owner, lease.unwrap_or(self.store.join.limits().runs.lease))?;
        wish.only_idle = true;
        let (mut next, mut after) = (Next::default(), None);
        loop {
            let clock = wish.clock.clone();
            let page = self.store.join.state().read(|tx| {
                let now = clock.now(tx)?;
                Ok::<_, Error>(table::claimable(tx, now, after.as_ref(), PAGE_MAX)?)
            })?;
            let Some((at, id, _)) = page.last() else { break };
            after = Some((*at, id.clone()));
            for (_, run, _) in page.iter().filter(|(_, _, workflow)| filter.takes(workflow)) {
                match self.take(run, &wish, None)? {
                    Taken::Claimed(claim) => return Ok(Next { claim: Some(*claim), ..next }),
                    Taken::GivenUp(run) => next.given_up.push(*run),
                    // Another worker was faster.
                    Taken::Left => {}
                }
            }
        }
        let mut admitted = self.admit_some(Some(owner), &TakeFilter { limit: 1, ..filter.clone() })?;
        next.expired = admitted.expired;
        if let Some((run, Some(fence))) = admitted.admitted.pop() {
            let unconsumed = self.get(&run.id)?.unconsumed;
            let lease_expires_at = run.lease_expires_at.unwrap_or(run.updated_at);
            next.claim =
                Some(Claim { run, fence, lease_expires_at, taken_over: false, closed: Vec::new(), unconsumed });
        }
        Ok(next)
    }

    /// Follows the logs of this home from now on, to wait for runs that are started, queued or answered.
    pub fn feed(&self) -> Result<RunFeed> {
        let join = &self.store.join;
        let options = RootOptions {
            start: Start::New,
            writers: Writers::Others,
            line_bytes_max: join.limits().line_bytes_max,
            ..RootOptions::default()
        };
        let mut follower = RootFollower::new(&self.store.core.home.state.join(LOGS), join.hints(), options)?;
        // Existing lines are skipped and their directories are watched before the state is read.
        while follower.poll(&mut |_| {})? == Progress::Delivered {}
        Ok(RunFeed { follower })
    }
}

/// Waits for changes in a home: every change of a run appends to a log.
pub struct RunFeed {
    follower: RootFollower,
}

impl RunFeed {
    /// Returns the bell that ends a wait.
    pub fn bell(&self) -> Bell {
        self.follower.bell()
    }

    /// Waits until something may have changed or the bell rings, at most two seconds. It may also return without a
    /// change.
    pub fn wait(&mut self) -> Result<()> {
        self.follower.wait(LOOK_AFTER);
        // Limits the load of workers in a busy home.
        std::thread::sleep(LOOK_PAUSE);
        while self.follower.poll(&mut |_| {})? == Progress::Delivered {}
        Ok(())
    }
}

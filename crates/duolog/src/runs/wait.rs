//! Waiting for a run: the line in its log wakes the waiter, whichever process wrote it.

use std::time::{Duration, Instant};

use duolog_join::{Error as JoinError, Follow, Seen};
use duolog_state::owned::sessions;
use duolog_types::{Cursor, Epoch, SessionId};

use super::RunHandle;
use super::model::{RunSummary, Until};
use crate::error::Result;

/// The longest wait before the row is read again: a line may be delayed, for example by a full disk, and the log may be
/// in another home.
const LOOK_AFTER: Duration = Duration::from_secs(2);

impl RunHandle {
    /// Waits until the run meets the condition or the timeout has passed, and returns the run.
    pub fn wait(&self, until: &Until, timeout: Duration) -> Result<RunSummary> {
        let deadline = Instant::now().checked_add(timeout);
        let runs = self.store.runs();
        let mut run = runs.summary(&self.run)?;
        if until.is_met(run.status) {
            return Ok(run);
        }
        // The follower starts before the row is read again, so that no line in between is missed.
        let mut follow = run.session_id.as_ref().map_or(Ok(None), |session| self.follow(session))?;
        loop {
            run = runs.summary(&self.run)?;
            let left = deadline.map_or(LOOK_AFTER, |deadline| deadline.saturating_duration_since(Instant::now()));
            if until.is_met(run.status) || left.is_zero() {
                return Ok(run);
            }
            match &mut follow {
                Some(follow) => {
                    follow.wait(left.min(LOOK_AFTER));
                    while follow.poll(&mut |_| {})? == Seen::Delivered {}
                }
                None => std::thread::sleep(left.min(LOOK_AFTER)),
            }
        }
    }

    /// Returns a follower at the end of the run's log; `None` if the log is in another home or was deleted.
    fn follow(&self, session: &SessionId) -> Result<Option<Follow>> {
        let join = &self.store.join;
        let followed = join.read_log(session).and_then(|log| {
            if log.reader.is_none() {
                return join.follow(session, None);
            }
            let position = log.end;
            let row = join.state().read(|tx| sessions::find(tx, session))?;
            let epoch = row.map_or(Epoch::default(), |row| row.log_epoch);
            join.follow(session, Some(Cursor { epoch, position }))
        });
        match followed {
            Ok(follow) => Ok(Some(follow)),
            Err(JoinError::OtherHome { .. } | JoinError::NoSession(_) | JoinError::Deleted(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

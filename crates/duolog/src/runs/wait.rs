//! Waiting for a run: woken by the line that its log gets, whichever process wrote it.

use std::time::{Duration, Instant};

use duolog_join::{Error as JoinError, Follow, Seen};
use duolog_state::owned::sessions;
use duolog_types::{Cursor, Epoch, SessionId};

use super::RunHandle;
use super::model::{RunSummary, Until};
use crate::error::Result;

/// How long a wait without a word from the log lasts before the row is looked at all the same: a line may be held up, as
/// on a full disk, and the log may be another home's.
const LOOK_AFTER: Duration = Duration::from_secs(2);

impl RunHandle {
    /// Waits until the run stands as asked, at most that long; then it is given as it is, whether or not it does.
    pub fn wait(&self, until: &Until, timeout: Duration) -> Result<RunSummary> {
        let deadline = Instant::now().checked_add(timeout);
        let runs = self.store.runs();
        let mut run = runs.summary(&self.run)?;
        if until.is_met(run.status) {
            return Ok(run);
        }
        // It follows from here on before the row is read again: a line in between is not missed.
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

    /// The run's log from its end on; nothing where it is another home's, or gone.
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

//! Whether an answer waits until derived rows have caught up with the logs.

use duolog_join::{CatchingUp, CaughtUp, FoldBound};

use crate::error::Result;
use crate::store::Store;

/// How long an answer from derived rows waits for them to catch up with the logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Until they have.
    #[default]
    Complete,
    /// As long as a list does; the answer says what is missing.
    Briefly,
}

impl Store {
    /// Brings derived rows up to the logs; `tell` is told how far that is. Answers that wait for it come at once after
    /// this.
    pub fn catch_up(&self, mut tell: impl FnMut(CatchingUp)) -> Result<CaughtUp> {
        Ok(self.join.catch_up(FoldBound::complete(self.join.limits()).on_progress(&mut tell))?)
    }

    pub(crate) fn catch_up_within(&self, wait: Wait) -> Result<CaughtUp> {
        let limits = self.join.limits();
        Ok(self.join.catch_up(match wait {
            Wait::Complete => FoldBound::complete(limits),
            Wait::Briefly => FoldBound::before_list(limits),
        })?)
    }
}

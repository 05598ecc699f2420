//! Bringing derived rows up to date with the logs.

use duolog_join::{CatchingUp, CaughtUp, FoldBound};

use crate::error::Result;
use crate::store::Store;

/// How long a query waits for derived rows to catch up with the logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Until they have caught up.
    #[default]
    Complete,
    /// As long as a list waits; the result reports what is missing.
    Briefly,
}

impl Store {
    /// Brings derived rows up to date with the logs. `tell` is called with the progress. Queries that wait for derived
    /// rows return at once after this.
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

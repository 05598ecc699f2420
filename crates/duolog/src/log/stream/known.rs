//! A bounded cache of the logs that had lines most recently (I9).

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use super::Source;
use crate::error::Result;
use crate::log::replay::Replay;

/// The number of logs in the cache.
const KNOWN_MAX: usize = 256;

/// One log: its source and the state of its replay.
pub(super) struct FollowedLog {
    pub(super) source: Source,
    pub(super) replay: Replay,
    last_use: u64,
}

impl FollowedLog {
    pub(super) fn new(source: Source, replay: Replay) -> Self {
        Self { source, replay, last_use: 0 }
    }
}

/// The cached logs by path. The least recently used log is removed first.
#[derive(Default)]
pub(super) struct RecentLogs {
    logs: HashMap<PathBuf, FollowedLog>,
    by_use: BTreeMap<u64, PathBuf>,
    uses: u64,
}

impl RecentLogs {
    /// Returns the cached log; calls `make` if it is not cached.
    pub(super) fn get_or(
        &mut self,
        path: &Path,
        make: impl FnOnce() -> Result<FollowedLog>,
    ) -> Result<&mut FollowedLog> {
        if !self.logs.contains_key(path) && self.logs.len() >= KNOWN_MAX {
            let silent = self.by_use.pop_first();
            silent.and_then(|(_, path)| self.logs.remove(&path));
        }
        let log = match self.logs.entry(path.to_owned()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(make()?),
        };
        // In most cases the same log continues.
        if log.last_use == 0 || log.last_use != self.uses {
            self.by_use.remove(&log.last_use);
            self.uses += 1;
            log.last_use = self.uses;
            self.by_use.insert(self.uses, path.to_owned());
        }
        Ok(log)
    }

    /// Returns the source of a log, if it is cached.
    pub(super) fn source(&self, path: &Path) -> Option<&Source> {
        self.logs.get(path).map(|log| &log.source)
    }

    /// Removes a log from the cache.
    pub(super) fn forget(&mut self, path: &Path) {
        if let Some(log) = self.logs.remove(path) {
            self.by_use.remove(&log.last_use);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::ReplayDetail;

    fn log(path: &Path) -> FollowedLog {
        let source = Source { path: path.to_owned(), session: None, name: None, user_id: None };
        FollowedLog::new(source, Replay::new(None, ReplayDetail::All))
    }

    #[test]
    fn the_least_recently_used_log_is_removed() {
        let mut known = RecentLogs::default();
        let path = |number: usize| PathBuf::from(format!("{number}.jsonl"));
        for number in 0..10 * KNOWN_MAX {
            known.get_or(&path(number), || Ok(log(&path(number)))).expect("made");
            // This log is used all the time, so it stays.
            known.get_or(&path(0), || Ok(log(&path(0)))).expect("known");
            known.get_or(&path(0), || panic!("the log is cached")).expect("known");
            assert!(known.logs.len() <= KNOWN_MAX && known.by_use.len() == known.logs.len());
        }
        assert!(known.source(&path(0)).is_some() && known.source(&path(1)).is_none());
        known.forget(&path(0));
        assert_eq!((known.logs.len(), known.by_use.len()), (KNOWN_MAX - 1, KNOWN_MAX - 1));
    }
}

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
pub(super) struct Voice {
    pub(super) source: Source,
    pub(super) replay: Replay,
    last_use: u64,
}

impl Voice {
    pub(super) fn new(source: Source, replay: Replay) -> Self {
        Self { source, replay, last_use: 0 }
    }
}

/// The cached logs by path. The least recently used log is removed first.
#[derive(Default)]
pub(super) struct Known {
    voices: HashMap<PathBuf, Voice>,
    by_use: BTreeMap<u64, PathBuf>,
    uses: u64,
}

impl Known {
    /// Returns the cached log; calls `make` if it is not cached.
    pub(super) fn get_or(&mut self, path: &Path, make: impl FnOnce() -> Result<Voice>) -> Result<&mut Voice> {
        if !self.voices.contains_key(path) && self.voices.len() >= KNOWN_MAX {
            let silent = self.by_use.pop_first();
            silent.and_then(|(_, path)| self.voices.remove(&path));
        }
        let voice = match self.voices.entry(path.to_owned()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(make()?),
        };
        // In most cases the same log continues.
        if voice.last_use == 0 || voice.last_use != self.uses {
            self.by_use.remove(&voice.last_use);
            self.uses += 1;
            voice.last_use = self.uses;
            self.by_use.insert(self.uses, path.to_owned());
        }
        Ok(voice)
    }

    /// Returns the source of a log, if it is cached.
    pub(super) fn source(&self, path: &Path) -> Option<&Source> {
        self.voices.get(path).map(|voice| &voice.source)
    }

    /// Removes a log from the cache.
    pub(super) fn forget(&mut self, path: &Path) {
        if let Some(voice) = self.voices.remove(path) {
            self.by_use.remove(&voice.last_use);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::ReplayDetail;

    fn voice(path: &Path) -> Voice {
        let source = Source { path: path.to_owned(), session: None, name: None, user_id: None };
        Voice::new(source, Replay::new(None, ReplayDetail::All))
    }

    #[test]
    fn the_least_recently_used_log_is_removed() {
        let mut known = Known::default();
        let path = |number: usize| PathBuf::from(format!("{number}.jsonl"));
        for number in 0..10 * KNOWN_MAX {
            known.get_or(&path(number), || Ok(voice(&path(number)))).expect("made");
            // This log is used all the time, so it stays.
            known.get_or(&path(0), || Ok(voice(&path(0)))).expect("known");
            known.get_or(&path(0), || panic!("the log is cached")).expect("known");
            assert!(known.voices.len() <= KNOWN_MAX && known.by_use.len() == known.voices.len());
        }
        assert!(known.source(&path(0)).is_some() && known.source(&path(1)).is_none());
        known.forget(&path(0));
        assert_eq!((known.voices.len(), known.by_use.len()), (KNOWN_MAX - 1, KNOWN_MAX - 1));
    }
}

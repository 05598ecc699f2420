//! What is known of the logs that spoke last: so many and no more (I9).

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use super::Source;
use crate::error::Result;
use crate::log::replay::Replay;

/// The logs of which more is known than where they stand.
const KNOWN_MAX: usize = 256;

/// One log: whose, and what was told of it so far.
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

/// The logs that spoke last, by path; the one that was silent for longest makes room for the next.
#[derive(Default)]
pub(super) struct Known {
    voices: HashMap<PathBuf, Voice>,
    by_use: BTreeMap<u64, PathBuf>,
    uses: u64,
}

impl Known {
    /// What is known of a log; where that is nothing, it is made.
    pub(super) fn get_or(&mut self, path: &Path, make: impl FnOnce() -> Result<Voice>) -> Result<&mut Voice> {
        if !self.voices.contains_key(path) && self.voices.len() >= KNOWN_MAX {
            let silent = self.by_use.pop_first();
            silent.and_then(|(_, path)| self.voices.remove(&path));
        }
        let voice = match self.voices.entry(path.to_owned()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(make()?),
        };
        // Mostly the one that spoke last goes on.
        if voice.last_use == 0 || voice.last_use != self.uses {
            self.by_use.remove(&voice.last_use);
            self.uses += 1;
            voice.last_use = self.uses;
            self.by_use.insert(self.uses, path.to_owned());
        }
        Ok(voice)
    }

    /// Whose log it is, where that is known.
    pub(super) fn source(&self, path: &Path) -> Option<&Source> {
        self.voices.get(path).map(|voice| &voice.source)
    }

    /// Lets go of a log.
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
        Voice::new(source, Replay::new(None, ReplayDetail::Every))
    }

    #[test]
    fn the_one_that_was_silent_for_longest_makes_room() {
        let mut known = Known::default();
        let path = |number: usize| PathBuf::from(format!("{number}.jsonl"));
        for number in 0..10 * KNOWN_MAX {
            known.get_or(&path(number), || Ok(voice(&path(number)))).expect("made");
            // One that speaks all the time stays.
            known.get_or(&path(0), || Ok(voice(&path(0)))).expect("known");
            known.get_or(&path(0), || panic!("it is known")).expect("known");
            assert!(known.voices.len() <= KNOWN_MAX && known.by_use.len() == known.voices.len());
        }
        assert!(known.source(&path(0)).is_some() && known.source(&path(1)).is_none());
        known.forget(&path(0));
        assert_eq!((known.voices.len(), known.by_use.len()), (KNOWN_MAX - 1, KNOWN_MAX - 1));
    }
}

//! Hints from the system that something may have changed, so that whoever waits wakes at once and sleeps otherwise.
//!
//! A hint is never believed: it can be lost, doubled or late, and network file systems give none of what other machines
//! write. It only ends a wait early; every waiter looks now and then without one. Directories are watched, never files:
//! a file that is replaced, or does not exist yet, needs no watch of its own. Nothing is asked of the system before
//! somebody waits.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use notify::event::{EventKind, ModifyKind, RenameMode};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};

/// The changed paths that one bell remembers; with more, everything may have changed.
const PATHS_MAX: usize = 1024;

/// The system's notices, for everyone in this process who waits for files.
#[derive(Clone)]
pub struct Hints(Arc<Source>);

struct Source {
    /// Never taken by the thread that hears, which answers whoever holds it.
    system: Mutex<System>,
    /// Taken after `system`, if both are.
    ears: Arc<Mutex<Ears>>,
}

/// What tells of changes.
enum System {
    /// Nobody asked for it yet: it costs a thread.
    Unasked,
    /// It tells.
    Telling(RecommendedWatcher),
    /// It gives no notice.
    Silent,
}

/// Who listens at which directory.
type Ears = HashMap<PathBuf, Vec<Ear>>;

struct Ear {
    /// The one name that matters, or all.
    name: Option<OsString>,
    bell: Weak<Ring>,
}

/// What wakes one waiter. Anyone may ring it.
#[derive(Clone, Default)]
pub struct Bell(Arc<Ring>);

#[derive(Default)]
struct Ring {
    heard: Mutex<Heard>,
    rang: Condvar,
}

/// What was heard since the last time it was asked.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    rang: bool,
    /// Hints were lost, or too many to keep: anything may have changed.
    pub(crate) everything: bool,
    /// What may have changed.
    pub(crate) paths: BTreeSet<PathBuf>,
    /// Directories that were removed or moved, and their watch with them.
    lost: BTreeSet<PathBuf>,
}

/// Whether a directory is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    /// It was already.
    Before,
    /// From now on: what happened before this was not heard.
    Now,
    /// It cannot be.
    Not,
}

/// One waiter: its bell, and the directories it listens at.
pub(crate) struct Listener {
    source: Option<Hints>,
    bell: Bell,
    watched: BTreeSet<PathBuf>,
}

impl Hints {
    /// Listens to the system from the first wait on. Where that is not to be had (too many watchers, no such system),
    /// nothing is heard.
    pub fn new() -> Self {
        Self::over(System::Unasked)
    }

    /// Hears nothing: whoever waits looks at intervals.
    pub fn none() -> Self {
        Self::over(System::Silent)
    }

    fn over(system: System) -> Self {
        Self(Arc::new(Source { system: Mutex::new(system), ears: Arc::default() }))
    }

    /// Listens at a directory. Both maps change under one lock, or a watch could end that someone just asked for.
    fn watch(&self, directory: &Path, name: Option<&OsStr>, bell: &Bell) -> bool {
        let mut system = self.0.system.lock();
        let Some(watcher) = system.asked(&self.0.ears) else { return false };
        let ear = Ear { name: name.map(OsStr::to_owned), bell: Arc::downgrade(&bell.0) };
        self.0.ears.lock().entry(directory.to_owned()).or_default().push(ear);
        // Asked for even if others listen there: the directory may be a new one under the old name.
        let outcome = watcher.watch(directory, RecursiveMode::NonRecursive);
        if outcome.is_err() {
            take_ear(&self.0.ears, directory, bell);
        }
        outcome.is_ok()
    }

    fn unwatch(&self, directory: &Path, bell: &Bell) {
        let mut system = self.0.system.lock();
        if take_ear(&self.0.ears, directory, bell)
            && let System::Telling(watcher) = &mut *system
        {
            // It fails where the directory is gone, and the watch with it.
            let _ = watcher.unwatch(directory);
        }
    }
}

impl Default for Hints {
    fn default() -> Self {
        Self::new()
    }
}

impl System {
    /// What tells of changes, asked for now if it was not before.
    fn asked(&mut self, ears: &Arc<Mutex<Ears>>) -> Option<&mut RecommendedWatcher> {
        if matches!(self, Self::Unasked) {
            let hearing = Arc::clone(ears);
            let watcher = notify::recommended_watcher(move |event| hear(&hearing, event));
            *self = watcher.map_or(Self::Silent, Self::Telling);
        }
        match self {
            Self::Telling(watcher) => Some(watcher),
            Self::Unasked | Self::Silent => None,
        }
    }
}

/// Takes a waiter away from a directory; says whether nobody listens there any more.
fn take_ear(ears: &Mutex<Ears>, directory: &Path, bell: &Bell) -> bool {
    let mut ears = ears.lock();
    let Some(here) = ears.get_mut(directory) else { return true };
    here.retain(|ear| !std::ptr::eq(ear.bell.as_ptr(), Arc::as_ptr(&bell.0)));
    let is_last = here.is_empty();
    if is_last {
        ears.remove(directory);
    }
    is_last
}

/// Tells those who listen what the system said.
fn hear(ears: &Mutex<Ears>, event: notify::Result<Event>) {
    let ears = ears.lock();
    let Some(event) = event.ok().filter(|event| !event.need_rescan()) else {
        ears.values().flatten().filter_map(|ear| ear.bell.upgrade()).for_each(|bell| bell.hear_of_everything());
        return;
    };
    // Opening and closing change nothing; we do it all the time.
    if matches!(event.kind, EventKind::Access(_)) {
        return;
    }
    let goes = matches!(
        event.kind,
        EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(RenameMode::From | RenameMode::Any))
    );
    for path in &event.paths {
        let at = |directory: &Path| ears.get(directory).into_iter().flatten();
        for ear in path.parent().into_iter().flat_map(at) {
            if ear.name.is_none() || ear.name.as_deref() == path.file_name() {
                ear.bell.upgrade().into_iter().for_each(|bell| bell.hear_of(path));
            }
        }
        if goes {
            at(path).filter_map(|ear| ear.bell.upgrade()).for_each(|bell| bell.lose(path));
        }
    }
}

impl Bell {
    /// Wakes the waiter, or keeps it from falling asleep.
    pub fn ring(&self) {
        self.0.change(|_| ());
    }

    /// Whether both wake the same waiter.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Ring {
    fn change(&self, change: impl FnOnce(&mut Heard)) {
        let mut heard = self.heard.lock();
        change(&mut heard);
        heard.rang = true;
        self.rang.notify_all();
    }

    fn hear_of(&self, path: &Path) {
        self.change(|heard| {
            if heard.paths.len() < PATHS_MAX {
                heard.paths.insert(path.to_owned());
            } else {
                heard.everything = true;
            }
        });
    }

    fn hear_of_everything(&self) {
        self.change(|heard| heard.everything = true);
    }

    fn lose(&self, directory: &Path) {
        self.change(|heard| {
            heard.lost.insert(directory.to_owned());
        });
    }
}

impl Listener {
    /// Hears only its own bell.
    pub(crate) fn deaf() -> Self {
        Self::with(None)
    }

    /// Hears what the system says of the directories that it watches.
    pub(crate) fn of(hints: &Hints) -> Self {
        Self::with(Some(hints.clone()))
    }

    fn with(source: Option<Hints>) -> Self {
        Self { source, bell: Bell::default(), watched: BTreeSet::new() }
    }

    pub(crate) fn bell(&self) -> Bell {
        self.bell.clone()
    }

    /// Listens at a directory from now on: for one name in it, or for all.
    pub(crate) fn watch(&mut self, directory: &Path, name: Option<&OsStr>) -> Watched {
        let Some(hints) = &self.source else { return Watched::Not };
        if self.watched.contains(directory) {
            return Watched::Before;
        }
        if !hints.watch(directory, name, &self.bell) {
            return Watched::Not;
        }
        self.watched.insert(directory.to_owned());
        Watched::Now
    }

    pub(crate) fn unwatch(&mut self, directory: &Path) {
        if let Some(hints) = self.source.as_ref().filter(|_| self.watched.remove(directory)) {
            hints.unwatch(directory, &self.bell);
        }
    }

    /// Waits until the bell rings, at most `timeout`; says whether it rang.
    pub(crate) fn wait(&self, timeout: Duration) -> bool {
        let deadline = Instant::now().checked_add(timeout);
        let mut heard = self.bell.0.heard.lock();
        while !heard.rang {
            let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return false;
            }
            self.bell.0.rang.wait_for(&mut heard, left);
        }
        true
    }

    /// What was heard since the last time; the bell is quiet again.
    pub(crate) fn take(&mut self) -> Heard {
        let heard = std::mem::take(&mut *self.bell.0.heard.lock());
        for lost in &heard.lost {
            // All beneath it too: their watches may have gone with it, and they are watched again when they are met.
            let beneath = self.watched.range(lost.clone()..).take_while(|directory| directory.starts_with(lost));
            for directory in beneath.cloned().collect::<Vec<_>>() {
                self.unwatch(&directory);
            }
        }
        heard
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        for directory in std::mem::take(&mut self.watched) {
            if let Some(hints) = &self.source {
                hints.unwatch(&directory, &self.bell);
            }
        }
    }
}

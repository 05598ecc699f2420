//! File notification: hints from the system that end a wait early.
//!
//! A hint is never relied on: it can be lost, duplicated or late, and a network file system does not report what other
//! machines write. Every waiter also checks at intervals. Directories are watched, never files: a file that is
//! replaced, or does not exist yet, needs no watch of its own. The watcher is started by the first wait.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use notify::event::{EventKind, ModifyKind, RenameMode};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};

/// Maximum number of changed paths that a bell remembers; with more, anything may have changed.
const PATHS_MAX: usize = 1024;

/// The file notification of the system, shared by all waiters of this process.
#[derive(Clone)]
pub struct Hints(Arc<Source>);

struct Source {
    /// The notification thread never takes this lock: a call under it waits for that thread.
    system: Mutex<System>,
    /// Lock order: after `system`.
    subscriptions: Arc<Mutex<Subscriptions>>,
}

/// The watcher of the system.
enum System {
    /// Not needed yet: it costs a thread.
    NotStarted,
    /// It reports changes.
    Running(RecommendedWatcher),
    /// There is no notification.
    Unavailable,
}

/// The subscriptions by directory.
type Subscriptions = HashMap<PathBuf, Vec<Subscription>>;

struct Subscription {
    /// The file name to report; `None` means all.
    name: Option<OsString>,
    bell: Weak<Ring>,
}

/// Wakes one waiter. Any thread may ring it.
#[derive(Clone, Default)]
pub struct Bell(Arc<Ring>);

#[derive(Default)]
struct Ring {
    changes: Mutex<Changes>,
    rang: Condvar,
}

/// The changes since the last [`Listener::take`].
#[derive(Debug, Default)]
pub(crate) struct Changes {
    rang: bool,
    /// Hints were lost, or were too many to keep: anything may have changed.
    pub(crate) everything: bool,
    /// Paths that may have changed.
    pub(crate) paths: BTreeSet<PathBuf>,
    /// Directories that were deleted or moved, and lost their watch.
    lost: BTreeSet<PathBuf>,
}

/// The result of a request to watch a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchOutcome {
    /// It was watched before.
    Already,
    /// It is watched from now on; earlier changes were not reported.
    Started,
    /// It cannot be watched.
    Unavailable,
}

/// One waiter: its bell, and the directories that it watches.
pub(crate) struct Listener {
    source: Option<Hints>,
    bell: Bell,
    watched: BTreeSet<PathBuf>,
}

impl Hints {
    /// Starts the notification with the first wait. If that fails (too many watchers, or not supported), there are no
    /// hints.
    pub fn new() -> Self {
        Self::over(System::NotStarted)
    }

    /// Gives no hints: every waiter checks at intervals.
    pub fn none() -> Self {
        Self::over(System::Unavailable)
    }

    fn over(system: System) -> Self {
        Self(Arc::new(Source { system: Mutex::new(system), subscriptions: Arc::default() }))
    }

    /// Subscribes to a directory. Watcher and subscriptions change under one lock: otherwise a concurrent unwatch could
    /// end a watch that was just requested.
    fn watch(&self, directory: &Path, name: Option<&OsStr>, bell: &Bell) -> bool {
        let mut system = self.0.system.lock();
        let Some(watcher) = system.start(&self.0.subscriptions) else { return false };
        let subscription = Subscription { name: name.map(OsStr::to_owned), bell: Arc::downgrade(&bell.0) };
        self.0.subscriptions.lock().entry(directory.to_owned()).or_default().push(subscription);
        // Requested even if there are other subscriptions: the directory may be a new one with the old name.
        let outcome = watcher.watch(directory, RecursiveMode::NonRecursive);
        if outcome.is_err() {
            unsubscribe(&self.0.subscriptions, directory, bell);
        }
        outcome.is_ok()
    }

    fn unwatch(&self, directory: &Path, bell: &Bell) {
        let mut system = self.0.system.lock();
        if unsubscribe(&self.0.subscriptions, directory, bell)
            && let System::Running(watcher) = &mut *system
        {
            // Fails if the directory was deleted, and its watch with it.
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
    /// Returns the watcher, started now if it was not before; `None` if there is no notification.
    fn start(&mut self, subscriptions: &Arc<Mutex<Subscriptions>>) -> Option<&mut RecommendedWatcher> {
        if matches!(self, Self::NotStarted) {
            let shared = Arc::clone(subscriptions);
            let watcher = notify::recommended_watcher(move |event| dispatch(&shared, event));
            *self = watcher.map_or(Self::Unavailable, Self::Running);
        }
        match self {
            Self::Running(watcher) => Some(watcher),
            Self::NotStarted | Self::Unavailable => None,
        }
    }
}

/// Removes a waiter's subscription to a directory; returns true if none is left there.
fn unsubscribe(subscriptions: &Mutex<Subscriptions>, directory: &Path, bell: &Bell) -> bool {
    let mut subscriptions = subscriptions.lock();
    let Some(here) = subscriptions.get_mut(directory) else { return true };
    here.retain(|subscription| !std::ptr::eq(subscription.bell.as_ptr(), Arc::as_ptr(&bell.0)));
    let is_last = here.is_empty();
    if is_last {
        subscriptions.remove(directory);
    }
    is_last
}

/// Passes an event of the system to the subscribers.
fn dispatch(subscriptions: &Mutex<Subscriptions>, event: notify::Result<Event>) {
    let subscriptions = subscriptions.lock();
    let Some(event) = event.ok().filter(|event| !event.need_rescan()) else {
        subscriptions
            .values()
            .flatten()
            .filter_map(|subscription| subscription.bell.upgrade())
            .for_each(|bell| bell.report_everything());
        return;
    };
    // Opening and closing change nothing, and Duolog does both all the time.
    if matches!(event.kind, EventKind::Access(_)) {
        return;
    }
    let is_removal = matches!(
        event.kind,
        EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(RenameMode::From | RenameMode::Any))
    );
    for path in &event.paths {
        let at = |directory: &Path| subscriptions.get(directory).into_iter().flatten();
        for subscription in path.parent().into_iter().flat_map(at) {
            if subscription.name.is_none() || subscription.name.as_deref() == path.file_name() {
                subscription.bell.upgrade().into_iter().for_each(|bell| bell.report(path));
            }
        }
        if is_removal {
            at(path).filter_map(|subscription| subscription.bell.upgrade()).for_each(|bell| bell.report_lost(path));
        }
    }
}

impl Bell {
    /// Wakes the waiter, or ends its next wait at once.
    pub fn ring(&self) {
        self.0.update(|_| ());
    }

    /// Returns true if both wake the same waiter.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Ring {
    fn update(&self, update: impl FnOnce(&mut Changes)) {
        let mut changes = self.changes.lock();
        update(&mut changes);
        changes.rang = true;
        self.rang.notify_all();
    }

    fn report(&self, path: &Path) {
        self.update(|changes| {
            if changes.paths.len() < PATHS_MAX {
                changes.paths.insert(path.to_owned());
            } else {
                changes.everything = true;
            }
        });
    }

    fn report_everything(&self) {
        self.update(|changes| changes.everything = true);
    }

    fn report_lost(&self, directory: &Path) {
        self.update(|changes| {
            changes.lost.insert(directory.to_owned());
        });
    }
}

impl Listener {
    /// Creates a listener without file notification.
    pub(crate) fn without_hints() -> Self {
        Self::with(None)
    }

    /// Creates a listener with file notification of the directories that it watches.
    pub(crate) fn with_hints(hints: &Hints) -> Self {
        Self::with(Some(hints.clone()))
    }

    fn with(source: Option<Hints>) -> Self {
        Self { source, bell: Bell::default(), watched: BTreeSet::new() }
    }

    pub(crate) fn bell(&self) -> Bell {
        self.bell.clone()
    }

    /// Watches a directory: for one name in it, or for all.
    pub(crate) fn watch(&mut self, directory: &Path, name: Option<&OsStr>) -> WatchOutcome {
        let Some(hints) = &self.source else { return WatchOutcome::Unavailable };
        if self.watched.contains(directory) {
            return WatchOutcome::Already;
        }
        if !hints.watch(directory, name, &self.bell) {
            return WatchOutcome::Unavailable;
        }
        self.watched.insert(directory.to_owned());
        WatchOutcome::Started
    }

    pub(crate) fn unwatch(&mut self, directory: &Path) {
        if let Some(hints) = self.source.as_ref().filter(|_| self.watched.remove(directory)) {
            hints.unwatch(directory, &self.bell);
        }
    }

    /// Waits until the bell rings, at most `timeout`; returns true if it rang.
    pub(crate) fn wait(&self, timeout: Duration) -> bool {
        let deadline = Instant::now().checked_add(timeout);
        let mut changes = self.bell.0.changes.lock();
        while !changes.rang {
            let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return false;
            }
            self.bell.0.rang.wait_for(&mut changes, left);
        }
        true
    }

    /// Returns the changes since the last call and resets the bell.
    pub(crate) fn take(&mut self) -> Changes {
        let changes = std::mem::take(&mut *self.bell.0.changes.lock());
        for lost in &changes.lost {
            // The directories beneath lost their watches too; they are watched again when they are found.
            let beneath = self.watched.range(lost.clone()..).take_while(|directory| directory.starts_with(lost));
            for directory in beneath.cloned().collect::<Vec<_>>() {
                self.unwatch(&directory);
            }
        }
        changes
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

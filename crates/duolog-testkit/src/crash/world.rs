//! Two stores on a disk that can crash: the logs on a simulated disk, the state in a real database.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duolog_join::{Join, OpenJoin, Result};
use duolog_log::Disk;
use duolog_state::{CommitHook, OpenState};
use duolog_types::limits::Limits;
use duolog_types::{Durability, HomeId};

use crate::clock::FixedClock;
use crate::disk::SimDisk;

/// Creates a directory for the databases of a harness, in memory if possible, for speed.
pub(crate) fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let mut builder = tempfile::Builder::new();
    builder.prefix("duolog-crash-");
    let made = if memory.is_dir() { builder.tempdir_in(memory) } else { builder.tempdir() };
    made.expect("a directory for the harness")
}

/// A copy of the database at a commit, and the durability of that commit.
#[derive(Clone, Debug)]
pub(crate) struct StateCopy {
    pub(crate) path: PathBuf,
    pub(crate) durability: Durability,
}

/// What is needed to open a [`Join`].
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) dir: PathBuf,
    pub(crate) home: HomeId,
    pub(crate) boot: String,
    pub(crate) clock: FixedClock,
    pub(crate) on_commit: Option<CommitHook>,
}

impl World {
    pub(crate) fn at(dir: &Path, home: HomeId) -> Self {
        Self {
            dir: dir.to_owned(),
            home,
            boot: "boot-1".to_owned(),
            clock: FixedClock::ticking_from(1_794_000_000_000_000),
            on_commit: None,
        }
    }

    /// Opens the stores as one process.
    pub(crate) fn open(&self, process: &SimDisk) -> Result<Arc<Join>> {
        self.open_on(process.as_disk())
    }

    /// One thread runs every process, so waiting cannot free a lock.
    pub(crate) fn limits() -> Limits {
        Limits { busy_timeout: Duration::ZERO, ..Limits::default() }
    }

    pub(crate) fn open_on(&self, disk: Arc<dyn Disk>) -> Result<Arc<Join>> {
        let mut state = OpenState::at(&self.dir);
        state.on_commit.clone_from(&self.on_commit);
        Join::open(OpenJoin {
            state: OpenState { busy_timeout: Duration::from_secs(5), ..state },
            disk,
            home: self.home,
            limits: Self::limits(),
            clock: Arc::new(self.clock.clone()),
            boot: self.boot.clone(),
        })
    }
}

/// A growing list of copies of the database, one per commit.
#[derive(Clone, Default)]
pub(crate) struct Commits(Arc<Mutex<Vec<StateCopy>>>);

impl Commits {
    pub(crate) fn hook(&self, into: &Path) -> CommitHook {
        let (copies, into) = (self.clone(), into.to_owned());
        Arc::new(move |state, durability| {
            let path = into.join(format!("{}.db", copies.len()));
            state.backup_to(&path).expect("a copy of the state");
            copies.0.lock().expect("one thread").push(StateCopy { path, durability });
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().expect("one thread").len()
    }

    /// Returns the databases that a power loss after the first `count` commits can leave: the last synced one and every
    /// later one, because an unsynced commit may reach the device by itself.
    pub(crate) fn survivors(&self, count: usize) -> Vec<StateCopy> {
        let copies = self.0.lock().expect("one thread");
        let synced = copies[..count].iter().rposition(|copy| copy.durability == Durability::Power).unwrap_or(0);
        copies[synced..count].to_vec()
    }

    /// Returns the database that a process leaves if it dies now.
    pub(crate) fn latest(&self, count: usize) -> Option<StateCopy> {
        self.0.lock().expect("one thread")[..count].last().cloned()
    }
}

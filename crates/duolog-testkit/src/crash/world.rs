//! Two stores on a disk that can crash: the logs in memory, the state in a real database.

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

/// Where databases are kept while a harness runs: in memory where the machine has that, for speed alone.
pub(crate) fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let mut builder = tempfile::Builder::new();
    builder.prefix("duolog-crash-");
    let made = if memory.is_dir() { builder.tempdir_in(memory) } else { builder.tempdir() };
    made.expect("a directory for the harness")
}

/// A database as it was at a commit, and whether that commit was synced.
#[derive(Clone, Debug)]
pub(crate) struct StateCopy {
    pub(crate) path: PathBuf,
    pub(crate) durability: Durability,
}

/// What opens a [`Join`] here.
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

    /// One thread plays every process, so a lock that is held will not be freed by waiting.
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

/// Copies the database at each commit, as a list that grows.
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

    /// The databases that may be found if the power goes after the first `count` commits: the last synced one, and
    /// every later one, because an unsynced commit may reach the device by itself.
    pub(crate) fn survivors(&self, count: usize) -> Vec<StateCopy> {
        let copies = self.0.lock().expect("one thread");
        let synced = copies[..count].iter().rposition(|copy| copy.durability == Durability::Power).unwrap_or(0);
        copies[synced..count].to_vec()
    }

    /// The database as a process that dies now leaves it.
    pub(crate) fn latest(&self, count: usize) -> Option<StateCopy> {
        self.0.lock().expect("one thread")[..count].last().cloned()
    }
}

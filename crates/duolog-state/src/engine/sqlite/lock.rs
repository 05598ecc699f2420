//! `state.lock`: the advisory lock that a writer of any process takes before its transaction.
//!
//! SQLite's own busy handler sleeps up to 100 ms and cannot name the lock's holder. The lock is a separate file:
//! closing any descriptor of `state.db` would drop SQLite's locks.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use duolog_types::contention::{self, Wait};
use duolog_types::mutant::{self, Mutant};
use parking_lot::Mutex;

use crate::error::{Error, Result};

/// The mode of the lock file without doubts.
const MODE: u32 = 0o600;

/// Files whose contents on disk are uncertain after a failed sync. They are execute bits in the mode of `state.lock`,
/// so that every process sees them and they outlive the process that set them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Doubt(u32);

impl Doubt {
    /// Frames of the write-ahead log may be missing on disk.
    pub(super) const LOG: Self = Self(0o100);
    /// Pages that a checkpoint wrote to the database may be missing on disk.
    pub(super) const DATABASE: Self = Self(0o010);
    /// Both.
    pub(super) const ALL: Self = Self(Self::LOG.0 | Self::DATABASE.0);

    pub(super) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// The open lock file. A descriptor excludes other processes and other handles, but not threads that share it.
pub(super) struct StateLock {
    file: Mutex<Arc<File>>,
    path: PathBuf,
    log: PathBuf,
    /// The doubts that this process knows, in case the file's mode cannot be set.
    doubt: AtomicU32,
}

impl StateLock {
    /// Opens the lock file of the database with this write-ahead log. Creates it if it does not exist.
    pub(super) fn open(path: PathBuf, log: PathBuf) -> Result<Self> {
        let file = Mutex::new(Arc::new(open_file(&path, &log)?));
        Ok(Self { file, path, log, doubt: AtomicU32::new(0) })
    }

    /// Acquires the lock. Tries at least once; after the deadline returns [`Error::Busy`] with the holder.
    pub(super) fn acquire(&self, deadline: Instant) -> Result<Held<'_>> {
        let mut wait: Option<Wait> = None;
        loop {
            let file = self.file();
            match file.try_lock() {
                Ok(()) => match self.hold(file)? {
                    Some(held) => return Ok(held),
                    None => continue,
                },
                Err(TryLockError::Error(error)) => return Err(Error::io("lock", &self.path, error)),
                Err(TryLockError::WouldBlock) => {}
            }
            let left = || deadline.saturating_duration_since(Instant::now());
            match wait.get_or_insert_with(|| Wait::at_most(left())).pause() {
                Some(pause) => std::thread::sleep(pause.max(Duration::from_micros(1))),
                None => return Err(Error::Busy { what: "the state", holder: self.holder()? }),
            }
        }
    }

    /// Checks a locked file. `None` if it was unlinked; then the current file at the path was opened instead.
    fn hold(&self, file: Arc<File>) -> Result<Option<Held<'_>>> {
        let stat = file.metadata().map_err(|error| Error::io("examine", &self.path, error))?;
        let marked = Doubt(stat.mode() & Doubt::ALL.0);
        let mut held = Held { lock: self, file, found: marked };
        if stat.nlink() == 0 {
            *self.file.lock() = Arc::new(open_file(&self.path, &self.log)?);
            return Ok(None);
        }
        let known = self.doubt.load(Ordering::SeqCst);
        held.found = Doubt(marked.0 | known);
        if held.found != marked {
            // Another process cleared the mark before it knew of this failure, or the mode could not be set.
            let _ = set_doubt(&held.file, held.found);
        }
        Ok(Some(held))
    }

    /// Records a failed sync. The caller need not hold the lock.
    ///
    /// If the file's mode cannot be set, this process still remembers it.
    pub(super) fn mark(&self, doubt: Doubt) {
        self.doubt.fetch_or(doubt.0, Ordering::SeqCst);
        let _ = set_doubt(&self.file(), self.doubt());
    }

    /// Returns the current doubts: all of them if the file cannot be examined.
    pub(super) fn doubt(&self) -> Doubt {
        if mutant::is(Mutant::PowerAfterFailedSync) {
            return Doubt(0);
        }
        let marked = self.file().metadata().map_or(Doubt::ALL.0, |stat| stat.mode() & Doubt::ALL.0);
        Doubt(marked | self.doubt.load(Ordering::SeqCst))
    }

    /// Returns the process that holds the lock now, if any.
    pub(super) fn holder(&self) -> Result<Option<u32>> {
        holder_of(&self.path)
    }

    fn file(&self) -> Arc<File> {
        Arc::clone(&self.file.lock())
    }
}

/// Opens the lock file. If it is created next to a write-ahead log in use, it starts with a doubt: a deleted lock file
/// may have had the mark of a failed sync.
fn open_file(path: &Path, log: &Path) -> Result<File> {
    let in_use = std::fs::metadata(log).is_ok_and(|log| log.len() > 0);
    let mode = if in_use { MODE | Doubt::LOG.0 } else { MODE };
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let opened = match options.clone().create_new(true).mode(mode).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            options.create(true).truncate(false).mode(mode).open(path)
        }
        created => created,
    };
    opened.map_err(|error| Error::io("open", path, error))
}

fn set_doubt(file: &File, doubt: Doubt) -> std::io::Result<()> {
    file.set_permissions(Permissions::from_mode(MODE | doubt.0))
}

/// The acquired lock. Dropping it releases the lock.
pub(super) struct Held<'l> {
    lock: &'l StateLock,
    file: Arc<File>,
    /// The doubts when the lock was acquired.
    found: Doubt,
}

impl Held<'_> {
    /// Returns true if there was a doubt when the lock was acquired.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.found.has(Doubt::ALL) && !mutant::is(Mutant::PowerAfterFailedSync)
    }

    /// Returns the current doubts.
    pub(super) fn doubt(&self) -> Doubt {
        self.lock.doubt()
    }

    /// Records a failed sync.
    pub(super) fn mark(&self, doubt: Doubt) {
        self.lock.mark(doubt);
    }

    /// Records that the files in doubt are on disk.
    pub(super) fn clear(&self, doubt: Doubt) {
        self.lock.doubt.fetch_and(!doubt.0, Ordering::SeqCst);
        // If the mode cannot be set, the next writer syncs again.
        let _ = set_doubt(&self.file, Doubt(self.lock.doubt().0 & !doubt.0));
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Unlocking an open, locked descriptor cannot fail, and closing it would unlock it too.
        let _ = self.file.unlock();
    }
}

/// Returns the process that holds the lock at this path, if any and known.
pub(super) fn holder_of(path: &Path) -> Result<Option<u32>> {
    let file = match std::fs::metadata(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("examine", path, error)),
    };
    let read = |locks: &mut String| File::open("/proc/locks")?.read_to_string(locks);
    let device = (rustix::fs::major(file.dev()), rustix::fs::minor(file.dev()));
    Ok(contention::find_holder(read, device, file.ino()))
}

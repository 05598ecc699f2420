//! `state.lock`: the advisory lock that writers of all processes take before they begin.
//!
//! SQLite's own wait sleeps up to 100 ms and cannot name who it waits for. The lock is a file of its own: closing any
//! descriptor of `state.db` would drop the locks that SQLite holds there.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use duolog_types::contention::{self, Wait};

use crate::error::{Error, Result};

/// The lock file, open. One descriptor excludes other processes and other handles, not threads that share this one.
pub(super) struct StateLock {
    file: File,
    path: PathBuf,
}

impl StateLock {
    /// Opens the lock file, making it where it does not exist.
    pub(super) fn open(path: PathBuf) -> Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&path).map_err(|error| Error::io("open", &path, error))?;
        Ok(Self { file, path })
    }

    /// Takes the lock, or says who holds it once the deadline has passed. It is tried at least once.
    pub(super) fn acquire(&self, deadline: Instant) -> Result<Held<'_>> {
        let mut wait: Option<Wait> = None;
        loop {
            match self.file.try_lock() {
                Ok(()) => return Ok(Held(self)),
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

    /// The process that holds it now, if any.
    pub(super) fn holder(&self) -> Result<Option<u32>> {
        holder_of(&self.path)
    }
}

/// The lock, held. Dropping it lets the next writer in.
pub(super) struct Held<'l>(&'l StateLock);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Unlocking a descriptor that is open and locked cannot fail; and closing it would unlock as well.
        let _ = self.0.file.unlock();
    }
}

/// The process that holds the lock at this path, if any does and the system tells.
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

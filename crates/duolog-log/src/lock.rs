//! Advisory locks with a deadline.

use std::path::Path;
use std::time::Duration;

use duolog_types::contention::Wait;

use crate::error::{Error, Result};
use crate::fs::{Disk, DiskFile, Lock};

/// A lock that is released when this value is dropped.
pub(crate) struct Held<'f>(&'f dyn DiskFile);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Closing the file releases the lock too, and a destructor cannot report an error.
        let _ = self.0.unlock();
    }
}

/// Takes a lock that is released when the returned value is dropped.
///
/// # Errors
///
/// [`Error::Busy`] with the owner, if it is known, after `timeout`.
pub(crate) fn take<'f>(
    disk: &dyn Disk,
    file: &'f dyn DiskFile,
    path: &Path,
    lock: Lock,
    timeout: Duration,
) -> Result<Held<'f>> {
    keep(disk, file, path, lock, timeout).map(|()| Held(file))
}

/// Takes a lock that stays until the caller unlocks or closes the file.
///
/// # Errors
///
/// [`Error::Busy`] with the owner, if it is known, after `timeout`.
pub fn keep(disk: &dyn Disk, file: &dyn DiskFile, path: &Path, lock: Lock, timeout: Duration) -> Result<()> {
    let mut wait = None;
    loop {
        if file.try_lock(lock).map_err(Error::io("lock", path))? {
            return Ok(());
        }
        let Some(pause) = wait.get_or_insert_with(|| Wait::at_most(timeout)).pause() else {
            let holder = file.stat().ok().and_then(|stat| disk.holder(&stat));
            return Err(Error::Busy { path: path.to_owned(), holder });
        };
        std::thread::sleep(pause);
    }
}

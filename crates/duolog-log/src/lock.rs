//! Advisory locks with a deadline.

use std::path::Path;
use std::time::Duration;

use duolog_types::contention::Wait;

use crate::error::{Error, Result};
use crate::fs::{Disk, DiskFile, Lock};

/// A lock that is given back when this goes.
pub(crate) struct Held<'f>(&'f dyn DiskFile);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Closing the file would free it anyway; there is nobody to tell.
        let _ = self.0.unlock();
    }
}

/// Takes a lock, or says within `timeout` who has it.
pub(crate) fn take<'f>(
    disk: &dyn Disk,
    file: &'f dyn DiskFile,
    path: &Path,
    lock: Lock,
    timeout: Duration,
) -> Result<Held<'f>> {
    keep(disk, file, path, lock, timeout).map(|()| Held(file))
}

/// The same for a lock that its file keeps: it is for the caller to give back.
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

//! Locks that keep a blob from being removed before the line that names it is in the log.
//!
//! A blob is stored before its line is appended, so for a short time no line names it. A process that does both holds a
//! shared lock from before the put until the line is in the log ([`Blobs::hold`]). A process that removes blobs holds
//! the same lock exclusively ([`Blobs::lock_for_removal`]) and reads under it what was appended since. So the remover
//! either finds the line that names a blob, or the put comes after the removal and stores the blob again.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::Blobs;
use crate::error::{Error, Result};
use crate::fs::{Disk, DiskFile, Lock, Open};
use crate::lock;

/// The lock file, relative to the disk's root.
const PATH: &str = "blobs.lock";

/// Prevents the removal of blobs until the lines that name them are in the log.
#[must_use]
pub struct Hold {
    _lock: Locked,
}

/// Prevents puts: a blob that no line names now stays unnamed.
#[must_use]
pub struct RemovalLock {
    _lock: Locked,
}

struct Locked(Arc<dyn DiskFile>);

impl Drop for Locked {
    fn drop(&mut self) {
        // Closing the file releases the lock too, and a destructor cannot report an error.
        let _ = self.0.unlock();
    }
}

impl Blobs {
    /// Prevents the removal of blobs until the returned value is dropped. Hold it from before a put until the line that
    /// names the blob is appended.
    pub fn hold(&self, timeout: Duration) -> Result<Hold> {
        Ok(Hold { _lock: lock_file(&*self.disk, Lock::Shared, timeout)? })
    }

    /// Waits until no process is between a put and its line, and prevents puts until the returned value is dropped.
    pub fn lock_for_removal(&self, timeout: Duration) -> Result<RemovalLock> {
        Ok(RemovalLock { _lock: lock_file(&*self.disk, Lock::Exclusive, timeout)? })
    }
}

fn lock_file(disk: &dyn Disk, how: Lock, timeout: Duration) -> Result<Locked> {
    let path = Path::new(PATH);
    let file = match disk.open(path, Open::Append) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => match disk.open(path, Open::Create) {
            // Another process created it first.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => disk.open(path, Open::Append),
            other => other,
        },
        other => other,
    };
    let file = file.map_err(Error::io("open", path))?;
    lock::keep(disk, &*file, path, how, timeout)?;
    Ok(Locked(file))
}

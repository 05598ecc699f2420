//! Between a blob and the line that names it: who may be about to write such a line, and who may take blobs away.
//!
//! A blob is put before its line is appended, so for a moment nothing names it. Whoever does both holds a shared lock
//! from before the put until the line stands in the log ([`Blobs::hold`]); whoever removes blobs holds the same lock
//! alone ([`Blobs::alone`]), and reads under it what was appended since. So every line that names a blob is either
//! found by then, or its put comes after the removal and makes the blob anew.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::Blobs;
use crate::error::{Error, Result};
use crate::fs::{Disk, DiskFile, Lock, Open};
use crate::lock;

/// The file whose lock it is, from the disk's root.
const PATH: &str = "blobs.lock";

/// Keeps what is put from being taken away, until the lines that name it stand.
#[must_use]
pub struct Hold {
    _lock: Locked,
}

/// Keeps everyone from putting a blob: what no line names now, nobody is about to name.
#[must_use]
pub struct Alone {
    _lock: Locked,
}

struct Locked(Arc<dyn DiskFile>);

impl Drop for Locked {
    fn drop(&mut self) {
        // Closing the file would free it anyway; there is nobody to tell.
        let _ = self.0.unlock();
    }
}

impl Blobs {
    /// Lets nobody remove blobs until this goes: from before a put until the line that names the blob is appended.
    pub fn hold(&self, timeout: Duration) -> Result<Hold> {
        Ok(Hold { _lock: locked(&*self.disk, Lock::Shared, timeout)? })
    }

    /// Waits until nobody is between a blob and its line, and lets nobody get there until this goes.
    pub fn alone(&self, timeout: Duration) -> Result<Alone> {
        Ok(Alone { _lock: locked(&*self.disk, Lock::Exclusive, timeout)? })
    }
}

fn locked(disk: &dyn Disk, how: Lock, timeout: Duration) -> Result<Locked> {
    let path = Path::new(PATH);
    let file = match disk.open(path, Open::Append) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => match disk.open(path, Open::Create) {
            // Another was first.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => disk.open(path, Open::Append),
            other => other,
        },
        other => other,
    };
    let file = file.map_err(Error::io("open", path))?;
    lock::keep(disk, &*file, path, how, timeout)?;
    Ok(Locked(file))
}

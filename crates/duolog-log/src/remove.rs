//! Deletes a log for good.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use duolog_types::Position;
use duolog_types::limits::Limits;

use crate::error::{Error, Result, is_full};
use crate::fs::{Disk, Lock, MODE_CLAIMED, Open};
use crate::lock;
use crate::reader::Place;
use crate::torn::torn_path;

/// Deletes a log and its `.torn` file under the exclusive lock. Later writers see that the log is gone.
///
/// `before` runs under the lock, right before the file is unlinked, and also if there is no file. If it fails, the file
/// stays. Meanwhile the file has the mode of a claim: if this process dies before the unlink, a writer that has the
/// file open asks the state before it appends.
pub fn remove(
    disk: &Arc<dyn Disk>,
    place: &Place,
    limits: &Limits,
    before: impl FnOnce(Position) -> Result<()>,
) -> Result<()> {
    let path = &place.path;
    let (file, is_created) = loop {
        let (file, is_created) = match disk.open(path, Open::Read) {
            Ok(file) => (file, false),
            // An empty file to lock: without it, a concurrent first append would go unnoticed.
            Err(error) if error.kind() == ErrorKind::NotFound => match disk.open(path, Open::Create) {
                Ok(file) => (file, true),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                // No process can create a file there, so there is nothing to lock.
                Err(error) if is_not_creatable(&error) => {
                    before(place.base)?;
                    return remove_torn(disk, path);
                }
                Err(error) => return Err(Error::io("create", path)(error)),
            },
            Err(error) => return Err(Error::io("open", path)(error)),
        };
        lock::keep(&**disk, &*file, path, Lock::Exclusive, limits.busy_timeout)?;
        let ident = file.stat().map_err(Error::io("examine", path))?.ident;
        // A repair may have replaced the file between the open and the lock.
        if disk.stat(path).map_err(Error::io("examine", path))?.is_some_and(|stat| stat.ident == ident) {
            break (file, is_created);
        }
    };
    // The lock is released when the file is closed.
    let stat = file.stat().map_err(Error::io("examine", path))?;
    if !stat.is_poisoned() {
        file.set_mode(MODE_CLAIMED).map_err(Error::io("change the mode of", path))?;
    }
    if let Err(error) = before(Position(place.base.0 + stat.len)) {
        if is_created && stat.len == 0 {
            // The file was created only for the lock; writers that wait for it find it gone.
            disk.unlink(path).map_err(Error::io("remove", path))?;
        }
        return Err(error);
    }
    disk.unlink(path).map_err(Error::io("remove", path))?;
    remove_torn(disk, path)?;
    match path.parent() {
        Some(directory) => disk.sync_dir(directory).map_err(Error::io("sync the directory of", path)),
        None => Ok(()),
    }
}

/// Returns true if no process can create the file now: the directory is missing, the disk is full, or the file system
/// does not permit it.
fn is_not_creatable(error: &std::io::Error) -> bool {
    is_full(error)
        || matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
}

fn remove_torn(disk: &Arc<dyn Disk>, path: &Path) -> Result<()> {
    let torn = torn_path(path);
    match disk.unlink(&torn) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io("remove", &torn)(error)),
        _ => Ok(()),
    }
}

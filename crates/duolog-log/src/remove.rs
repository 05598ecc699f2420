//! Taking a log away for good.

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

/// Removes a log and what was set aside of it, while no writer is inside. Writers that come later see that it is gone.
///
/// `before` runs under the lock, right before the file goes; its error keeps the file. Without a file it runs too. From
/// before that until the unlink the mode of the file is the one of a claim: should this process die in between, a writer
/// that has the file open asks the state before it appends.
pub fn remove(
    disk: &Arc<dyn Disk>,
    place: &Place,
    limits: &Limits,
    before: impl FnOnce(Position) -> Result<()>,
) -> Result<()> {
    let path = &place.path;
    let (file, is_made) = loop {
        let (file, is_made) = match disk.open(path, Open::Read) {
            Ok(file) => (file, false),
            // An empty file to lock: a first append that is under way would otherwise go by unseen.
            Err(error) if error.kind() == ErrorKind::NotFound => match disk.open(path, Open::Create) {
                Ok(file) => (file, true),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                // Nobody can make a file there: there is nothing to lock.
                Err(error) if is_unmakable(&error) => {
                    before(place.base)?;
                    return remove_torn(disk, path);
                }
                Err(error) => return Err(Error::io("create", path)(error)),
            },
            Err(error) => return Err(Error::io("open", path)(error)),
        };
        lock::keep(&**disk, &*file, path, Lock::Exclusive, limits.busy_timeout)?;
        let ident = file.stat().map_err(Error::io("look at", path))?.ident;
        // Between the opening and the lock a repair may have put another file there.
        if disk.stat(path).map_err(Error::io("look at", path))?.is_some_and(|stat| stat.ident == ident) {
            break (file, is_made);
        }
    };
    // The lock ends with the file.
    let stat = file.stat().map_err(Error::io("look at", path))?;
    if !stat.is_poisoned() {
        file.set_mode(MODE_CLAIMED).map_err(Error::io("change the mode of", path))?;
    }
    if let Err(error) = before(Position(place.base.0 + stat.len)) {
        if is_made && stat.len == 0 {
            // Made for the lock alone; writers that wait for it find it gone.
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

/// Whether no process can make a file at a path now: it has no folder, or there is no room or no right to.
fn is_unmakable(error: &std::io::Error) -> bool {
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

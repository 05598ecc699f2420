//! Taking a log away for good.

use std::sync::Arc;

use duolog_types::limits::Limits;

use crate::error::{Error, Result};
use crate::fs::{Disk, Lock, Open};
use crate::lock;
use crate::reader::Place;
use crate::torn::torn_path;

/// Removes a log and what was set aside of it, while no writer is inside. Those who come later see that it is gone.
pub fn remove(disk: &Arc<dyn Disk>, place: &Place, limits: &Limits) -> Result<()> {
    let path = &place.path;
    let torn = torn_path(path);
    if disk.stat(&torn).map_err(Error::io("look at", &torn))?.is_some() {
        disk.unlink(&torn).map_err(Error::io("remove", &torn))?;
    }
    let file = match disk.open(path, Open::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io("open", path)(error)),
    };
    let held = lock::take(&**disk, &*file, path, Lock::Exclusive, limits.busy_timeout)?;
    disk.unlink(path).map_err(Error::io("remove", path))?;
    drop(held);
    match path.parent() {
        Some(directory) => disk.sync_dir(directory).map_err(Error::io("sync the directory of", path)),
        None => Ok(()),
    }
}

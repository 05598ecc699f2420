//! Repairs a poisoned log (R8): copies its readable bytes to a new file, which replaces it.
//!
//! After a failed sync the page cache may show bytes that the device does not have, so the old file is never used
//! again. The copy is synced before it takes the old file's name.

use std::path::PathBuf;
use std::sync::Arc;

use duolog_types::Position;
use duolog_types::limits::Limits;

use crate::error::{Error, Result};
use crate::fs::{Disk, Lock, Open};
use crate::lock;
use crate::reader::{Place, Reader, regular, sync_names};
use crate::recover::{self, Mend, MendKind};
use crate::torn;

/// The result of [`rewrite`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// The end of the new file.
    pub end: Position,
    /// The repair of a torn tail, if there was one.
    pub mend: Option<Mend>,
}

/// Copies a log to a new file, which then replaces it.
///
/// `before` runs under the lock of the old file, after the new file is synced and before the rename; it gets the end of
/// the new file. The caller increases the log's epoch there. If it fails, the old file stays.
pub fn rewrite(
    disk: &Arc<dyn Disk>,
    place: &Place,
    sealed_to: Position,
    limits: &Limits,
    before: impl FnOnce(Position) -> Result<()>,
) -> Result<Rewritten> {
    let path = &place.path;
    let io = |call| Error::io(call, path);
    if let Some(at_path) = disk.stat(path).map_err(io("examine"))? {
        regular(place, at_path)?;
    }
    // A file of mode 0400 can be opened for reading, which is all that the copy needs.
    let file = disk.open(path, Open::Read).map_err(io("open"))?;
    let stat = regular(place, file.stat().map_err(io("examine"))?)?;
    let _held = lock::take(&**disk, &*file, path, Lock::Exclusive, limits.busy_timeout)?;
    let stat = match disk.stat(path).map_err(io("examine"))? {
        Some(now) if now.ident == stat.ident => now,
        _ => return Err(Error::Replaced(path.clone())),
    };
    let log = Reader::over(disk, place, &file, stat.ident);
    let end = Position(place.base.0 + stat.len);
    let tail = recover::find_torn_tail(&log, end, sealed_to, limits.line_bytes_max)?;
    let keep_to = match &tail {
        Some(tail) if tail.kind == MendKind::Quarantined => {
            torn::save(disk, &log, path, tail.start.0, tail.end.0)?;
            tail.start
        }
        _ => end,
    };
    let new = new_path(path);
    if disk.stat(&new).map_err(io("examine"))?.is_some() {
        disk.unlink(&new).map_err(Error::io("remove", &new))?;
    }
    let copy = disk.open(&new, Open::Create).map_err(Error::io("create", &new))?;
    log.each_chunk(place.base, keep_to, |bytes| torn::write_all(&*copy, bytes, &new))?;
    let mut new_end = keep_to;
    if tail.as_ref().is_some_and(|tail| tail.kind != MendKind::Quarantined) {
        torn::write_all(&*copy, b"\n", &new)?;
        new_end.0 += 1;
    }
    copy.sync().map_err(Error::io("sync", &new))?;
    before(new_end)?;
    disk.rename(&new, path).map_err(io("replace"))?;
    sync_names(&**disk, path).map_err(io("sync the directory of"))?;
    let mend = tail.map(|tail| Mend {
        kind: tail.kind,
        position: tail.start,
        bytes: tail.end.0 - tail.start.0,
        hash: tail.hash,
    });
    Ok(Rewritten { end: new_end, mend })
}

fn new_path(path: &std::path::Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    PathBuf::from(name)
}

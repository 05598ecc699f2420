//! A copy of a home that opens as one, taken while writers run.
//!
//! Blobs come last: each was there before the line that names it, and nothing that is named is removed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use duolog_log::{BlobId, Blobs, Disk, Error as LogError, Open, Place, Reader, torn_path};
use duolog_state::owned::sessions::{self, LogRow};
use duolog_state::{Access, OpenState, State};
use duolog_types::{Durability, HomeId, Position, SessionId};

use crate::error::Result;
use crate::store::Join;

const PAGE: u32 = 256;

/// What was copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackedUp {
    /// How many logs.
    pub logs: u64,
    /// How many bytes of them.
    pub bytes: u64,
    /// How many blobs.
    pub blobs: u64,
    /// Logs that could not be copied, and why. The others were.
    pub failed: Vec<(SessionId, String)>,
}

impl Join {
    /// Copies the state first and then the logs up to their lengths, so that no row names bytes the copy lacks.
    ///
    /// `to` is an empty directory and `disk` the disk rooted there; `each` is told of each log done.
    pub fn backup(&self, to: &Path, disk: &Arc<dyn Disk>, mut each: impl FnMut(&BackedUp)) -> Result<BackedUp> {
        self.state.backup_to(&to.join("state.db"))?;
        let copied = State::open(OpenState { access: Access::ReadOnly, ..OpenState::at(to) })?;
        let mut done = BackedUp::default();
        let mut after: Option<SessionId> = None;
        loop {
            let (home, from): (HomeId, _) = (self.home, after.take());
            let logs: Vec<LogRow> = copied.read(|tx| sessions::logs(tx, &home, from.as_ref(), PAGE))?;
            for log in logs.iter().filter(|log| !log.deleted) {
                let place = Place { path: log.path.clone().into(), base: log.base, sealed: Vec::new() };
                match self.copy_log(&place, disk) {
                    Ok(Some(bytes)) => {
                        done.bytes += bytes;
                        done.logs += 1;
                    }
                    Ok(None) => {}
                    // A copy that cannot be written is no copy; a log that cannot be read is one log.
                    Err(error @ LogError::Full(_)) => return Err(error.into()),
                    Err(error) => done.failed.push((log.session_id.clone(), error.to_string())),
                }
                each(&done);
            }
            match logs.last() {
                Some(last) if logs.len() == PAGE as usize => after = Some(last.session_id.clone()),
                _ => break,
            }
        }
        self.copy_blobs(disk, &mut done)?;
        let mut directories = vec![Path::new("sessions").to_owned(), PathBuf::new()];
        let scopes = disk.list(Path::new("sessions")).map_err(LogError::io("list", to))?;
        directories.extend(scopes.into_iter().map(|(scope, _)| Path::new("sessions").join(scope)));
        for directory in directories {
            if disk.stat(&directory).map_err(LogError::io("look at", &directory))?.is_some()
                || directory == Path::new("")
            {
                disk.sync_dir(&directory).map_err(LogError::io("sync", &directory))?;
            }
        }
        Ok(done)
    }
}

impl Join {
    /// Copies one log and the torn bytes beside it; nothing where there is no file.
    fn copy_log(&self, place: &Place, disk: &Arc<dyn Disk>) -> duolog_log::Result<Option<u64>> {
        let torn = Place::file(torn_path(&place.path));
        if let Some(reader) = Reader::open(&self.disk, &torn)? {
            let (end, rest) = reader.stable_end_and_rest(self.limits.busy_timeout)?;
            copy(&reader, Position::ZERO, Position(end.0 + rest), disk, &torn.path)?;
        }
        let Some(reader) = Reader::open(&self.disk, place)? else { return Ok(None) };
        let end = reader.stable_end(self.limits.busy_timeout)?;
        Ok(Some(copy(&reader, place.base, end, disk, &place.path)?))
    }
}

impl Join {
    /// Copies the blobs, whole and synced. One that is damaged or goes meanwhile is left out: whoever verifies the copy
    /// is told as here.
    fn copy_blobs(&self, disk: &Arc<dyn Disk>, done: &mut BackedUp) -> Result<()> {
        let (from, to) = (Blobs::on(&self.disk), Blobs::on(disk));
        let mut after: Option<BlobId> = None;
        loop {
            let page = from.list(after.as_ref(), PAGE as usize)?;
            for id in &page {
                let put = from.open(id).and_then(|mut blob| to.put(&mut blob, Durability::Power));
                match put {
                    Ok(_) => done.blobs += 1,
                    Err(LogError::NoBlob(_) | LogError::Source(_)) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            match page.last() {
                Some(last) => after = Some(*last),
                None => return Ok(()),
            }
        }
    }
}

/// Copies a range of a log into a new file and syncs it.
fn copy(from: &Reader, start: Position, end: Position, disk: &Arc<dyn Disk>, path: &Path) -> duolog_log::Result<u64> {
    let io = |call| LogError::io(call, path);
    let mut directories: Vec<&Path> = path.ancestors().skip(1).filter(|at| !at.as_os_str().is_empty()).collect();
    directories.reverse();
    for directory in directories {
        disk.create_dir(directory).map_err(io("make the directory of"))?;
    }
    let file = disk.open(path, Open::Create).map_err(io("create"))?;
    from.each_chunk(start, end, |mut bytes| {
        while !bytes.is_empty() {
            match file.append(bytes).map_err(io("write"))? {
                0 => return Err(LogError::Full(path.to_owned())),
                n => bytes = &bytes[n..],
            }
        }
        Ok(())
    })?;
    file.sync().map_err(io("sync"))?;
    Ok(end.0 - start.0)
}

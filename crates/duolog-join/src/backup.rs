//! Backup: a copy of a home that opens as one, made while writers run. The copy is a state that existed.
//!
//! First the ends of the logs are recorded, then the state is copied as one snapshot, then each log up to its recorded
//! end or the end that the snapshot names. A line below that was written before the snapshot, so its operation is in
//! the snapshot: a retry in the copy does nothing. No log is deleted during a backup. Blobs come last: each existed
//! before the line that names it, and a named blob is never deleted.
//!
//! Only the state is synced here: the caller that renames the copy syncs all of it at once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use duolog_log::{
    BlobId, Blobs, Block, Disk, DiskFile, Error as LogError, Lock, Open, Place, Reader, chain, full_outputs,
    hash_range, torn_path, write_all,
};
use duolog_state::derived::catalog;
use duolog_state::owned::sessions::{self, LogRow};
use duolog_state::owned::{execution_bodies, messages, operations, seals};
use duolog_state::{Access, OpenState, State};
use duolog_types::{HomeId, Position, SessionId, mutant, mutant::Mutant};

use crate::error::{Error, Result};
use crate::store::Join;

const PAGE: u32 = 256;
/// Held exclusively by a backup, and shared by a deletion of a log.
const LOCK: &str = "backup.lock";

/// The result of a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackedUp {
    /// The number of copied logs.
    pub logs: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// The number of copied blobs.
    pub blobs: u64,
    /// Blobs that the copy lacks although they exist damaged, or are named by a line or a row; with the reason.
    pub blobs_failed: BTreeMap<BlobId, String>,
    /// Logs that could not be copied completely, with the reason. All others were.
    pub failed: Vec<(SessionId, String)>,
}

/// The ends that the snapshot names for a log.
struct SnapshotEnds {
    /// The end of the bytes that rows describe. They were synced.
    recorded_to: Position,
    /// The end of the places that operations claim. The last of them may not be written yet.
    claimed_to: Position,
}

impl Join {
    /// Copies the home while it is in use, and checks the copy.
    ///
    /// `to` is an empty directory and `disk` the disk rooted there. `each` is called after each log.
    pub fn backup(&self, to: &Path, disk: &Arc<dyn Disk>, mut each: impl FnMut(&BackedUp)) -> Result<BackedUp> {
        let _lock = self.lock_backups(Lock::Exclusive)?;
        let ends = self.ends_of_logs()?;
        self.state.backup_to(&to.join("state.db"))?;
        let copied = State::open(OpenState { access: Access::ReadOnly, ..OpenState::at(to) })?;
        let (mut done, mut named) = (BackedUp::default(), BTreeSet::new());
        self.each_log_in(&copied, |log| {
            let end = ends.get(&log.session_id).copied().unwrap_or(log.base);
            match self.copy_log(&copied, log, end, disk, &mut named) {
                Ok(Some(bytes)) => {
                    done.bytes += bytes;
                    done.logs += 1;
                }
                Ok(None) => {}
                // If the copy cannot be written, the backup fails. If one log cannot be read, only that log fails.
                Err(error @ (Error::Log(LogError::Full(_)) | Error::State(_))) => return Err(error),
                Err(error) => done.failed.push((log.session_id.clone(), error.to_string())),
            }
            each(&done);
            Ok(())
        })?;
        self.copy_blobs(disk, &mut done)?;
        self.check_blobs(&copied, named, disk, &mut done)?;
        Ok(done)
    }

    /// Calls `each` for the logs in a state.
    fn each_log_in(&self, state: &State, mut each: impl FnMut(&LogRow) -> Result<()>) -> Result<()> {
        let mut after: Option<SessionId> = None;
        loop {
            let (home, from): (HomeId, _) = (self.home, after.take());
            let logs: Vec<LogRow> = state.read(|tx| sessions::logs(tx, &home, from.as_ref(), PAGE))?;
            logs.iter().filter(|log| !log.deleted).try_for_each(&mut each)?;
            match logs.last() {
                Some(last) if logs.len() == PAGE as usize => after = Some(last.session_id.clone()),
                _ => return Ok(()),
            }
        }
    }

    /// Prevents backups while a log is deleted.
    pub(crate) fn keep_backups_out(&self) -> Result<Arc<dyn DiskFile>> {
        self.lock_backups(Lock::Shared)
    }

    /// Takes the lock between backups and deletions. It is released with the file.
    fn lock_backups(&self, lock: Lock) -> Result<Arc<dyn DiskFile>> {
        let path = Path::new(LOCK);
        let file = match self.disk.open(path, Open::Create) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => self.disk.open(path, Open::Append),
            other => other,
        };
        let file = file.map_err(LogError::io("open", path))?;
        match duolog_log::keep_lock(&*self.disk, &*file, path, lock, self.limits.busy_timeout) {
            Err(LogError::Busy { holder, .. }) => Err(Error::BackupRunning { holder }),
            other => Ok(other.map(|()| file)?),
        }
    }

    /// Returns the end of each log. Bytes below it are never rolled back.
    fn ends_of_logs(&self) -> Result<HashMap<SessionId, Position>> {
        let mut ends = HashMap::new();
        if mutant::is(Mutant::BackupUncut) {
            return Ok(ends);
        }
        self.each_log_in(&self.state, |log| {
            // A log that cannot be read is reported when it is copied.
            let reader =
                if log.unlink_due { None } else { Reader::open(&self.disk, &place_of(log)).unwrap_or_default() };
            let end = match reader {
                Some(reader) => reader.stable_end(self.limits.busy_timeout)?,
                None => log.base,
            };
            ends.insert(log.session_id.clone(), end);
            Ok(())
        })?;
        Ok(ends)
    }

    /// Copies one log and its file of torn bytes, and checks the copy. `None` if there is no file.
    ///
    /// Adds the blobs that its lines name to `named`.
    fn copy_log(
        &self,
        copied: &State,
        log: &LogRow,
        end: Position,
        disk: &Arc<dyn Disk>,
        named: &mut BTreeSet<BlobId>,
    ) -> Result<Option<u64>> {
        if log.unlink_due {
            // The file belongs to an epoch that the snapshot does not have; this epoch has no file yet.
            return Ok(None);
        }
        let place = place_of(log);
        let torn = Place::file(torn_path(&place.path));
        if let Some(reader) = Reader::open(&self.disk, &torn)? {
            let (end, rest) = reader.stable_end_and_rest(self.limits.busy_timeout)?;
            copy(&reader, Position::ZERO, Position(end.0 + rest), disk, &torn.path)?;
        }
        let known = copied.read(|tx| {
            let folded = catalog::get(tx, &log.session_id)?.filter(|row| row.epoch == log.epoch);
            let sealed = seals::last(tx, &log.session_id, log.epoch)?.map(|seal| seal.to_position);
            let recorded_to = folded.map(|row| row.position).max(sealed).unwrap_or(log.base);
            let claimed_to = operations::claimed_to(tx, &log.session_id, log.epoch)?;
            Ok::<_, Error>(SnapshotEnds { recorded_to, claimed_to })
        })?;
        let must = end.max(known.recorded_to);
        let Some(reader) = Reader::open(&self.disk, &place)? else {
            return if must > log.base { Err(missing(&place, must, log.base)) } else { Ok(None) };
        };
        let there = reader.stable_end(self.limits.busy_timeout)?;
        let cut = if mutant::is(Mutant::BackupUncut) { there } else { must.max(known.claimed_to).min(there) };
        let bytes = copy(&reader, place.base, cut, disk, &place.path)?;
        let Some(copy) = Reader::open(disk, &place)? else { return Err(missing(&place, log.base, log.base)) };
        let mut lines = copy.lines(place.base, cut, self.limits.line_bytes_max)?;
        while let Some(block) = lines.block()? {
            if let Block::Lines { bytes, .. } = block {
                named.extend(full_outputs(bytes));
            }
        }
        if there < must {
            return Err(missing(&place, must, there));
        }
        check_copy(copied, log, &place, &copy)?;
        Ok(Some(bytes))
    }
}

fn place_of(log: &LogRow) -> Place {
    Place { path: log.path.clone().into(), base: log.base, sealed: Vec::new() }
}

fn missing(place: &Place, expected: Position, found: Position) -> Error {
    LogError::Shrunk { path: place.path.clone(), expected, found }.into()
}

/// Compares the copy of a log with the seals in the copy of the state.
fn check_copy(copied: &State, log: &LogRow, place: &Place, copy: &Reader) -> Result<()> {
    let (mut ord, mut before) = (0, None);
    loop {
        let page = copied.read(|tx| seals::page(tx, &log.session_id, log.epoch, ord, PAGE))?;
        for seal in &page {
            let (_, hash) = hash_range(copy, seal.from_position, seal.to_position, &[])?;
            if chain(before.as_ref(), &hash) != seal.hash {
                return Err(LogError::Overwritten(place.path.clone()).into());
            }
            (ord, before) = (seal.ord + 1, Some(seal.hash));
        }
        if page.len() < PAGE as usize {
            return Ok(());
        }
    }
}

impl Join {
    /// Copies the blobs. A damaged blob is left out and reported. A blob that is deleted meanwhile was not named, or
    /// [`Self::check_blobs`] reports it.
    fn copy_blobs(&self, disk: &Arc<dyn Disk>, done: &mut BackedUp) -> Result<()> {
        let (from, to) = (Blobs::on(&self.disk), Blobs::on(disk));
        let mut after: Option<BlobId> = None;
        loop {
            let page = from.list(after.as_ref(), PAGE as usize)?;
            for id in &page {
                match from.copy(id, &to) {
                    Ok(()) => done.blobs += 1,
                    Err(LogError::NoBlob(_)) => {}
                    Err(LogError::Source(why)) => {
                        done.blobs_failed.insert(*id, why.to_string());
                    }
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

impl Join {
    /// Reports the blobs that lines (`named`) or rows of the copy name and that the copy lacks.
    fn check_blobs(
        &self,
        copied: &State,
        named: BTreeSet<BlobId>,
        disk: &Arc<dyn Disk>,
        done: &mut BackedUp,
    ) -> Result<()> {
        let (blobs, home) = (Blobs::on(disk), self.home);
        let mut check = |id: BlobId| {
            if blobs.len(&id)?.is_none() {
                done.blobs_failed.entry(id).or_insert_with(|| "it is missing".to_owned());
            }
            Ok::<_, Error>(())
        };
        named.into_iter().try_for_each(&mut check)?;
        for list in [messages::blobs, execution_bodies::blobs] {
            let mut after = String::new();
            loop {
                let page = copied.read(|tx| list(tx, &home, &after, PAGE))?;
                page.iter().filter_map(|id| id.parse().ok()).try_for_each(&mut check)?;
                match page.into_iter().last() {
                    Some(last) => after = last,
                    None => break,
                }
            }
        }
        Ok(())
    }
}

/// Copies a range of a log into a new file.
fn copy(from: &Reader, start: Position, end: Position, disk: &Arc<dyn Disk>, path: &Path) -> duolog_log::Result<u64> {
    let io = |call| LogError::io(call, path);
    let file = match disk.open(path, Open::Create) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let mut directories: Vec<&Path> =
                path.ancestors().skip(1).filter(|at| !at.as_os_str().is_empty()).collect();
            directories.reverse();
            for directory in directories {
                disk.create_dir(directory).map_err(io("create the directory of"))?;
            }
            disk.open(path, Open::Create)
        }
        other => other,
    };
    let file = file.map_err(io("create"))?;
    from.each_chunk(start, end, |bytes| write_all(&*file, bytes, path))?;
    Ok(end.0 - start.0)
}

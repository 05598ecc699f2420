//! A copy of a home that opens as one, taken while writers run. It is a state that existed.
//!
//! The lengths of the logs are noted first, then the state is copied as one snapshot, then each log up to what was noted or
//! what the snapshot names. A line below that was written before the snapshot, and so its operation is in it: asked again in
//! the copy, it does nothing. No log goes while a copy is made. Blobs come last: each was there before the line that names
//! it, and nothing that is named is removed.
//!
//! Nothing is synced here but the state: whoever gives the copy its name syncs all of it at once.

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
/// Held alone by who makes a copy, and shared by who takes a log away.
const LOCK: &str = "backup.lock";

/// What was copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackedUp {
    /// How many logs.
    pub logs: u64,
    /// How many bytes of them.
    pub bytes: u64,
    /// How many blobs.
    pub blobs: u64,
    /// Blobs that the copy lacks although they were there damaged, or are named by a line or a row; and why.
    pub blobs_failed: BTreeMap<BlobId, String>,
    /// Logs that could not be copied whole, and why. The others were.
    pub failed: Vec<(SessionId, String)>,
}

/// How far the snapshot names a log.
struct Named {
    /// Rows tell of bytes up to here, which were synced.
    recorded_to: Position,
    /// Operations claim places up to here; the last of them may not be written yet.
    claimed_to: Position,
}

impl Join {
    /// Copies the home while others use it, and checks the copy.
    ///
    /// `to` is an empty directory and `disk` the disk rooted there; `each` is told of each log done.
    pub fn backup(&self, to: &Path, disk: &Arc<dyn Disk>, mut each: impl FnMut(&BackedUp)) -> Result<BackedUp> {
        let _alone = self.lock_backups(Lock::Exclusive)?;
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
                // A copy that cannot be written is no copy; a log that cannot be read is one log.
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

    /// Visits the logs that a state names.
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

    /// Keeps backups from beginning, while a log is taken away.
    pub(crate) fn keep_backups_out(&self) -> Result<Arc<dyn DiskFile>> {
        self.lock_backups(Lock::Shared)
    }

    /// Takes the lock between backups and deletions; it ends with the file.
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

    /// Where each log ends: nothing below is taken back.
    fn ends_of_logs(&self) -> Result<HashMap<SessionId, Position>> {
        let mut ends = HashMap::new();
        if mutant::is(Mutant::BackupUncut) {
            return Ok(ends);
        }
        self.each_log_in(&self.state, |log| {
            // What cannot be read is told of when it is copied.
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

    /// Copies one log and the torn bytes beside it, and checks the copy. `None` if there is no file.
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
            // The file is of an epoch that the snapshot does not name; there is none of this one yet.
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
            Ok::<_, Error>(Named { recorded_to, claimed_to })
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
    /// Copies the blobs. One that is damaged is left out and reported. One that goes meanwhile was not named, or is found
    /// missing by [`Self::check_blobs`].
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
                disk.create_dir(directory).map_err(io("make the directory of"))?;
            }
            disk.open(path, Open::Create)
        }
        other => other,
    };
    let file = file.map_err(io("create"))?;
    from.each_chunk(start, end, |bytes| write_all(&*file, bytes, path))?;
    Ok(end.0 - start.0)
}

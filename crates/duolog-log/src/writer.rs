//! Appends to a log from any number of threads and processes (I7, I10; R1, R5, R8).
//!
//! The hot path is four system calls: lock, stat, write, unlock. The stat is of the *path*, so one call shows whether
//! the path still names this file, whether it may be written, and whether its length changed.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use duolog_types::limits::Limits;
use duolog_types::{Batch, Durability, Position, mutant, mutant::Mutant};
use parking_lot::{Condvar, Mutex};

use crate::error::{Error, Result, is_full};
use crate::fs::{Disk, DiskFile, Ident, Lock, MODE_CLAIMED, MODE_LOG, MODE_POISONED, Open, Stat};
use crate::lock;
use crate::reader::{Item, Place, Reader, regular, sync_names};
use crate::recover::{self, LogIdentity, Mend, Recovery, Watermark};
use crate::seal::hash_range;
use crate::sync::{SyncError, SyncGate, Synced};

/// How to append a batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Append {
    /// What the batch survives once the call returns.
    pub durability: Durability,
    /// If set, append only if the log ends here.
    pub if_position: Option<Position>,
}

/// The result of an append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The position of the batch's first byte.
    pub start: Position,
    /// The position after the batch's last newline.
    pub end: Position,
    /// The synced position, if the durability needs a sync.
    pub synced: Option<Synced>,
    /// The repair of a torn tail that a dead writer left, if there was one.
    pub mend: Option<Mend>,
}

/// What the state knows of a log. The writer calls it while the log is locked.
pub trait LogRecord: Send + Sync {
    /// Returns true if the state still names the file at this path, in this epoch, as the log of an existing session.
    fn is_current(&self) -> Result<bool>;
    /// Releases the claims of places after `end`: their lines were never written, or are lost. `log` is `None` if there
    /// is no file.
    fn settle_claims(&self, log: Option<&Reader>, end: Position) -> Result<()>;
}

/// The record of a log without a state.
struct Unrecorded;

impl LogRecord for Unrecorded {
    fn is_current(&self) -> Result<bool> {
        Ok(true)
    }

    fn settle_claims(&self, _: Option<&Reader>, _: Position) -> Result<()> {
        Ok(())
    }
}

/// The result of a claim of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The caller owns the place.
    Made,
    /// The claim was refused and left no trace.
    Refused,
    /// It is unknown whether the claim was made.
    Unknown,
}

/// A log that is open for appending. Threads share a writer; each process has its own.
///
/// A writer stays with the file that it opened. If that file is deleted, replaced or truncated, every append fails, and
/// the caller must reopen the log, which compares it with what the state knows.
pub struct Writer {
    disk: Arc<dyn Disk>,
    place: Place,
    record: Arc<dyn LogRecord>,
    limits: Limits,
    /// The process that opened the log.
    pid: u32,
    sealed_to: AtomicU64,
    /// A sync failed, so this writer appends nothing more.
    sync_failed: AtomicBool,
    open: OnceLock<(Arc<dyn DiskFile>, Ident)>,
    hot: Turn<Hot>,
    written: AtomicU64,
    gate: SyncGate,
    names_synced: OnceLock<()>,
    /// Repairs whose append failed afterwards: the caller got the error and must still learn of them.
    deferred_mends: Mutex<Vec<Mend>>,
}

/// Number of bytes before the end that a writer remembers, to recognise its log after others appended to it.
const LAST_BYTES: usize = 64;

/// The part that only one thread at a time may use.
struct Hot {
    /// The length of the file after this writer's last append.
    len: u64,
    /// The last bytes before that length.
    last: Vec<u8>,
    /// Why this writer accepts no more appends.
    closed: Option<ClosedReason>,
}

impl Hot {
    fn at(len: u64) -> Self {
        Self { len, last: Vec::new(), closed: None }
    }
}

#[derive(Clone, Copy)]
enum ClosedReason {
    Replaced,
    Shrunk { expected: Position, found: Position },
    Overwritten,
    Poisoned,
}

impl Writer {
    /// Opens the log at `place`, repairs its tail, and compares it with what is known of it.
    ///
    /// The first append creates an absent file. If the identity is not [`LogIdentity::Same`], the caller must record
    /// that before it appends: earlier positions are no longer valid.
    pub fn open(disk: &Arc<dyn Disk>, place: &Place, known: &Watermark, limits: &Limits) -> Result<(Self, Recovery)> {
        Self::open_recorded(disk, place, known, limits, Arc::new(Unrecorded))
    }

    /// Opens a log that the state knows, and checks under the lock that the state still names this file. Claims after
    /// the end of the log are settled.
    ///
    /// # Errors
    ///
    /// [`Error::Replaced`] if the state names another file by now.
    pub fn open_recorded(
        disk: &Arc<dyn Disk>,
        place: &Place,
        known: &Watermark,
        limits: &Limits,
        record: Arc<dyn LogRecord>,
    ) -> Result<(Self, Recovery)> {
        let path = &place.path;
        loop {
            let Some(at_path) = disk.stat(path).map_err(Error::io("examine", path))? else {
                let is_known = known.recorded_to.max(known.sealed_to) > place.base;
                let identity = if is_known { LogIdentity::Missing } else { LogIdentity::Same };
                if identity == LogIdentity::Same && known.claimed_to > place.base {
                    // Deleting a log raises its epoch before the file is unlinked, so its claims are not settled here.
                    if !record.is_current()? {
                        return Err(Error::Replaced(path.clone()));
                    }
                    record.settle_claims(None, place.base)?;
                }
                let recovery = Recovery { identity, mend: None, end: place.base };
                return Ok((Self::at(disk, place, limits, place.base, 0, record), recovery));
            };
            regular(place, at_path)?;
            if at_path.is_poisoned() {
                return Err(Error::Poisoned(path.clone()));
            }
            let file = match disk.open(path, Open::Append) {
                Ok(file) => file,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(Error::io("open", path)(error)),
            };
            let _held = lock::take(&**disk, &*file, path, Lock::Exclusive, limits.busy_timeout)?;
            // Another process may have replaced the file between the stat and the lock.
            let Some(stat) = same_file(&**disk, path, file.stat().map_err(Error::io("examine", path))?.ident)? else {
                continue;
            };
            if stat.is_poisoned() {
                return Err(Error::Poisoned(path.clone()));
            }
            if !record.is_current()? {
                return Err(Error::Replaced(path.clone()));
            }
            let log = Reader::over(disk, place, &file, stat.ident);
            let len_end = Position(place.base.0 + stat.len);
            let identity = recover::identify(&log, len_end, known, limits.line_bytes_max)?;
            let sealed_to = if identity == LogIdentity::Replaced { Position::ZERO } else { known.sealed_to };
            let writer = Self::at(disk, place, limits, sealed_to, stat.len, record);
            let mut hot = Hot::at(stat.len);
            let mend = writer.mend_tail(&mut hot, stat.len, &file, stat.ident)?;
            let end = Position(place.base.0 + hot.len);
            // The claims of a changed log are settled when its epoch is raised.
            if identity == LogIdentity::Same && (stat.is_claimed() || known.claimed_to > end) {
                writer.record.settle_claims(Some(&log), end)?;
            }
            if stat.is_claimed() {
                file.set_mode(MODE_LOG).map_err(Error::io("change the mode of", path))?;
            }
            writer.written.store(hot.len, Ordering::SeqCst);
            writer.hot.slot.lock().value = Some(hot);
            // The writer is new, so nothing was set before.
            let _ = writer.open.set((file.clone(), stat.ident));
            return Ok((writer, Recovery { identity, mend, end }));
        }
    }

    fn at(
        disk: &Arc<dyn Disk>,
        place: &Place,
        limits: &Limits,
        sealed_to: Position,
        len: u64,
        record: Arc<dyn LogRecord>,
    ) -> Self {
        Self {
            disk: disk.clone(),
            place: place.clone(),
            record,
            limits: *limits,
            pid: std::process::id(),
            sealed_to: AtomicU64::new(sealed_to.0),
            sync_failed: AtomicBool::new(false),
            open: OnceLock::new(),
            hot: Turn::new(Hot::at(len)),
            written: AtomicU64::new(len),
            gate: SyncGate::default(),
            names_synced: OnceLock::new(),
            deferred_mends: Mutex::default(),
        }
    }

    /// Appends all lines of a batch in one piece, or none.
    pub fn append(&self, batch: &Batch, how: &Append) -> Result<Appended> {
        let bytes = batch.as_bytes();
        if bytes.len() > self.limits.batch_bytes_max {
            return Err(Error::BatchTooLarge { bytes: bytes.len(), max: self.limits.batch_bytes_max });
        }
        let (start, end, mend) = self.write(bytes, how.if_position)?;
        let synced = match how.durability {
            Durability::Process => None,
            Durability::Power => Some(self.sync_to(end)?),
        };
        Ok(Appended { start, end, synced, mend })
    }

    /// Appends a batch at a place that the caller claims before the first byte is written.
    ///
    /// `claim` gets the place and runs under the log's lock, so that no other process can write there first. If the
    /// write fails and leaves nothing, `unclaim` releases the claim and returns true if that is certain. The mode of
    /// the file shows a claim whose lines are not written yet: if this process dies, the next process that opens the
    /// log settles the claim by the length of the log.
    pub fn append_claimed(
        &self,
        batch: &Batch,
        how: &Append,
        claim: &mut dyn FnMut(Position, Position) -> Claim,
        unclaim: &mut dyn FnMut() -> bool,
    ) -> Result<Appended> {
        let bytes = batch.as_bytes();
        if bytes.len() > self.limits.batch_bytes_max {
            return Err(Error::BatchTooLarge { bytes: bytes.len(), max: self.limits.batch_bytes_max });
        }
        let path = &self.place.path;
        let (start, end, mend) = {
            let mut turn = self.turn()?;
            let (file, ident) = self.file()?;
            let held = lock::take(&*self.disk, &**file, path, Lock::Exclusive, self.limits.busy_timeout)?;
            let mend = self.check(&mut turn, file, *ident)?;
            let start = self.end_of(&turn);
            if let Some(expected) = how.if_position.filter(|expected| *expected != start) {
                self.defer(mend);
                return Err(Error::Moved { expected, found: start });
            }
            let written = self.write_claimed(&mut turn, &**file, bytes, claim, unclaim);
            written.inspect_err(|_| self.defer(mend))?;
            drop(held);
            (start, self.end_of(&turn), mend)
        };
        let synced = match how.durability {
            Durability::Process => None,
            Durability::Power => Some(self.sync_to(end)?),
        };
        Ok(Appended { start, end, synced, mend })
    }

    fn write_claimed(
        &self,
        hot: &mut Hot,
        file: &dyn DiskFile,
        bytes: &[u8],
        claim: &mut dyn FnMut(Position, Position) -> Claim,
        unclaim: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let path = &self.place.path;
        let open = || file.set_mode(MODE_LOG).map_err(Error::io("change the mode of", path));
        let start = self.end_of(hot);
        if !mutant::is(Mutant::NoClaimMode) {
            file.set_mode(MODE_CLAIMED).map_err(Error::io("change the mode of", path))?;
        }
        match claim(start, Position(start.0 + bytes.len() as u64)) {
            Claim::Made => {}
            Claim::Refused => {
                open()?;
                return Err(Error::NotClaimed(path.clone()));
            }
            // The mode stays: the next process that opens the log settles the claim.
            Claim::Unknown => return Err(Error::Claimed(path.clone())),
        }
        if let Err(error) = self.write_locked(hot, file, bytes) {
            // Bytes that could not be rolled back may contain lines of the claim: opening or repairing the log settles
            // it.
            if hot.closed.is_none() && unclaim() && file.stat().is_ok_and(|stat| !stat.is_poisoned()) {
                // The mode only shows that the place may be claimed; the error to return is that of the write.
                let _ = open();
            }
            return Err(error);
        }
        // A failed sync may have closed the log without the lock, which this writer holds. If the mode cannot be reset,
        // the next process that opens the log finds the lines at the claimed place.
        if !self.sync_failed.load(Ordering::SeqCst) && file.stat().is_ok_and(|stat| !stat.is_poisoned()) {
            let _ = open();
        }
        Ok(())
    }

    /// Appends the lines of the batch that are not yet in the log after `floor`, compared byte by byte.
    ///
    /// For lines that must be in the log once, even if several processes append them: the last comparison is under the
    /// lock. The bytes that existed before are compared without it.
    pub fn append_absent(&self, batch: &Batch, floor: Position) -> Result<Appended> {
        let bytes = batch.as_bytes();
        let line_of = |line: &Range<usize>| &bytes[line.start..line.end - 1];
        let mut absent: HashSet<&[u8]> = batch.lines().map(|line| line_of(&line)).collect();
        let mut from = floor.max(self.place.base);
        let scan = !mutant::is(Mutant::NoFloorScan);
        if scan && let Some(log) = Reader::open(&self.disk, &self.place)? {
            let to = log.stable_end(self.limits.busy_timeout)?.max(from);
            from = self.remove_present(&mut absent, &log, from, to)?;
        }
        let mut turn = self.turn()?;
        let (file, ident) = self.file()?;
        let held = lock::take(&*self.disk, &**file, &self.place.path, Lock::Exclusive, self.limits.busy_timeout)?;
        let mend = self.check(&mut turn, file, *ident)?;
        let start = self.end_of(&turn);
        let mut write_rest = || {
            if scan {
                let log = Reader::over(&self.disk, &self.place, file, *ident);
                self.remove_present(&mut absent, &log, from, start)?;
            }
            let rest = batch.lines().filter(|line| absent.contains(line_of(line))).flat_map(|line| &bytes[line]);
            let rest: Vec<u8> = rest.copied().collect();
            if rest.is_empty() { Ok(()) } else { self.write_locked(&mut turn, &**file, &rest) }
        };
        write_rest().inspect_err(|_| self.defer(mend))?;
        drop(held);
        Ok(Appended { start, end: self.end_of(&turn), synced: None, mend })
    }

    /// Removes from `lines` those that are in `[from, to)`; returns the end of the compared range.
    fn remove_present(
        &self,
        lines: &mut HashSet<&[u8]>,
        log: &Reader,
        from: Position,
        to: Position,
    ) -> Result<Position> {
        let mut present = log.lines(from, to, self.limits.line_bytes_max)?;
        while let Some(item) = present.next()? {
            if let Item::Line(line) = item {
                lines.remove(line.bytes);
            }
        }
        Ok(present.position())
    }

    fn exists(&self) -> Result<bool> {
        let path = &self.place.path;
        Ok(self.disk.stat(path).map_err(Error::io("examine", path))?.is_some())
    }

    fn write(&self, bytes: &[u8], if_position: Option<Position>) -> Result<(Position, Position, Option<Mend>)> {
        let mut turn = self.turn()?;
        // An empty batch creates no file; but another process may have created it since this writer was opened.
        if bytes.is_empty() && self.open.get().is_none() && !self.exists()? {
            let base = self.place.base;
            return match if_position.filter(|expected| *expected != base) {
                Some(expected) => Err(Error::Moved { expected, found: base }),
                None => Ok((base, base, None)),
            };
        }
        let (file, ident) = self.file()?;
        let held = lock::take(&*self.disk, &**file, &self.place.path, Lock::Exclusive, self.limits.busy_timeout)?;
        let mend = self.check(&mut turn, file, *ident)?;
        let start = self.end_of(&turn);
        if let Some(expected) = if_position.filter(|expected| *expected != start) {
            self.defer(mend);
            return Err(Error::Moved { expected, found: start });
        }
        if !bytes.is_empty() {
            self.write_locked(&mut turn, &**file, bytes).inspect_err(|_| self.defer(mend))?;
        }
        drop(held);
        Ok((start, self.end_of(&turn), mend))
    }

    /// Syncs the log at least up to `end`. One sync serves every caller that had written before it began.
    pub fn sync_to(&self, end: Position) -> Result<Synced> {
        let target = end.0.saturating_sub(self.place.base.0);
        if target == 0 {
            // Archived segments were synced before they were archived, and an absent file is not created.
            return Ok(self.synced());
        }
        let (file, _) = self.file()?;
        if target > self.written.load(Ordering::SeqCst) {
            // Another process wrote these bytes; the sync covers them if they are there.
            let len = file.stat().map_err(Error::io("examine", &self.place.path))?.len;
            if target > len {
                return Err(Error::BeyondEnd { position: end, end: Position(self.place.base.0 + len) });
            }
            self.written.fetch_max(target, Ordering::SeqCst);
        }
        let sync = || {
            if mutant::is(Mutant::NoLogSync) {
                return Ok(());
            }
            file.sync().map_err(|_| SyncError::Failed)?;
            // After power loss a new file can vanish with its name. Once is enough: the name does not change.
            if self.names_synced.get().is_none() {
                sync_names(&*self.disk, &self.place.path).map_err(SyncError::of_directory)?;
                // If another thread set it already, the result is the same.
                let _ = self.names_synced.set(());
            }
            Ok(())
        };
        let path = &self.place.path;
        let to = match self.gate.sync_to(target, || self.written.load(Ordering::SeqCst), sync) {
            Ok(to) => to,
            Err(SyncError::NotTried(source)) => return Err(Error::NotSynced { path: path.clone(), source }),
            Err(SyncError::Failed) => {
                // Closed even if another process holds the lock: a later sync would succeed without the bytes that this
                // one lost.
                self.sync_failed.store(true, Ordering::SeqCst);
                let held = lock::take(&*self.disk, &**file, path, Lock::Exclusive, self.limits.busy_timeout);
                // If this fails too, at least no thread of this process appends again.
                let _ = file.set_mode(MODE_POISONED);
                drop(held);
                return Err(Error::Poisoned(path.clone()));
            }
        };
        Ok(Synced::at(Position(self.place.base.0 + to)))
    }

    /// Keeps a repair to report it later: its append succeeded, but the repair could not be recorded.
    pub fn defer_mend(&self, mend: Mend) {
        self.defer(Some(mend));
    }

    fn defer(&self, mend: Option<Mend>) {
        self.deferred_mends.lock().extend(mend);
    }

    /// Returns the repairs that were not reported yet, each once.
    pub fn take_deferred_mends(&self) -> Vec<Mend> {
        std::mem::take(&mut self.deferred_mends.lock())
    }

    /// Compares the bytes from `from` on that this writer knows with the file that is at the path now.
    ///
    /// For use after a refused append: the writer's file is still open, so acknowledged bytes can be compared.
    pub fn compare_with_path(&self, from: Position) -> Result<LogIdentity> {
        let (from, written) = (from.max(self.place.base), self.written());
        let Some((file, ident)) = self.open.get().filter(|_| written > from) else { return Ok(LogIdentity::Same) };
        let Some(now) = Reader::open(&self.disk, &self.place)? else { return Ok(LogIdentity::Missing) };
        if now.ident() == *ident
            && self.turn()?.closed.is_some_and(|closed| matches!(closed, ClosedReason::Overwritten))
        {
            return Ok(LogIdentity::Replaced);
        }
        let end = now.stable_end(self.limits.busy_timeout)?;
        if end < written {
            return Ok(LogIdentity::Shorter(end));
        }
        let ours = Reader::over(&self.disk, &self.place, file, *ident);
        let hash = |log: &Reader| hash_range(log, from, written, &[]).map(|(_, hash)| hash);
        Ok(if hash(&now)? == hash(&ours)? { LogIdentity::Same } else { LogIdentity::Replaced })
    }

    /// Returns the end of the bytes that this writer knows to be synced.
    pub fn synced(&self) -> Synced {
        Synced::at(Position(self.place.base.0 + self.gate.synced()))
    }

    /// Returns the end of the bytes that this writer knows to be written.
    pub fn written(&self) -> Position {
        Position(self.place.base.0 + self.written.load(Ordering::SeqCst))
    }

    /// Tells the writer that bytes up to `to` are sealed and must never be cut.
    pub fn sealed(&self, to: Position) {
        self.sealed_to.fetch_max(to.0, Ordering::SeqCst);
    }

    /// Returns the place of the log.
    pub fn place(&self) -> &Place {
        &self.place
    }

    fn turn(&self) -> Result<TurnGuard<'_, Hot>> {
        let now = std::process::id();
        if now != self.pid && !mutant::is(Mutant::ForkedAppend) {
            return Err(Error::Forked { opened: self.pid, now });
        }
        self.hot
            .take(self.limits.busy_timeout)
            .ok_or_else(|| Error::Busy { path: self.place.path.clone(), holder: Some(std::process::id()) })
    }

    fn end_of(&self, hot: &Hot) -> Position {
        Position(self.place.base.0 + hot.len)
    }

    fn file(&self) -> Result<&(Arc<dyn DiskFile>, Ident)> {
        if let Some(open) = self.open.get() {
            return Ok(open);
        }
        let path = &self.place.path;
        let io = |call| Error::io(call, path);
        for directory in ancestors(path) {
            self.disk.create_dir(directory).map_err(io("create the directory of"))?;
        }
        let file = match self.disk.open(path, Open::Create) {
            Ok(file) => file,
            // Another process created the file first; use that one.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                let stat = self.disk.stat(path).map_err(io("examine"))?.ok_or_else(|| Error::Replaced(path.clone()))?;
                if regular(&self.place, stat)?.is_poisoned() {
                    return Err(Error::Poisoned(path.clone()));
                }
                self.disk.open(path, Open::Append).map_err(io("open"))?
            }
            Err(error) => return Err(io("create")(error)),
        };
        let stat = file.stat().map_err(io("examine"))?;
        self.check_current(&*file, stat)?;
        Ok(self.open.get_or_init(|| (file, stat.ident)))
    }

    /// Checks under the lock that the state still names the file that was just created or found.
    ///
    /// The session may have been deleted since this writer was opened: a line must not be acknowledged in a file that
    /// no reader will open.
    fn check_current(&self, file: &dyn DiskFile, opened: Stat) -> Result<()> {
        let path = &self.place.path;
        let _held = lock::take(&*self.disk, file, path, Lock::Exclusive, self.limits.busy_timeout)?;
        let Some(stat) = same_file(&*self.disk, path, opened.ident)? else {
            return Err(Error::Replaced(path.clone()));
        };
        if self.record.is_current()? {
            return Ok(());
        }
        if stat.len == 0 {
            // Created by this writer, or by another that was too late as well.
            self.disk.unlink(path).map_err(Error::io("remove", path))?;
        }
        Err(Error::Replaced(path.clone()))
    }

    /// Checks under the lock that the log is as this writer left it, and repairs a tail that a dead writer left.
    fn check(&self, hot: &mut Hot, file: &Arc<dyn DiskFile>, ident: Ident) -> Result<Option<Mend>> {
        let path = &self.place.path;
        if self.sync_failed.load(Ordering::SeqCst) {
            hot.closed = Some(ClosedReason::Poisoned);
        }
        if let Some(closed) = hot.closed {
            return Err(self.refusal(closed));
        }
        let stat = if mutant::is(Mutant::NoLinkCheck) {
            Some(file.stat().map_err(Error::io("examine", path))?)
        } else {
            same_file(&*self.disk, path, ident)?
        };
        let closed = match stat {
            None => ClosedReason::Replaced,
            Some(stat) if stat.is_poisoned() => ClosedReason::Poisoned,
            Some(stat) if stat.is_claimed() => return Err(Error::Claimed(path.clone())),
            Some(stat) if stat.len < hot.len => {
                ClosedReason::Shrunk { expected: self.end_of(hot), found: Position(self.place.base.0 + stat.len) }
            }
            Some(stat) if stat.len == hot.len => return Ok(None),
            Some(_) if !self.has_own_last_bytes(hot, file, ident)? => ClosedReason::Overwritten,
            Some(stat) => return self.mend_tail(hot, stat.len, file, ident),
        };
        hot.closed = Some(closed);
        Err(self.refusal(closed))
    }

    /// Returns true if this writer's last bytes are unchanged, now that other writers appended after them.
    fn has_own_last_bytes(&self, hot: &mut Hot, file: &Arc<dyn DiskFile>, ident: Ident) -> Result<bool> {
        // The bytes of other writers are not remembered; those of the next append will be.
        let ours = std::mem::take(&mut hot.last);
        let mut there = vec![0; ours.len()];
        let from = Position(self.end_of(hot).0 - ours.len() as u64);
        Reader::over(&self.disk, &self.place, file, ident).read_exact(from, &mut there)?;
        Ok(there == ours)
    }

    fn refusal(&self, closed: ClosedReason) -> Error {
        let path = self.place.path.clone();
        match closed {
            ClosedReason::Replaced => Error::Replaced(path),
            ClosedReason::Overwritten => Error::Overwritten(path),
            ClosedReason::Shrunk { expected, found } => Error::Shrunk { path, expected, found },
            ClosedReason::Poisoned => Error::Poisoned(path),
        }
    }

    /// Repairs the tail of a file of `len` bytes. `hot.len` changes only after that: otherwise the next append after a
    /// failure would take the fragment for its own bytes and continue after it.
    fn mend_tail(&self, hot: &mut Hot, len: u64, file: &Arc<dyn DiskFile>, ident: Ident) -> Result<Option<Mend>> {
        let log = Reader::over(&self.disk, &self.place, file, ident);
        let sealed_to = Position(self.sealed_to.load(Ordering::SeqCst));
        let end = Position(self.place.base.0 + len);
        let Some(tail) = recover::find_torn_tail(&log, end, sealed_to, self.limits.line_bytes_max)? else {
            hot.len = len;
            return Ok(None);
        };
        let mend = recover::mend(&self.disk, &self.place, file, &log, &tail).inspect_err(|error| {
            if matches!(error, Error::Poisoned(_)) {
                poison(hot, &**file);
            }
        })?;
        hot.len = file.stat().map_err(Error::io("examine", &self.place.path))?.len;
        Ok(Some(mend))
    }

    /// Writes under the lock. A short write is rolled back before a reader can see it.
    fn write_locked(&self, hot: &mut Hot, file: &dyn DiskFile, bytes: &[u8]) -> Result<()> {
        let path = &self.place.path;
        let failure = match file.append(bytes) {
            Ok(n) if n == bytes.len() => {
                hot.len += n as u64;
                hot.last.clear();
                hot.last.extend_from_slice(&bytes[bytes.len().saturating_sub(LAST_BYTES)..]);
                self.written.fetch_max(hot.len, Ordering::SeqCst);
                return Ok(());
            }
            Ok(_) => None,
            Err(error) => Some(error),
        };
        let rolled_back = file.set_len(hot.len).is_ok();
        match failure {
            None if rolled_back => Err(Error::Full(path.clone())),
            Some(error) if rolled_back && is_full(&error) => Err(Error::Full(path.clone())),
            Some(error) if !is_full(&error) => {
                poison(hot, file);
                Err(Error::Closed { path: path.clone(), source: error })
            }
            _ => {
                poison(hot, file);
                Err(Error::Poisoned(path.clone()))
            }
        }
    }
}

/// Closes the log for every process (R8). If even that fails, at least this writer appends nothing more.
fn poison(hot: &mut Hot, file: &dyn DiskFile) {
    hot.closed = Some(ClosedReason::Poisoned);
    let _ = file.set_mode(MODE_POISONED);
}

/// Returns the metadata of the path if it still names this file.
fn same_file(disk: &dyn Disk, path: &Path, ident: Ident) -> Result<Option<Stat>> {
    Ok(disk.stat(path).map_err(Error::io("examine", path))?.filter(|stat| stat.ident == ident))
}

/// Returns the directories above a path, outermost first.
fn ancestors(path: &Path) -> Vec<&Path> {
    let mut all: Vec<&Path> = path.ancestors().skip(1).filter(|at| !at.as_os_str().is_empty()).collect();
    all.reverse();
    all
}

/// A value that one thread at a time takes out, uses without holding a lock, and puts back.
struct Turn<T> {
    slot: Mutex<Slot<T>>,
    free: Condvar,
}

struct Slot<T> {
    value: Option<T>,
    /// Number of waiting threads: a notification without a waiter would still be a system call.
    waiting: usize,
}

struct TurnGuard<'t, T> {
    turn: &'t Turn<T>,
    value: Option<T>,
}

impl<T> Turn<T> {
    fn new(value: T) -> Self {
        Self { slot: Mutex::new(Slot { value: Some(value), waiting: 0 }), free: Condvar::new() }
    }

    fn take(&self, timeout: Duration) -> Option<TurnGuard<'_, T>> {
        let mut slot = self.slot.lock();
        if slot.value.is_none() {
            let deadline = Instant::now() + timeout;
            slot.waiting += 1;
            while slot.value.is_none() {
                let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                    slot.waiting -= 1;
                    return None;
                };
                self.free.wait_for(&mut slot, left);
            }
            slot.waiting -= 1;
        }
        Some(TurnGuard { turn: self, value: slot.value.take() })
    }
}

impl<T> std::ops::Deref for TurnGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.value {
            Some(value) => value,
            None => unreachable!("a guard holds its value until it is dropped"),
        }
    }
}

impl<T> std::ops::DerefMut for TurnGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.value {
            Some(value) => value,
            None => unreachable!("a guard holds its value until it is dropped"),
        }
    }
}

impl<T> Drop for TurnGuard<'_, T> {
    fn drop(&mut self) {
        let mut slot = self.turn.slot.lock();
        slot.value = self.value.take();
        if slot.waiting > 0 {
            self.turn.free.notify_one();
        }
    }
}

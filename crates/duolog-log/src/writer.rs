//! Appending to a log, from any number of threads and processes (I7, I10; R1, R5, R8).
//!
//! The hot path is four system calls: lock, look, write, unlock. The look is a `stat` of the *path*, so one call tells
//! that the file is still the one at its place, that it may be written, and that it is as long as we left it.

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
    /// What the batch survives once this returns.
    pub durability: Durability,
    /// Append only if the log ends here.
    pub if_position: Option<Position>,
}

/// A batch that is in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The position of its first byte.
    pub start: Position,
    /// The position after its last newline.
    pub end: Position,
    /// How far the log is synced, where that was asked for.
    pub synced: Option<Synced>,
    /// What a writer that died before us left, and what was done about it.
    pub mend: Option<Mend>,
}

/// What the state says of a log, asked while the log is locked.
pub trait LogRecord: Send + Sync {
    /// Whether the state still names the file at this path, in this epoch, as the log of a session that is there.
    fn is_current(&self) -> Result<bool>;
    /// Takes back the claims of places behind `end`: what was claimed there was never written, or is lost. Without a
    /// file there is no log to look at.
    fn settle_claims(&self, log: Option<&Reader>, end: Position) -> Result<()>;
}

/// A log that no state knows.
struct Unrecorded;

impl LogRecord for Unrecorded {
    fn is_current(&self) -> Result<bool> {
        Ok(true)
    }

    fn settle_claims(&self, _: Option<&Reader>, _: Position) -> Result<()> {
        Ok(())
    }
}

/// The outcome of claiming a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The place is the caller's.
    Made,
    /// It is not, and no trace is left.
    Refused,
    /// Nobody can tell yet whether it was made.
    Unknown,
}

/// A log, open for appending. Threads share one; other processes have their own.
///
/// It stays with the file it was opened on: once that is deleted, replaced or cut, every append is refused and the
/// caller must open the log anew, which compares it with what is known of it.
pub struct Writer {
    disk: Arc<dyn Disk>,
    place: Place,
    record: Arc<dyn LogRecord>,
    limits: Limits,
    /// The process that opened it.
    pid: u32,
    sealed_to: AtomicU64,
    /// A sync failed here: nobody appends through this writer again.
    sync_failed: AtomicBool,
    open: OnceLock<(Arc<dyn DiskFile>, Ident)>,
    hot: Turn<Hot>,
    written: AtomicU64,
    gate: SyncGate,
    names_synced: OnceLock<()>,
    /// Mends whose append then failed: the caller has an error in hand and must still hear of them.
    untold: Mutex<Vec<Mend>>,
}

/// The bytes before the end that a writer remembers, to know its log again when others have appended to it.
const LAST_BYTES: usize = 64;

/// What only the thread whose turn it is may touch.
struct Hot {
    /// The file's length as this writer left it.
    len: u64,
    /// The last bytes before that.
    last: Vec<u8>,
    /// Why nobody may append here any more.
    over: Option<Over>,
}

impl Hot {
    fn at(len: u64) -> Self {
        Self { len, last: Vec::new(), over: None }
    }
}

#[derive(Clone, Copy)]
enum Over {
    Replaced,
    Shrunk { expected: Position, found: Position },
    Overwritten,
    Poisoned,
}

impl Writer {
    /// Opens the log at `place`, mends its tail, and compares it with what is known of it.
    ///
    /// A file that is absent is made by the first append. Where the standing is not [`LogIdentity::Same`], the caller must
    /// record that before it appends: positions seen so far no longer hold.
    pub fn open(disk: &Arc<dyn Disk>, place: &Place, known: &Watermark, limits: &Limits) -> Result<(Self, Recovery)> {
        Self::open_recorded(disk, place, known, limits, Arc::new(Unrecorded))
    }

    /// Opens a log that a state knows, and asks that state under the lock whether it still means this file.
    ///
    /// Claims behind the end of the log are settled here. [`Error::Replaced`] if the state means another file by now.
    pub fn open_recorded(
        disk: &Arc<dyn Disk>,
        place: &Place,
        known: &Watermark,
        limits: &Limits,
        record: Arc<dyn LogRecord>,
    ) -> Result<(Self, Recovery)> {
        let path = &place.path;
        loop {
            let Some(at_path) = disk.stat(path).map_err(Error::io("stat", path))? else {
                let known_of = known.recorded_to.max(known.sealed_to) > place.base;
                let standing = if known_of { LogIdentity::Missing } else { LogIdentity::Same };
                if standing == LogIdentity::Same && known.claimed_to > place.base {
                    // A log that was deleted on purpose is in another epoch before its file goes: its claims stand.
                    if !record.is_current()? {
                        return Err(Error::Replaced(path.clone()));
                    }
                    record.settle_claims(None, place.base)?;
                }
                let recovery = Recovery { standing, mend: None, end: place.base };
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
            // Between the look and the lock someone may have put another file there.
            let Some(stat) = same_file(&**disk, path, file.stat().map_err(Error::io("stat", path))?.ident)? else {
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
            let standing = recover::standing(&log, len_end, known, limits.line_bytes_max)?;
            let sealed_to = if standing == LogIdentity::Replaced { Position::ZERO } else { known.sealed_to };
            let writer = Self::at(disk, place, limits, sealed_to, stat.len, record);
            let mut hot = Hot::at(stat.len);
            let mend = writer.mend_tail(&mut hot, stat.len, &file, stat.ident)?;
            let end = Position(place.base.0 + hot.len);
            // A log that is another one by now has its claims settled with its epoch.
            if standing == LogIdentity::Same && (stat.is_claimed() || known.claimed_to > end) {
                writer.record.settle_claims(Some(&log), end)?;
            }
            if stat.is_claimed() {
                file.set_mode(MODE_LOG).map_err(Error::io("change the mode of", path))?;
            }
            writer.written.store(hot.len, Ordering::SeqCst);
            writer.hot.slot.lock().value = Some(hot);
            // It was made here and is empty.
            let _ = writer.open.set((file.clone(), stat.ident));
            return Ok((writer, Recovery { standing, mend, end }));
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
            untold: Mutex::default(),
        }
    }

    /// Appends a batch: all of its lines, in one piece, or none.
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

    /// Appends a batch at a place that the caller has recorded as its own before the first byte is written.
    ///
    /// `claim` is given the place and runs under the log's lock; nobody can write there before the batch. `unclaim` takes
    /// the claim back if the write failed and left nothing, and says whether that is certain. While the claim stands without its
    /// lines the mode of the file says so: should this process die, whoever opens the log settles it by its length.
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
                self.owe(mend);
                return Err(Error::Moved { expected, found: start });
            }
            let put = self.put_claimed(&mut turn, &**file, bytes, claim, unclaim);
            put.inspect_err(|_| self.owe(mend))?;
            drop(held);
            (start, self.end_of(&turn), mend)
        };
        let synced = match how.durability {
            Durability::Process => None,
            Durability::Power => Some(self.sync_to(end)?),
        };
        Ok(Appended { start, end, synced, mend })
    }

    fn put_claimed(
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
            // The mode stays: whoever opens the log next finds out.
            Claim::Unknown => return Err(Error::Claimed(path.clone())),
        }
        if let Err(error) = self.put(hot, file, bytes) {
            // Bytes that could not be taken back may hold lines of the claim: whoever opens or repairs the log settles it.
            if hot.over.is_none() && unclaim() && file.stat().is_ok_and(|stat| !stat.is_poisoned()) {
                // The mode only says that the place may be claimed; the error that counts is that of the write.
                let _ = open();
            }
            return Err(error);
        }
        // A failed sync may have closed the log without its lock, which this writer holds. Where the mode cannot be set
        // back, whoever opens the log next finds the lines where they were claimed.
        if !self.sync_failed.load(Ordering::SeqCst) && file.stat().is_ok_and(|stat| !stat.is_poisoned()) {
            let _ = open();
        }
        Ok(())
    }

    /// Appends those lines of the batch that do not stand behind `floor` already, each byte for byte.
    ///
    /// For lines that must stand once, whoever else tries to append them: the last look is under the lock. What stood
    /// there before the lock was asked for is looked through without it.
    pub fn append_absent(&self, batch: &Batch, floor: Position) -> Result<Appended> {
        let bytes = batch.as_bytes();
        let line_of = |line: &Range<usize>| &bytes[line.start..line.end - 1];
        let mut absent: HashSet<&[u8]> = batch.lines().map(|line| line_of(&line)).collect();
        let mut from = floor.max(self.place.base);
        let scan = !mutant::is(Mutant::NoFloorScan);
        if scan && let Some(log) = Reader::open(&self.disk, &self.place)? {
            let to = log.stable_end(self.limits.busy_timeout)?.max(from);
            from = self.strike_out(&mut absent, &log, from, to)?;
        }
        let mut turn = self.turn()?;
        let (file, ident) = self.file()?;
        let held = lock::take(&*self.disk, &**file, &self.place.path, Lock::Exclusive, self.limits.busy_timeout)?;
        let mend = self.check(&mut turn, file, *ident)?;
        let start = self.end_of(&turn);
        let mut put_rest = || {
            if scan {
                let log = Reader::over(&self.disk, &self.place, file, *ident);
                self.strike_out(&mut absent, &log, from, start)?;
            }
            let rest = batch.lines().filter(|line| absent.contains(line_of(line))).flat_map(|line| &bytes[line]);
            let rest: Vec<u8> = rest.copied().collect();
            if rest.is_empty() { Ok(()) } else { self.put(&mut turn, &**file, &rest) }
        };
        put_rest().inspect_err(|_| self.owe(mend))?;
        drop(held);
        Ok(Appended { start, end: self.end_of(&turn), synced: None, mend })
    }

    /// Removes from `lines` those that stand in `[from, to)`; says how far it looked.
    fn strike_out(&self, lines: &mut HashSet<&[u8]>, log: &Reader, from: Position, to: Position) -> Result<Position> {
        let mut standing = log.lines(from, to, self.limits.line_bytes_max)?;
        while let Some(item) = standing.next()? {
            if let Item::Line(line) = item {
                lines.remove(line.bytes);
            }
        }
        Ok(standing.position())
    }

    fn exists(&self) -> Result<bool> {
        let path = &self.place.path;
        Ok(self.disk.stat(path).map_err(Error::io("stat", path))?.is_some())
    }

    fn write(&self, bytes: &[u8], if_position: Option<Position>) -> Result<(Position, Position, Option<Mend>)> {
        let mut turn = self.turn()?;
        // Nothing to write makes no file; but another may have made it since this writer looked.
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
            self.owe(mend);
            return Err(Error::Moved { expected, found: start });
        }
        if !bytes.is_empty() {
            self.put(&mut turn, &**file, bytes).inspect_err(|_| self.owe(mend))?;
        }
        drop(held);
        Ok((start, self.end_of(&turn), mend))
    }

    /// Syncs the log up to `end` at least. One sync serves every caller who had written before it began.
    pub fn sync_to(&self, end: Position) -> Result<Synced> {
        let target = end.0.saturating_sub(self.place.base.0);
        if target == 0 {
            // What is before the hot file was synced before it was archived; a file that is not there is not made.
            return Ok(self.synced());
        }
        let (file, _) = self.file()?;
        if target > self.written.load(Ordering::SeqCst) {
            // Another process wrote it; the sync covers that too, if it is there.
            let len = file.stat().map_err(Error::io("stat", &self.place.path))?.len;
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
            // A new file can vanish with its name; once is enough, the name does not change.
            if self.names_synced.get().is_none() {
                sync_names(&*self.disk, &self.place.path).map_err(SyncError::of_directory)?;
                // Set by another thread already: that is the same.
                let _ = self.names_synced.set(());
            }
            Ok(())
        };
        let path = &self.place.path;
        let to = match self.gate.sync_to(target, || self.written.load(Ordering::SeqCst), sync) {
            Ok(to) => to,
            Err(SyncError::NotTried(source)) => return Err(Error::NotSynced { path: path.clone(), source }),
            Err(SyncError::Failed) => {
                // Closed even if someone is inside: a later sync would succeed without the bytes that this one lost.
                self.sync_failed.store(true, Ordering::SeqCst);
                let held = lock::take(&*self.disk, &**file, path, Lock::Exclusive, self.limits.busy_timeout);
                // Should this fail too, at least nobody in this process appends here again.
                let _ = file.set_mode(MODE_POISONED);
                drop(held);
                return Err(Error::Poisoned(path.clone()));
            }
        };
        Ok(Synced::at(Position(self.place.base.0 + to)))
    }

    /// Keeps a mend to be told of later: its append went through, but it could not be recorded.
    pub fn keep_untold(&self, mend: Mend) {
        self.owe(Some(mend));
    }

    fn owe(&self, mend: Option<Mend>) {
        self.untold.lock().extend(mend);
    }

    /// What was mended on the way to appends that then failed; each is told once.
    pub fn take_untold(&self) -> Vec<Mend> {
        std::mem::take(&mut self.untold.lock())
    }

    /// Whether the bytes from `from` on that this writer knows of are in the file that stands at the path now.
    ///
    /// For when an append was refused: its file is still open here, so what was acknowledged can be compared.
    pub fn compare_with_path(&self, from: Position) -> Result<LogIdentity> {
        let (from, written) = (from.max(self.place.base), self.written());
        let Some((file, ident)) = self.open.get().filter(|_| written > from) else { return Ok(LogIdentity::Same) };
        let Some(now) = Reader::open(&self.disk, &self.place)? else { return Ok(LogIdentity::Missing) };
        if now.ident() == *ident && self.turn()?.over.is_some_and(|over| matches!(over, Over::Overwritten)) {
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

    /// How far this writer knows the log to be synced.
    pub fn synced(&self) -> Synced {
        Synced::at(Position(self.place.base.0 + self.gate.synced()))
    }

    /// How far this writer knows the log to be written.
    pub fn written(&self) -> Position {
        Position(self.place.base.0 + self.written.load(Ordering::SeqCst))
    }

    /// Tells the writer that bytes up to here were sealed, and are never to be cut.
    pub fn sealed(&self, to: Position) {
        self.sealed_to.fetch_max(to.0, Ordering::SeqCst);
    }

    /// Where the log is.
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
            self.disk.create_dir(directory).map_err(io("make the directory of"))?;
        }
        let file = match self.disk.open(path, Open::Create) {
            Ok(file) => file,
            // Another process was first; its file is ours too.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                let stat = self.disk.stat(path).map_err(io("stat"))?.ok_or_else(|| Error::Replaced(path.clone()))?;
                if regular(&self.place, stat)?.is_poisoned() {
                    return Err(Error::Poisoned(path.clone()));
                }
                self.disk.open(path, Open::Append).map_err(io("open"))?
            }
            Err(error) => return Err(io("create")(error)),
        };
        let stat = file.stat().map_err(io("stat"))?;
        self.check_current(&*file, stat)?;
        Ok(self.open.get_or_init(|| (file, stat.ident)))
    }

    /// Looks, under the lock, whether the state still means the file that was just made or found.
    ///
    /// The session may have been deleted since this writer was opened: a line must not be acknowledged that stands where
    /// nobody looks for it.
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
            // Made for nothing, by this writer or by another that was too late.
            self.disk.unlink(path).map_err(Error::io("remove", path))?;
        }
        Err(Error::Replaced(path.clone()))
    }

    /// Looks, under the lock, whether this is still the log we left, and mends what a dead writer left behind us.
    fn check(&self, hot: &mut Hot, file: &Arc<dyn DiskFile>, ident: Ident) -> Result<Option<Mend>> {
        let path = &self.place.path;
        if self.sync_failed.load(Ordering::SeqCst) {
            hot.over = Some(Over::Poisoned);
        }
        if let Some(over) = hot.over {
            return Err(self.refusal(over));
        }
        let stat = if mutant::is(Mutant::NoLinkCheck) {
            Some(file.stat().map_err(Error::io("stat", path))?)
        } else {
            same_file(&*self.disk, path, ident)?
        };
        let over = match stat {
            None => Over::Replaced,
            Some(stat) if stat.is_poisoned() => Over::Poisoned,
            Some(stat) if stat.is_claimed() => return Err(Error::Claimed(path.clone())),
            Some(stat) if stat.len < hot.len => {
                Over::Shrunk { expected: self.end_of(hot), found: Position(self.place.base.0 + stat.len) }
            }
            Some(stat) if stat.len == hot.len => return Ok(None),
            Some(_) if !self.is_where_we_left(hot, file, ident)? => Over::Overwritten,
            Some(stat) => return self.mend_tail(hot, stat.len, file, ident),
        };
        hot.over = Some(over);
        Err(self.refusal(over))
    }

    /// Whether our last bytes are still there, now that others have written behind them.
    fn is_where_we_left(&self, hot: &mut Hot, file: &Arc<dyn DiskFile>, ident: Ident) -> Result<bool> {
        // Bytes of others we do not know; the next of our own will be remembered.
        let ours = std::mem::take(&mut hot.last);
        let mut there = vec![0; ours.len()];
        let from = Position(self.end_of(hot).0 - ours.len() as u64);
        Reader::over(&self.disk, &self.place, file, ident).read_exact(from, &mut there)?;
        Ok(there == ours)
    }

    fn refusal(&self, over: Over) -> Error {
        let path = self.place.path.clone();
        match over {
            Over::Replaced => Error::Replaced(path),
            Over::Overwritten => Error::Overwritten(path),
            Over::Shrunk { expected, found } => Error::Shrunk { path, expected, found },
            Over::Poisoned => Error::Poisoned(path),
        }
    }

    /// Mends the tail of a file of `len` bytes. Until that is done `hot` does not count them: were it to, the next append
    /// after a failure would take the fragment for our own bytes and go on behind it.
    fn mend_tail(&self, hot: &mut Hot, len: u64, file: &Arc<dyn DiskFile>, ident: Ident) -> Result<Option<Mend>> {
        let log = Reader::over(&self.disk, &self.place, file, ident);
        let sealed_to = Position(self.sealed_to.load(Ordering::SeqCst));
        let end = Position(self.place.base.0 + len);
        let Some(tail) = recover::look(&log, end, sealed_to, self.limits.line_bytes_max)? else {
            hot.len = len;
            return Ok(None);
        };
        let mend = recover::mend(&self.disk, &self.place, file, &log, &tail).inspect_err(|error| {
            if matches!(error, Error::Poisoned(_)) {
                poison(hot, &**file);
            }
        })?;
        hot.len = file.stat().map_err(Error::io("stat", &self.place.path))?.len;
        Ok(Some(mend))
    }

    /// Writes under the lock. A write that comes up short is taken back before anyone can see it.
    fn put(&self, hot: &mut Hot, file: &dyn DiskFile, bytes: &[u8]) -> Result<()> {
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
        let taken_back = file.set_len(hot.len).is_ok();
        match failure {
            None if taken_back => Err(Error::Full(path.clone())),
            Some(error) if taken_back && is_full(&error) => Err(Error::Full(path.clone())),
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

/// Closes the log to every process (R8). Should even that fail, at least nobody here appends again.
fn poison(hot: &mut Hot, file: &dyn DiskFile) {
    hot.over = Some(Over::Poisoned);
    let _ = file.set_mode(MODE_POISONED);
}

/// What stands at the path, if it is that very file.
fn same_file(disk: &dyn Disk, path: &Path, ident: Ident) -> Result<Option<Stat>> {
    Ok(disk.stat(path).map_err(Error::io("stat", path))?.filter(|stat| stat.ident == ident))
}

/// The directories on the way to a path, outermost first.
fn ancestors(path: &Path) -> Vec<&Path> {
    let mut all: Vec<&Path> = path.ancestors().skip(1).filter(|at| !at.as_os_str().is_empty()).collect();
    all.reverse();
    all
}

/// A value that one thread at a time takes out, works on without any lock held, and puts back.
struct Turn<T> {
    slot: Mutex<Slot<T>>,
    free: Condvar,
}

struct Slot<T> {
    value: Option<T>,
    /// How many wait: waking nobody would still be a system call.
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
            None => unreachable!("a guard holds its value until it goes"),
        }
    }
}

impl<T> std::ops::DerefMut for TurnGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.value {
            Some(value) => value,
            None => unreachable!("a guard holds its value until it goes"),
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

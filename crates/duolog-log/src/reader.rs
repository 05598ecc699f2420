//! Reads a log forward and backward from any position, in bounded memory, without parsing it.
//!
//! A line is the bytes between two newlines (0x0A and no other character). Memory is one buffer that grows to the
//! longest line, up to the limit; a longer line is skipped and reported.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use duolog_types::{Position, mutant, mutant::Mutant};

use crate::error::{Error, Result};
use crate::fs::{Disk, DiskFile, FileKind, Ident, Lock, Open, Stat};
use crate::lock;
use crate::sync::{SyncError, Synced};

const CHUNK: usize = 256 * 1024;
/// The size of the first backward read: mostly one short line is needed.
const CHUNK_FIRST: usize = 4 * 1024;

/// The location of a log: archived segments in order, then the hot file, which continues where they end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The hot file, relative to the disk's root.
    pub path: PathBuf,
    /// The position of the hot file's first byte.
    pub base: Position,
    /// The segments before the hot file, without gaps.
    pub sealed: Vec<Segment>,
}

/// An archived part of a log, which no longer grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The file.
    pub path: PathBuf,
    /// The position of its first byte.
    pub base: Position,
    /// The position after its last byte.
    pub end: Position,
}

impl Place {
    /// Returns the place of a log that is a single file.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), base: Position::ZERO, sealed: Vec::new() }
    }

    fn first(&self) -> Position {
        self.sealed.first().map_or(self.base, |segment| segment.base)
    }
}

/// Which program writes a log; this decides which bytes may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// Duolog, which locks the log. Bytes that a writer may still roll back are not shown.
    Ours {
        /// How long to wait for the lock.
        timeout: Duration,
    },
    /// Another program, which does not know Duolog's locks and must not be blocked by them: every complete line is
    /// shown.
    Others,
}

/// A log, open for reading.
pub struct Reader {
    disk: Arc<dyn Disk>,
    place: Place,
    hot: Arc<dyn DiskFile>,
    ident: Ident,
    sealed: Vec<Arc<dyn DiskFile>>,
}

/// One line, without its newline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'b> {
    /// The position of its first byte.
    pub start: Position,
    /// The position after its newline.
    pub end: Position,
    /// Its bytes.
    pub bytes: &'b [u8],
}

/// An element of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'b> {
    /// A line.
    Line(Line<'b>),
    /// A line longer than the limit, not read.
    TooLong {
        /// The position of its first byte.
        start: Position,
        /// The position after its newline.
        end: Position,
    },
}

/// The lines of one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block<'b> {
    /// Complete lines in order, each with its newline.
    Lines {
        /// The position of the first byte.
        start: Position,
        /// The bytes of the lines.
        bytes: &'b [u8],
    },
    /// A line longer than the limit, not read.
    TooLong {
        /// The position of its first byte.
        start: Position,
        /// The position after its newline.
        end: Position,
    },
}

/// Splits complete lines; the first one starts at `start`.
pub fn split_lines(start: Position, bytes: &[u8]) -> impl Iterator<Item = Line<'_>> {
    let mut from = 0;
    memchr::memchr_iter(b'\n', bytes).map(move |newline| {
        let position = |at: usize| Position(start.0 + at as u64);
        let line = Line { start: position(from), end: position(newline + 1), bytes: &bytes[from..newline] };
        from = newline + 1;
        line
    })
}

impl Item<'_> {
    /// Returns the position after it.
    pub const fn end(&self) -> Position {
        match self {
            Self::Line(line) => line.end,
            Self::TooLong { end, .. } => *end,
        }
    }
}

/// Returns an error unless it is a regular file; opening alone would accept a directory.
pub(crate) fn regular(place: &Place, stat: Stat) -> Result<Stat> {
    match stat.kind {
        FileKind::File => Ok(stat),
        found => Err(Error::NotALog { path: place.path.clone(), found }),
    }
}

impl Reader {
    /// Opens the log at `place`, or returns `None` if there is no file, which is an empty log.
    pub fn open(disk: &Arc<dyn Disk>, place: &Place) -> Result<Option<Self>> {
        let Some(at_path) = disk.stat(&place.path).map_err(Error::io("examine", &place.path))? else { return Ok(None) };
        regular(place, at_path)?;
        let hot = match disk.open(&place.path, Open::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("open", &place.path)(error)),
        };
        let stat = regular(place, hot.stat().map_err(Error::io("examine", &place.path))?)?;
        let open = |segment: &Segment| disk.open(&segment.path, Open::Read).map_err(Error::io("open", &segment.path));
        let sealed = place.sealed.iter().map(open).collect::<Result<_>>()?;
        Ok(Some(Self { disk: disk.clone(), place: place.clone(), hot, ident: stat.ident, sealed }))
    }

    /// Creates a reader over a file that is already open.
    pub(crate) fn over(disk: &Arc<dyn Disk>, place: &Place, file: &Arc<dyn DiskFile>, ident: Ident) -> Self {
        // This reader is only for the tail, which is in the hot file.
        let place = Place { sealed: Vec::new(), ..place.clone() };
        Self { disk: disk.clone(), place, hot: file.clone(), ident, sealed: Vec::new() }
    }

    /// Returns the identity of the open file.
    pub fn ident(&self) -> Ident {
        self.ident
    }

    /// Returns the first position of the log; it is above 0 only if older segments are not available.
    pub fn first(&self) -> Position {
        self.place.first()
    }

    /// The position of the hot file's first byte.
    pub(crate) fn base(&self) -> Position {
        self.place.base
    }

    /// Returns the end of the last complete line below a size that was read while no writer held the lock.
    ///
    /// No rollback or repair can remove bytes below it, so a follower may show them.
    pub fn stable_end(&self, timeout: Duration) -> Result<Position> {
        Ok(self.stable_end_and_rest(timeout)?.0)
    }

    /// Returns the stable end and the number of bytes of an incomplete line after it.
    pub fn stable_end_and_rest(&self, timeout: Duration) -> Result<(Position, u64)> {
        self.whole_end_and_rest(Writers::Ours { timeout })
    }

    /// Returns the end of the last complete line that may be shown, depending on which program writes the log.
    pub(crate) fn whole_end(&self, writers: Writers) -> Result<Position> {
        Ok(self.whole_end_and_rest(writers)?.0)
    }

    pub(crate) fn whole_end_and_rest(&self, writers: Writers) -> Result<(Position, u64)> {
        let path = &self.place.path;
        // The lock is held until the newline is found: otherwise a repair could cut the tail meanwhile, and a writer
        // could continue there. The mutant removes this rule on purpose.
        let held = match writers {
            Writers::Ours { timeout } if !mutant::is(Mutant::NoStableEnd) => {
                Some(lock::take(&*self.disk, &*self.hot, path, Lock::Shared, timeout)?)
            }
            _ => None,
        };
        let size = self.hot.stat().map_err(Error::io("examine", path))?.len;
        let size_end = Position(self.place.base.0 + size);
        let end = self.last_line_end(size_end)?;
        drop(held);
        Ok((end, size_end.0 - end.0))
    }

    /// Runs `f` under a shared lock, so that no process can write, delete or replace the log. Returns `None` if the
    /// path now names another file.
    pub fn while_current<T>(&self, timeout: Duration, f: impl FnOnce() -> T) -> Result<Option<T>> {
        let path = &self.place.path;
        let _held = lock::take(&*self.disk, &*self.hot, path, Lock::Shared, timeout)?;
        Ok(self.is_current()?.then(f))
    }

    /// Returns false if the path now names another file or none.
    pub fn is_current(&self) -> Result<bool> {
        let path = &self.place.path;
        let at_path = self.disk.stat(path).map_err(Error::io("examine", path))?;
        Ok(at_path.is_some_and(|stat| stat.ident == self.ident()))
    }

    /// Calls `each` with the bytes of a range, one buffer at a time.
    pub fn each_chunk(&self, from: Position, to: Position, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut buffer = vec![0; CHUNK.min(usize::try_from(to.0.saturating_sub(from.0)).unwrap_or(CHUNK))];
        let mut at = from;
        while at < to {
            let take = usize::try_from(to.0 - at.0).unwrap_or(CHUNK).min(CHUNK);
            self.read_exact(at, &mut buffer[..take])?;
            each(&buffer[..take])?;
            at.0 += take as u64;
        }
        Ok(())
    }

    /// Syncs the log and its directory entries, and returns the synced position. A failed sync closes the log to
    /// appends (R8).
    pub fn sync_with_name(&self, timeout: Duration) -> Result<Synced> {
        let end = self.stable_end(timeout)?;
        let synced = self.sync_file().and_then(|()| self.sync_name());
        self.conclude_sync(end, synced, timeout)
    }

    pub(crate) fn sync_file(&self) -> std::result::Result<(), SyncError> {
        if mutant::is(Mutant::NoLogSync) || mutant::is(Mutant::PointerBeforeSync) {
            return Ok(());
        }
        self.hot.sync().map_err(|_| SyncError::Failed)
    }

    fn sync_name(&self) -> std::result::Result<(), SyncError> {
        if mutant::is(Mutant::NoLogSync) || mutant::is(Mutant::PointerBeforeSync) {
            return Ok(());
        }
        sync_names(&*self.disk, &self.place.path).map_err(SyncError::of_directory)
    }

    /// Turns the result of a sync into a position; `end` is the end of the log before the sync. A failed sync closes
    /// the log.
    pub(crate) fn conclude_sync(
        &self,
        end: Position,
        synced: std::result::Result<(), SyncError>,
        timeout: Duration,
    ) -> Result<Synced> {
        let path = &self.place.path;
        match synced {
            Ok(()) => Ok(Synced::at(end)),
            Err(SyncError::NotTried(error)) => Err(Error::io("sync the directory of", path)(error)),
            Err(SyncError::Failed) => {
                // Closed even if another process holds the lock: a later sync would succeed without the bytes that this
                // one lost.
                let _held = lock::take(&*self.disk, &*self.hot, path, Lock::Exclusive, timeout);
                self.hot.set_mode(crate::fs::MODE_POISONED).map_err(Error::io("change the mode of", path))?;
                Err(Error::Poisoned(path.clone()))
            }
        }
    }

    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        &self.place.path
    }

    /// Returns the position after the last newline before `end`, or the start of the hot file if there is none.
    pub fn last_line_end(&self, end: Position) -> Result<Position> {
        let mut buffer = vec![0; 1];
        let mut at = end;
        while at > self.place.base {
            let take = u64::min(at.0 - self.place.base.0, buffer.len() as u64);
            let from = Position(at.0 - take);
            let bytes = &mut buffer[..usize::try_from(take).unwrap_or(CHUNK)];
            self.read_exact(from, bytes)?;
            if let Some(newline) = memchr::memrchr(b'\n', bytes) {
                return Ok(Position(from.0 + newline as u64 + 1));
            }
            at = from;
            // The first read is one byte: nearly always it is the newline.
            buffer.resize(CHUNK, 0);
        }
        Ok(self.place.base)
    }

    /// Returns the lines from `from` to `to`. `from` must be the start of a line.
    pub fn lines(&self, from: Position, to: Position, line_bytes_max: usize) -> Result<Lines<'_>> {
        self.check_boundary(from)?;
        Ok(Lines {
            reader: self,
            buffer: Vec::new(),
            head: 0,
            tail: 0,
            start: from,
            scanned: 0,
            filled: from,
            to,
            line_bytes_max,
        })
    }

    /// Reads the line that starts at a position into `buffer`, without reading much beyond it. Returns `None` if no
    /// complete line starts there.
    pub fn line_at<'b>(
        &self,
        at: Position,
        buffer: &'b mut Vec<u8>,
        line_bytes_max: usize,
    ) -> Result<Option<Line<'b>>> {
        match self.check_boundary(at) {
            Err(Error::NotABoundary(_) | Error::BeyondEnd { .. } | Error::BeforeBase { .. }) => return Ok(None),
            other => other?,
        }
        buffer.clear();
        loop {
            let old = buffer.len();
            buffer.resize(CHUNK_FIRST.max(old * 4), 0);
            let read = self.read_at(Position(at.0 + old as u64), &mut buffer[old..])?;
            buffer.truncate(old + read);
            if let Some(found) = memchr::memchr(b'\n', &buffer[old..]) {
                let len = old + found;
                let end = Position(at.0 + len as u64 + 1);
                return Ok((len <= line_bytes_max).then(|| Line { start: at, end, bytes: &buffer[..len] }));
            }
            if read == 0 || buffer.len() > line_bytes_max {
                return Ok(None);
            }
        }
    }

    /// Returns the lines before `to`, last first. `to` must be the start of a line or the end.
    pub fn back(&self, to: Position, line_bytes_max: usize) -> Result<Back<'_>> {
        self.check_boundary(to)?;
        Ok(Back { reader: self, buffer: Vec::new(), from: to, end: to, chunk: CHUNK_FIRST, line_bytes_max })
    }

    /// Returns the start of the last `count` lines before `to`, or the first position of the log if there are fewer.
    pub fn start_of_last(&self, count: u64, to: Position) -> Result<Position> {
        self.check_boundary(to)?;
        let first = self.first();
        let mut left = count;
        if left == 0 || to <= first {
            return Ok(to);
        }
        let mut buffer = vec![0; CHUNK];
        // The newline at the end of the last line does not separate two lines.
        let mut at = Position(to.0 - 1);
        while at > first {
            let take = u64::min(at.0 - first.0, CHUNK as u64);
            let from = Position(at.0 - take);
            let bytes = &mut buffer[..usize::try_from(take).unwrap_or(CHUNK)];
            self.read_exact(from, bytes)?;
            for newline in memchr::memrchr_iter(b'\n', bytes) {
                left -= 1;
                if left == 0 {
                    return Ok(Position(from.0 + newline as u64 + 1));
                }
            }
            at = from;
        }
        Ok(first)
    }

    /// Returns the hash of the line that ends at `end`, or `None` if no line ends there.
    pub fn line_hash_at(&self, end: Position, line_bytes_max: usize) -> Result<Option<crate::seal::LineHash>> {
        match self.back(end, line_bytes_max) {
            Ok(mut back) => Ok(match back.next()? {
                Some(Item::Line(line)) => Some(crate::seal::hash_line(line.bytes)),
                // The limit may have been different when the hash was recorded.
                Some(Item::TooLong { start, end }) => {
                    let mut hasher = blake3::Hasher::new();
                    self.each_chunk(start, Position(end.0 - 1), |chunk| {
                        hasher.update(chunk);
                        Ok(())
                    })?;
                    Some(hasher.finalize().into())
                }
                None => None,
            }),
            Err(Error::NotABoundary(_) | Error::BeyondEnd { .. } | Error::BeforeBase { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn check_boundary(&self, at: Position) -> Result<()> {
        let base = self.first();
        if at < base {
            return Err(Error::BeforeBase { position: at, base });
        }
        if at == base {
            return Ok(());
        }
        let mut byte = [0];
        match self.read_at(Position(at.0 - 1), &mut byte)? {
            0 => {
                let len = self.hot.stat().map_err(Error::io("examine", &self.place.path))?.len;
                Err(Error::BeyondEnd { position: at, end: Position(self.place.base.0 + len) })
            }
            _ if byte[0] == b'\n' => Ok(()),
            _ => Err(Error::NotABoundary(at)),
        }
    }

    /// Reads at a position from the file that contains it; fewer bytes at the end of that file.
    pub(crate) fn read_at(&self, at: Position, buffer: &mut [u8]) -> Result<usize> {
        let sealed = self.place.sealed.iter().zip(&self.sealed).find(|(s, _)| s.base <= at && at < s.end);
        let (file, base, end, path) = match sealed {
            Some((segment, file)) => (file, segment.base, Some(segment.end), &segment.path),
            None => (&self.hot, self.place.base, None, &self.place.path),
        };
        let room = end.map_or(usize::MAX, |end| usize::try_from(end.0 - at.0).unwrap_or(usize::MAX));
        let take = buffer.len().min(room);
        loop {
            match file.read_at(&mut buffer[..take], at.0 - base.0) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                other => return other.map_err(Error::io("read", path)),
            }
        }
    }

    pub(crate) fn read_exact(&self, from: Position, buffer: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            let at = Position(from.0 + done as u64);
            match self.read_at(at, &mut buffer[done..])? {
                0 => return Err(self.shrunk(Position(from.0 + buffer.len() as u64), at)),
                n => done += n,
            }
        }
        Ok(())
    }

    fn shrunk(&self, expected: Position, found: Position) -> Error {
        Error::Shrunk { path: self.place.path.clone(), expected, found }
    }
}

/// Syncs the directory of a log and its parent directories, so that the log can be found after a power cut.
pub(crate) fn sync_names(disk: &dyn Disk, path: &std::path::Path) -> std::io::Result<()> {
    let mut directory = path.parent();
    while let Some(at) = directory {
        disk.sync_dir(at)?;
        directory = at.parent();
    }
    Ok(())
}

/// The lines of a range, in order.
pub struct Lines<'r> {
    reader: &'r Reader,
    buffer: Vec<u8>,
    /// The start of the next line in the buffer.
    head: usize,
    /// The end of the bytes in the buffer.
    tail: usize,
    /// The position of the byte at `head`.
    start: Position,
    /// The number of bytes after `head` that contain no newline.
    scanned: usize,
    /// The position of the byte at `tail`.
    filled: Position,
    to: Position,
    line_bytes_max: usize,
}

impl Lines<'_> {
    /// Returns the position after the last returned line.
    pub fn position(&self) -> Position {
        self.start
    }

    /// Returns the next line, or `None` if no complete line is left.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Item<'_>>> {
        loop {
            let window = &self.buffer[self.head..self.tail];
            if let Some(found) = memchr::memchr(b'\n', &window[self.scanned..]) {
                let (start, bytes) = self.take(self.scanned + found + 1);
                let (end, bytes) = (self.start, &self.buffer[bytes.start..bytes.end - 1]);
                if bytes.len() > self.line_bytes_max {
                    return Ok(Some(Item::TooLong { start, end }));
                }
                return Ok(Some(Item::Line(Line { start, end, bytes })));
            }
            self.scanned = window.len();
            if self.scanned > self.line_bytes_max {
                return Ok(self.skip_line()?.map(|(start, end)| Item::TooLong { start, end }));
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// Returns all complete lines in memory, after reading more if there is none. `None` if no complete line is left.
    pub fn block(&mut self) -> Result<Option<Block<'_>>> {
        loop {
            let window = &self.buffer[self.head..self.tail];
            if let Some(found) = memchr::memrchr(b'\n', &window[self.scanned..]) {
                let (start, bytes) = self.take(self.scanned + found + 1);
                return Ok(Some(Block::Lines { start, bytes: &self.buffer[bytes] }));
            }
            self.scanned = window.len();
            if self.scanned > self.line_bytes_max {
                return Ok(self.skip_line()?.map(|(start, end)| Block::TooLong { start, end }));
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// Consumes `len` bytes of complete lines. Returns their position and their range in the buffer.
    fn take(&mut self, len: usize) -> (Position, Range<usize>) {
        let (start, head) = (self.start, self.head);
        self.head += len;
        self.start.0 += len as u64;
        self.scanned = 0;
        (start, head..self.head)
    }

    fn fill(&mut self) -> Result<bool> {
        if self.filled >= self.to {
            return Ok(false);
        }
        self.buffer.copy_within(self.head..self.tail, 0);
        self.tail -= self.head;
        self.head = 0;
        let want = CHUNK.max(self.tail).min(usize::try_from(self.to.0 - self.filled.0).unwrap_or(CHUNK));
        let room = self.tail + want;
        if self.buffer.len() < room {
            self.buffer.resize(room, 0);
        }
        match self.reader.read_at(self.filled, &mut self.buffer[self.tail..room])? {
            0 => Err(self.reader.shrunk(self.to, self.filled)),
            n => {
                self.tail += n;
                self.filled.0 += n as u64;
                Ok(true)
            }
        }
    }

    /// Skips to the newline that ends a line over the limit. Returns the start and the end of that line.
    fn skip_line(&mut self) -> Result<Option<(Position, Position)>> {
        let start = self.start;
        loop {
            self.start = self.filled;
            (self.head, self.tail, self.scanned) = (0, 0, 0);
            match self.fill() {
                Ok(true) => {}
                // The end of the line is missing or cannot be read: the line stays unread.
                other => {
                    (self.start, self.filled) = (start, start);
                    return other.map(|_| None);
                }
            }
            if let Some(found) = memchr::memchr(b'\n', &self.buffer[..self.tail]) {
                self.take(found + 1);
                return Ok(Some((start, self.start)));
            }
        }
    }
}

/// The lines before a position, in reverse order.
pub struct Back<'r> {
    reader: &'r Reader,
    /// The bytes from `from` on; those from `end` on were returned already.
    buffer: Vec<u8>,
    from: Position,
    end: Position,
    /// The size of the next read; it grows with each read.
    chunk: usize,
    line_bytes_max: usize,
}

impl Back<'_> {
    /// Returns the line before the last returned one, or `None` at the beginning.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Item<'_>>> {
        let first = self.reader.first();
        if self.end <= first {
            return Ok(None);
        }
        loop {
            let used = usize::try_from(self.end.0 - self.from.0).unwrap_or(0);
            let line_end = used.saturating_sub(1);
            let before = memchr::memrchr(b'\n', &self.buffer[..line_end]);
            if before.is_none() && self.from > first {
                if line_end > self.line_bytes_max {
                    return self.skip_line();
                }
                self.fill(used)?;
                continue;
            }
            let line_start = before.map_or(0, |newline| newline + 1);
            let (start, end) = (Position(self.from.0 + line_start as u64), self.end);
            self.end = start;
            if line_end - line_start > self.line_bytes_max {
                return Ok(Some(Item::TooLong { start, end }));
            }
            return Ok(Some(Item::Line(Line { start, end, bytes: &self.buffer[line_start..line_end] })));
        }
    }

    /// Reads more bytes before `from`, and keeps the `used` bytes that were not returned yet.
    fn fill(&mut self, used: usize) -> Result<()> {
        let room = usize::try_from(self.from.0 - self.reader.first().0).unwrap_or(CHUNK);
        let take = self.chunk.max(used).min(room);
        self.chunk = CHUNK.min(self.chunk * 2);
        let from = Position(self.from.0 - take as u64);
        let mut buffer = vec![0; take + used];
        self.reader.read_exact(from, &mut buffer[..take])?;
        buffer[take..].copy_from_slice(&self.buffer[..used]);
        self.buffer = buffer;
        self.from = from;
        Ok(())
    }

    fn skip_line(&mut self) -> Result<Option<Item<'_>>> {
        let end = self.end;
        loop {
            self.buffer.clear();
            self.end = self.from;
            if self.from <= self.reader.first() {
                return Ok(Some(Item::TooLong { start: self.from, end }));
            }
            if let Err(error) = self.fill(0) {
                (self.from, self.end) = (end, end);
                return Err(error);
            }
            if let Some(newline) = memchr::memrchr(b'\n', &self.buffer) {
                self.end = Position(self.from.0 + newline as u64 + 1);
                return Ok(Some(Item::TooLong { start: self.end, end }));
            }
        }
    }
}

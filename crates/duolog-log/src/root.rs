//! Follows every log under a directory tree, Duolog's or another program's: first the existing lines, oldest file
//! first, then new lines as they come.
//!
//! The tree is only read: no lock on files of other programs, no repair, no file written (R7). Only complete lines are
//! delivered, each once, in the order of their file. Links are not followed. New files and directories are found by
//! [`Hints`], and by a periodic sweep for changes that no hint reported. Few files are open at a time; of each file
//! only its path and its [`Trail`] are kept.
//!
//! `log` is the state of one file; `tree` finds files. A file that is moved counts as a new file. Positions are offsets
//! in the file. Names that are not UTF-8 are ignored.

mod log;
mod tree;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Bound;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use duolog_types::Position;
use duolog_types::limits::Limits;

use crate::error::{Error, Result};
use crate::fs::{Disk, Ident};
use crate::hint::{Bell, Hints, Listener};
use crate::medium::files::Files;
use crate::reader::{Item, Reader, Writers};
use crate::recent::Recent;
use crate::tail::{Pace, ResetReason};
use crate::trail::{Terms, Trail};

use log::{Log, Step};
use rustix::io::Errno;

/// Maximum number of bytes that one poll delivers, rounded up to the end of a line.
const POLL_BYTES: u64 = 8 << 20;
/// Maximum number of files that one poll checks.
const POLL_LOOKS: usize = 1024;
/// The pause after a sweep, as a multiple of its duration, so that a large tree is not swept all the time.
const SWEEP_SHARE: u32 = 50;

/// Where to start in the files of the first sweep. Files that appear later are delivered from their beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the first line.
    All,
    /// At this number of lines before the end of each file.
    Last(u64),
    /// After the last complete line.
    New,
}

/// Options of a [`RootFollower`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootOptions {
    /// Where to start.
    pub start: Start,
    /// Which program writes the files. A Duolog writer that keeps its lock delays only its own file.
    pub writers: Writers,
    /// Maximum length of a line in bytes; a longer line is reported and not read.
    pub line_bytes_max: usize,
    /// Maximum number of open files.
    pub open_files_max: usize,
    /// Maximum number of followed files; others are reported and skipped.
    pub files_max: usize,
    /// How often the tree is swept without a hint.
    pub pace: Pace,
}

impl Default for RootOptions {
    fn default() -> Self {
        let millis = Duration::from_millis;
        Self {
            start: Start::All,
            writers: Writers::Others,
            line_bytes_max: Limits::default().line_bytes_max,
            open_files_max: 64,
            files_max: 1_000_000,
            pace: Pace { min: millis(10), max: millis(500), with_hints: millis(2000) },
        }
    }
}

/// An event of a [`RootFollower`]. Paths are relative to the root.
#[derive(Debug)]
pub enum RootEvent<'e> {
    /// The next line of a file.
    Item {
        /// The file.
        path: &'e Path,
        /// The line.
        item: Item<'e>,
    },
    /// Delivered lines of a file are no longer there. The lines now after `to` follow.
    Reset {
        /// The file.
        path: &'e Path,
        /// The last position whose line is unchanged.
        to: Position,
        /// What happened.
        why: ResetReason,
    },
    /// A file was deleted or moved.
    Gone {
        /// The file.
        path: &'e Path,
    },
    /// The root does not exist. The follower waits for it.
    Missing,
    /// A file or directory is not followed. Reported once.
    Skipped {
        /// The file or directory.
        path: &'e Path,
        /// The reason.
        why: &'e Skip,
    },
}

/// Why a file or directory is not followed.
#[derive(Debug)]
pub enum Skip {
    /// It cannot be read. The follower tries again when it changes.
    Unreadable(Error),
    /// It is a link, a pipe or a device.
    NotAFile,
    /// It is a compressed archive of old lines.
    Cold,
    /// `files_max` files are followed already.
    TooMany,
    /// Its directory is nested too deeply.
    TooDeep,
}

/// The result of one poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing was delivered, and nothing is left.
    Idle,
    /// Events were delivered, or are left for the next poll.
    Delivered,
    /// The root does not exist.
    Missing,
}

/// The callback for events.
type EventSink<'f> = &'f mut dyn FnMut(RootEvent<'_>);

/// Follows every `*.jsonl` under a directory.
pub struct RootFollower {
    root: PathBuf,
    options: RootOptions,
    /// The open root; `None` while it does not exist.
    files: Option<Arc<Files>>,
    logs: BTreeMap<Arc<Path>, Log>,
    /// The listed directories, each with the last sweep that saw it.
    directories: BTreeMap<PathBuf, u64>,
    /// The skips that were reported, each with the last sweep that saw it.
    reported_skips: BTreeMap<PathBuf, u64>,
    /// Logs to check.
    queue: VecDeque<Arc<Path>>,
    /// Logs that could not be checked, because a writer held the lock.
    later: Vec<Arc<Path>>,
    readers: Recent<Arc<Path>, Reader>,
    listener: Listener,
    /// Where to start in the files of the first sweep; `None` after it.
    first_start: Option<Start>,
    /// Number of sweeps so far.
    sweeps: u64,
    /// When the next sweep is due; `None` means now.
    sweep_at: Option<Instant>,
    /// True if every directory is watched.
    is_watching_all: bool,
    pause: Duration,
    is_missing: bool,
}

impl RootFollower {
    /// Follows the logs under `root`, which need not exist yet.
    pub fn new(root: &Path, hints: &Hints, options: RootOptions) -> Result<Self> {
        Ok(Self {
            root: std::path::absolute(root).map_err(Error::io("find", root))?,
            options,
            files: None,
            logs: BTreeMap::new(),
            directories: BTreeMap::new(),
            reported_skips: BTreeMap::new(),
            queue: VecDeque::new(),
            later: Vec::new(),
            readers: Recent::new(options.open_files_max),
            listener: Listener::with_hints(hints),
            first_start: Some(options.start),
            sweeps: 0,
            sweep_at: None,
            is_watching_all: true,
            pause: options.pace.min,
            is_missing: false,
        })
    }

    /// Returns the bell that ends a wait of this follower, for a caller that knows of a change or wants it to stop.
    pub fn bell(&self) -> Bell {
        self.listener.bell()
    }

    /// Returns the number of followed files.
    pub fn file_count(&self) -> usize {
        self.logs.len()
    }

    /// Iterates over the files that are followed, each with the position after the last line delivered or left out.
    pub fn logs(&self) -> impl Iterator<Item = (&Path, Position)> {
        self.logs.iter().map(|(path, log)| (&**path, log.position()))
    }

    /// Returns true if a file could not be checked, because a writer held its lock.
    pub fn is_held_up(&self) -> bool {
        !self.later.is_empty()
    }

    /// Returns the position after the last delivered line of a file, or `None` if the file is not followed.
    pub fn position(&self, path: &Path) -> Option<Position> {
        self.logs.get(path).map(Log::position)
    }

    /// Makes the next poll sweep the whole tree.
    pub fn look_again(&mut self) {
        self.sweep_at = None;
    }

    /// Delivers new events, up to a limit.
    ///
    /// # Errors
    ///
    /// An error does not concern a single file; the next poll continues at the same place.
    pub fn poll(&mut self, each: EventSink<'_>) -> Result<Progress> {
        let changes = self.listener.take();
        let Some(files) = self.reach_root(each)? else {
            return Ok(Progress::Missing);
        };
        let mut has_delivered = false;
        let each: EventSink<'_> = &mut |event| {
            has_delivered = true;
            each(event);
        };
        if changes.everything || self.sweep_at.is_none_or(|at| at <= Instant::now()) {
            self.sweep(&files, each)?;
        } else {
            self.check_changed_paths(&files, &changes.paths, each)?;
        }
        self.deliver(&files, each)?;
        if !has_delivered && self.queue.is_empty() {
            return Ok(Progress::Idle);
        }
        self.pause = self.options.pace.min;
        Ok(Progress::Delivered)
    }

    /// Waits until something may have changed, at most `timeout`.
    pub fn wait(&mut self, timeout: Duration) {
        if !self.queue.is_empty() {
            return;
        }
        let until_sweep = self.sweep_at.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()));
        let pause = if self.is_missing || !self.later.is_empty() {
            // Neither a new root nor a released lock causes a hint.
            self.pause_longer()
        } else {
            until_sweep
        };
        self.listener.wait(timeout.min(pause));
    }

    fn pause_longer(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (pause * 2).min(self.options.pace.max);
        pause
    }

    /// Returns the root, reopened if another directory took its place; `None` if it does not exist.
    fn reach_root(&mut self, each: EventSink<'_>) -> Result<Option<Arc<Files>>> {
        let found = match std::fs::metadata(&self.root) {
            Ok(found) => Some(Ident { device: found.dev(), inode: found.ino() }),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => None,
            Err(error) => return Err(Error::io("examine", &self.root)(error)),
        };
        if let Some(files) = &self.files {
            let open = files.ident().map_err(Error::io("examine", &self.root))?;
            if found == Some(open) {
                return Ok(Some(Arc::clone(files)));
            }
            self.drop_all_logs(each);
        }
        if found.is_none() {
            if !self.is_missing {
                // Files that appear from now on are new.
                (self.is_missing, self.first_start) = (true, None);
                each(RootEvent::Missing);
            }
            return Ok(None);
        }
        let files = match Files::beneath(&self.root) {
            Ok(files) => Arc::new(files),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("open", &self.root)(error)),
        };
        (self.is_missing, self.sweep_at) = (false, None);
        self.files = Some(Arc::clone(&files));
        Ok(Some(files))
    }

    /// Checks the queued logs until the queue is empty or a limit is reached.
    fn deliver(&mut self, files: &Arc<Files>, each: EventSink<'_>) -> Result<()> {
        let disk: Arc<dyn Disk> = files.clone();
        self.queue.extend(self.later.drain(..));
        let (mut left, mut looks) = (POLL_BYTES, POLL_LOOKS);
        while left > 0 && looks > 0 {
            let Some(path) = self.queue.pop_front() else { break };
            looks -= 1;
            let before = self.position(&path).unwrap_or_default();
            match self.step(files, &disk, &path, left, each) {
                Ok(Step::Done) => {}
                Ok(Step::More) => self.queue.push_front(Arc::clone(&path)),
                Ok(Step::OthersFirst) => self.queue.push_back(Arc::clone(&path)),
                Ok(Step::Later) => self.later.push(Arc::clone(&path)),
                Err(error) => {
                    self.logs.get_mut(&path).map(Log::enter_queue);
                    self.queue.push_front(path);
                    return Err(error);
                }
            }
            left = left.saturating_sub(self.position(&path).unwrap_or_default().0.saturating_sub(before.0));
        }
        Ok(())
    }

    /// Checks one log.
    fn step(
        &mut self,
        files: &Files,
        disk: &Arc<dyn Disk>,
        path: &Arc<Path>,
        step_bytes: u64,
        each: EventSink<'_>,
    ) -> Result<Step> {
        let Some(log) = self.logs.get_mut(path) else { return Ok(Step::Done) };
        let terms = Terms { writers: self.options.writers, line_bytes_max: self.options.line_bytes_max, step_bytes };
        let stepped = match files.look(path) {
            Ok(None) => {
                self.drop_log(path, each);
                return Ok(Step::Done);
            }
            Ok(Some((stat, changed_at))) => log.step(disk, path, (stat, changed_at), &self.readers, &terms, each),
            Err(error) => Err(Error::io("examine", path)(error)),
        };
        match stepped {
            Err(error) if is_out_of_resources(&error) => Err(error),
            Err(error) => {
                log.report_unreadable(path, error, each);
                Ok(Step::Done)
            }
            ok => ok,
        }
    }

    /// Queues a followed log, unless it is queued already.
    fn enqueue(&mut self, path: &Path) {
        if let Some((path, log)) =
            self.logs.range_mut::<Path, _>(from(path)).next().filter(|(found, _)| &***found == path)
            && log.enter_queue()
        {
            self.queue.push_back(Arc::clone(path));
        }
    }

    fn drop_log(&mut self, path: &Path, each: EventSink<'_>) {
        if self.logs.remove(path).is_none() {
            return;
        }
        if let Some(reader) = self.readers.get(path) {
            self.readers.let_go(&Arc::from(path), &reader);
        }
        each(RootEvent::Gone { path });
    }

    fn drop_all_logs(&mut self, each: EventSink<'_>) {
        for path in self.logs.keys().cloned().collect::<Vec<_>>() {
            self.drop_log(&path, each);
        }
        for directory in std::mem::take(&mut self.directories).into_keys() {
            self.listener.unwatch(&self.at(&directory));
        }
        self.reported_skips.clear();
        self.queue.clear();
        self.later.clear();
        self.files = None;
    }

    /// Returns the absolute path of a path beneath the root.
    fn at(&self, path: &Path) -> PathBuf {
        if path.as_os_str().is_empty() { self.root.clone() } else { self.root.join(path) }
    }
}

/// The range of keys from `path` on; what is beneath it comes first.
fn from(path: &Path) -> (Bound<&Path>, Bound<&Path>) {
    (Bound::Included(path), Bound::Unbounded)
}

/// Returns true if this process ran out of descriptors or memory: that says nothing about the file.
fn is_out_of_resources(error: &Error) -> bool {
    let number = match error {
        Error::Io { source, .. } => Errno::from_io_error(source),
        _ => None,
    };
    matches!(number, Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM))
}

impl Start {
    /// Returns a trail that starts here.
    fn trail(self, reader: &Reader, writers: Writers, places: usize) -> Result<Trail> {
        let position = match self {
            Self::All => reader.first(),
            Self::Last(count) => reader.start_of_last(count, reader.whole_end(writers)?)?,
            Self::New => reader.whole_end(writers)?,
        };
        Ok(Trail::at(position, places))
    }
}

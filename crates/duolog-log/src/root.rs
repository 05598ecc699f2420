//! Following every log under a directory tree, ours or of others: what is there, oldest first, and then what comes.
//!
//! The tree is only read: no lock in files of others, no repair, nothing written beside them (R7). Only whole lines are
//! delivered, each once, in the order of their file. Links are not followed. Files and directories that appear later are
//! found by [`Hints`], and by a sweep now and then for what no hint told of. Few files are open at a time; what is kept of
//! each is its path and its [`Trail`].
//!
//! `log` is what is known of one file, `tree` finds files. A file that is moved is another one, which begins anew.
//! Positions are offsets in the file. A name that is not UTF-8 is not looked at.

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

/// The bytes one poll delivers at the most, but for the end of a line.
const POLL_BYTES: u64 = 8 << 20;
/// The files one poll looks at, at the most.
const POLL_LOOKS: usize = 1024;
/// How much longer than it took the pause after a sweep is, so that a large tree is not swept all the time.
const SWEEP_SHARE: u32 = 50;

/// Where to begin in the files that are there first. Those that come later are delivered from their beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With their first line.
    All,
    /// With so many lines of each before its end.
    Last(u64),
    /// Behind their last whole line.
    New,
}

/// How a root is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootOptions {
    /// Where to begin.
    pub start: Start,
    /// Who writes the files. A writer of ours that stays inside holds up its own file and no other.
    pub writers: Writers,
    /// The bytes of a line at most; a longer one is told of and not read.
    pub line_bytes_max: usize,
    /// How many files are open at a time.
    pub open_files_max: usize,
    /// How many files are followed; further ones are told of and skipped.
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
            pace: Pace { soon: millis(10), seldom: millis(500), hearing: millis(2000) },
        }
    }
}

/// What a root follower tells. Paths are relative to the root.
#[derive(Debug)]
pub enum RootEvent<'e> {
    /// The next line of a file.
    Item {
        /// The file.
        path: &'e Path,
        /// The line.
        item: Item<'e>,
    },
    /// Lines of a file that were delivered are no longer there. What stands now behind `to` follows.
    Reset {
        /// The file.
        path: &'e Path,
        /// The last position whose line still stands.
        to: Position,
        /// What happened.
        why: ResetReason,
    },
    /// A file is no longer there.
    Gone {
        /// The file.
        path: &'e Path,
    },
    /// The root is not there. It is waited for.
    Missing,
    /// Something is not followed. It is told once.
    Skipped {
        /// The file or directory.
        path: &'e Path,
        /// Why.
        why: &'e Skip,
    },
}

/// Why something is not followed.
#[derive(Debug)]
pub enum Skip {
    /// It cannot be read. It is tried again when it changes.
    Unreadable(Error),
    /// It is a link, a pipe or a device.
    NotAFile,
    /// It is a compressed copy of lines that are no longer hot.
    Cold,
    /// As many files are followed as may be.
    TooMany,
    /// It is too far down.
    TooDeep,
}

/// What one poll did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing is left to tell for now.
    Idle,
    /// Something was told, or is left to tell.
    Delivered,
    /// The root is not there.
    Missing,
}

/// Who is told.
type Each<'f> = &'f mut dyn FnMut(RootEvent<'_>);

/// Follows every `*.jsonl` under a directory.
pub struct RootFollower {
    root: PathBuf,
    options: RootOptions,
    /// The root as long as it is there.
    files: Option<Arc<Files>>,
    logs: BTreeMap<Arc<Path>, Log>,
    /// The directories that were listed, and in which sweep they were last met.
    directories: BTreeMap<PathBuf, u64>,
    /// What was told to be skipped, and in which sweep it was last met.
    noted: BTreeMap<PathBuf, u64>,
    /// Logs to look at.
    queue: VecDeque<Arc<Path>>,
    /// Logs that could not be looked at just now.
    later: Vec<Arc<Path>>,
    readers: Recent<Arc<Path>, Reader>,
    listener: Listener,
    /// Where to begin in what the first sweep meets.
    first_start: Option<Start>,
    /// How many sweeps there were.
    sweeps: u64,
    /// When the next one is due; at once if nothing is said.
    sweep_at: Option<Instant>,
    /// Whether every directory is heard.
    is_hearing: bool,
    pause: Duration,
    is_missing: bool,
}

impl RootFollower {
    /// Follows what is under `root`, which need not exist yet.
    pub fn new(root: &Path, hints: &Hints, options: RootOptions) -> Result<Self> {
        Ok(Self {
            root: std::path::absolute(root).map_err(Error::io("find", root))?,
            options,
            files: None,
            logs: BTreeMap::new(),
            directories: BTreeMap::new(),
            noted: BTreeMap::new(),
            queue: VecDeque::new(),
            later: Vec::new(),
            readers: Recent::new(options.open_files_max),
            listener: Listener::of(hints),
            first_start: Some(options.start),
            sweeps: 0,
            sweep_at: None,
            is_hearing: true,
            pause: options.pace.soon,
            is_missing: false,
        })
    }

    /// What wakes this follower, for whoever knows that something changed, or that it should end.
    pub fn bell(&self) -> Bell {
        self.listener.bell()
    }

    /// How many files are followed.
    pub fn file_count(&self) -> usize {
        self.logs.len()
    }

    /// Iterates over the files that are followed, each with the position after the last line delivered or left out.
    pub fn logs(&self) -> impl Iterator<Item = (&Path, Position)> {
        self.logs.iter().map(|(path, log)| (&**path, log.position()))
    }

    /// Whether something could not be looked at, because a writer was inside.
    pub fn is_held_up(&self) -> bool {
        !self.later.is_empty()
    }

    /// The position after the last line delivered of a file; none where it is not followed.
    pub fn position(&self, path: &Path) -> Option<Position> {
        self.logs.get(path).map(Log::position)
    }

    /// Has the next poll look at the whole tree, hint or no hint.
    pub fn look_again(&mut self) {
        self.sweep_at = None;
    }

    /// Tells what is new, up to a bound. An error here is not that of one file; the next poll goes on where it was.
    pub fn poll(&mut self, each: Each<'_>) -> Result<Progress> {
        let heard = self.listener.take();
        let Some(files) = self.reach_root(each)? else {
            return Ok(Progress::Missing);
        };
        let mut was_told = false;
        let each: Each<'_> = &mut |event| {
            was_told = true;
            each(event);
        };
        if heard.everything || self.sweep_at.is_none_or(|at| at <= Instant::now()) {
            self.sweep(&files, each)?;
        } else {
            self.look_where_told(&files, &heard.paths, each)?;
        }
        self.deliver(&files, each)?;
        if !was_told && self.queue.is_empty() {
            return Ok(Progress::Idle);
        }
        self.pause = self.options.pace.soon;
        Ok(Progress::Delivered)
    }

    /// Waits until something may have changed, at most `timeout`.
    pub fn wait(&mut self, timeout: Duration) {
        if !self.queue.is_empty() {
            return;
        }
        let until_sweep = self.sweep_at.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()));
        let pause = if self.is_missing || !self.later.is_empty() {
            // Neither a root that appears nor a writer that leaves makes a sound.
            self.pause_longer()
        } else {
            until_sweep
        };
        self.listener.wait(timeout.min(pause));
    }

    fn pause_longer(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (pause * 2).min(self.options.pace.seldom);
        pause
    }

    /// The root, opened again if it is another one than before; none if it is not there.
    fn reach_root(&mut self, each: Each<'_>) -> Result<Option<Arc<Files>>> {
        let found = match std::fs::metadata(&self.root) {
            Ok(found) => Some(Ident { device: found.dev(), inode: found.ino() }),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => None,
            Err(error) => return Err(Error::io("look at", &self.root)(error)),
        };
        if let Some(files) = &self.files {
            let open = files.ident().map_err(Error::io("look at", &self.root))?;
            if found == Some(open) {
                return Ok(Some(Arc::clone(files)));
            }
            self.let_go_of_everything(each);
        }
        if found.is_none() {
            if !self.is_missing {
                // Whatever comes now was not there before.
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

    /// Looks at what is queued, until that is done or the bound is reached.
    fn deliver(&mut self, files: &Arc<Files>, each: Each<'_>) -> Result<()> {
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

    /// Looks at one log.
    fn step(
        &mut self,
        files: &Files,
        disk: &Arc<dyn Disk>,
        path: &Arc<Path>,
        step_bytes: u64,
        each: Each<'_>,
    ) -> Result<Step> {
        let Some(log) = self.logs.get_mut(path) else { return Ok(Step::Done) };
        let terms = Terms { writers: self.options.writers, line_bytes_max: self.options.line_bytes_max, step_bytes };
        let stepped = match files.look(path) {
            Ok(None) => {
                self.let_go(path, each);
                return Ok(Step::Done);
            }
            Ok(Some((stat, changed_at))) => log.step(disk, path, (stat, changed_at), &self.readers, &terms, each),
            Err(error) => Err(Error::io("look at", path)(error)),
        };
        match stepped {
            Err(error) if is_ours_to_bear(&error) => Err(error),
            Err(error) => {
                log.tell_unreadable(path, error, each);
                Ok(Step::Done)
            }
            ok => ok,
        }
    }

    /// Queues a log that is known, once.
    fn enqueue(&mut self, path: &Path) {
        if let Some((path, log)) =
            self.logs.range_mut::<Path, _>(from(path)).next().filter(|(found, _)| &***found == path)
            && log.enter_queue()
        {
            self.queue.push_back(Arc::clone(path));
        }
    }

    fn let_go(&mut self, path: &Path, each: Each<'_>) {
        if self.logs.remove(path).is_none() {
            return;
        }
        if let Some(reader) = self.readers.get(path) {
            self.readers.let_go(&Arc::from(path), &reader);
        }
        each(RootEvent::Gone { path });
    }

    fn let_go_of_everything(&mut self, each: Each<'_>) {
        for path in self.logs.keys().cloned().collect::<Vec<_>>() {
            self.let_go(&path, each);
        }
        for directory in std::mem::take(&mut self.directories).into_keys() {
            self.listener.unwatch(&self.at(&directory));
        }
        self.noted.clear();
        self.queue.clear();
        self.later.clear();
        self.files = None;
    }

    /// A path beneath the root as the system knows it.
    fn at(&self, path: &Path) -> PathBuf {
        if path.as_os_str().is_empty() { self.root.clone() } else { self.root.join(path) }
    }
}

/// A path and all that is sorted behind it, what is beneath it first.
fn from(path: &Path) -> (Bound<&Path>, Bound<&Path>) {
    (Bound::Included(path), Bound::Unbounded)
}

/// Whether an error says nothing about a file, but that we have too much open.
fn is_ours_to_bear(error: &Error) -> bool {
    let number = match error {
        Error::Io { source, .. } => Errno::from_io_error(source),
        _ => None,
    };
    matches!(number, Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM))
}

impl Start {
    /// The way through a log that begins here.
    fn trail(self, reader: &Reader, writers: Writers, places: usize) -> Result<Trail> {
        let position = match self {
            Self::All => reader.first(),
            Self::Last(count) => reader.start_of_last(count, reader.whole_end(writers)?)?,
            Self::New => reader.whole_end(writers)?,
        };
        Ok(Trail::at(position, places))
    }
}

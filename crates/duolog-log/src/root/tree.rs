//! Finding what is under a root: by sweeps of the whole tree, and by hints of what changed in it.
//!
//! A directory is watched before it is listed, so that nothing can come in between unheard.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use rustix::io::Errno;

use super::log::Log;
use super::{Each, RootEvent, RootFollower, SWEEP_SHARE, Skip, Start};
use crate::error::{Error, Result};
use crate::fs::{Disk, FileKind};
use crate::hint::Watched;
use crate::medium::files::Files;

/// How many directories down files are looked for.
const DEPTH_MAX: usize = 64;
/// How much that is skipped is remembered; what comes then is skipped without a word.
const NOTED_MAX: usize = 1_000_000;

/// Logs that were met for the first time, with their time of change: the oldest is told first.
type Found = Vec<(SystemTime, PathBuf)>;

impl RootFollower {
    /// Looks at the whole tree.
    pub(super) fn sweep(&mut self, files: &Files, each: Each<'_>) -> Result<()> {
        let begun_at = Instant::now();
        self.sweeps += 1;
        self.is_hearing = true;
        let mut found = Found::new();
        self.walk(files, PathBuf::new(), &mut found, each)?;
        self.let_go_of_what_was_not_met(each);
        let is_quiet = found.is_empty() && self.queue.is_empty();
        // Only what the first sweep meets was there before.
        let start = self.first_start.take().unwrap_or(Start::All);
        self.take_in(found, start);
        let pause = if self.is_hearing {
            self.options.pace.hearing
        } else if is_quiet {
            self.pause_longer()
        } else {
            self.options.pace.soon
        };
        let now = Instant::now();
        self.sweep_at = now.checked_add(pause.max(now.duration_since(begun_at) * SWEEP_SHARE)).or(Some(now));
        Ok(())
    }

    /// Looks at the paths that changed, as far as they are beneath the root.
    pub(super) fn look_where_told(&mut self, files: &Files, paths: &BTreeSet<PathBuf>, each: Each<'_>) -> Result<()> {
        let mut found = Found::new();
        for path in paths {
            let Some(path) = path.strip_prefix(&self.root).ok().filter(|path| !path.as_os_str().is_empty()) else {
                continue;
            };
            match files.look(path) {
                Ok(None) => self.let_go_beneath(path, each),
                Ok(Some((stat, _))) if stat.kind == FileKind::Directory => {
                    self.walk(files, path.to_owned(), &mut found, each)?;
                }
                Ok(Some(_)) if self.logs.contains_key(path) => self.enqueue(path),
                Ok(Some((stat, changed_at))) => self.meet_new(path, stat.kind, changed_at, &mut found, each),
                Err(error) => self.note(path, &Skip::Unreadable(Error::io("look at", path)(error)), each),
            }
        }
        self.take_in(found, Start::All);
        Ok(())
    }

    /// Lists a directory and those beneath it.
    fn walk(&mut self, files: &Files, from: PathBuf, found: &mut Found, each: Each<'_>) -> Result<()> {
        let mut left = vec![from];
        while let Some(directory) = left.pop() {
            if directory.components().count() > DEPTH_MAX {
                self.note(&directory, &Skip::TooDeep, each);
                continue;
            }
            self.is_hearing &= self.listener.watch(&self.at(&directory), None) != Watched::Not;
            self.directories.insert(directory.clone(), self.sweeps);
            let names = match files.list(&directory) {
                Ok(names) => names,
                Err(error) => {
                    self.cannot_list(&directory, error, each)?;
                    continue;
                }
            };
            for (name, kind) in names {
                let path = directory.join(name);
                match kind {
                    FileKind::Directory => left.push(path),
                    FileKind::Other => match files.look(&path) {
                        // Some file systems do not say in a list what a name is.
                        Ok(Some((stat, _))) if stat.kind == FileKind::Directory => left.push(path),
                        _ => self.meet(files, &path, found, each),
                    },
                    FileKind::File => self.meet(files, &path, found, each),
                }
            }
        }
        Ok(())
    }

    /// A directory that cannot be listed hides what is in it, and does not end it.
    fn cannot_list(&mut self, directory: &Path, error: io::Error, each: Each<'_>) -> Result<()> {
        // Replaced by something else, or by a link, since its name was read.
        if matches!(Errno::from_io_error(&error), Some(Errno::NOTDIR | Errno::LOOP)) {
            return Ok(());
        }
        let error = Error::io("list", &self.at(directory))(error);
        if super::is_ours_to_bear(&error) {
            return Err(error);
        }
        let sweep = self.sweeps;
        self.logs
            .range_mut::<Path, _>(super::from(directory))
            .take_while(|(path, _)| path.starts_with(directory))
            .for_each(|(_, log)| log.met_in = sweep);
        self.note(directory, &Skip::Unreadable(error), each);
        Ok(())
    }

    /// Takes note of something that is no directory.
    fn meet(&mut self, files: &Files, path: &Path, found: &mut Found, each: Each<'_>) {
        if !is_log(path) && !is_cold(path) {
            return;
        }
        match files.look(path) {
            Ok(None) => {}
            Ok(Some((stat, changed_at))) => match self.logs.get_mut(path) {
                Some(log) => {
                    log.met_in = self.sweeps;
                    if !log.is_settled(&stat, changed_at) {
                        self.enqueue(path);
                    }
                }
                None => self.meet_new(path, stat.kind, changed_at, found, each),
            },
            Err(error) => self.note(path, &Skip::Unreadable(Error::io("look at", path)(error)), each),
        }
    }

    fn meet_new(&mut self, path: &Path, kind: FileKind, changed_at: SystemTime, found: &mut Found, each: Each<'_>) {
        if is_cold(path) {
            self.note(path, &Skip::Cold, each);
        } else if !is_log(path) {
            // Set aside, kept beside, or none of ours.
        } else if kind != FileKind::File {
            self.note(path, &Skip::NotAFile, each);
        } else if self.logs.len() + found.len() >= self.options.files_max {
            self.note(path, &Skip::TooMany, each);
        } else {
            found.push((changed_at, path.to_owned()));
        }
    }

    /// Queues what was met for the first time, oldest first.
    fn take_in(&mut self, mut found: Found, start: Start) {
        found.sort_unstable();
        found.dedup();
        for (_, path) in found {
            self.noted.remove(&path);
            self.logs.insert(Arc::from(&*path), Log::new(start, self.sweeps));
            self.enqueue(&path);
        }
    }

    /// Says once that something is skipped, as long as it stands there.
    fn note(&mut self, path: &Path, why: &Skip, each: Each<'_>) {
        if let Some(met_in) = self.noted.get_mut(path) {
            *met_in = self.sweeps;
        } else if self.noted.len() < NOTED_MAX {
            self.noted.insert(path.to_owned(), self.sweeps);
            each(RootEvent::Skipped { path, why });
        }
    }

    fn let_go_of_what_was_not_met(&mut self, each: Each<'_>) {
        let sweep = self.sweeps;
        let gone = |(path, log): (&Arc<Path>, &Log)| (log.met_in != sweep).then(|| Arc::clone(path));
        for path in self.logs.iter().filter_map(gone).collect::<Vec<_>>() {
            self.let_go(&path, each);
        }
        self.noted.retain(|_, met_in| *met_in == sweep);
        let gone = |(path, met_in): (&PathBuf, &u64)| (*met_in != sweep).then(|| path.clone());
        for directory in self.directories.iter().filter_map(gone).collect::<Vec<_>>() {
            self.forget_directory(&directory);
        }
    }

    /// Lets go of a path that is no longer there, and of all beneath it.
    fn let_go_beneath(&mut self, path: &Path, each: Each<'_>) {
        self.noted.remove(path);
        let is_beneath = |found: &Path| found.starts_with(path);
        let logs: Vec<_> = self
            .logs
            .range::<Path, _>(super::from(path))
            .map(|(log, _)| Arc::clone(log))
            .take_while(|log| is_beneath(log))
            .collect();
        for log in logs {
            self.let_go(&log, each);
        }
        let directories: Vec<_> = self
            .directories
            .range::<Path, _>(super::from(path))
            .map(|(directory, _)| directory.clone())
            .take_while(|directory| is_beneath(directory))
            .collect();
        for directory in directories {
            self.forget_directory(&directory);
        }
    }

    fn forget_directory(&mut self, directory: &Path) {
        self.directories.remove(directory);
        self.listener.unwatch(&self.at(directory));
    }
}

fn is_log(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("jsonl"))
}

fn is_cold(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("zst")) && path.file_stem().is_some_and(|stem| is_log(Path::new(stem)))
}

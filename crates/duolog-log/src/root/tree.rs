//! Finds the logs under a root: by sweeps of the whole tree, and by hints.
//!
//! A directory is watched before it is listed, so that no new file goes unnoticed in between.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use rustix::io::Errno;

use super::log::Log;
use super::{EventSink, RootEvent, RootFollower, SWEEP_SHARE, Skip, Start};
use crate::error::{Error, Result};
use crate::fs::{Disk, FileKind};
use crate::hint::WatchOutcome;
use crate::medium::files::Files;

/// Maximum depth of directories.
const DEPTH_MAX: usize = 64;
/// Maximum number of remembered skips; skips after that are not reported.
const SKIPS_MAX: usize = 1_000_000;

/// New logs with their modification time: the oldest is delivered first.
type Found = Vec<(SystemTime, PathBuf)>;

impl RootFollower {
    /// Sweeps the whole tree.
    pub(super) fn sweep(&mut self, files: &Files, each: EventSink<'_>) -> Result<()> {
        let started_at = Instant::now();
        self.sweeps += 1;
        self.is_watching_all = true;
        let mut found = Found::new();
        self.walk(files, PathBuf::new(), &mut found, each)?;
        self.drop_logs_not_seen(each);
        let is_quiet = found.is_empty() && self.queue.is_empty();
        // Only the files of the first sweep were there before.
        let start = self.first_start.take().unwrap_or(Start::All);
        self.enqueue_new(found, start);
        let pause = if self.is_watching_all {
            self.options.pace.with_hints
        } else if is_quiet {
            self.pause_longer()
        } else {
            self.options.pace.min
        };
        let now = Instant::now();
        self.sweep_at = now.checked_add(pause.max(now.duration_since(started_at) * SWEEP_SHARE)).or(Some(now));
        Ok(())
    }

    /// Checks the changed paths that are beneath the root.
    pub(super) fn check_changed_paths(
        &mut self,
        files: &Files,
        paths: &BTreeSet<PathBuf>,
        each: EventSink<'_>,
    ) -> Result<()> {
        let mut found = Found::new();
        for path in paths {
            let Some(path) = path.strip_prefix(&self.root).ok().filter(|path| !path.as_os_str().is_empty()) else {
                continue;
            };
            match files.look(path) {
                Ok(None) => self.drop_logs_beneath(path, each),
                Ok(Some((stat, _))) if stat.kind == FileKind::Directory => {
                    self.walk(files, path.to_owned(), &mut found, each)?;
                }
                Ok(Some(_)) if self.logs.contains_key(path) => self.enqueue(path),
                Ok(Some((stat, changed_at))) => self.visit_new_file(path, stat.kind, changed_at, &mut found, each),
                Err(error) => self.report_skip(path, &Skip::Unreadable(Error::io("examine", path)(error)), each),
            }
        }
        self.enqueue_new(found, Start::All);
        Ok(())
    }

    /// Lists a directory and its subdirectories.
    fn walk(&mut self, files: &Files, from: PathBuf, found: &mut Found, each: EventSink<'_>) -> Result<()> {
        let mut left = vec![from];
        while let Some(directory) = left.pop() {
            if directory.components().count() > DEPTH_MAX {
                self.report_skip(&directory, &Skip::TooDeep, each);
                continue;
            }
            self.is_watching_all &= self.listener.watch(&self.at(&directory), None) != WatchOutcome::Unavailable;
            self.directories.insert(directory.clone(), self.sweeps);
            let names = match files.list(&directory) {
                Ok(names) => names,
                Err(error) => {
                    self.handle_list_error(&directory, error, each)?;
                    continue;
                }
            };
            for (name, kind) in names {
                let path = directory.join(name);
                match kind {
                    FileKind::Directory => left.push(path),
                    FileKind::Other => match files.look(&path) {
                        // Some file systems do not give the file type in a listing.
                        Ok(Some((stat, _))) if stat.kind == FileKind::Directory => left.push(path),
                        _ => self.visit_file(files, &path, found, each),
                    },
                    FileKind::File => self.visit_file(files, &path, found, each),
                }
            }
        }
        Ok(())
    }

    /// Handles a directory that cannot be listed: the logs in it are kept, because they may still exist.
    fn handle_list_error(&mut self, directory: &Path, error: io::Error, each: EventSink<'_>) -> Result<()> {
        // Replaced by a file or a link since its name was read.
        if matches!(Errno::from_io_error(&error), Some(Errno::NOTDIR | Errno::LOOP)) {
            return Ok(());
        }
        let error = Error::io("list", &self.at(directory))(error);
        if super::is_out_of_resources(&error) {
            return Err(error);
        }
        let sweep = self.sweeps;
        self.logs
            .range_mut::<Path, _>(super::from(directory))
            .take_while(|(path, _)| path.starts_with(directory))
            .for_each(|(_, log)| log.last_sweep = sweep);
        self.report_skip(directory, &Skip::Unreadable(error), each);
        Ok(())
    }

    /// Checks an entry that is not a directory.
    fn visit_file(&mut self, files: &Files, path: &Path, found: &mut Found, each: EventSink<'_>) {
        if !is_log(path) && !is_cold(path) {
            return;
        }
        match files.look(path) {
            Ok(None) => {}
            Ok(Some((stat, changed_at))) => match self.logs.get_mut(path) {
                Some(log) => {
                    log.last_sweep = self.sweeps;
                    if !log.is_settled(&stat, changed_at) {
                        self.enqueue(path);
                    }
                }
                None => self.visit_new_file(path, stat.kind, changed_at, found, each),
            },
            Err(error) => self.report_skip(path, &Skip::Unreadable(Error::io("examine", path)(error)), each),
        }
    }

    fn visit_new_file(
        &mut self,
        path: &Path,
        kind: FileKind,
        changed_at: SystemTime,
        found: &mut Found,
        each: EventSink<'_>,
    ) {
        if is_cold(path) {
            self.report_skip(path, &Skip::Cold, each);
        } else if !is_log(path) {
            // A `.torn` file, another auxiliary file, or a file of another program.
        } else if kind != FileKind::File {
            self.report_skip(path, &Skip::NotAFile, each);
        } else if self.logs.len() + found.len() >= self.options.files_max {
            self.report_skip(path, &Skip::TooMany, each);
        } else {
            found.push((changed_at, path.to_owned()));
        }
    }

    /// Queues the new logs, oldest first.
    fn enqueue_new(&mut self, mut found: Found, start: Start) {
        found.sort_unstable();
        found.dedup();
        for (_, path) in found {
            self.reported_skips.remove(&path);
            self.logs.insert(Arc::from(&*path), Log::new(start, self.sweeps));
            self.enqueue(&path);
        }
    }

    /// Reports a skip once, as long as its path exists.
    fn report_skip(&mut self, path: &Path, why: &Skip, each: EventSink<'_>) {
        if let Some(last_sweep) = self.reported_skips.get_mut(path) {
            *last_sweep = self.sweeps;
        } else if self.reported_skips.len() < SKIPS_MAX {
            self.reported_skips.insert(path.to_owned(), self.sweeps);
            each(RootEvent::Skipped { path, why });
        }
    }

    fn drop_logs_not_seen(&mut self, each: EventSink<'_>) {
        let sweep = self.sweeps;
        let gone = |(path, log): (&Arc<Path>, &Log)| (log.last_sweep != sweep).then(|| Arc::clone(path));
        for path in self.logs.iter().filter_map(gone).collect::<Vec<_>>() {
            self.drop_log(&path, each);
        }
        self.reported_skips.retain(|_, last_sweep| *last_sweep == sweep);
        let gone = |(path, last_sweep): (&PathBuf, &u64)| (*last_sweep != sweep).then(|| path.clone());
        for directory in self.directories.iter().filter_map(gone).collect::<Vec<_>>() {
            self.forget_directory(&directory);
        }
    }

    /// Drops the logs and directories at and beneath a path that no longer exists.
    fn drop_logs_beneath(&mut self, path: &Path, each: EventSink<'_>) {
        self.reported_skips.remove(path);
        let is_beneath = |found: &Path| found.starts_with(path);
        let logs: Vec<_> = self
            .logs
            .range::<Path, _>(super::from(path))
            .map(|(log, _)| Arc::clone(log))
            .take_while(|log| is_beneath(log))
            .collect();
        for log in logs {
            self.drop_log(&log, each);
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

//! A log that is written before there is a session for it: aside, whole and synced, and only then under its name.
//!
//! A process that dies leaves its file aside, unlocked: [`sweep`] takes those away.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::fs::{Disk, DiskFile, FileKind, Lock, MODE_DRAFT, MODE_LOG, Open};
use crate::lock;
use crate::reader::sync_names;
use crate::torn::write_all;

/// The directory of logs, from the disk's root.
const DIRECTORY: &str = "sessions";
/// What the names of drafts begin with. None is a log: it does not end like one.
const ASIDE: &str = ".import-";
/// The bytes that are collected before they are written.
const BUFFER: usize = 1 << 20;

/// A log in the making. One that goes before it is kept takes its file with it.
pub struct Draft {
    disk: Arc<dyn Disk>,
    file: Option<Arc<dyn DiskFile>>,
    /// Where the file is now.
    path: PathBuf,
    buffer: Vec<u8>,
    kept: bool,
    timeout: Duration,
}

impl Draft {
    /// A draft by this name, which nobody else uses. Nothing is made before its first line; whoever sweeps at that moment
    /// is waited for, at most `timeout`.
    pub fn new(disk: &Arc<dyn Disk>, name: &str, timeout: Duration) -> Self {
        let path = Path::new(DIRECTORY).join(format!("{ASIDE}{name}"));
        Self { disk: disk.clone(), file: None, path, buffer: Vec::new(), kept: false, timeout }
    }

    /// Whether it has a line.
    pub fn has_lines(&self) -> bool {
        self.file.is_some()
    }

    /// Adds a line as it stands, with its newline. What it says is not looked at: it was a line elsewhere.
    pub fn line(&mut self, bytes: &[u8]) -> Result<()> {
        if self.file.is_none() {
            let directory = Path::new(DIRECTORY);
            self.disk.create_dir(directory).map_err(Error::io("create", directory))?;
            self.file = Some(self.create()?);
        }
        self.buffer.extend_from_slice(bytes);
        self.buffer.push(b'\n');
        if self.buffer.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    /// Creates the file and locks it.
    fn create(&self) -> Result<Arc<dyn DiskFile>> {
        let (path, io) = (&self.path, |call| Error::io(call, &self.path));
        loop {
            let file = self.disk.open(path, Open::Create).map_err(io("create"))?;
            file.set_mode(MODE_DRAFT).map_err(io("change the mode of"))?;
            lock::keep(&*self.disk, &*file, path, Lock::Exclusive, self.timeout)?;
            let ours = file.stat().map_err(io("look at"))?.ident;
            // A sweep that came before the lock took the file for one of a dead process, and removed it.
            if self.disk.stat(path).map_err(io("look at"))?.is_some_and(|stat| stat.ident == ours) {
                return Ok(file);
            }
        }
    }

    /// Makes what it holds durable.
    pub fn sync(&mut self) -> Result<()> {
        self.flush()?;
        match &self.file {
            Some(file) => file.sync().map_err(Error::io("sync", &self.path)),
            None => Ok(()),
        }
    }

    /// Gives it the name of a log, durably. Nobody may have that name; asked again, it moves on.
    pub fn stand_at(&mut self, path: &Path) -> Result<()> {
        if self.file.is_none() || self.path == path {
            return Ok(());
        }
        if let Some(folder) = path.parent() {
            self.disk.create_dir(folder).map_err(Error::io("create", folder))?;
        }
        self.disk.rename(&self.path, path).map_err(Error::io("name", path))?;
        path.clone_into(&mut self.path);
        sync_names(&*self.disk, path).map_err(Error::io("sync the directory of", path))
    }

    /// Leaves the file where it is: a row names it, or may do so.
    pub fn keep(&mut self) {
        self.kept = true;
        if let Some(file) = &self.file {
            // Where it fails the mode says less than is known, and the row says the rest.
            let _ = file.set_mode(MODE_LOG);
        }
    }

    /// Leaves the file where it is, as a draft: nobody can tell whether a row names it. If none does, the next session of
    /// that path replaces it.
    pub fn leave(&mut self) {
        self.kept = true;
    }

    fn flush(&mut self) -> Result<()> {
        if let Some(file) = &self.file {
            write_all(&**file, &self.buffer, &self.path)?;
        }
        self.buffer.clear();
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.file.is_some() && !self.kept {
            // Best effort: what is left is swept away.
            let _ = self.disk.unlink(&self.path);
        }
    }
}

/// Takes away the drafts of processes that died; one that is being written is left alone.
pub fn sweep(disk: &dyn Disk) -> Result<()> {
    let directory = Path::new(DIRECTORY);
    let names = disk.list(directory).map_err(Error::io("list", directory))?;
    for (name, _) in names.iter().filter(|(name, kind)| name.starts_with(ASIDE) && *kind == FileKind::File) {
        let path = directory.join(name);
        let file = match disk.open(&path, Open::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(Error::io("open", &path)(error)),
        };
        let is_ours = file.try_lock(Lock::Exclusive).map_err(Error::io("lock", &path))?;
        let open = file.stat().map_err(Error::io("look at", &path))?.ident;
        // It may have become a log meanwhile.
        if is_ours && disk.stat(&path).map_err(Error::io("look at", &path))?.is_some_and(|stat| stat.ident == open) {
            disk.unlink(&path).map_err(Error::io("remove", &path))?;
        }
    }
    Ok(())
}

//! A log that is written before its session exists: first as a temporary file, synced when it is complete, then
//! renamed.
//!
//! A process that dies leaves its temporary file unlocked; [`sweep`] deletes such files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::fs::{Disk, DiskFile, FileKind, Lock, MODE_DRAFT, MODE_LOG, Open};
use crate::lock;
use crate::reader::sync_names;
use crate::torn::write_all;

/// The directory of logs, relative to the disk's root.
const DIRECTORY: &str = "sessions";
/// The prefix of a draft's name. No log has it, because a draft's name lacks the suffix of logs.
const DRAFT_PREFIX: &str = ".import-";
/// Bytes to buffer before a write.
const BUFFER: usize = 1 << 20;

/// An unfinished log. Dropping it deletes its file, unless [`keep`](Self::keep) or [`leave`](Self::leave) was called.
pub struct Draft {
    disk: Arc<dyn Disk>,
    file: Option<Arc<dyn DiskFile>>,
    /// The current path of the file.
    path: PathBuf,
    buffer: Vec<u8>,
    kept: bool,
    timeout: Duration,
}

impl Draft {
    /// Creates a draft with a unique name. The file is created with the first line; that waits for a concurrent sweep,
    /// at most `timeout`.
    pub fn new(disk: &Arc<dyn Disk>, name: &str, timeout: Duration) -> Self {
        let path = Path::new(DIRECTORY).join(format!("{DRAFT_PREFIX}{name}"));
        Self { disk: disk.clone(), file: None, path, buffer: Vec::new(), kept: false, timeout }
    }

    /// Returns true if the draft has a line.
    pub fn has_lines(&self) -> bool {
        self.file.is_some()
    }

    /// Appends a line and its newline. The content is not checked: it comes from another log.
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
            let ours = file.stat().map_err(io("examine"))?.ident;
            // A sweep before the lock took the file for that of a dead process and deleted it.
            if self.disk.stat(path).map_err(io("examine"))?.is_some_and(|stat| stat.ident == ours) {
                return Ok(file);
            }
        }
    }

    /// Writes the buffer and syncs the file.
    pub fn sync(&mut self) -> Result<()> {
        self.flush()?;
        match &self.file {
            Some(file) => file.sync().map_err(Error::io("sync", &self.path)),
            None => Ok(()),
        }
    }

    /// Renames the file to `path`, durably. No other file may have that path. A second call renames it again.
    pub fn rename_to(&mut self, path: &Path) -> Result<()> {
        if self.file.is_none() || self.path == path {
            return Ok(());
        }
        if let Some(folder) = path.parent() {
            self.disk.create_dir(folder).map_err(Error::io("create", folder))?;
        }
        self.disk.rename(&self.path, path).map_err(Error::io("rename the draft to", path))?;
        path.clone_into(&mut self.path);
        sync_names(&*self.disk, path).map_err(Error::io("sync the directory of", path))
    }

    /// Keeps the file: a row names it, or may name it soon.
    pub fn keep(&mut self) {
        self.kept = true;
        if let Some(file) = &self.file {
            // If this fails, the file still looks like a draft; the row shows that it is not.
            let _ = file.set_mode(MODE_LOG);
        }
    }

    /// Keeps the file as a draft, because it is unknown whether a row names it. If none does, the next session with
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
            // Best effort: the next sweep deletes a file that is left.
            let _ = self.disk.unlink(&self.path);
        }
    }
}

/// Deletes the drafts of processes that died. A draft that is locked by its writer is left alone.
pub fn sweep(disk: &dyn Disk) -> Result<()> {
    let directory = Path::new(DIRECTORY);
    let names = disk.list(directory).map_err(Error::io("list", directory))?;
    for (name, _) in names.iter().filter(|(name, kind)| name.starts_with(DRAFT_PREFIX) && *kind == FileKind::File) {
        let path = directory.join(name);
        let file = match disk.open(&path, Open::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(Error::io("open", &path)(error)),
        };
        let is_ours = file.try_lock(Lock::Exclusive).map_err(Error::io("lock", &path))?;
        let open = file.stat().map_err(Error::io("examine", &path))?.ident;
        // The draft may have been renamed to a log meanwhile.
        if is_ours && disk.stat(&path).map_err(Error::io("examine", &path))?.is_some_and(|stat| stat.ident == open) {
            disk.unlink(&path).map_err(Error::io("remove", &path))?;
        }
    }
    Ok(())
}

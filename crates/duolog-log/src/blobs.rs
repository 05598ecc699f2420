//! Content that is too large for a line: files named by the SHA-256 of their bytes, `blobs/<aa>/<sha256>`.
//!
//! A blob is written to a temporary file, `blobs/.put-<process>-<number>`, and renamed when it is complete. So a file
//! with a blob's name is complete, unless power was lost before it was synced; the content is verified before an
//! existing blob is reused, and by every reader. A process that dies leaves its temporary file unlocked;
//! [`Blobs::sweep`] deletes such files.
//!
//! `reference`: how a line names a blob; `hold`: the lock that prevents its removal before its line is in the log. Not
//! here: which blobs are named. The caller that removes a blob must know that no line names it.

mod hold;
mod reading;
mod reference;

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use duolog_types::Durability;
use parking_lot::{Mutex, MutexGuard};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::fs::{Disk, DiskFile, FileKind, Lock, Open};
use crate::torn::write_all;

pub use hold::{Hold, RemovalLock};
pub use reading::BlobReader;
pub use reference::{BlobId, NotABlobId, each_reference, full_outputs, references};

/// The directory of blobs, relative to the disk's root.
const DIRECTORY: &str = "blobs";
/// The prefix of temporary files.
const TEMPORARY_PREFIX: &str = ".put-";
/// The size of the buffer for writing and reading.
const BUFFER: usize = 256 * 1024;
/// Maximum number of blobs that are remembered as synced; with more, some are synced again.
const SYNCED_MAX: usize = 4096;

/// The blobs of a home.
pub struct Blobs {
    disk: Arc<dyn Disk>,
    puts: AtomicU64,
    /// Blobs that this process synced. It is unknown which blobs other processes synced.
    synced: Mutex<BTreeSet<BlobId>>,
}

/// A temporary file. Its lock shows that it is being written.
struct TemporaryFile {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
}

impl Blobs {
    /// Returns the blobs of a disk. The directory is created by the first put.
    pub fn on(disk: &Arc<dyn Disk>) -> Self {
        Self { disk: disk.clone(), puts: AtomicU64::new(0), synced: Mutex::default() }
    }

    /// Stores the content of `source` and returns its id. An existing blob with that content is reused.
    ///
    /// A caller that appends a line with this id holds [`Blobs::hold`] until the line is in the log. Memory is one
    /// buffer. With [`Durability::Power`] the blob survives a power cut once this returns, so that a line may name it.
    /// After an error the blob may exist, but a caller must not rely on it.
    pub fn put(&self, source: &mut dyn Read, durability: Durability) -> Result<BlobId> {
        let directory = Path::new(DIRECTORY);
        self.disk.create_dir(directory).map_err(Error::io("create", directory))?;
        let temporary = self.create_temporary()?;
        let put = fill(&temporary, source).and_then(|id| self.place(&temporary, id, durability));
        if !matches!(put, Ok((_, Placement::Moved))) {
            // Best effort: the next sweep deletes a file that is left.
            let _ = self.disk.unlink(&temporary.path);
        }
        put.map(|(id, _)| id)
    }

    /// Opens a blob. If the content does not match the id, its reader fails before it returns the last bytes.
    pub fn open(&self, id: &BlobId) -> Result<BlobReader> {
        let path = path_of(id);
        match self.disk.open(&path, Open::Read) {
            Ok(file) => BlobReader::over(file, *id, path),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Error::NoBlob(*id)),
            Err(error) => Err(Error::io("open", &path)(error)),
        }
    }

    /// Copies a blob to `to`, unsynced and without a temporary file: for a copy of a home that no process uses yet.
    ///
    /// # Errors
    ///
    /// [`Error::Source`] if the content does not match the id; the copy is then deleted.
    pub fn copy(&self, id: &BlobId, to: &Self) -> Result<()> {
        let mut blob = self.open(id)?;
        let path = path_of(id);
        let directory = directory_of(id.first_byte());
        for directory in [Path::new(DIRECTORY), &directory] {
            to.disk.create_dir(directory).map_err(Error::io("create", directory))?;
        }
        let file = to.disk.open(&path, Open::Create).map_err(Error::io("create", &path))?;
        let mut buffer = vec![0; BUFFER.min(usize::try_from(blob.len()).unwrap_or(BUFFER)).max(1)];
        loop {
            let copied = match blob.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(read) => write_all(&*file, &buffer[..read], &path),
                Err(error) => Err(Error::Source(error)),
            };
            if copied.is_err() {
                // The error of the copy is the one to return.
                let _ = to.disk.unlink(&path);
                return copied;
            }
        }
    }

    /// Returns when a blob was stored, or `None` if there is no such blob.
    pub fn put_at(&self, id: &BlobId) -> Result<Option<SystemTime>> {
        let path = path_of(id);
        self.disk.changed_at(&path).map_err(Error::io("examine", &path))
    }

    /// Returns the length of a blob, or `None` if there is no such blob.
    pub fn len(&self, id: &BlobId) -> Result<Option<u64>> {
        let path = path_of(id);
        let stat = self.disk.stat(&path).map_err(Error::io("examine", &path))?;
        Ok(stat.filter(|stat| stat.kind == FileKind::File).map(|stat| stat.len))
    }

    /// Returns at most `limit` blobs after `after`, in the order of their ids; fewer only at the end.
    pub fn list(&self, after: Option<&BlobId>, limit: usize) -> Result<Vec<BlobId>> {
        let mut page = Vec::new();
        for first in after.map_or(0, BlobId::first_byte)..=u8::MAX {
            let directory = directory_of(first);
            let names = self.disk.list(&directory).map_err(Error::io("list", &directory))?;
            let mut ids: Vec<BlobId> = names.iter().filter_map(|(name, _)| name.parse().ok()).collect();
            ids.retain(|id| id.first_byte() == first && after.is_none_or(|after| id > after));
            ids.sort_unstable();
            page.extend(ids.into_iter().take(limit - page.len()));
            if page.len() == limit {
                break;
            }
        }
        Ok(page)
    }

    /// Removes a blob; returns true if it existed. The removal is not synced: a blob that reappears does no harm.
    pub fn remove(&self, _lock: &RemovalLock, id: &BlobId) -> Result<bool> {
        let path = path_of(id);
        self.synced().remove(id);
        match self.disk.unlink(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::io("remove", &path)(error)),
        }
    }

    /// Deletes the temporary files of dead processes and returns how many. A file that is locked by its writer is left
    /// alone.
    pub fn sweep(&self) -> Result<u64> {
        let directory = Path::new(DIRECTORY);
        let names = self.disk.list(directory).map_err(Error::io("list", directory))?;
        let mut swept = 0;
        for (name, _) in
            names.iter().filter(|(name, kind)| name.starts_with(TEMPORARY_PREFIX) && *kind == FileKind::File)
        {
            let path = directory.join(name);
            let file = match self.disk.open(&path, Open::Read) {
                Ok(file) => file,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(Error::io("open", &path)(error)),
            };
            if file.try_lock(Lock::Exclusive).map_err(Error::io("lock", &path))? && self.is_at(&*file, &path)? {
                self.disk.unlink(&path).map_err(Error::io("remove", &path))?;
                swept += 1;
            }
        }
        Ok(swept)
    }

    /// Creates a temporary file and locks it. If a sweep deletes it before it is locked, another one is created.
    fn create_temporary(&self) -> Result<TemporaryFile> {
        loop {
            let number = self.puts.fetch_add(1, Ordering::Relaxed);
            let path = Path::new(DIRECTORY).join(format!("{TEMPORARY_PREFIX}{}-{number}", std::process::id()));
            let file = match self.disk.open(&path, Open::Create) {
                Ok(file) => file,
                // The file of an earlier process with the same id, or of one in another container.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(Error::io("create", &path)(error)),
            };
            if file.try_lock(Lock::Exclusive).map_err(Error::io("lock", &path))? && self.is_at(&*file, &path)? {
                return Ok(TemporaryFile { path, file });
            }
        }
    }

    /// Returns true if the path still names this open file.
    fn is_at(&self, file: &dyn DiskFile, path: &Path) -> Result<bool> {
        let open = file.stat().map_err(Error::io("examine", path))?.ident;
        Ok(self.disk.stat(path).map_err(Error::io("examine", path))?.is_some_and(|stat| stat.ident == open))
    }

    /// Renames a complete temporary file to its blob, unless the same blob exists and is as durable as required.
    fn place(&self, temporary: &TemporaryFile, id: BlobId, durability: Durability) -> Result<(BlobId, Placement)> {
        let is_synced = durability == Durability::Process || self.synced().contains(&id);
        // Another process may have synced the existing blob: an unsynced file must not replace it.
        if is_synced && self.is_intact(&id)? {
            return Ok((id, Placement::Existed));
        }
        let path = path_of(&id);
        let directory = directory_of(id.first_byte());
        self.disk.create_dir(&directory).map_err(Error::io("create", &directory))?;
        if durability == Durability::Power {
            // The new file is synced, not the existing one: an earlier failed sync of that one is not reported here.
            temporary.file.sync().map_err(Error::io("sync", &temporary.path))?;
        }
        self.disk.rename(&temporary.path, &path).map_err(Error::io("rename", &temporary.path))?;
        if durability == Durability::Power {
            crate::reader::sync_names(&*self.disk, &path).map_err(Error::io("sync the directory of", &path))?;
            self.remember_synced(id);
        }
        Ok((id, Placement::Moved))
    }

    /// Returns true if the blob exists and its content matches the id.
    fn is_intact(&self, id: &BlobId) -> Result<bool> {
        let mut reader = match self.open(id) {
            Ok(reader) => reader,
            Err(Error::NoBlob(_)) => return Ok(false),
            Err(error) => return Err(error),
        };
        match reader.verify() {
            Ok(()) => Ok(true),
            Err(Error::BadBlob(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn remember_synced(&self, id: BlobId) {
        let mut synced = self.synced();
        if synced.len() == SYNCED_MAX {
            synced.pop_first();
        }
        synced.insert(id);
    }

    fn synced(&self) -> MutexGuard<'_, BTreeSet<BlobId>> {
        self.synced.lock()
    }
}

/// Whether the temporary file became the blob.
enum Placement {
    Moved,
    Existed,
}

/// Writes the content of the source to the temporary file and hashes it.
fn fill(temporary: &TemporaryFile, source: &mut dyn Read) -> Result<BlobId> {
    let mut buffer = vec![0; BUFFER];
    let mut hasher = Sha256::new();
    loop {
        match source.read(&mut buffer) {
            Ok(0) => return Ok(BlobId::of(hasher)),
            Ok(read) => {
                hasher.update(&buffer[..read]);
                write_all(&*temporary.file, &buffer[..read], &temporary.path)?;
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(source) => return Err(Error::Source(source)),
        }
    }
}

fn directory_of(first: u8) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{first:02x}"))
}

fn path_of(id: &BlobId) -> PathBuf {
    directory_of(id.first_byte()).join(id.to_string())
}

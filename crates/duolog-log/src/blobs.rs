//! What was too large for a line: files named by the SHA-256 of their bytes, `blobs/<aa>/<sha256>`.
//!
//! A blob is written aside, as `blobs/.put-<process>-<number>`, and renamed into its place when it is whole; so what has
//! a blob's name is whole, unless power was lost before it was synced. What stands there is read before it is trusted,
//! and read again by every reader. A process that dies leaves its file aside, unlocked: [`Blobs::sweep`] takes those away.
//!
//! `reference` is how a line names a blob, `hold` what keeps one from being taken away before its line stands. Not here:
//! which blobs are still named. Whoever removes one must know that no line names it.

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

pub use hold::{Alone, Hold};
pub use reading::BlobReader;
pub use reference::{BlobId, NotABlobId, each_reference, references, wholes};

/// The directory of blobs, from the disk's root.
const DIRECTORY: &str = "blobs";
/// What the names of files begin with that are being written.
const ASIDE: &str = ".put-";
/// The bytes in memory of a blob that is written or read.
const BUFFER: usize = 256 * 1024;
/// The blobs that are remembered to be synced; with more, some are synced again.
const SYNCED_MAX: usize = 4096;

/// The blobs of a home.
pub struct Blobs {
    disk: Arc<dyn Disk>,
    puts: AtomicU64,
    /// Blobs that this process made durable; what others say of a blob's durability cannot be asked.
    synced: Mutex<BTreeSet<BlobId>>,
}

/// A file aside, and the lock that says that someone is writing it.
struct Aside {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
}

impl Blobs {
    /// The blobs on a disk. Nothing is made before the first is put.
    pub fn on(disk: &Arc<dyn Disk>) -> Self {
        Self { disk: disk.clone(), puts: AtomicU64::new(0), synced: Mutex::default() }
    }

    /// Keeps what `source` gives until its end, and says by what name. What is there already is kept as it is.
    ///
    /// Whoever appends a line that names it holds [`Blobs::hold`] until that stands.
    ///
    /// Memory is one buffer. With [`Durability::Power`] the blob survives the loss of power once this returns, so that
    /// a line may name it. After an error the blob may be there, but nobody may count on it.
    pub fn put(&self, source: &mut dyn Read, durability: Durability) -> Result<BlobId> {
        let directory = Path::new(DIRECTORY);
        self.disk.create_dir(directory).map_err(Error::io("create", directory))?;
        let aside = self.create_aside()?;
        let put = fill(&aside, source).and_then(|id| self.place(&aside, id, durability));
        if !matches!(put, Ok((_, Placed::Moved))) {
            // Best effort: what is left is swept away.
            let _ = self.disk.unlink(&aside.path);
        }
        put.map(|(id, _)| id)
    }

    /// Opens a blob. Its reader fails where the bytes are not those that were put, before its end is given out.
    pub fn open(&self, id: &BlobId) -> Result<BlobReader> {
        let path = path_of(id);
        match self.disk.open(&path, Open::Read) {
            Ok(file) => BlobReader::over(file, *id, path),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Error::NoBlob(*id)),
            Err(error) => Err(Error::io("open", &path)(error)),
        }
    }

    /// Copies a blob to where `to` lacks it, unsynced and under its own name from the first byte on: for a copy of a home
    /// that nobody uses yet.
    ///
    /// Returns [`Error::Source`] if the bytes are not those that were put; nothing is left of the copy then.
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
                // The error of the copy is the one to tell.
                let _ = to.disk.unlink(&path);
                return copied;
            }
        }
    }

    /// When a blob was put; none where there is no such blob.
    pub fn put_at(&self, id: &BlobId) -> Result<Option<SystemTime>> {
        let path = path_of(id);
        self.disk.changed_at(&path).map_err(Error::io("stat", &path))
    }

    /// The length of a blob; none where there is no such blob.
    pub fn len(&self, id: &BlobId) -> Result<Option<u64>> {
        let path = path_of(id);
        let stat = self.disk.stat(&path).map_err(Error::io("stat", &path))?;
        Ok(stat.filter(|stat| stat.kind == FileKind::File).map(|stat| stat.len))
    }

    /// At most `limit` blobs in the order of their names, from the one behind `after` on; fewer only at the end.
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

    /// Takes a blob away; says whether it was there. It is not synced: a blob that comes back does no harm.
    pub fn remove(&self, _alone: &Alone, id: &BlobId) -> Result<bool> {
        let path = path_of(id);
        self.synced().remove(id);
        match self.disk.unlink(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::io("remove", &path)(error)),
        }
    }

    /// Takes away what puts left that never ended; says how many. One that is still being written is left alone.
    pub fn sweep(&self) -> Result<u64> {
        let directory = Path::new(DIRECTORY);
        let names = self.disk.list(directory).map_err(Error::io("list", directory))?;
        let mut swept = 0;
        for (name, _) in names.iter().filter(|(name, kind)| name.starts_with(ASIDE) && *kind == FileKind::File) {
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

    /// A new file aside, locked. A sweep that came between its creation and its lock took it away, and it is made anew.
    fn create_aside(&self) -> Result<Aside> {
        loop {
            let number = self.puts.fetch_add(1, Ordering::Relaxed);
            let path = Path::new(DIRECTORY).join(format!("{ASIDE}{}-{number}", std::process::id()));
            let file = match self.disk.open(&path, Open::Create) {
                Ok(file) => file,
                // Of a process that had our number before us, or has it in another container.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(Error::io("create", &path)(error)),
            };
            if file.try_lock(Lock::Exclusive).map_err(Error::io("lock", &path))? && self.is_at(&*file, &path)? {
                return Ok(Aside { path, file });
            }
        }
    }

    /// Whether an open file is still the one at its path.
    fn is_at(&self, file: &dyn DiskFile, path: &Path) -> Result<bool> {
        let open = file.stat().map_err(Error::io("stat", path))?.ident;
        Ok(self.disk.stat(path).map_err(Error::io("stat", path))?.is_some_and(|stat| stat.ident == open))
    }

    /// Puts a whole file into its place, unless the same blob stands there and is as durable as asked.
    fn place(&self, aside: &Aside, id: BlobId, durability: Durability) -> Result<(BlobId, Placed)> {
        let is_synced = durability == Durability::Process || self.synced().contains(&id);
        // One that is there may have been synced by another process: it is not replaced by one that was not.
        if is_synced && self.is_whole(&id)? {
            return Ok((id, Placed::Already));
        }
        let path = path_of(&id);
        let directory = directory_of(id.first_byte());
        self.disk.create_dir(&directory).map_err(Error::io("create", &directory))?;
        if durability == Durability::Power {
            // Our own bytes, not those that stand there: a sync that failed for someone else is not told to us.
            aside.file.sync().map_err(Error::io("sync", &aside.path))?;
        }
        self.disk.rename(&aside.path, &path).map_err(Error::io("rename", &aside.path))?;
        if durability == Durability::Power {
            crate::reader::sync_names(&*self.disk, &path).map_err(Error::io("sync the directory of", &path))?;
            self.remember_synced(id);
        }
        Ok((id, Placed::Moved))
    }

    /// Whether a blob is there with the bytes that it should have.
    fn is_whole(&self, id: &BlobId) -> Result<bool> {
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

/// What became of the file aside.
enum Placed {
    Moved,
    Already,
}

/// Writes what the source gives, and hashes it on the way.
fn fill(aside: &Aside, source: &mut dyn Read) -> Result<BlobId> {
    let mut buffer = vec![0; BUFFER];
    let mut hasher = Sha256::new();
    loop {
        match source.read(&mut buffer) {
            Ok(0) => return Ok(BlobId::of(hasher)),
            Ok(read) => {
                hasher.update(&buffer[..read]);
                write_all(&*aside.file, &buffer[..read], &aside.path)?;
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

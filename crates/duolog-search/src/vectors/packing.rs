//! Adding to a pack. Nothing that was published is written over, and what was not is not believed: whoever is killed here
//! leaves bytes that the next one writes over.
//!
//! Nothing is synced: what a power cut takes is missed by whoever reads, and made anew.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use duolog_types::{HomeId, PackId};

use super::block::Filling;
use super::pack::{self, Pack, Published, START};
use crate::error::{Error, Result};
use crate::lock::Lock;

/// The lock of whoever packs.
const LOCK: &str = "vectors.lock";
/// A pack that is made anew, until it is put in place.
const ASIDE: &str = "vectors.new";

/// The right to change the pack of a home, across processes.
pub struct PackLock {
    _lock: Lock,
    state: PathBuf,
}

impl PackLock {
    /// Takes it; nothing where another has it.
    pub fn take(state: &Path) -> Result<Option<Self>> {
        match Lock::take(&state.join(LOCK)) {
            Ok(lock) => Ok(Some(Self { _lock: lock, state: state.to_owned() })),
            Err(Error::Busy(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Throws away a pack that was read, if it is still the one at its place.
    pub fn throw_away(&self, pack: &Pack) -> Result<()> {
        let path = Pack::path_in(&self.state);
        if pack.is_in_place() { remove(&path) } else { Ok(()) }
    }
}

/// A pack that is being added to. Unless it is finished, what was added is taken back.
pub struct Packing {
    lock: PackLock,
    home: HomeId,
    /// What was published before; nothing where the pack is made anew.
    before: Option<Published>,
    /// What there is now.
    now: Published,
    /// The file, once it is there.
    file: Option<File>,
    filling: Filling,
    bytes: Vec<u8>,
    finished: bool,
}

impl Packing {
    /// Goes on behind what was published where that is still there, else makes a new one.
    pub fn begin(lock: PackLock, home: HomeId, published: Option<Published>) -> Result<Self> {
        let path = Pack::path_in(&lock.state);
        let found = match (pack::open_file(&path, true), published) {
            (Ok(file), Some(published)) => match pack::examine(&file, &path, home, &published) {
                Ok(_) => Some((file, published)),
                Err(Error::Unusable { .. }) => None,
                Err(error) => return Err(error),
            },
            (Ok(_), None) | (Err(Error::Missing(_)), _) => None,
            (Err(error), _) => return Err(error),
        };
        let (file, before) = found.unzip();
        let new = || {
            let pack = PackId::new();
            Published {
                pack,
                chain: pack::first_chain(&pack::start(pack, home)),
                bytes: START as u64,
                records: 0,
                last_seq: 0,
            }
        };
        let now = before.unwrap_or_else(new);
        let (filling, bytes) = (Filling::default(), Vec::new());
        Ok(Self { lock, home, before, now, file, filling, bytes, finished: false })
    }

    /// The number behind which embeddings are missing.
    pub fn last_seq(&self) -> i64 {
        self.filling.last_seq().unwrap_or(self.now.last_seq)
    }

    /// The bytes that were added.
    pub fn added_bytes(&self) -> u64 {
        self.now.bytes - self.before.map_or(START as u64, |before| before.bytes)
    }

    /// Adds an embedding, whose number is higher than all before.
    pub fn add(&mut self, seq: i64, embedding: &[u8]) -> Result<()> {
        if self.filling.is_closed_to(embedding.len() / 4) {
            self.write_block()?;
        }
        self.filling.add(seq, embedding);
        if self.filling.is_full() { self.write_block() } else { Ok(()) }
    }

    /// Puts the pack in place and says what of it may be published; nothing where no block was added.
    ///
    /// What does not fill a block is left out: it comes with the next ones.
    pub fn finish(&mut self) -> Result<Option<Published>> {
        if self.added_bytes() == 0 {
            return Ok(None);
        }
        if self.before.is_none() {
            let (aside, path) = (self.lock.state.join(ASIDE), Pack::path_in(&self.lock.state));
            fs::rename(&aside, &path).map_err(Error::io("put in place", &path))?;
        }
        self.finished = true;
        Ok(Some(self.now))
    }

    fn write_block(&mut self) -> Result<()> {
        let Some(last_seq) = self.filling.last_seq() else { return Ok(()) };
        let records = self.filling.records() as u64;
        let path = self.path();
        let file = match self.file.take() {
            Some(file) => file,
            None => make(&path, &pack::start(self.now.pack, self.home))?,
        };
        let file = self.file.insert(file);
        if self.before.is_some_and(|before| before.bytes == self.now.bytes) {
            // Whoever was killed here left what nobody needs.
            file.set_len(self.now.bytes).map_err(Error::io("cut", &path))?;
        }
        let chain = self.filling.take(&self.now.chain, &mut self.bytes);
        let Some(chain) = chain else {
            return Err(Error::Unusable { path, why: "an embedding fits no block".to_owned() });
        };
        file.write_all_at(&self.bytes, self.now.bytes).map_err(failed_write(&path))?;
        let bytes = self.now.bytes + self.bytes.len() as u64;
        self.now = Published { chain, bytes, records: self.now.records + records, last_seq, ..self.now };
        Ok(())
    }

    /// The file that is written.
    fn path(&self) -> PathBuf {
        if self.before.is_none() { self.lock.state.join(ASIDE) } else { Pack::path_in(&self.lock.state) }
    }
}

impl Drop for Packing {
    fn drop(&mut self) {
        let Some(file) = self.file.as_ref().filter(|_| !self.finished) else { return };
        // A disk that is full is not left so for a file that nobody uses.
        let _ = match &self.before {
            Some(before) => file.set_len(before.bytes).map_err(drop),
            None => remove(&self.path()).map_err(drop),
        };
    }
}

/// Makes a new pack that holds nothing yet.
fn make(path: &Path, start: &[u8]) -> Result<File> {
    // One who died left it.
    remove(path)?;
    let mut options = File::options();
    let file = options.write(true).create_new(true).mode(0o600).open(path).map_err(Error::io("make", path))?;
    if let Err(error) = file.write_all_at(start, 0) {
        // Where there is no room for this, an empty file is in the way too.
        let _ = remove(path);
        return Err(failed_write(path)(error));
    }
    Ok(file)
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("delete", path)(error)),
        _ => Ok(()),
    }
}

fn failed_write(path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::Full(path.to_owned()),
        _ => Error::io("write", path)(error),
    }
}

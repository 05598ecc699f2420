//! A pack that is read: opened where it is the one that the state names, and looked at from end to end.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use duolog_types::{HomeId, PackId};

use super::Chain;
use super::block::{Block, HEAD, Room, Shape};
use crate::error::{Error, Result};

/// The file, beside the state.
pub(super) const NAME: &str = "vectors.pack";
/// By it a file is known to be a pack.
const MAGIC: &[u8; 8] = b"duologvp";
/// The format. Another one is made anew from the state.
const FORMAT: u32 = 1;
/// The bytes before the first block: magic, format, four zeros, the pack's id, the home's id, 16 zeros.
pub(super) const START: usize = 64;

/// What of a pack counts, as the state says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// Which pack.
    pub pack: PackId,
    /// What it comes out at.
    pub chain: Chain,
    /// Where it ends.
    pub bytes: u64,
    /// How many embeddings it holds.
    pub records: u64,
    /// The number of the last one.
    pub last_seq: i64,
}

/// The bytes that a pack begins with.
pub(super) fn start(pack: PackId, home: HomeId) -> [u8; START] {
    let mut start = [0; START];
    start[..8].copy_from_slice(MAGIC);
    start[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    start[16..32].copy_from_slice(pack.as_bytes());
    start[32..48].copy_from_slice(home.as_bytes());
    start
}

/// What a pack comes out at before its first block.
pub(super) fn first_chain(start: &[u8]) -> Chain {
    *blake3::hash(start).as_bytes()
}

/// A pack that is the one the state names, as far as its beginning and its length tell.
pub struct Pack {
    file: File,
    path: PathBuf,
    ident: (u64, u64),
    first: Chain,
    published: Published,
}

impl Pack {
    /// The pack of a home whose state directory is this.
    pub fn path_in(state: &Path) -> PathBuf {
        state.join(NAME)
    }

    /// Opens it, if it is the one that is named.
    pub fn open(state: &Path, home: HomeId, published: Published) -> Result<Self> {
        let path = Self::path_in(state);
        let file = open_file(&path, false)?;
        let (ident, first) = examine(&file, &path, home, &published)?;
        Ok(Self { file, path, ident, first, published })
    }

    /// Hands out every block that counts, in order. Whoever breaks off gets no further ones.
    ///
    /// An error says that the pack is not what the state says, or cannot be read: then nothing that was handed out counts.
    pub fn scan<E: From<Error>>(
        &self,
        mut each: impl FnMut(&Block<'_>) -> std::result::Result<ControlFlow<()>, E>,
    ) -> std::result::Result<(), E> {
        let (mut at, mut chain, mut records) = (START as u64, self.first, 0);
        let mut room = Room::default();
        while at < self.published.bytes {
            let mut head = [0; HEAD];
            self.read(&mut head, at)?;
            let (shape, said) = Shape::read(&head).ok_or_else(|| self.unusable("no block begins where one should"))?;
            at += HEAD as u64;
            let body = room.of(shape.body_bytes());
            self.read(body, at)?;
            chain = shape.chained(&chain, body);
            let block = Block::new(shape, body).filter(|_| chain == said);
            let block = block.ok_or_else(|| self.unusable("a block is not what was written"))?;
            at += body.len() as u64;
            records += shape.records() as u64;
            if each(&block)?.is_break() {
                return Ok(());
            }
        }
        if (at, chain, records) != (self.published.bytes, self.published.chain, self.published.records) {
            return Err(self.unusable("it is not what the state says").into());
        }
        Ok(())
    }

    /// What of it counts.
    pub fn published(&self) -> &Published {
        &self.published
    }

    /// Whether the file is still the one at its place.
    pub(super) fn is_in_place(&self) -> bool {
        self.path.symlink_metadata().is_ok_and(|found| (found.dev(), found.ino()) == self.ident)
    }

    fn read(&self, into: &mut [u8], at: u64) -> Result<()> {
        if at.saturating_add(into.len() as u64) > self.published.bytes {
            return Err(self.unusable("its last block ends behind it"));
        }
        read(&self.file, &self.path, into, at)
    }

    fn unusable(&self, why: &str) -> Error {
        Error::Unusable { path: self.path.clone(), why: why.to_owned() }
    }
}

/// Opens a file that is one: through a link we would read, and later delete, what is not ours.
pub(super) fn open_file(path: &Path, to_write: bool) -> Result<File> {
    match path.symlink_metadata() {
        Ok(found) if found.is_file() => {}
        Ok(_) => return Err(Error::Foreign(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Error::Missing(path.to_owned())),
        Err(error) => return Err(Error::io("look at", path)(error)),
    }
    File::options().read(true).write(to_write).open(path).map_err(Error::io("open", path))
}

/// Whether a file begins as the pack that is named and is as long: which file it is, and what it comes out at before its
/// first block.
pub(super) fn examine(file: &File, path: &Path, home: HomeId, published: &Published) -> Result<((u64, u64), Chain)> {
    let unusable = |why: &str| Error::Unusable { path: path.to_owned(), why: why.to_owned() };
    let found = file.metadata().map_err(Error::io("look at", path))?;
    if found.len() < published.bytes.max(START as u64) {
        return Err(unusable("it is shorter than the state says"));
    }
    let mut begins = [0; START];
    read(file, path, &mut begins, 0)?;
    if begins != start(published.pack, home) {
        return Err(unusable("it is another one than the state says"));
    }
    Ok(((found.dev(), found.ino()), first_chain(&begins)))
}

fn read(file: &File, path: &Path, into: &mut [u8], at: u64) -> Result<()> {
    file.read_exact_at(into, at).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => Error::Unusable { path: path.to_owned(), why: "it was cut".to_owned() },
        _ => Error::io("read", path)(error),
    })
}

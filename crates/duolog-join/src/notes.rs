//! Notes: what was appended with a pass, in one file, until whoever opens the state takes it in.
//!
//! A note is a mark (R6) and a watermark at once. The first line says of which schema and boot the rest is: with another
//! schema nobody appends with a pass, and what another boot noted may have gone with the power.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duolog_log::{Disk, DiskFile, Error as LogError, LineHash, Lock, Open, keep_lock};
use duolog_types::{Epoch, Moment, Position, SessionId};
use serde::{Deserialize, Serialize};

use crate::error::Result;

pub(crate) const DIRECTORY: &str = "passes";
const NOTES: &str = "passes/notes.jsonl";

/// From this size on a command leaves the pass alone: it opens the state, and so takes the notes in. That is some ninety
/// appends; with more, reading the notes would cost each of them as much as opening the state costs one.
pub(crate) const NOTES_BYTES_MAX: usize = 16 << 10;
/// More is nobody's doing who keeps to that; it is not read.
const READ_BYTES_MAX: usize = 1 << 20;

/// What the first line says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) schema: u32,
    pub(crate) boot: String,
}

/// One append with a pass: that it may come, or how far the log reaches since it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) session: SessionId,
    pub(crate) epoch: Epoch,
    pub(crate) at: Moment,
    pub(crate) reached: Option<(Position, LineHash)>,
}

/// A note as it stands in the file.
#[derive(Serialize, Deserialize)]
struct Written<'l> {
    #[serde(borrow)]
    session: Cow<'l, str>,
    epoch: u32,
    at: String,
    #[serde(default)]
    end: Option<u64>,
    #[serde(default)]
    line_hash: Option<String>,
}

impl Note {
    fn line(&self) -> Vec<u8> {
        let line = Written {
            session: self.session.as_str().into(),
            epoch: self.epoch.0,
            at: self.at.to_string(),
            end: self.reached.map(|(end, _)| end.0),
            line_hash: self.reached.map(|(_, hash)| hex(&hash)),
        };
        framed(&line)
    }

    fn read(line: &[u8]) -> Option<Self> {
        let line: Written<'_> = serde_json::from_slice(line).ok()?;
        let reached = match (line.end, line.line_hash) {
            (Some(end), Some(hash)) => Some((Position(end), from_hex(&hash)?)),
            _ => None,
        };
        let session = SessionId::parse(&line.session).ok()?;
        Some(Self { session, epoch: Epoch(line.epoch), at: line.at.parse().ok()?, reached })
    }
}

pub(crate) fn hex(hash: &LineHash) -> String {
    blake3::Hash::from(*hash).to_hex().to_string()
}

pub(crate) fn from_hex(text: &str) -> Option<LineHash> {
    blake3::Hash::from_hex(text).ok().map(Into::into)
}

/// A line with a newline before it too, so that half a line of one who died spoils no other.
fn framed(line: &impl Serialize) -> Vec<u8> {
    let mut bytes = vec![b'\n'];
    // Structs of plain text and numbers have a form as JSON; without one there is no note, and no append.
    if serde_json::to_writer(&mut bytes, line).is_err() {
        bytes.truncate(1);
    }
    bytes.push(b'\n');
    bytes
}

/// The file, locked: shared by those who append, held alone by those who take in, grant and revoke.
pub(crate) struct Notes {
    file: Arc<dyn DiskFile>,
}

impl Drop for Notes {
    fn drop(&mut self) {
        // Closing the file would free it anyway; there is nobody to tell.
        let _ = self.file.unlock();
    }
}

/// What the file says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) header: Option<Header>,
    pub(crate) notes: Vec<Note>,
    pub(crate) bytes: usize,
}

impl Read {
    /// Whether there is more than anyone may have noted, so that it was not read.
    pub(crate) fn is_too_much(&self) -> bool {
        self.bytes > READ_BYTES_MAX
    }
}

impl Notes {
    /// The length of the file, which says whether anyone needs to look into it; nothing where it is not there.
    pub(crate) fn len(disk: &Arc<dyn Disk>) -> Result<Option<u64>> {
        let path = Path::new(NOTES);
        Ok(disk.stat(path).map_err(LogError::io("look at", path))?.map(|stat| stat.len))
    }

    /// Opens and locks the file; nothing where it is not there.
    pub(crate) fn open(disk: &Arc<dyn Disk>, how: Open, lock: Lock, wait: Duration) -> Result<Option<Self>> {
        let path = Path::new(NOTES);
        match disk.open(path, how) {
            Ok(file) => Self::locked(disk, file, lock, wait).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(LogError::io("open", path)(error).into()),
        }
    }

    /// Opens the file alone, and makes it where it is not there.
    pub(crate) fn alone(disk: &Arc<dyn Disk>, wait: Duration) -> Result<Self> {
        if let Some(notes) = Self::open(disk, Open::Append, Lock::Exclusive, wait)? {
            return Ok(notes);
        }
        let (directory, path) = (Path::new(DIRECTORY), Path::new(NOTES));
        disk.create_dir(directory).map_err(LogError::io("make", directory))?;
        let file = match disk.open(path, Open::Create) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => disk.open(path, Open::Append),
            other => other,
        };
        Self::locked(disk, file.map_err(LogError::io("create", path))?, Lock::Exclusive, wait)
    }

    fn locked(disk: &Arc<dyn Disk>, file: Arc<dyn DiskFile>, lock: Lock, wait: Duration) -> Result<Self> {
        keep_lock(&**disk, &*file, Path::new(NOTES), lock, wait)?;
        Ok(Self { file })
    }

    /// Reads all of it. What is no note says nothing.
    pub(crate) fn read(&self) -> Result<Read> {
        let io = LogError::io("read", Path::new(NOTES));
        let len = usize::try_from(self.file.stat().map_err(LogError::io("look at", Path::new(NOTES)))?.len);
        let len = len.unwrap_or(usize::MAX);
        if len > READ_BYTES_MAX {
            return Ok(Read { bytes: len, ..Read::default() });
        }
        let (mut bytes, mut filled) = (vec![0; len], 0);
        while filled < len {
            match self.file.read_at(&mut bytes[filled..], filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) => return Err(io(error).into()),
            }
        }
        let mut lines = bytes[..filled].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let header = lines.next().and_then(|line| serde_json::from_slice(line).ok());
        Ok(Read { header, notes: lines.filter_map(Note::read).collect(), bytes: filled })
    }

    /// Adds a note, in one piece; says whether it stands.
    pub(crate) fn add(&self, note: &Note) -> Result<bool> {
        self.put(&note.line())
    }

    /// Forgets what was noted and begins anew.
    pub(crate) fn begin(&self, header: &Header) -> Result<()> {
        self.file.set_len(0).map_err(LogError::io("cut", Path::new(NOTES)))?;
        // Half a header is none: the next one to come begins anew again.
        self.put(&framed(header)).map(drop)
    }

    fn put(&self, bytes: &[u8]) -> Result<bool> {
        let put = self.file.append(bytes).map_err(LogError::io("write", Path::new(NOTES)))?;
        Ok(put == bytes.len())
    }
}

impl Header {
    /// How long a file is in which nothing is noted.
    pub(crate) fn len(&self) -> u64 {
        framed(self).len() as u64
    }
}

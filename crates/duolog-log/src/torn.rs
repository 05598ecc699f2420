//! Bytes that were never a whole line: set aside in `<log>.torn`, never thrown away (I6).
//!
//! A record is a JSON line that describes the bytes, the bytes themselves, and a newline. A record that is itself torn
//! describes bytes that are still in the log, because the log is cut only after the record is synced; it stays, and
//! the next one begins on a new line. Nothing in this file is ever cut.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use duolog_types::Position;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::fs::{Disk, DiskFile, Open};
use crate::reader::{Place, Reader};

/// What one record of a `.torn` file says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TornRecord {
    /// The position in the log where the bytes stood.
    pub position: u64,
    /// How many there are.
    pub len: u64,
    /// Their BLAKE3, in hex.
    pub blake3: String,
}

/// The file beside a log that holds its torn bytes.
pub fn torn_path(log: &Path) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(".torn");
    PathBuf::from(name)
}

/// The whole records of a log's `.torn` file; none where there is no such file. What is damaged hides no other.
pub fn torn_records(disk: &Arc<dyn Disk>, log: &Path) -> Result<Vec<TornRecord>> {
    let Some(reader) = Reader::open(disk, &Place::file(torn_path(log)))? else { return Ok(Vec::new()) };
    let mut records = Vec::new();
    let mut at = Some(0);
    while let Some(start) = at {
        at = match record_at(&reader, start)? {
            Some((record, end)) => {
                records.push(record);
                Some(end)
            }
            None => next_line(&reader, start)?,
        };
    }
    Ok(records)
}

/// The start of the line behind an offset; none at the end.
fn next_line(reader: &Reader, mut at: u64) -> Result<Option<u64>> {
    // Mostly it is near; a file of nothing but newlines must not cost a large read for each.
    let mut buffer = vec![0; 256];
    loop {
        let read = reader.read_at(Position(at), &mut buffer)?;
        if read == 0 {
            return Ok(None);
        }
        if let Some(newline) = memchr::memchr(b'\n', &buffer[..read]) {
            return Ok(Some(at + newline as u64 + 1));
        }
        at += read as u64;
        buffer.resize(64 * 1024, 0);
    }
}

/// Reads the record at an offset; none where there is no whole one.
fn record_at(reader: &Reader, at: u64) -> Result<Option<(TornRecord, u64)>> {
    let mut head = [0; 256];
    let read = reader.read_at(Position(at), &mut head)?;
    let Some(newline) = memchr::memchr(b'\n', &head[..read]) else { return Ok(None) };
    let Ok(record) = serde_json::from_slice::<TornRecord>(&head[..newline]) else { return Ok(None) };
    let body = at + newline as u64 + 1;
    let Some(end) = body.checked_add(record.len) else { return Ok(None) };
    let mut last = [0];
    let whole = reader.read_at(Position(end), &mut last)? == 1 && last[0] == b'\n';
    if !whole {
        return Ok(None);
    }
    let (body, end) = (Position(body), Position(end));
    let (_, hash) = crate::seal::hash_range(reader, body, end, &[])?;
    let same = blake3::Hash::from_bytes(hash).to_hex().as_str() == record.blake3;
    Ok(same.then_some((record, end.0 + 1)))
}

/// Copies `[from, to)` of an open log into its `.torn` file and syncs it. Doing so twice leaves one record.
pub(crate) fn save(disk: &Arc<dyn Disk>, log: &Reader, path: &Path, from: u64, to: u64) -> Result<TornRecord> {
    let (_, hash) = crate::seal::hash_range(log, Position(from), Position(to), &[])?;
    let record =
        TornRecord { position: from, len: to - from, blake3: blake3::Hash::from_bytes(hash).to_hex().to_string() };
    let torn = torn_path(path);
    let io = |call| Error::io(call, &torn);
    let file: Arc<dyn DiskFile> = match disk.open(&torn, Open::Append) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            disk.open(&torn, Open::Create).map_err(io("create"))?
        }
        Err(error) => return Err(io("open")(error)),
    };
    let len = file.stat().map_err(io("stat"))?.len;
    let mut last = [b'\n'];
    if len > 0 {
        file.read_at(&mut last, len - 1).map_err(io("read"))?;
    }
    if last != [b'\n'] {
        write_all(&*file, b"\n", &torn)?;
    }
    if torn_records(disk, path)?.last() != Some(&record) {
        let mut head = serde_json::to_vec(&record).unwrap_or_default();
        head.push(b'\n');
        write_all(&*file, &head, &torn)?;
        log.each_chunk(Position(from), Position(to), |bytes| write_all(&*file, bytes, &torn))?;
        write_all(&*file, b"\n", &torn)?;
    }
    file.sync().map_err(io("sync"))?;
    crate::reader::sync_names(&**disk, path).map_err(io("sync the directory of"))?;
    Ok(record)
}

/// Writes all of it, in as many calls as it takes.
pub fn write_all(file: &dyn DiskFile, mut bytes: &[u8], path: &Path) -> Result<()> {
    while !bytes.is_empty() {
        match file.append(bytes).map_err(Error::io("write", path))? {
            0 => return Err(Error::Full(path.to_owned())),
            n => bytes = &bytes[n..],
        }
    }
    Ok(())
}

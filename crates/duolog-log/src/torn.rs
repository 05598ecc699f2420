//! Bytes of incomplete lines: quarantined in `<log>.torn`, never deleted (I6).
//!
//! A record is a JSON line that describes the bytes, the bytes themselves, and a newline. The log is cut only after its
//! record is synced, so a torn record describes bytes that are still in the log; it stays, and the next record begins
//! on a new line. This file is never truncated.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use duolog_types::Position;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::fs::{Disk, DiskFile, Open};
use crate::reader::{Place, Reader};

/// The header of a record in a `.torn` file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TornRecord {
    /// The position of the bytes in the log.
    pub position: u64,
    /// The number of bytes.
    pub len: u64,
    /// The BLAKE3 of the bytes, in hex.
    pub blake3: String,
}

/// Returns the path of the file that holds a log's torn bytes.
pub fn torn_path(log: &Path) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(".torn");
    PathBuf::from(name)
}

/// Returns the complete records of a log's `.torn` file; empty if there is no such file. Damaged records are skipped.
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

/// Returns the start of the next line after an offset, or `None` at the end.
fn next_line(reader: &Reader, mut at: u64) -> Result<Option<u64>> {
    // The newline is mostly near, and a file that consists of newlines must not cost a large read for each.
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

/// Reads the record at an offset; `None` if no complete record starts there.
fn record_at(reader: &Reader, at: u64) -> Result<Option<(TornRecord, u64)>> {
    let mut head = [0; 256];
    let read = reader.read_at(Position(at), &mut head)?;
    let Some(newline) = memchr::memchr(b'\n', &head[..read]) else { return Ok(None) };
    let Ok(record) = serde_json::from_slice::<TornRecord>(&head[..newline]) else { return Ok(None) };
    let body = at + newline as u64 + 1;
    let Some(end) = body.checked_add(record.len) else { return Ok(None) };
    let mut last = [0];
    let is_complete = reader.read_at(Position(end), &mut last)? == 1 && last[0] == b'\n';
    if !is_complete {
        return Ok(None);
    }
    let (body, end) = (Position(body), Position(end));
    let (_, hash) = crate::seal::hash_range(reader, body, end, &[])?;
    let same = blake3::Hash::from_bytes(hash).to_hex().as_str() == record.blake3;
    Ok(same.then_some((record, end.0 + 1)))
}

/// Copies `[from, to)` of an open log to its `.torn` file and syncs that. A second call adds no second record.
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
    let len = file.stat().map_err(io("examine"))?.len;
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

/// Writes all bytes, in as many calls as needed.
pub fn write_all(file: &dyn DiskFile, mut bytes: &[u8], path: &Path) -> Result<()> {
    while !bytes.is_empty() {
        match file.append(bytes).map_err(Error::io("write", path))? {
            0 => return Err(Error::Full(path.to_owned())),
            n => bytes = &bytes[n..],
        }
    }
    Ok(())
}

//! Bytes that were never a whole line: set aside in `<log>.torn`, never thrown away (I6).
//!
//! A record is a JSON line that describes the bytes, the bytes themselves, and a newline. A record that is itself torn
//! describes bytes that are still in the log, because the log is cut only after the record is synced; it is cut away.

use std::path::{Path, PathBuf};
use std::sync::Arc;

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

/// The records of a log's `.torn` file and how many of its bytes they cover; nothing where there is no such file.
pub fn torn_records(disk: &Arc<dyn Disk>, log: &Path) -> Result<(Vec<TornRecord>, u64)> {
    let place = Place::file(torn_path(log));
    let Some(reader) = Reader::open(disk, &place)? else { return Ok((Vec::new(), 0)) };
    let mut records = Vec::new();
    let mut at = 0;
    while let Some((record, end)) = record_at(&reader, at)? {
        records.push(record);
        at = end;
    }
    Ok((records, at))
}

/// Reads the record at an offset; none where there is no whole one.
fn record_at(reader: &Reader, at: u64) -> Result<Option<(TornRecord, u64)>> {
    let mut head = [0; 256];
    let read = reader.read_at(duolog_types::Position(at), &mut head)?;
    let Some(newline) = memchr::memchr(b'\n', &head[..read]) else { return Ok(None) };
    let Ok(record) = serde_json::from_slice::<TornRecord>(&head[..newline]) else { return Ok(None) };
    let body = at + newline as u64 + 1;
    let Some(end) = body.checked_add(record.len) else { return Ok(None) };
    let mut last = [0];
    let whole = reader.read_at(duolog_types::Position(end), &mut last)? == 1 && last[0] == b'\n';
    if !whole {
        return Ok(None);
    }
    let (body, end) = (duolog_types::Position(body), duolog_types::Position(end));
    let (_, hash) = crate::seal::hash_range(reader, body, end, &[])?;
    let same = blake3::Hash::from_bytes(hash).to_hex().as_str() == record.blake3;
    Ok(same.then_some((record, end.0 + 1)))
}

/// Copies `[from, to)` of an open log into its `.torn` file and syncs it. Doing so twice leaves one record.
pub(crate) fn save(disk: &Arc<dyn Disk>, log: &Reader, path: &Path, from: u64, to: u64) -> Result<TornRecord> {
    let at = duolog_types::Position;
    let (_, hash) = crate::seal::hash_range(log, at(from), at(to), &[])?;
    let record =
        TornRecord { position: from, len: to - from, blake3: blake3::Hash::from_bytes(hash).to_hex().to_string() };
    let torn = torn_path(path);
    let (records, whole) = torn_records(disk, path)?;
    let io = |call| Error::io(call, &torn);
    let file: Arc<dyn DiskFile> = match disk.open(&torn, Open::Append) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            disk.open(&torn, Open::Create).map_err(io("create"))?
        }
        Err(error) => return Err(io("open")(error)),
    };
    if records.last() != Some(&record) {
        if file.stat().map_err(io("look at"))?.len > whole {
            file.set_len(whole).map_err(io("cut"))?;
        }
        let mut head = serde_json::to_vec(&record).unwrap_or_default();
        head.push(b'\n');
        write_all(&*file, &head, &torn)?;
        log.each_chunk(at(from), at(to), |bytes| write_all(&*file, bytes, &torn))?;
        write_all(&*file, b"\n", &torn)?;
    }
    file.sync().map_err(io("sync"))?;
    crate::reader::sync_names(&**disk, path).map_err(io("sync the directory of"))?;
    Ok(record)
}

/// Writes all of it, in as many calls as it takes.
pub(crate) fn write_all(file: &dyn DiskFile, mut bytes: &[u8], path: &Path) -> Result<()> {
    while !bytes.is_empty() {
        match file.append(bytes).map_err(Error::io("write", path))? {
            0 => return Err(Error::Full(path.to_owned())),
            n => bytes = &bytes[n..],
        }
    }
    Ok(())
}

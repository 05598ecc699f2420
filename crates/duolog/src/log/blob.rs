//! The whole of what was too large for a line: a file named by the SHA-256 of its bytes, `blobs/<aa>/<sha256>`.
//!
//! A blob is written aside, synced and renamed into its place before any line names it; so what has a blob's name is
//! whole, and a line never names what is not there. Readers hash what they read all the same.

use std::fmt::Write as _;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use duolog_log::{Disk, DiskFile, Error as LogError, Kind, Open};
use sha2::{Digest as _, Sha256};

use super::model::Full;
use crate::error::Result;

/// The directory of all blobs.
const FOLDER: &str = "blobs";
/// How a line names one.
const SCHEME: &str = "blob:";

/// Keeps a text and returns what names it: `blob:<sha256>`. What is there already is not written again.
pub(super) fn put(disk: &Arc<dyn Disk>, whole: &str) -> Result<String> {
    let id = name_of(whole.as_bytes());
    let path = path_of(&id);
    store(&**disk, &path, whole.as_bytes()).map_err(LogError::io("keep the blob", &path))?;
    Ok(format!("{SCHEME}{id}"))
}

/// Finds the text that a line names, if it is the one that was put and not longer than `bytes_max`.
pub(super) fn find(disk: &Arc<dyn Disk>, reference: &str, bytes_max: usize) -> Result<Full> {
    let Some(id) = reference.strip_prefix(SCHEME).filter(|id| is_id(id)) else { return Ok(Full::Elsewhere) };
    let path = path_of(id);
    let failed = |call| LogError::io(call, &path);
    match disk.stat(&path).map_err(failed("look at"))? {
        Some(stat) if stat.kind != Kind::File => return Ok(Full::Damaged),
        Some(stat) if stat.len > bytes_max as u64 => return Ok(Full::TooLarge(stat.len)),
        Some(_) => {}
        None => return Ok(Full::Missing),
    }
    let file = disk.open(&path, Open::Read).map_err(failed("open"))?;
    let bytes = read(&*file, bytes_max).map_err(failed("read"))?;
    if name_of(&bytes) != id {
        return Ok(Full::Damaged);
    }
    Ok(String::from_utf8(bytes).map_or(Full::Damaged, Full::Whole))
}

fn store(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new(FOLDER));
    disk.create_dir(Path::new(FOLDER))?;
    disk.create_dir(folder)?;
    let is_there = disk.stat(path)?.is_some_and(|stat| stat.kind == Kind::File && stat.len == bytes.len() as u64);
    if !is_there {
        let aside = aside();
        let written = write(disk, &aside, bytes).and_then(|()| disk.rename(&aside, path));
        if written.is_err() {
            // Where even that fails, what is left over is in nobody's way.
            let _ = disk.unlink(&aside);
        }
        written?;
    }
    // Even of one that is there: whoever renamed it may not have come to this yet.
    [folder, Path::new(FOLDER), Path::new("")].into_iter().try_for_each(|at| disk.sync_dir(at))
}

fn write(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = match disk.open(path, Open::Create) {
        // Left by a process of our number that died.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            disk.unlink(path)?;
            disk.open(path, Open::Create)?
        }
        other => other?,
    };
    let mut rest = bytes;
    while !rest.is_empty() {
        match file.append(rest) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    file.sync()
}

fn read(file: &dyn DiskFile, bytes_max: usize) -> io::Result<Vec<u8>> {
    let length = usize::try_from(file.stat()?.len).unwrap_or(usize::MAX).min(bytes_max);
    let mut bytes = vec![0; length];
    let mut done = 0;
    while done < length {
        match file.read_at(&mut bytes[done..], done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}

/// A name that no other writer has.
fn aside() -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    Path::new(FOLDER).join(format!(".put-{}-{number}", process::id()))
}

fn path_of(id: &str) -> PathBuf {
    Path::new(FOLDER).join(&id[..2]).join(id)
}

fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn name_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut id, byte| {
        let _ = write!(id, "{byte:02x}");
        id
    })
}

//! Syncs the write-ahead log again after a failed sync.
//!
//! Linux reports a failed sync once and then marks the pages clean: a later successful sync proves nothing about them.
//! So every frame in use is written again, from the page cache, and synced. A checkpoint cannot replace this: if the
//! power fails before its end is on disk, recovery would copy the old frames that did reach the disk over newer pages
//! of the database.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;

use super::connection::error;
use super::lock::{Doubt, Held};
use super::writer::{Open, roll_back};
use crate::error::{Error, Result};

/// The sizes of the log's header and of the header of each frame.
const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// The first word of the header. The lowest bit is the byte order of the checksums.
const MAGIC: u32 = 0x377f_0682;

/// Syncs the log again if it is in doubt. The caller holds the lock.
///
/// On error nothing was changed, and the doubt remains.
pub(super) fn settle_log(connection: &Connection, log: &Path, held: &Held<'_>) -> Result<()> {
    if held.doubt().has(Doubt::LOG) {
        write_again(connection, log).map_err(|source| Error::SyncFailed { source: Arc::new(source) })?;
        held.clear(Doubt::LOG);
    }
    Ok(())
}

/// Makes sure that a checkpoint is safe.
///
/// The log must be on disk. If checkpointed pages may not be, they must be checkpointed again. That happens only if the
/// log counts no frame as checkpointed: when the first process opens the database, or after the log was reset.
pub(super) fn settle(connection: &Connection, log: &Path, held: &Held<'_>) -> Result<()> {
    settle_log(connection, log, held)?;
    if held.doubt().has(Doubt::DATABASE) {
        let (_, moved) = frames(connection)?;
        if moved > 0 {
            let source = std::io::Error::other("close every process that has the state open, then open it again");
            return Err(Error::SyncFailed { source: Arc::new(source) });
        }
        held.clear(Doubt::DATABASE);
    }
    Ok(())
}

/// Returns the number of frames in use and the number of checkpointed frames.
fn frames(connection: &Connection) -> Result<(u64, u64)> {
    let number =
        |row: &rusqlite::Row<'_>, index| row.get::<_, i64>(index).map(|n| u64::try_from(n).unwrap_or_default());
    connection
        .query_row("PRAGMA main.wal_checkpoint(NOOP)", [], |row| Ok((number(row, 1)?, number(row, 2)?)))
        .map_err(error)
}

/// Writes every frame of the log again and syncs the log.
fn write_again(connection: &Connection, log: &Path) -> Result<()> {
    roll_back(connection)?;
    let (used, _) = frames(connection)?;
    if used == 0 {
        // The next frame comes with a new header, and both are synced.
        return Ok(());
    }
    // The write transaction prevents other writers from adding frames or resetting the log.
    let open = Open::begin(connection)?;
    // SQLite takes no locks on this file, so closing this descriptor drops none.
    let file = OpenOptions::new().read(true).write(true).open(log).map_err(|error| Error::io("open", log, error))?;
    let found = rewrite(&file).map_err(|error| Error::io("write", log, error))?;
    file.sync_data().map_err(|error| Error::io("sync", log, error))?;
    drop(open);
    if found < used {
        let detail = format!("only {found} of {used} frames have a valid checksum");
        return Err(Error::Damaged { what: log.display().to_string(), detail });
    }
    Ok(())
}

/// Writes each valid frame over itself, up to the first invalid one. Returns the number of valid frames.
fn rewrite(file: &File) -> std::io::Result<u64> {
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, 0)?;
    let big_endian = match word(&header, 0).wrapping_sub(MAGIC) {
        0 => false,
        1 => true,
        _ => return Ok(0),
    };
    let mut sum = Checksum { big_endian, sums: (0, 0) };
    sum.add(&header[..HEADER - 8]);
    if !sum.matches(&header[HEADER - 8..]) {
        return Ok(0);
    }
    file.write_all_at(&header, 0)?;
    let page = usize::try_from(word(&header, 8)).unwrap_or_default();
    let mut frame = vec![0; FRAME_HEADER + page];
    let mut found = 0;
    loop {
        let offset = HEADER as u64 + found * frame.len() as u64;
        match file.read_exact_at(&mut frame, offset) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(found),
            Err(error) => return Err(error),
        }
        sum.add(&frame[..8]);
        sum.add(&frame[FRAME_HEADER..]);
        if frame[8..16] != header[16..24] || !sum.matches(&frame[16..FRAME_HEADER]) {
            return Ok(found);
        }
        file.write_all_at(&frame, offset)?;
        found += 1;
    }
}

/// The running checksum of a log.
struct Checksum {
    big_endian: bool,
    sums: (u32, u32),
}

impl Checksum {
    fn add(&mut self, bytes: &[u8]) {
        let (mut first, mut second) = self.sums;
        for pair in bytes.chunks_exact(8) {
            let words =
                [word(pair, 0), word(pair, 4)].map(|word| if self.big_endian { word } else { word.swap_bytes() });
            first = first.wrapping_add(words[0]).wrapping_add(second);
            second = second.wrapping_add(words[1]).wrapping_add(first);
        }
        self.sums = (first, second);
    }

    fn matches(&self, stored: &[u8]) -> bool {
        self.sums == (word(stored, 0), word(stored, 4))
    }
}

/// Returns the big-endian word at an offset, 0 if the bytes end before it.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes)
}

//! Makes the write-ahead log durable after one of its syncs failed.
//!
//! Linux reports a failed sync and then takes the pages for clean: a later sync that succeeds says nothing about them.
//! So every frame in use is written again, as the system still has it, and synced. A checkpoint would not do instead:
//! until its end is on the disk, a power loss would put the frames that did reach the disk over newer pages of the
//! database.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;

use super::connection::error;
use super::lock::{Doubt, Held};
use super::writer::{Open, roll_back};
use crate::error::{Error, Result};

/// The sizes of the log's header and of what stands before each page.
const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// How the header begins: the last bit says in which order the bytes of a checksum's words are.
const MAGIC: u32 = 0x377f_0682;

/// Makes sure that the log is on the disk, if that is in doubt. The caller holds the lock.
///
/// On error nothing was changed, and the doubt stays.
pub(super) fn settle_log(connection: &Connection, log: &Path, held: &Held<'_>) -> Result<()> {
    if held.doubt().has(Doubt::LOG) {
        write_again(connection, log).map_err(|source| Error::SyncFailed { source: Arc::new(source) })?;
        held.clear(Doubt::LOG);
    }
    Ok(())
}

/// Makes sure that pages may be moved from the log into the database.
///
/// The log itself must be on the disk. If pages that were moved may not be, they must be moved again, and that is only
/// so if the log counts none as moved: when the first process opens the database, or when the log has begun anew.
pub(super) fn settle(connection: &Connection, log: &Path, held: &Held<'_>) -> Result<()> {
    settle_log(connection, log, held)?;
    if held.doubt().has(Doubt::DATABASE) {
        let (_, moved) = frames(connection)?;
        if moved > 0 {
            let source = std::io::Error::other("close every process that has the state open, and open it again");
            return Err(Error::SyncFailed { source: Arc::new(source) });
        }
        held.clear(Doubt::DATABASE);
    }
    Ok(())
}

/// The number of frames in use, and of those that count as moved.
fn frames(connection: &Connection) -> Result<(u64, u64)> {
    let number =
        |row: &rusqlite::Row<'_>, index| row.get::<_, i64>(index).map(|n| u64::try_from(n).unwrap_or_default());
    connection
        .query_row("PRAGMA main.wal_checkpoint(NOOP)", [], |row| Ok((number(row, 1)?, number(row, 2)?)))
        .map_err(error)
}

/// Writes every frame of the log again and syncs it.
fn write_again(connection: &Connection, log: &Path) -> Result<()> {
    roll_back(connection)?;
    let (used, _) = frames(connection)?;
    if used == 0 {
        // The next frame comes with a new header, and both are synced.
        return Ok(());
    }
    // Nobody else adds frames or begins the log anew meanwhile.
    let open = Open::begin(connection)?;
    // SQLite takes no locks on this file, so closing our descriptor drops none.
    let file = OpenOptions::new().read(true).write(true).open(log).map_err(|error| Error::io("open", log, error))?;
    let found = rewrite(&file).map_err(|error| Error::io("write", log, error))?;
    file.sync_data().map_err(|error| Error::io("sync", log, error))?;
    drop(open);
    if found < used {
        let detail = format!("{found} of the {used} frames in use are as they were written");
        return Err(Error::Damaged { what: log.display().to_string(), detail });
    }
    Ok(())
}

/// Writes each frame that is whole over itself, up to the first that is not, and says how many there were.
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
    if !sum.is(&header[HEADER - 8..]) {
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
        if frame[8..16] != header[16..24] || !sum.is(&frame[16..FRAME_HEADER]) {
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

    fn is(&self, stored: &[u8]) -> bool {
        self.sums == (word(stored, 0), word(stored, 4))
    }
}

/// The big-endian word at an offset; 0 if there is none.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes)
}

//! What a crash may have left at the end of a log, and what is done about it (I6, R7).
//!
//! Bytes after the last newline were never acknowledged. Recovery is idempotent: every step is synced before the next
//! one relies on it, and doing it twice changes no byte.

use std::sync::Arc;

use duolog_types::line::check_line;
use duolog_types::{Position, mutant, mutant::Mutant};

use crate::error::{Error, Result};
use crate::fs::{Disk, DiskFile};
use crate::reader::{Place, Reader, sync_names};
use crate::seal::LineHash;
use crate::torn;

/// What the state knows of a log before it is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watermark {
    /// Up to here the bytes are sealed: known to be synced, never cut.
    pub sealed_to: Position,
    /// The furthest position that any row names.
    pub recorded_to: Position,
    /// The end of the furthest place that an operation claimed.
    pub claimed_to: Position,
    /// The end and the hash of the last line that was folded: how a replaced file is told from the one we knew.
    pub folded: Option<(Position, LineHash)>,
}

/// Whether the log is the one that the state knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogIdentity {
    /// It is, or nothing was known of it.
    Same,
    /// The file is gone.
    Missing,
    /// It ends before bytes that the state names.
    Shorter(Position),
    /// Its bytes are others.
    Replaced,
}

/// What was done to a torn tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MendKind {
    /// It was a whole object that lacked its newline, and got it.
    Completed,
    /// It was moved to the `.torn` file.
    Quarantined,
    /// It stands where sealed bytes stood, so it is kept, as a damaged line of its own.
    Terminated,
}

/// One torn tail and what was done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mend {
    /// What was done.
    pub kind: MendKind,
    /// Where the torn bytes began.
    pub position: Position,
    /// How many they were.
    pub bytes: u64,
    /// Their BLAKE3.
    pub hash: [u8; 32],
}

/// What opening a log for appending found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Whether it is the log that the state knows.
    pub standing: LogIdentity,
    /// What was mended.
    pub mend: Option<Mend>,
    /// Where it ends now.
    pub end: Position,
}

/// Compares an open log that ends at `end` with what the state knows of it.
pub fn standing(log: &Reader, end: Position, known: &Watermark, line_bytes_max: usize) -> Result<LogIdentity> {
    if end < known.recorded_to || end < known.sealed_to {
        return Ok(LogIdentity::Shorter(end));
    }
    // Where the fold stopped in an archived segment, the hot file has nothing to compare.
    if let Some((end, hash)) = known.folded
        && end > log.first()
        && log.line_hash_at(end, line_bytes_max)? != Some(hash)
    {
        return Ok(LogIdentity::Replaced);
    }
    Ok(LogIdentity::Same)
}

/// A torn tail, looked at but not touched.
pub(crate) struct Tail {
    pub(crate) kind: MendKind,
    pub(crate) start: Position,
    pub(crate) end: Position,
    pub(crate) hash: [u8; 32],
}

/// Looks for bytes after the last newline before `end` and decides what they are.
pub(crate) fn look(log: &Reader, end: Position, sealed_to: Position, line_bytes_max: usize) -> Result<Option<Tail>> {
    let start = log.last_line_end(end)?;
    if start == end {
        return Ok(None);
    }
    let (_, hash) = crate::seal::hash_range(log, start, end, &[])?;
    let len = usize::try_from(end.0 - start.0).unwrap_or(usize::MAX);
    let kind = if start < sealed_to {
        MendKind::Terminated
    } else if len <= line_bytes_max {
        let mut bytes = vec![0; len];
        log.read_exact(start, &mut bytes)?;
        if check_line(&bytes, line_bytes_max).is_ok() { MendKind::Completed } else { MendKind::Quarantined }
    } else {
        MendKind::Quarantined
    };
    Ok(Some(Tail { kind, start, end, hash }))
}

/// Mends the tail of a log whose exclusive lock the caller holds.
///
/// [`Error::Poisoned`] says that the disk failed the log itself, which the caller must then close (R8).
pub(crate) fn mend(
    disk: &Arc<dyn Disk>,
    place: &Place,
    file: &Arc<dyn DiskFile>,
    log: &Reader,
    tail: &Tail,
) -> Result<Mend> {
    let poisoned = || Error::Poisoned(place.path.clone());
    if !mutant::is(Mutant::TornTailKept) {
        match tail.kind {
            MendKind::Completed | MendKind::Terminated => {
                torn::write_all(&**file, b"\n", &place.path).map_err(|error| match error {
                    Error::Full(_) => error,
                    _ => poisoned(),
                })?;
            }
            MendKind::Quarantined => {
                torn::save(disk, log, &place.path, tail.start.0, tail.end.0)?;
                file.set_len(tail.start.0 - place.base.0).map_err(|_| poisoned())?;
            }
        }
        file.sync().map_err(|_| poisoned())?;
        sync_names(&**disk, &place.path).map_err(Error::io("sync the directory of", &place.path))?;
    }
    Ok(Mend { kind: tail.kind, position: tail.start, bytes: tail.end.0 - tail.start.0, hash: tail.hash })
}

//! Repairs the tail that a crash may have left at the end of a log (I6, R7).
//!
//! Bytes after the last newline were never acknowledged. Recovery is idempotent: every step is synced before the next
//! one depends on it, and a second run changes no byte.

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
    /// The end of the sealed bytes: they are synced and never cut.
    pub sealed_to: Position,
    /// The highest position that a row names.
    pub recorded_to: Position,
    /// The end of the last place that an operation claimed.
    pub claimed_to: Position,
    /// The end and the hash of the last folded line; they distinguish a replaced file from the known one.
    pub folded: Option<(Position, LineHash)>,
}

/// How a log compares with the one that the state knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogIdentity {
    /// It is the same log, or nothing was known of it.
    Same,
    /// The file is gone.
    Missing,
    /// It ends here, before bytes that the state names.
    Shorter(Position),
    /// Its bytes are different.
    Replaced,
}

/// How a torn tail was repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MendKind {
    /// It was a complete object without a newline; the newline was added.
    Completed,
    /// It was moved to the `.torn` file.
    Quarantined,
    /// It is below the sealed end, so it was kept as a damaged line.
    Terminated,
}

/// The repair of one torn tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mend {
    /// The kind of repair.
    pub kind: MendKind,
    /// The position of the torn bytes.
    pub position: Position,
    /// The number of torn bytes.
    pub bytes: u64,
    /// The BLAKE3 of the torn bytes.
    pub hash: [u8; 32],
}

/// The result of opening a log for appending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// How the log compares with the one that the state knows.
    pub identity: LogIdentity,
    /// The repair of the tail, if it was torn.
    pub mend: Option<Mend>,
    /// The end of the log.
    pub end: Position,
}

/// Compares an open log that ends at `end` with what the state knows of it.
pub fn identify(log: &Reader, end: Position, known: &Watermark, line_bytes_max: usize) -> Result<LogIdentity> {
    if end < known.recorded_to || end < known.sealed_to {
        return Ok(LogIdentity::Shorter(end));
    }
    // If the fold stopped in an archived segment, the hot file has nothing to compare.
    if let Some((end, hash)) = known.folded
        && end > log.first()
        && log.line_hash_at(end, line_bytes_max)? != Some(hash)
    {
        return Ok(LogIdentity::Replaced);
    }
    Ok(LogIdentity::Same)
}

/// A torn tail that is not repaired yet.
pub(crate) struct Tail {
    pub(crate) kind: MendKind,
    pub(crate) start: Position,
    pub(crate) end: Position,
    pub(crate) hash: [u8; 32],
}

/// Finds bytes after the last newline before `end` and decides how to repair them.
pub(crate) fn find_torn_tail(
    log: &Reader,
    end: Position,
    sealed_to: Position,
    line_bytes_max: usize,
) -> Result<Option<Tail>> {
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

/// Repairs the tail of a log. The caller holds the exclusive lock.
///
/// # Errors
///
/// [`Error::Poisoned`] if a disk call on the log itself failed; the caller must then close the log (R8).
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

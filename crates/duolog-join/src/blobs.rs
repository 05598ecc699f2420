//! Counting and pruning of blobs. References are counted by reading the logs and the rows; no count is stored that
//! could be wrong.
//!
//! Two rules make removal safe. First, a writer between its blob and its line holds a lock that the remover takes
//! exclusively ([`Blobs::hold`]). Under it, the remover also reads everything that was appended since the count, so a
//! late line still keeps its blob, and a later put writes its blob again. Second, a young blob is kept, for writers
//! that do not use these locks.
//!
//! Nothing is removed if a log cannot be read or lacks recorded bytes, since it may name any blob, or while another
//! state uses the home, since its rows cannot be read. Lines in the outbox are Duolog's own and name no blob.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use duolog_log::{BlobId, Blobs, Error as LogError, Ident, Place, Reader, each_reference, torn_path};
use duolog_state::Tx;
use duolog_state::owned::{execution_bodies, messages};
use duolog_types::limits::{BLOB_GRACE, BLOBS_COUNTED_MAX};
use duolog_types::{HomeId, Position, Timestamp};

use crate::error::{Error, Result};
use crate::store::Join;

/// A blob and its number of references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobCount {
    /// Its name.
    pub id: BlobId,
    /// Its length.
    pub bytes: u64,
    /// The number of references in logs, messages and executions.
    pub named: u64,
    /// When it was written.
    pub put_at: Option<Timestamp>,
}

impl BlobCount {
    /// Returns true if nothing references it, and it is old enough that no writer is about to.
    pub fn is_prunable(&self, now: Timestamp) -> bool {
        let grace = i64::try_from(BLOB_GRACE.as_micros()).unwrap_or(i64::MAX);
        // A blob from the future counts as young: clocks differ.
        self.named == 0 && self.put_at.is_none_or(|at| now.as_micros().saturating_sub(at.as_micros()) >= grace)
    }
}

/// The result of pruning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrunedBlobs {
    /// The removed blobs, by name.
    pub removed: Vec<BlobId>,
    /// Their size in bytes.
    pub bytes: u64,
    /// The number of removed files of unfinished puts.
    pub leftovers: u64,
}

/// The counted blobs of a home.
pub struct BlobScan {
    join: Arc<Join>,
    blobs: Blobs,
    counts: BTreeMap<BlobId, BlobCount>,
    /// The identity of each file that was read, and the end of what was read.
    read: BTreeMap<PathBuf, (Ident, Position)>,
    is_complete: bool,
}

impl Join {
    /// Counts the references to each blob in this home. `each` gets the number of bytes read so far.
    pub fn count_blobs(self: &Arc<Self>, mut each: impl FnMut(u64)) -> Result<BlobScan> {
        let blobs = Blobs::on(&self.disk);
        let mut counts = BTreeMap::new();
        // One more than the maximum tells whether there are more.
        let ids = blobs.list(None, BLOBS_COUNTED_MAX + 1)?;
        for id in ids.iter().take(BLOBS_COUNTED_MAX) {
            // Without a length it was removed meanwhile.
            if let Some(bytes) = blobs.len(id)? {
                let put_at = blobs.put_at(id)?.and_then(timestamp);
                counts.insert(*id, BlobCount { id: *id, bytes, named: 0, put_at });
            }
        }
        self.state.read(|tx| {
            for count in counts.values_mut() {
                count.named = named_by_rows(tx, &self.home, &count.id)?;
            }
            Ok::<_, Error>(())
        })?;
        let is_complete = ids.len() <= BLOBS_COUNTED_MAX;
        let mut scan = BlobScan { join: Arc::clone(self), blobs, counts, read: BTreeMap::new(), is_complete };
        let mut done = 0;
        for path in scan.files()? {
            done += scan.read_on(path, ReadEnd::Lines)?;
            each(done);
        }
        Ok(scan)
    }
}

/// How far a file is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadEnd {
    /// To the end of the last line that cannot be rolled back.
    Lines,
    /// To its last byte: a torn tail may become a line when it is repaired.
    LastByte,
}

impl BlobScan {
    /// Returns the blobs, by name.
    pub fn blobs(&self) -> impl Iterator<Item = &BlobCount> {
        self.counts.values()
    }

    /// Returns true if all blobs were counted. The number is limited.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Removes the blobs without references, except for young ones.
    pub fn prune(mut self) -> Result<PrunedBlobs> {
        self.join.state.check()?;
        if !self.join.is_writable() {
            return Err(Error::ReadOnly);
        }
        let lock = self.blobs.lock_for_removal(self.join.limits.busy_timeout)?;
        // A state that is recorded later also writes its blobs later, under the lock.
        let states = self.join.other_states()?;
        if !states.is_empty() {
            return Err(Error::OtherStates { states });
        }
        self.check_logs()?;
        for path in self.files()? {
            self.read_on(path, ReadEnd::LastByte)?;
        }
        let now = self.join.clock.now();
        let mut pruned = PrunedBlobs { leftovers: self.blobs.sweep()?, ..PrunedBlobs::default() };
        for blob in self.counts.values() {
            // It may have been written again meanwhile, by a writer without locks.
            let put_at = self.blobs.put_at(&blob.id)?.and_then(timestamp);
            if (BlobCount { put_at, ..*blob }).is_prunable(now)
                && !self.is_in_a_row(&blob.id)?
                && self.blobs.remove(&lock, &blob.id)?
            {
                pruned.removed.push(blob.id);
                pruned.bytes += blob.bytes;
            }
        }
        Ok(pruned)
    }

    /// Returns true if a row references the blob, also one that was inserted since the count.
    fn is_in_a_row(&self, id: &BlobId) -> Result<bool> {
        self.join.state.read(|tx| Ok(named_by_rows(tx, &self.join.home, id)? > 0))
    }

    /// Returns an error if a log lacks recorded bytes: they may name any blob, and may come back.
    fn check_logs(&self) -> Result<()> {
        for log in self.join.log_standings()? {
            match self.join.read_log(&log.session) {
                Ok(read) => {
                    if let Some(loss) = read.loss {
                        return Err(Error::LogLost { session: log.session, loss });
                    }
                }
                // Deleted since the rows were read.
                Err(Error::NoSession(_) | Error::Deleted(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns every file that may name a blob: logs, with or without a session, and their files of torn bytes.
    fn files(&self) -> Result<Vec<PathBuf>> {
        let logs = self.join.log_files()?;
        Ok(logs.iter().flat_map(|log| [PathBuf::from(log), torn_path(Path::new(log))]).collect())
    }

    /// Counts the references in a file after the part that was read before. Returns the number of bytes read.
    fn read_on(&mut self, path: PathBuf, read_end: ReadEnd) -> Result<u64> {
        let reader = match Reader::open(&self.join.disk, &Place::file(&path)) {
            Ok(Some(reader)) => reader,
            // It was deleted, or is not a log.
            Ok(None) | Err(LogError::NotALog { .. }) => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        let (end, rest) = reader.stable_end_and_rest(self.join.limits.busy_timeout)?;
        let end = if read_end == ReadEnd::LastByte { Position(end.0 + rest) } else { end };
        let from = match self.read.get(&path) {
            Some((ident, from)) if *ident == reader.ident() && *from <= end => *from,
            // Not the file that was read before.
            _ => Position::ZERO,
        };
        let counts = &mut self.counts;
        each_reference(&reader, from, end, |id| {
            if let Some(count) = counts.get_mut(&id) {
                count.named += 1;
            }
        })?;
        self.read.insert(path, (reader.ident(), end));
        Ok(end.0 - from.0)
    }
}

/// Returns the number of messages and executions with their text in a blob.
fn named_by_rows(tx: &mut Tx<'_>, home: &HomeId, id: &BlobId) -> Result<u64> {
    let blob = id.to_string();
    Ok(messages::naming_blob(tx, home, &blob)? + execution_bodies::naming_blob(tx, home, &blob)?)
}

fn timestamp(at: SystemTime) -> Option<Timestamp> {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_micros()).ok().map(Timestamp::from_micros)
}

//! Blobs, counted by what names them, lines, messages and executions: logs are read and rows asked, no count is kept that
//! could be wrong.
//!
//! Removing one is safe by two rules. First, whoever is between a blob and its line holds a lock that the remover takes
//! alone ([`Blobs::hold`]); under it, all that was appended since the count is read too, so a line that came late still
//! keeps its blob, and a put that comes after makes its blob anew. Second, a blob that is young stays, for those who
//! write blobs and lines without our locks. Where a log cannot be read, or lacks bytes that were recorded of it, nothing is
//! removed: it may name anything. Nor is
//! anything removed while another state uses the home: its rows cannot be asked. Lines that wait in the outbox are our own,
//! and name no blob.

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

/// One blob, and how often it is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobCount {
    /// Its name.
    pub id: BlobId,
    /// Its length.
    pub bytes: u64,
    /// How often logs, messages and executions name it.
    pub named: u64,
    /// When it was put.
    pub put_at: Option<Timestamp>,
}

impl BlobCount {
    /// Whether nothing names it, and it was put so long ago that nobody is about to.
    pub fn is_prunable(&self, now: Timestamp) -> bool {
        let grace = i64::try_from(BLOB_GRACE.as_micros()).unwrap_or(i64::MAX);
        // A blob from the future is young: clocks differ.
        self.named == 0 && self.put_at.is_none_or(|at| now.as_micros().saturating_sub(at.as_micros()) >= grace)
    }
}

/// What was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrunedBlobs {
    /// The blobs, in the order of their names.
    pub removed: Vec<BlobId>,
    /// Their bytes.
    pub bytes: u64,
    /// How many files were taken away that puts left which never ended.
    pub leftovers: u64,
}

/// The blobs of a home as they were counted.
pub struct BlobScan {
    join: Arc<Join>,
    blobs: Blobs,
    counts: BTreeMap<BlobId, BlobCount>,
    /// How far each file was read, and which file it was.
    read: BTreeMap<PathBuf, (Ident, Position)>,
    is_whole: bool,
}

impl Join {
    /// Counts how often each blob is named in the logs of this home; `each` is told how many bytes are read.
    pub fn count_blobs(self: &Arc<Self>, mut each: impl FnMut(u64)) -> Result<BlobScan> {
        let blobs = Blobs::on(&self.disk);
        let mut counts = BTreeMap::new();
        // One more than is counted tells whether there are more.
        let ids = blobs.list(None, BLOBS_COUNTED_MAX + 1)?;
        for id in ids.iter().take(BLOBS_COUNTED_MAX) {
            // Removed meanwhile where it has no length.
            if let Some(bytes) = blobs.len(id)? {
                let put_at = blobs.put_at(id)?.and_then(moment);
                counts.insert(*id, BlobCount { id: *id, bytes, named: 0, put_at });
            }
        }
        self.state.read(|tx| {
            for count in counts.values_mut() {
                count.named = named_by_rows(tx, &self.home, &count.id)?;
            }
            Ok::<_, Error>(())
        })?;
        let is_whole = ids.len() <= BLOBS_COUNTED_MAX;
        let mut scan = BlobScan { join: Arc::clone(self), blobs, counts, read: BTreeMap::new(), is_whole };
        let mut done = 0;
        for path in scan.files()? {
            done += scan.read_on(path, Upto::Lines)?;
            each(done);
        }
        Ok(scan)
    }
}

/// How far a file is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Upto {
    /// To the end of the last line that nobody can take back.
    Lines,
    /// To its last byte: a torn tail may become a line when it is mended.
    LastByte,
}

impl BlobScan {
    /// The blobs, in the order of their names.
    pub fn blobs(&self) -> impl Iterator<Item = &BlobCount> {
        self.counts.values()
    }

    /// Whether all were counted. There is a bound.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Removes the blobs that nothing names, but for the young ones.
    pub fn prune(mut self) -> Result<PrunedBlobs> {
        self.join.state.check()?;
        if !self.join.is_writable() {
            return Err(Error::ReadOnly);
        }
        let alone = self.blobs.lock_for_removal(self.join.limits.busy_timeout)?;
        // A state that records itself later puts its blobs later, and holds them.
        let states = self.join.other_states()?;
        if !states.is_empty() {
            return Err(Error::OtherStates { states });
        }
        self.check_logs()?;
        for path in self.files()? {
            self.read_on(path, Upto::LastByte)?;
        }
        let now = self.join.clock.now();
        let mut pruned = PrunedBlobs { leftovers: self.blobs.sweep()?, ..PrunedBlobs::default() };
        for blob in self.counts.values() {
            // Put again meanwhile, perhaps by one who knows no lock.
            let put_at = self.blobs.put_at(&blob.id)?.and_then(moment);
            if (BlobCount { put_at, ..*blob }).is_prunable(now)
                && !self.is_in_a_row(&blob.id)?
                && self.blobs.remove(&alone, &blob.id)?
            {
                pruned.removed.push(blob.id);
                pruned.bytes += blob.bytes;
            }
        }
        Ok(pruned)
    }

    /// Whether a row has its content there: one that came since the count does too.
    fn is_in_a_row(&self, id: &BlobId) -> Result<bool> {
        self.join.state.read(|tx| Ok(named_by_rows(tx, &self.join.home, id)? > 0))
    }

    /// Returns an error if a log lacks bytes that the state recorded of it: they may name any blob, and may come back.
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

    /// Every file that may name a blob: logs, whether or not a session names them, and what was torn off them.
    fn files(&self) -> Result<Vec<PathBuf>> {
        let logs = self.join.log_files()?;
        Ok(logs.iter().flat_map(|log| [PathBuf::from(log), torn_path(Path::new(log))]).collect())
    }

    /// Counts what a file names behind what was read of it; says how many bytes that were.
    fn read_on(&mut self, path: PathBuf, upto: Upto) -> Result<u64> {
        let reader = match Reader::open(&self.join.disk, &Place::file(&path)) {
            Ok(Some(reader)) => reader,
            // It went, or something stands there that is nobody's log.
            Ok(None) | Err(LogError::NotALog { .. }) => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        let (end, rest) = reader.stable_end_and_rest(self.join.limits.busy_timeout)?;
        let end = if upto == Upto::LastByte { Position(end.0 + rest) } else { end };
        let from = match self.read.get(&path) {
            Some((ident, from)) if *ident == reader.ident() && *from <= end => *from,
            // Another file than the one that was read.
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

/// How many messages and executions have their text in a blob.
fn named_by_rows(tx: &mut Tx<'_>, home: &HomeId, id: &BlobId) -> Result<u64> {
    let blob = id.to_string();
    Ok(messages::naming_blob(tx, home, &blob)? + execution_bodies::naming_blob(tx, home, &blob)?)
}

fn moment(at: SystemTime) -> Option<Timestamp> {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_micros()).ok().map(Timestamp::from_micros)
}

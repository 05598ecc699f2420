//! Looking at every byte of a log without changing one.

use std::collections::HashSet;

use duolog_log::{BlobId, Blobs, Error as LogError, Item, Reader, chain, hash_range, wholes};
use duolog_state::owned::seals;
use duolog_types::line::{LineFault, check_line};
use duolog_types::{Epoch, Position, SessionId};

use crate::error::{Error, Result};
use crate::store::Join;

/// The damaged places that are listed; more are counted.
const DAMAGE_LISTED: usize = 100;
const SEAL_PAGE: u32 = 256;
/// The blobs that are remembered to be whole; with more, some are read again.
const BLOBS_REMEMBERED: usize = 65_536;

/// What is wrong with a place in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// A line that is not one.
    Line(LineFault),
    /// Bytes that are not those that were sealed.
    Seal,
    /// Sealed bytes that are gone.
    Missing,
    /// A blob that a line names and that is not there.
    NoBlob(BlobId),
    /// A blob that a line names and whose bytes are not those that were put.
    BadBlob(BlobId),
}

/// A damaged place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// What is wrong.
    pub kind: DamageKind,
    /// Where it begins.
    pub from: Position,
    /// Where it ends.
    pub to: Position,
    /// Whether these bytes were once known to be synced. Above the last seal, a crash may have left them so.
    pub sealed: bool,
}

/// What verifying a log found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Its epoch.
    pub epoch: Epoch,
    /// The end of its last whole line.
    pub end: Position,
    /// How many good lines it has.
    pub events: u64,
    /// How many seals were checked.
    pub seals: u64,
    /// Up to where it is sealed.
    pub sealed_to: Position,
    /// Bytes after the last newline, which the next append mends.
    pub torn_bytes: u64,
    /// How many places are damaged below the last seal.
    pub damaged: u64,
    /// How many places above it a crash left unreadable.
    pub unsynced: u64,
    /// How often a line names a blob that is missing or damaged. It was durable before the line was.
    pub blobs_lost: u64,
    /// The first of them.
    pub places: Vec<Damage>,
}

impl Verified {
    fn add(&mut self, damage: Damage) {
        match damage.kind {
            DamageKind::NoBlob(_) | DamageKind::BadBlob(_) => self.blobs_lost += 1,
            _ if damage.sealed => self.damaged += 1,
            _ => self.unsynced += 1,
        }
        if self.places.len() < DAMAGE_LISTED {
            self.places.push(damage);
        }
    }
}

impl Join {
    /// Checks every line, every seal and every blob that is named in a log; `each` is told how many bytes are done, of how many.
    pub fn verify(&self, session: &SessionId, mut each: impl FnMut(u64, u64)) -> Result<Verified> {
        let known = self.known(session)?;
        self.own(&known.row)?;
        let (epoch, base) = (known.row.log_epoch, known.row.log_base);
        let sealed_to = known.watermark.sealed_to;
        let mut verified = Verified {
            epoch,
            end: base,
            events: 0,
            seals: 0,
            sealed_to,
            torn_bytes: 0,
            damaged: 0,
            unsynced: 0,
            blobs_lost: 0,
            places: Vec::new(),
        };
        let recorded_to = known.watermark.recorded_to;
        let Some(reader) = Reader::open(&self.disk, &known.place())? else {
            if recorded_to > base {
                verified.add(Damage { kind: DamageKind::Missing, from: base, to: recorded_to, sealed: true });
            }
            return Ok(verified);
        };
        let (end, torn_bytes) = reader.stable_end_and_rest(self.limits.busy_timeout)?;
        (verified.end, verified.torn_bytes) = (end, torn_bytes);
        if end < recorded_to {
            verified.add(Damage { kind: DamageKind::Missing, from: end, to: recorded_to, sealed: true });
        }
        let total = 2 * (end.0 - base.0);
        let line_bytes_max = self.limits.line_bytes_max;
        let mut lines = reader.lines(base, end, line_bytes_max)?;
        let mut blobs = CheckedBlobs { blobs: Blobs::on(&self.disk), whole: HashSet::new() };
        while let Some(item) = lines.next()? {
            let (from, to, fault) = match item {
                Item::Line(line) => (line.start, line.end, check_line(line.bytes, line_bytes_max).err()),
                Item::TooLong { start, end } => {
                    let bytes = usize::try_from(end.0 - start.0).unwrap_or(usize::MAX);
                    (start, end, Some(LineFault::TooLong { bytes, max: line_bytes_max }))
                }
            };
            if let Item::Line(line) = item {
                for id in wholes(line.bytes) {
                    if let Some(kind) = blobs.fault_of(id)? {
                        verified.add(Damage { kind, from, to, sealed: to <= sealed_to });
                    }
                }
            }
            match fault {
                None => verified.events += 1,
                Some(fault) => {
                    verified.add(Damage { kind: DamageKind::Line(fault), from, to, sealed: to <= sealed_to });
                }
            }
            each(to.0 - base.0, total);
        }
        self.verify_seals(session, &reader, &mut verified, |done| each(end.0 - base.0 + done, total))?;
        Ok(verified)
    }

    fn verify_seals(
        &self,
        session: &SessionId,
        reader: &Reader,
        verified: &mut Verified,
        mut each: impl FnMut(u64),
    ) -> Result<()> {
        let (mut before, mut ord) = (None, 0);
        loop {
            let epoch = verified.epoch;
            let page = self.state.read(|tx| seals::page(tx, session, epoch, ord, SEAL_PAGE))?;
            for seal in &page {
                let (from, to) = (seal.from_position, seal.to_position);
                // A seal over bytes that are gone was reported as missing already.
                if to <= verified.end {
                    let (_, bytes) = hash_range(reader, from, to, &[])?;
                    if chain(before.as_ref(), &bytes) != seal.hash {
                        verified.add(Damage { kind: DamageKind::Seal, from, to, sealed: true });
                    }
                }
                verified.seals += 1;
                // The recorded hash, not ours: one changed place must not make every later seal look changed.
                before = Some(seal.hash);
                ord = seal.ord + 1;
                each(to.0);
            }
            if page.len() < SEAL_PAGE as usize {
                return Ok(());
            }
        }
    }
}

/// Blobs on their way through a log: one that many lines name is read once.
struct CheckedBlobs {
    blobs: Blobs,
    whole: HashSet<BlobId>,
}

impl CheckedBlobs {
    /// What is wrong with a blob.
    fn fault_of(&mut self, id: BlobId) -> Result<Option<DamageKind>> {
        if self.whole.contains(&id) {
            return Ok(None);
        }
        match self.blobs.open(&id).and_then(|mut blob| blob.verify()) {
            Ok(()) => {
                if self.whole.len() < BLOBS_REMEMBERED {
                    self.whole.insert(id);
                }
                Ok(None)
            }
            Err(LogError::NoBlob(_)) => Ok(Some(DamageKind::NoBlob(id))),
            Err(LogError::BadBlob(_)) => Ok(Some(DamageKind::BadBlob(id))),
            Err(error) => Err(Error::Log(error)),
        }
    }
}

//! Looking at every byte of a log without changing one.
//!
//! Seals say which bytes are not what they were, to the block; the lines say what cannot be read. Nothing is claimed of
//! bytes that no hash is left for.
//!
//! Only a mismatch with a seal, or bytes missing below the recorded end, is damage. A line that cannot be read although its
//! seal matches was already so when it was sealed: power loss had taken it before it was synced.

mod sealed;
mod shift;

use std::collections::HashSet;
use std::fmt;

use duolog_log::{BlobId, Blobs, Error as LogError, Item, Reader, full_outputs};
use duolog_state::owned::repairs::{self, RepairRow};
use duolog_types::line::{LineFault, check_line};
use duolog_types::{Epoch, Position, SessionId};

use crate::error::{Error, Result};
use crate::store::{Join, Known};
use sealed::{Extent, Run};

/// The lines that cannot be read or whose blob is lost, and the places that are not as sealed, that are listed of each;
/// more are counted.
const DAMAGE_LISTED: usize = 50;
/// The recorded losses that are listed.
const LOSSES_LISTED: u32 = 50;
/// The blobs that are remembered to be whole; with more, some are read again.
const BLOBS_REMEMBERED: usize = 65_536;

/// How serious a damaged place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Sealed bytes changed or are gone, or a blob is lost.
    Damage,
    /// A line that was already unreadable when it was sealed, or that no seal covers. Power loss leaves such lines among
    /// those that were never synced.
    UnsyncedLoss,
}

/// What is wrong with a place in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// A line that is not one.
    Line(LineFault),
    /// Bytes that are not those that were sealed.
    Seal(SealMismatch),
    /// The log ends before bytes that the state names.
    Missing {
        /// From here up to its end, no hash is left that says whether the bytes are what they were.
        unchecked_from: Position,
    },
    /// A blob that a line names and that is not there.
    NoBlob(BlobId),
    /// A blob that a line names and whose bytes are not those that were put.
    BadBlob(BlobId),
}

/// How sealed bytes are not what they were, as far as that can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealMismatch {
    /// What follows stands where it stood.
    InPlace,
    /// What follows stands so many bytes earlier.
    Removed {
        /// How many fewer there are.
        bytes: u64,
    },
    /// What follows stands so many bytes later.
    Inserted {
        /// How many more there are.
        bytes: u64,
    },
    /// Nothing that follows is known to stand, here or elsewhere.
    Unclear,
}

/// A damaged place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// What is wrong.
    pub kind: DamageKind,
    /// Where it begins. All that is sealed before it, back to the damage before, is as it was.
    pub from: Position,
    /// Where it ends, counted as the log was when it was sealed.
    pub to: Position,
    /// The first byte that is not what it was stands below this, and not before `from`.
    pub first_to: Position,
    /// The number of the line that `from` stands in, from 1.
    pub line: u64,
    /// Where that line begins.
    pub line_start: Position,
    /// The number of the line that the last byte before `first_to` stands in.
    pub line_to: u64,
    /// True if these bytes are below the last seal.
    pub sealed: bool,
    /// How serious it is.
    pub severity: Severity,
}

impl Damage {
    fn new(kind: DamageKind, from: Position, to: Position, first_to: Position) -> Self {
        Self {
            kind,
            from,
            to,
            first_to,
            line: 0,
            line_start: from,
            line_to: 0,
            sealed: true,
            severity: Severity::Damage,
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            DamageKind::Line(fault) => return write!(f, "{fault} (line {})", self.line),
            DamageKind::NoBlob(id) => return write!(f, "the blob that line {} names is missing: {id}", self.line),
            DamageKind::BadBlob(id) => return write!(f, "the blob that line {} names is damaged: {id}", self.line),
            DamageKind::Missing { unchecked_from } => {
                write!(f, "cut off: {} gone", Bytes(self.to.0 - self.from.0))?;
                return match self.from.0 - unchecked_from.0 {
                    0 => Ok(()),
                    unchecked => write!(f, "; of what stands, the last {unchecked} cannot be checked"),
                };
            }
            DamageKind::Seal(SealMismatch::InPlace) => {
                write!(f, "changed or reordered; what follows stands where it stood")?;
            }
            DamageKind::Seal(SealMismatch::Removed { bytes }) => {
                write!(f, "{} missing here; what follows stands so much earlier", Bytes(bytes))?;
            }
            DamageKind::Seal(SealMismatch::Inserted { bytes }) => {
                write!(f, "{} too many here; what follows stands so much later", Bytes(bytes))?;
            }
            DamageKind::Seal(SealMismatch::Unclear) => {
                write!(f, "changed, removed, inserted or reordered from here on")?;
            }
        }
        write!(f, "; the first changed byte is in {} to {}", self.from.0, self.first_to.0)?;
        match self.line_to {
            to if to == self.line => write!(f, ", line {to} (begins at {})", self.line_start.0),
            to => write!(f, ", lines {} (begins at {}) to {to}", self.line, self.line_start.0),
        }
    }
}

struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 1 { f.write_str("1 byte is") } else { write!(f, "{} bytes are", self.0) }
    }
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
    /// The number of places that are not as they were sealed, and of lines there that cannot be read.
    pub damaged: u64,
    /// The number of lines that power loss left unreadable before they were synced.
    pub unsynced: u64,
    /// How often a line names a blob that is missing or damaged. It was durable before the line was.
    pub blobs_lost: u64,
    /// The first of them: lines that cannot be read, then what is not as it was sealed, each in order.
    pub places: Vec<Damage>,
    /// The recorded losses of known bytes, newest first. Seals of an older epoch are not checked, so these are all that is
    /// left to say of them.
    pub losses: Vec<RepairRow>,
}

impl Verified {
    fn add_line(&mut self, damage: Damage) {
        match damage.kind {
            DamageKind::NoBlob(_) | DamageKind::BadBlob(_) => self.blobs_lost += 1,
            _ => match damage.severity {
                Severity::Damage => self.damaged += 1,
                Severity::UnsyncedLoss => self.unsynced += 1,
            },
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
        let base = known.row.log_base;
        let mut verified = Verified {
            epoch: known.row.log_epoch,
            end: base,
            events: 0,
            seals: 0,
            sealed_to: known.watermark.sealed_to,
            torn_bytes: 0,
            damaged: 0,
            unsynced: 0,
            blobs_lost: 0,
            places: Vec::new(),
            losses: self.state.read(|tx| repairs::losses(tx, session, LOSSES_LISTED))?,
        };
        let recorded_to = known.watermark.recorded_to;
        let Some(reader) = known.reader(&self.disk)? else {
            if recorded_to > base {
                let kind = DamageKind::Missing { unchecked_from: base };
                verified.add_line(Damage { line: 1, line_to: 1, ..Damage::new(kind, base, recorded_to, recorded_to) });
            }
            return Ok(verified);
        };
        (verified.end, verified.torn_bytes) = reader.stable_end_and_rest(self.limits.busy_timeout)?;
        let total = (verified.end.0 - base.0) + verified.sealed_to.0.saturating_sub(base.0);
        let end = Position(verified.end.0 + verified.torn_bytes);
        let extent = Extent { reader: &reader, base, end };
        let mut found = self.verify_seals(&known, &extent, &mut verified, |done| each(done, total))?;
        self.verify_lines(&reader, &mut verified, &mut found, |done| each(total - done, total))?;
        verified.places.append(&mut found.places);
        Ok(verified)
    }

    /// Finds what is not as it was sealed, or gone, without knowing its lines.
    fn verify_seals(
        &self,
        known: &Known,
        extent: &Extent<'_>,
        verified: &mut Verified,
        each: impl FnMut(u64),
    ) -> Result<Found> {
        let compared = self.compare(known, extent, each)?;
        verified.seals = compared.seals;
        let in_place = |run: &Run| run.damage(SealMismatch::InPlace);
        let places = compared.ended.iter().map(in_place).collect();
        let mut found = Found { places, unlisted: compared.unlisted.as_ref().map(in_place) };
        verified.damaged += compared.ended_count;
        let mut add = |damage: Damage| {
            verified.damaged += 1;
            found.places.push(damage);
        };
        if let Some(moved) = self.find_shift(known, extent, &compared)? {
            add(moved);
            return Ok(found);
        }
        if let Some(run) = &compared.last {
            let stands = self.last_line_stands(known, extent)?;
            add(run.damage(if stands { SealMismatch::InPlace } else { SealMismatch::Unclear }));
        }
        let recorded_to = known.watermark.recorded_to;
        if extent.end < recorded_to {
            let unchecked_from = compared.gone.map_or(known.watermark.sealed_to, |(from, _)| from).min(extent.end);
            let kind = DamageKind::Missing { unchecked_from: unchecked_from.max(extent.base) };
            add(Damage::new(kind, extent.end, recorded_to, Position(extent.end.0 + 1)));
        }
        Ok(found)
    }

    /// Whether the last line that was folded is where it was.
    fn last_line_stands(&self, known: &Known, extent: &Extent<'_>) -> Result<bool> {
        let Some((position, hash)) = known.watermark.folded else { return Ok(false) };
        Ok(extent.reader.line_hash_at(position, self.limits.line_bytes_max)? == Some(hash))
    }

    /// Checks every line, and tells in which lines the places that were `found` are; `each` is told what is left.
    fn verify_lines(
        &self,
        reader: &Reader,
        verified: &mut Verified,
        found: &mut Found,
        mut each: impl FnMut(u64),
    ) -> Result<()> {
        let (line_bytes_max, end) = (self.limits.line_bytes_max, verified.end);
        let (mut number, mut begun, mut ended) = (0, 0, 0);
        let mut lines = reader.lines(reader.first(), end, line_bytes_max)?;
        let mut blobs = CheckedBlobs { blobs: Blobs::on(&self.disk), whole: HashSet::new() };
        while let Some(item) = lines.next()? {
            let (from, to, fault) = match item {
                Item::Line(line) => (line.start, line.end, check_line(line.bytes, line_bytes_max).err()),
                Item::TooLong { start, end } => {
                    let bytes = usize::try_from(end.0 - start.0).unwrap_or(usize::MAX);
                    (start, end, Some(LineFault::TooLong { bytes, max: line_bytes_max }))
                }
            };
            number += 1;
            (begun, ended) = place_in_line(&mut found.places, (begun, ended), number, from, to);
            let sealed = to <= verified.sealed_to;
            let at_line = |kind| Damage { line: number, line_to: number, sealed, ..Damage::new(kind, from, to, to) };
            if let Item::Line(line) = item {
                for id in full_outputs(line.bytes) {
                    if let Some(kind) = blobs.fault_of(id)? {
                        verified.add_line(at_line(kind));
                    }
                }
            }
            match fault {
                None => verified.events += 1,
                Some(fault) => {
                    let severity = if found.is_changed(from, to) { Severity::Damage } else { Severity::UnsyncedLoss };
                    verified.add_line(Damage { severity, ..at_line(DamageKind::Line(fault)) });
                }
            }
            each(end.0 - to.0);
        }
        // What is behind the last whole line is in the one that would come next.
        place_in_line(&mut found.places, (begun, ended), number + 1, end, Position(u64::MAX));
        Ok(())
    }
}

/// The places that are not as they were sealed.
struct Found {
    places: Vec<Damage>,
    /// The range of the changes in place that are not listed.
    unlisted: Option<Damage>,
}

impl Found {
    /// Returns true if a range of the log, as it is now, overlaps bytes that are not as they were sealed.
    ///
    /// A line that cannot be read but whose seal matches was so when it was sealed.
    fn is_changed(&self, from: Position, to: Position) -> bool {
        self.places.iter().chain(&self.unlisted).any(|place| {
            let end = match place.kind {
                DamageKind::Seal(SealMismatch::InPlace | SealMismatch::Unclear) => place.to.0,
                DamageKind::Seal(SealMismatch::Removed { bytes }) => place.to.0.saturating_sub(bytes),
                DamageKind::Seal(SealMismatch::Inserted { bytes }) => place.to.0.saturating_add(bytes),
                // What is there of a log that was cut is not changed.
                DamageKind::Missing { .. } | DamageKind::Line(_) | DamageKind::NoBlob(_) | DamageKind::BadBlob(_) => {
                    return false;
                }
            };
            // Where bytes were removed, the place may be empty now: the line that it is in was changed.
            from.0 < end.max(place.from.0 + 1) && place.from < to
        })
    }
}

/// Tells the places that begin, or whose first changed byte may still be, in this line that it is this one. Of those in
/// order, the first `begun` and `ended` know already; says how many do now.
fn place_in_line(
    found: &mut [Damage],
    (mut begun, mut ended): (usize, usize),
    number: u64,
    from: Position,
    to: Position,
) -> (usize, usize) {
    while let Some(damage) = found.get_mut(begun).filter(|damage| damage.from < to) {
        (damage.line, damage.line_start) = (number, from);
        begun += 1;
    }
    while let Some(damage) = found.get_mut(ended).filter(|damage| damage.first_to <= to) {
        damage.line_to = number;
        ended += 1;
    }
    (begun, ended)
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

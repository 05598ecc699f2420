//! Verification: reads every byte of a log without changing one.
//!
//! Seals tell which bytes have changed, to the block; lines tell what cannot be read. Nothing is claimed about bytes
//! without a hash.
//!
//! Only a mismatch with a seal, or bytes missing before the recorded end, is damage. A line that cannot be read
//! although its seal matches was unreadable when it was sealed: a power loss had damaged it before it was synced.

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

/// The maximum number of listed places, for lines and for seals each; more are counted.
const DAMAGE_LISTED: usize = 50;
/// The maximum number of listed losses.
const LOSSES_LISTED: u32 = 50;
/// The maximum number of blobs remembered as intact; with more, some are read again.
const BLOBS_REMEMBERED: usize = 65_536;

/// The severity of a damaged place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Sealed bytes changed or are missing, or a blob is lost.
    Damage,
    /// A line that was unreadable when it was sealed, or that no seal covers. A power loss leaves such lines among
    /// those that were not synced.
    UnsyncedLoss,
}

/// The kind of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// An invalid line.
    Line(LineFault),
    /// Bytes that do not match their seal.
    Seal(SealMismatch),
    /// The log ends before the recorded end.
    Missing {
        /// From here to the end of the log, no hash is left to check the bytes.
        unchecked_from: Position,
    },
    /// A blob that a line names and that does not exist.
    NoBlob(BlobId),
    /// A blob that a line names and whose bytes have changed.
    BadBlob(BlobId),
}

/// How sealed bytes have changed, as far as that can be determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealMismatch {
    /// The following bytes have not moved.
    InPlace,
    /// The following bytes moved to lower positions.
    Removed {
        /// The number of removed bytes.
        bytes: u64,
    },
    /// The following bytes moved to higher positions.
    Inserted {
        /// The number of inserted bytes.
        bytes: u64,
    },
    /// No following bytes were found, here or elsewhere.
    Unclear,
}

/// A damaged place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The kind of damage.
    pub kind: DamageKind,
    /// Its first position. All sealed bytes before it, back to the previous damage, are unchanged.
    pub from: Position,
    /// Its end, in positions of the sealed log.
    pub to: Position,
    /// The first changed byte is before this position, and not before `from`.
    pub first_to: Position,
    /// The number of the line with `from`, from 1.
    pub line: u64,
    /// The position of that line.
    pub line_start: Position,
    /// The number of the line with the last byte before `first_to`.
    pub line_to: u64,
    /// True if these bytes are before the end of the last seal.
    pub sealed: bool,
    /// The severity.
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
                write!(f, "cut off: {} missing", Bytes(self.to.0 - self.from.0))?;
                return match self.from.0 - unchecked_from.0 {
                    0 => Ok(()),
                    unchecked => write!(f, "; the last {unchecked} bytes before the cut cannot be checked"),
                };
            }
            DamageKind::Seal(SealMismatch::InPlace) => {
                write!(f, "changed or reordered; the following bytes have not moved")?;
            }
            DamageKind::Seal(SealMismatch::Removed { bytes }) => {
                write!(f, "{} missing here; the following bytes moved to lower positions", Bytes(bytes))?;
            }
            DamageKind::Seal(SealMismatch::Inserted { bytes }) => {
                write!(f, "{} too many here; the following bytes moved to higher positions", Bytes(bytes))?;
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

/// The result of verifying a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Its epoch.
    pub epoch: Epoch,
    /// The end of its last complete line.
    pub end: Position,
    /// The number of valid lines.
    pub events: u64,
    /// The number of checked seals.
    pub seals: u64,
    /// The end of the last seal.
    pub sealed_to: Position,
    /// The number of bytes after the last newline, which the next append repairs.
    pub torn_bytes: u64,
    /// The number of places that do not match their seals, and of unreadable lines in them.
    pub damaged: u64,
    /// The number of lines that a power loss made unreadable before they were synced.
    pub unsynced: u64,
    /// The number of references to missing or damaged blobs. A blob is durable before the line that names it.
    pub blobs_lost: u64,
    /// The first of them: unreadable lines, then places that do not match their seals, each in order.
    pub places: Vec<Damage>,
    /// The recorded losses, newest first. Seals of an older epoch are not checked, so this is all that is known of it.
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
    /// Checks every line, every seal and every blob that a log names. `each` gets the number of checked bytes and the
    /// total.
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

    /// Finds bytes that do not match their seals or are missing. Their line numbers are not set yet.
    fn verify_seals(
        &self,
        known: &Known,
        extent: &Extent<'_>,
        verified: &mut Verified,
        each: impl FnMut(u64),
    ) -> Result<Found> {
        let compared = self.compare(known, extent, each)?;
        verified.seals = compared.seals;
        let changed_in_place = |run: &Run| run.damage(SealMismatch::InPlace);
        let places = compared.ended.iter().map(changed_in_place).collect();
        let mut found = Found { places, unlisted: compared.unlisted.as_ref().map(changed_in_place) };
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
            let in_place = self.is_last_line_in_place(known, extent)?;
            add(run.damage(if in_place { SealMismatch::InPlace } else { SealMismatch::Unclear }));
        }
        let recorded_to = known.watermark.recorded_to;
        if extent.end < recorded_to {
            let unchecked_from = compared.gone.map_or(known.watermark.sealed_to, |(from, _)| from).min(extent.end);
            let kind = DamageKind::Missing { unchecked_from: unchecked_from.max(extent.base) };
            add(Damage::new(kind, extent.end, recorded_to, Position(extent.end.0 + 1)));
        }
        Ok(found)
    }

    /// Returns true if the last folded line is at its position.
    fn is_last_line_in_place(&self, known: &Known, extent: &Extent<'_>) -> Result<bool> {
        let Some((position, hash)) = known.watermark.folded else { return Ok(false) };
        Ok(extent.reader.line_hash_at(position, self.limits.line_bytes_max)? == Some(hash))
    }

    /// Checks every line, and sets the line numbers of the places in `found`. `each` gets the number of bytes left.
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
        let mut blobs = CheckedBlobs { blobs: Blobs::on(&self.disk), intact: HashSet::new() };
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
        // Bytes after the last complete line belong to the line that would come next.
        place_in_line(&mut found.places, (begun, ended), number + 1, end, Position(u64::MAX));
        Ok(())
    }
}

/// The places that do not match their seals.
struct Found {
    places: Vec<Damage>,
    /// The range of the changes in place that are not listed.
    unlisted: Option<Damage>,
}

impl Found {
    /// Returns true if a range of the log in its current positions overlaps bytes that do not match their seals.
    ///
    /// A line that cannot be read but whose seal matches was unreadable when it was sealed.
    fn is_changed(&self, from: Position, to: Position) -> bool {
        self.places.iter().chain(&self.unlisted).any(|place| {
            let end = match place.kind {
                DamageKind::Seal(SealMismatch::InPlace | SealMismatch::Unclear) => place.to.0,
                DamageKind::Seal(SealMismatch::Removed { bytes }) => place.to.0.saturating_sub(bytes),
                DamageKind::Seal(SealMismatch::Inserted { bytes }) => place.to.0.saturating_add(bytes),
                // The remaining bytes of a log that was cut are unchanged.
                DamageKind::Missing { .. } | DamageKind::Line(_) | DamageKind::NoBlob(_) | DamageKind::BadBlob(_) => {
                    return false;
                }
            };
            // A place where bytes were removed may be empty now: the line that contains it was changed.
            from.0 < end.max(place.from.0 + 1) && place.from < to
        })
    }
}

/// Sets this line as the line of the places that begin in it, and of those whose first changed byte may be in it. The
/// first `begun` and `ended` places, in order, are set already. Returns the new numbers.
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

/// The blobs checked so far: a blob that many lines name is read once.
struct CheckedBlobs {
    blobs: Blobs,
    intact: HashSet<BlobId>,
}

impl CheckedBlobs {
    /// Returns the damage of a blob, if any.
    fn fault_of(&mut self, id: BlobId) -> Result<Option<DamageKind>> {
        if self.intact.contains(&id) {
            return Ok(None);
        }
        match self.blobs.open(&id).and_then(|mut blob| blob.verify()) {
            Ok(()) => {
                if self.intact.len() < BLOBS_REMEMBERED {
                    self.intact.insert(id);
                }
                Ok(None)
            }
            Err(LogError::NoBlob(_)) => Ok(Some(DamageKind::NoBlob(id))),
            Err(LogError::BadBlob(_)) => Ok(Some(DamageKind::BadBlob(id))),
            Err(error) => Err(Error::Log(error)),
        }
    }
}

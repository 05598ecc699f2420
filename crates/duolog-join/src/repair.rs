//! Repair of one log on request.

use duolog_log::{Error as LogError, LogRecord as _, Reader, rewrite};
use duolog_state::Tx;
use duolog_state::owned::repairs::{self, RepairAction, RepairRow};
use duolog_types::{Durability, Epoch, Position, SessionId};

use crate::error::{Error, Result};
use crate::recover::tolerate;
use crate::store::Join;
use crate::transact::{IdempotencyKey, Write};
use crate::verify::{DamageKind, Verified};

/// The maximum number of repairs that are returned.
const REPAIRS_SHOWN: u32 = 100;
/// The maximum number of damaged places in the record of a repair.
const PLACES_MAX: usize = 8;

/// The result of a repair.
#[derive(Clone, Debug)]
pub struct Repaired {
    /// The new epoch.
    pub epoch: Epoch,
    /// The end of the log.
    pub end: Position,
    /// The records of this repair, newest first.
    pub done: Vec<RepairRow>,
    /// The findings before the repair.
    pub found: Verified,
    /// The findings after it: damage in the middle stays.
    pub left: Verified,
}

impl Join {
    /// Repairs a log: its torn tail, its rows in the state, and, if a write or sync failed, the file itself.
    ///
    /// Damage in the middle stays: it is skipped and reported, never cut out, and never sealed.
    pub fn repair(&self, session: &SessionId) -> Result<Repaired> {
        self.repair_once(None, session)
    }

    /// Repairs a log, under a key if one is given. A retry continues where the first call stopped and returns
    /// everything that was done under the key; once it is done, a retry repairs nothing.
    pub fn repair_once(&self, key: Option<&IdempotencyKey>, session: &SessionId) -> Result<Repaired> {
        if !self.is_writable() {
            return Err(Error::ReadOnly);
        }
        let id = session.clone();
        let before = match key {
            Some(key) => self.transact::<_, Error>(Write::once(Durability::Power, Some(key.clone())), move |tx| {
                Ok((newest(tx, &id)?, Vec::new()))
            })?,
            None => self.state.read(|tx| newest(tx, &id))?,
        };
        let found = self.verify(session, |_, _| {})?;
        let end = key.map(|key| key.part("end"));
        if let Some(last) = end.as_ref().map_or(Ok(None), |end| self.answer_to::<i64>(end))? {
            return self.repaired(session, found, (before, last));
        }
        // Another repair may replace the file meanwhile.
        Self::reopening(|| match self.mend_with_detail(session, damage_detail(&found)) {
            Err(Error::Log(LogError::Poisoned(_))) => self.open_poisoned(session),
            other => other,
        })?;
        // Lines that cannot be appended now stay in the outbox with the reason; the repair itself is done.
        tolerate(self.drain(session).map(drop))?;
        self.fold_and_seal(self.known(session)?, u64::MAX)?;
        let id = session.clone();
        let last = match end {
            Some(end) => self.transact::<_, Error>(Write::once(Durability::Power, Some(end)), move |tx| {
                Ok((newest(tx, &id)?, Vec::new()))
            })?,
            None => i64::MAX,
        };
        self.repaired(session, found, (before, last))
    }

    /// Returns what a repair did: the records after `before`, up to `last`.
    fn repaired(&self, session: &SessionId, found: Verified, (before, last): (i64, i64)) -> Result<Repaired> {
        let known = self.known(session)?;
        let end = match known.reader(&self.disk)? {
            Some(reader) => reader.stable_end(self.limits.busy_timeout)?,
            None => known.row.log_base,
        };
        let done: Vec<_> =
            self.repairs_of(session)?.into_iter().filter(|row| row.id > before && row.id <= last).collect();
        let left = if done.is_empty() { found.clone() } else { self.verify(session, |_, _| {})? };
        Ok(Repaired { epoch: known.row.log_epoch, end, done, found, left })
    }

    /// Copies a log with a failed write or sync into a new file, which replaces the old one in a new epoch.
    fn open_poisoned(&self, session: &SessionId) -> Result<()> {
        let known = self.known(session)?;
        self.own(&known.row)?;
        let (place, epoch) = (known.place(), known.row.log_epoch);
        let record = self.record_of(&known);
        let raise = |end: Position| {
            // Claimed lines that are not in the new file were never written, or are lost.
            let log = Reader::open(&self.disk, &place)?;
            record.settle_claims(log.as_ref(), end)?;
            let repair = self.repair_row(session, epoch, RepairAction::Rewritten, end);
            let raised = self.raise_epoch(session, epoch, repair);
            raised.map(drop).map_err(|error| LogError::Record(Box::new(error)))
        };
        let rewritten = rewrite(&self.disk, &place, known.watermark.sealed_to, &self.limits, raise)?;
        if let Some(mend) = rewritten.mend {
            self.note_mend(session, epoch.next(), mend)?;
        }
        Ok(())
    }

    /// Returns the repairs of a session, newest first.
    pub fn repairs_of(&self, session: &SessionId) -> Result<Vec<RepairRow>> {
        Ok(self.state.read(|tx| repairs::list(tx, Some(session), REPAIRS_SHOWN))?)
    }
}

/// Returns the id of the newest record of a session; 0 if it has none.
fn newest(tx: &mut Tx<'_>, session: &SessionId) -> Result<i64> {
    Ok(repairs::list(tx, Some(session), 1)?.first().map_or(0, |row| row.id))
}

/// Returns the findings for the record of a repair: after the epoch is raised, the seals that show them are obsolete.
fn damage_detail(found: &Verified) -> Option<String> {
    let sealed = found.places.iter().filter(|place| !matches!(place.kind, DamageKind::Line(_)));
    let places: Vec<_> =
        sealed.take(PLACES_MAX).map(|place| format!("{} to {}: {place}", place.from.0, place.to.0)).collect();
    (!places.is_empty()).then(|| places.join("\n"))
}

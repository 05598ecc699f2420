//! Writing derived rows: all rows of one step of a fold, or none (I3, I4).

use std::collections::BTreeSet;

use duolog_state::Tx;
use duolog_state::derived::catalog::{self, CatalogRow, FoldedTo};
use duolog_state::derived::{digests, responses, usage_by_quarter};
use duolog_state::owned::sessions;
use duolog_types::SessionId;

use crate::error::{Error, Result};
use crate::project::Rows;
use crate::store::Known;

/// The outcome of writing the rows of a step: all were written, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteOutcome {
    /// They were written.
    All,
    /// Another fold of this log was faster.
    Behind,
    /// A fold of another log changed which responses this one counts.
    Contended,
}

/// Writes the rows of a step. `expected` is the start of the step; `None` if it began at the log's first byte.
pub(crate) fn write_rows(tx: &mut Tx<'_>, expected: Option<FoldedTo>, rows: &Rows) -> Result<WriteOutcome> {
    let session = &rows.catalog.session_id;
    // A session that was deleted meanwhile has no row to add these to. In another epoch they describe lost bytes.
    let row = sessions::find(tx, session)?.filter(|row| row.deleted_at.is_none());
    if row.ok_or_else(|| Error::NoSession(session.clone()))?.log_epoch != rows.catalog.epoch {
        return Ok(WriteOutcome::Behind);
    }
    let Some(losers) = losers(tx, rows)? else { return Ok(WriteOutcome::Contended) };
    if !losers.is_empty() {
        let mut changed: BTreeSet<&SessionId> = losers.iter().collect();
        changed.insert(session);
        catalog::lock(tx, changed)?;
    }
    let advanced = match expected {
        Some(expected) => catalog::advance(tx, Some(expected), &rows.catalog)?,
        None => catalog::replace(tx, &rows.catalog)?,
    };
    if !advanced {
        return Ok(WriteOutcome::Behind);
    }
    if expected.is_none() {
        usage_by_quarter::forget(tx, session)?;
        responses::forget(tx, session)?;
    }
    if let Some(digest) = &rows.digest {
        digests::put(tx, digest)?;
        usage_by_quarter::change(tx, session, &rows.usage)?;
    }
    responses::claim(tx, session, &rows.claimed)?;
    losers.iter().try_for_each(|loser| catalog::outdate(tx, loser))?;
    if !losers.is_empty() && rows.catalog.shared > 0 {
        // An earlier line may have left a response to a loser that a later line took over: a recount from the start
        // corrects it.
        catalog::outdate(tx, session)?;
    }
    Ok(WriteOutcome::All)
}

/// Returns the sessions that lose responses to this one. `None` if another fold changed the owners since this one read
/// them.
fn losers(tx: &mut Tx<'_>, rows: &Rows) -> Result<Option<BTreeSet<SessionId>>> {
    let session = &rows.catalog.session_id;
    for (owner, key) in &rows.counting {
        if !responses::confirm(tx, owner, *key)? {
            return Ok(None);
        }
    }
    let keys: Vec<u64> = rows.claimed.iter().map(|claim| claim.response).collect();
    let owners = responses::owners(tx, &keys)?;
    let mut losers = BTreeSet::new();
    for claim in &rows.claimed {
        match owners.get(&claim.response) {
            Some(owner) if owner.holds_against(session, claim.weight) => return Ok(None),
            Some(owner) if owner.session_id != *session => losers.insert(owner.session_id.clone()),
            _ => false,
        };
    }
    Ok(Some(losers))
}

/// Releases the responses of a session that is about to lose lines or to be deleted, so that other sessions with them
/// count them.
pub(crate) fn release_responses(tx: &mut Tx<'_>, session: &SessionId) -> Result<()> {
    responses::forget(tx, session)?;
    Ok(catalog::outdate_sharing(tx)?)
}

/// Returns the derived row of a log that was not folded yet.
pub(crate) fn empty_row(known: &Known) -> CatalogRow {
    CatalogRow::new(known.row.id.clone(), known.row.home_id, known.row.log_epoch, known.row.log_base)
}

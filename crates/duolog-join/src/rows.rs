//! Writing derived rows: all that one step of a fold made, or nothing (I3, I4).

use std::collections::BTreeSet;

use duolog_state::Tx;
use duolog_state::derived::catalog::{self, CatalogRow, FoldedTo};
use duolog_state::derived::{digests, responses, usage_by_quarter};
use duolog_state::owned::sessions;
use duolog_types::SessionId;

use crate::error::{Error, Result};
use crate::project::Rows;
use crate::store::Known;

/// What became of the rows that a step of the fold made: all of them stand, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrote {
    /// They stand.
    All,
    /// Another fold of this log was faster.
    Behind,
    /// A fold of another log changed which responses this one counts.
    Contended,
}

/// Writes what a step of the fold made. `expected` is what the step started from: nothing, where it began with the log's
/// first byte.
pub(crate) fn write_rows(tx: &mut Tx<'_>, expected: Option<FoldedTo>, rows: &Rows) -> Result<Wrote> {
    let session = &rows.catalog.session_id;
    // Deleted meanwhile: there is no row that these could belong to. In another epoch they tell of bytes that are gone.
    let row = sessions::find(tx, session)?.filter(|row| row.deleted_at.is_none());
    if row.ok_or_else(|| Error::NoSession(session.clone()))?.log_epoch != rows.catalog.epoch {
        return Ok(Wrote::Behind);
    }
    let Some(losers) = losers(tx, rows)? else { return Ok(Wrote::Contended) };
    let advanced = match expected {
        Some(expected) => catalog::advance(tx, Some(expected), &rows.catalog)?,
        None => catalog::replace(tx, &rows.catalog)?,
    };
    if !advanced {
        return Ok(Wrote::Behind);
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
        // An earlier line may have left to a loser what a later one took from it: counted from the start, none does.
        catalog::outdate(tx, session)?;
    }
    Ok(Wrote::All)
}

/// The sessions that counted what this one is to count; none at all where another fold changed who counts what since
/// this one looked.
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

/// Leaves what a session counted to others that tell of it too: it is about to lose lines, or to go.
pub(crate) fn leave_responses(tx: &mut Tx<'_>, session: &SessionId) -> Result<()> {
    responses::forget(tx, session)?;
    Ok(catalog::outdate_sharing(tx)?)
}

/// The derived row of a log of which nothing was folded.
pub(crate) fn empty_row(known: &Known) -> CatalogRow {
    CatalogRow::new(known.row.id.clone(), known.row.home_id, known.row.log_epoch, known.row.log_base)
}

//! The log of another program, folded without a store: the same projection, and rows in memory only.

use std::collections::HashMap;

use duolog_log::Reader;
use duolog_state::derived::catalog::CatalogRow;
use duolog_state::derived::responses::{Owner, ResponseClaim};
use duolog_state::derived::usage_by_quarter::UsageRow;
use duolog_types::{Epoch, HomeId, Position, SessionId};

use crate::error::Result;
use crate::fold::SETTLED_MAX;
use crate::project::Derived;

/// The derived rows of a log that no store owns.
#[derive(Debug)]
pub struct ForeignRows {
    /// The catalog row: counts, title, model and times.
    pub catalog: CatalogRow,
    /// The usage by quarter hour and model.
    pub usage: Vec<UsageRow>,
    /// The responses that this log counts.
    pub claimed: Vec<ResponseClaim>,
}

/// Folds the lines of a log up to `end`. A response that another log in `owners` counts is not counted here.
///
/// `tell` is called with the position after each line.
#[allow(clippy::implicit_hasher, reason = "the map is the one that the state returns")]
pub fn fold_foreign(
    session: &SessionId,
    (reader, end): (&Reader, Position),
    line_bytes_max: usize,
    owners: &HashMap<u64, Owner>,
    tell: &mut dyn FnMut(Position),
) -> Result<ForeignRows> {
    let row = CatalogRow::new(session.clone(), HomeId::new(), Epoch::default(), reader.first());
    let mut derived = Derived::new(row);
    let mut lines = reader.lines(reader.first(), end, line_bytes_max)?;
    while let Some(item) = lines.next()? {
        derived.project(&item, line_bytes_max);
        if derived.waiting() >= SETTLED_MAX {
            derived.settle(owners);
        }
        tell(item.end());
    }
    derived.settle(owners);
    let rows = derived.rows();
    let usage = rows.usage.into_iter().map(|change| change.alone(session.clone()));
    Ok(ForeignRows { catalog: rows.catalog, usage: usage.collect(), claimed: rows.claimed })
}

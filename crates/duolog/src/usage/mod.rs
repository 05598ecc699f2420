//! Usage: tokens and cost, by day, session, model or workflow.
//!
//! Logs and executions are one ledger. Each response counts once, even if several logs contain it. If the log of an
//! execution's session has usage, only the log counts. An execution without a session uses the session of its run. The
//! cost is the stated cost, or else the cost at the configured prices. A model without a price is reported by name; its
//! cost is unknown, not zero.

mod counted;
mod model;
mod rules;
mod zone;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use duolog_log::dialect::prices::Prices;
use duolog_state::Page;
use duolog_state::derived::usage_by_quarter::{
    self as table, Grouping, UsageFilter as FilterRow, UsageGroup, UsageSum,
};

pub use model::{Day, UsageFilter, UsageLine, UsageReport, UsageToken, UsageTotal};

use counted::Counted;
use zone::{DayOf, Zone};

use crate::error::Result;
use crate::log::Directory;
use crate::store::Store;

/// The handle for the usage in a store, or in the logs of another program.
#[derive(Clone)]
pub struct Usage {
    source: Source,
}

#[derive(Clone)]
enum Source {
    Store(Store),
    Logs(Arc<Counted>),
}

/// The groups of a page and one more, their sums, and the sums of all pages.
type Selected = (Vec<UsageGroup>, Vec<UsageSum>, Vec<UsageSum>);

impl Usage {
    pub(crate) const fn of_store(store: Store) -> Self {
        Self { source: Source::Store(store) }
    }

    /// Counts the usage in the logs of another program, without a store. `tell` is called with the number of bytes read
    /// and the total number of bytes.
    ///
    /// Reports by session have the name of the file as id, and its path as name; there are no workflows and no users. A
    /// report is not complete if a file cannot be read: see [`Usage::unread`].
    pub fn of_directory(directory: &Directory, prices: &Prices, tell: &mut dyn FnMut(u64, u64)) -> Self {
        Self { source: Source::Logs(Arc::new(Counted::read(directory, prices, tell))) }
    }

    /// Returns the files of a directory that were not read to their end, and why.
    pub fn unread(&self) -> &[(PathBuf, String)] {
        match &self.source {
            Source::Store(_) => &[],
            Source::Logs(counted) => &counted.unread,
        }
    }

    /// Returns the number of lines in a directory that are not valid and were not counted.
    pub fn damaged(&self) -> u64 {
        match &self.source {
            Source::Store(_) => 0,
            Source::Logs(counted) => counted.damaged,
        }
    }

    /// Returns the usage by day of the filter's time zone, newest first.
    pub fn daily(&self, filter: &UsageFilter) -> Result<UsageReport> {
        self.report(Grouping::Day, filter)
    }

    /// Returns the usage by session, in the order of the filter.
    pub fn session(&self, filter: &UsageFilter) -> Result<UsageReport> {
        let order = filter.order.or(filter.after.as_ref().and_then(UsageToken::session_order));
        self.report(Grouping::Session(order.unwrap_or_default()), filter)
    }

    /// Returns the usage by model, ordered by name.
    pub fn model(&self, filter: &UsageFilter) -> Result<UsageReport> {
        self.report(Grouping::Model, filter)
    }

    /// Returns the usage by workflow, ordered by name. A session without a run counts for its playbook or its agent.
    pub fn workflow(&self, filter: &UsageFilter) -> Result<UsageReport> {
        self.report(Grouping::Workflow, filter)
    }

    /// Returns a page of a report, with the total of all pages. Every log is folded first, unless the filter says not
    /// to wait, because a partial sum would be wrong.
    fn report(&self, by: Grouping, filter: &UsageFilter) -> Result<UsageReport> {
        let after = filter.after.as_ref().map(|token| token.order_in(filter.list(), by)).transpose()?;
        let behind = match &self.source {
            Source::Store(store) => store.catch_up_within(filter.wait)?,
            Source::Logs(counted) => counted.behind(),
        };
        let limit = Page::new(filter.limit, None).limit() as usize;
        let zone = Zone::find(filter.zone.as_deref())?;
        let rows = filter.rows(&zone)?;
        let (groups, sums, total) = match &self.source {
            Source::Store(store) => select(store, (by, &zone), &rows, after, limit)?,
            Source::Logs(counted) => counted.select((by, &zone), &rows, after, limit + 1)?,
        };
        let is_rest = |group: &UsageGroup| matches!(by, Grouping::Session(_)) && group.order.is_empty();
        let more = groups.len() > limit && !groups.get(limit).is_some_and(is_rest);
        let shown = if more { &groups[..limit] } else { &groups[..] };
        let prices = match &self.source {
            Source::Store(store) => &store.core.prices,
            Source::Logs(counted) => &counted.prices,
        };
        let line = |group: &UsageGroup| UsageLine {
            key: Some(group.key.clone()).filter(|key| !key.is_empty()),
            name: group.name.clone(),
            used: rules::priced(sums.iter().filter(|sum| sum.key == group.key), prices),
        };
        Ok(UsageReport {
            lines: shown.iter().map(line).collect(),
            total: rules::priced(&total, prices),
            next: shown.last().filter(|_| more).map(|last| UsageToken::after(filter.list(), by, &last.order)),
            behind,
        })
    }
}

/// Returns the groups of a page and one more, their sums, and the sums of all pages.
fn select(
    store: &Store,
    (by, zone): (Grouping, &Zone),
    rows: &FilterRow,
    after: Option<&str>,
    limit: usize,
) -> Result<Selected> {
    // One transaction, so that the lines and their total are of one instant.
    store.join.state().read(|tx| {
        let (groups, sums) = if by == Grouping::Day {
            days(zone, table::quarters(tx, rows, after)?, limit + 1)?
        } else {
            let found = u32::try_from(limit + 1).unwrap_or(u32::MAX);
            let mut groups = table::groups(tx, by, rows, after, found)?;
            if matches!(by, Grouping::Session(_)) && groups.len() <= limit {
                // Executions of no session are the last line.
                groups.push(UsageGroup { key: String::new(), name: None, order: String::new() });
            }
            let sums = table::sums(tx, by, rows, &groups[..groups.len().min(limit + 1)])?;
            groups.retain(|group| !group.order.is_empty() || sums.iter().any(|sum| sum.key == group.key));
            (groups, sums)
        };
        Ok::<_, crate::Error>((groups, sums, table::total(tx, rows)?))
    })
}

/// Sums quarter hours into days of a time zone, newest first, up to `most` days.
fn days(zone: &Zone, quarters: Vec<UsageSum>, most: usize) -> Result<(Vec<UsageGroup>, Vec<UsageSum>)> {
    let (mut groups, mut sums): (Vec<UsageGroup>, Vec<UsageSum>) = (Vec::new(), Vec::new());
    for sum in quarters {
        let DayOf { day, start } = zone.day_of(&sum.key)?;
        if groups.last().is_none_or(|last| last.key != day) {
            if groups.len() == most {
                break;
            }
            groups.push(UsageGroup { key: day.clone(), name: None, order: start });
        }
        sums.push(UsageSum { key: day, ..sum });
    }
    Ok((groups, sums))
}

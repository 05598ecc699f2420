//! Usage: tokens and cost, by day, session, model or workflow.
//!
//! Tokens are what the logs say, each response counted once, however many logs tell of it; cost is what the logs state, and where they state
//! none, what the prices in force say. A model without a price is named, and never costs nothing.

mod model;
mod rules;

#[cfg(test)]
mod tests;

use duolog_state::Page;
use duolog_state::derived::usage_by_day::{self as table, Grouping, UsageGroup};

pub use model::{Day, UsageFilter, UsageLine, UsageReport, UsageToken, UsageTotal};

use crate::error::Result;
use crate::store::Store;

/// What was used in a store.
#[derive(Clone)]
pub struct Usage {
    pub(crate) store: Store,
}

impl Usage {
    /// By day in UTC, the newest first.
    pub fn daily(&self, filter: &UsageFilter) -> Result<UsageReport> {
        self.report(Grouping::Day, filter)
    }

    /// By session, in the order of the filter.
    pub fn session(&self, filter: &UsageFilter) -> Result<UsageReport> {
        let order = filter.order.or(filter.after.as_ref().and_then(UsageToken::session_order));
        self.report(Grouping::Session(order.unwrap_or_default()), filter)
    }

    /// By model, in the order of their names.
    pub fn model(&self, filter: &UsageFilter) -> Result<UsageReport> {
        self.report(Grouping::Model, filter)
    }

    /// By the playbook that sessions run, or by their agent where they run none, in the order of their names.
    pub fn workflow(&self, filter: &UsageFilter) -> Result<UsageReport> {
        self.report(Grouping::Workflow, filter)
    }

    /// A page of a report, with the total of all pages. Every log is folded to its end first, unless the filter says not to
    /// wait for that: a part of a sum is not an answer.
    fn report(&self, by: Grouping, filter: &UsageFilter) -> Result<UsageReport> {
        let join = &self.store.join;
        let after = filter.after.as_ref().map(|token| token.order_in(filter.list(), by)).transpose()?;
        let behind = self.store.catch_up_within(filter.wait)?;
        let limit = Page::new(filter.limit, None).limit();
        let rows = filter.into();
        // One transaction, so that the lines and their total are of one moment.
        let (groups, sums, total) = join.state().read(|tx| {
            let groups = table::groups(tx, by, &rows, after, limit + 1)?;
            let shown = &groups[..groups.len().min(limit as usize)];
            let (sums, total) = (table::sums(tx, by, &rows, shown)?, table::total(tx, &rows)?);
            Ok::<_, crate::Error>((groups, sums, total))
        })?;
        let more = groups.len() > limit as usize;
        let shown = &groups[..groups.len().min(limit as usize)];
        let prices = &self.store.core.prices;
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

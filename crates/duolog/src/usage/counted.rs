//! The usage in the logs of another program: counted in memory, by the rules of a store.
//!
//! Each response counts once, in the log with the largest claim. Logs with a response that another log counts are read
//! again when all claims are known, so the result does not depend on the order of the logs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use duolog_join::{CaughtUp, ForeignRows, fold_foreign};
use duolog_log::dialect::prices::Prices;
use duolog_state::PageOrder;
use duolog_state::derived::responses::Owner;
use duolog_state::derived::usage_by_quarter::{Grouping, UsageFilter as FilterRow, UsageGroup, UsageRow, UsageSum};
use duolog_types::{Position, SessionId, Timestamp, with_causes};

use super::Selected;
use super::zone::Zone;
use crate::error::Result;
use crate::log::{Directory, DirectoryLog};

/// The number of bytes between two progress reports.
const TELL_BYTES: u64 = 1 << 20;

/// The usage in the logs of a directory.
pub(super) struct Counted {
    pub(super) prices: Prices,
    rows: Vec<UsageRow>,
    logs: BTreeMap<SessionId, Times>,
    /// The files that were not read to their end, and why.
    pub(super) unread: Vec<(PathBuf, String)>,
    /// The number of lines that are not valid and are not counted.
    pub(super) damaged: u64,
}

/// The name of a log, and the times of its first and its last line.
struct Times {
    name: String,
    first_at: Timestamp,
    last_at: Timestamp,
}

impl Counted {
    /// Reads every log. `tell` is called with the number of bytes read and the total number of bytes.
    pub(super) fn read(directory: &Directory, prices: &Prices, tell: &mut dyn FnMut(u64, u64)) -> Self {
        let mut counted = Self {
            prices: prices.clone(),
            rows: Vec::new(),
            logs: BTreeMap::new(),
            unread: directory.unread().to_vec(),
            damaged: 0,
        };
        let mut progress = Progress { done: 0, of: directory.bytes(), told: 0, tell };
        let mut owners: HashMap<u64, Owner> = HashMap::new();
        let mut contested = BTreeSet::new();
        let mut alone = BTreeMap::new();
        for log in directory.logs() {
            match fold(directory, log, &HashMap::new(), &mut progress) {
                Ok(mut rows) => {
                    for claim in std::mem::take(&mut rows.claimed) {
                        let owner = Owner { session_id: log.id.clone(), weight: claim.weight };
                        let Some(other) = owners.get_mut(&claim.response) else {
                            owners.insert(claim.response, owner);
                            continue;
                        };
                        let holds = other.holds_against(&log.id, claim.weight);
                        let loser = if holds { owner } else { std::mem::replace(other, owner) };
                        contested.insert(loser.session_id);
                    }
                    alone.insert(log.id.clone(), rows);
                }
                Err(error) => counted.unread.push((log.path.clone(), with_causes(&error))),
            }
        }
        let again = directory.logs().iter().filter(|log| contested.contains(&log.id));
        progress.of += again.clone().map(|log| log.end.0).sum::<u64>();
        for log in again {
            match fold(directory, log, &owners, &mut progress) {
                Ok(rows) => {
                    alone.insert(log.id.clone(), rows);
                }
                Err(error) => {
                    alone.remove(&log.id);
                    counted.unread.push((log.path.clone(), with_causes(&error)));
                }
            }
        }
        for log in directory.logs() {
            if let Some(rows) = alone.remove(&log.id) {
                counted.add(log, rows);
            }
        }
        counted
    }

    fn add(&mut self, log: &DirectoryLog, rows: ForeignRows) {
        let ForeignRows { catalog, usage, .. } = rows;
        let at = |at: Option<Timestamp>| at.unwrap_or(Timestamp::from_micros(0));
        let name = log.path.to_string_lossy().into_owned();
        let times = Times { name, first_at: at(catalog.first_at), last_at: at(catalog.last_at) };
        self.logs.insert(log.id.clone(), times);
        self.damaged += catalog.damaged;
        self.rows.extend(usage);
    }

    /// Returns the completeness of a report.
    pub(super) fn behind(&self) -> CaughtUp {
        CaughtUp { sessions_behind: self.unread.len() as u64, ..CaughtUp::default() }
    }

    /// Returns the groups of a page and one more, their sums, and the sums of all pages.
    pub(super) fn select(
        &self,
        (by, zone): (Grouping, &Zone),
        filter: &FilterRow,
        after: Option<&str>,
        most: usize,
    ) -> Result<Selected> {
        let passes = |row: &&UsageRow| {
            let is_before = |until: &String| !row.quarter.is_empty() && row.quarter < *until;
            filter.since.as_ref().is_none_or(|since| row.quarter >= *since)
                && filter.until.as_ref().is_none_or(is_before)
        };
        let rows = || self.rows.iter().filter(passes);
        let sum = |row: &UsageRow, key: &str| UsageSum {
            key: key.to_owned(),
            model: row.model.clone(),
            charge: row.charge,
            used: row.used,
        };
        let total = rows().map(|row| sum(row, "")).collect();
        let mut sums: Vec<UsageSum> = rows().map(|row| sum(row, key(by, row))).collect();
        if by == Grouping::Day {
            sums.retain(|sum| after.is_none_or(|before| *sum.key < *before));
            sums.sort_by(|one, other| other.key.cmp(&one.key));
            let (groups, sums) = super::days(zone, sums, most)?;
            return Ok((groups, sums, total));
        }
        let keys: BTreeSet<&str> = sums.iter().map(|sum| &*sum.key).collect();
        let mut groups: Vec<UsageGroup> = keys.into_iter().map(|key| self.group(by, key)).collect();
        if let Grouping::Session(_) = by {
            groups.retain(|group| after.is_none_or(|after| *group.order < *after));
            groups.sort_by(|one, other| other.order.cmp(&one.order));
        } else {
            groups.retain(|group| after.is_none_or(|after| *group.order > *after));
        }
        groups.truncate(most);
        Ok((groups, sums, total))
    }

    fn group(&self, by: Grouping, key: &str) -> UsageGroup {
        let times = SessionId::parse(key).ok().and_then(|id| self.logs.get(&id));
        match (by, times) {
            (Grouping::Session(order), Some(times)) => {
                let at = if order == PageOrder::Created { times.first_at } else { times.last_at };
                UsageGroup { key: key.to_owned(), name: Some(times.name.clone()), order: format!("{at}{key}") }
            }
            _ => UsageGroup { key: key.to_owned(), name: None, order: key.to_owned() },
        }
    }
}

/// Returns the key of the group of a row. The log of another program has no workflow.
fn key(by: Grouping, row: &UsageRow) -> &str {
    match by {
        Grouping::Day => &row.quarter,
        Grouping::Session(_) => row.session_id.as_str(),
        Grouping::Model => &row.model,
        Grouping::Workflow => "",
    }
}

/// The progress of reading.
struct Progress<'t> {
    done: u64,
    of: u64,
    told: u64,
    tell: &'t mut dyn FnMut(u64, u64),
}

fn fold(
    directory: &Directory,
    log: &DirectoryLog,
    owners: &HashMap<u64, Owner>,
    progress: &mut Progress<'_>,
) -> Result<ForeignRows> {
    let reader = directory.reader(log)?;
    let before = progress.done;
    let folded = fold_foreign(&log.id, (&reader, log.end), directory.line_bytes_max, owners, &mut |at: Position| {
        if before + at.0 >= progress.told + TELL_BYTES {
            progress.told = before + at.0;
            (progress.tell)(progress.told, progress.of);
        }
    });
    progress.done = before + log.end.0;
    Ok(folded?)
}

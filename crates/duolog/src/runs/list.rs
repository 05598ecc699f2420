//! Lists of runs. The filter determines the index that is used, so that the cost of a page does not depend on the
//! number of runs.
//!
//! | filter | order | index |
//! |---|---|---|
//! | none, statuses, or since | active first, then newest | the index of statuses, each of them: only the page |
//! | the same, ordered by start | newest first | the index of start times; at most [`RUNS_WALKED_MAX`] a page |
//! | one of workflow, repository, trigger | newest first | its index: only the page |
//! | one of those, with others or statuses | newest first | the narrowest index, at most [`RUNS_WALKED_MAX`] a page |

use duolog_state::owned::workflow_runs::{self as table, RunFilter as FilterRow, RunSummaryRow, RunsOf};
use duolog_state::{ListId, PageToken, Tx};
use duolog_types::limits::{PAGE_MAX, RUNS_WALKED_MAX};
use duolog_types::mutant::{self, Mutant};
use duolog_types::{RunId, RunStatus, Timestamp};

use super::Runs;
use super::model::{RunFilter, RunList, RunOrder, RunPage, RunSummary};
use super::rules;
use crate::error::{Error, Invalid, Result};

/// The rank in a token of the order by start time: no status has this rank.
const STARTED_RANK: u32 = 9;

/// The conditions that the index does not cover.
struct Rest {
    statuses: Vec<RunStatus>,
    workflow_name: Option<String>,
    repo: Option<(Option<String>, String)>,
}

/// A section of the list: runs from one index, or from several merged ones, newest first.
struct Stretch {
    rank: u32,
    of: Vec<RunsOf>,
}

/// The query plan of a filter.
struct Way {
    stretches: Vec<Stretch>,
    rest: Rest,
}

impl Runs {
    /// Returns a page of runs.
    pub fn list(&self, filter: &RunFilter, page: &RunPage) -> Result<RunList> {
        let (way, list) = (way(filter)?, filter.list());
        Invalid::check_page(page.after(), list)?;
        self.store.join.state().read(|tx| walk(tx, &way, list, filter.since, page))
    }

    /// Returns the number of runs in a list. They are counted one by one, which takes time if there are many.
    pub fn count(&self, filter: &RunFilter) -> Result<u64> {
        let row = FilterRow {
            statuses: filter.statuses.clone(),
            workflow_name: filter.workflow_name.clone(),
            repo: repo_of(filter)?,
            trigger_id: filter.trigger_id.clone(),
            since: filter.since,
        };
        Ok(self.store.join.state().read(|tx| table::count(tx, &row))?)
    }
}

fn repo_of(filter: &RunFilter) -> Result<Option<(Option<String>, String)>> {
    match rules::split_repo(filter.owner.as_deref(), filter.repo.as_deref()) {
        (owner, Some(repo)) => Ok(Some((owner, repo))),
        (None, None) => Ok(None),
        (Some(_), None) => Err(Error::Invalid(Invalid::Value { what: "owner", why: "needs a repository".to_owned() })),
    }
}

/// Chooses the index.
fn way(filter: &RunFilter) -> Result<Way> {
    let mut rest =
        Rest { statuses: filter.statuses.clone(), workflow_name: filter.workflow_name.clone(), repo: repo_of(filter)? };
    let one = |of| vec![Stretch { rank: 0, of: vec![of] }];
    let stretches = if let Some(trigger) = &filter.trigger_id {
        one(RunsOf::Trigger(trigger.clone()))
    } else if let Some((owner, repo)) = rest.repo.take() {
        one(RunsOf::Repo(owner, repo))
    } else if let Some(name) = rest.workflow_name.take() {
        one(RunsOf::Workflow(name))
    } else if filter.order == RunOrder::Started && !mutant::is(Mutant::StartsPagedByStatus) {
        vec![Stretch { rank: STARTED_RANK, of: vec![RunsOf::All] }]
    } else {
        active_first(&std::mem::take(&mut rest.statuses))
    };
    Ok(Way { stretches, rest })
}

fn active_first(statuses: &[RunStatus]) -> Vec<Stretch> {
    let wanted = |status: &RunStatus| statuses.is_empty() || statuses.contains(status);
    let (active, ended): (Vec<_>, Vec<_>) =
        RunStatus::ALL.iter().copied().filter(wanted).partition(|status| !status.is_terminal());
    let mut stretches: Vec<Stretch> = active
        .into_iter()
        .map(|status| Stretch { rank: status.active_rank(), of: vec![RunsOf::Status(status)] })
        .collect();
    stretches.sort_by_key(|stretch| stretch.rank);
    if let Some(status) = ended.first() {
        let rank = status.active_rank();
        stretches.push(Stretch { rank, of: ended.into_iter().map(RunsOf::Status).collect() });
    }
    stretches
}

impl Rest {
    fn is_nothing(&self) -> bool {
        self.statuses.is_empty() && self.workflow_name.is_none() && self.repo.is_none()
    }

    fn is_met(&self, row: &RunSummaryRow) -> bool {
        (self.statuses.is_empty() || self.statuses.contains(&row.status))
            && self.workflow_name.as_ref().is_none_or(|name| *name == row.workflow_name)
            && self
                .repo
                .as_ref()
                .is_none_or(|(owner, repo)| (owner.is_none() || *owner == row.owner) && Some(repo) == row.repo.as_ref())
    }
}

/// One index, read in pieces.
struct Source<'w> {
    of: &'w RunsOf,
    after: Option<(Timestamp, RunId)>,
    rows: std::vec::IntoIter<RunSummaryRow>,
    head: Option<RunSummaryRow>,
    is_over: bool,
}

impl Source<'_> {
    /// Reads the next piece if the current one is used up.
    fn fill(&mut self, tx: &mut Tx<'_>, since: Option<Timestamp>, piece: u32) -> Result<()> {
        if self.head.is_none() {
            self.head = self.rows.next();
        }
        if self.head.is_some() || self.is_over {
            return Ok(());
        }
        let after = self.after.as_ref().map(|(at, id)| (*at, id));
        let rows = table::list(tx, self.of, since, after, piece)?;
        self.is_over = rows.len() < piece as usize;
        self.after = rows.last().map(|row| (row.started_at, row.id.clone()));
        self.rows = rows.into_iter();
        self.head = self.rows.next();
        Ok(())
    }
}

fn walk(tx: &mut Tx<'_>, way: &Way, of_list: ListId, since: Option<Timestamp>, page: &RunPage) -> Result<RunList> {
    let limit = page.limit() as usize;
    // One more than the page shows whether another page follows. If rows are filtered out, more are read at once.
    let piece = if way.rest.is_nothing() { page.limit() + 1 } else { PAGE_MAX + 1 };
    let (mut runs, mut last, mut walked): (Vec<RunSummary>, Option<PageToken>, u32) = (Vec::new(), None, 0);
    for stretch in &way.stretches {
        let after = match page.after() {
            Some(token) if token.rank() > stretch.rank => continue,
            Some(token) if token.rank() == stretch.rank => Some((token.at(), id_of(token)?)),
            _ => None,
        };
        let source = |of| Source { of, after: after.clone(), rows: Vec::new().into_iter(), head: None, is_over: false };
        let mut sources: Vec<Source<'_>> = stretch.of.iter().map(source).collect();
        while let Some(row) = newest(tx, &mut sources, since, piece)? {
            if runs.len() == limit || walked == RUNS_WALKED_MAX {
                return Ok(RunList { runs, next: last });
            }
            walked += 1;
            last = Some(PageToken::new(of_list, stretch.rank, row.started_at, &row.id));
            if way.rest.is_met(&row) {
                runs.push(row.into());
            }
        }
    }
    Ok(RunList { runs, next: None })
}

/// Returns the newest of the next rows of all sources.
fn newest(
    tx: &mut Tx<'_>,
    sources: &mut [Source<'_>],
    since: Option<Timestamp>,
    piece: u32,
) -> Result<Option<RunSummaryRow>> {
    for source in &mut *sources {
        source.fill(tx, since, piece)?;
    }
    let key = |source: &Source<'_>| source.head.as_ref().map(|row| (row.started_at, row.id.clone()));
    let first = sources.iter_mut().max_by_key(|source| key(source));
    Ok(first.and_then(|source| source.head.take()))
}

fn id_of(token: &PageToken) -> Result<RunId> {
    RunId::parse(token.key()).map_err(|_| Error::Invalid(Invalid::OtherPage(token.to_string())))
}

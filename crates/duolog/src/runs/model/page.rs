//! Pages of runs: filters, orders and tokens.

use duolog_state::{ListId, PageToken};
use duolog_types::limits::{PAGE_DEFAULT, PAGE_MAX};
use duolog_types::{RunStatus, Timestamp};

use super::run::RunSummary;
use crate::runs::rules;

/// The filter of a list of runs. The default is all runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunFilter {
    /// Only runs with one of these statuses; all if empty.
    pub statuses: Vec<RunStatus>,
    /// Only runs of this workflow.
    pub workflow_name: Option<String>,
    /// Only runs of this repository owner; it needs a repository.
    pub owner: Option<String>,
    /// Only runs on this repository: `owner/repo`, or `repo` of any owner.
    pub repo: Option<String>,
    /// Only runs of this trigger.
    pub trigger_id: Option<String>,
    /// Only runs that were started at this time or later.
    pub since: Option<Timestamp>,
    /// The order.
    pub order: RunOrder,
}

impl RunFilter {
    /// Returns the list id, for page tokens.
    pub(crate) fn list(&self) -> ListId {
        let mut statuses: Vec<&str> = self.statuses.iter().map(|status| status.as_str()).collect();
        statuses.sort_unstable();
        statuses.dedup();
        let (owner, repo) = rules::split_repo(self.owner.as_deref(), self.repo.as_deref());
        let filters = [
            Some(statuses.join(",")),
            self.workflow_name.clone(),
            owner,
            repo,
            self.trigger_id.clone(),
            (self.order == RunOrder::Started).then(|| "started".to_owned()),
        ];
        ListId::of("runs", &filters.each_ref().map(Option::as_deref))
    }
}

/// The order of a list of runs that is not filtered by workflow, repository or trigger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunOrder {
    /// Running, paused and queued runs first, then all others, each newest first. A run that changes its status between
    /// two pages may be missed or listed twice; every other run is listed once.
    #[default]
    Active,
    /// Newest first, whatever the status. Every run that existed when the first page was read is listed exactly once,
    /// because the start time never changes.
    Started,
}

/// The size and start of a page of runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPage {
    limit: u32,
    after: Option<PageToken>,
}

impl RunPage {
    /// Returns a page of at most `limit` runs, clamped to the maximum (I9), after the token or from the start.
    pub fn new(limit: u32, after: Option<PageToken>) -> Self {
        Self { limit: limit.clamp(1, PAGE_MAX), after }
    }

    /// Returns the maximum number of runs.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Returns the token that the page starts after.
    pub fn after(&self) -> Option<&PageToken> {
        self.after.as_ref()
    }
}

impl Default for RunPage {
    fn default() -> Self {
        Self::new(PAGE_DEFAULT, None)
    }
}

/// A page of runs.
#[derive(Clone, Debug, PartialEq)]
pub struct RunList {
    /// The runs. Without a workflow, repository or trigger in the filter, active runs come first (running, paused,
    /// queued). The others, and all runs with such a filter, are newest first.
    pub runs: Vec<RunSummary>,
    /// The token of the next page; `None` if this is the last page. With several filters, a page may be short before
    /// the last one.
    pub next: Option<PageToken>,
}

//! Pages of runs: filters, orders, tokens.

use duolog_state::{ListId, PageToken};
use duolog_types::limits::{PAGE_DEFAULT, PAGE_MAX};
use duolog_types::{RunStatus, Timestamp};

use super::run::RunSummary;
use crate::runs::rules;

/// Which runs to list. Nothing said is all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunFilter {
    /// Only those that stand in one of these ways; none is all.
    pub statuses: Vec<RunStatus>,
    /// Only those of this workflow.
    pub workflow_name: Option<String>,
    /// Only those of this owner; it takes a repository too.
    pub owner: Option<String>,
    /// Only those that work on this repository, as `owner/repo`, or as `repo` whoever owns it.
    pub repo: Option<String>,
    /// Only those that this set off.
    pub trigger_id: Option<String>,
    /// Only those that were started then or later.
    pub since: Option<Timestamp>,
    /// In which order.
    pub order: RunOrder,
}

impl RunFilter {
    /// The list of these runs, as its page tokens name it.
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
    /// Newest first, whatever the status: a key that never changes. Every run that was there when the first page was read
    /// is listed exactly once.
    Started,
}

/// Which page of runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPage {
    limit: u32,
    after: Option<PageToken>,
}

impl RunPage {
    /// A page of that many runs, clamped to what a page may hold (I9), after the token or from the start.
    pub fn new(limit: u32, after: Option<PageToken>) -> Self {
        Self { limit: limit.clamp(1, PAGE_MAX), after }
    }

    /// The runs at most.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Where it begins.
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
    /// The runs. Without a workflow, a repository or a trigger in the filter the active ones come first: running, paused,
    /// queued; the others, and all with such a filter, come newest first.
    pub runs: Vec<RunSummary>,
    /// Where the next page begins; nothing where this is the last. A page with several filters may be short before that.
    pub next: Option<PageToken>,
}

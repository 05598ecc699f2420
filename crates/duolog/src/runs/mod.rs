//! Runs of workflows: started once, claimed by one owner at a time, and resumed after the last finished phase.

mod change;
mod executions;
mod lease;
mod list;
mod model;
mod open;
mod queue;
mod recover;
mod rollups;
mod take;
mod wait;

pub(crate) mod rules;

#[cfg(test)]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use duolog_state::owned::workflow_runs as table;
use duolog_state::owned::{
    workflow_approvals, workflow_run_bodies, workflow_run_nodes, workflow_run_phases, workflow_run_scratch,
};
use duolog_types::limits::PAGE_MAX;
use duolog_types::{Durability, RunId, RunStatus};
use parking_lot::Mutex;

pub use executions::Executions;
pub use lease::LeaseKeeper;
pub use model::{
    Admission, Admitted, Attribution, Begun, Claim, End, Ended, Ending, Execution, ExecutionList, ExecutionOutcome,
    Expired, Fence, Finish, NewExecution, NewRun, Next, Output, PhaseState, Recovered, Rollup, RollupInterval,
    RollupQuery, Run, RunFilter, RunList, RunOrder, RunPage, RunSummary, Started, StatusChange, TakeFilter, Until,
};
pub use open::{Expiry, LoopPoint, NewGate, PausedAt, RunHandle};
pub use rules::{Event, PhaseLabel, PhaseTurn, dollars, may_become, next};
pub use take::RunFeed;

pub(crate) use change::{Changing, count_end, count_start};
pub(crate) use queue::{Queue, check as check_new_run};
pub(crate) use rules::check_workflow;

use crate::error::{Error, NotFound, Result};
use crate::resolve::resolve;
use crate::store::Store;

/// The handle for runs.
#[derive(Clone)]
pub struct Runs {
    pub(crate) store: Store,
    pub(crate) durability: Durability,
}

/// An observer of ended runs. It is called after the commit, in the process that ended the run.
pub type OnEnd = Arc<dyn Fn(&RunSummary) + Send + Sync>;

/// The observers of ended runs.
#[derive(Default)]
pub(crate) struct Observers(Mutex<Vec<OnEnd>>);

impl Observers {
    fn add(&self, observer: OnEnd) {
        self.0.lock().push(observer);
    }

    /// Calls every observer. A panic of one does not affect the others.
    pub(crate) fn tell(&self, run: &RunSummary) {
        let observers = self.0.lock().clone();
        for observer in observers {
            let _ = catch_unwind(AssertUnwindSafe(|| observer(run)));
        }
    }
}

impl Runs {
    /// Sets the durability of changes [default: power].
    #[must_use]
    pub fn durable(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Returns the handle for one run. Its existence is checked by each call.
    pub fn open(&self, run: &RunId) -> RunHandle {
        RunHandle { store: self.store.clone(), run: run.clone(), fence: None, durability: self.durability }
    }

    /// Returns the handle for the ledger of executions.
    pub fn executions(&self) -> Executions {
        Executions { store: self.store.clone(), durability: self.durability, run: None }
    }

    /// Registers an observer that is called when this process ends a run. Panics of an observer are ignored.
    pub fn on_end(&self, observer: OnEnd) {
        self.store.core.observers.add(observer);
    }

    /// Returns the run with this id.
    pub fn get(&self, run: &RunId) -> Result<Run> {
        self.store.join.state().read(|tx| {
            let row = table::find(tx, run)?.ok_or_else(|| Error::NotFound(NotFound::Run(run.to_string())))?;
            Ok(Run {
                summary: RunSummary::from(&row),
                error: row.error,
                fence: Fence(row.fence),
                restart_cap: row.restart_cap,
                actor: row.actor,
                queued_at: row.queued.map(|place| place.at),
                is_resumed: row.queued.is_some_and(|place| place.is_resumed),
                context: workflow_run_bodies::context(tx, run)?,
                scratch: workflow_run_scratch::all(tx, run)?,
                phase_history: workflow_run_phases::all(tx, run)?,
                node_statuses: workflow_run_nodes::all(tx, run)?,
                pending: workflow_approvals::pending_of(tx, run)?.map(|gate| gate.id),
                unconsumed: workflow_approvals::unconsumed_of(tx, run, PAGE_MAX)?,
            })
        })
    }

    /// Returns the summary of a run, as in a list.
    pub fn summary(&self, run: &RunId) -> Result<RunSummary> {
        let row = self.store.join.state().read(|tx| table::find(tx, run))?;
        row.as_ref().map(RunSummary::from).ok_or_else(|| Error::NotFound(NotFound::Run(run.to_string())))
    }

    /// Returns the run with this id, or the only one whose id starts with it.
    pub fn resolve(&self, text: &str) -> Result<RunId> {
        let found = self.store.join.state().read(|tx| {
            let exact = match RunId::parse(text) {
                Ok(id) => table::find(tx, &id)?.map(|row| row.id),
                Err(_) => None,
            };
            resolve(tx, "run", text, exact, table::starting_with)
        })?;
        found.ok_or_else(|| Error::NotFound(NotFound::Run(text.to_owned())))
    }

    /// Returns the active run of a workflow and a trigger.
    pub fn find_active(&self, workflow: &str, trigger: &str) -> Result<Option<RunSummary>> {
        let row = self.store.join.state().read(|tx| table::find_active(tx, workflow, trigger))?;
        Ok(row.as_ref().map(RunSummary::from))
    }

    /// Returns the number of runs by status. All runs are counted.
    pub fn count_by_status(&self) -> Result<Vec<(RunStatus, u64)>> {
        Ok(self.store.join.state().read(table::count_by_status)?)
    }
}

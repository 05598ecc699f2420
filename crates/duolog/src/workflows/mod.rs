//! Workflows: list, enable and disable.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use duolog_state::owned::workflow_overrides::{self as table, OverrideRow};
use duolog_state::owned::workflow_runs;
use duolog_types::limits::PAGE_MAX;
use duolog_types::{Durability, Timestamp};

use crate::config::WorkflowSetting;
use crate::error::Result;
use crate::runs::rules;
use crate::store::Store;

/// The workflows of the configuration, by name.
pub(crate) type BaseWorkflows = BTreeMap<String, WorkflowSetting>;

/// The handle for workflows.
#[derive(Clone)]
pub struct Workflows {
    pub(crate) store: Store,
}

/// A workflow that has runs, is in the configuration, or has an override.
#[derive(Clone, Debug, PartialEq)]
pub struct Workflow {
    /// The name.
    pub name: String,
    /// True if runs of it may be started.
    pub enabled: bool,
    /// The time of the override and its author; `None` if there is no override.
    pub overridden: Option<(Timestamp, Option<String>)>,
    /// The description in the configuration.
    pub description: Option<String>,
    /// True if it has runs.
    pub has_runs: bool,
}

impl Workflows {
    /// Returns a page of workflows, ordered by name, after this name.
    pub fn list(&self, after: Option<&str>, limit: u32) -> Result<Vec<Workflow>> {
        let (limit, after) = (limit.clamp(1, PAGE_MAX), after.unwrap_or_default());
        let (names, overridden) = self.store.join.state().read(|tx| {
            let names = workflow_runs::names(tx, after, limit)?;
            Ok::<_, duolog_state::Error>((names, table::list(tx, after, limit)?))
        })?;
        let mut all: Vec<Workflow> = overridden.into_iter().map(Workflow::of).collect();
        let bases = &self.store.core.base_workflows;
        let configured =
            bases.range::<str, _>((Bound::Excluded(after), Bound::Unbounded)).map(|(name, _)| (name.clone(), false));
        for (name, has_runs) in names.into_iter().map(|name| (name, true)).chain(configured) {
            match all.binary_search_by(|one| one.name.as_str().cmp(&name)) {
                Ok(at) => all[at].has_runs |= has_runs,
                Err(at) => {
                    let enabled = is_enabled(bases, &name, None);
                    all.insert(at, Workflow { name, enabled, overridden: None, description: None, has_runs });
                }
            }
        }
        all.truncate(limit as usize);
        for one in &mut all {
            one.description = bases.get(&one.name).and_then(|base| base.description.clone());
        }
        Ok(all)
    }

    /// Returns true if runs of a workflow may be started: by its override, otherwise by the configuration [default:
    /// true].
    pub fn is_enabled(&self, name: &str) -> Result<bool> {
        let overridden = self.store.join.state().read(|tx| table::find(tx, name))?;
        Ok(is_enabled(&self.store.core.base_workflows, name, overridden.as_ref()))
    }

    /// Enables a workflow. Returns false if it was enabled by an override already. Its queued runs kept their places
    /// while it was disabled, and that time does not count as waiting.
    pub fn enable(&self, name: &str, by: Option<&str>) -> Result<bool> {
        self.set(name, true, by)
    }

    /// Disables a workflow: its runs cannot be started and do not leave the queue. Active runs continue. Returns false
    /// if it was disabled by an override already.
    pub fn disable(&self, name: &str, by: Option<&str>) -> Result<bool> {
        self.set(name, false, by)
    }

    /// Removes the override of a workflow. Returns false if there was none.
    pub fn clear(&self, name: &str) -> Result<bool> {
        let (name, bases) = (name.to_owned(), Arc::clone(&self.store.core.base_workflows));
        let now = self.store.join.clock().now();
        self.store.transact(Durability::Power, move |tx| {
            let overridden = table::find(tx, &name)?;
            let was_enabled = is_enabled(&bases, &name, overridden.as_ref());
            if !was_enabled && is_enabled(&bases, &name, None) {
                workflow_runs::restart_wait(tx, &name, now)?;
            }
            Ok((table::remove(tx, &name)?, Vec::new()))
        })
    }

    fn set(&self, name: &str, enabled: bool, by: Option<&str>) -> Result<bool> {
        rules::check_workflow(name)?;
        let updated_by = by.map(str::to_owned);
        rules::check_named("updated_by", updated_by.as_ref())?;
        let row = OverrideRow { name: name.to_owned(), enabled, updated_at: self.store.join.clock().now(), updated_by };
        let bases = Arc::clone(&self.store.core.base_workflows);
        self.store.transact(Durability::Power, move |tx| {
            let overridden = table::find(tx, &row.name)?;
            if overridden.as_ref().is_some_and(|overridden| overridden.enabled == enabled) {
                return Ok((false, Vec::new()));
            }
            if enabled && !is_enabled(&bases, &row.name, overridden.as_ref()) {
                workflow_runs::restart_wait(tx, &row.name, row.updated_at)?;
            }
            table::put(tx, &row)?;
            Ok((true, Vec::new()))
        })
    }
}

/// Returns true if runs of a workflow may be started. An override takes precedence over the configuration.
pub(crate) fn is_enabled(bases: &BaseWorkflows, name: &str, overridden: Option<&OverrideRow>) -> bool {
    overridden.map_or_else(|| bases.get(name).is_none_or(|base| base.enabled), |overridden| overridden.enabled)
}

impl Workflow {
    fn of(row: OverrideRow) -> Self {
        let overridden = Some((row.updated_at, row.updated_by));
        Self { name: row.name, enabled: row.enabled, overridden, description: None, has_runs: false }
    }
}

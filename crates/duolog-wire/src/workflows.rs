//! Workflows and their switches.

use duolog::workflows;
use schemars::JsonSchema;
use serde::Serialize;

use crate::page::Listed;

/// A workflow.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Workflow {
    /// Name.
    pub name: String,
    /// True if the workflow is enabled.
    pub enabled: bool,
    /// True if the workflow has runs.
    pub has_runs: bool,
    /// Time of the override; null if there is none.
    pub updated_at: Option<String>,
    /// Actor of the override.
    pub updated_by: Option<String>,
}

impl Listed for Workflow {
    const PLURAL: &'static str = "workflows";
}

impl From<&workflows::Workflow> for Workflow {
    fn from(workflow: &workflows::Workflow) -> Self {
        Self {
            name: workflow.name.clone(),
            enabled: workflow.enabled,
            has_runs: workflow.has_runs,
            updated_at: workflow.overridden.as_ref().map(|(at, _)| at.to_string()),
            updated_by: workflow.overridden.as_ref().and_then(|(_, by)| by.clone()),
        }
    }
}

/// A workflow that was enabled, disabled or reset to the configuration.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct WorkflowSwitched {
    /// The workflow.
    pub workflow_name: String,
    /// True if the workflow is enabled.
    pub enabled: bool,
    /// False if the workflow was already in this state.
    pub changed: bool,
}

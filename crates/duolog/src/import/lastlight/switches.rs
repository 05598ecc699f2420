//! Overrides of schedules and workflows.

use duolog_state::owned::cron_overrides::CronOverrideRow;
use duolog_state::owned::workflow_overrides::OverrideRow;
use duolog_types::limits::{NAME_BYTES_MAX, WORKFLOW_BYTES_MAX};

use super::model::NoteList;
use super::source::{ScheduleSource, WorkflowSource};
use super::taking::Taking;
use crate::runs::rules as runs;
use crate::schedules::Timetable;

/// Converts the override of a schedule. An invalid expression is left out; the enabled flag is kept.
pub fn schedule(source: &ScheduleSource, notes: &mut NoteList) -> Result<CronOverrideRow, String> {
    let mut taking = Taking::of("schedule", &source.name, notes);
    let name = Taking::name("name", &source.name, NAME_BYTES_MAX)?;
    let mut schedule = taking.text("schedule", &source.schedule, NAME_BYTES_MAX);
    if let Some(Err(bad)) = schedule.as_deref().map(|cron| Timetable::check(cron, "UTC")) {
        taking.note(format!("its schedule {} and is left out", bad.why));
        schedule = None;
    }
    let enabled = taking.yes("enabled", &source.enabled);
    if enabled.is_none() && schedule.is_none() {
        return Err("has nothing that can be imported".to_owned());
    }
    Ok(CronOverrideRow {
        name,
        enabled,
        schedule,
        zone: None,
        updated_at: Taking::beginning("updated_at", &source.updated_at)?,
        updated_by: taking.text("updated_by", &source.updated_by, NAME_BYTES_MAX),
    })
}

/// Converts the override of a workflow.
pub fn workflow(source: &WorkflowSource, notes: &mut NoteList) -> Result<OverrideRow, String> {
    let mut taking = Taking::of("workflow", &source.name, notes);
    let name = Taking::name("name", &source.name, WORKFLOW_BYTES_MAX)?;
    runs::check_workflow(&name).map_err(|error| error.to_string())?;
    let enabled = taking.yes("enabled", &source.enabled);
    Ok(OverrideRow {
        name,
        enabled: enabled.ok_or("has no enabled flag")?,
        updated_at: Taking::beginning("updated_at", &source.updated_at)?,
        updated_by: taking.text("updated_by", &source.updated_by, NAME_BYTES_MAX),
    })
}

//! `duolog workflows list`.

use clap::Args;
use duolog::workflows::Workflow;
use duolog::{Clock as _, SystemClock, Timestamp, limits};
use duolog_wire as wire;

use super::Context;
use crate::failure::{CommandResult, Ended};
use crate::figures;
use crate::out::{Column, Table, Tone};

const AFTER: &str = "\
Examples:
  duolog workflows list
  duolog workflows list --json | jq -r '.workflows[] | select(.enabled | not) | .name'

JSON:
  {\"workflows\": [{\"name\", \"enabled\", \"has_runs\", \"updated_at\", \"updated_by\"}], \"next\": token|null}
  updated_at and updated_by are null if the workflow has no setting; it is then enabled";

/// List workflows by name
///
/// A workflow is listed if it has runs, or was enabled or disabled.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct List {
    /// Maximum number of results [max: 200]
    #[arg(long, short = 'n', value_name = "N", default_value_t = limits::PAGE_DEFAULT)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::PAGE_MAX)))]
    limit: u32,
    /// Page token printed by the previous page
    #[arg(long, value_name = "TOKEN")]
    after: Option<String>,
}

impl List {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let found = match context.open_if_there()? {
            Some(store) => store.workflows().list(self.after.as_deref(), self.limit)?,
            None => Vec::new(),
        };
        let next = found.last().filter(|_| found.len() == self.limit as usize).map(|last| last.name.as_str());
        let page: wire::Page<wire::Workflow> = wire::Page::of(&found, next);
        context.out.page(&page, "there are no workflows yet", || table(&found, SystemClock.now()))?;
        Ok(Ended::Done)
    }
}

fn table(workflows: &[Workflow], now: Timestamp) -> Table {
    let mut table = Table::new(&[
        (Column::Word, "NAME"),
        (Column::Word, "ENABLED"),
        (Column::Word, "HAS_RUNS"),
        (Column::Text, "UPDATED_BY"),
        (Column::Word, "UPDATED_AT"),
    ])
    .dropping(&["UPDATED_AT", "UPDATED_BY", "HAS_RUNS"]);
    for workflow in workflows {
        let said = workflow.overridden.as_ref();
        table.row(vec![
            workflow.name.clone(),
            if workflow.enabled { "yes" } else { "no" }.to_owned(),
            if workflow.has_runs { "yes" } else { "no" }.to_owned(),
            said.and_then(|(_, by)| by.clone()).unwrap_or_default(),
            said.map(|(at, _)| figures::age(*at, now)).unwrap_or_default(),
        ]);
        table.tone(1, if workflow.enabled { Tone::Good } else { Tone::Worth });
    }
    table.without_empty("UPDATED_BY").without_empty("UPDATED_AT")
}

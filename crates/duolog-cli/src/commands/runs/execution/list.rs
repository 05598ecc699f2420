//! `duolog runs execution list`.

use clap::Args;
use duolog::{PageToken, TriggerType, limits};
use duolog_wire as wire;

use super::super::Context;
use crate::args;
use crate::failure::{CommandResult, Ended};
use crate::figures;
use crate::out::{Column, Table};

const AFTER: &str = "\
Examples:
  duolog runs execution list --trigger \"$thread\"
  duolog runs execution list --trigger acme/web#42 --trigger-type webhook --json

JSON:
  {\"executions\": [{… as runs phase end …}], \"next\": token|null}";

/// List the last executions of a trigger
///
/// The order is oldest first, and the next page has earlier executions. Executions of runs are included.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct List {
    /// Trigger id, such as a thread
    #[arg(long, value_name = "ID")]
    trigger: String,
    /// Trigger type
    #[arg(long, value_name = "KIND", default_value = "chat")]
    #[arg(value_parser = args::word(TriggerType::ALL, TriggerType::as_str))]
    trigger_type: TriggerType,
    /// Maximum number of results [max: 200]
    #[arg(long, short = 'n', value_name = "N", default_value_t = limits::PAGE_DEFAULT)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::PAGE_MAX)))]
    limit: u32,
    /// Page token printed by the previous page
    #[arg(long, value_name = "TOKEN")]
    after: Option<PageToken>,
}

impl List {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_read()?;
        let (ledger, after) = (store.runs().executions(), self.after.as_ref());
        let list = ledger.of_trigger(self.trigger_type, &self.trigger, self.limit, after)?;
        let all = list.executions;
        let page: wire::Page<wire::Execution> = wire::Page::of(&all, list.next);
        context.out.answer(&page, |text| {
            let mut table = Table::new(&[
                (Column::Id, "ID"),
                (Column::Word, "SKILL"),
                (Column::Word, "OUTCOME"),
                (Column::Id, "SESSION_ID"),
                (Column::Figure, "COST_USD"),
                (Column::Word, "STARTED_AT"),
            ])
            .dropping(&["STARTED_AT", "SESSION_ID", "COST_USD"]);
            for execution in &all {
                let end = execution.end.as_ref().map(|end| &end.finish);
                table.row(vec![
                    execution.id.to_string(),
                    execution.skill.clone(),
                    execution.outcome().to_string(),
                    execution.session_id.as_ref().map(ToString::to_string).unwrap_or_default(),
                    end.and_then(|end| end.cost).map(figures::dollars).unwrap_or_default(),
                    execution.started_at.to_string(),
                ]);
            }
            if !all.is_empty() {
                text.table(&table.without_empty("SESSION_ID").without_empty("COST_USD"));
            }
        })?;
        if all.is_empty() {
            context.out.note("no execution has this trigger");
        }
        if let Some(next) = page.next {
            context.out.note(format_args!("there are earlier executions: add --after {next}"));
        }
        Ok(Ended::Done)
    }
}

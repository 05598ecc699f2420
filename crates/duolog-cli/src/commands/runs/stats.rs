//! `duolog runs stats`.

use clap::Args;
use duolog::runs::{Rollup, RollupInterval, RollupQuery};
use duolog_wire as wire;

use super::Context;
use crate::failure::{CommandResult, Ended, Failure};
use crate::figures;
use crate::out::{Column, Table};

const AFTER: &str = "\
Examples:
  duolog runs stats
  duolog runs stats --hourly --last 48 --zone Europe/Berlin
  duolog runs stats --workflow build --json | jq '.rollups[] | [.period, .failed]'

JSON:
  {\"interval\": \"day\"|\"hour\", \"zone\": \"UTC\", \"workflow_name\": name|null,
   \"rollups\": [{\"period\": \"2026-01-31\", \"started\", \"succeeded\", \"failed\", \"skipped\", \"deferred\",
     \"in_flight\", \"turns\", \"duration_ms\", \"cost_usd\", \"input_tokens\",
     \"cache_creation_input_tokens\", \"cache_read_input_tokens\", \"output_tokens\"}],
   \"totals\": {… the same, period: null …}}
  the period of an hour is 2026-01-31T09:00 in the zone; empty periods are included;
  values that were not reported count as 0";

/// Show execution statistics by day or by hour
///
/// The statistics are the number of executions, their outcomes and their usage. An execution counts in the period in
/// which it started. Empty periods are shown.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Stats {
    /// Group by day (default)
    #[arg(long, conflicts_with = "hourly")]
    daily: bool,
    /// Group by hour
    #[arg(long)]
    hourly: bool,
    /// Number of periods up to the current one [default: 7 days or 24 hours, max: 366 days or 744 hours]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    last: Option<u32>,
    /// Time zone of the periods [default: UTC]
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// Filter by workflow name
    #[arg(long, value_name = "NAME")]
    workflow: Option<String>,
}

impl Stats {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let (every, word, usual, most) =
            if self.hourly { (RollupInterval::Hour, "hour", 24, 744) } else { (RollupInterval::Day, "day", 7, 366) };
        let last = self.last.unwrap_or(usual);
        if last > most {
            let message = format!("cannot show --last {last}: the limit is {}", figures::things(most.into(), word));
            return Err(Failure::Given { message, hint: None });
        }
        let query = RollupQuery { every, last, zone: self.zone, workflow: self.workflow };
        let store = context.open_to_read()?;
        let rollups = store.runs().rollups(&query)?;
        let total = rollups.iter().fold(Rollup::default(), |total, one| sum(&total, one));
        let shape = wire::Rollups {
            interval: word,
            zone: query.zone.clone().unwrap_or_else(|| "UTC".to_owned()),
            workflow_name: query.workflow.clone(),
            rollups: rollups.iter().map(wire::Rollup::from).collect(),
            totals: (&total).into(),
        };
        context.out.answer(&shape, |text| text.table(&table(&rollups, &total)))?;
        Ok(Ended::Done)
    }
}

fn sum(a: &Rollup, b: &Rollup) -> Rollup {
    Rollup {
        label: String::new(),
        started: a.started + b.started,
        succeeded: a.succeeded + b.succeeded,
        failed: a.failed + b.failed,
        skipped: a.skipped + b.skipped,
        deferred: a.deferred + b.deferred,
        in_flight: a.in_flight + b.in_flight,
        turns: a.turns + b.turns,
        duration_ms: a.duration_ms + b.duration_ms,
        cost: a.cost + b.cost,
        input_tokens: a.input_tokens + b.input_tokens,
        cache_creation_input_tokens: a.cache_creation_input_tokens + b.cache_creation_input_tokens,
        cache_read_input_tokens: a.cache_read_input_tokens + b.cache_read_input_tokens,
        output_tokens: a.output_tokens + b.output_tokens,
    }
}

fn table(rollups: &[Rollup], total: &Rollup) -> Table {
    let mut table = Table::new(&[
        (Column::Word, "PERIOD"),
        (Column::Figure, "STARTED"),
        (Column::Figure, "SUCCEEDED"),
        (Column::Figure, "FAILED"),
        (Column::Figure, "SKIPPED"),
        (Column::Figure, "DEFERRED"),
        (Column::Figure, "IN_FLIGHT"),
        (Column::Figure, "TURNS"),
        (Column::Figure, "DURATION"),
        (Column::Figure, "TOKENS"),
        (Column::Figure, "COST_USD"),
    ])
    .dropping(&["DEFERRED", "SKIPPED", "TURNS", "IN_FLIGHT", "DURATION", "TOKENS"]);
    for rollup in rollups {
        table.row(cells(&rollup.label, rollup));
    }
    table.row(cells("total", total));
    table
}

fn cells(label: &str, rollup: &Rollup) -> Vec<String> {
    let tokens =
        [rollup.input_tokens, rollup.cache_creation_input_tokens, rollup.cache_read_input_tokens, rollup.output_tokens];
    let counts = [rollup.started, rollup.succeeded, rollup.failed, rollup.skipped, rollup.deferred, rollup.in_flight];
    let mut cells = vec![label.to_owned()];
    cells.extend(counts.map(figures::count));
    cells.push(figures::count(rollup.turns));
    cells.push(figures::duration(rollup.duration_ms));
    cells.push(figures::count(tokens.iter().sum()));
    cells.push(figures::dollars(rollup.cost));
    cells
}

//! `duolog usage`, and what its reports share: arguments, shape and table.

mod daily;
mod model;
mod session;
mod workflow;

use clap::Args;
use duolog::limits;
use duolog::usage::{Day, UsageFilter, UsageLine, UsageReport, UsageToken, UsageTotal};
use duolog::{Money, PageOrder, Store};
use duolog_wire::{Listed, UsageList};

use super::Context;
use super::completeness::{self, Waiting};
use crate::failure::{CommandResult, Ended};
use crate::figures;
use crate::out::{Column, Table, Tone};

commands! {
/// What to show.
Usage {
    Daily(daily::Daily),
    Session(session::Session),
    Model(model::Model),
    Workflow(workflow::Workflow),
}}

/// Which usage, and which page of the report.
#[derive(Args)]
struct Asked {
    /// Filter by day: this day and later
    #[arg(long, value_name = "DAY")]
    since: Option<Day>,
    /// Filter by day: this day and earlier
    #[arg(long, value_name = "DAY")]
    until: Option<Day>,
    /// Time zone of the days, as Europe/Berlin or UTC [default: local]
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// Only this user's sessions
    #[arg(long, visible_alias = "user-email", value_name = "USER")]
    user: Option<String>,
    /// How many lines at the most
    #[arg(long, value_name = "N", default_value_t = limits::PAGE_DEFAULT)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::PAGE_MAX)))]
    limit: u32,
    /// Go on after a page: the token that it ended with
    #[arg(long, value_name = "TOKEN")]
    after: Option<UsageToken>,
    #[command(flatten)]
    waiting: Waiting,
}

/// How a report is called, and what its lines are about.
struct Report {
    /// What a line is about, over the table, and how it gives way.
    column: (Column, &'static str),
    /// Whether its lines have a name besides.
    name: bool,
    /// What stands where there is none.
    none: &'static str,
}

impl Report {
    /// Runs a report from question to answer, whose lines are of shape `T`.
    fn run<T: Listed + for<'a> From<&'a UsageLine>>(
        &self,
        asked: Asked,
        order: Option<PageOrder>,
        context: &mut Context<'_>,
        ask: impl FnOnce(&Store, &UsageFilter) -> duolog::Result<UsageReport>,
    ) -> CommandResult {
        let is_filtered =
            asked.since.is_some() || asked.until.is_some() || asked.user.is_some() || asked.after.is_some();
        let Asked { since, until, zone, user: user_id, limit, after, waiting } = asked;
        let zone = zone.or_else(|| jiff::tz::TimeZone::system().iana_name().map(str::to_owned));
        let filter = UsageFilter { since, until, zone, user_id, limit, after, order, ..UsageFilter::default() };
        let report = match context.open_if_there()? {
            Some(store) => ask(&store, &UsageFilter { wait: waiting.wait(context.out, &store)?, ..filter })?,
            None => UsageReport::default(),
        };
        context.out.answer(&UsageList::<T>::from(&report), |text| {
            if !report.lines.is_empty() {
                text.table(&self.table(&report));
            }
        })?;
        talk(context, &report, is_filtered);
        Ok(Ended::Done)
    }

    fn table(&self, report: &UsageReport) -> Table {
        let name = self.name.then_some((Column::Word, "SESSION_NAME"));
        let figures = [
            (Column::Figure, "RESPONSES"),
            (Column::Figure, "INPUT_TOKENS"),
            (Column::Figure, "OUTPUT_TOKENS"),
            (Column::Figure, "CACHE_READ_INPUT_TOKENS"),
            (Column::Figure, "CACHE_CREATION_INPUT_TOKENS"),
            (Column::Figure, "TOKENS"),
            (Column::Figure, "COST_USD"),
        ];
        let table = Table::new(&[self.column].into_iter().chain(name).chain(figures).collect::<Vec<_>>());
        let mut table = table.dropping(&[
            "CACHE_CREATION_INPUT_TOKENS",
            "CACHE_READ_INPUT_TOKENS",
            "RESPONSES",
            "INPUT_TOKENS",
            "OUTPUT_TOKENS",
            "TOKENS",
        ]);
        for line in &report.lines {
            let key = line.key.clone().unwrap_or_else(|| self.none.to_owned());
            table.row(self.cells(key, line.name.as_deref().unwrap_or("-"), &line.used));
            if line.key.is_none() {
                table.tone(0, Tone::Faint);
            }
        }
        let total = if report.behind.is_complete() { "total" } else { "total (incomplete)" };
        table.row(self.cells(total.to_owned(), "", &report.total));
        table
    }

    fn cells(&self, key: String, name: &str, used: &UsageTotal) -> Vec<String> {
        let written = used.tokens.cache_write_5m.saturating_add(used.tokens.cache_write_1h);
        let tokens = &used.tokens;
        let counts = [used.responses, tokens.input, tokens.output, tokens.cache_read, written, tokens.total()];
        let mut cells = vec![key];
        cells.extend(self.name.then(|| name.to_owned()));
        cells.extend(counts.map(figures::count));
        cells.push(cost(used));
        cells
    }
}

fn talk(context: &Context<'_>, report: &UsageReport, is_filtered: bool) {
    if report.lines.is_empty() {
        context.out.note(if is_filtered {
            "nothing was used like that"
        } else {
            "nothing was used yet; tokens are counted from what logs say, once there are some"
        });
    }
    if !report.total.unpriced.is_empty() {
        let named = report.total.unpriced.iter().map(|model| model.as_deref().unwrap_or("(no name)"));
        let named = named.collect::<Vec<_>>().join(", ");
        context
            .out
            .note(format_args!("not in the cost, for want of a price: {named}; set one: duolog config show --help"));
    }
    completeness::alert(context.out, &report.behind);
    context.out.more(report.next.as_ref());
}

/// Dollars to a hundredth of a cent; with a plus where more was used than has a price.
fn cost(used: &UsageTotal) -> String {
    let more = if used.unpriced.is_empty() { "" } else { "+" };
    match used.cost {
        Some(cost) => figures::dollars(cost) + more,
        None if used.unpriced.is_empty() => figures::dollars(Money::ZERO),
        None => "-".to_owned(),
    }
}

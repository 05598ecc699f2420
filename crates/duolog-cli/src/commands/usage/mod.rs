//! `duolog usage`: the list of its reports, and the arguments and table that they share.

mod daily;
mod model;
mod session;
mod workflow;

use clap::Args;
use duolog::limits;
use duolog::usage::{self, Day, UsageFilter, UsageLine, UsageReport, UsageToken, UsageTotal};
use duolog::{Money, PageOrder};
use duolog_wire::{Listed, UsageList};

use super::Context;
use super::completeness::{self, Waiting};
use crate::args::LogsDir;
use crate::failure::{CommandResult, Ended};
use crate::figures;
use crate::out::{Column, Table, Tone};

commands! {
/// Subcommands of `duolog usage`.
Usage {
    Daily(daily::Daily),
    Session(session::Session),
    Model(model::Model),
    Workflow(workflow::Workflow),
}}

/// Filters and page of a report.
#[derive(Args)]
struct Asked {
    /// First day of the range
    #[arg(long, value_name = "DAY")]
    since: Option<Day>,
    /// Last day of the range
    #[arg(long, value_name = "DAY")]
    until: Option<Day>,
    /// Time zone of the days, like Europe/Berlin or UTC [default: local time zone]
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// Filter by user
    #[arg(long = "user-email", value_name = "USER", conflicts_with = "logs_dir")]
    user: Option<String>,
    /// Maximum number of results [max: 200]
    #[arg(long, short = 'n', value_name = "N", default_value_t = limits::PAGE_DEFAULT)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::PAGE_MAX)))]
    limit: u32,
    /// Page token printed by the previous page
    #[arg(long, value_name = "TOKEN")]
    after: Option<UsageToken>,
    #[command(flatten)]
    logs_dir: LogsDir,
    #[command(flatten)]
    waiting: Waiting,
}

/// Describes the table of a report.
struct Report {
    /// Kind and header of the first column.
    column: (Column, &'static str),
    /// True if the table has a column for the session name.
    name: bool,
    /// Text of the first column if the key is null.
    none: &'static str,
}

impl Report {
    /// Runs a report and prints it; `T` is the JSON shape of a line.
    fn run<T: Listed + for<'a> From<&'a UsageLine>>(
        &self,
        asked: Asked,
        order: Option<PageOrder>,
        context: &mut Context<'_>,
        ask: impl FnOnce(&usage::Usage, &UsageFilter) -> duolog::Result<UsageReport>,
    ) -> CommandResult {
        let is_filtered =
            asked.since.is_some() || asked.until.is_some() || asked.user.is_some() || asked.after.is_some();
        let Asked { since, until, zone, user: user_id, limit, after, logs_dir, waiting } = asked;
        let zone = zone.or_else(|| jiff::tz::TimeZone::system().iana_name().map(str::to_owned));
        let filter = UsageFilter { since, until, zone, user_id, limit, after, order, ..UsageFilter::default() };
        let config = context.config()?;
        let (report, unread) = if let Some(directory) = logs_dir.open(&config.limits())? {
            let bar = context.out.progress("reading");
            let used = usage::Usage::of_directory(&directory, config.prices(), &mut |done, of| bar.set(done, Some(of)));
            drop(bar);
            (ask(&used, &filter)?, Some(used))
        } else {
            let report = match context.open_if_there()? {
                Some(store) => {
                    ask(&store.usage(), &UsageFilter { wait: waiting.wait(context.out, &store)?, ..filter })?
                }
                None => UsageReport::default(),
            };
            (report, None)
        };
        context.out.answer(&UsageList::<T>::from(&report), |text| {
            if !report.lines.is_empty() {
                text.table(&self.table(&report));
            }
        })?;
        talk(context, &report, is_filtered);
        match unread {
            Some(used) => alert_unread(context, &used),
            None => completeness::alert(context.out, &report.behind),
        }
        context.out.more(report.next.as_ref());
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
            "no usage matches the filter"
        } else {
            "there is no usage yet; tokens are counted from the logs"
        });
    }
    if !report.total.unpriced.is_empty() {
        let unpriced = &report.total.unpriced;
        let quoted = |model: &str| format!("\"{model}\"");
        let named = unpriced.iter().map(|model| model.as_deref().map_or_else(|| "(no name)".to_owned(), quoted));
        let named = named.collect::<Vec<_>>().join(", ");
        let (models, it_is) = if unpriced.len() == 1 { ("model", "it is") } else { ("models", "they are") };
        context.out.note(format_args!(
            "no price is known for {models} {named}; {it_is} not in the total; run: duolog config show --help"
        ));
    }
}

/// Warns of what was not counted in a directory.
fn alert_unread(context: &Context<'_>, used: &usage::Usage) {
    for (path, why) in used.unread() {
        context.out.alert(format_args!("the counts are incomplete: {} was not read: {why}", path.display()));
    }
    if used.damaged() > 0 {
        let lines = figures::things(used.damaged(), "damaged line");
        context.out.alert(format_args!("the counts are incomplete: {lines} not counted"));
    }
}

/// Formats the cost in dollars, to a hundredth of a cent. A plus sign means that models without a price were used.
fn cost(used: &UsageTotal) -> String {
    let more = if used.unpriced.is_empty() { "" } else { "+" };
    match used.cost {
        Some(cost) => figures::dollars(cost) + more,
        None if used.unpriced.is_empty() => figures::dollars(Money::ZERO),
        None => "-".to_owned(),
    }
}

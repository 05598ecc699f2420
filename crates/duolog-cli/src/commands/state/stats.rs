//! `duolog state stats`.

use clap::Args;
use duolog::SessionStatus;
use duolog::state::{self, risk_of};
use duolog_wire as wire;

use super::super::completeness::{self, Waiting};
use super::Context;
use crate::failure::{CommandResult, Ended};
use crate::figures;
use crate::out::{Column, Table, Text, Tone};

const AFTER: &str = "\
Examples:
  duolog state stats
  duolog state stats --json | jq .logs.bytes

JSON:
  {\"database\": {\"engine\", \"path\", \"bytes\", \"wal_bytes\", \"unsafe_settings\": {\"fsync\": \"off\", …}},
   \"tables\": {\"sessions\": 3, …},
   \"statuses\": {\"sessions\": {\"running\": 1, \"unset\": 2, …}, \"workflow_runs\": {\"paused\": 1, …}},
   \"logs\": {\"files\", \"bytes\", \"events\"}, \"complete\": true, \"missing\": {… as sessions list …},
   \"pragmas\": {\"journal_mode\": \"wal\", …}}
  unset counts sessions without a status; logs counts the log lines that are folded into the state;
  complete is false if some are not folded yet
  on a server, path is its address without the password, bytes is the size of Duolog's tables,
  wal_bytes is null, pragmas are its settings, and unsafe_settings those that risk data";

/// The maximum width of a line of settings, in characters.
const SETTINGS_CHARS: usize = 86;

/// Show database sizes, row counts and settings
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Stats {
    #[command(flatten)]
    waiting: Waiting,
}

impl Stats {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_read()?;
        let wait = self.waiting.wait(context.out, &store)?;
        let stats = store.state().stats_within(wait)?;
        context.out.answer(&wire::Stats::from(&stats), |text| show(text, &stats))?;
        completeness::alert(context.out, &stats.behind);
        for (name, value) in &stats.state.engine_stats.unsafe_settings {
            context.out.warn(format_args!("{name} is {value} on the server: {}", risk_of(name)));
        }
        Ok(Ended::Done)
    }
}

fn show(text: &mut Text, stats: &state::Stats) {
    let (store, logs, database) = (&stats.state, &stats.logs, &stats.state.engine_stats);
    text.field("database", &store.place);
    text.field("engine", &database.engine);
    let wal = database.wal_bytes.map(|bytes| format!(", write-ahead log {}", figures::size(bytes)));
    text.field("size", figures::size(database.bytes) + &wal.unwrap_or_default());
    let (files, bytes) = (figures::things(logs.files, "file"), figures::size(logs.bytes));
    text.field("logs", format_args!("{files}, {bytes}, {}", figures::things(logs.events, "event")));
    let sessions = store.statuses.iter().map(|(status, rows)| (status.map_or("unset", SessionStatus::as_str), *rows));
    let runs = store.run_statuses.iter().map(|(status, rows)| (status.as_str(), *rows));
    let named = |(name, rows): (&str, u64)| format!("{} {name}", figures::count(rows));
    let statuses: [(&str, Vec<String>); 2] =
        [("sessions", sessions.map(named).collect()), ("runs", runs.map(named).collect())];
    for (what, named) in statuses.iter().filter(|(_, named)| !named.is_empty()) {
        text.field(what, named.join(", "));
    }
    for (at, line) in filled(database.settings.iter().map(|(name, value)| format!("{name}={value}"))).iter().enumerate()
    {
        text.field(if at == 0 { "settings" } else { "" }, text.tone(Tone::Faint, line));
    }
    let mut table = Table::new(&[(Column::Word, "TABLE"), (Column::Figure, "ROWS")]);
    for (name, rows) in &store.rows {
        table.row(vec![name.clone(), figures::count(*rows)]);
    }
    text.line("");
    text.table(&table);
}

/// Joins words into as few lines as possible.
fn filled(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if line.len() + word.len() < SETTINGS_CHARS => *line = format!("{line}  {word}"),
            _ => lines.push(word),
        }
    }
    lines
}

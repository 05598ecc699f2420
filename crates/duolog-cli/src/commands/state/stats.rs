//! `duolog state stats`.

use clap::Args;
use duolog::state::risk_of;
use serde::{Serialize, Serializer};

use super::super::completeness::{self, Completeness};
use super::Context;
use crate::failure::{Ended, Outcome};
use crate::figures;
use crate::out::{Column, Table, Text, Tone};

const AFTER: &str = "\
Examples:
  duolog state stats
  duolog state stats --json | jq .logs.bytes

JSON:
  {\"database\": {\"engine\", \"path\", \"bytes\", \"wal_bytes\", \"unsafe\": {\"fsync\": \"off\", …}},
   \"tables\": {\"sessions\": 3, …},
   \"statuses\": {\"sessions\": {\"running\": 1, \"unset\": 2, …}, \"workflow_runs\": {\"paused\": 1, …}},
   \"logs\": {\"files\", \"bytes\", \"events\"},
   \"complete\": true, \"behind\": {\"sessions\", \"bytes\", \"sessions_elsewhere\", \"sessions_lost\", \"bytes_lost\"},
   \"pragmas\": {\"journal_mode\": \"wal\", …}}
  unset counts those of which nobody has said how they stand; complete is false if events do not
  count all log lines; behind tells what is missing
  on a server path is its address without the password, bytes is what our tables take, wal_bytes is
  null, pragmas are its settings, and unsafe those of them that are off and should be on";

/// The characters of one line of settings.
const SETTINGS_CHARS: usize = 86;

/// Show sizes, rows and settings
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Stats {}

#[derive(Serialize)]
struct Answer<'a> {
    database: Database<'a>,
    tables: Pairs<'a, u64>,
    statuses: Statuses<'a>,
    logs: Logs,
    #[serde(flatten)]
    completeness: Completeness,
    pragmas: Pairs<'a, String>,
}

#[derive(Serialize)]
struct Database<'a> {
    engine: &'a str,
    path: &'a str,
    bytes: u64,
    wal_bytes: Option<u64>,
    r#unsafe: Pairs<'a, String>,
}

#[derive(Serialize)]
struct Statuses<'a> {
    sessions: Pairs<'a, u64>,
    workflow_runs: Pairs<'a, u64>,
}

#[derive(Serialize)]
struct Logs {
    files: u64,
    bytes: u64,
    events: u64,
}

/// Names with values, as an object in their order.
struct Pairs<'a, T>(&'a [(String, T)]);

impl<T: Serialize> Serialize for Pairs<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl Stats {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        let Self {} = self;
        let store = context.open_to_read()?;
        let stats = store.state().stats()?;
        let named = stats
            .state
            .statuses
            .iter()
            .map(|(status, number)| (status.map_or("unset", duolog::SessionStatus::as_str).to_owned(), *number));
        let statuses: Vec<(String, u64)> = named.collect();
        let runs = stats.state.run_statuses.iter().map(|(status, number)| (status.as_str().to_owned(), *number));
        let run_statuses: Vec<(String, u64)> = runs.collect();
        let figures = &stats.state.figures;
        let answer = Answer {
            database: Database {
                engine: &figures.engine,
                path: &stats.state.place,
                bytes: figures.bytes,
                wal_bytes: figures.wal_bytes,
                r#unsafe: Pairs(&figures.unsafe_settings),
            },
            tables: Pairs(&stats.state.rows),
            statuses: Statuses { sessions: Pairs(&statuses), workflow_runs: Pairs(&run_statuses) },
            logs: Logs { files: stats.logs.files, bytes: stats.logs.bytes, events: stats.logs.events },
            completeness: (&stats.behind).into(),
            pragmas: Pairs(&figures.settings),
        };
        context.out.answer(&answer, |text| show(text, &answer))?;
        completeness::alert(context.out, &stats.behind);
        for (name, value) in &figures.unsafe_settings {
            context.out.warn(format_args!("{name} is {value} on the server: {}", risk_of(name)));
        }
        Ok(Ended::Done)
    }
}

fn show(text: &mut Text, answer: &Answer<'_>) {
    let Answer { database, tables, statuses, logs, pragmas, .. } = answer;
    text.field("database", database.path);
    text.field("engine", database.engine);
    let wal = database.wal_bytes.map(|bytes| format!(", write-ahead log {}", figures::size(bytes)));
    text.field("size", figures::size(database.bytes) + &wal.unwrap_or_default());
    let (files, bytes) = (figures::things(logs.files, "file"), figures::size(logs.bytes));
    text.field("logs", format_args!("{files}, {bytes}, {}", figures::things(logs.events, "event")));
    for (what, numbers) in [("sessions", &statuses.sessions), ("runs", &statuses.workflow_runs)] {
        if !numbers.0.is_empty() {
            let named = numbers.0.iter().map(|(name, number)| format!("{} {name}", figures::count(*number)));
            text.field(what, named.collect::<Vec<_>>().join(", "));
        }
    }
    for (at, line) in filled(pragmas.0.iter().map(|(name, value)| format!("{name}={value}"))).iter().enumerate() {
        text.field(if at == 0 { "settings" } else { "" }, text.tone(Tone::Faint, line));
    }
    let mut table = Table::new(&[(Column::Word, "TABLE"), (Column::Figure, "ROWS")]);
    for (name, rows) in tables.0 {
        table.row(vec![name.clone(), figures::count(*rows)]);
    }
    text.line("");
    text.table(&table);
}

/// The words on as few lines as hold them.
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

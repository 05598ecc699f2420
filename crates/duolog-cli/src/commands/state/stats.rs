//! `duolog state stats`.

use clap::Args;
use serde::{Serialize, Serializer};

use super::Context;
use crate::failure::{Ended, Outcome};
use crate::figures;
use crate::out::{Column, Table, Text, Tone};

const AFTER: &str = "\
Examples:
  duolog state stats
  duolog state stats --json | jq .logs.bytes

JSON:
  {\"database\": {\"engine\", \"path\", \"bytes\", \"wal_bytes\"},
   \"tables\": {\"sessions\": 3, …},
   \"statuses\": {\"sessions\": {\"running\": 1, \"unset\": 2, …}},
   \"logs\": {\"files\", \"bytes\", \"events\"},
   \"behind\": {\"sessions\", \"bytes\"},
   \"pragmas\": {\"journal_mode\": \"wal\", …}}
  unset counts those of which nobody has said how they stand; behind says how far events lag";

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
    behind: Behind,
    pragmas: Pairs<'a, String>,
}

#[derive(Serialize)]
struct Database<'a> {
    engine: &'a str,
    path: String,
    bytes: u64,
    wal_bytes: u64,
}

#[derive(Serialize)]
struct Statuses<'a> {
    sessions: Pairs<'a, u64>,
}

#[derive(Serialize)]
struct Logs {
    files: u64,
    bytes: u64,
    events: u64,
}

#[derive(Serialize)]
struct Behind {
    sessions: u64,
    bytes: u64,
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
        let answer = Answer {
            database: Database {
                engine: &stats.state.engine,
                path: stats.state.path.display().to_string(),
                bytes: stats.state.bytes,
                wal_bytes: stats.state.wal_bytes,
            },
            tables: Pairs(&stats.state.rows),
            statuses: Statuses { sessions: Pairs(&statuses) },
            logs: Logs { files: stats.logs.files, bytes: stats.logs.bytes, events: stats.logs.events },
            behind: Behind { sessions: stats.behind.sessions_behind, bytes: stats.behind.bytes_behind },
            pragmas: Pairs(&stats.state.settings),
        };
        context.out.answer(&answer, |text| show(text, &answer))?;
        Ok(Ended::Done)
    }
}

fn show(text: &mut Text, answer: &Answer<'_>) {
    let Answer { database, tables, statuses, logs, behind, pragmas } = answer;
    text.field("database", &database.path);
    text.field("engine", database.engine);
    let wal = figures::size(database.wal_bytes);
    text.field("size", format_args!("{}, write-ahead log {wal}", figures::size(database.bytes)));
    let (files, bytes) = (figures::things(logs.files, "file"), figures::size(logs.bytes));
    text.field("logs", format_args!("{files}, {bytes}, {}", figures::things(logs.events, "event")));
    if behind.bytes > 0 {
        let sessions = figures::things(behind.sessions, "session");
        text.field("behind", format_args!("{sessions} by {}", figures::size(behind.bytes)));
    }
    if !statuses.sessions.0.is_empty() {
        let named = statuses.sessions.0.iter().map(|(name, number)| format!("{} {name}", figures::count(*number)));
        text.field("sessions", named.collect::<Vec<_>>().join(", "));
    }
    let settings = pragmas.0.iter().map(|(name, value)| format!("{name}={value}"));
    let settings: Vec<String> = settings.collect();
    for (at, some) in settings.chunks(4).enumerate() {
        text.field(if at == 0 { "settings" } else { "" }, text.tone(Tone::Faint, &some.join("  ")));
    }
    let mut table = Table::new(&[(Column::Word, "TABLE"), (Column::Figure, "ROWS")]);
    for (name, rows) in tables.0 {
        table.row(vec![name.clone(), figures::count(*rows)]);
    }
    text.line("");
    text.table(&table);
}

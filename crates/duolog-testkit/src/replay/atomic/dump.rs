//! The content of a home that cannot be rebuilt: owned tables and logs, as lines that are comparable between runs.

use std::collections::HashSet;
use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Map, Value};

use crate::postgres::Database;
use crate::replay::template::Copied;

/// Tables that are not compared, each with its reason. Every other table is.
const LEFT_OUT: [&str; 8] = [
    // Lines that are pending for a log: the logs are compared after the home was opened, which copies them.
    "outbox_lines",
    // Marks of processes that may have appended lines that are not folded.
    "behind",
    // The synced and hashed part of a log: the next fold updates it.
    "seals",
    // Derived from the logs: a fold may come before or after the kill.
    "catalog",
    "digests",
    "responses",
    "usage_by_quarter",
    // Summed up below: on a server its rows are spread over random slots.
    "execution_rollups",
];
const SUMMED: &str = "SELECT 'execution_rollups' AS source, workflow, SUM(started) AS started, \
    SUM(succeeded) AS succeeded, SUM(failed) AS failed, SUM(skipped) AS skipped, SUM(deferred) AS deferred, \
    SUM(turns) AS turns, SUM(input_tokens) AS input_tokens, SUM(cost_picos) AS cost_picos \
    FROM execution_rollups GROUP BY workflow";

/// Returns every row of the compared tables and every line of the logs.
pub(super) fn raw(copied: &Copied) -> Result<Vec<String>, String> {
    let mut lines = match copied.database() {
        Some(database) => of_server(database)?,
        None => {
            of_file(&copied.home.at.join("state/state.db")).map_err(|error| format!("reading the state: {error}"))?
        }
    };
    // Opening the home repairs torn tails and records the repair: a killed writer leaves them, whatever the command.
    let mended = ["completed", "quarantined", "terminated"].map(|action| format!("\"action\":\"{action}\""));
    lines.retain(|line| !(line.starts_with("repairs ") && mended.iter().any(|mended| line.contains(mended))));
    // The path of the home, which a server stores: every copy of a home has its own directory.
    lines.retain(|line| !line.starts_with("schema_meta {\"key\":\"home/"));
    lines.extend(logs(&copied.home.at.join("state"), &lines).map_err(|error| format!("reading the logs: {error}"))?);
    Ok(lines)
}

fn of_file(path: &Path) -> rusqlite::Result<Vec<String>> {
    let state = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
    let tables: Vec<String> = state.prepare(tables)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let compared = tables.into_iter().filter(|table| !LEFT_OUT.contains(&table.as_str()));
    let queries = compared.map(|table| format!("SELECT '{table}' AS source, t.* FROM {table} t"));
    let mut lines = Vec::new();
    for query in queries.chain([SUMMED.to_owned()]) {
        let mut rows = state.prepare(&query)?;
        let names: Vec<String> = rows.column_names().map(str::to_owned).collect();
        let mut rows = rows.query([])?;
        while let Some(row) = rows.next()? {
            let mut object = Map::new();
            for (at, name) in names.iter().enumerate().skip(1) {
                object.insert(name.clone(), json(row.get_ref(at)?));
            }
            lines.push(format!("{} {}", row.get::<_, String>(0)?, Value::Object(object)));
        }
    }
    Ok(lines)
}

fn json(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
        ValueRef::Blob(bytes) => format!("{bytes:02x?}").into(),
    }
}

fn of_server(database: &Database) -> Result<Vec<String>, String> {
    let run = |sql: &str| database.run_sql(sql).map_err(|error| format!("reading the state: {error}"));
    let tables = run("SELECT table_name FROM information_schema.tables \
        WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'")?;
    let compared = tables.lines().filter(|table| !LEFT_OUT.contains(table));
    let queries = compared.map(|table| format!("SELECT '{table} ' || row_to_json(t)::text FROM {table} t;"));
    let summed = format!("SELECT 'execution_rollups ' || row_to_json(t)::text FROM ({SUMMED}) t;");
    let all: Vec<String> = queries.chain([summed]).collect();
    Ok(run(&all.join("\n"))?.lines().map(str::to_owned).collect())
}

/// Returns the lines of the sessions' logs. A file without a row is ignored: a killed import leaves one.
fn logs(state: &Path, rows: &[String]) -> std::io::Result<Vec<String>> {
    let mut lines = Vec::new();
    for row in rows.iter().filter_map(|row| row.strip_prefix("sessions ")) {
        let row: Value = serde_json::from_str(row)?;
        let path = row["log_path"].as_str().unwrap_or_default();
        let text = match std::fs::read_to_string(state.join(path)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            other => other?,
        };
        lines.extend(text.lines().enumerate().map(|(at, line)| format!("log of {} {at}: {line}", row["id"])));
    }
    Ok(lines)
}

/// Returns the ids and timestamps of a home, which are not new.
pub(super) fn known(raw: &[String]) -> HashSet<String> {
    let mut known = HashSet::new();
    for line in raw {
        replaced(line, |token| {
            known.insert(token.to_owned());
            None
        });
    }
    known
}

/// Replaces everything that differs between runs: new ids and timestamps, durations, generated numbers.
pub(super) fn canonical(raw: &[String], known: &HashSet<String>) -> Vec<String> {
    let mut lines: Vec<String> = raw
        .iter()
        .map(|line| {
            let fresh = |token: &str, name: &'static str| (!known.contains(token)).then_some(name);
            let line =
                replaced(line, |token| fresh(token, SHAPES.iter().find(|shape| shape.0.len() == token.len())?.1));
            // Values of a sequence, which a rolled back transaction does not return; and durations.
            let drawn = if line.starts_with("message_embeddings ") { "\"seq\":" } else { "\"id\":" };
            let keys = [drawn, "\\\"id\\\":", "duration_ms\":", "duration_ms\\\":"];
            without_state(keys.iter().fold(line, |line, key| without_number(&line, key)))
        })
        .collect();
    lines.sort_unstable();
    lines
}

/// Removes the hash of the state from the name of a log: a copy of the home has its own database.
fn without_state(mut line: String) -> String {
    const HASH: usize = 12;
    let mut from = 0;
    while let Some(at) = line[from..].find(".jsonl").map(|at| from + at) {
        from = at + 1;
        let Some(plus) = at.checked_sub(HASH + 1) else { continue };
        let is_hash = line.get(plus..at).and_then(|mark| mark.strip_prefix('+'));
        if is_hash.is_some_and(|hash| hash.bytes().all(|byte| byte.is_ascii_hexdigit())) {
            line.replace_range(plus..at, "");
            from = plus + 1;
        }
    }
    line
}

/// Returns the lines of the first that are not in the second.
pub(super) fn missing<'a>(from: &'a [String], other: &[String]) -> Vec<&'a str> {
    let mut left: Vec<&str> = other.iter().map(String::as_str).collect();
    let mut missing = Vec::new();
    for line in from {
        match left.iter().position(|other| other == line) {
            Some(at) => drop(left.swap_remove(at)),
            None => missing.push(line.as_str()),
        }
    }
    missing
}

/// The shapes that differ between runs and their replacements: ids, timestamps, and the suffix of a log's name if
/// another file has the plain name.
const SHAPES: [(&str, &str); 3] = [
    ("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", "<id>"),
    ("dddd-dd-ddTdd:dd:dd.ddddddZ", "<instant>"),
    ("-xxxxxxxx.jsonl", "-<free>.jsonl"),
];

/// Replaces the parts of a text that have one of the shapes.
fn replaced(text: &str, mut by: impl FnMut(&str) -> Option<&'static str>) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while !rest.is_empty() {
        let shaped = |(shape, _): &(&str, &str)| rest.get(..shape.len()).filter(|part| fits(part, shape));
        let token = SHAPES.iter().find_map(shaped);
        let step = token.map_or_else(|| rest.chars().next().map_or(1, char::len_utf8), str::len);
        out.push_str(token.and_then(&mut by).unwrap_or(&rest[..step]));
        rest = &rest[step..];
    }
    out
}

fn fits(text: &str, shape: &str) -> bool {
    text.bytes().zip(shape.bytes()).all(|(byte, shape)| match shape {
        b'x' => byte.is_ascii_hexdigit(),
        b'd' => byte.is_ascii_digit(),
        other => byte == other,
    })
}

/// Replaces the digits that follow a key.
fn without_number(text: &str, key: &str) -> String {
    let mut parts = text.split(key);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|digit: char| digit.is_ascii_digit());
        out.push_str(key);
        out.push_str(if rest.len() < part.len() { "<n>" } else { "" });
        out.push_str(rest);
    }
    out
}

//! Changes the values of a fixture one at a time and checks that the suite notices each: after an import of the changed
//! copy, the result must differ from the rows of the fixture.
//!
//! In every column of every imported table one value is changed, one is set to NULL, and one NULL is filled, as far as
//! the table has such rows. Columns whose changes cannot be noticed are listed with the reason; a listed column whose
//! change is noticed is an error too.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rusqlite::types::Value as Sql;
use rusqlite::{Connection, ErrorCode};
use serde_json::Value;

use super::source::{self, Row, Rows};
use super::{Verdict, conversations, documents, runs};

/// The columns whose changes cannot be noticed, by system and table, and the reason.
const UNNOTICED: [(&str, &str, &str, &str); 2] = [
    ("lastlight", "messaging_sessions", "message_count", "messages are counted at import: theirs is often wrong"),
    ("lastlight", "messaging_messages", "id", "messages get new numbers; their order is compared"),
];

/// A database that is imported.
struct System {
    name: &'static str,
    database: &'static str,
    tables: &'static [&'static str],
    /// Returns true if a row of a table is imported.
    is_mapped: fn(&str, &Row) -> bool,
    /// Imports a database and compares the result with these rows.
    differences: fn(&Path, &Rows) -> io::Result<Vec<String>>,
}

static SYSTEMS: [System; 3] = [
    System {
        name: "lionagi",
        database: "lionagi/v4_0.36.0/state.db",
        tables: &documents::LIONAGI,
        is_mapped: |table, row| table != "status_transitions" || documents::is_of_session(row),
        differences: conversations::lionagi_differences,
    },
    System {
        name: "skillet",
        database: "skillet/home/state/.agent_sessions.sqlite",
        tables: &documents::SKILLET,
        is_mapped: |_, _| true,
        differences: conversations::skillet_differences,
    },
    System {
        name: "lastlight",
        database: "lastlight/doc-era/lastlight.db",
        tables: &runs::TABLES,
        is_mapped: |_, _| true,
        differences: runs::differences,
    },
];

/// One changed value of one row.
struct Mutation {
    system: &'static System,
    table: &'static str,
    column: String,
    rowid: i64,
    values: Vec<Sql>,
    description: String,
}

/// Changes every column of every imported table, and reports the changes that were not noticed.
pub(super) fn check(fixtures: &Path) -> io::Result<Vec<Verdict>> {
    let mut verdict = Verdict::of("mutations");
    let (mut mutations, mut known) = (Vec::new(), Vec::new());
    for system in &SYSTEMS {
        let database = fixtures.join(system.database);
        if !database.is_file() {
            continue;
        }
        let copy = tempfile::tempdir()?;
        let copied = copy.path().join("copy.db");
        std::fs::copy(&database, &copied)?;
        let rows = source::read(&copied, system.tables)?;
        for difference in (system.differences)(&copied, &rows)? {
            verdict.differences.push(format!("{} unchanged: {difference}", system.name));
        }
        mutations.extend(of_system(system, &copied, &rows)?);
        known.push((system.name, copy, rows));
    }
    let (next, changes, errors) =
        (AtomicUsize::new(0), Mutex::new(vec![Change::Impossible; mutations.len()]), Mutex::new(Vec::new()));
    let one = |number: usize| -> io::Result<Change> {
        let mutation: &Mutation = &mutations[number];
        let Some((_, copy, rows)) = known.iter().find(|(name, _, _)| *name == mutation.system.name) else {
            return Ok(Change::Impossible);
        };
        let place = tempfile::tempdir()?;
        let database = place.path().join("changed.db");
        std::fs::copy(copy.path().join("copy.db"), &database)?;
        if !mutation.apply(&database)? {
            return Ok(Change::Impossible);
        }
        // A failed import or comparison is noticed too.
        let differs = !matches!((mutation.system.differences)(&database, rows), Ok(found) if found.is_empty());
        Ok(if differs { Change::Noticed } else { Change::Unnoticed })
    };
    let workers = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= mutations.len() {
                        break;
                    }
                    match one(number) {
                        Ok(change) => changes.lock().unwrap_or_else(PoisonError::into_inner)[number] = change,
                        Err(error) => errors.lock().unwrap_or_else(PoisonError::into_inner).push(error),
                    }
                }
            });
        }
    });
    if let Some(error) = errors.into_inner().unwrap_or_else(PoisonError::into_inner).pop() {
        return Err(error);
    }
    let changes = changes.into_inner().unwrap_or_else(PoisonError::into_inner);
    add_result(&mut verdict, &mutations, &changes);
    Ok(vec![verdict])
}

/// The result of a mutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Noticed,
    Unnoticed,
    /// The table rejects every such value.
    Impossible,
}

fn add_result(verdict: &mut Verdict, mutations: &[Mutation], changes: &[Change]) {
    let (mut seen, mut listed) = (0, 0);
    for (mutation, change) in mutations.iter().zip(changes) {
        let is_listed = UNNOTICED.iter().any(|(system, table, column, _)| {
            (*system, *table, *column) == (mutation.system.name, mutation.table, mutation.column.as_str())
        });
        match (change, is_listed) {
            (Change::Impossible, _) => {}
            (Change::Noticed, false) => seen += 1,
            (Change::Unnoticed, true) => listed += 1,
            (Change::Noticed, true) => {
                verdict.differences.push(format!("{} is noticed but listed as not", mutation.description));
            }
            (Change::Unnoticed, false) => verdict.differences.push(format!("{} is not noticed", mutation.description)),
        }
    }
    let made = changes.iter().filter(|change| **change != Change::Impossible).count();
    for (system, table, column, _) in UNNOTICED {
        let is_there = mutations.iter().any(|one| (one.table, one.column.as_str()) == (table, column));
        if mutations.iter().any(|one| one.system.name == system) && !is_there {
            verdict.differences.push(format!("{system} {table}.{column} is listed but is not imported"));
        }
    }
    verdict.counts = format!("{seen} of {made} noticed, {listed} listed with reasons");
    let reason = |(system, table, column, why): &(&str, &str, &str, &str)| format!("{system} {table}.{column}: {why}");
    verdict.reader_losses.extend(UNNOTICED.iter().map(reason));
}

/// Returns the mutations of a system: in each column one value changed, one set to NULL, and one filled.
fn of_system(system: &'static System, database: &Path, rows: &Rows) -> io::Result<Vec<Mutation>> {
    let connection = Connection::open(database).map_err(io::Error::other)?;
    let mut mutations = Vec::new();
    for table in system.tables {
        for (column, declared) in source::columns(&connection, table).map_err(io::Error::other)? {
            let mapped = rows[table].iter().filter(|row| (system.is_mapped)(table, row));
            let cells: Vec<(i64, &Value)> = mapped.map(|row| (row.rowid, row.value(&column))).collect();
            let (empty, full): (Vec<_>, Vec<_>) = cells.into_iter().partition(|(_, value)| value.is_null());
            // Empty text and the JSON text null mean the same as NULL.
            let filled_values: Vec<_> =
                full.iter().copied().filter(|(_, value)| *value != "" && *value != "null").collect();
            // Not always the first value, but the same in every run.
            let pick = |from: &[(i64, &Value)], salt: usize| {
                let number = column.bytes().fold(salt, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
                from.get(number.checked_rem(from.len())?).map(|(rowid, value)| (*rowid, (*value).clone()))
            };
            let mut add = |rowid: i64, kind: &str, values: Vec<Sql>| {
                let description = format!("{} {table}.{column} of row {rowid} {kind}", system.name);
                mutations.push(Mutation { system, table, column: column.clone(), rowid, values, description });
            };
            if let Some((rowid, value)) = pick(&full, 1) {
                add(rowid, "changed", changed(&value, &full));
            }
            if let Some((rowid, _)) = pick(&filled_values, 7) {
                add(rowid, "set to NULL", vec![Sql::Null]);
            }
            if let Some((rowid, _)) = pick(&empty, 3) {
                add(rowid, "filled", vec![filled(&declared, &filled_values)]);
            }
        }
    }
    Ok(mutations)
}

/// Returns candidates for the new value: the first that the table accepts is used.
fn changed(value: &Value, full: &[(i64, &Value)]) -> Vec<Sql> {
    let is_switch = full.iter().all(|(_, value)| matches!(value.as_i64(), Some(0 | 1)));
    match value {
        Value::Number(number) => match number.as_i64() {
            Some(number) if is_switch => vec![Sql::Integer(1 - number)],
            Some(number) => vec![Sql::Integer(number + 1), Sql::Integer(number + 100_000)],
            None => vec![Sql::Real(number.as_f64().unwrap_or_default() + 1.0)],
        },
        Value::String(text) => changed_text(text, full),
        Value::Array(bytes) => {
            let mut bytes: Vec<u8> =
                bytes.iter().filter_map(|byte| byte.as_u64().and_then(|byte| u8::try_from(byte).ok())).collect();
            if let Some(last) = bytes.last_mut() {
                *last ^= 1;
            }
            vec![Sql::Blob(bytes)]
        }
        _ => vec![Sql::Text("x".to_owned())],
    }
}

fn changed_text(text: &str, full: &[(i64, &Value)]) -> Vec<Sql> {
    let structure = serde_json::from_str::<Value>(text).ok().filter(|json| json.is_object() || json.is_array());
    if let Some(json) = structure {
        return vec![Sql::Text(changed_json(json).to_string())];
    }
    if text == "null" {
        return vec![Sql::Text("{\"x\":1}".to_owned())];
    }
    // A timestamp is changed in its last digit.
    if text.len() > 19 && text.ends_with('Z') && text.as_bytes()[10] == b'T' {
        let digit = text.as_bytes()[text.len() - 2];
        let next = if digit == b'9' { '8' } else { char::from(digit + 1) };
        return vec![Sql::Text(format!("{}{next}Z", &text[..text.len() - 2]))];
    }
    // A text that contains the other may mean the same: a repository with and without its owner.
    let differs = |other: &&str| !other.contains(text) && !text.contains(*other);
    let other = full.iter().filter_map(|(_, value)| value.as_str()).find(differs);
    let few = full.iter().filter(|(_, value)| value.as_str() == Some(text)).count() > 1;
    // A value of a small set becomes another of the set; a unique value becomes another unique one.
    let word = other.filter(|_| few).map(|other| Sql::Text(other.to_owned()));
    word.into_iter().chain([Sql::Text(format!("{text}x"))]).collect()
}

/// Returns the structure with one member changed.
fn changed_json(json: Value) -> Value {
    match json {
        Value::Null => true.into(),
        Value::Bool(yes) => (!yes).into(),
        Value::Number(number) => (number.as_f64().unwrap_or_default() + 1.0).into(),
        Value::String(text) => format!("{text}x").into(),
        Value::Array(mut values) => {
            let first = values.first_mut().map(std::mem::take);
            match first {
                Some(first) => values[0] = changed_json(first),
                None => values.push("x".into()),
            }
            values.into()
        }
        Value::Object(mut members) => {
            let first = members.iter().next().map(|(name, value)| (name.clone(), value.clone()));
            let (name, value) = first.map_or(("x".to_owned(), 1.into()), |(name, value)| (name, changed_json(value)));
            members.insert(name, value);
            members.into()
        }
    }
}

/// Returns a value in place of NULL.
fn filled(declared: &str, full: &[(i64, &Value)]) -> Sql {
    match (full.first().map(|(_, value)| *value), declared) {
        (Some(Value::String(text)), _) => Sql::Text(text.clone()),
        (Some(Value::Number(number)), _) => {
            number.as_i64().map_or_else(|| Sql::Real(number.as_f64().unwrap_or_default()), Sql::Integer)
        }
        (_, "INTEGER") => Sql::Integer(1),
        (_, "FLOAT" | "REAL") => Sql::Real(1_768_035_600.5),
        (_, "BLOB") => Sql::Blob(vec![0; 16]),
        (_, "JSON") => Sql::Text("{\"x\":1}".to_owned()),
        _ => Sql::Text("x".to_owned()),
    }
}

impl Mutation {
    /// Changes the value in a copy. Returns false if the table accepts none of the candidates.
    fn apply(&self, database: &Path) -> io::Result<bool> {
        let connection = Connection::open(database).map_err(io::Error::other)?;
        connection
            .execute_batch("PRAGMA journal_mode=DELETE; PRAGMA foreign_keys=OFF; PRAGMA synchronous=OFF")
            .map_err(io::Error::other)?;
        let sql = format!("UPDATE \"{}\" SET \"{}\" = ?1 WHERE rowid = ?2", self.table, self.column);
        for value in &self.values {
            match connection.execute(&sql, rusqlite::params![value, self.rowid]) {
                Ok(1) => return Ok(true),
                Ok(_) => return Err(io::Error::other(format!("{}: the row does not exist", self.description))),
                // The table rejects this value.
                Err(rusqlite::Error::SqliteFailure(failure, _))
                    if matches!(failure.code, ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch) => {}
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }
}

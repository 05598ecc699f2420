//! The rows of another program's database, with every value unchanged.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

/// A value and its SQL literal.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cell {
    /// The value; bytes are an array of numbers.
    pub(super) value: Value,
    /// The SQL literal.
    pub(super) literal: String,
}

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) rowid: i64,
    /// By column name, in the order of the table.
    pub(super) cells: Vec<(String, Cell)>,
}

/// The rows of each table, by rowid.
pub(super) type Rows = BTreeMap<&'static str, Vec<Row>>;

impl Row {
    /// Returns a value; null if there is no such column.
    pub(super) fn value(&self, name: &str) -> &Value {
        self.cells.iter().find(|(known, _)| known == name).map_or(&Value::Null, |(_, cell)| &cell.value)
    }

    /// Returns a text; empty if the value is not a text.
    pub(super) fn text(&self, name: &str) -> &str {
        self.value(name).as_str().unwrap_or_default()
    }

    /// Returns the JSON in a text; null if there is none.
    pub(super) fn json(&self, name: &str) -> io::Result<Value> {
        match self.value(name).as_str() {
            Some(text) => serde_json::from_str(text).map_err(io::Error::other),
            None => Ok(Value::Null),
        }
    }
}

/// Reads tables of a database that no other process writes.
pub(super) fn read(database: &Path, tables: &[&'static str]) -> io::Result<Rows> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(database, flags).map_err(io::Error::other)?;
    tables.iter().map(|table| Ok((*table, table_of(&connection, table).map_err(io::Error::other)?))).collect()
}

/// Returns the names of a table's columns, with their declared types.
pub(super) fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<(String, String)>> {
    let mut statement = connection.prepare("SELECT name, type FROM pragma_table_info(?1) ORDER BY cid")?;
    let found = statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?;
    found.collect()
}

fn table_of(connection: &Connection, table: &str) -> rusqlite::Result<Vec<Row>> {
    let names: Vec<String> = columns(connection, table)?.into_iter().map(|(name, _)| name).collect();
    let list: Vec<String> = names.iter().map(|name| format!("\"{name}\", quote(\"{name}\")")).collect();
    let sql = format!("SELECT rowid, {} FROM \"{table}\" ORDER BY rowid", list.join(", "));
    let mut statement = connection.prepare(&sql)?;
    let rows = statement.query_map([], |row| {
        let mut cells = Vec::new();
        for (at, name) in names.iter().enumerate() {
            let value = match row.get_ref(1 + 2 * at)? {
                ValueRef::Null => Value::Null,
                ValueRef::Integer(number) => number.into(),
                ValueRef::Real(number) => number.into(),
                ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned().into(),
                ValueRef::Blob(bytes) => bytes.into(),
            };
            cells.push((name.clone(), Cell { value, literal: row.get(2 + 2 * at)? }));
        }
        Ok(Row { rowid: row.get(0)?, cells })
    })?;
    rows.collect()
}

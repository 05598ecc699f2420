//! The engine, seen by table modules as a transaction, its rows and its values, and as nothing else.
//!
//! SQL is written once, with `?N` parameters; time and ids come from the program. A second engine adds a variant to the
//! two private enums here and a file beside `sqlite.rs`; no table module changes.

mod group;
mod lock;
mod pool;
mod sqlite;
mod value;
mod writer;

use std::str;

pub use value::{Column, FromColumn, Value};

pub(crate) use lock::{StateLock, holder_of};
pub(crate) use pool::Pool;
pub(crate) use sqlite::{Place, Readable, copy_database, error, faults, open_reader, open_writer};
pub(crate) use writer::{CHECKPOINT_PAGES, Tally, Writer};

use crate::error::{Error, Result};

/// Takes a mutex whatever happened to those who held it: what it guards is never left half changed.
pub(crate) fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Writes parameters as a slice of [`Value`]s: `params![id, at, None::<i64>]`.
#[macro_export]
macro_rules! params {
    ($($value:expr),* $(,)?) => { &[$($crate::Value::from($value)),*] };
}

/// One transaction. It is begun and ended around the function that gets it; table functions only use it.
pub struct Tx<'c> {
    engine: Engine<'c>,
    /// Why the engine ended the transaction by itself: after that nothing may run, it would commit on its own.
    ended: Option<Error>,
}

enum Engine<'c> {
    Sqlite(&'c rusqlite::Connection),
}

impl<'c> Tx<'c> {
    pub(crate) fn sqlite(connection: &'c rusqlite::Connection) -> Self {
        Self { engine: Engine::Sqlite(connection), ended: None }
    }

    /// Runs a statement that returns no rows, and says how many it changed. Statements are prepared once and kept.
    pub fn execute(&mut self, sql: &str, params: &[Value<'_>]) -> Result<usize> {
        self.run(|Engine::Sqlite(connection)| sqlite::execute(connection, sql, params))
    }

    /// Hands every row to `each`, in order, without keeping them; the first error ends it.
    pub fn query_each(
        &mut self,
        sql: &str,
        params: &[Value<'_>],
        each: &mut dyn FnMut(&Row<'_>) -> Result<()>,
    ) -> Result<()> {
        self.run(|Engine::Sqlite(connection)| {
            sqlite::query(connection, sql, params, &mut |row| each(row).map(|()| true))
        })
    }

    /// The first row, if there is one.
    pub fn find<T>(
        &mut self,
        sql: &str,
        params: &[Value<'_>],
        map: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let (mut map, mut found) = (Some(map), None);
        self.run(|Engine::Sqlite(connection)| {
            sqlite::query(connection, sql, params, &mut |row| {
                found = map.take().map(|map| map(row)).transpose()?;
                Ok(false)
            })
        })?;
        Ok(found)
    }

    /// All rows. The statement carries its own limit (I9).
    pub fn all<T>(
        &mut self,
        sql: &str,
        params: &[Value<'_>],
        mut map: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut rows = Vec::new();
        self.query_each(sql, params, &mut |row| {
            rows.push(map(row)?);
            Ok(())
        })?;
        Ok(rows)
    }

    /// Runs `f` so that its error undoes what it did, and nothing that came before.
    pub fn savepoint<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.mark()?;
        match f(self) {
            Ok(done) => self.keep().map(|()| done),
            Err(error) => {
                // A transaction that the engine ended has no savepoint left to go back to.
                if self.ended.is_none() {
                    self.undo()?;
                }
                Err(error)
            }
        }
    }

    /// Begins a savepoint. The name may repeat: the innermost is meant.
    pub(crate) fn mark(&mut self) -> Result<()> {
        self.execute("SAVEPOINT part", &[]).map(drop)
    }

    /// Ends the innermost savepoint and keeps what it did.
    pub(crate) fn keep(&mut self) -> Result<()> {
        self.execute("RELEASE SAVEPOINT part", &[]).map(drop)
    }

    /// Ends the innermost savepoint and undoes what it did.
    pub(crate) fn undo(&mut self) -> Result<()> {
        self.execute("ROLLBACK TO SAVEPOINT part", &[])?;
        self.keep()
    }

    /// Why the engine ended the transaction by itself, if it did.
    pub(crate) fn ended(&self) -> Option<&Error> {
        self.ended.as_ref()
    }

    fn run<T>(&mut self, f: impl FnOnce(&Engine<'c>) -> Result<T>) -> Result<T> {
        if let Some(error) = &self.ended {
            return Err(error.clone());
        }
        let answer = f(&self.engine);
        if let Err(error) = &answer {
            let Engine::Sqlite(connection) = &self.engine;
            if connection.is_autocommit() {
                self.ended = Some(error.clone());
            }
        }
        answer
    }
}

/// One row of an answer.
pub struct Row<'r>(Inner<'r>);

enum Inner<'r> {
    Sqlite(&'r rusqlite::Row<'r>),
}

impl<'r> Row<'r> {
    pub(crate) fn sqlite(row: &'r rusqlite::Row<'r>) -> Self {
        Self(Inner::Sqlite(row))
    }

    /// The value in a column, counted from 0. One that cannot be what it should be is damage, never a default.
    pub fn get<T: FromColumn>(&self, index: usize) -> Result<T> {
        use rusqlite::types::ValueRef;
        let Inner::Sqlite(row) = self.0;
        let column = match row.get_ref(index).map_err(error)? {
            ValueRef::Null => Ok(Column::Null),
            ValueRef::Integer(number) => Ok(Column::Int(number)),
            ValueRef::Real(number) => Ok(Column::Real(number)),
            ValueRef::Text(bytes) => {
                str::from_utf8(bytes).map(Column::Text).map_err(|_| "it is not UTF-8 text".to_owned())
            }
            ValueRef::Blob(bytes) => Ok(Column::Blob(bytes)),
        };
        column.and_then(T::from_column).map_err(|detail| {
            let name = row.as_ref().column_name(index).unwrap_or("?");
            Error::Damaged { what: format!("column {name}"), detail }
        })
    }
}

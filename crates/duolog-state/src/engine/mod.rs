//! The engines behind one interface: a transaction, its rows and its values.
//!
//! SQL is written once, with `?N` parameters; timestamps and ids come from the program. The few statements that differ
//! use [`Sql::each`]. An engine is a variant of the private enums here and a module of its own.

#[cfg(feature = "postgres")]
mod postgres;
#[cfg(not(feature = "postgres"))]
#[path = "no_postgres.rs"]
mod postgres;
mod sql;
mod sqlite;
mod value;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::str;
use std::sync::atomic::AtomicU64;

use duolog_types::Timestamp;

pub use sql::Sql;
pub use sqlite::Foreign;
pub use value::{Column, FromColumn, Value};
pub(crate) use value::{Columns, Field};

pub(crate) use postgres::Postgres;
pub(crate) use sqlite::Sqlite;

use crate::error::{Error, Result};

/// Builds a slice of [`Value`]s: `params![id, at, None::<i64>]`.
#[macro_export]
macro_rules! params {
    ($($value:expr),* $(,)?) => { &[$($crate::Value::from($value)),*] };
}

/// Implements `read` and `values` for a row type, in the order of the columns listed here, and defines a macro with the
/// column list if it gets a name: `row!(CronTickRow, columns: name, from_at)`. A field of several [`Columns`] comes
/// last: `row!(RunRow, columns: id, status; queued as "queue_ord, queued_at")`.
macro_rules! row {
    ($row:ident, $columns:ident: $first:ident $(, $field:ident)+ $(; $several:ident as $names:literal)?) => {
        macro_rules! $columns {
            () => {
                concat!(stringify!($first) $(, ", ", stringify!($field))+ $(, ", ", $names)?)
            };
        }
        $crate::engine::row!($row: $first $(, $field)+ $(; $several)?);
    };
    ($row:ident: $($field:ident),+ $(; $several:ident)?) => {
        #[allow(dead_code, reason = "not every row type needs both")]
        impl $row {
            fn read(row: &$crate::engine::Row<'_>) -> $crate::error::Result<Self> {
                Self::read_at(row, &mut 0)
            }

            fn read_at(row: &$crate::engine::Row<'_>, at: &mut usize) -> $crate::error::Result<Self> {
                Ok(Self {
                    $($field: row.next(at)?,)+
                    $($several: $crate::engine::Columns::read_at(row, at)?,)?
                })
            }

            fn values(&self) -> Vec<$crate::Value<'_>> {
                #[allow(unused_mut)]
                let mut values = vec![$($crate::engine::Field::value(&self.$field)),+];
                $($crate::engine::Columns::add_to(&self.$several, &mut values);)?
                values
            }
        }
    };
}
pub(crate) use row;

/// Counts since the state was opened.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) transactions: AtomicU64,
    pub(crate) commits: AtomicU64,
    pub(crate) power_commits: AtomicU64,
    pub(crate) checkpoints: AtomicU64,
    pub(crate) checkpoint_failures: AtomicU64,
    pub(crate) again: AtomicU64,
}

/// A transaction. The caller of the function that gets it begins and ends it.
///
/// After a statement fails, on either engine, no other statement runs until a rollback to a savepoint, and the
/// transaction is not committed.
pub struct Tx<'c> {
    engine: Engine<'c>,
    failure: Option<TxFailure>,
    /// The number of open savepoints.
    depth: usize,
    /// A statement failed because a file could not be written or synced. A rollback does not reset it.
    failed_sync: bool,
}

/// An open savepoint: its nesting level, from 0.
#[derive(Clone, Copy)]
struct Savepoint(usize);

/// The failure that blocks a transaction.
struct TxFailure {
    error: Error,
    /// The engine ended the transaction: there is no savepoint to roll back to.
    ended: bool,
}

enum Engine<'c> {
    Sqlite(&'c rusqlite::Connection),
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "no server is open"))]
    Postgres(postgres::Session<'c>),
}

impl<'c> Tx<'c> {
    fn sqlite(connection: &'c rusqlite::Connection) -> Self {
        Self { engine: Engine::Sqlite(connection), failure: None, depth: 0, failed_sync: false }
    }

    #[cfg(feature = "postgres")]
    fn postgres(session: postgres::Session<'c>) -> Self {
        Self { engine: Engine::Postgres(session), failure: None, depth: 0, failed_sync: false }
    }

    /// Runs a statement without result rows and returns the number of changed rows. Prepared statements are cached.
    pub fn execute<'s>(&mut self, sql: impl Into<Sql<'s>>, params: &[Value<'_>]) -> Result<usize> {
        let sql = sql.into();
        self.run(|engine| match engine {
            Engine::Sqlite(connection) => sqlite::execute(connection, sql.sqlite, params),
            Engine::Postgres(session) => session.execute(sql.postgres, params),
        })
    }

    /// Calls `each` for every row, in order, and stops at the first error. The rows are not kept.
    pub fn query_each<'s>(
        &mut self,
        sql: impl Into<Sql<'s>>,
        params: &[Value<'_>],
        each: &mut dyn FnMut(&Row<'_>) -> Result<()>,
    ) -> Result<()> {
        let sql = sql.into();
        self.run(|engine| match engine {
            Engine::Sqlite(connection) => sqlite::query(connection, sql.sqlite, params, each),
            Engine::Postgres(session) => session.query(sql.postgres, params, each),
        })
    }

    /// Returns the first row, if any.
    pub fn find<'s, T>(
        &mut self,
        sql: impl Into<Sql<'s>>,
        params: &[Value<'_>],
        map: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let (mut map, mut found) = (Some(map), None);
        self.query_each(sql, params, &mut |row| {
            if let Some(map) = map.take() {
                found = Some(map(row)?);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Returns all rows. The statement must have a limit (I9).
    pub fn all<'s, T>(
        &mut self,
        sql: impl Into<Sql<'s>>,
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

    /// Returns true if no other transaction can write at the same time: a SQLite file has one writer.
    pub fn has_one_writer(&self) -> bool {
        matches!(self.engine, Engine::Sqlite(_))
    }

    /// Returns the time of the server's clock. `None` on SQLite, whose writers share one machine's clock.
    pub fn server_time(&mut self) -> Result<Option<Timestamp>> {
        if self.has_one_writer() {
            return Ok(None);
        }
        // Not the start of the transaction, which may have waited for a lock since.
        let sql = "SELECT CAST(floor(extract(epoch FROM clock_timestamp()) * 1000000) AS BIGINT)";
        self.find(sql, &[], |row| row.get(0).map(Timestamp::from_micros))
    }

    /// Runs `f` in a savepoint: its error or panic rolls back its own changes and no earlier ones.
    pub fn savepoint<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let savepoint = self.begin_savepoint()?;
        let failed = match catch_unwind(AssertUnwindSafe(|| f(self))) {
            Ok(Ok(done)) => match self.release(savepoint) {
                Ok(()) => return Ok(done),
                // A statement failed and `f` ignored it.
                Err(error) => Ok(error),
            },
            Ok(Err(error)) => Ok(error),
            Err(panic) => Err(panic),
        };
        let undone = if self.ended().is_none() { self.roll_back(savepoint) } else { Ok(()) };
        match failed {
            Ok(error) => undone.and(Err(error)),
            // If the rollback failed, the transaction is blocked and is not committed.
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Begins a savepoint. Each nesting level has its own name, so that ending one also ends those inside it.
    fn begin_savepoint(&mut self) -> Result<Savepoint> {
        let savepoint = Savepoint(self.depth);
        self.command(&[&format!("SAVEPOINT part{}", savepoint.0)])?;
        self.depth += 1;
        Ok(savepoint)
    }

    /// Releases a savepoint and keeps its changes.
    fn release(&mut self, savepoint: Savepoint) -> Result<()> {
        self.command(&[&format!("RELEASE SAVEPOINT part{}", savepoint.0)])?;
        self.depth = savepoint.0;
        Ok(())
    }

    /// Rolls back and releases a savepoint. This clears the failure of a statement inside it.
    fn roll_back(&mut self, savepoint: Savepoint) -> Result<()> {
        if self.ended().is_none() {
            self.failure = None;
        }
        let Savepoint(level) = savepoint;
        self.command(&[&format!("ROLLBACK TO SAVEPOINT part{level}"), &format!("RELEASE SAVEPOINT part{level}")])?;
        self.depth = level;
        Ok(())
    }

    /// Returns the error that blocks the transaction, if a statement failed and was not rolled back.
    fn failure(&self) -> Option<&Error> {
        self.failure.as_ref().map(|failure| &failure.error)
    }

    /// Returns the error with which the engine ended the transaction, if it did.
    fn ended(&self) -> Option<&Error> {
        self.failure.as_ref().filter(|failure| failure.ended).map(|failure| &failure.error)
    }

    /// Returns true if a file could not be written or synced.
    fn failed_sync(&self) -> bool {
        self.failed_sync
    }

    fn command(&mut self, commands: &[&str]) -> Result<()> {
        self.run(|engine| match engine {
            Engine::Sqlite(connection) => sqlite::command(connection, commands),
            Engine::Postgres(session) => session.command(&commands.join("; ")),
        })
    }

    fn run<T>(&mut self, f: impl FnOnce(&Engine<'c>) -> Result<T>) -> Result<T> {
        if let Some(error) = self.failure() {
            return Err(error.clone());
        }
        let answer = f(&self.engine);
        if let Err(error) = &answer {
            self.failed_sync |= sqlite::failed_sync(error);
            let ended = match &self.engine {
                // The next statement would run outside a transaction and commit on its own.
                Engine::Sqlite(connection) => connection.is_autocommit(),
                Engine::Postgres(session) => session.is_lost(),
            };
            self.failure = Some(TxFailure { error: error.clone(), ended });
        }
        answer
    }

    /// Runs a request and catches its panic, so that the other requests of the group go on.
    fn attempt<T, E>(&mut self, f: impl FnOnce(&mut Self) -> Result<T, E>) -> Result<T, Undo<E>> {
        match catch_unwind(AssertUnwindSafe(|| f(self))) {
            // A request that ignored the error of a statement has failed.
            Ok(Ok(done)) => self.failure().map_or(Ok(done), |error| Err(Undo::Engine(error.clone()))),
            Ok(Err(error)) => Err(Undo::Caller(error)),
            Err(panic) => Err(Undo::Engine(Error::Panicked { message: panic_message(&*panic) })),
        }
    }
}

/// The reason why a request is rolled back.
enum Undo<E> {
    /// The request returned an error.
    Caller(E),
    /// A statement failed and the request ignored it, or the request panicked.
    Engine(Error),
}

#[cfg(feature = "postgres")]
impl<E: From<Error>> Undo<E> {
    fn into_error(self) -> E {
        match self {
            Self::Caller(error) => error,
            Self::Engine(error) => error.into(),
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}

/// Returns an error for text with a NUL byte: PostgreSQL cannot store it, and SQLite's functions stop at it.
fn without_nul(text: &str) -> Result<&str> {
    if text.contains('\0') { Err(Error::Nul) } else { Ok(text) }
}

/// One row of a result.
pub struct Row<'r>(Inner<'r>);

enum Inner<'r> {
    Sqlite(&'r rusqlite::Row<'r>),
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "no server answers"))]
    Postgres(&'r postgres::Answer),
}

impl<'r> Row<'r> {
    fn sqlite(row: &'r rusqlite::Row<'r>) -> Self {
        Self(Inner::Sqlite(row))
    }

    #[cfg(feature = "postgres")]
    fn postgres(row: &'r postgres::Answer) -> Self {
        Self(Inner::Postgres(row))
    }

    /// Returns the number of columns.
    pub fn width(&self) -> usize {
        match self.0 {
            Inner::Sqlite(row) => row.as_ref().column_count(),
            Inner::Postgres(row) => postgres::width(row),
        }
    }

    /// Returns the value of a column, counted from 0. A value that cannot be decoded is damage, never a default.
    pub fn get<T: FromColumn>(&self, index: usize) -> Result<T> {
        self.column(index)?.and_then(T::from_column).map_err(|detail| self.damaged(index, detail))
    }

    /// Returns the value of the column at `at` and advances `at`.
    pub(crate) fn next<T: FromColumn>(&self, at: &mut usize) -> Result<T> {
        *at += 1;
        self.get(*at - 1)
    }

    /// Returns the bytes of a column without copying them.
    pub fn bytes(&self, index: usize) -> Result<&[u8]> {
        let bytes = self.column(index)?.and_then(|column| match column {
            Column::Blob(bytes) => Ok(bytes),
            other => Err(other.is_not("bytes")),
        });
        bytes.map_err(|detail| self.damaged(index, detail))
    }

    /// Returns the text of a column without copying it. `None` if it is NULL.
    pub fn text(&self, index: usize) -> Result<Option<&str>> {
        let text = self.column(index)?.and_then(|column| match column {
            Column::Null => Ok(None),
            Column::Text(text) => Ok(Some(text)),
            other => Err(other.is_not("text")),
        });
        text.map_err(|detail| self.damaged(index, detail))
    }

    /// Returns the text of a column as bytes, without checking that they are UTF-8. `None` if it is NULL.
    pub fn text_bytes(&self, index: usize) -> Result<Option<&[u8]>> {
        if let Inner::Sqlite(row) = self.0
            && let Some(bytes) = sqlite::text_bytes(row, index)?
        {
            return Ok(Some(bytes));
        }
        Ok(self.text(index)?.map(str::as_bytes))
    }

    fn column(&self, index: usize) -> Result<Result<Column<'_>, String>> {
        match self.0 {
            Inner::Sqlite(row) => sqlite::column(row, index),
            Inner::Postgres(row) => postgres::column(row, index),
        }
    }

    fn damaged(&self, index: usize, detail: String) -> Error {
        let name = match self.0 {
            Inner::Sqlite(row) => row.as_ref().column_name(index).ok(),
            Inner::Postgres(row) => postgres::name(row, index),
        };
        Error::Damaged { what: format!("column {}", name.unwrap_or("?")), detail }
    }
}

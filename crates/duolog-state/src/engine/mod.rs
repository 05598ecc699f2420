//! The engines, seen by table modules as a transaction, its rows and its values, and as nothing else.
//!
//! SQL is written once, with `?N` parameters; time and ids come from the program. The few statements that must differ
//! are [`Sql::each`], side by side. An engine is a variant of the private enums here and a file of its own.

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

/// Writes parameters as a slice of [`Value`]s: `params![id, at, None::<i64>]`.
#[macro_export]
macro_rules! params {
    ($($value:expr),* $(,)?) => { &[$($crate::Value::from($value)),*] };
}

/// Gives a row type `read` and `values`, in the order in which its columns are named here, and a macro with their list
/// if that gets a name: `row!(CronTickRow, columns: name, from_at)`. A field that is several [`Columns`] comes last:
/// `row!(RunRow, columns: id, status; queued as "queue_ord, queued_at")`.
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
        #[allow(dead_code, reason = "not every row is read alone and written whole")]
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

/// What was counted since the state was opened.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) transactions: AtomicU64,
    pub(crate) commits: AtomicU64,
    pub(crate) power_commits: AtomicU64,
    pub(crate) checkpoints: AtomicU64,
    pub(crate) checkpoint_failures: AtomicU64,
    pub(crate) again: AtomicU64,
}

/// One transaction. It is begun and ended around the function that gets it; table functions only use it.
///
/// A statement that fails spoils the transaction on either engine: until it is undone to a savepoint nothing more runs,
/// and it is not committed.
pub struct Tx<'c> {
    engine: Engine<'c>,
    spoilt: Option<Spoilt>,
    /// How many savepoints are open.
    depth: usize,
    /// A statement failed because a file could not be written or synced; undoing it does not change that.
    failed_sync: bool,
}

/// A savepoint that was begun: its nesting level, counted from 0.
#[derive(Clone, Copy)]
struct Savepoint(usize);

/// What keeps a transaction from going on.
struct Spoilt {
    error: Error,
    /// The engine ended the transaction by itself: no savepoint is left to go back to.
    ended: bool,
}

enum Engine<'c> {
    Sqlite(&'c rusqlite::Connection),
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "no server is open"))]
    Postgres(postgres::Session<'c>),
}

impl<'c> Tx<'c> {
    fn sqlite(connection: &'c rusqlite::Connection) -> Self {
        Self { engine: Engine::Sqlite(connection), spoilt: None, depth: 0, failed_sync: false }
    }

    #[cfg(feature = "postgres")]
    fn postgres(session: postgres::Session<'c>) -> Self {
        Self { engine: Engine::Postgres(session), spoilt: None, depth: 0, failed_sync: false }
    }

    /// Runs a statement that returns no rows, and says how many it changed. Statements are prepared once and kept.
    pub fn execute<'s>(&mut self, sql: impl Into<Sql<'s>>, params: &[Value<'_>]) -> Result<usize> {
        let sql = sql.into();
        self.run(|engine| match engine {
            Engine::Sqlite(connection) => sqlite::execute(connection, sql.sqlite, params),
            Engine::Postgres(session) => session.execute(sql.postgres, params),
        })
    }

    /// Hands every row to `each`, in order, without keeping them; the first error ends it.
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

    /// The first row, if there is one.
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

    /// All rows. The statement carries its own limit (I9).
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

    /// Returns true if no other transaction writes to this state meanwhile: a file has one writer at a time.
    pub fn has_one_writer(&self) -> bool {
        matches!(self.engine, Engine::Sqlite(_))
    }

    /// The present time by the server's clock; `None` for a file, whose writers share the clock of one machine.
    pub fn server_time(&mut self) -> Result<Option<Timestamp>> {
        if self.has_one_writer() {
            return Ok(None);
        }
        // Not the time of the transaction's start: it may have waited for a lock since.
        let sql = "SELECT CAST(floor(extract(epoch FROM clock_timestamp()) * 1000000) AS BIGINT)";
        self.find(sql, &[], |row| row.get(0).map(Timestamp::from_micros))
    }

    /// Runs `f` in a savepoint: its error or its panic undoes what it did, and nothing that came before.
    pub fn savepoint<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let savepoint = self.mark()?;
        let failed = match catch_unwind(AssertUnwindSafe(|| f(self))) {
            Ok(Ok(done)) => match self.keep(savepoint) {
                Ok(()) => return Ok(done),
                // A statement failed and `f` ignored it.
                Err(error) => Ok(error),
            },
            Ok(Err(error)) => Ok(error),
            Err(panic) => Err(panic),
        };
        let undone = if self.ended().is_none() { self.undo(savepoint) } else { Ok(()) };
        match failed {
            Ok(error) => undone.and(Err(error)),
            // If the undo failed, the transaction is spoilt and is not committed.
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Begins a savepoint. Each nesting level has a name of its own, so that its end also ends those inside it.
    fn mark(&mut self) -> Result<Savepoint> {
        let savepoint = Savepoint(self.depth);
        self.command(&[&format!("SAVEPOINT part{}", savepoint.0)])?;
        self.depth += 1;
        Ok(savepoint)
    }

    /// Ends a savepoint and keeps what was done since it began.
    fn keep(&mut self, savepoint: Savepoint) -> Result<()> {
        self.command(&[&format!("RELEASE SAVEPOINT part{}", savepoint.0)])?;
        self.depth = savepoint.0;
        Ok(())
    }

    /// Ends a savepoint and undoes what was done since it began, a failed statement included.
    fn undo(&mut self, savepoint: Savepoint) -> Result<()> {
        if self.ended().is_none() {
            self.spoilt = None;
        }
        let Savepoint(level) = savepoint;
        self.command(&[&format!("ROLLBACK TO SAVEPOINT part{level}"), &format!("RELEASE SAVEPOINT part{level}")])?;
        self.depth = level;
        Ok(())
    }

    /// Why nothing more may run, if a statement failed and was not undone.
    fn spoilt(&self) -> Option<&Error> {
        self.spoilt.as_ref().map(|spoilt| &spoilt.error)
    }

    /// Why the engine ended the transaction by itself, if it did.
    fn ended(&self) -> Option<&Error> {
        self.spoilt.as_ref().filter(|spoilt| spoilt.ended).map(|spoilt| &spoilt.error)
    }

    /// Whether a file could not be written or synced.
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
        if let Some(error) = self.spoilt() {
            return Err(error.clone());
        }
        let answer = f(&self.engine);
        if let Err(error) = &answer {
            self.failed_sync |= sqlite::failed_sync(error);
            let ended = match &self.engine {
                // After that a statement would commit on its own.
                Engine::Sqlite(connection) => connection.is_autocommit(),
                Engine::Postgres(session) => session.is_lost(),
            };
            self.spoilt = Some(Spoilt { error: error.clone(), ended });
        }
        answer
    }

    /// Runs a request and catches its panic, so that one caller's fault does not end the others.
    fn attempt<T, E>(&mut self, f: impl FnOnce(&mut Self) -> Result<T, E>) -> Result<T, Undo<E>> {
        match catch_unwind(AssertUnwindSafe(|| f(self))) {
            // A request that swallowed the error of a statement has not succeeded.
            Ok(Ok(done)) => self.spoilt().map_or(Ok(done), |error| Err(Undo::Engine(error.clone()))),
            Ok(Err(error)) => Err(Undo::Caller(error)),
            Err(panic) => Err(Undo::Engine(Error::Panicked { message: said(&*panic) })),
        }
    }
}

/// Why a request is undone.
enum Undo<E> {
    /// Its own error.
    Caller(E),
    /// Something that it did not say itself.
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

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("it did not say why").to_owned()
}

/// Text that both engines can hold: PostgreSQL has no place for a NUL byte, and SQLite's functions stop at it.
fn without_nul(text: &str) -> Result<&str> {
    if text.contains('\0') { Err(Error::Nul) } else { Ok(text) }
}

/// One row of an answer.
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

    /// How many columns it has.
    pub fn width(&self) -> usize {
        match self.0 {
            Inner::Sqlite(row) => row.as_ref().column_count(),
            Inner::Postgres(row) => postgres::width(row),
        }
    }

    /// The value in a column, counted from 0. One that cannot be what it should be is damage, never a default.
    pub fn get<T: FromColumn>(&self, index: usize) -> Result<T> {
        self.column(index)?.and_then(T::from_column).map_err(|detail| self.damaged(index, detail))
    }

    /// The value in the column at `at`, which moves on to the next.
    pub(crate) fn next<T: FromColumn>(&self, at: &mut usize) -> Result<T> {
        *at += 1;
        self.get(*at - 1)
    }

    /// The bytes in a column, where they are: for what is looked at and not kept.
    pub fn bytes(&self, index: usize) -> Result<&[u8]> {
        let bytes = self.column(index)?.and_then(|column| match column {
            Column::Blob(bytes) => Ok(bytes),
            other => Err(other.is_not("bytes")),
        });
        bytes.map_err(|detail| self.damaged(index, detail))
    }

    /// The text in a column, where it is; nothing where there is none.
    pub fn text(&self, index: usize) -> Result<Option<&str>> {
        let text = self.column(index)?.and_then(|column| match column {
            Column::Null => Ok(None),
            Column::Text(text) => Ok(Some(text)),
            other => Err(other.is_not("text")),
        });
        text.map_err(|detail| self.damaged(index, detail))
    }

    /// The same as bytes, whatever they are: for what is looked at by who gets it.
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

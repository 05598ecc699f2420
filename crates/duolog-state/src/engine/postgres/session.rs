//! One connection in one transaction: statements out, rows in.

use std::cell::Cell;
use std::error::Error as StdError;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use deadpool_postgres::Object;
use futures_util::{StreamExt as _, future};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use super::{GRACE, STATEMENT_MAX, failed_commit, fault, wait};
use crate::address::Server;
use crate::engine::sql::numbered;
use crate::engine::{Column, Row, Value, without_nul};
use crate::error::{Error, Result};

/// The schema version, read with every transaction that writes.
const VERSION: &str = "SELECT value FROM schema_meta WHERE key = 'version'";

/// A connection, lent for one transaction.
#[derive(Clone)]
pub(in crate::engine) struct Session<'c> {
    object: &'c Object,
    server: &'c Server,
    /// It did not answer in time: what it says later is the answer to something else.
    silent: Rc<Cell<bool>>,
}

impl<'c> Session<'c> {
    pub(super) fn new(object: &'c Object, server: &'c Server) -> Self {
        Self { object, server, silent: Rc::default() }
    }

    /// Begins a write transaction, and refuses a schema that is not the one it was opened with.
    pub(super) fn begin(&self, version: u32) -> Result<Open<'c>> {
        let begun = self.wait(async {
            // Both are sent at once and waited for once.
            let check = async {
                let statement = self.object.prepare_cached(VERSION).await?;
                self.object.query_opt(&statement, &[]).await
            };
            future::try_join(self.object.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ"), check).await
        });
        let open = Open { session: self.clone(), done: false };
        let ((), row) = begun?;
        let found = row.and_then(|row| row.try_get::<_, String>(0).ok()?.parse().ok()).unwrap_or_default();
        if found == version { Ok(open) } else { Err(Error::SchemaChanged { opened: version, found }) }
    }

    /// Runs a statement and says how many rows it changed.
    pub(in crate::engine) fn execute(&self, sql: &str, params: &[Value<'_>]) -> Result<usize> {
        let text = numbered(sql);
        let changed = self.wait(async {
            let statement = self.object.prepare_cached(&text).await?;
            self.object.execute_raw(&statement, params.iter().map(Bound)).await
        })?;
        Ok(usize::try_from(changed).unwrap_or(usize::MAX))
    }

    /// Hands every row to `each`.
    ///
    /// Rows that `each` did not want to see are read all the same: an error among them must not be missed.
    pub(in crate::engine) fn query(
        &self,
        sql: &str,
        params: &[Value<'_>],
        each: &mut dyn FnMut(&Row<'_>) -> Result<()>,
    ) -> Result<()> {
        let text = numbered(sql);
        let rows = self.wait(async {
            let statement = self.object.prepare_cached(&text).await?;
            self.object.query_raw(&statement, params.iter().map(Bound)).await
        })?;
        let mut rows = pin!(rows);
        let mut refused = Ok(());
        while let Some(row) = self.wait(async { rows.next().await.transpose() })? {
            if refused.is_ok() {
                refused = each(&Row::postgres(&row));
            }
        }
        refused
    }

    /// Runs commands that take no parameters and answer nothing.
    pub(in crate::engine) fn command(&self, sql: &str) -> Result<()> {
        self.wait(self.object.batch_execute(sql))
    }

    /// The same, for what may take longer than a statement.
    pub(super) fn command_within(&self, sql: &str, limit: Duration) -> Result<()> {
        self.wait_within(self.object.batch_execute(sql), limit)
    }

    /// Whether the connection is of no more use, and the transaction with it.
    pub(in crate::engine) fn is_lost(&self) -> bool {
        self.silent.get() || self.object.is_closed()
    }

    /// The server's address.
    pub(super) fn server(&self) -> &Server {
        self.server
    }

    fn wait<T>(&self, answer: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T> {
        self.wait_within(answer, STATEMENT_MAX + GRACE)
    }

    fn wait_within<T>(
        &self,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
        limit: Duration,
    ) -> Result<T> {
        match wait(answer, Instant::now() + limit) {
            Some(answer) => answer.map_err(|error| fault(self.server, error)),
            None => Err(self.give_up()),
        }
    }

    fn give_up(&self) -> Error {
        self.silent.set(true);
        Error::Unreachable { place: self.server.to_string(), detail: "it stopped answering".to_owned() }
    }
}

/// A transaction that is open on a connection. Dropping it rolls it back, whatever happened to its user.
pub(super) struct Open<'c> {
    session: Session<'c>,
    done: bool,
}

impl<'c> Open<'c> {
    pub(super) fn read(session: Session<'c>) -> Self {
        Self { session, done: false }
    }

    /// Commits. An error means that nothing happened, or, as [`Error::Unknown`], that nobody can tell.
    pub(super) fn commit(mut self) -> Result<()> {
        self.done = true;
        let session = &self.session;
        match wait(session.object.batch_execute("COMMIT"), Instant::now() + STATEMENT_MAX + GRACE) {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(failed_commit(session.server, error)),
            None => Err(Error::Unknown { source: std::sync::Arc::new(session.give_up()) }),
        }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if !self.done && !self.session.is_lost() {
            // Sent, and not waited for: the next to use the connection comes after it. Should it fail, the connection
            // is gone and the transaction with it.
            let _ = wait(self.session.object.batch_execute("ROLLBACK"), Instant::now());
        }
    }
}

/// Lends a value to the driver.
#[derive(Debug)]
struct Bound<'v>(&'v Value<'v>);

impl ToSql for Bound<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        match self.0 {
            Value::Null => Ok(IsNull::Yes),
            Value::Int(number) => match *ty {
                Type::INT4 => i32::try_from(*number)?.to_sql(ty, out),
                Type::INT2 => i16::try_from(*number)?.to_sql(ty, out),
                _ => number.to_sql_checked(ty, out),
            },
            Value::Real(number) => number.to_sql_checked(ty, out),
            Value::Text(text) => without_nul(text)?.to_sql_checked(ty, out),
            Value::Blob(bytes) => bytes.to_sql_checked(ty, out),
            Value::TooLarge(value) => Err(Error::OutOfRange { value: *value }.into()),
        }
    }

    fn accepts(_: &Type) -> bool {
        // Each value looks for itself.
        true
    }

    to_sql_checked!();
}

/// A value as the server sent it.
struct Held<'r>(Result<Column<'r>, String>);

impl<'r> FromSql<'r> for Held<'r> {
    fn from_sql(ty: &Type, raw: &'r [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        let column = match *ty {
            Type::INT8 => Column::Int(i64::from_sql(ty, raw)?),
            Type::INT4 => Column::Int(i32::from_sql(ty, raw)?.into()),
            Type::INT2 => Column::Int(i16::from_sql(ty, raw)?.into()),
            Type::BOOL => Column::Int(bool::from_sql(ty, raw)?.into()),
            Type::FLOAT8 => Column::Real(f64::from_sql(ty, raw)?),
            Type::TEXT | Type::VARCHAR | Type::NAME => Column::Text(<&str>::from_sql(ty, raw)?),
            Type::BYTEA => Column::Blob(raw),
            _ => return Ok(Self(Err(format!("it holds a {ty}, which no column of ours does")))),
        };
        Ok(Self(Ok(column)))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self(Ok(Column::Null)))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// A value of a row; what no column of ours can hold is the inner error.
pub(in crate::engine) fn column(row: &tokio_postgres::Row, index: usize) -> Result<Result<Column<'_>, String>> {
    let held: Held<'_> = row.try_get(index).map_err(|error| Error::Engine { source: std::sync::Arc::new(error) })?;
    Ok(held.0)
}

/// How many columns a row has.
pub(in crate::engine) fn width(row: &tokio_postgres::Row) -> usize {
    row.len()
}

/// The name of a column.
pub(in crate::engine) fn name(row: &tokio_postgres::Row, index: usize) -> Option<&str> {
    row.columns().get(index).map(tokio_postgres::Column::name)
}

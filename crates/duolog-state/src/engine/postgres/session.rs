//! One connection during one transaction.

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

/// Reads the schema version. Every write transaction begins with it.
const VERSION: &str = "SELECT value FROM schema_meta WHERE key = 'version'";

/// A connection during one transaction.
#[derive(Clone)]
pub(in crate::engine) struct Session<'c> {
    object: &'c Object,
    server: &'c Server,
    /// The server did not answer in time. A later answer would belong to another statement.
    silent: Rc<Cell<bool>>,
}

impl<'c> Session<'c> {
    pub(super) fn new(object: &'c Object, server: &'c Server) -> Self {
        Self { object, server, silent: Rc::default() }
    }

    /// Begins a write transaction. Returns an error if the schema is not the version that was opened.
    pub(super) fn begin(&self, version: u32) -> Result<Open<'c>> {
        let begun = self.wait(async {
            // Both are sent before the first answer arrives: one round trip.
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

    /// Runs a statement and returns the number of changed rows.
    pub(in crate::engine) fn execute(&self, sql: &str, params: &[Value<'_>]) -> Result<usize> {
        let text = numbered(sql);
        let changed = self.wait(async {
            let statement = self.object.prepare_cached(&text).await?;
            self.object.execute_raw(&statement, params.iter().map(Bound)).await
        })?;
        Ok(usize::try_from(changed).unwrap_or(usize::MAX))
    }

    /// Calls `each` for every row.
    ///
    /// After `each` failed, the remaining rows are still read, so that an error of the server is not missed.
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

    /// Runs statements without parameters and results.
    pub(in crate::engine) fn command(&self, sql: &str) -> Result<()> {
        self.wait(self.object.batch_execute(sql))
    }

    /// Runs statements without parameters and results that may take longer than [`STATEMENT_MAX`].
    pub(super) fn command_within(&self, sql: &str, limit: Duration) -> Result<()> {
        self.wait_within(self.object.batch_execute(sql), limit)
    }

    /// Returns true if the connection, and with it the transaction, is lost.
    pub(in crate::engine) fn is_lost(&self) -> bool {
        self.silent.get() || self.object.is_closed()
    }

    /// Returns the server's address.
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

/// An open transaction on a connection. Dropping it rolls it back.
pub(super) struct Open<'c> {
    session: Session<'c>,
    done: bool,
}

impl<'c> Open<'c> {
    pub(super) fn read(session: Session<'c>) -> Self {
        Self { session, done: false }
    }

    /// Commits. An error means that nothing was changed, except for [`Error::Unknown`].
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
            // Sent without waiting: the next user of the connection comes after it. If it fails, the connection is lost
            // and the transaction with it.
            let _ = wait(self.session.object.batch_execute("ROLLBACK"), Instant::now());
        }
    }
}

/// Passes a value to the driver.
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
        // `to_sql` checks the type of each value.
        true
    }

    to_sql_checked!();
}

/// A value as the server sent it. The inner error is a type that no column of Duolog has.
struct Received<'r>(Result<Column<'r>, String>);

impl<'r> FromSql<'r> for Received<'r> {
    fn from_sql(ty: &Type, raw: &'r [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        let column = match *ty {
            Type::INT8 => Column::Int(i64::from_sql(ty, raw)?),
            Type::INT4 => Column::Int(i32::from_sql(ty, raw)?.into()),
            Type::INT2 => Column::Int(i16::from_sql(ty, raw)?.into()),
            Type::BOOL => Column::Int(bool::from_sql(ty, raw)?.into()),
            Type::FLOAT8 => Column::Real(f64::from_sql(ty, raw)?),
            Type::TEXT | Type::VARCHAR | Type::NAME => Column::Text(<&str>::from_sql(ty, raw)?),
            Type::BYTEA => Column::Blob(raw),
            _ => return Ok(Self(Err(format!("it has the unexpected type {ty}")))),
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

/// Returns a value of a row. The inner error is a type that no column of Duolog has.
pub(in crate::engine) fn column(row: &tokio_postgres::Row, index: usize) -> Result<Result<Column<'_>, String>> {
    let received: Received<'_> =
        row.try_get(index).map_err(|error| Error::Engine { source: std::sync::Arc::new(error) })?;
    Ok(received.0)
}

/// Returns the number of columns of a row.
pub(in crate::engine) fn width(row: &tokio_postgres::Row) -> usize {
    row.len()
}

/// Returns the name of a column.
pub(in crate::engine) fn name(row: &tokio_postgres::Row, index: usize) -> Option<&str> {
    row.columns().get(index).map(tokio_postgres::Column::name)
}

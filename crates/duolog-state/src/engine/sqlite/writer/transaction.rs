//! One transaction of a group: the leader's request, the other requests, and the commit.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use duolog_types::Durability;
use duolog_types::mutant::{self, Mutant};
use rusqlite::{Connection, ErrorCode};

use super::{Writer, WriterConnection};
use crate::engine::sqlite::connection::{self, error, is_failed_sync};
use crate::engine::sqlite::group::{Batch, Members, RequestOutcome};
use crate::engine::sqlite::lock::{Doubt, Held};
use crate::engine::{Tx, Undo};
use crate::error::{Error, Result};

impl Writer {
    /// Runs one transaction. An error means that nothing was kept, except for [`Error::Unknown`].
    pub(super) fn transaction(
        &self,
        writer: &mut WriterConnection,
        durability: Durability,
        held: &Held<'_>,
        own: impl FnOnce(&mut Tx<'_>) -> bool,
        batch: Batch<'_>,
        members: &mut Members,
    ) -> Result<RequestOutcome> {
        let connection = &writer.connection;
        roll_back(connection)?;
        // Only between transactions: inside one SQLite ignores the setting.
        let wanted = if mutant::is(Mutant::NormalSync) { Durability::Process } else { durability };
        if writer.synchronous != wanted {
            let level = if wanted == Durability::Power { "FULL" } else { "NORMAL" };
            connection::set(connection, "synchronous", level)?;
            writer.synchronous = wanted;
        }
        let open = Open::begin(connection)?;
        let found: u32 = connection
            .prepare_cached("PRAGMA user_version")
            .and_then(|mut version| version.query_row([], |row| row.get(0)))
            .map_err(error)?;
        if found != self.version {
            return Err(Error::SchemaChanged { opened: self.version, found });
        }
        let mut tx = Tx::sqlite(connection);
        let outcome = self.requests(&mut tx, own, batch, members);
        if tx.failed_sync() {
            held.mark(Doubt::LOG);
        }
        match outcome? {
            RequestOutcome::Committed => {}
            other => return Ok(other),
        }
        let begun = Instant::now();
        open.commit().map_err(|error| {
            if is_failed_sync(&error) {
                held.mark(Doubt::LOG);
            }
            match error.sqlite_error_code() {
                // The last page of the commit, which makes it valid, was not written completely.
                Some(ErrorCode::DiskFull) => Error::Full { source: Arc::new(error) },
                _ => Error::Unknown { source: Arc::new(error) },
            }
        })?;
        if durability == Durability::Power && held.doubt().has(Doubt::LOG) {
            // During the commit, the sync of the log by a checkpoint failed, and the system marked this commit's pages
            // clean.
            let source = std::io::Error::other("a sync of the write-ahead log failed during the commit");
            return Err(Error::Unknown { source: Arc::new(source) });
        }
        writer.commit_took = begun.elapsed();
        self.tally.commits.fetch_add(1, Ordering::Relaxed);
        if durability == Durability::Power {
            self.tally.power_commits.fetch_add(1, Ordering::Relaxed);
        }
        Ok(RequestOutcome::Committed)
    }

    /// Runs the leader's request and the other requests.
    fn requests(
        &self,
        tx: &mut Tx<'_>,
        own: impl FnOnce(&mut Tx<'_>) -> bool,
        mut batch: Batch<'_>,
        members: &mut Members,
    ) -> Result<RequestOutcome> {
        self.tally.transactions.fetch_add(1, Ordering::Relaxed);
        // The leader's request needs no savepoint: if it fails, no other request has begun, and they go back to the
        // queue.
        match attempt(tx, own) {
            RequestOutcome::Committed => {}
            other => return Ok(other),
        }
        while let Some((ticket, job)) = batch.begin_next() {
            self.tally.transactions.fetch_add(1, Ordering::Relaxed);
            let savepoint = match tx.begin_savepoint() {
                Ok(savepoint) => savepoint,
                Err(error) => {
                    members.push(ticket, RequestOutcome::Failed(error.clone()));
                    return Err(error);
                }
            };
            let outcome = attempt(tx, job);
            if tx.ended().is_none() {
                let committed = matches!(outcome, RequestOutcome::Committed);
                let ended = if committed { tx.release(savepoint) } else { tx.roll_back(savepoint) };
                if let Err(error) = ended {
                    members.push(ticket, RequestOutcome::Failed(error.clone()));
                    return Err(error);
                }
            }
            members.push(ticket, outcome);
            // The engine rolled back the transaction, and with it the requests that succeeded before.
            if let Some(error) = tx.ended() {
                return Err(error.clone());
            }
        }
        Ok(RequestOutcome::Committed)
    }
}

/// An open write transaction. Dropping it rolls it back.
///
/// Its statements are cached; rusqlite's own `Transaction` would prepare them each time.
pub(in crate::engine::sqlite) struct Open<'c>(&'c Connection);

impl<'c> Open<'c> {
    pub(in crate::engine::sqlite) fn begin(connection: &'c Connection) -> Result<Self> {
        run(connection, "BEGIN IMMEDIATE").map_err(error)?;
        Ok(Self(connection))
    }

    fn commit(self) -> rusqlite::Result<()> {
        run(self.0, "COMMIT")
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if !self.0.is_autocommit() {
            // If this fails, the next write rolls back before it begins.
            let _ = self.0.execute_batch("ROLLBACK");
        }
    }
}

/// Rolls back a transaction that was left open.
pub(in crate::engine::sqlite) fn roll_back(connection: &Connection) -> Result<()> {
    if connection.is_autocommit() { Ok(()) } else { connection.execute_batch("ROLLBACK").map_err(error) }
}

fn run(connection: &Connection, command: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(command).and_then(|mut statement| statement.execute([])).map(drop)
}

/// Runs one request. It stores its own result or error.
fn attempt(tx: &mut Tx<'_>, f: impl FnOnce(&mut Tx<'_>) -> bool) -> RequestOutcome {
    match tx.attempt(|tx| if f(tx) { Ok(()) } else { Err(()) }) {
        Ok(()) => RequestOutcome::Committed,
        Err(Undo::Caller(())) => RequestOutcome::Refused,
        Err(Undo::Engine(error)) => RequestOutcome::Failed(error),
    }
}

//! The reading connections: opened on demand, reused, bounded in number (I9).

use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use rusqlite::Connection;

use super::connection::{self, CacheSize};
use crate::engine::Tx;
use crate::error::{Error, Result};

/// A pool of read-only connections.
pub(super) struct Pool {
    idle: Mutex<Idle>,
    returned: Condvar,
    open: Box<dyn Fn(CacheSize) -> Result<Connection> + Send + Sync>,
    max: usize,
}

struct Idle {
    connections: Vec<Connection>,
    /// The number of open connections, idle or in use.
    open: usize,
}

impl Pool {
    /// Creates a pool of at most `max` connections. `first` is a connection that is open already.
    pub(super) fn new(
        max: usize,
        first: Option<Connection>,
        open: impl Fn(CacheSize) -> Result<Connection> + Send + Sync + 'static,
    ) -> Self {
        let connections: Vec<_> = first.into_iter().collect();
        let count = connections.len();
        Self {
            idle: Mutex::new(Idle { connections, open: count }),
            returned: Condvar::new(),
            open: Box::new(open),
            max: max.max(1),
        }
    }

    /// Takes a connection. If all are in use, waits for one until the deadline.
    pub(super) fn take(&self, deadline: Instant) -> Result<Reader<'_>> {
        let mut idle = self.idle.lock();
        loop {
            if let Some(connection) = idle.connections.pop() {
                return Ok(Reader { pool: self, connection: Some(connection) });
            }
            if idle.open < self.max {
                idle.open += 1;
                // The connection that was returned last is taken first, so a single reader always gets the first one.
                let cache = if idle.open == 1 { CacheSize::Large } else { CacheSize::Small };
                drop(idle);
                // From here on `Drop` corrects the count, even if opening fails.
                let mut reader = Reader { pool: self, connection: None };
                reader.connection = Some((self.open)(cache)?);
                return Ok(reader);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::Busy { what: "every reading connection", holder: None });
            }
            self.returned.wait_for(&mut idle, left);
        }
    }
}

/// A connection in use. Dropping it ends its transaction and returns it to the pool.
pub(super) struct Reader<'p> {
    pool: &'p Pool,
    connection: Option<Connection>,
}

impl Reader<'_> {
    pub(super) fn connection(&self) -> Result<&Connection> {
        self.connection.as_ref().ok_or(Error::Busy { what: "every reading connection", holder: None })
    }

    /// Begins a read transaction: one snapshot for all its reads.
    pub(super) fn begin(&self) -> Result<Tx<'_>> {
        connection::begin_read(self.connection()?)
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        let clean = self.connection.take().filter(|connection| {
            // An open snapshot would prevent the reuse of the write-ahead log.
            connection.is_autocommit() || connection.execute_batch("ROLLBACK").is_ok()
        });
        let mut idle = self.pool.idle.lock();
        match clean {
            Some(connection) => idle.connections.push(connection),
            None => idle.open -= 1,
        }
        drop(idle);
        self.pool.returned.notify_one();
    }
}

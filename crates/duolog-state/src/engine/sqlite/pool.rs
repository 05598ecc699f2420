//! The reading connections: opened when first needed, kept, bounded in number (I9).

use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use rusqlite::Connection;

use super::connection::{self, Keeps};
use crate::engine::Tx;
use crate::error::{Error, Result};

/// Connections that only read.
pub(super) struct Pool {
    idle: Mutex<Idle>,
    returned: Condvar,
    open: Box<dyn Fn(Keeps) -> Result<Connection> + Send + Sync>,
    max: usize,
}

struct Idle {
    connections: Vec<Connection>,
    /// How many there are, idle or lent.
    made: usize,
}

impl Pool {
    /// A pool of at most `max` connections. `first` is there already, where opening the state needed one.
    pub(super) fn new(
        max: usize,
        first: Option<Connection>,
        open: impl Fn(Keeps) -> Result<Connection> + Send + Sync + 'static,
    ) -> Self {
        let connections: Vec<_> = first.into_iter().collect();
        let made = connections.len();
        Self {
            idle: Mutex::new(Idle { connections, made }),
            returned: Condvar::new(),
            open: Box::new(open),
            max: max.max(1),
        }
    }

    /// Lends a connection; waits for one to come back when all are out, until the deadline.
    pub(super) fn take(&self, deadline: Instant) -> Result<Reader<'_>> {
        let mut idle = self.idle.lock();
        loop {
            if let Some(connection) = idle.connections.pop() {
                return Ok(Reader { pool: self, connection: Some(connection) });
            }
            if idle.made < self.max {
                idle.made += 1;
                // The one that came back last is lent first: where one is enough, it is this one.
                let keeps = if idle.made == 1 { Keeps::Much } else { Keeps::Little };
                drop(idle);
                // From here the lent place is given back even when opening fails.
                let mut reader = Reader { pool: self, connection: None };
                reader.connection = Some((self.open)(keeps)?);
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

/// A lent connection. It comes back without a transaction, whatever happened to its user.
pub(super) struct Reader<'p> {
    pool: &'p Pool,
    connection: Option<Connection>,
}

impl Reader<'_> {
    pub(super) fn connection(&self) -> Result<&Connection> {
        self.connection.as_ref().ok_or(Error::Busy { what: "every reading connection", holder: None })
    }

    /// Begins a read transaction: everything read through it is one snapshot.
    pub(super) fn begin(&self) -> Result<Tx<'_>> {
        connection::begin_read(self.connection()?)
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        let clean = self.connection.take().filter(|connection| {
            // A snapshot that stays open keeps the write-ahead log from being reused.
            connection.is_autocommit() || connection.execute_batch("ROLLBACK").is_ok()
        });
        let mut idle = self.pool.idle.lock();
        match clean {
            Some(connection) => idle.connections.push(connection),
            None => idle.made -= 1,
        }
        drop(idle);
        self.pool.returned.notify_one();
    }
}

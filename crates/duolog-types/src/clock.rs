//! Where the time comes from, so that tests can say what it is.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::Timestamp;

/// A source of the present instant.
pub trait Clock: Send + Sync {
    /// The present instant.
    fn now(&self) -> Timestamp;

    /// Returns true if this is the clock of the machine. Machines' clocks differ: what several machines compare, such as the
    /// end of a lease, is read from the database server's clock instead.
    fn is_machine(&self) -> bool {
        false
    }

    /// Returns false if the present instant is before 1970, which no timestamp can say.
    fn is_usable(&self) -> bool {
        true
    }
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    fn is_machine(&self) -> bool {
        true
    }

    fn is_usable(&self) -> bool {
        SystemTime::now() >= UNIX_EPOCH
    }
}

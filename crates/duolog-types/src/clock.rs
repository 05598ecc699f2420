//! The source of the current time, which tests can replace.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::Timestamp;

/// A clock.
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Timestamp;

    /// Returns true if this is the clock of the machine. Clocks differ: a time that several machines compare, such as the
    /// expiry of a lease, comes from the clock of the database server instead.
    fn is_machine(&self) -> bool {
        false
    }

    /// Returns false if the current time is before 1970, which no timestamp can represent.
    fn is_usable(&self) -> bool {
        true
    }
}

/// The clock of the machine.
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

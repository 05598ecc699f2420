//! A clock for tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use duolog_types::{Clock, Timestamp};

/// A clock that moves only on request. Clones share the time.
#[derive(Clone, Debug)]
pub struct FixedClock {
    micros: Arc<AtomicI64>,
    tick: i64,
}

impl FixedClock {
    /// Creates a clock that stands still at `micros` microseconds after 1970.
    pub fn at(micros: i64) -> Self {
        Self { micros: Arc::new(AtomicI64::new(micros)), tick: 0 }
    }

    /// Creates a clock that starts at `micros` and advances by one microsecond with each read.
    pub fn ticking_from(micros: i64) -> Self {
        Self { tick: 1, ..Self::at(micros) }
    }

    /// Moves the clock; a negative number sets it back.
    pub fn advance(&self, micros: i64) {
        self.micros.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.micros.fetch_add(self.tick, Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_moves_only_when_told() {
        let clock = FixedClock::at(1_000);
        assert_eq!(clock.now(), clock.now());
        clock.clone().advance(500);
        assert_eq!(clock.now().as_micros(), 1_500);
        clock.advance(-1_000);
        assert_eq!(clock.now().as_micros(), 500);
    }

    #[test]
    fn a_ticking_clock_never_shows_an_instant_twice() {
        let clock = FixedClock::ticking_from(7);
        assert_eq!([clock.now(), clock.now(), clock.now()].map(Timestamp::as_micros), [7, 8, 9]);
    }
}

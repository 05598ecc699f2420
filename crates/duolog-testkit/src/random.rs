//! Seeded random numbers.

/// Derives one number from another.
pub(crate) fn mix(seed: u64) -> u64 {
    fastrand::Rng::with_seed(seed).u64(..)
}

/// A sequence of random numbers: the same seed gives the same numbers.
pub(crate) struct Random(fastrand::Rng);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// Returns a number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0.u64(..n)
    }
}

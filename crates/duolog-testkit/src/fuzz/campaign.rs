//! Running a target over stored inputs and mutations of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use super::Target;
use super::minimise::minimise;
use super::mutate::Mutator;

/// How long to go on.
#[derive(Clone, Copy, Debug)]
pub enum Campaign {
    /// So many mutations.
    Runs(u64),
    /// So long.
    For(Duration),
}

/// What was run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Inputs as they were given.
    pub seeds: u64,
    /// Mutations of them.
    pub mutations: u64,
    /// The bytes of all.
    pub bytes: u64,
}

/// An input that breaks a rule, as small as it was made.
#[derive(Clone, Debug)]
pub struct Broken {
    /// The input.
    pub input: Vec<u8>,
    /// What the panic said.
    pub why: String,
    /// How many inputs were fine before.
    pub after: Tally,
}

impl Campaign {
    /// Checks every seed, then mutations of them until it is time.
    pub fn run(self, target: Target, seeds: &[Vec<u8>], seed: u64) -> Result<Tally, Box<Broken>> {
        let mut tally = Tally::default();
        let begun = Instant::now();
        for input in seeds {
            look(target, input, tally)?;
            tally.seeds += 1;
            tally.bytes += input.len() as u64;
        }
        let mut mutator = Mutator::new(seeds, seed);
        while match self {
            Self::Runs(runs) => tally.mutations < runs,
            Self::For(time) => begun.elapsed() < time,
        } {
            let input = mutator.next();
            look(target, &input, tally)?;
            tally.mutations += 1;
            tally.bytes += input.len() as u64;
        }
        Ok(tally)
    }
}

fn look(target: Target, input: &[u8], after: Tally) -> Result<(), Box<Broken>> {
    let Some(_) = broken_by(target, input) else { return Ok(()) };
    let input = minimise(input, |input| broken_by(target, input).is_some());
    let why = broken_by(target, &input).unwrap_or_else(|| "it does not always break".to_owned());
    Err(Box::new(Broken { input, why, after }))
}

/// What a target says against an input.
fn broken_by(target: Target, input: &[u8]) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(|| target.check(input))).err()?;
    let text = panic.downcast_ref::<String>().cloned();
    Some(text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default())
}

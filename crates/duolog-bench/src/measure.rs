//! Measures two sides in turns, and combines the rounds of a run.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::benchmark::{Benchmark, Compares, Run, Table, Target, Unit};

/// A benchmark that can be measured, once per run.
pub struct Case {
    /// The benchmark, without runs.
    pub benchmark: Benchmark,
    measure: Result<Box<dyn FnMut() -> Rounds>, String>,
}

/// Both sides of a run, round by round.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Rounds {
    ours: Vec<f64>,
    limit: Vec<f64>,
}

impl Case {
    /// Compares the cost of ours with that of the limit.
    pub fn cost(name: &str, what: &str, target: Target, measure: impl FnMut() -> Rounds + 'static) -> Self {
        Self { benchmark: Benchmark::new(name, what, Table::Limits, target), measure: Ok(Box::new(measure)) }
    }

    /// Compares the speed of ours with that of the limit.
    pub fn speed(name: &str, what: &str, target: Target, measure: impl FnMut() -> Rounds + 'static) -> Self {
        Self::cost(name, what, target, measure).with(|benchmark| benchmark.compares = Compares::Speed)
    }

    /// Compares the cost of a call on much stored data with that on little.
    pub fn growth(name: &str, what: &str, target: Target, measure: impl FnMut() -> Rounds + 'static) -> Self {
        Self::cost(name, what, target, measure).with(|benchmark| benchmark.table = Table::Growth)
    }

    /// Compares a time with a fixed bound. `measure` returns the nanoseconds of each round.
    pub fn bound(name: &str, what: &str, milliseconds: f64, mut measure: impl FnMut() -> Vec<f64> + 'static) -> Self {
        let rounds = move || {
            let ours = measure();
            Rounds { limit: vec![milliseconds * 1e6; ours.len()], ours }
        };
        Self::cost(name, what, Target::Bound, rounds).with(|benchmark| benchmark.table = Table::Bounds)
    }

    /// Compares counts instead of times. `measure` returns ours and the limit.
    pub fn count(name: &str, what: &str, target: Target, mut measure: impl FnMut() -> (f64, f64) + 'static) -> Self {
        let rounds = move || {
            let (ours, limit) = measure();
            Rounds::of(vec![ours], vec![limit])
        };
        Self::cost(name, what, target, rounds).with(|benchmark| benchmark.unit = Unit::Count)
    }

    /// Fails the benchmark if a tool that it needs is missing.
    pub fn needs<T>(mut self, tool: &Result<T, String>) -> Self {
        if let Err(missing) = tool {
            self.measure = Err(missing.clone());
        }
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Benchmark)) -> Self {
        change(&mut self.benchmark);
        self
    }

    /// Measures a run and adds it to the benchmark.
    pub fn run(&mut self) {
        match &mut self.measure {
            Ok(measure) => {
                let run = measure().sum_up(self.benchmark.compares);
                assert!(run.is_finite(), "{}: {run:?}", self.benchmark.name);
                self.benchmark.runs.push(run);
            }
            Err(missing) => self.benchmark.failed = Some(missing.clone()),
        }
    }
}

/// Measures both sides in turns, after an unmeasured round of each. The side that goes first alternates.
///
/// `operations` are the numbers of operations in a round of `ours` and of `limit`.
pub fn in_turns(rounds: usize, operations: (usize, usize), mut ours: impl FnMut(), mut limit: impl FnMut()) -> Rounds {
    ours();
    limit();
    let per_operation = |(nanoseconds, ()): (f64, ()), operations: usize| nanoseconds / operations as f64;
    timed_in_turns(
        rounds,
        || per_operation(timed(&mut ours), operations.0),
        || per_operation(timed(&mut limit), operations.1),
    )
}

/// Calls both sides in turns; each measures itself and returns its time.
pub fn timed_in_turns(rounds: usize, mut ours: impl FnMut() -> f64, mut limit: impl FnMut() -> f64) -> Rounds {
    let mut taken = Rounds::default();
    for round in 0..rounds {
        for turn in 0..2 {
            if round % 2 == turn {
                taken.ours.push(ours());
            } else {
                taken.limit.push(limit());
            }
        }
    }
    taken
}

/// Returns the elapsed nanoseconds and the result.
pub fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = Instant::now();
    let result = work();
    (start.elapsed().as_nanos() as f64, result)
}

/// Repeats the work.
pub fn repeat(times: usize, mut work: impl FnMut()) {
    for _ in 0..times {
        work();
    }
}

impl Rounds {
    /// Creates rounds from separate measurements.
    pub fn of(ours: Vec<f64>, limit: Vec<f64>) -> Self {
        assert_eq!(ours.len(), limit.len(), "a round has two sides");
        Self { ours, limit }
    }

    /// Takes the ratio of each round, then the medians.
    fn sum_up(&self, compares: Compares) -> Run {
        let ratio = |(ours, limit): (&f64, &f64)| match compares {
            Compares::Cost => ours / limit,
            Compares::Speed => limit / ours,
        };
        let ratios = self.ours.iter().zip(&self.limit).map(ratio).collect();
        Run { ours: median(self.ours.clone()), limit: median(self.limit.clone()), ratio: median(ratios) }
    }
}

/// Returns the median; the upper one of two.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_of_a_run_is_the_median_of_the_ratios_of_its_rounds() {
        let rounds = Rounds::of(vec![2.0, 30.0, 4.0], vec![1.0, 10.0, 1.0]);
        assert!((rounds.sum_up(Compares::Cost).ratio - 3.0).abs() < 1e-9);
        assert!((rounds.sum_up(Compares::Speed).ratio - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn both_sides_have_equal_turns_and_alternate() {
        let order = std::cell::RefCell::new(String::new());
        let rounds = in_turns(2, (1, 1), || order.borrow_mut().push('o'), || order.borrow_mut().push('l'));
        assert_eq!(*order.borrow(), "olollo");
        assert_eq!((rounds.ours.len(), rounds.limit.len()), (2, 2));
    }

    #[test]
    fn a_missing_tool_fails_the_benchmark() {
        let missing: Result<(), String> = Err("rg is not installed".to_owned());
        let mut case = Case::cost("a", "b", Target::Shown, Rounds::default).needs(&missing);
        case.run();
        assert_eq!(case.benchmark.failed.as_deref(), Some("rg is not installed"));
        assert!(!case.benchmark.is_ok());
    }
}

//! Taking turns, and summing up.

use std::time::Instant;

use serde::Serialize;

/// The times of both sides, round by round, in nanoseconds for one operation.
pub struct Pairs {
    ours: Vec<f64>,
    limit: Vec<f64>,
}

/// A distribution, without its outliers.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spread {
    /// A tenth of the rounds is below it.
    pub p10: f64,
    /// The middle.
    pub median: f64,
    /// A tenth of the rounds is above it.
    pub p90: f64,
}

/// What a ratio should be.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A cost.
    AtMost(f64),
    /// A cost that is small where either of these is: the ratio, or what ours takes more.
    AtMostOrMore {
        /// The ratio.
        times: f64,
        /// What ours takes more.
        nanoseconds: f64,
    },
    /// A speed.
    AtLeast(f64),
    /// It is told and not judged.
    Told,
}

/// What both sides are measured in.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds for one operation.
    Nanoseconds,
    /// Something that is counted.
    Count,
}

/// One figure: ours, the limit, and how they compare.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// The workload and the case.
    pub name: String,
    /// What ours and the limit are.
    pub what: String,
    /// The median of ours.
    pub ours: f64,
    /// The median of the limit.
    pub limit: f64,
    /// What they are measured in.
    pub unit: Unit,
    /// The ratio of each round, summed up.
    pub ratio: Spread,
    /// How many rounds there were.
    pub rounds: usize,
    /// What the ratio should be.
    pub target: Target,
}

/// Measures both in turns, after a round of each that does not count. Who goes first changes from round to round.
///
/// `ours` and `limit` each do as many operations in a round as `operations` says.
pub fn in_turns(rounds: usize, operations: (usize, usize), mut ours: impl FnMut(), mut limit: impl FnMut()) -> Pairs {
    let mut pairs = Pairs { ours: Vec::with_capacity(rounds), limit: Vec::with_capacity(rounds) };
    ours();
    limit();
    for round in 0..rounds {
        for turn in 0..2 {
            if round % 2 == turn {
                pairs.ours.push(timed(operations.0, &mut ours));
            } else {
                pairs.limit.push(timed(operations.1, &mut limit));
            }
        }
    }
    pairs
}

fn timed(operations: usize, mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64 / operations as f64
}

impl Pairs {
    /// From times that were taken elsewhere, one of each a round.
    pub fn of(ours: Vec<f64>, limit: Vec<f64>) -> Self {
        assert_eq!(ours.len(), limit.len(), "rounds have two sides");
        Self { ours, limit }
    }

    /// How many times as long ours takes.
    pub fn cost(&self, name: &str, what: &str, target: Target) -> Figure {
        self.figure(name, what, target, |ours, limit| ours / limit)
    }

    /// How many times as much ours gets done in the same time.
    pub fn speed(&self, name: &str, what: &str, target: Target) -> Figure {
        self.figure(name, what, target, |ours, limit| limit / ours)
    }

    fn figure(&self, name: &str, what: &str, target: Target, ratio: impl Fn(f64, f64) -> f64) -> Figure {
        let ratios = self.ours.iter().zip(&self.limit).map(|(ours, limit)| ratio(*ours, *limit)).collect();
        Figure {
            name: name.to_owned(),
            what: what.to_owned(),
            ours: Spread::of(self.ours.clone()).median,
            limit: Spread::of(self.limit.clone()).median,
            unit: Unit::Nanoseconds,
            ratio: Spread::of(ratios),
            rounds: self.ours.len(),
            target,
        }
    }
}

impl Spread {
    /// Sums up.
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
        Self { p10: at(0.1), median: at(0.5), p90: at(0.9) }
    }
}

impl Figure {
    /// A figure that was counted, and is the same every time.
    pub fn counted(name: &str, what: &str, ours: f64, limit: f64, target: Target) -> Self {
        let ratio = ours / limit;
        let ratio = Spread { p10: ratio, median: ratio, p90: ratio };
        let (name, what) = (name.to_owned(), what.to_owned());
        Self { name, what, ours, limit, unit: Unit::Count, ratio, rounds: 1, target }
    }

    /// Whether every number in it is one.
    pub fn is_finite(&self) -> bool {
        let Spread { p10, median, p90 } = self.ratio;
        [self.ours, self.limit, p10, median, p90].iter().all(|number| number.is_finite())
    }

    /// Whether it is as it should be; nothing where that is not judged.
    pub fn is_met(&self) -> Option<bool> {
        let ratio = self.ratio.median;
        match self.target {
            Target::AtMost(most) => Some(ratio <= most),
            Target::AtMostOrMore { times, nanoseconds } => {
                Some(ratio <= times || self.ours - self.limit <= nanoseconds)
            }
            Target::AtLeast(least) => Some(ratio >= least),
            Target::Told => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_taken_in_each_round_and_then_the_middle_of_them() {
        let pairs = Pairs::of(vec![2.0, 30.0, 4.0], vec![1.0, 10.0, 1.0]);
        let cost = pairs.cost("a", "b", Target::AtMost(3.0));
        assert!((cost.ratio.median - 3.0).abs() < 1e-9 && (cost.ratio.p90 - 4.0).abs() < 1e-9, "{cost:?}");
        assert_eq!(cost.is_met(), Some(true));
        let speed = pairs.speed("a", "b", Target::AtLeast(0.5));
        assert!((speed.ratio.median - 1.0 / 3.0).abs() < 1e-9, "{speed:?}");
        assert_eq!(speed.is_met(), Some(false));
        for (times, nanoseconds, met) in [(3.0, 0.0, true), (2.0, 3.0, true), (2.0, 2.5, false)] {
            let either = pairs.cost("a", "b", Target::AtMostOrMore { times, nanoseconds });
            assert_eq!(either.is_met(), Some(met), "4 beside 1: {times} times or {nanoseconds} more");
        }
    }

    #[test]
    fn both_sides_have_as_many_turns_and_who_is_first_changes() {
        let said = std::cell::RefCell::new(String::new());
        let pairs = in_turns(2, (1, 1), || said.borrow_mut().push('o'), || said.borrow_mut().push('l'));
        assert_eq!(*said.borrow(), "olollo");
        assert_eq!((pairs.ours.len(), pairs.limit.len()), (2, 2));
    }
}

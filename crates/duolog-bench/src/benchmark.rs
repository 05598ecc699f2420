//! A benchmark: what it compares, its runs and its target, and its JSON.

use serde::{Deserialize, Serialize};

/// A comparison of a public call with its limit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Benchmark {
    /// The workload and the case.
    pub name: String,
    /// Ours / the limit.
    pub what: String,
    /// The table that shows it.
    pub table: Table,
    /// The unit of ours and of the limit.
    #[serde(default)]
    pub unit: Unit,
    /// What is compared: costs or speeds.
    #[serde(default)]
    pub compares: Compares,
    /// The required ratio.
    pub target: Target,
    /// The runs, in order.
    pub runs: Vec<Run>,
    /// The reason that it was not measured.
    #[serde(default)]
    pub failed: Option<String>,
}

/// One run of a benchmark: the medians of its rounds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Ours: nanoseconds for one operation, or a count.
    pub ours: f64,
    /// The limit, in the same unit.
    pub limit: f64,
    /// The ratio of the two.
    pub ratio: f64,
}

/// The table that shows a benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Table {
    /// Ours against the best bare code for the same job.
    Limits,
    /// Much stored data against little.
    Growth,
    /// A time against a fixed bound.
    Bounds,
    /// Ours against another library.
    Peers,
}

/// The unit of a benchmark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds for one operation.
    #[default]
    Nanoseconds,
    /// A count.
    Count,
}

/// What is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compares {
    /// Costs: less is better.
    #[default]
    Cost,
    /// Speeds: more is better.
    Speed,
}

/// The ratio that a benchmark must reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
    /// At most the limit, which is a fixed bound.
    Bound,
    /// No target: the benchmark is only shown.
    Shown,
}

/// Targets below this apply to the median of the runs, because noise alone could miss them once in three; others apply
/// to the worst run.
const WORST_RUN_FROM: f64 = 1.5;

impl Benchmark {
    /// Creates a benchmark without runs, of costs in nanoseconds.
    pub fn new(name: &str, what: &str, table: Table, target: Target) -> Self {
        let (name, what) = (name.to_owned(), what.to_owned());
        let (unit, compares) = (Unit::default(), Compares::default());
        Self { name, what, table, unit, compares, target, runs: Vec::new(), failed: None }
    }

    /// Returns the run with the median ratio; `None` if there is no run.
    pub fn middle(&self) -> Option<&Run> {
        self.sorted().get(self.runs.len() / 2).copied()
    }

    /// Returns the run with the worst ratio; `None` if there is no run.
    pub fn worst(&self) -> Option<&Run> {
        let sorted = self.sorted();
        match self.compares {
            Compares::Cost => sorted.last().copied(),
            Compares::Speed => sorted.first().copied(),
        }
    }

    fn sorted(&self) -> Vec<&Run> {
        let mut runs: Vec<&Run> = self.runs.iter().collect();
        runs.sort_by(|one, other| one.ratio.total_cmp(&other.ratio));
        runs
    }

    /// Returns the verdict as one word.
    pub fn verdict(&self) -> &'static str {
        let (Some(middle), Some(worst), None) = (self.middle(), self.worst(), &self.failed) else { return "FAILED" };
        let judged = |bound: f64| if bound < WORST_RUN_FROM { middle.ratio } else { worst.ratio };
        let is_met = match self.target {
            Target::AtMost(most) => judged(most) <= most,
            Target::AtLeast(least) => judged(least) >= least,
            Target::Bound => worst.ratio <= 1.0,
            Target::Shown => return "shown",
        };
        if is_met { "met" } else { "MISSED" }
    }

    /// Returns false if it missed its target or was not measured.
    pub fn is_ok(&self) -> bool {
        matches!(self.verdict(), "met" | "shown")
    }
}

impl Run {
    /// Returns false if a number is infinite or NaN.
    pub fn is_finite(&self) -> bool {
        [self.ours, self.limit, self.ratio].iter().all(|number| number.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn benchmark(compares: Compares, target: Target, ratios: [f64; 3]) -> Benchmark {
        let runs = ratios.map(|ratio| Run { ours: ratio, limit: 1.0, ratio }).to_vec();
        Benchmark { compares, runs, ..Benchmark::new("a", "b", Table::Limits, target) }
    }

    #[test]
    fn a_target_below_one_and_a_half_applies_to_the_median_others_to_the_worst() {
        for (compares, target, verdict) in [
            (Compares::Cost, Target::AtMost(1.3), "met"),
            (Compares::Cost, Target::AtMost(1.1), "MISSED"),
            (Compares::Cost, Target::AtMost(1.5), "MISSED"),
            (Compares::Cost, Target::AtMost(2.0), "met"),
            (Compares::Cost, Target::Bound, "MISSED"),
            (Compares::Speed, Target::AtLeast(1.2), "met"),
            (Compares::Speed, Target::AtLeast(1.25), "MISSED"),
            (Compares::Cost, Target::Shown, "shown"),
        ] {
            assert_eq!(benchmark(compares, target, [1.2, 1.8, 0.9]).verdict(), verdict, "{target:?}");
        }
        let speeds = benchmark(Compares::Speed, Target::AtLeast(2.0), [1.9, 3.0, 2.5]);
        assert_eq!(speeds.verdict(), "MISSED");
        assert!(speeds.worst().is_some_and(|run| run.ratio < 2.0));
    }
}

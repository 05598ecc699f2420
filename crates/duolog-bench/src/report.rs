//! What is told of a run: a table for people, JSON for programs.

use std::path::Path;

use duolog_types::{Clock as _, SystemClock};
use serde::Serialize;

use crate::bench::{Bench, PROFILE};
use crate::measure::{Figure, Target, Unit};

/// The figures of one run, and where they come from.
#[derive(Serialize)]
pub struct Report {
    measured_at: String,
    profile: &'static str,
    smoke: bool,
    file_system: String,
    cores: usize,
    figures: Vec<Told>,
}

/// A figure and what became of it.
#[derive(Serialize)]
struct Told {
    #[serde(flatten)]
    figure: Figure,
    verdict: &'static str,
}

impl Report {
    /// Nothing measured yet.
    pub fn new(bench: &Bench) -> Self {
        Self {
            measured_at: SystemClock.now().to_string(),
            profile: PROFILE,
            smoke: bench.smoke,
            file_system: bench.file_system.clone(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            figures: Vec::new(),
        }
    }

    /// Says what is measured where, and names the columns.
    pub fn print_head(&self) {
        let Self { profile, file_system, cores, .. } = self;
        println!("duolog-bench: {profile} profile, {file_system}, {cores} cores");
        if self.smoke {
            println!("smoke: results are checked, times are not judged");
        } else if *profile != "release" {
            println!("NOT a release build: these ratios are not the ones that count");
        }
        println!("{}", row(["", "ours", "limit", "ratio", "p10 to p90", "target", ""]));
    }

    /// Takes a figure and prints its row.
    pub fn add(&mut self, figure: Figure) {
        let verdict = match figure.is_met() {
            _ if self.smoke => "not judged",
            None => "told",
            Some(true) => "met",
            Some(false) => "MISSED",
        };
        let ratio = figure.ratio;
        let target = match figure.target {
            Target::AtMost(most) => format!("≤ {most}×"),
            Target::AtMostOrMore { times, nanoseconds } => {
                format!("≤ {times}×, + {}", amount(nanoseconds, Unit::Nanoseconds))
            }
            Target::AtLeast(least) => format!("≥ {least}×"),
            Target::Told => String::new(),
        };
        let (ours, limit) = (amount(figure.ours, figure.unit), amount(figure.limit, figure.unit));
        let spread = format!("{} to {}", times(ratio.p10), times(ratio.p90));
        println!("{}", row([&figure.name, &ours, &limit, &(times(ratio.median) + "×"), &spread, &target, verdict]));
        self.figures.push(Told { figure, verdict });
    }

    /// Says what each row compares.
    pub fn print_end(&self) {
        println!();
        for Told { figure, .. } in &self.figures {
            let rounds = if figure.rounds == 1 { "1 round".to_owned() } else { format!("{} rounds", figure.rounds) };
            println!("{:29}{} ({rounds})", figure.name, figure.what);
        }
    }

    /// Whether no target was missed.
    pub fn all_met(&self) -> bool {
        self.figures.iter().all(|told| told.figure.is_met() != Some(false))
    }

    /// Writes the figures for programs.
    pub fn write_json(&self, path: &Path) -> std::io::Result<()> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        std::fs::write(path, text)
    }
}

fn row([name, ours, limit, ratio, spread, target, verdict]: [&str; 7]) -> String {
    format!("{name:29}{ours:>11}{limit:>11}{ratio:>10}{spread:>18}{target:>18}  {verdict}").trim_end().to_owned()
}

/// A ratio with as many figures as tell something.
fn times(ratio: f64) -> String {
    if ratio < 0.05 { format!("{ratio:.4}") } else { format!("{ratio:.2}") }
}

fn amount(number: f64, unit: Unit) -> String {
    match unit {
        Unit::Count => format!("{number:.3}"),
        Unit::Nanoseconds if number < 1e3 => format!("{number:.0} ns"),
        Unit::Nanoseconds if number < 1e6 => format!("{:.2} µs", number / 1e3),
        Unit::Nanoseconds => format!("{:.2} ms", number / 1e6),
    }
}

//! The report of a run: a table for people, JSON for programs, and the generated part of a document.

use std::fmt::Write as _;
use std::path::Path;

use duolog::{Clock as _, SystemClock};
use serde::{Deserialize, Serialize};

use crate::bench::{Bench, PROFILE};
use crate::benchmark::{Benchmark, Run, Table, Target, Unit};

/// The results of one run.
#[derive(Serialize, Deserialize)]
pub struct Report {
    /// The section of the document that it generates.
    section: String,
    /// The date, the build and the machine.
    measured: String,
    /// Small, and without verdicts.
    smoke: bool,
    /// The benchmarks, in order.
    pub benchmarks: Vec<Benchmark>,
}

impl Report {
    /// Creates a report without benchmarks.
    pub fn new(bench: &Bench) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let at = SystemClock.now().to_string();
        let day = at.get(..10).unwrap_or(&at);
        let measured = format!("{day}, {PROFILE} build, {cores} cores, {}", bench.file_system);
        Self { section: "figures".to_owned(), measured, smoke: bench.smoke, benchmarks: Vec::new() }
    }

    /// Reads a report.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        serde_json::from_slice(&text).map_err(|error| format!("{} is not a report: {error}", path.display()))
    }

    /// Prints the machine and the column headers.
    pub fn print_head(&self) {
        println!("duolog-bench: {}", self.measured);
        if self.smoke {
            println!("smoke: results are checked, times are not");
        }
        println!("{}", row(["", "ours", "limit", "ratio", "runs", "target", ""]));
    }

    /// Prints a benchmark and adds it.
    pub fn add(&mut self, benchmark: Benchmark) {
        self.print(&benchmark);
        self.benchmarks.push(benchmark);
    }

    /// Prints the whole report.
    pub fn print_all(&self) {
        self.print_head();
        self.benchmarks.iter().for_each(|benchmark| self.print(benchmark));
        self.print_end();
    }

    fn print(&self, benchmark: &Benchmark) {
        let [ours, limit, ratio, runs, target] = cells(benchmark);
        let verdict = if self.smoke && benchmark.failed.is_none() { "not checked" } else { benchmark.verdict() };
        println!("{}", row([&benchmark.name, &ours, &limit, &ratio, &runs, &target, verdict]));
        if let Some(why) = &benchmark.failed {
            println!("    {why}");
        }
    }

    /// Prints what each benchmark compares.
    pub fn print_end(&self) {
        println!();
        for benchmark in &self.benchmarks {
            println!("{:31}{}", benchmark.name, benchmark.what);
        }
    }

    /// Returns false if a benchmark was not measured, or missed its target outside of a smoke run.
    pub fn is_ok(&self) -> bool {
        self.benchmarks.iter().all(|benchmark| benchmark.is_ok() || (self.smoke && benchmark.failed.is_none()))
    }

    /// Writes the report as JSON.
    pub fn write_json(&self, path: &Path) -> Result<(), String> {
        let written = serde_json::to_string_pretty(self).map_err(std::io::Error::other);
        let written = written.and_then(|text| std::fs::write(path, text + "\n"));
        written.map_err(|error| format!("cannot write {}: {error}", path.display()))
    }

    /// Replaces the part of a document between the markers of this report's section.
    pub fn write_into(&self, document: &Path) -> Result<(), String> {
        let failed = |why: &dyn std::fmt::Display| format!("cannot generate {}: {why}", document.display());
        if self.smoke {
            return Err(failed(&"a smoke run has no results"));
        }
        let text = std::fs::read_to_string(document).map_err(|error| failed(&error))?;
        let [begin, end] = ["begin", "end"].map(|edge| format!("<!-- {} {edge} -->\n", self.section));
        let found = text.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
        let (before, after) = found.ok_or_else(|| failed(&format!("it has no {} and {}", begin.trim(), end.trim())))?;
        let text = format!("{before}{begin}{}{end}{after}", self.markdown());
        std::fs::write(document, text).map_err(|error| failed(&error))
    }

    fn markdown(&self) -> String {
        let mut text = format!("Measured: {}.\n", self.measured);
        let tables = [
            (Table::Limits, "Against bare code", "limit"),
            (Table::Growth, "Growth", "with little"),
            (Table::Bounds, "Bounds", "bound"),
            (Table::Peers, "", "theirs"),
        ];
        for (table, title, limit) in tables {
            let mut benchmarks = self.benchmarks.iter().filter(|benchmark| benchmark.table == table).peekable();
            if benchmarks.peek().is_none() {
                continue;
            }
            if !title.is_empty() {
                let _ = write!(text, "\n### {title}\n");
            }
            let _ = write!(
                text,
                "\n| benchmark | what | ours | {limit} | ratio | runs | target | |\n|---|---|---|---|---|---|---|---|\n"
            );
            for benchmark in benchmarks {
                let [ours, limit, ratio, runs, target] = cells(benchmark);
                let verdict = benchmark.failed.as_deref().unwrap_or_else(|| benchmark.verdict());
                let Benchmark { name, what, .. } = benchmark;
                let _ = writeln!(
                    text,
                    "| `{name}` | {what} | {ours} | {limit} | {ratio} | {runs} | {target} | {verdict} |"
                );
            }
        }
        text
    }
}

/// Returns ours, the limit, the median ratio, all ratios, and the target.
fn cells(benchmark: &Benchmark) -> [String; 5] {
    let target = match benchmark.target {
        Target::AtMost(most) => format!("≤ {most}"),
        Target::AtLeast(least) => format!("≥ {least}"),
        Target::Bound => "≤ 1".to_owned(),
        Target::Shown => String::new(),
    };
    let Some(Run { ours, limit, ratio }) = benchmark.middle() else {
        return ["", "", "", "", &target].map(str::to_owned);
    };
    let ratios: Vec<String> = benchmark.runs.iter().map(|run| times(run.ratio)).collect();
    [amount(*ours, benchmark.unit), amount(*limit, benchmark.unit), times(*ratio) + " ×", ratios.join(" · "), target]
}

fn row([name, ours, limit, ratio, runs, target, verdict]: [&str; 7]) -> String {
    format!("{name:31}{ours:>11}{limit:>11}{ratio:>10}{runs:>24}{target:>9}  {verdict}").trim_end().to_owned()
}

/// Formats a ratio with its significant digits.
fn times(ratio: f64) -> String {
    if ratio < 0.05 { format!("{ratio:.4}") } else { format!("{ratio:.2}") }
}

fn amount(number: f64, unit: Unit) -> String {
    match unit {
        Unit::Count => format!("{number:.2}"),
        Unit::Nanoseconds if number < 1e3 => format!("{number:.0} ns"),
        Unit::Nanoseconds if number < 1e6 => format!("{:.1} µs", number / 1e3),
        Unit::Nanoseconds if number < 1e9 => format!("{:.2} ms", number / 1e6),
        Unit::Nanoseconds => format!("{:.2} s", number / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_keeps_the_text_around_the_generated_part() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("performance.md");
        let mut benchmark = Benchmark::new("append/one", "ours / bare", Table::Limits, Target::AtMost(1.3));
        benchmark.runs = [1.0, 1.25, 1.1].map(|ratio| Run { ours: 1e3, limit: 1e3, ratio }).to_vec();
        let section = "figures".to_owned();
        let report = Report { section, measured: "2026-01-01".to_owned(), smoke: false, benchmarks: vec![benchmark] };
        std::fs::write(&path, "before\n<!-- figures begin -->\nold\n<!-- figures end -->\nafter\n").expect("written");
        for _ in 0..2 {
            report.write_into(&path).expect("generated");
            let text = std::fs::read_to_string(&path).expect("text");
            assert!(text.starts_with("before\n<!-- figures begin -->\nMeasured: 2026-01-01.\n"), "{text}");
            assert!(text.contains("| 1.10 × | 1.00 · 1.25 · 1.10 | ≤ 1.3 | met |\n"), "{text}");
            assert!(text.ends_with("<!-- figures end -->\nafter\n") && !text.contains("old"), "{text}");
        }
        std::fs::write(&path, "no markers\n").expect("written");
        assert!(report.write_into(&path).is_err());
        let smoke = Report { smoke: true, ..report };
        assert!(smoke.write_into(&path).is_err());
    }
}

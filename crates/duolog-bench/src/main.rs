//! Benchmarks of public calls against bare code.
//!
//! Every benchmark is a ratio of two measurements of the same run, taken in turns, so that a busy machine slows both.
//! Ours is a public call of the `duolog` crate or the `duolog` command; the limit is the best bare code for the same
//! job. Each benchmark has three runs. `--smoke` runs each workload once, small, and checks its results, but no time.
//!
//! `measure` takes turns, `benchmark` compares with the target, `report` prints and writes, `bench` is the environment
//! of a run, `events` and `corpus` are its input, `bare` and `database` the other side, `peers` our side in comparisons
//! with other libraries; `work/` has one file per workload.

#![allow(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

mod bare;
mod bench;
mod benchmark;
mod corpus;
mod database;
mod events;
mod measure;
mod peers;
mod report;
mod work;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bench::{Bench, PROFILE};
use report::Report;

const USAGE: &str = "duolog-bench [--smoke] [--only NAME]… [--json FILE] [--docs FILE] [--dir DIR] [--binary PATH]
duolog-bench --from FILE [--docs FILE]

  --smoke        run each workload once and small: check results, not times
  --only NAME    run only the benchmarks whose name contains NAME
  --json FILE    write the results as JSON
  --docs FILE    replace the generated part of this document
  --from FILE    read the results from this JSON instead of measuring
  --dir DIR      directory for temporary files, not in memory [default: the directory of this binary]
  --binary PATH  duolog command [default: duolog in the directory of this binary]
  -h, --help     print this usage

workloads:";

/// The command line.
#[derive(Default)]
struct Args {
    smoke: bool,
    only: Vec<String>,
    json: Option<PathBuf>,
    docs: Option<PathBuf>,
    from: Option<PathBuf>,
    dir: Option<PathBuf>,
    binary: Option<PathBuf>,
}

impl Args {
    fn parse(mut given: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut args = Self::default();
        while let Some(arg) = given.next() {
            let mut value = || given.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--smoke" => args.smoke = true,
                "--only" => args.only.push(value()?),
                "--json" => args.json = Some(value()?.into()),
                "--docs" => args.docs = Some(value()?.into()),
                "--from" => args.from = Some(value()?.into()),
                "--dir" => args.dir = Some(value()?.into()),
                "--binary" => args.binary = Some(value()?.into()),
                _ => return Err(format!("unknown argument {arg}")),
            }
        }
        let measures = args.from.is_none();
        if let Some(name) = args.only.iter().find(|name| !work::ALL.iter().any(|(of, _)| may_have(of, name))) {
            return Err(format!("no workload has a benchmark {name}"));
        }
        if args.docs.is_some() && measures && (args.smoke || !args.only.is_empty() || PROFILE != "release") {
            return Err("--docs needs all benchmarks of a release build".to_owned());
        }
        Ok(args)
    }

    /// Returns true if the benchmark of this name was requested.
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| name.contains(only))
    }
}

/// Returns true if a workload may have a benchmark whose name contains `only`.
fn may_have(workload: &str, only: &str) -> bool {
    only.split_once('/').map_or(workload.contains(only), |(of, _)| of == workload)
}

fn main() -> ExitCode {
    let given: Vec<String> = std::env::args().skip(1).collect();
    match given.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [work::append::CHILD, home, count] => {
            work::append::child(Path::new(home), count.parse().expect("a number"));
            return ExitCode::SUCCESS;
        }
        [peers::CHILD, case, directory, items] => {
            peers::child(case, Path::new(directory), Path::new(items));
            return ExitCode::SUCCESS;
        }
        [work::follow::CHILD, side, at] => work::follow::child(side, Path::new(at)),
        _ => {}
    }
    if given.iter().any(|arg| arg == "--help" || arg == "-h") {
        println!("{}", usage());
        return ExitCode::SUCCESS;
    }
    match Args::parse(given.into_iter()).and_then(|args| run(&args)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("duolog-bench: {message}\n\n{}", usage());
            ExitCode::from(2)
        }
    }
}

/// Returns the usage with the names of the workloads.
fn usage() -> String {
    let names: Vec<&str> = work::ALL.iter().map(|(name, _)| *name).collect();
    format!("{USAGE} {}", names.join(" "))
}

/// Measures or reads a report, and writes it. Returns false if a target was missed or a benchmark was not measured.
fn run(args: &Args) -> Result<bool, String> {
    let report = match &args.from {
        Some(path) => {
            let report = Report::read(path)?;
            report.print_all();
            report
        }
        None => measure(args)?,
    };
    if let Some(path) = &args.json {
        report.write_json(path)?;
    }
    if let Some(path) = &args.docs {
        report.write_into(path)?;
    }
    Ok(report.is_ok())
}

fn measure(args: &Args) -> Result<Report, String> {
    let bench = Bench::new(args.smoke, args.dir.as_deref(), args.binary.clone())?;
    let mut report = Report::new(&bench);
    report.print_head();
    for (name, workload) in work::ALL {
        if !args.only.is_empty() && !args.only.iter().any(|only| may_have(name, only)) {
            continue;
        }
        let mut cases = workload(&bench);
        cases.retain(|case| args.wants(&case.benchmark.name));
        for _ in 0..bench.size(RUNS, 1) {
            cases.iter_mut().for_each(measure::Case::run);
        }
        for case in cases {
            report.add(case.benchmark);
        }
        bench.clear();
    }
    report.print_end();
    Ok(report)
}

/// The number of runs of every benchmark.
const RUNS: usize = 3;

//! Workloads measured against the raw limit: `duolog-bench [--smoke] [--json FILE] [--dir DIR] [--binary PATH] [FILTER…]`.
//!
//! Every figure is a ratio of two measurements of the same run, taken in turns, so that a busy machine slows both. A
//! time says something about the machine; a ratio says something about the code. The smoke form runs each workload
//! once, small, and asserts that its results are right and its ratios finite, never how long anything took.
//!
//! `measure.rs` takes turns and sums up, `report.rs` prints, `bench.rs` is the room to work in, `events.rs` what is
//! written, `corpus.rs` what is searched, `bare.rs` what it is held against, `calls.rs` counts system calls, `peers.rs`
//! is our side beside other stores; `work/` has one file per workload.

#![allow(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

mod bare;
mod bench;
mod calls;
mod corpus;
mod events;
mod measure;
mod peers;
mod report;
mod work;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bench::Bench;
use report::Report;

const USAGE: &str = "duolog-bench [--smoke] [--json FILE] [--dir DIR] [--binary PATH] [FILTER…]

  --smoke        each workload once and small: results are checked, times are not
  --json FILE    write the figures there too
  --dir DIR      work in a directory of its own in DIR; where this program is, if not given. Memory is refused
  --binary PATH  the duolog command to start; the one beside this program, if not given
  FILTER         only the workloads whose name holds one of these:";

/// What was asked for.
#[derive(Default)]
struct Args {
    smoke: bool,
    json: Option<PathBuf>,
    dir: Option<PathBuf>,
    binary: Option<PathBuf>,
    filters: Vec<String>,
}

impl Args {
    fn parse(mut given: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut args = Self::default();
        while let Some(arg) = given.next() {
            let mut value = || given.next().map(PathBuf::from).ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--smoke" => args.smoke = true,
                "--json" => args.json = Some(value()?),
                "--dir" => args.dir = Some(value()?),
                "--binary" => args.binary = Some(value()?),
                flag if flag.starts_with('-') => return Err(format!("{flag} is not known")),
                _ => args.filters.push(arg),
            }
        }
        let unknown = args.filters.iter().find(|filter| !work::ALL.iter().any(|(name, _)| name.contains(*filter)));
        unknown.map_or(Ok(()), |filter| Err(format!("no workload is called {filter}")))?;
        Ok(args)
    }

    fn wants(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| name.contains(filter))
    }
}

fn main() -> ExitCode {
    let mut given = std::env::args().skip(1).peekable();
    if given.peek().is_some_and(|arg| arg == calls::CHILD) {
        let (home, count) = (given.nth(1).expect("a home"), given.next().expect("a count"));
        calls::child(Path::new(&home), count.parse().expect("a number"));
        return ExitCode::SUCCESS;
    }
    if given.peek().is_some_and(|arg| arg == peers::CHILD) {
        let (case, room) = (given.nth(1).expect("a case"), given.next().expect("a directory"));
        peers::child(&case, Path::new(&room), Path::new(&given.next().expect("items")));
        return ExitCode::SUCCESS;
    }
    if given.peek().is_some_and(|arg| arg == work::tail::CHILD) {
        let (which, at) = (given.nth(1).expect("a file"), given.next().expect("a directory"));
        work::tail::child(&which, Path::new(&at));
    }
    match Args::parse(given).and_then(|args| run(&args)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            let names: Vec<&str> = work::ALL.iter().map(|(name, _)| *name).collect();
            eprintln!("duolog-bench: {message}\n\n{USAGE}\n                 {}", names.join(" "));
            ExitCode::from(2)
        }
    }
}

/// Runs what was asked for; says whether every target was met.
fn run(args: &Args) -> Result<bool, String> {
    let bench = Bench::new(args.smoke, args.dir.as_deref(), args.binary.clone())?;
    let mut report = Report::new(&bench);
    report.print_head();
    for (name, workload) in work::ALL.iter().filter(|(name, _)| args.wants(name)) {
        for figure in workload(&bench) {
            assert!(figure.is_finite(), "{name}: {figure:?}");
            report.add(figure);
        }
    }
    report.print_end();
    if let Some(path) = &args.json {
        report.write_json(path).map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
    }
    Ok(args.smoke || report.all_met())
}

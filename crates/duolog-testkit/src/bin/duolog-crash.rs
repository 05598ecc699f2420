//! Runs the crash harness: the usage below lists the subcommands.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use duolog_testkit::crash::{Calls, Script, Summary, enumerate, faults, kill, mutants};
use duolog_testkit::engines::Place;
use duolog_testkit::postgres::{Access, Shared};
use duolog_testkit::{is_help_requested, replay, stress};
use duolog_types::mutant::Mutant;

const USAGE: &str = "\
duolog-crash SUBCOMMAND
  enumerate                   crash every workload at every disk call and every byte
  faults                      fail every disk call of every workload
  kill [ROUNDS [SEED]]        kill real processes at random times [default: 500 rounds]
  mutants [NAME]              remove one rule at a time: the harness must notice each
  replay [OPTIONS]            crash the real binary at every recorded system call of random scripts
  pauses [OPTIONS]            stop commands at every step while others run
  kills [OPTIONS]             kill commands at every step and repeat them
  transactions [OPTIONS]      kill commands at every step: each must be done entirely or not at all
  stress [OPTIONS]            run threads on one home, with and without faults, on both engines
Options of replay:
  --seed N, --binary PATH     as below
  --scripts N                 number of scripts [default: 20]
  --commands N                commands per script [default: 40]
  --points N                  crashes per script, at random [default: all]
  --faults KIND|all           disk faults to inject: statesync, logsync, full, descriptors or any [default: none]
Options of pauses, kills and transactions:
  --seed N                    seed of everything random [default: the time]
  --cases N                   number of cases, at random [default: all]
  --only COMMAND              only the command of this name
  --store URL|env             PostgreSQL server for the state; env: the one of duolog-postgres run [default: SQLite]
  --binary PATH               duolog binary to test [default: duolog in the directory of this binary]
Options of stress:
  --seed N                    as above
  --rounds N                  number of rounds [default: 4]
  --steps N                   steps per thread [default: 400]
Exit code: 0 every check passed · 1 a check failed · 2 wrong usage";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if is_help_requested(&arguments) {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let passed = match arguments.as_slice() {
        ["enumerate"] => {
            Script::ALL.iter().all(|script| run_workload("enumerate", *script, |script| enumerate(script, 2)))
        }
        ["faults"] => {
            Script::ALL.iter().all(|script| run_workload("faults", *script, |script| faults(script, Calls::All)))
        }
        ["mutants", rest @ ..] => run_mutants(rest.first().copied()),
        ["kill", rest @ ..] => run_kill(rest),
        ["replay", rest @ ..] => run_replay(rest),
        ["pauses", rest @ ..] => run_cases("pauses", rest, replay::pauses),
        ["kills", rest @ ..] => run_cases("kills", rest, replay::kills),
        ["transactions", rest @ ..] => run_cases("transactions", rest, replay::transactions),
        ["stress", rest @ ..] => run_stress(rest),
        [kill::CHILD, role, number, seed, dir] => {
            kill::child(role, number.parse().expect("a number"), seed.parse().expect("a seed"), Path::new(dir));
            true
        }
        _ => {
            println!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_workload(subcommand: &str, script: Script, run: impl Fn(Script) -> Summary) -> bool {
    let start = Instant::now();
    let Summary { calls, commits, points, broken } = run(script);
    let seconds = start.elapsed().as_secs_f64();
    println!("{subcommand} {script:?}: {points} points over {calls} disk calls and {commits} commits, {seconds:.1} s");
    match broken {
        None => true,
        Some((number, what, broken)) => {
            println!("  FAILED at point {number}: {what}\n  {}", broken.0);
            false
        }
    }
}

fn run_mutants(only: Option<&str>) -> bool {
    let mut all = true;
    for mutant in Mutant::ALL.iter().filter(|mutant| only.is_none_or(|only| format!("{mutant:?}") == only)) {
        let Some((script, points, what, broken)) = mutants::hunt(*mutant).by else {
            println!("{mutant:?}: NOT NOTICED");
            all = false;
            continue;
        };
        let first: String = broken.0.lines().next().unwrap_or_default().chars().take(120).collect();
        println!("{mutant:?}: noticed after {points} points ({script:?}: {what}): {first}");
    }
    all
}

/// Half of the rounds run on the file system of the target directory, half in memory.
fn run_kill(rest: &[&str]) -> bool {
    let rounds: u32 = rest.first().map_or(500, |rounds| rounds.parse().expect("a number of rounds"));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seed = rest.get(1).map_or(now.as_secs(), |seed| seed.parse().expect("a seed"));
    let binary = std::env::current_exe().expect("this binary");
    let places: Vec<PathBuf> = vec![binary.parent().expect("a directory").to_owned(), PathBuf::from("/dev/shm")];
    places.into_iter().filter(|place| place.is_dir()).all(|place| {
        let home = tempfile::Builder::new().prefix("duolog-kill-").tempdir_in(&place).expect("a directory");
        println!("kill: {} rounds, 4 writers, seed {seed}, in {}", rounds.div_ceil(2), place.display());
        let options = kill::Options {
            rounds: rounds.div_ceil(2),
            writers: 4,
            seed,
            dir: home.path().join("state"),
            binary: binary.clone(),
        };
        let start = Instant::now();
        match kill::run(&options) {
            Ok(tally) => {
                println!("  passed: {tally:?}, {:.1} s", start.elapsed().as_secs_f64());
                true
            }
            Err(broken) => {
                let kept = home.keep();
                println!("  FAILED: {}\n  kept the home in {}", broken.0, kept.display());
                false
            }
        }
    })
}

/// The value after a flag.
fn value<'a>(arguments: &[&'a str], flag: &str) -> Option<&'a str> {
    arguments.iter().position(|word| *word == flag).and_then(|at| arguments.get(at + 1)).copied()
}

fn number(arguments: &[&str], flag: &str) -> Option<u64> {
    value(arguments, flag).map(|value| value.parse().expect("a number"))
}

/// Returns `--binary`, or `duolog` in the directory of this binary.
fn real_binary(arguments: &[&str]) -> PathBuf {
    let beside = || std::env::current_exe().expect("this binary").with_file_name("duolog");
    value(arguments, "--binary").map_or_else(beside, PathBuf::from)
}

fn seed(arguments: &[&str]) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    number(arguments, "--seed").unwrap_or(now.as_secs())
}

/// Returns the server of a URL; `env` is the server of `duolog-postgres run`.
fn server(url: &str) -> Access {
    match url {
        "env" => Shared::get().expect("a server").clone(),
        url => Access::parse(url).expect("the URL of a server"),
    }
}

/// Returns the faults of this name; `all` returns every fault.
fn named_faults(name: &str) -> Vec<replay::Fault> {
    let all = replay::Fault::ALL.into_iter();
    all.filter(|fault| name == "all" || format!("{fault:?}").eq_ignore_ascii_case(name)).collect()
}

fn run_replay(rest: &[&str]) -> bool {
    let options = replay::Options {
        binary: real_binary(rest),
        seed: seed(rest),
        scripts: number(rest, "--scripts").unwrap_or(20),
        commands: number(rest, "--commands").map_or(40, |commands| usize::try_from(commands).expect("a small number")),
        points: number(rest, "--points").map(|points| usize::try_from(points).expect("a small number")),
        faults: value(rest, "--faults").map_or_else(Vec::new, named_faults),
    };
    println!("replay: seed {}, {} scripts of {} commands", options.seed, options.scripts, options.commands);
    let start = Instant::now();
    match replay::run(&options) {
        Ok(summary) => {
            println!("  passed: {summary:?}, {:.1} s", start.elapsed().as_secs_f64());
            true
        }
        Err(broken) => {
            println!("  FAILED: {broken}");
            false
        }
    }
}

fn run_cases(subcommand: &str, rest: &[&str], run: impl Fn(&replay::Cases) -> Result<usize, String>) -> bool {
    let cases = replay::Cases {
        binary: real_binary(rest),
        seed: seed(rest),
        cases: number(rest, "--cases").map(|cases| usize::try_from(cases).expect("a small number")),
        only: value(rest, "--only").map(str::to_owned),
        store: value(rest, "--store").map(server),
    };
    println!("{subcommand}: seed {}", cases.seed);
    let start = Instant::now();
    match run(&cases) {
        Ok(tried) => {
            println!("  passed: {tried} cases, {:.1} s", start.elapsed().as_secs_f64());
            true
        }
        Err(broken) => {
            println!("  FAILED: {broken}");
            false
        }
    }
}

/// Runs threads on one home, with and without faults, on both engines.
fn run_stress(rest: &[&str]) -> bool {
    let small = |flag, default| number(rest, flag).map_or(default, |n| usize::try_from(n).expect("a small number"));
    let (seed, rounds, steps) = (seed(rest), small("--rounds", 4), small("--steps", 400));
    println!("stress: seed {seed}, {rounds} rounds");
    (0..rounds).all(|round| {
        let place = if round / 2 % 2 == 0 { Place::sqlite() } else { Place::postgres() };
        let seed = seed.wrapping_add(round as u64);
        let options = stress::Options { seed, threads: 8, steps, faults: round % 2 == 1 };
        let start = Instant::now();
        match stress::run(&place, options) {
            Ok(tally) => {
                println!("  passed: {options:?}: {tally:?}, {:.1} s", start.elapsed().as_secs_f64());
                true
            }
            Err(broken) => {
                println!("  FAILED: {options:?}: {broken}");
                false
            }
        }
    })
}

//! The crash harness as a command: `duolog-crash enumerate | faults | kill [ROUNDS [SEED]] | mutants [NAME] |
//! replay [--seed N] [--scripts N] [--points N] [--faults KIND|all] [--binary PATH] | pauses | kills |
//! transactions | stress`.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use duolog_testkit::crash::{Calls, Script, Summary, enumerate, faults, kill, mutants};
use duolog_testkit::engines::Place;
use duolog_testkit::postgres::{Access, Shared};
use duolog_testkit::{replay, stress};
use duolog_types::mutant::Mutant;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let held = match arguments.as_slice() {
        ["enumerate"] => Script::ALL.iter().all(|script| told("enumerate", *script, |script| enumerate(script, 2))),
        ["faults"] => Script::ALL.iter().all(|script| told("faults", *script, |script| faults(script, Calls::All))),
        ["mutants", rest @ ..] => hunt(rest.first().copied()),
        ["kill", rest @ ..] => killing(rest),
        ["replay", rest @ ..] => replayed(rest),
        ["pauses", rest @ ..] => cases("pauses", rest, replay::pauses),
        ["kills", rest @ ..] => cases("kills", rest, replay::kills),
        ["transactions", rest @ ..] => cases("transactions", rest, replay::transactions),
        ["stress", rest @ ..] => stressed(rest),
        [kill::CHILD, role, number, seed, dir] => {
            kill::child(role, number.parse().expect("a number"), seed.parse().expect("a seed"), Path::new(dir));
            true
        }
        _ => {
            println!("duolog-crash enumerate | faults | kill [ROUNDS [SEED]] | mutants [NAME]");
            println!("duolog-crash stress [--seed N] [--rounds N] [--steps N]");
            println!(
                "duolog-crash pauses|kills|transactions [--seed N] [--cases N] [--only COMMAND] [--store URL|env] [--binary PATH]"
            );
            println!(
                "duolog-crash replay [--seed N] [--scripts N] [--commands N] [--points N] [--faults KIND|all] [--binary PATH]"
            );
            return ExitCode::from(2);
        }
    };
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn told(what: &str, script: Script, run: impl Fn(Script) -> Summary) -> bool {
    let start = Instant::now();
    let Summary { calls, commits, points, broken } = run(script);
    let seconds = start.elapsed().as_secs_f64();
    println!("{what} {script:?}: {points} points over {calls} disk calls and {commits} commits, {seconds:.1} s");
    match broken {
        None => true,
        Some((number, what, broken)) => {
            println!("  BROKEN at point {number}: {what}\n  {}", broken.0);
            false
        }
    }
}

fn hunt(only: Option<&str>) -> bool {
    let mut all = true;
    for mutant in Mutant::ALL.iter().filter(|mutant| only.is_none_or(|only| format!("{mutant:?}") == only)) {
        let Some((script, points, what, broken)) = mutants::hunt(*mutant).by else {
            println!("{mutant:?}: NOT CAUGHT");
            all = false;
            continue;
        };
        let first: String = broken.0.lines().next().unwrap_or_default().chars().take(120).collect();
        println!("{mutant:?}: caught after {points} points ({script:?}: {what}): {first}");
    }
    all
}

/// Rounds alternate between the real file system, where the target directory is, and memory.
fn killing(rest: &[&str]) -> bool {
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
                println!("  held: {tally:?}, {:.1} s", start.elapsed().as_secs_f64());
                true
            }
            Err(broken) => {
                let kept = home.keep();
                println!("  BROKEN: {}\n  the home is kept in {}", broken.0, kept.display());
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

/// The real binary, beside this one unless said otherwise.
fn real_binary(arguments: &[&str]) -> PathBuf {
    let beside = || std::env::current_exe().expect("this binary").with_file_name("duolog");
    value(arguments, "--binary").map_or_else(beside, PathBuf::from)
}

fn seed(arguments: &[&str]) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    number(arguments, "--seed").unwrap_or(now.as_secs())
}

/// The PostgreSQL of a URL, or with `env` the one of `duolog-postgres run`.
fn server(url: &str) -> Access {
    match url {
        "env" => Shared::get().expect("a server").clone(),
        url => Access::parse(url).expect("the URL of a server"),
    }
}

/// One kind of faults by its name, or `all`.
fn named_faults(name: &str) -> Vec<replay::Fault> {
    let all = replay::Fault::ALL.into_iter();
    all.filter(|fault| name == "all" || format!("{fault:?}").eq_ignore_ascii_case(name)).collect()
}

fn replayed(rest: &[&str]) -> bool {
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
            println!("  held: {summary:?}, {:.1} s", start.elapsed().as_secs_f64());
            true
        }
        Err(broken) => {
            println!("  BROKEN: {broken}");
            false
        }
    }
}

fn cases(what: &str, rest: &[&str], run: impl Fn(&replay::Cases) -> Result<usize, String>) -> bool {
    let cases = replay::Cases {
        binary: real_binary(rest),
        seed: seed(rest),
        cases: number(rest, "--cases").map(|cases| usize::try_from(cases).expect("a small number")),
        only: value(rest, "--only").map(str::to_owned),
        store: value(rest, "--store").map(server),
    };
    println!("{what}: seed {}", cases.seed);
    let start = Instant::now();
    match run(&cases) {
        Ok(tried) => {
            println!("  held: {tried} cases, {:.1} s", start.elapsed().as_secs_f64());
            true
        }
        Err(broken) => {
            println!("  BROKEN: {broken}");
            false
        }
    }
}

/// Threads on one home, with and without faults, on both engines.
fn stressed(rest: &[&str]) -> bool {
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
                println!("  held: {options:?}: {tally:?}, {:.1} s", start.elapsed().as_secs_f64());
                true
            }
            Err(broken) => {
                println!("  BROKEN: {options:?}: {broken}");
                false
            }
        }
    })
}

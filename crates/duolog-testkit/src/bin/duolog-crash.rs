//! The crash harness as a command: `duolog-crash enumerate | faults | kill [ROUNDS [SEED]] | mutants [NAME]`.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use duolog_testkit::crash::{Calls, Script, Summary, enumerate, faults, kill, mutants};
use duolog_types::mutant::Mutant;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let held = match arguments.as_slice() {
        ["enumerate"] => Script::ALL.iter().all(|script| told("enumerate", *script, |script| enumerate(script, 2))),
        ["faults"] => Script::ALL.iter().all(|script| told("faults", *script, |script| faults(script, Calls::All))),
        ["mutants", rest @ ..] => hunt(rest.first().copied()),
        ["kill", rest @ ..] => killing(rest),
        [kill::CHILD, role, number, seed, dir] => {
            kill::child(role, number.parse().expect("a number"), seed.parse().expect("a seed"), Path::new(dir));
            true
        }
        _ => {
            println!("duolog-crash enumerate | faults | kill [ROUNDS [SEED]] | mutants [NAME]");
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

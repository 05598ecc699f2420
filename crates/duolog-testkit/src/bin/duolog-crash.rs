//! The crash harness as a command.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

use std::time::Instant;

use duolog_testkit::crash::{Script, Summary, enumerate, faults, mutants};
use duolog_types::mutant::Mutant;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let only = arguments.get(1).map(String::as_str);
    match arguments.first().map(String::as_str) {
        Some("enumerate") => {
            for script in Script::ALL {
                let start = Instant::now();
                tell(&format!("enumerate {script:?}"), &enumerate(script, 2), start);
            }
        }
        Some("faults") => {
            for script in Script::ALL {
                let start = Instant::now();
                tell(&format!("faults {script:?}"), &faults(script), start);
            }
        }
        Some("mutants") => {
            for mutant in Mutant::ALL.iter().filter(|m| only.is_none_or(|only| format!("{m:?}") == only)) {
                let caught = mutants::hunt(*mutant);
                match caught.by {
                    Some((script, points, what, broken)) => {
                        println!("{mutant:?}: caught after {points} points ({script:?}: {what}): {}", broken.0);
                    }
                    None => println!("{mutant:?}: NOT CAUGHT"),
                }
            }
        }
        _ => std::process::exit(2),
    }
}

fn tell(what: &str, summary: &Summary, start: Instant) {
    let Summary { calls, commits, points, broken } = summary;
    println!("{what}: {calls} calls, {commits} commits, {points} points, {:.1} s", start.elapsed().as_secs_f64());
    if let Some((number, what, broken)) = broken {
        println!("  BROKEN at point {number}: {what}\n  {}", broken.0);
        std::process::exit(1);
    }
}

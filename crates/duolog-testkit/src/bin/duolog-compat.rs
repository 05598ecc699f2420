//! The compatibility suite as a command: `duolog-compat FOLDER`.

#![allow(clippy::print_stdout)]

use std::path::PathBuf;
use std::process::ExitCode;

use duolog_testkit::compat;

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        println!(
            "duolog-compat FOLDER    reads the fixtures in FOLDER and compares what it finds with what is expected"
        );
        return ExitCode::from(2);
    };
    let verdicts = match compat::run(&folder) {
        Ok(verdicts) => verdicts,
        Err(error) => {
            println!("compatibility: the fixtures in {} could not be read: {error}", folder.display());
            return ExitCode::FAILURE;
        }
    };
    let mut differing = 0;
    for verdict in &verdicts {
        let word = if verdict.differences.is_empty() { "ok  " } else { "DIFF" };
        println!("{word} {}: {}", verdict.name, verdict.figures);
        verdict.differences.iter().for_each(|difference| println!("       {difference}"));
        verdict.theirs_loses.iter().for_each(|lost| println!("     + {lost}"));
        differing += usize::from(!verdict.differences.is_empty());
    }
    println!("compatibility: {} checks, {differing} with differences", verdicts.len());
    if differing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

//! Reads the fixtures of other programs and compares the result with their content; generates sessions for `ccusage`.

#![allow(clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use duolog_testkit::{compat, is_help_requested};

const USAGE: &str = "\
duolog-compat FOLDER           compare the fixtures in FOLDER with their expected content
duolog-compat --make FOLDER    generate sessions of Claude Code and Codex in FOLDER, a new directory";

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if is_help_requested(&arguments) {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let folder = match arguments.as_slice() {
        [flag, folder] if flag == "--make" => return make(Path::new(folder)),
        [folder] if folder != "--make" => PathBuf::from(folder),
        _ => {
            println!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let verdicts = match compat::run(&folder) {
        Ok(verdicts) => verdicts,
        Err(error) => {
            println!("compatibility: cannot read the fixtures in {}: {error}", folder.display());
            return ExitCode::FAILURE;
        }
    };
    let mut differing = 0;
    for verdict in &verdicts {
        let word = if verdict.differences.is_empty() { "ok  " } else { "DIFF" };
        println!("{word} {}: {}", verdict.name, verdict.counts);
        verdict.differences.iter().for_each(|difference| println!("       {difference}"));
        verdict.reader_losses.iter().for_each(|lost| println!("     + {lost}"));
        differing += usize::from(!verdict.differences.is_empty());
    }
    println!("compatibility: {} checks, {differing} with differences", verdicts.len());
    if differing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn make(folder: &Path) -> ExitCode {
    match compat::usage::make(folder) {
        Ok(files) => {
            println!("generated {files} files in {}", folder.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("cannot write to {}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}

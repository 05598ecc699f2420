//! The compatibility suite as a command: `duolog-compat FOLDER`; and made-up files for other readers to agree on.

#![allow(clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use duolog_testkit::compat;

fn main() -> ExitCode {
    let said: Vec<_> = std::env::args_os().skip(1).collect();
    let folder = match said.as_slice() {
        [flag, folder] if flag == "--make" => return make(Path::new(folder)),
        [folder] if folder != "--make" => PathBuf::from(folder),
        _ => {
            println!(
                "duolog-compat FOLDER           reads the fixtures in FOLDER and compares them with what is expected\n\
                 duolog-compat --make FOLDER    writes made-up sessions of Claude Code and Codex to FOLDER, which is new"
            );
            return ExitCode::from(2);
        }
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

fn make(folder: &Path) -> ExitCode {
    match compat::usage::make(folder) {
        Ok(files) => {
            println!("made {files} files in {}", folder.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("{} could not be filled: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}

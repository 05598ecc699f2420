//! Drives the real binary with random commands of several processes and checks every answer against a model.

#![allow(clippy::print_stdout, clippy::expect_used)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use duolog_testkit::blackbox::{Options, Profile, run, summary};
use duolog_testkit::is_help_requested;
use duolog_testkit::postgres::{Access, SHARED_ENV};

const USAGE: &str = "\
duolog-blackbox [PROFILE] [OPTIONS]
  PROFILE           all, race, logs, runs, gates, queue, schedules, chats, inboxes, items or pages [default: all]
  --seed N          seed of the random commands [default: the time]
  --minutes M       start no round after M minutes [default: 1, unless --rounds is given]
  --rounds N        maximum number of rounds
  --processes N     number of workers [default: 8]
  --steps N         commands of each worker in a round [default: 40]
  --duolog PATH     binary to test [default: duolog in the directory of this binary]
  --store URL       PostgreSQL server in which each round creates a database; \"env\": the one of duolog-postgres run
  --profile NAME    same as PROFILE
  --mutant NAME     remove this rule in the binary: the run must fail; the binary must be a test build
  --dir DIR         directory for the homes [default: the directory of this binary]
  --keep            keep the home of a failed round
  --keep-going      continue after a failed round
Exit code: 0 every round passed · 1 a rule was violated · 2 wrong usage";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if is_help_requested(&arguments) {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match parse(arguments.into_iter()) {
        Ok(options) => {
            println!("seed {}, {} processes, profile {}", options.seed, options.processes, options.profile.name());
            let tally = run(&options, &mut |line| println!("{line}"));
            println!("{}", summary(&tally).join("\n"));
            if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(message) => {
            println!("error: {message}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let beside = this.parent().ok_or("this binary is in no directory")?.to_owned();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut options = Options {
        seed: now.as_secs(),
        rounds: u32::MAX,
        time: None,
        processes: 8,
        steps: 40,
        profile: Profile::All,
        binary: beside.join("duolog"),
        store: None,
        directory: beside,
        mutant: None,
        keep: false,
        keep_going: false,
    };
    while let Some(word) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--seed" => options.seed = number(&value()?)?,
            "--minutes" => {
                let minutes: f64 = value()?.parse().map_err(|_| "--minutes needs a number".to_owned())?;
                options.time = Some(Duration::try_from_secs_f64(minutes * 60.0).map_err(|error| error.to_string())?);
            }
            "--rounds" => options.rounds = number(&value()?)?,
            "--processes" => options.processes = number(&value()?)?,
            "--steps" => options.steps = number(&value()?)?,
            "--duolog" | "--binary" => options.binary = PathBuf::from(value()?),
            "--store" => options.store = Some(store(value()?)?),
            "--profile" => options.profile = profile(&value()?)?,
            "--mutant" => options.mutant = Some(value()?),
            "--dir" => options.directory = PathBuf::from(value()?),
            "--keep" => options.keep = true,
            "--keep-going" => options.keep_going = true,
            option if option.starts_with('-') => return Err(format!("unknown option {option}")),
            name => options.profile = profile(name)?,
        }
    }
    if options.time.is_none() && options.rounds == u32::MAX {
        options.time = Some(Duration::from_mins(1));
    }
    if !options.binary.is_file() {
        return Err(format!("{} is not a file; use --duolog", options.binary.display()));
    }
    Ok(options)
}

fn profile(name: &str) -> Result<Profile, String> {
    Profile::named(name).ok_or_else(|| format!("unknown profile {name}"))
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text} is not a number"))
}

fn store(url: String) -> Result<Access, String> {
    let url =
        if url == "env" { std::env::var(SHARED_ENV).map_err(|error| format!("{SHARED_ENV}: {error}"))? } else { url };
    Access::parse(&url).map_err(|error| error.to_string())
}

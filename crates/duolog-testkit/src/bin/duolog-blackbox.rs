//! `duolog-blackbox [PROFILE] [--seed N] [--minutes M] [--rounds N] [--processes 8] [--steps N] [--duolog PATH]
//! [--store URL] [--dir DIR] [--keep] [--keep-going]`: drives the real binary with random commands.

#![allow(clippy::print_stdout, clippy::expect_used)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use duolog_testkit::blackbox::{Options, Profile, run, summary};
use duolog_testkit::postgres::{Access, SHARED_ENV};

const USAGE: &str = "\
duolog-blackbox [PROFILE] [OPTIONS]
  PROFILE           all, race, logs, runs, gates, queue, schedules, chats, inboxes, items or pages [default: all]
  --seed N          decides what the workers do [default: the time]
  --minutes M       start no round after M minutes [default: 1, unless --rounds is given]
  --rounds N        run at most N rounds
  --processes N     workers [default: 8]
  --steps N         commands of each worker in a round [default: 40]
  --duolog PATH     the binary to test [default: duolog beside this one]
  --store URL       a PostgreSQL in which every round makes a database; \"env\" takes the one of duolog-postgres run
  --profile NAME    the same as PROFILE
  --mutant NAME     remove this rule in the binary: a run must find it; the binary must be built for tests
  --dir DIR         where homes are made [default: beside this binary]
  --keep            keep the home of a round that failed
  --keep-going      go on after a round that failed
Exit code: 0 every round held · 1 a rule did not hold · 2 wrong usage";

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)) {
        Ok(options) => {
            println!("seed {}, {} processes, profile {}", options.seed, options.processes, options.profile.name());
            let tally = run(&options, &mut |line| println!("{line}"));
            println!("{}", summary(&tally).join("\n"));
            if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(message) => {
            println!("{message}\n{USAGE}");
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
            option if option.starts_with('-') => return Err(format!("unknown option: {option}")),
            name => options.profile = profile(name)?,
        }
    }
    if options.time.is_none() && options.rounds == u32::MAX {
        options.time = Some(Duration::from_mins(1));
    }
    if !options.binary.is_file() {
        return Err(format!("there is no binary at {}", options.binary.display()));
    }
    Ok(options)
}

fn profile(name: &str) -> Result<Profile, String> {
    Profile::named(name).ok_or_else(|| format!("no such profile: {name}"))
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text} is not a number"))
}

fn store(url: String) -> Result<Access, String> {
    let url =
        if url == "env" { std::env::var(SHARED_ENV).map_err(|error| format!("{SHARED_ENV}: {error}"))? } else { url };
    Access::parse(&url).map_err(|error| error.to_string())
}

//! Fuzzing as a command: `duolog-fuzz TARGET|all [--runs N | --seconds S] [--seed X] [INPUT…]`.
//!
//! Inputs are files or folders, instead of the stored ones. An input that breaks a rule is made small, written to a file,
//! and the command that runs it again is told.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use duolog_testkit::fuzz::{Broken, Campaign, Target, inputs_in};

const USAGE: &str = "duolog-fuzz TARGET|all [--runs N | --seconds S] [--seed X] [INPUT…]";

struct Asked {
    targets: Vec<Target>,
    campaign: Campaign,
    seed: u64,
    inputs: Vec<PathBuf>,
}

fn main() -> ExitCode {
    let Some(asked) = asked(std::env::args().skip(1)) else {
        let targets: Vec<_> = Target::ALL.iter().map(|target| target.word()).collect();
        println!("{USAGE}\n  targets: {}", targets.join(", "));
        return ExitCode::from(2);
    };
    // A target panics where a rule is broken; that is an answer here, and told below.
    std::panic::set_hook(Box::new(|_| {}));
    let held = asked.targets.iter().filter(|target| run(**target, &asked)).count();
    if held == asked.targets.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn asked(mut arguments: impl Iterator<Item = String>) -> Option<Asked> {
    let targets = match arguments.next()?.as_str() {
        "all" => Target::ALL.to_vec(),
        word => vec![Target::named(word)?],
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut asked = Asked { targets, campaign: Campaign::Runs(100_000), seed: now.as_secs(), inputs: Vec::new() };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--runs" => asked.campaign = Campaign::Runs(arguments.next()?.parse().ok()?),
            "--seconds" => asked.campaign = Campaign::For(Duration::from_secs(arguments.next()?.parse().ok()?)),
            "--seed" => asked.seed = arguments.next()?.parse().ok()?,
            path => asked.inputs.push(path.into()),
        }
    }
    Some(asked)
}

fn run(target: Target, asked: &Asked) -> bool {
    let seeds: Vec<Vec<u8>> = if asked.inputs.is_empty() {
        target.seeds()
    } else {
        asked.inputs.iter().flat_map(|path| inputs_in(path)).map(|(_, input)| input).collect()
    };
    let begun = Instant::now();
    match asked.campaign.run(target, &seeds, asked.seed) {
        Ok(tally) => {
            let (seconds, word, seed) = (begun.elapsed().as_secs_f64(), target.word(), asked.seed);
            println!("{word}: held over {tally:?}, seed {seed}, {seconds:.1} s");
            true
        }
        Err(broken) => {
            tell(target, &broken);
            false
        }
    }
}

fn tell(target: Target, broken: &Broken) {
    let word = target.word();
    let hash = blake3::hash(&broken.input).to_hex();
    let path = Path::new("target").join(format!("fuzz-{word}-{}", &hash.as_str()[..8]));
    let path = if Path::new("target").is_dir() { path } else { path.file_name().expect("a name").into() };
    std::fs::write(&path, &broken.input).expect("written");
    println!("{word}: BROKEN after {:?}", broken.after);
    println!("  {}", broken.why.replace('\n', "\n  "));
    println!("  the input ({} bytes): {}", broken.input.len(), broken.input.escape_ascii());
    println!("  again: duolog-fuzz {word} --runs 0 {}", path.display());
}

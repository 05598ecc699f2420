//! A worker is killed in the middle of a run, and another one finishes it.
//!
//! Run it with `cargo run --example worker`. It starts itself again as the worker that is killed.

#![allow(clippy::print_stdout)]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use duolog::runs::{Begun, End, Finish, NewRun};
use duolog::{Home, RunId, Store, StoreOptions, TriggerType};

/// A worker renews its lease within this time; otherwise another worker may take over the run.
const LEASE: Duration = Duration::from_millis(500);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    if let (Some(home), Some(run)) = (arguments.next(), arguments.next()) {
        return work(Path::new(&home), &RunId::parse(&run)?, "first", Some("build"));
    }
    let directory = tempfile::tempdir()?;
    let store = Store::open(StoreOptions::at(Home::beneath(directory.path())))?;
    let run = store.runs().start(&NewRun::new("release", TriggerType::Cli, "v1.0"))?.run.id;

    let mut first = Command::new(std::env::current_exe()?);
    let mut first = first.arg(directory.path()).arg(run.as_str()).stdout(Stdio::piped()).spawn()?;
    for line in BufReader::new(first.stdout.take().ok_or("no output")?).lines() {
        let line = line?;
        println!("{line}");
        if line == "first: build begins" {
            // kill -9: the worker gets no chance to clean up.
            first.kill()?;
        }
    }
    first.wait()?;
    println!("first: killed");
    work(directory.path(), &run, "second", None)?;
    println!("run: {}", store.runs().get(&run)?.summary.status);
    Ok(())
}

/// Claims the run, runs the phases that are not done, and finishes it. Hangs inside `hang_in`.
fn work(home: &Path, run: &RunId, name: &str, hang_in: Option<&str>) -> Result<(), Box<dyn std::error::Error>> {
    let store = Store::open(StoreOptions::at(Home::beneath(home)))?;
    let run = store.runs().open(run);
    let claim = loop {
        match run.claim(name, Some(LEASE)) {
            // Another worker owns the run until its lease expires.
            Err(error) if error.kind() == duolog::ErrorKind::Busy => std::thread::sleep(LEASE / 10),
            claimed => break claimed?,
        }
    };
    // Every write carries the fence: a worker whose run was taken over can no longer write.
    let run = run.under(claim.fence);
    for phase in ["plan", "build", "publish"] {
        // The ledger knows the finished phases: a phase that succeeded never runs twice.
        let Begun::Started(execution) = run.begin(phase, None)? else {
            println!("{name}: {phase} is done already");
            continue;
        };
        println!("{name}: {phase} begins");
        if hang_in == Some(phase) {
            std::thread::sleep(Duration::from_mins(1));
        }
        run.renew(Some(LEASE))?;
        run.end(&execution.id, &Finish { success: true, ..Finish::default() })?;
    }
    run.finish(&End::Succeeded, None)?;
    Ok(())
}

//! A run waits at a gate until a person in another thread approves.
//!
//! Run it with `cargo run --example gate`.

#![allow(clippy::print_stdout)]

use std::time::Duration;

use duolog::approvals::Answer;
use duolog::runs::{End, NewGate, NewRun, Until};
use duolog::{ApprovalKind, Home, RunStatus, Store, StoreOptions, TriggerType};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let store = Store::open(StoreOptions::at(Home::beneath(directory.path())))?;
    let run = store.runs().start(&NewRun::new("deploy", TriggerType::Cli, "v1.0"))?.run;
    let open = store.runs().open(&run.id);

    // The run pauses and the gate opens in one transaction.
    let gate = NewGate::new(ApprovalKind::Approve, "production", "Deploy v1.0 to production?");
    let gate = open.pause_at(&gate)?.approval;
    println!("waiting: {}", gate.summary);

    // The person may be in another thread, as here, or in another process.
    let approvals = store.approvals();
    let person = std::thread::spawn(move || {
        let answer = Answer { by: Some("ada".to_owned()), ..Answer::default() };
        approvals.approve(&gate.id, &answer)
    });

    // The answer resumes the run in the same transaction, and wakes this wait.
    let resumed = open.wait(&Until::Status(vec![RunStatus::Running]), Duration::from_secs(10))?;
    let answered = person.join().map_err(|_| "the person panicked")??;
    let by = answered.approval.responded_by.unwrap_or_default();
    println!("{} by {by}: the run is {}", answered.approval.status, resumed.status);

    // The worker acknowledges the answer before it acts on it, and finishes.
    open.acknowledge(&answered.approval.id)?;
    println!("finished: {}", open.finish(&End::Succeeded, None)?.run.status);
    Ok(())
}

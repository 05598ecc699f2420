//! The runner of the demo's workflow: a process that claims a run and executes its remaining phases.
//!
//! It reports each step to its parent on stdout: one line with a word and its subject.

use std::fmt::Display;
use std::io::{BufRead as _, stdin};
use std::thread::sleep;
use std::time::Duration;

use clap::Args;
use duolog::errors::Busy;
use duolog::runs::{Begun, Claim, End, Finish, NewGate, RunHandle, dollars};
use duolog::{ApprovalKind, Clock as _, Error, RunId, SystemClock, Timestamp};

use crate::commands::Context;
use crate::failure::{CommandResult, Ended, Failure};

/// The phases before the gate and their reported usage: milliseconds, turns, tokens, dollars.
const BEFORE: [Phase; 2] = [Phase("plan", 1_200, 3, 4_100, 0.0123), Phase("build", 4_800, 9, 21_400, 0.0642)];
/// The phase after the gate.
const BEHIND: Phase = Phase("ship", 900, 2, 1_900, 0.0057);
/// The name of the gate.
pub const GATE: &str = "before_ship";
/// The lease of a runner: short, because a person watches the demo.
const LEASE: Duration = Duration::from_secs(2);
/// The minimum duration of a phase, so that no two phases start at the same time.
const STEP: Duration = Duration::from_millis(5);

struct Phase(&'static str, u64, u64, u64, f64);

/// Run the workflow of duolog demo
#[derive(Args)]
pub struct DemoRunner {
    /// Run id
    #[arg(long)]
    run: RunId,
    /// Owner of the claim
    #[arg(long)]
    owner: String,
    /// Duration of each phase
    #[arg(long, default_value_t = 0)]
    pace_ms: u64,
    /// Phase in which to wait to be killed
    #[arg(long)]
    hold: Option<String>,
}

impl DemoRunner {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_write()?;
        let run = store.runs().open(&self.run);
        let claim = claim(&run, &self.owner)?;
        say(context, "claimed", claim.run.restart_count)?;
        let run = run.under(claim.fence);
        for phase in BEFORE {
            self.phase(context, &run, &phase)?;
        }
        match run.gate(GATE)? {
            None => {
                let gate = run.pause_at(&NewGate::new(ApprovalKind::Approve, GATE, "Ship it to everybody?"))?;
                say(context, "asks", gate.approval.id)?;
            }
            Some(gate) => {
                run.acknowledge(&gate.id)?;
                say(context, "noted", gate.responded_by.unwrap_or_default())?;
                self.phase(context, &run, &BEHIND)?;
                run.finish(&End::Succeeded, None)?;
                say(context, "finished", "")?;
            }
        }
        context.close(store);
        Ok(Ended::Done)
    }

    /// Runs a phase, unless it is done in the ledger.
    fn phase(&self, context: &mut Context<'_>, run: &RunHandle, phase: &Phase) -> Result<(), Failure> {
        let Phase(name, duration_ms, turns, tokens, cost) = phase;
        let execution = match run.begin(name, None)? {
            Begun::Started(execution) => execution.id,
            Begun::Running(_) | Begun::Done(_) => return say(context, "passes", name),
        };
        say(context, "begins", name)?;
        if self.hold.as_deref() == Some(name) {
            // The parent kills this process here, or has ended.
            let _ = stdin().lock().read_line(&mut String::new());
            return Err(Failure::Given { message: "the parent process ended".to_owned(), hint: None });
        }
        sleep(Duration::from_millis(self.pace_ms).max(STEP));
        let finish = Finish {
            success: true,
            duration_ms: Some(*duration_ms),
            turns: Some(*turns),
            input_tokens: Some(tokens - tokens / 10),
            output_tokens: Some(tokens / 10),
            cost: Some(dollars(*cost)?),
            stop_reason: Some("success".to_owned()),
            ..Finish::default()
        };
        run.end(&execution, &finish)?;
        say(context, "ended", name)
    }
}

/// Claims a run, and waits for the lease of another owner to expire.
fn claim(run: &RunHandle, owner: &str) -> Result<Claim, Failure> {
    loop {
        match run.claim(owner, Some(LEASE)) {
            Err(Error::Busy(Busy::Claimed { until, .. })) => sleep(until_then(until)),
            other => return Ok(other?),
        }
    }
}

fn until_then(at: Timestamp) -> Duration {
    let micros = at.as_micros().saturating_sub(SystemClock.now().as_micros());
    Duration::from_micros(u64::try_from(micros).unwrap_or_default()).clamp(STEP, LEASE)
}

fn say(context: &mut Context<'_>, word: &str, about: impl Display) -> Result<(), Failure> {
    context.out.raw(format!("{word} {about}\n").as_bytes())?;
    context.out.flush()
}

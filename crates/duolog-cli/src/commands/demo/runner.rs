//! The runner of the demo's workflow: a process of its own that claims a run and does what is left of it.
//!
//! What it says on stdout, a line each, is for the process that started it: a word, and what it is about.

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

/// The phases before the gate, and what each says that it used: milliseconds, turns, tokens, dollars.
const BEFORE: [Phase; 2] = [Phase("plan", 1_200, 3, 4_100, 0.0123), Phase("build", 4_800, 9, 21_400, 0.0642)];
/// The phase behind it.
const BEHIND: Phase = Phase("ship", 900, 2, 1_900, 0.0057);
/// The gate.
pub const GATE: &str = "before_ship";
/// How long a runner is waited for that does not renew: short, because somebody watches.
const LEASE: Duration = Duration::from_secs(2);
/// How long a phase takes at the least: no two of them begin in the same instant.
const STEP: Duration = Duration::from_millis(5);

struct Phase(&'static str, u64, u64, u64, f64);

/// The runner of the workflow of `duolog demo`
#[derive(Args)]
pub struct DemoRunner {
    /// The run to do
    #[arg(long)]
    run: RunId,
    /// Who claims it
    #[arg(long)]
    owner: String,
    /// How long each phase takes
    #[arg(long, default_value_t = 0)]
    pace_ms: u64,
    /// The phase in which it waits for a line that never comes
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

    /// Runs a phase, unless the ledger says that it is done.
    fn phase(&self, context: &mut Context<'_>, run: &RunHandle, phase: &Phase) -> Result<(), Failure> {
        let Phase(name, duration_ms, turns, tokens, cost) = phase;
        let execution = match run.begin(name, None)? {
            Begun::Started(execution) => execution.id,
            Begun::Running(_) | Begun::Done(_) => return say(context, "passes", name),
        };
        say(context, "begins", name)?;
        if self.hold.as_deref() == Some(name) {
            // Whoever started it kills it here, or is gone.
            let _ = stdin().lock().read_line(&mut String::new());
            return Err(Failure::Given { message: "nobody killed it".to_owned(), hint: None });
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

/// Claims a run, once the lease of whoever held it has ended.
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

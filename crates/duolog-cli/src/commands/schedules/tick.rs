//! `duolog schedules tick`.

use clap::Args;
use duolog::schedules::{Fired, Ticked, fire};
use duolog::{CronOutcome, Moment};
use serde::Serialize;

use super::super::sessions::actor;
use super::Context;
use crate::failure::{Ended, Failure, Outcome};
use crate::out::Tone;

const AFTER: &str = "\
Examples:
  duolog schedules tick
  while true; do duolog schedules tick --quiet; sleep 30; done

The first tick of a schedule fires nothing: what lies before it was not missed. Of times that passed
while nobody ticked the last one is fired, or as catch_up in the configuration says: \"all\" starts a
run for each missed time, 100 at most, with the trigger id NAME@DUE. Otherwise the trigger id is
NAME, and a time is skipped while the run of an earlier one is active. Skipped times are listed with
their reasons.

After an error the times that were fired are printed first; those that were not tried stay due.

Exit code: 0 all is well · 1 something failed, or a schedule cannot fire

JSON:
  {\"fired\": [{\"id\", \"name\", \"workflow\", \"due_at\", \"missed\": 0, \"outcome\", \"error\", \"detail\",
              \"workflow_run_id\"}], \"taken\": 0, \"problems\": [{\"name\", \"problem\"}]}
  missed are earlier times that are left out; taken are those that another process fired;
  an error follows as an object of its own";

/// Fire what has become due since the last tick
///
/// Any number of processes, in any number of homes on the same state, may do so at once: each time is fired once.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Tick {
    /// Look at the times up to this instant, instead of now
    #[arg(long, value_name = "INSTANT")]
    until: Option<Moment>,
    /// Who has it fired; the user where it is not given
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
}

#[derive(Serialize)]
struct Answer<'a> {
    fired: Vec<Shape<'a>>,
    taken: u32,
    problems: Vec<Problem<'a>>,
}

#[derive(Serialize)]
struct Shape<'a> {
    id: String,
    name: &'a str,
    workflow: Option<&'a str>,
    due_at: String,
    missed: u32,
    outcome: &'static str,
    error: Option<&'a str>,
    detail: Option<&'a str>,
    workflow_run_id: Option<&'a str>,
}

#[derive(Serialize)]
struct Problem<'a> {
    name: &'a str,
    problem: &'a str,
}

impl Tick {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        let store = context.open_to_write()?;
        let now = store.now()?;
        let until = self.until.unwrap_or(now);
        if until > now {
            return Err(Failure::Given {
                message: format!("{until} lies ahead, and nothing is fired before its time"),
                hint: Some("leave --until out, or name an instant that has passed".to_owned()),
            });
        }
        let (ticked, error) = match store.schedules().by(actor(self.actor)).tick(until, |due| fire(&store, due)) {
            Ok(ticked) => (ticked, None),
            Err(interrupted) => (interrupted.ticked, Some(interrupted.error)),
        };
        let problems = ticked.problems.iter().map(|(name, problem)| Problem { name, problem }).collect();
        let answer = Answer { fired: ticked.fired.iter().map(shape).collect(), taken: ticked.taken, problems };
        context.out.confirm(&answer, |text| {
            for one in &ticked.fired {
                let outcome = one.outcome.outcome;
                let tone = if outcome == CronOutcome::Failed { Tone::Bad } else { Tone::Good };
                let told = one.outcome.error.as_ref().or(one.outcome.detail.as_ref());
                let told = told.map(|told| format!(": {told}")).unwrap_or_default();
                let outcome = text.tone(tone, outcome.as_str());
                text.line(format_args!("{}  {}  {outcome}{told}", one.due.name, one.due.due_at));
            }
        })?;
        if ticked.fired.is_empty() && error.is_none() {
            context.out.note(if ticked.taken > 0 { "another process fired what was due" } else { "nothing is due" });
        }
        for (name, problem) in &ticked.problems {
            context.out.warn(format_args!("{name} cannot fire: {problem}"));
        }
        if let Some(error) = error {
            return Err(Failure::TickStopped { fired: ticked.fired.len(), cause: Box::new(error.into()) });
        }
        context.close(store);
        Ok(if is_well(&ticked) { Ended::Done } else { Ended::No })
    }
}

fn is_well(ticked: &Ticked) -> bool {
    ticked.problems.is_empty() && ticked.fired.iter().all(|one| one.outcome.outcome != CronOutcome::Failed)
}

fn shape(one: &Fired) -> Shape<'_> {
    Shape {
        id: one.due.id.to_string(),
        name: &one.due.name,
        workflow: one.due.workflow.as_deref(),
        due_at: one.due.due_at.to_string(),
        missed: one.due.missed,
        outcome: one.outcome.outcome.as_str(),
        error: one.outcome.error.as_deref(),
        detail: one.outcome.detail.as_deref(),
        workflow_run_id: one.outcome.workflow_run_id.as_deref(),
    }
}

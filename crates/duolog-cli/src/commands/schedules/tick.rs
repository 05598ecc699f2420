//! `duolog schedules tick`.

use clap::Args;
use duolog::schedules::{Ticked, fire};
use duolog::{CronOutcome, Timestamp};
use duolog_wire as wire;

use super::super::sessions::actor;
use super::Context;
use crate::failure::{CommandResult, Ended, Failure};
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
  {\"fired\": [{\"id\", \"schedule_name\", \"workflow_name\", \"due_at\", \"missed\": 0, \"status\",
              \"error_message\", \"detail\", \"workflow_run_id\"}], \"fired_elsewhere\": 0,
   \"problems\": [{\"schedule_name\", \"problem\"}]}
  missed are earlier times that are left out; fired_elsewhere are those that another process fired;
  an error follows as an object of its own";

/// Fire what has become due since the last tick
///
/// Any number of processes, in any number of homes on the same state, may do so at once: each time is fired once.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Tick {
    /// Look at the times up to this instant, instead of now
    #[arg(long, value_name = "INSTANT")]
    until: Option<Timestamp>,
    /// Who has it fired; the user where it is not given
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
}

impl Tick {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_write()?;
        let now = store.now()?;
        let until = self.until.unwrap_or(now);
        if until > now {
            return Err(Failure::Given {
                message: format!("{until} lies ahead, and nothing is fired before its time"),
                hint: Some("leave --until out, or name an instant that has passed".to_owned()),
            });
        }
        let (ticked, error) = match store.schedules().by(actor(self.actor)).tick(until, fire) {
            Ok(ticked) => (ticked, None),
            Err(interrupted) => (interrupted.ticked, Some(interrupted.error)),
        };
        context.out.confirm(&wire::ScheduleTicked::from(&ticked), |text| {
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

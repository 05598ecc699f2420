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

The first tick of a schedule fires nothing: earlier times do not count as missed. If more than one
time has passed since the last tick, catch_up in the configuration decides which ones fire. By default
only the latest fires. With \"all\", each missed time starts a run with the trigger id NAME@DUE, up to
100 runs. Otherwise the trigger id is NAME, and a time is skipped while the run of an earlier time is
active. Skipped times are listed with their reasons.

If an error stops the tick, the times that fired are printed first; the others stay due. A time that
is being fired when the process is killed is recorded as lost. To fire it, use --operation-id and
repeat the command with the same id.

Exit code: 0 success · 1 a firing failed, or a schedule cannot fire

JSON:
  {\"fired\": [{\"id\", \"schedule_name\", \"workflow_name\", \"due_at\", \"missed\": 0, \"status\",
              \"error_message\", \"detail\", \"workflow_run_id\"}], \"fired_elsewhere\": 0,
   \"problems\": [{\"schedule_name\", \"problem\"}]}
  missed is the number of earlier times that did not fire; fired_elsewhere is the number of times that
  another process fired; an error follows as a separate object";

/// Fire the schedules that are due
///
/// Several processes may tick at the same time, also in different homes on the same state: each due time fires once.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Tick {
    /// Latest due time to fire; must not be in the future [default: now]
    #[arg(long, value_name = "TIME")]
    until: Option<Timestamp>,
    /// Actor to record [default: $USER]
    #[arg(long = "by", value_name = "NAME")]
    actor: Option<String>,
}

impl Tick {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_write()?;
        let now = store.now()?;
        let until = self.until.unwrap_or(now);
        if until > now {
            return Err(Failure::Given {
                message: format!("cannot fire schedules until {until}: the time is in the future"),
                hint: Some("omit --until, or give a time in the past".to_owned()),
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
                let detail = one.outcome.error.as_ref().or(one.outcome.detail.as_ref());
                let detail = detail.map(|detail| format!(": {detail}")).unwrap_or_default();
                let outcome = text.tone(tone, outcome.as_str());
                text.line(format_args!("{}  {}  {outcome}{detail}", one.due.name, one.due.due_at));
            }
        })?;
        if ticked.fired.is_empty() && error.is_none() {
            context.out.note(if ticked.taken > 0 { "fired by another process" } else { "no schedule is due" });
        }
        for (name, problem) in &ticked.problems {
            context.out.warn(format_args!("schedule {name} cannot fire: {problem}"));
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

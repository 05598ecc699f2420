//! `duolog runs wait`.

use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use duolog::RunStatus;
use duolog::runs::Until;
use duolog_wire as wire;

use super::{Context, tone};
use crate::args;
use crate::failure::{CommandResult, Ended};

const AFTER: &str = "\
Examples:
  duolog runs wait \"$run\"
  duolog runs wait \"$run\" --for succeeded --timeout 30m && deploy
  duolog runs wait \"$run\" --for settled --timeout 30s || echo \"still running\"

Exit code: 1 if the run ended with another status · 3 if the wait timed out

JSON:
  {\"run\": {… as runs list …}, \"met\": true|false}";

/// Wait until a run reaches a status
///
/// The wait ends as soon as any process writes the status change to the run's log.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Wait {
    /// Run id or a unique prefix
    #[arg(value_name = "RUN")]
    run: String,
    /// Status to wait for; ended: any final status; settled: any final status or paused
    #[arg(long = "for", value_name = "STATUS", default_value = "ended")]
    #[arg(value_parser = PossibleValuesParser::new(words()).map(|word| until(&word)))]
    until: Until,
    /// Maximum time to wait [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = args::duration)]
    timeout: Option<Duration>,
}

fn words() -> impl Iterator<Item = &'static str> {
    ["ended", "settled"].into_iter().chain(RunStatus::ALL.iter().map(|status| status.as_str()))
}

fn until(word: &str) -> Until {
    match word {
        "ended" => Until::Ended,
        "settled" => Until::Settled,
        word => Until::Status(RunStatus::ALL.iter().copied().filter(|status| status.as_str() == word).collect()),
    }
}

impl Wait {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_read()?;
        let run = store.runs().open(&store.runs().resolve(&self.run)?);
        // Another final status also ends the wait: only a retry leaves it.
        let is_over = |status: &RunStatus| status.is_terminal() || self.until.is_met(*status);
        let enough = Until::Status(RunStatus::ALL.iter().copied().filter(is_over).collect());
        let run = run.wait(&enough, self.timeout.unwrap_or(Duration::MAX))?;
        let met = self.until.is_met(run.status);
        context.out.confirm(&wire::RunWait { run: (&run).into(), met }, |text| {
            text.line(format_args!("run {} is {}", run.id, text.tone(tone(run.status), run.status.as_str())));
        })?;
        Ok(match met {
            true => Ended::Done,
            false if run.status.is_terminal() => Ended::No,
            false => {
                let seconds = self.timeout.unwrap_or_default().as_secs_f64();
                context.out.note(format_args!("timed out after {seconds} s; the run is still {}", run.status));
                Ended::Busy
            }
        })
    }
}

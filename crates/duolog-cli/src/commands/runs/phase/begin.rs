//! `duolog runs phase begin`.

use clap::Args;
use duolog::SessionId;
use duolog::runs::Begun;

use super::super::Owned;
use super::{Context, Stands, not_to_be_run};
use crate::failure::{Ended, Outcome};

const AFTER: &str = "\
Examples:
  if execution=$(duolog runs phase begin \"$run\" build --fence \"$fence\"); then
    make && duolog runs phase end \"$run\" \"$execution\" --fence \"$fence\"
  fi

Exit code: 1 where it is done, 3 where it is being run

JSON:
  {\"run\": id, \"phase\", \"standing\": \"started\"|\"running\"|\"done\", \"execution\": id}";

/// Begin to run a phase, and print its execution; unless it is done, or being run
///
/// Looked at and entered in the ledger in one step: whatever dies, a phase that succeeded is not run again.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Begin {
    #[command(flatten)]
    run: Owned,
    /// The phase: 1 to 128 of A-Z a-z 0-9 _ . -
    #[arg(value_name = "PHASE")]
    phase: String,
    /// The session whose log tells of it, if it is known already
    #[arg(long, value_name = "SESSION")]
    session: Option<SessionId>,
}

impl Begin {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        let store = context.open_to_write()?;
        let run = self.run.open(&store)?;
        let begun = run.begin(&self.phase, self.session.as_ref())?;
        let (standing, execution) = match &begun {
            Begun::Started(execution) => ("started", &execution.id),
            Begun::Running(execution) => ("running", execution),
            Begun::Done(execution) => ("done", execution),
        };
        let stands =
            Stands { run: run.id().as_str(), phase: &self.phase, standing, execution: Some(execution.as_str()) };
        let is_started = matches!(begun, Begun::Started(_));
        context.out.answer(&stands, |text| {
            if is_started {
                text.line(execution);
            }
        })?;
        let ended = if is_started { Ended::Done } else { not_to_be_run(context, &stands) };
        context.close(store);
        Ok(ended)
    }
}

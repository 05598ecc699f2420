//! `duolog runs phase begin`.

use clap::Args;
use duolog::runs::Begun;
use duolog_wire::PhaseStatus;

use super::super::OwnedNamed;
use super::{Context, not_to_be_run};
use crate::args;
use crate::commands::sessions::of_agent;
use crate::failure::{CommandResult, Ended};

const AFTER: &str = "\
Examples:
  if execution=$(duolog runs phase begin \"$run\" build --fence \"$fence\"); then
    make && duolog runs phase end \"$run\" \"$execution\" --fence \"$fence\"
  fi

Exit code: 3 if the phase is running · 6 if it is done

JSON:
  {\"workflow_run_id\", \"phase\", \"status\": \"started\"|\"running\"|\"done\", \"execution_id\"}";

/// Begin a phase and print its execution id
///
/// A phase that is running or done is not begun. The check and the new execution are one transaction: a phase that
/// succeeded is not run again, even after a crash.
#[derive(Args)]
#[command(after_help = AFTER, override_usage = "duolog runs phase begin [OPTIONS] [RUN] <PHASE>")]
#[command(mut_arg(args::SECOND_NAME, |name| name.value_name("PHASE").help("Phase name: 1 to 128 of A-Z a-z 0-9 _ . -")))]
pub struct Begin {
    #[command(flatten)]
    names: OwnedNamed,
    /// Session of the agent, if known: an id, a unique prefix or a thread name
    ///
    /// The id of a session of another program, such as Claude Code, is stored as given: the session need not exist here.
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
}

impl Begin {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let (run, phase) = self.names.split("phase")?;
        let store = context.open_to_write()?;
        let run = run.open(&store)?;
        let session = self.session.map(|text| of_agent(context, &store, &text)).transpose()?;
        let begun = run.begin(&phase, session.as_ref())?;
        let status = PhaseStatus::begun(run.id(), &phase, &begun);
        context.out.answer(&status, |text| {
            if let Begun::Started(execution) = &begun {
                text.line(&execution.id);
            }
        })?;
        let is_started = matches!(begun, Begun::Started(_));
        let ended = if is_started { Ended::Done } else { not_to_be_run(context, &status) };
        context.close(store);
        Ok(ended)
    }
}

//! `duolog runs execution session`.

use clap::Args;
use duolog_wire::ExecutionAnswer;

use super::super::Context;
use super::alone;
use crate::commands::sessions::of_agent;
use crate::failure::{CommandResult, Ended};

const AFTER: &str = "\
Examples:
  duolog runs execution session \"$turn\" \"$session\"

JSON:
  {\"execution\": {… as runs phase end …}}";

/// Set the session of an execution that is in flight
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Session {
    /// Execution id or a unique prefix
    #[arg(value_name = "EXECUTION")]
    execution: String,
    /// Session of the agent: an id, a unique prefix or a thread name
    ///
    /// The id of a session of another program, such as Claude Code, is stored as given: the session need not exist here.
    #[arg(value_name = "SESSION")]
    session: String,
}

impl Session {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_write()?;
        let (execution, session) = (alone(&store, &self.execution)?.id, of_agent(context, &store, &self.session)?);
        let execution = store.runs().executions().set_session(&execution, &session, None)?;
        context.out.confirm(&ExecutionAnswer::from(&execution), |text| {
            text.line(format_args!("execution {} has session {}", execution.id, session));
        })?;
        context.close(store);
        Ok(Ended::Done)
    }
}

//! `duolog runs phase session`.

use clap::Args;
use duolog_wire::ExecutionAnswer;

use super::super::{Changed, UnderClaim};
use super::Context;
use crate::commands::sessions::of_agent;
use crate::failure::{CommandResult, Ended};

const AFTER: &str = "\
Examples:
  duolog runs phase session \"$run\" \"$execution\" \"$session\" --fence \"$fence\"

JSON:
  {\"execution\": {… as runs phase end …}}";

/// Set the session of an execution that is in flight
///
/// Use this for a runtime that reports its session after its start.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct SetSession {
    #[command(flatten)]
    which: Changed,
    #[command(flatten)]
    claim: UnderClaim,
    /// Execution id or a unique prefix
    #[arg(value_name = "EXECUTION")]
    execution: String,
    /// Session of the agent: an id, a unique prefix or a thread name
    ///
    /// The id of a session of another program, such as Claude Code, is stored as given: the session need not exist here.
    #[arg(value_name = "SESSION")]
    session: String,
}

impl SetSession {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_write()?;
        let execution = store.runs().executions().resolve(&self.execution)?;
        let session = of_agent(context, &store, &self.session)?;
        let execution = self.claim.on(self.which.open(&store)?)?.set_session(&execution, &session)?;
        context.out.confirm(&ExecutionAnswer::from(&execution), |text| {
            text.line(format_args!("execution {} has session {}", execution.id, session));
        })?;
        context.close(store);
        Ok(Ended::Done)
    }
}

//! `duolog runs execution session`.

use clap::Args;
use duolog::{ExecutionId, SessionId};
use duolog_wire::ExecutionAnswer;

use super::super::Context;
use super::alone;
use crate::failure::{Ended, Outcome};

const AFTER: &str = "\
Examples:
  duolog runs execution session \"$turn\" \"$session\"

JSON:
  {\"execution\": {… as runs phase end …}}";

/// Set the session of an execution that is in flight
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Session {
    /// Execution id
    #[arg(value_name = "EXECUTION")]
    execution: ExecutionId,
    /// Session id
    #[arg(value_name = "SESSION")]
    session: SessionId,
}

impl Session {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        let store = context.open_to_write()?;
        alone(&store, &self.execution)?;
        let execution = store.runs().executions().set_session(&self.execution, &self.session, None)?;
        context.out.confirm(&ExecutionAnswer::from(&execution), |text| {
            text.line(format_args!("execution {} has session {}", execution.id, self.session));
        })?;
        context.close(store);
        Ok(Ended::Done)
    }
}

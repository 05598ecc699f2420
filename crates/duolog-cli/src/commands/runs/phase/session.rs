//! `duolog runs phase session`.

use clap::Args;
use duolog::{ExecutionId, SessionId};
use duolog_wire::ExecutionAnswer;

use super::super::{Changed, UnderClaim};
use super::Context;
use crate::failure::{Ended, Outcome};

const AFTER: &str = "\
Examples:
  duolog runs phase session \"$run\" \"$execution\" \"$session\" --fence \"$fence\"

JSON:
  {\"execution\": {… as runs phase end …}}";

/// Set the session of an execution that is in flight
///
/// For a runtime that reports its session only once it runs.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct SetSession {
    #[command(flatten)]
    which: Changed,
    #[command(flatten)]
    claim: UnderClaim,
    /// Execution id, as runs phase begin printed it
    #[arg(value_name = "EXECUTION")]
    execution: ExecutionId,
    /// Session id
    #[arg(value_name = "SESSION")]
    session: SessionId,
}

impl SetSession {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        let store = context.open_to_write()?;
        let execution = self.claim.on(self.which.open(&store)?)?.set_session(&self.execution, &self.session)?;
        context.out.confirm(&ExecutionAnswer::from(&execution), |text| {
            text.line(format_args!("execution {} has session {}", execution.id, self.session));
        })?;
        context.close(store);
        Ok(Ended::Done)
    }
}

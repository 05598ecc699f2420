//! `duolog runs output`.

use clap::Args;
use duolog_wire as wire;

use super::Context;
use crate::failure::{CommandResult, Ended};
use crate::figures;

const AFTER: &str = "\
Examples:
  duolog runs output \"$execution\"
  duolog runs output \"$execution\" --full > whole.txt

Exit code: 1 if the execution has no output

JSON:
  {\"execution_id\", \"text\": text|null, \"bytes\": 1234|null, \"blob_id\": sha256|null}
  bytes is the size of the full text; blob_id is its blob if text is only the end of it";

/// Print the output of an execution
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Output {
    /// Execution id or a unique prefix
    #[arg(value_name = "EXECUTION")]
    execution: String,
    /// Print the full output instead of its end
    #[arg(long)]
    full: bool,
}

impl Output {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_read()?;
        let executions = store.runs().executions();
        let execution = executions.get(&executions.resolve(&self.execution)?)?;
        let kept = executions.output(&execution.id)?;
        let whole = if self.full { executions.full_output(&execution.id)? } else { None };
        let text = whole.as_deref().or(kept.as_ref().map(|kept| kept.text.as_str()));
        let blob = kept.as_ref().and_then(|kept| kept.blob.as_deref());
        let shape = wire::ExecutionOutput {
            execution_id: execution.id.to_string(),
            text: text.map(str::to_owned),
            bytes: kept.as_ref().map(|kept| kept.bytes),
            blob_id: blob.map(|blob| blob.strip_prefix("blob:").unwrap_or(blob).to_owned()),
        };
        context.out.answer(&shape, |out| {
            if let Some(text) = text {
                out.line(text.strip_suffix('\n').unwrap_or(text));
            }
        })?;
        let Some(kept) = kept else {
            context.out.note("the execution has no output");
            return Ok(Ended::No);
        };
        if kept.blob.is_some() && !self.full {
            context
                .out
                .note(format_args!("this is the end of {}; --full prints the full output", figures::size(kept.bytes)));
        }
        Ok(Ended::Done)
    }
}

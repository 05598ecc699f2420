//! `duolog runs gate`.

use clap::Args;
use duolog::runs::{Expiry, LoopPoint, NewGate, PausedAt};
use duolog::{ApprovalId, ApprovalKind};
use duolog_wire as wire;

use super::{Context, Owned, actor, in_argument, text_or_stdin};
use crate::args;
use crate::commands::approvals;
use crate::failure::{CommandResult, Ended};

const AFTER: &str = "\
Examples:
  gate=$(duolog runs gate \"$run\" ship --fence \"$fence\" --summary \"Ship 1.2 to everybody?\")
  duolog runs gate \"$run\" design --kind reply --expires 2d --fence \"$fence\" --summary - < ask.txt
  duolog runs gate \"$run\" design_iter_2 --kind reply --summary \"And the colors?\" --fence \"$fence\" \\
    --loop-key design --iteration 2 --output \"$execution\"

JSON:
  {\"approval\": {… as approvals list …}, \"existed\": true|false}
  existed: a gate of the same --id and content was there, and nothing changed";

/// Pause a run at a gate until somebody answers, and print the gate's id
///
/// The marker in the history, the scratch, the gate and the status change together, or not at all. The claim ends with
/// it: once it is answered, the run goes on for whoever claims it, and the answer waits to be acknowledged. A paused run
/// holds no slot: if none is free when it is answered, it is queued before every run that has not begun.
#[derive(Args)]
#[command(after_help = AFTER, allow_missing_positional = true)]
pub struct Gate {
    #[command(flatten)]
    run: Owned,
    /// What the workflow calls the gate
    #[arg(value_name = "GATE")]
    name: String,
    /// What is asked, for people; - reads it from stdin
    #[arg(long, value_name = "TEXT")]
    summary: String,
    /// What resolves it: a yes or a no, or any answer in words
    #[arg(long, default_value = "approve", value_parser = args::word(ApprovalKind::ALL, ApprovalKind::as_str))]
    kind: ApprovalKind,
    /// Who asks; the user where it is not given
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Hash of what is asked about; an answer must carry it
    #[arg(long, value_name = "HASH")]
    hash: Option<String>,
    /// Until when it may be answered: an instant, or a time from now like 2d; after that the run fails
    #[arg(long, value_name = "WHEN", value_parser = args::expiry)]
    expires: Option<Expiry>,
    /// A JSON object that is merged into the scratch in the same step
    #[arg(long, value_name = "JSON")]
    scratch: Option<String>,
    /// The key of the scratch that keeps the loop which asks
    #[arg(long, value_name = "KEY", requires_all = ["iteration", "output"])]
    loop_key: Option<String>,
    /// Which turn of the loop asks
    #[arg(long, value_name = "N", requires = "loop_key")]
    iteration: Option<u64>,
    /// The execution whose output is the question
    #[arg(long, value_name = "EXECUTION", requires = "loop_key")]
    output: Option<String>,
    /// Gate id; the same id with other content is refused
    #[arg(long, value_name = "ID")]
    id: Option<ApprovalId>,
}

impl Gate {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let summary = text_or_stdin(context, self.summary)?;
        let store = context.open_to_write()?;
        let at = match (self.loop_key, self.iteration, self.output) {
            (Some(key), Some(iteration), Some(output)) => {
                let output = store.runs().executions().resolve(&output)?;
                Some(LoopPoint { key, iteration, output })
            }
            _ => None,
        };
        let gate = NewGate {
            id: self.id,
            gate: self.name,
            kind: self.kind,
            summary,
            requested_by: actor(self.by),
            content_hash: self.hash,
            expires: self.expires,
            scratch: self.scratch,
            at,
        };
        let PausedAt { approval, existed } =
            self.run.open(&store)?.pause_at(&gate).map_err(in_argument("--scratch"))?;
        context
            .out
            .answer(&wire::GateOpened { approval: (&approval).into(), existed }, |text| text.line(&approval.id))?;
        if existed {
            context.out.note(format_args!("the gate exists, with the same content: it is {}", approval.status));
        } else {
            context.out.note(format_args!("the run waits: {}", approvals::to_answer(&approval)));
        }
        context.close(store);
        Ok(Ended::Done)
    }
}

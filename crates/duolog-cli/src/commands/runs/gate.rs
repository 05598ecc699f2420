//! `duolog runs gate`.

use clap::Args;
use duolog::runs::{Expiry, LoopPoint, NewGate, PausedAt};
use duolog::{ApprovalId, ApprovalKind};
use duolog_wire as wire;

use super::{Context, OwnedNamed, actor, in_argument, text_or_stdin};
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
  existed: true if a gate with the same --id and content exists; nothing changed";

/// Pause a run at a gate and print the gate's id
///
/// The history entry, the scratch, the gate and the status change in one transaction. The claim ends. After the answer
/// the run is ready to claim, and its next owner acknowledges the answer.
///
/// A paused run holds no slot. If no slot is free when the gate is answered, the run is queued before all runs that
/// have not started.
#[derive(Args)]
#[command(after_help = AFTER, override_usage = "duolog runs gate [OPTIONS] --summary <TEXT> [RUN] <GATE>")]
#[command(mut_arg(args::SECOND_NAME, |name| name.value_name("GATE").help("Gate name")))]
pub struct Gate {
    #[command(flatten)]
    names: OwnedNamed,
    /// Question for people; - reads it from stdin
    #[arg(long, value_name = "TEXT")]
    summary: String,
    /// Kind of answer: approve (yes or no) or reply (a text)
    #[arg(long, default_value = "approve", value_parser = args::word(ApprovalKind::ALL, ApprovalKind::as_str))]
    kind: ApprovalKind,
    /// Actor to record [default: $USER]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Content hash; an answer must have the same hash
    #[arg(long, value_name = "HASH")]
    hash: Option<String>,
    /// Expiry: an instant, or a duration from now such as 2d; the run fails after it
    #[arg(long, value_name = "TIME", value_parser = args::expiry)]
    expires: Option<Expiry>,
    /// JSON object to merge into the scratch in the same transaction
    #[arg(long, value_name = "JSON")]
    scratch: Option<String>,
    /// Scratch key of the loop that asks
    #[arg(long, value_name = "KEY", requires_all = ["iteration", "output"])]
    loop_key: Option<String>,
    /// Iteration of the loop that asks
    #[arg(long, value_name = "N", requires = "loop_key")]
    iteration: Option<u64>,
    /// Execution whose output is the question
    #[arg(long, value_name = "EXECUTION", requires = "loop_key")]
    output: Option<String>,
    /// Gate id; the same id with different content is refused
    #[arg(long, value_name = "ID")]
    id: Option<ApprovalId>,
}

impl Gate {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let (run, name) = self.names.split("gate")?;
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
            gate: name,
            kind: self.kind,
            summary,
            requested_by: actor(self.by),
            content_hash: self.hash,
            expires: self.expires,
            scratch: self.scratch,
            at,
        };
        let PausedAt { approval, existed } = run.open(&store)?.pause_at(&gate).map_err(in_argument("--scratch"))?;
        context
            .out
            .answer(&wire::GateOpened { approval: (&approval).into(), existed }, |text| text.line(&approval.id))?;
        if existed {
            context.out.note(format_args!("nothing changed: a gate with this id exists, and is {}", approval.status));
        } else {
            context.out.note(format_args!(
                "the run is paused until the gate is answered: {}",
                approvals::to_answer(&approval)
            ));
        }
        context.close(store);
        Ok(Ended::Done)
    }
}

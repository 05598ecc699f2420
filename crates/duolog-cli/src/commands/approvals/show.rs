//! `duolog approvals show`.

use clap::Args;
use duolog::approvals::Approval;
use duolog::{ApprovalKind, ApprovalStatus, Clock as _, SystemClock, Timestamp};
use duolog_wire as wire;

use super::{Context, to_answer, tone};
use crate::failure::{CommandResult, Ended};
use crate::figures;
use crate::out::{Text, Tone, plain};

const AFTER: &str = "\
Examples:
  duolog approvals show 019364
  duolog approvals show \"$gate\" --json | jq -r .approval.response

JSON:
  {\"approval\": {… as approvals list …}, \"question\": text|null}
  question is the output of the execution that opened the gate; null if the gate has no execution";

/// Show a gate with its question and its answer
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Show {
    /// Gate id or a unique prefix
    #[arg(value_name = "APPROVAL")]
    approval: String,
}

impl Show {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_read()?;
        let approval = store.approvals().get(&store.approvals().resolve(&self.approval)?)?;
        let question = match &approval.output_execution_id {
            Some(execution) => store.runs().executions().output(execution)?,
            None => None,
        };
        let question = question.as_ref().map(|output| output.text.as_str());
        let answer = wire::ApprovalDetail { approval: (&approval).into(), question: question.map(str::to_owned) };
        context.out.answer(&answer, |text| {
            show(text, &approval, SystemClock.now());
            if let Some(question) = question {
                text.line("");
                text.line(plain(question.trim_end()));
            }
        })?;
        Ok(Ended::Done)
    }
}

fn show(text: &mut Text, approval: &Approval, now: Timestamp) {
    let when = |at: Timestamp| format!("{at}  ({})", figures::age(at, now));
    let point = |key: &String| format!("{}, iteration {}", plain(key), approval.iteration.unwrap_or_default());
    let fields = [
        ("id", Some(text.tone(Tone::Strong, approval.id.as_str()))),
        ("run", Some(approval.workflow_run_id.to_string())),
        ("gate", Some(plain(&approval.gate))),
        ("kind", Some(approval.kind.to_string())),
        ("status", Some(text.tone(tone(approval.status), approval.status.as_str()))),
        ("requested by", approval.requested_by.as_deref().map(plain)),
        ("created", Some(when(approval.created_at))),
        ("hash", approval.content_hash.as_deref().map(plain)),
        ("loop", approval.loop_key.as_ref().map(point)),
        ("execution", approval.output_execution_id.as_ref().map(ToString::to_string)),
        ("expires", approval.expires_at.map(|at| format!("{at}  ({})", figures::ahead(at, now)))),
        ("responded by", approval.responded_by.as_deref().map(plain)),
        ("responded", approval.responded_at.map(when)),
        ("consumed", approval.consumed_at.map(when)),
    ];
    for (label, value) in fields {
        if let Some(value) = value {
            text.field(label, value);
        }
    }
    for (label, words) in [("summary", Some(&approval.summary)), ("response", approval.response.as_ref())] {
        if let Some(words) = words {
            text.field(label, plain(words.trim_end()).replace('\n', &format!("\n{:13}", "")));
        }
    }
    if approval.status == ApprovalStatus::Pending {
        let or = if approval.kind == ApprovalKind::Approve { "  (or reject)" } else { "" };
        text.field("next", format_args!("{}{or}", to_answer(approval)));
    }
}

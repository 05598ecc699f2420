//! `duolog approvals`, and the arguments and output that its commands share.

mod approve;
mod list;
mod reject;
mod reply;
mod show;

use clap::Args;
use duolog::approvals::{Answer, Answered, Approval};
use duolog::errors::NotFound;
use duolog::{ApprovalId, ApprovalKind, ApprovalStatus, Error, RunId, RunStatus, Store};
use duolog_wire as wire;

use super::sessions::actor;
use super::{Context, runs};
use crate::failure::{CommandResult, Ended, Failure};
use crate::login;
use crate::out::{Tone, plain};

commands! {
/// Subcommands of `duolog approvals`.
Approvals {
    List(list::List),
    Show(show::Show),
    Approve(approve::Approve),
    Reject(reject::Reject),
    Reply(reply::Reply),
}}

/// The gate to answer and the responder.
#[derive(Args)]
struct Asked {
    /// Gate id or a unique prefix
    #[arg(value_name = "APPROVAL", required_unless_present = "gate")]
    approval: Option<String>,
    /// Run id or a unique prefix; a gate of another run is refused
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// Gate name, instead of an id; selects the latest gate of that name in the run
    #[arg(long, value_name = "GATE", requires = "run", conflicts_with = "approval")]
    gate: Option<String>,
    /// Actor to record [default: $USER]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Content hash of the gate; required if the gate has one
    #[arg(long, value_name = "HASH")]
    hash: Option<String>,
}

impl Asked {
    /// Resolves the gate, and builds the answer.
    fn answer(self, store: &Store, response: Option<String>) -> Result<(ApprovalId, Answer), Failure> {
        let run = self.run.map(|run| store.runs().resolve(&run)).transpose()?;
        let id = match (&self.approval, &self.gate, &run) {
            (None, Some(gate), Some(run)) => {
                let missing = || Error::NotFound(NotFound::Approval(gate.clone()));
                store.runs().open(run).gate(gate)?.ok_or_else(missing)?.id
            }
            (approval, _, _) => store.approvals().resolve(approval.as_deref().unwrap_or_default())?,
        };
        Ok((id, Answer { by: Some(approver(self.by)), response, content_hash: self.hash, run }))
    }
}

/// Returns the responder: the given name, $USER, the login name or the user id.
fn approver(named: Option<String>) -> String {
    let uid = || format!("uid {}", rustix::process::getuid().as_raw());
    actor(named).or_else(login::name).unwrap_or_else(uid)
}

/// Prints the new status of a gate and of its run.
fn answered(context: &mut Context<'_>, answered: &Answered) -> CommandResult {
    let Answered { approval, run } = answered;
    context.out.confirm(&wire::ApprovalAnswered::from(answered), |text| {
        let status = text.tone(tone(approval.status), approval.status.as_str());
        let by = approval.responded_by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
        text.line(format_args!("gate {} is {status}{}", plain(&approval.gate), plain(&by)));
        text.line(format_args!("run {} is {}", run.id, text.tone(runs::tone(run.status), run.status.as_str())));
    })?;
    if run.status == RunStatus::Queued {
        context.out.note(runs::NO_SLOT);
    } else if !run.status.is_terminal() {
        let run: &RunId = &run.id;
        context.out.note(format_args!("the run is ready to claim: duolog runs claim {run} --owner NAME"));
    }
    Ok(Ended::Done)
}

/// Returns the command that answers a gate.
pub(super) fn to_answer(approval: &Approval) -> String {
    let hash = approval.content_hash.as_deref().map(|hash| format!(" --hash {}", word(hash))).unwrap_or_default();
    match approval.kind {
        ApprovalKind::Approve => format!("duolog approvals approve {}{hash}", approval.id),
        ApprovalKind::Reply => format!("duolog approvals reply {} TEXT{hash}", approval.id),
    }
}

/// Quotes a text as one shell word.
pub(super) fn word(text: &str) -> String {
    let is_plain = text.chars().all(|letter| letter.is_alphanumeric() || "._-/:".contains(letter));
    if is_plain { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

pub(super) fn tone(status: ApprovalStatus) -> Tone {
    match status {
        ApprovalStatus::Pending => Tone::Worth,
        ApprovalStatus::Approved | ApprovalStatus::Answered => Tone::Good,
        ApprovalStatus::Rejected => Tone::Bad,
        ApprovalStatus::Expired => Tone::Faint,
    }
}

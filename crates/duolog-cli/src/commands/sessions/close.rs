//! `duolog sessions close`.

use clap::Args;
use duolog::SessionStatus;
use duolog::sessions::{Changed, Session, StatusUpdate};
use duolog_wire::SessionStatusChanged;

use super::{Context, actor};
use crate::args::{self, Which};
use crate::failure::{CommandResult, Ended, Failure};

const AFTER: &str = "\
Examples:
  duolog sessions close demo
  duolog sessions close demo --status failed --reason \"the tests do not pass\"

JSON:
  {\"session_id\", \"status\", \"previous_status\": status|null, \"changed\": true|false}";

/// Set a session's final status [default: completed]
///
/// The change is written to the status history and to the session's log. The status of a session that has ended does
/// not change until sessions reopen.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Close {
    #[command(flatten)]
    which: Which,
    /// New status
    #[arg(long, value_parser = args::status(), default_value = "completed")]
    status: SessionStatus,
    /// Reason to record
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Reason code, one word
    #[arg(long, value_name = "CODE")]
    reason_code: Option<String>,
    /// Evidence for the status, as JSON
    #[arg(long, value_name = "JSON")]
    evidence: Option<String>,
    /// Actor to record [default: $USER]
    #[arg(long = "by", value_name = "NAME")]
    actor: Option<String>,
}

impl Close {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let reference = self.which.reference(context.config()?)?;
        let durability = context.config()?.durability();
        let store = context.open_to_write()?;
        let session = store.sessions().resolve(&reference)?;
        let change = StatusUpdate {
            reason_code: self.reason_code,
            reason: self.reason,
            actor: actor(self.actor),
            evidence: self.evidence,
            pid: None,
        };
        let changed = store.sessions().status(&session.id).set(self.status, &change, durability)?;
        answer(context, &session, changed)?;
        context.close(store);
        Ok(Ended::Done)
    }
}

/// Prints the new status of a session.
pub(super) fn answer(context: &mut Context<'_>, session: &Session, changed: Changed) -> Result<(), Failure> {
    let shape = SessionStatusChanged {
        session_id: session.id.to_string(),
        status: changed.status.as_str(),
        previous_status: changed.previous.map(SessionStatus::as_str),
        changed: changed.changed,
    };
    context.out.confirm(&shape, |text| {
        let (id, status) = (&session.id, changed.status);
        let already = if changed.changed { "" } else { " already" };
        text.line(format_args!("session {id} is{already} {status}"));
    })
}

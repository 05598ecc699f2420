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

/// Say how a session stands: completed, or as --status says
///
/// It is on record, and the session's log tells of it. What has ended stays as it is, until sessions reopen.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Close {
    #[command(flatten)]
    which: Which,
    /// How it stands
    #[arg(long, value_parser = args::status(), default_value = "completed")]
    status: SessionStatus,
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Why, in a word
    #[arg(long, value_name = "CODE")]
    reason_code: Option<String>,
    /// What shows that it is so
    #[arg(long, value_name = "JSON")]
    evidence: Option<String>,
    /// Who says so; the user where it is not given
    #[arg(long, value_name = "NAME")]
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

/// Says how a session stands now.
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

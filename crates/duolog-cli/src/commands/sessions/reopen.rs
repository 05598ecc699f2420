//! `duolog sessions reopen`.

use clap::Args;
use duolog::sessions::StatusUpdate;

use super::{Context, actor, close, run};
use crate::args::Which;
use crate::failure::{CommandResult, Ended};

const AFTER: &str = "\
Examples:
  duolog sessions reopen demo --reason \"the failure was the network's\"
  duolog sessions reopen demo --reason \"once more\" --pid $$

JSON:
  {… as sessions close …}";

/// Reopen a session that has ended
///
/// The status becomes running. The actor and the reason are written to the status history and to the session's log.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Reopen {
    #[command(flatten)]
    which: Which,
    /// Reason to record
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Process that runs the session from now on
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Actor to record [default: $USER]
    #[arg(long = "by", value_name = "NAME")]
    actor: Option<String>,
}

impl Reopen {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let reference = self.which.reference(context.config()?)?;
        let (durability, user) = (context.config()?.durability(), context.config()?.user().to_owned());
        let store = context.open_to_write()?;
        let session = store.sessions().resolve(&reference)?;
        if let Some(pid) = self.pid {
            run::is_there(pid)?;
        }
        let actor = actor(self.actor).or_else(|| Some(user).filter(|user| !user.is_empty()));
        let reason = Some(self.reason);
        let change = StatusUpdate { reason, actor, pid: self.pid, ..StatusUpdate::default() };
        let changed = store.sessions().status(&session.id).reopen(&change, durability)?;
        close::answer(context, &session, changed)?;
        context.close(store);
        Ok(Ended::Done)
    }
}

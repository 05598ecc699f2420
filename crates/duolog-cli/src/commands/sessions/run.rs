//! `duolog sessions run`, and helpers for the process that runs a session.

use clap::Args;
use duolog::sessions::{Liveness, StatusUpdate};

use super::{Context, actor, close};
use crate::args::Which;
use crate::failure::{CommandResult, Ended, Failure};

const AFTER: &str = "\
Examples:
  duolog sessions run demo --pid $$
  duolog sessions run --user-email ada@example.com --session-name plan --pid 4242

JSON:
  {… as sessions close …}";

/// Set the process that runs a session
///
/// The process must be on this machine. The status becomes running. sessions show tells you whether the process is
/// still alive. A session that has ended must be reopened first: duolog sessions reopen.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Run {
    #[command(flatten)]
    which: Which,
    /// Process id
    #[arg(long, value_name = "PID")]
    pid: u32,
    /// Actor to record [default: $USER]
    #[arg(long = "by", value_name = "NAME")]
    actor: Option<String>,
}

impl Run {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let reference = self.which.reference(context.config()?)?;
        let durability = context.config()?.durability();
        let store = context.open_to_write()?;
        let session = store.sessions().resolve(&reference)?;
        is_there(self.pid)?;
        let change = StatusUpdate { actor: actor(self.actor), ..StatusUpdate::default() };
        let changed = store.sessions().status(&session.id).run(self.pid, &change, durability)?;
        close::answer(context, &session, changed)?;
        context.close(store);
        Ok(Ended::Done)
    }
}

/// Returns an error if no process has this id: such a session would always be shown as dead.
pub(super) fn is_there(pid: u32) -> Result<(), Failure> {
    let raw = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let is_there = raw.is_some_and(|pid| {
        // A process that may not be signalled exists.
        !matches!(rustix::process::test_kill_process(pid), Err(rustix::io::Errno::SRCH))
    });
    if is_there {
        return Ok(());
    }
    Err(Failure::Given {
        message: format!("cannot set the process: process {pid} does not exist"),
        hint: Some("use --pid $$ for the current shell".to_owned()),
    })
}

/// Returns the liveness of a process as shown to people: the words of the JSON field `liveness`.
pub(super) const fn liveness_word(liveness: Liveness) -> &'static str {
    match liveness {
        Liveness::Alive => "alive",
        Liveness::Dead => "dead",
        Liveness::Elsewhere => "elsewhere",
        Liveness::Unknown => "unknown",
    }
}

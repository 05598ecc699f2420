//! `duolog sessions run`, and what other commands say of the process that runs a session.

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

/// Say which process of this machine runs a session; it stands as running then
///
/// sessions show tells whether that process is still there. What has ended is reopened first.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Run {
    #[command(flatten)]
    which: Which,
    /// The number of the process
    #[arg(long, value_name = "PID")]
    pid: u32,
    /// Who says so; the user where it is not given
    #[arg(long, value_name = "NAME")]
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

/// Refuses a number that no process has: it could only ever be told to be dead.
pub(super) fn is_there(pid: u32) -> Result<(), Failure> {
    let raw = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let is_there = raw.is_some_and(|pid| {
        // One that we may not signal is there.
        !matches!(rustix::process::test_kill_process(pid), Err(rustix::io::Errno::SRCH))
    });
    if is_there {
        return Ok(());
    }
    Err(Failure::Given {
        message: format!("no process has the number {pid}"),
        hint: Some("--pid $$ is the shell that runs the command".to_owned()),
    })
}

/// Whether a process is there, for people, behind the process.
pub(super) const fn told(liveness: Liveness) -> &'static str {
    match liveness {
        Liveness::Alive => "is there",
        Liveness::Dead => "is gone",
        Liveness::Elsewhere => "is on another machine",
        Liveness::Unknown => "may be there or not",
    }
}

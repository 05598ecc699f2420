//! The process between `duolog runs exec` and its command. It forwards signals, and stops the command if its parent
//! dies.
//!
//! The command is the leader of a process group, so that its children are stopped with it. The leader asks the kernel
//! for SIGKILL on the death of the guard, and then executes the command.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus, exit};
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{Pid, Signal, getppid, kill_process_group};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};

use super::signals::Signals;
use crate::commands::Context;
use crate::failure::{CommandResult, Ended, Failure};

/// The exit codes of a shell for a command that does not exist, and for one that cannot be executed.
const NOT_FOUND: i32 = 127;
const NOT_EXECUTABLE: i32 = 126;
/// The offset that a shell adds to the number of a signal for the exit code.
pub(super) const SIGNALLED: i32 = 128;

/// The guard of the command of `duolog runs exec`
#[derive(Args)]
pub struct ExecGuard {
    /// Process id of the parent
    #[arg(long)]
    parent: u32,
    /// Time between SIGTERM and SIGKILL in milliseconds [default: execute the command in this process]
    #[arg(long)]
    grace_ms: Option<u64>,
    /// Command
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

impl ExecGuard {
    /// Returns the command line of a guard whose parent is this process.
    pub(super) fn command(grace: Option<Duration>, command: &[OsString]) -> io::Result<Command> {
        let mut guard = Command::new(own_executable()?);
        guard.arg0("duolog").arg("exec-guard").args(["--parent", &std::process::id().to_string()]);
        if let Some(grace) = grace {
            guard.args(["--grace-ms", &grace.as_millis().to_string()]);
        }
        guard.arg("--").args(command).process_group(0);
        Ok(guard)
    }

    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let Some(grace) = self.grace_ms.map(Duration::from_millis) else { return self.lead(context) };
        let failed = |source| Failure::File { call: "guard", path: self.command[0].clone().into(), source };
        let status = self.guard(grace).map_err(failed)?;
        exit(status.map_or(SIGNALLED + SIGHUP, code))
    }

    /// Replaces this process with the command.
    fn lead(self, context: &mut Context<'_>) -> CommandResult {
        if !dies_with(self.parent, Signal::KILL) {
            return Ok(Ended::No);
        }
        let Some((program, args)) = self.command.split_first() else { return Ok(Ended::Invalid) };
        let source = Command::new(program).args(args).exec();
        let code = if source.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE };
        context.out.fault(&Failure::File { call: "run", path: program.into(), source });
        exit(code)
    }

    /// Runs the command until it ends. Returns `None` if the parent died before the start.
    fn guard(&self, grace: Duration) -> io::Result<Option<ExitStatus>> {
        let mut signals = Signals::listen(&[SIGCHLD, SIGTERM, SIGINT, SIGHUP])?;
        if !dies_with(self.parent, Signal::HUP) {
            return Ok(None);
        }
        let mut leader = Self::command(None, &self.command)?.spawn()?;
        let group = Pid::from_child(&leader);
        let mut killed_at = None;
        loop {
            if let Some(status) = leader.try_wait()? {
                if killed_at.is_some() {
                    // Processes left by the command are stopped too.
                    let _ = kill_process_group(group, Signal::KILL);
                }
                return Ok(Some(status));
            }
            let left = killed_at.map(|at: Instant| at.saturating_duration_since(Instant::now()));
            for signal in signals.wait(None, left)?.signals {
                // An error means that the group has ended.
                let _ = match signal {
                    SIGTERM => kill_process_group(group, Signal::TERM),
                    SIGINT => kill_process_group(group, Signal::INT),
                    SIGHUP => {
                        killed_at.get_or_insert_with(|| Instant::now() + grace);
                        kill_process_group(group, Signal::TERM)
                    }
                    _ => Ok(()),
                };
            }
            if killed_at.is_some_and(|at| at <= Instant::now()) {
                let _ = kill_process_group(group, Signal::KILL);
                // SIGKILL cannot be ignored: wait for the end.
                killed_at = Some(Instant::now() + grace + Duration::from_secs(1));
            }
        }
    }
}

/// Asks the kernel for a signal when the parent dies. Returns false if the parent is already dead.
fn dies_with(parent: u32, signal: Signal) -> bool {
    // Only Linux supports this. On other systems the command continues if its parent is killed.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(signal));
    #[cfg(not(target_os = "linux"))]
    let _ = signal;
    getppid().is_some_and(|now| u32::try_from(now.as_raw_pid()) == Ok(parent))
}

/// Returns the executable of this process, even if the file was replaced after the start.
fn own_executable() -> io::Result<std::path::PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

/// Returns the exit code of a command as a shell would.
pub(super) fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| SIGNALLED + status.signal().unwrap_or_default())
}

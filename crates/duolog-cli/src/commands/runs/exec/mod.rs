//! `duolog runs exec`: claims a run, runs a command as its owner, and records the result.

mod child;
mod guard;
mod signals;
mod work;

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use duolog::errors::{Busy, Conflict};
use duolog::runs::{Fence, NewRun, Next, RunSummary, TakeFilter};
use duolog::{Error, ErrorKind, RunStatus, TriggerType};

pub use guard::ExecGuard;
use signal_hook::consts::{SIGCHLD, SIGINT, SIGTERM};
use signals::{Signals, wait_for};
use work::Worker;

use super::{Context, actor};
use crate::args;
use crate::failure::{CommandResult, Ended, Failure};

/// The phase name if --phase is not given.
const PHASE: &str = "main";

const AFTER: &str = "\
Examples:
  duolog runs exec --workflow nightly --trigger 2026-01-31 -- ./nightly.sh
  duolog runs exec --workflow build --trigger acme/web#42 --phase test -- make test
  duolog runs exec --workflow build --trigger acme/web#42 --phase ship --finish -- make ship
  duolog runs exec --next --loop --workflow nightly -- ./nightly.sh

Environment of the command:
  DUOLOG_RUN_ID, DUOLOG_FENCE   defaults of RUN and --fence in the owner's commands of duolog runs
  DUOLOG_WORKFLOW, DUOLOG_TRIGGER_ID, DUOLOG_PHASE, DUOLOG_EXECUTION_ID, DUOLOG_OWNER, DUOLOG_SESSION_ID
  DUOLOG_HOME, DUOLOG_STORE     the home and the store in use, unless they are the default

Exit codes:
  0  the command succeeded        6  the phase or the run is already done
  1  the command failed           7  the claim was lost: the command was stopped, nothing was recorded
  3  the run is claimed, queued or paused

JSON:
  {\"run\": {… as runs list …}, \"phase\", \"execution_id\": id|null, \"exit_code\": 0|null,
   \"command_result\": \"succeeded\"|\"failed\"|\"done\"|\"waiting\"|\"lost\"}
  With --next, one line per run. The output of the command goes to stderr";

/// Run a command as the owner of a run
///
/// The run is claimed, or started if --workflow and --trigger have no active run. The lease is renewed while the
/// command runs. The exit code, the duration and the end of the output (64 KiB) are recorded as an execution of the
/// phase. A phase that succeeded is not run again.
///
/// Without --phase the command is the whole run: the run ends with it, as with --finish. With --phase the run stays
/// running and is released, also if the command fails. --next always ends the run with its command. A run whose command
/// was stopped by SIGINT or SIGTERM is released.
///
/// If the claim is lost, the command and its children get SIGTERM, and SIGKILL after --grace. The same happens if this
/// process is killed. SIGINT and SIGTERM are forwarded to the command; with --loop, the first one only ends the loop
/// after the current command. The command reads stdin unless that is a terminal or --next is given.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Exec {
    /// Run id or a unique prefix
    #[arg(value_name = "RUN", conflicts_with_all = ["workflow", "trigger", "next"])]
    #[arg(required_unless_present_any = ["trigger", "next"])]
    run: Option<String>,
    /// Workflow name; with --next, may be given more than once [default: all]
    #[arg(long, value_name = "NAME")]
    workflow: Vec<String>,
    /// Trigger id; one active run per workflow and trigger
    #[arg(long, value_name = "ID", requires = "workflow", conflicts_with = "next")]
    trigger: Option<String>,
    /// Take the oldest run that is unclaimed, stale or queued
    #[arg(long)]
    next: bool,
    /// Take the next run after each one, and wait for more
    #[arg(long = "loop", requires = "next")]
    is_loop: bool,
    /// Owner of the claim [default: HOST:PID]
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    /// Phase name [default: main]
    #[arg(long, value_name = "NAME")]
    phase: Option<String>,
    /// End the run with the result of the command
    #[arg(long)]
    finish: bool,
    /// Duration of the lease [default: runs.lease]
    #[arg(long, value_name = "TIME", value_parser = args::duration)]
    lease: Option<Duration>,
    /// Time between SIGTERM and SIGKILL when the command is stopped
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = args::duration)]
    grace: Duration,
    /// Command and its arguments
    #[arg(value_name = "COMMAND", last = true, required = true)]
    command: Vec<OsString>,
}

impl Exec {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        if self.workflow.len() > 1 && !self.next {
            let message = "cannot use more than one --workflow without --next".to_owned();
            return Err(Failure::Given { message, hint: None });
        }
        let signals = Signals::listen(&[SIGCHLD, SIGTERM, SIGINT]);
        let signals = signals.map_err(Failure::file("listen for", std::path::Path::new("signals")))?;
        let store = context.open_to_stay()?;
        let owner = self.owner.clone().unwrap_or_else(owner_of_this_process);
        let mut worker = Worker { exec: &self, store: store.clone(), owner, signals, is_ending: false };
        let ended = if self.next { worker.work(context) } else { worker.once(context) };
        drop(worker);
        context.close(store);
        ended
    }

    /// Returns the phase of the command.
    fn phase(&self) -> &str {
        self.phase.as_deref().unwrap_or(PHASE)
    }

    /// Returns true if the run ends with the command.
    fn ends_run(&self) -> bool {
        self.finish || self.next || self.phase.is_none()
    }
}

impl Worker<'_> {
    /// Runs the command for the given run.
    fn once(&mut self, context: &mut Context<'_>) -> CommandResult {
        let (run, fence) = match self.claim()? {
            (run, Some(fence)) => (run, fence),
            (run, None) => return self.not_running(context, &run),
        };
        self.execute(context, &run, fence)
    }

    /// Claims or starts the given run. The fence is `None` if the run is not running.
    fn claim(&self) -> Result<(RunSummary, Option<Fence>), Failure> {
        let runs = self.store.runs();
        let id = if let Some(text) = &self.exec.run {
            runs.resolve(text)?
        } else {
            let workflow = self.exec.workflow.first().map_or("", String::as_str);
            let trigger = self.exec.trigger.as_deref().unwrap_or_default();
            let claimed_by = Some(self.owner.clone());
            let triggered_by = actor(None);
            let new = NewRun { claimed_by, triggered_by, ..NewRun::new(workflow, TriggerType::Cli, trigger) };
            let started = runs.start(&new)?;
            if started.fence.is_some() {
                return Ok((started.run, started.fence));
            }
            started.run.id
        };
        match runs.open(&id).claim(&self.owner, self.exec.lease) {
            Ok(claim) => Ok((claim.run, Some(claim.fence))),
            Err(Error::Conflict(Conflict::RunStands { .. })) => Ok((runs.summary(&id)?, None)),
            Err(error) => Err(error.into()),
        }
    }

    /// Reports a run that cannot be claimed because of its status.
    fn not_running(&self, context: &mut Context<'_>, run: &RunSummary) -> CommandResult {
        let (id, status) = (&run.id, run.status);
        match status {
            RunStatus::Failed | RunStatus::Cancelled | RunStatus::Running => {
                Err(Error::Conflict(Conflict::RunStands { run: id.clone(), status }).into())
            }
            RunStatus::Succeeded => {
                self.answer(context, run, None, None, work::Result::Done)?;
                context.out.note(format_args!("run {id} has already succeeded"));
                Ok(Ended::AlreadyDone)
            }
            RunStatus::Queued | RunStatus::Paused => {
                self.answer(context, run, None, None, work::Result::Waiting)?;
                context.out.note(match status {
                    RunStatus::Queued => {
                        format!("run {id} is queued: duolog runs exec --next runs it when a slot is free")
                    }
                    _ => format!("run {id} is paused: duolog runs show {id} shows what it waits for"),
                });
                Ok(Ended::Busy)
            }
        }
    }

    /// Runs the command for the next run; with --loop, for one run after another.
    fn work(&mut self, context: &mut Context<'_>) -> CommandResult {
        let filter = TakeFilter { workflows: self.exec.workflow.clone(), ..TakeFilter::default() };
        let mut feed = None;
        while !self.is_ending {
            let taken = self.store.runs().take_next(&self.owner, &filter, self.exec.lease);
            let Next { claim, given_up, expired } = match taken {
                Ok(next) => next,
                Err(error) if self.exec.is_loop && may_pass(error.kind()) => {
                    context.out.fault(&error.into());
                    Next::default()
                }
                Err(error) => return Err(error.into()),
            };
            for run in given_up {
                context.out.note(format_args!("run {} failed: it was taken over too often", run.id));
            }
            for run in expired {
                context.out.note(format_args!("run {} is cancelled: it was queued for too long", run.id));
            }
            if let Some(claim) = claim {
                let ended = self.execute(context, &claim.run, claim.fence);
                match ended {
                    Err(failure) if self.exec.is_loop && may_pass(failure.kind()) => context.out.fault(&failure),
                    ended if !self.exec.is_loop || ended.is_err() => return ended,
                    Ok(_) | Err(_) => {}
                }
                continue;
            }
            if !self.exec.is_loop {
                context.out.note("no run is unclaimed, stale or queued with a free slot");
                return Ok(Ended::No);
            }
            match &mut feed {
                // Check again for a run that was queued before the feed was opened.
                None => feed = Some(self.feed()?),
                Some(feed) => {
                    feed.wait()?;
                    self.look_for_end(context)?;
                }
            }
        }
        Ok(Ended::Done)
    }

    /// Opens a feed of run changes. A signal ends its wait.
    fn feed(&self) -> Result<duolog::runs::RunFeed, Failure> {
        let feed = self.store.runs().feed()?;
        let failed = || Failure::file("listen for", std::path::Path::new("signals"));
        let ends = [SIGTERM, SIGINT].map(|signal| self.signals.descriptor(signal));
        let ends: Vec<_> =
            ends.into_iter().collect::<Result<Vec<_>, _>>().map_err(failed())?.into_iter().flatten().collect();
        let bell = feed.bell();
        let ring = move || {
            wait_for(&ends);
            bell.ring();
        };
        std::thread::Builder::new().name("ending".to_owned()).spawn(ring).map_err(failed())?;
        Ok(feed)
    }
}

/// Returns true if a worker continues after the error: it concerns one run, or is temporary.
fn may_pass(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Stale | ErrorKind::Conflict | ErrorKind::NotFound | ErrorKind::Busy | ErrorKind::Unknown)
}

/// Returns the default owner, HOST:PID.
fn owner_of_this_process() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = Some(host.trim()).filter(|host| !host.is_empty()).unwrap_or("localhost");
    format!("{host}:{}", std::process::id())
}

/// Returns true if the operation can be tried again.
fn is_busy(error: &Error) -> bool {
    matches!(error, Error::Busy(Busy::Store(_)) | Error::Unknown(_))
}

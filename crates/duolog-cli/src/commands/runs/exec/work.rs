//! One execution of the command, from the start of its phase to the record of its result.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use duolog::errors::Conflict;
use duolog::runs::{Begun, End, Ending, ExecutionOutcome as How, Fence, Finish, LeaseKeeper, RunHandle, RunSummary};
use duolog::{Error, ExecutionId, HomeSource, RunStatus, SessionId, Store};
use duolog_wire as wire;
use rustix::process::Signal;
use signal_hook::consts::{SIGINT, SIGTERM};

use super::child::{Child, Job};
use super::guard::SIGNALLED;
use super::signals::Signals;
use super::{Context, Exec, is_busy};
use crate::failure::{CommandResult, Ended, Failure};
use crate::figures;

/// The delay before another attempt to record the result if the store is busy.
const RECORD_PAUSE: Duration = Duration::from_millis(100);

/// The result of an execution of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Result {
    Succeeded,
    Failed,
    Done,
    Waiting,
    Lost,
}

impl Result {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Done => "done",
            Self::Waiting => "waiting",
            Self::Lost => "lost",
        }
    }
}

/// The state of a worker that runs the command.
pub(super) struct Worker<'a> {
    pub(super) exec: &'a Exec,
    pub(super) store: Store,
    pub(super) owner: String,
    pub(super) signals: Signals,
    /// True if the worker must not take another run.
    pub(super) is_ending: bool,
}

/// The exit of the command.
struct Exit {
    code: i32,
    /// The signal that was forwarded to it.
    interrupted: Option<&'static str>,
    /// True if it was stopped because the claim was lost.
    is_lost: bool,
    took: Duration,
    output: String,
}

impl Exit {
    /// Returns the error; `None` if the command succeeded.
    fn error(&self) -> Option<String> {
        match (self.code, self.interrupted) {
            (0, _) => None,
            (_, Some(signal)) => Some(format!("interrupted by {signal}")),
            (code, None) if code > SIGNALLED => Some(format!("exit code {code} (signal {})", code - SIGNALLED)),
            (code, None) => Some(format!("exit code {code}")),
        }
    }
}

impl Worker<'_> {
    /// Runs the command as a phase of a claimed run.
    pub(super) fn execute(&mut self, context: &mut Context<'_>, run: &RunSummary, fence: Fence) -> CommandResult {
        let handle = self.store.runs().open(&run.id).under(fence);
        let (lost, losing) = UnixStream::pair().map_err(failed("open", "a socket"))?;
        // The other end is closed when the claim is lost.
        let keeper = handle.keep_lease(self.exec.lease, move || drop(losing))?;
        let phase = self.exec.phase().to_owned();
        let execution = match handle.begin(&phase, None)? {
            Begun::Started(execution) => execution.id,
            Begun::Done(execution) => {
                drop(keeper);
                return self.phase_done(context, &handle, &execution);
            }
            Begun::Running(execution) => {
                drop(keeper);
                let run = handle.release()?;
                self.answer(context, &run, Some(&execution), None, Result::Waiting)?;
                context.out.note(format_args!("phase {phase} is running: execution {execution} is in flight"));
                return Ok(Ended::Busy);
            }
        };
        let exit = self.run_command(context, run, (fence, &execution), &lost, &keeper)?;
        let remaining = keeper.remaining();
        // The command has ended, so the lease is no longer renewed.
        let lost = keeper.stop();
        if exit.is_lost {
            return self.claim_lost(context, &handle, (fence, &execution, exit.code), lost);
        }
        match self.record(&handle, &execution, &exit, remaining) {
            Ok((run, result)) => {
                self.answer(context, &run, Some(&execution), Some(exit.code), result)?;
                let (took, status) = (figures::duration(millis(exit.took)), run.status);
                let why = exit.error().map(|error| format!(": {error}")).unwrap_or_default();
                let result_word = result.as_str();
                context.out.note(format_args!("phase {phase} {result_word}{why} ({took}); run {} is {status}", run.id));
                Ok(if result == Result::Succeeded { Ended::Done } else { Ended::No })
            }
            Err(Failure::Store(error @ (Error::Stale(_) | Error::Conflict(_)))) => {
                self.claim_lost(context, &handle, (fence, &execution, exit.code), Some(error))
            }
            Err(failure) => Err(failure),
        }
    }

    /// Reports a phase that has already succeeded. Its owner may have died before it ended the run.
    fn phase_done(&self, context: &mut Context<'_>, handle: &RunHandle, execution: &ExecutionId) -> CommandResult {
        let phase = self.exec.phase();
        let (run, ended) = if self.exec.ends_run() {
            (handle.finish(&End::Succeeded, None)?.run, Ended::Done)
        } else {
            (handle.release()?, Ended::AlreadyDone)
        };
        self.answer(context, &run, Some(execution), None, Result::Done)?;
        context.out.note(format_args!("phase {phase} is already done; run {} is {}", run.id, run.status));
        Ok(ended)
    }

    /// Runs the command until it ends, and stops it if the claim is lost.
    fn run_command(
        &mut self,
        context: &mut Context<'_>,
        run: &RunSummary,
        (fence, execution): (Fence, &ExecutionId),
        lost: &UnixStream,
        keeper: &LeaseKeeper,
    ) -> std::result::Result<Exit, Failure> {
        let job = Job {
            command: &self.exec.command,
            variables: self.variables(context, run, fence, execution)?,
            grace: self.exec.grace,
            reads_stdin: !self.exec.next,
            only_stderr: context.global.json,
        };
        let (started, mut interrupted, mut is_lost) = (Instant::now(), None, false);
        let name = self.exec.command.first().map_or(Path::new(""), Path::new);
        let mut child = Child::start(job).map_err(Failure::file("start", name))?;
        let code = loop {
            let timeout = (!is_lost).then(|| keeper.remaining());
            let woken = self.signals.wait((!is_lost).then_some(lost), timeout).map_err(Failure::file("watch", name))?;
            if let Some(code) = child.try_wait().map_err(Failure::file("watch", name))? {
                break code;
            }
            for signal in woken.signals {
                let (signal, word) = match signal {
                    SIGTERM => (Signal::TERM, "SIGTERM"),
                    SIGINT => (Signal::INT, "SIGINT"),
                    _ => continue,
                };
                if self.exec.is_loop && !self.is_ending {
                    self.is_ending = true;
                    context.out.note("stopping after this command; a second signal is sent to the command");
                } else {
                    interrupted = Some(word);
                    child.signal(signal);
                }
            }
            if !is_lost && (woken.is_hung_up || keeper.remaining().is_zero()) {
                is_lost = true;
                context.out.warn(format_args!("the claim on run {} is lost: stopping the command", run.id));
                child.stop();
            }
        };
        Ok(Exit { code, interrupted, is_lost, took: started.elapsed(), output: child.output() })
    }

    /// Records the result of the phase, and ends or releases the run.
    fn record(
        &self,
        handle: &RunHandle,
        execution: &ExecutionId,
        exit: &Exit,
        remaining: Duration,
    ) -> std::result::Result<(RunSummary, Result), Failure> {
        let deadline = Instant::now() + remaining;
        let error = exit.error();
        let finish = Finish {
            success: error.is_none(),
            error: error.clone(),
            duration_ms: Some(millis(exit.took)),
            stop_reason: exit.interrupted.filter(|_| error.is_some()).map(|_| "interrupted".to_owned()),
            ..Finish::default()
        };
        let ending = Ending {
            finish,
            output: Some(exit.output.clone()).filter(|output| !output.is_empty()),
            summary: Some(error.clone().unwrap_or_else(|| "exit code 0".to_owned())),
            session_id: None,
        };
        let mut is_success = error.is_none();
        match again(deadline, || handle.end(execution, ending.clone())) {
            Ok(_) => {}
            // The command ended the execution itself, or a response of the store was lost.
            Err(Error::Conflict(Conflict::ExecutionClosed { outcome, .. })) => is_success &= outcome == How::Succeeded,
            Err(error) => return Err(error.into()),
        }
        let result = if is_success { Result::Succeeded } else { Result::Failed };
        let run = match (self.exec.ends_run(), is_success, exit.interrupted) {
            (true, true, _) => again(deadline, || handle.finish(&End::Succeeded, None))?.run,
            (true, false, None) => {
                let why = error.unwrap_or_else(|| "its execution failed".to_owned());
                let why = format!("phase {} failed: {why}", self.exec.phase());
                again(deadline, || handle.finish(&End::Failed(why.clone()), None))?.run
            }
            _ => again(deadline, || handle.release())?,
        };
        Ok((run, result))
    }

    /// Reports a command whose claim ended before its result was recorded.
    fn claim_lost(
        &self,
        context: &mut Context<'_>,
        handle: &RunHandle,
        (fence, execution, code): (Fence, &ExecutionId, i32),
        error: Option<Error>,
    ) -> CommandResult {
        let found = self.store.runs().get(handle.id())?;
        let run = found.summary;
        let (result, ended) = match run.status {
            // The command may have paused or requeued the run, or ended it under its own claim.
            RunStatus::Paused | RunStatus::Queued => (Result::Waiting, Ended::Busy),
            RunStatus::Succeeded if found.fence == fence => (Result::Done, Ended::AlreadyDone),
            _ => (Result::Lost, Ended::Stale),
        };
        self.answer(context, &run, Some(execution), Some(code), result)?;
        if result == Result::Lost {
            let why = error.map_or_else(|| "the lease has expired".to_owned(), |error| Failure::from(error).message());
            let message = format!("cannot record the result of phase {}: {why}", self.exec.phase());
            context.out.fault(&Failure::Given { message, hint: None });
        } else {
            context.out.note(format_args!("run {} is {}; the result was not recorded", run.id, run.status));
        }
        Ok(ended)
    }

    /// Returns the environment variables of the command.
    fn variables(
        &self,
        context: &Context<'_>,
        run: &RunSummary,
        fence: Fence,
        execution: &ExecutionId,
    ) -> std::result::Result<Vec<(&'static str, std::ffi::OsString)>, Failure> {
        let mut variables = vec![
            ("DUOLOG_RUN_ID", run.id.as_str().into()),
            ("DUOLOG_FENCE", fence.to_string().into()),
            ("DUOLOG_WORKFLOW", run.workflow_name.as_str().into()),
            ("DUOLOG_TRIGGER_ID", run.trigger_id.as_str().into()),
            ("DUOLOG_PHASE", self.exec.phase().into()),
            ("DUOLOG_EXECUTION_ID", execution.as_str().into()),
            ("DUOLOG_OWNER", self.owner.as_str().into()),
            ("DUOLOG_SESSION_ID", run.session_id.as_ref().map_or("", SessionId::as_str).into()),
        ];
        let home = context.home()?;
        if home.source != HomeSource::User
            && let Some(directory) = home.state.parent()
        {
            variables.push(("DUOLOG_HOME", directory.into()));
        }
        if let Some(store) = &context.global.store {
            variables.push(("DUOLOG_STORE", store.clone()));
        }
        Ok(variables)
    }

    /// Prints the JSON result. Without --json only the output of the command is printed.
    pub(super) fn answer(
        &self,
        context: &mut Context<'_>,
        run: &RunSummary,
        execution: Option<&ExecutionId>,
        exit_code: Option<i32>,
        result: Result,
    ) -> std::result::Result<(), Failure> {
        let shape = wire::RunExecuted {
            run: run.into(),
            phase: self.exec.phase().to_owned(),
            execution_id: execution.map(ToString::to_string),
            exit_code,
            command_result: result.as_str(),
        };
        context.out.answer(&shape, |_| {})
    }

    /// Ends the loop if a signal arrived during the wait.
    pub(super) fn look_for_end(&mut self, context: &Context<'_>) -> std::result::Result<(), Failure> {
        let woken = self.signals.wait(None, Some(Duration::ZERO)).map_err(failed("listen for", "signals"))?;
        if woken.signals.iter().any(|signal| [SIGTERM, SIGINT].contains(signal)) {
            self.is_ending = true;
            context.out.note("stopped by a signal");
        }
        Ok(())
    }
}

/// Repeats an operation while the store is busy and the lease is valid.
fn again<T>(deadline: Instant, mut f: impl FnMut() -> duolog::Result<T>) -> duolog::Result<T> {
    loop {
        match f() {
            Err(error) if is_busy(&error) && Instant::now() < deadline => std::thread::sleep(RECORD_PAUSE),
            other => return other,
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn failed(call: &'static str, what: &str) -> impl FnOnce(std::io::Error) -> Failure {
    Failure::file(call, Path::new(what))
}

//! The workflow of the demo: three phases and a gate. The first runner is killed in the second phase, and another one
//! continues.
//!
//! The runners are real processes, and the gate is answered with the `duolog` command.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;

use duolog::approvals::ApprovalFilter;
use duolog::errors::Conflict;
use duolog::runs::{Attribution, ExecutionOutcome as How, NewRun, RunPage};
use duolog::{ApprovalStatus, Error, RunId, RunStatus, Store, TriggerType};
use duolog_wire::DemoWorkflow as Workflow;

use super::runner::GATE;
use super::{LOOK, Play, process};
use crate::failure::Failure;

/// The name of the workflow.
const WORKFLOW: &str = "demo";
/// The phase in which the first runner is killed.
const KILLED_IN: &str = "build";
/// The person who answers the gate.
const BY: &str = "ada";
/// The width of a command's output.
const COLUMNS: &str = "75";

/// A runner process and its messages.
struct Runner {
    child: Child,
    messages: Receiver<String>,
}

impl Drop for Runner {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The facts that the runners reported.
#[derive(Default)]
struct RunnerReports {
    asked: Option<String>,
    not_repeated: Vec<String>,
}

impl Play<'_> {
    /// Runs the workflow; `None` if the home has no free slot for a run.
    pub(super) fn workflow(&mut self, store: &Store) -> Result<Option<Workflow>, Failure> {
        self.view.works_through()?;
        let Some(run) = start_run(store)? else {
            self.view.no_place()?;
            return Ok(None);
        };
        self.view.run(&run)?;
        let mut reports = RunnerReports::default();

        let mut first = self.start_runner(&run, "runner 1", Some(KILLED_IN))?;
        self.listen(&mut first, "runner 1", &mut reports)?;
        self.view.kills_runner(first.child.id(), KILLED_IN)?;
        drop(first);

        for name in ["runner 2", "runner 3"] {
            let mut runner = self.start_runner(&run, name, None)?;
            self.listen(&mut runner, name, &mut reports)?;
            if let (Some(gate), "runner 2") = (reports.asked.clone(), name) {
                self.view.another_terminal()?;
                self.command(&["approvals", "approve", &gate, "--by", BY])?;
            }
        }
        self.view.rest()?;
        self.command(&["runs", "show", run.as_str()])?;
        self.view.rest()?;
        look(store, &run, reports).map(Some)
    }

    /// Starts this program as a runner.
    fn start_runner(&mut self, run: &RunId, owner: &str, hold: Option<&str>) -> Result<Runner, Failure> {
        let mut command = self.program()?;
        let pace = self.after_batch.as_millis().to_string();
        command.args(["--quiet", "demo-runner", "--run", run.as_str(), "--owner", owner, "--pace-ms", &pace]);
        command.args(hold.into_iter().flat_map(|phase| ["--hold", phase]));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed("start"))?;
        let (sender, messages) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            thread::spawn(move || lines.for_each(|line| drop(sender.send(line))));
        }
        Ok(Runner { child, messages })
    }

    /// Shows the steps of a runner until it ends, or until the phase in which it is killed.
    fn listen(&mut self, runner: &mut Runner, name: &str, reports: &mut RunnerReports) -> Result<(), Failure> {
        let id = runner.child.id();
        loop {
            let line = match runner.messages.recv_timeout(LOOK) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => {
                    self.view.check()?;
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let (word, about) = line.split_once(' ').unwrap_or((&line, ""));
            let text = match word {
                "claimed" if name == "runner 2" => {
                    format!("(process {id}) waits until the lease expires, then takes over")
                }
                "claimed" => format!("(process {id}) claims the run"),
                "begins" => format!("{about} begins"),
                "ended" => format!("{about} is done"),
                "passes" => {
                    if !reports.not_repeated.iter().any(|phase| phase == about) {
                        reports.not_repeated.push(about.to_owned());
                    }
                    format!("{about} is done in the ledger: it is not run again")
                }
                "asks" => {
                    reports.asked = Some(about.to_owned());
                    format!("pauses the run at gate {GATE}, and ends")
                }
                "noted" => format!("acknowledges the answer of {about}"),
                _ => "finishes the run".to_owned(),
            };
            self.view.event(name, &text)?;
            if name == "runner 1" && word == "begins" && about == KILLED_IN {
                return Ok(());
            }
        }
        let well = runner.child.wait().map_err(failed("wait for"))?.success();
        if well && name != "runner 1" { Ok(()) } else { Err(self.ended_early()) }
    }

    /// Runs a `duolog` command and shows its output.
    fn command(&mut self, args: &[&str]) -> Result<(), Failure> {
        let mut command = self.program()?;
        command.args(["--color", "never"]).args(args).env("COLUMNS", COLUMNS).stdin(Stdio::null());
        let output = command.output().map_err(failed("run"))?;
        self.view.command(&format!("duolog {}", args.join(" ")), &String::from_utf8_lossy(&output.stdout))?;
        if output.status.success() {
            return Ok(());
        }
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(failed("run")(std::io::Error::other(errors.trim().to_owned())))
    }

    /// Returns a command for this program in the home of the demo.
    fn program(&self) -> Result<Command, Failure> {
        let mut command = Command::new(std::env::current_exe().map_err(failed("find"))?);
        command.arg("--home").arg(self.place.path()).args(["--store", process::STORE]);
        Ok(command)
    }
}

/// Starts a run without an owner; `None` if the workflow is disabled or the run would be queued.
fn start_run(store: &Store) -> Result<Option<RunId>, Failure> {
    let trigger = format!("demo-{}", uuid::Uuid::now_v7());
    let started = match store.runs().start(&NewRun::new(WORKFLOW, TriggerType::Cli, &trigger)) {
        Err(Error::Conflict(Conflict::WorkflowDisabled { .. })) => return Ok(None),
        other => other?.run,
    };
    if started.status == RunStatus::Running {
        return Ok(Some(started.id));
    }
    // The home has other runs: the demo does not wait for them.
    let act = Attribution { actor: None, reason: Some("the demo does not wait in the queue".to_owned()) };
    store.runs().open(&started.id).cancel(&act)?;
    Ok(None)
}

/// Checks the recorded state of the run.
fn look(store: &Store, run: &RunId, reports: RunnerReports) -> Result<Workflow, Failure> {
    let summary = store.runs().summary(run)?;
    let executions = store.runs().open(run).executions(20, None)?.executions;
    let outcomes: Vec<(&str, How)> =
        executions.iter().map(|execution| (execution.skill.as_str(), execution.outcome())).collect();
    let is_once = |phase: &str| outcomes.iter().filter(|one| **one == (phase, How::Succeeded)).count() == 1;
    let filter = ApprovalFilter { run: Some(run.clone()), status: Some(ApprovalStatus::Approved) };
    let gates = store.approvals().list(&filter, &RunPage::default())?.approvals;
    let is_noted = gates.len() == 1
        && gates.iter().all(|gate| gate.consumed_at.is_some() && gate.responded_by.as_deref() == Some(BY));
    let holds = summary.status == RunStatus::Succeeded
        && summary.restart_count == 1
        && ["demo:plan", "demo:build", "demo:ship"].into_iter().all(is_once)
        // The execution that was running when its runner was killed is recorded as failed.
        && outcomes.len() == 4
        && outcomes.contains(&("demo:build", How::Failed))
        && is_noted;
    Ok(Workflow {
        holds,
        workflow_run_id: run.to_string(),
        status: summary.status.as_str(),
        restart_count: summary.restart_count,
        not_repeated: reports.not_repeated,
        execution_count: executions.len() as u64,
        approval_id: reports.asked.unwrap_or_default(),
    })
}

fn failed(call: &'static str) -> impl FnOnce(std::io::Error) -> Failure {
    Failure::file(call, Path::new("the runner of the demo"))
}

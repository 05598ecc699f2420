use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use serde_json::Value;

use crate::kit::{DUOLOG, Kit};

on_both_engines!(
    a_killed_runner_is_replaced_and_its_command_is_dead,
    a_stopped_runner_is_overtaken_and_stops_its_command,
    two_workers_run_each_queued_run_once,
    a_command_that_fails_fails_its_run,
    a_command_that_ignores_sigterm_is_killed,
    a_signal_is_passed_on_and_the_run_is_released,
    a_command_works_on_its_run_without_naming_it,
    the_exit_code_says_why_nothing_was_run,
);

/// A runner whose command prints its process id first.
struct Runner {
    process: Child,
    stdout: BufReader<ChildStdout>,
}

impl Runner {
    fn start(mut command: Command) -> Self {
        let mut process = command.env("D", DUOLOG).stdout(Stdio::piped()).spawn().expect("starts");
        let stdout = BufReader::new(process.stdout.take().expect("a pipe"));
        Self { process, stdout }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("reads");
        line.trim_end().to_owned()
    }

    /// Returns the command by the process id that it prints.
    fn command(&mut self) -> OwnedFd {
        let pid = self.line().parse().ok().and_then(Pid::from_raw).expect("a process id");
        pidfd_open(pid, PidfdFlags::empty()).expect("it runs")
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).expect("signalled");
    }

    fn end(&mut self) -> ExitStatus {
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).expect("reads");
        self.process.wait().expect("ends")
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // Only if an assertion failed before it ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits for the end of a process that is not a child of this one.
fn ends(process: &OwnedFd) {
    poll(&mut [PollFd::new(process, PollFlags::IN)], None).expect("waits");
}

fn exec(kit: &Kit, flags: &[&str], script: &str) -> Command {
    kit.command(&[&["runs", "exec"][..], flags, &["--", "sh", "-c", script]].concat())
}

fn runs(kit: &Kit) -> Vec<Value> {
    kit.run(&["runs", "list", "--limit", "200", "--json"]).is(0).field("/runs").as_array().expect("a list").clone()
}

/// Returns the outcome and the error of each execution of a run, oldest first.
fn executions(kit: &Kit, run: &str) -> Vec<(String, String)> {
    let shown = kit.run(&["runs", "show", run, "--json"]).is(0).field("/executions");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let told = |execution: &Value| (text(&execution["outcome"]), text(&execution["error_message"]));
    shown.as_array().expect("a list").iter().map(told).collect()
}

/// Waits until the lease of the only run has expired.
fn until_stale(kit: &Kit) {
    while runs(kit)[0]["is_stale"] != true {}
}

const NAMED: &[&str] = &["--workflow", "w", "--trigger", "t", "--lease", "1s", "--owner", "first"];
const NEXT: &[&str] = &["--next", "--loop", "--owner", "second"];

/// The command of a runner that dies is killed, and its phase is run again once.
fn a_killed_runner_is_replaced_and_its_command_is_dead(place: &Place) {
    let kit = Kit::on(place);
    let mut first = Runner::start(exec(&kit, NAMED, "echo $$; sleep 600; echo $$ >> late"));
    let command = first.command();
    first.signal(Signal::KILL);
    ends(&command);
    until_stale(&kit);
    assert!(kit.run(&["runs", "list"]).is(0).text().contains(" stale "), "the list shows the expired lease");
    let mut second = Runner::start(exec(&kit, NEXT, "echo done"));
    assert_eq!(second.line(), "done");
    let run = runs(&kit)[0]["id"].as_str().expect("an id").to_owned();
    kit.run(&["runs", "wait", &run, "--for", "succeeded"]).is(0);
    second.signal(Signal::TERM);
    assert_eq!(second.end().code(), Some(0), "a signal ends the loop");
    let [(stale, why), (done, _)] = &executions(&kit, &run)[..] else { panic!("two executions") };
    assert_eq!((stale.as_str(), done.as_str()), ("failed", "succeeded"));
    assert!(why.starts_with("stale: "), "{why}");
    assert_eq!(runs(&kit)[0]["restart_count"], 1);
    assert!(!kit.dir.path().join("late").exists(), "the first command did not go on");
}

/// A runner that was suspended for longer than its lease finds that another process has claimed its run.
fn a_stopped_runner_is_overtaken_and_stops_its_command(place: &Place) {
    let kit = Kit::on(place);
    let mut first = Runner::start(exec(&kit, NAMED, "echo $$; sleep 600"));
    let command = first.command();
    first.signal(Signal::STOP);
    until_stale(&kit);
    let mut second = Runner::start(exec(&kit, NEXT, "echo done"));
    assert_eq!(second.line(), "done");
    first.signal(Signal::CONT);
    ends(&command);
    assert_eq!(first.end().code(), Some(7), "it was overtaken");
    let run = runs(&kit)[0]["id"].as_str().expect("an id").to_owned();
    kit.run(&["runs", "wait", &run, "--for", "succeeded"]).is(0);
    second.signal(Signal::TERM);
    assert_eq!(second.end().code(), Some(0));
    let [(stale, why), (done, _)] = &executions(&kit, &run)[..] else { panic!("two executions") };
    assert_eq!((stale.as_str(), done.as_str()), ("failed", "succeeded"));
    assert!(why.starts_with("stale: "), "nothing of the first was recorded: {why}");
}

fn two_workers_run_each_queued_run_once(place: &Place) {
    let kit = Kit::on(place);
    let worker = |name: &str| {
        let flags = ["--next", "--loop", "--owner", name, "--workflow", "many"];
        let mut command = exec(&kit, &flags, "echo $DUOLOG_TRIGGER_ID >> done");
        Runner::start({
            command.env("DUOLOG_RUNS_MAX_RUNNING", "2");
            command
        })
    };
    let mut workers = [worker("a"), worker("b")];
    let other = kit.run(&["runs", "start", "other", "--trigger", "0", "--queue", "--json"]).is(0).field("/run/id");
    let queued: Vec<String> = (0..40)
        .map(|number| {
            let trigger = number.to_string();
            let started = kit.run(&["runs", "start", "many", "--trigger", &trigger, "--queue", "--json"]).is(0);
            started.field("/run/id").as_str().expect("an id").to_owned()
        })
        .collect();
    for run in &queued {
        kit.run(&["runs", "wait", run, "--for", "succeeded"]).is(0);
    }
    for worker in &mut workers {
        worker.signal(Signal::TERM);
        assert_eq!(worker.end().code(), Some(0));
    }
    let done = std::fs::read_to_string(kit.dir.path().join("done")).expect("written");
    let mut done: Vec<u32> = done.lines().map(|line| line.parse().expect("a trigger")).collect();
    done.sort_unstable();
    assert_eq!(done, (0..40).collect::<Vec<_>>(), "each once");
    let other = kit.run(&["runs", "show", other.as_str().expect("an id"), "--json"]).is(0);
    assert_eq!(other.field("/run/status"), "queued", "other workflows are left alone");
}

fn a_command_that_fails_fails_its_run(place: &Place) {
    let kit = Kit::on(place);
    let script = "echo to stdout; echo to stderr >&2; exit 3";
    let failed = crate::kit::Ran::of(exec(&kit, NAMED, script).output().expect("runs")).is(1);
    assert_eq!(failed.text(), "to stdout\n");
    assert!(failed.stderr.contains("to stderr\n") && failed.stderr.contains("exit code 3"), "{}", failed.stderr);
    let run = runs(&kit)[0].clone();
    assert_eq!(run["status"], "failed");
    let id = run["id"].as_str().expect("an id");
    assert_eq!(executions(&kit, id), [("failed".to_owned(), "exit code 3".to_owned())]);
    let execution = kit.run(&["runs", "show", id, "--json"]).is(0).field("/executions/0/id");
    let kept = kit.run(&["runs", "output", execution.as_str().expect("an id")]).is(0).text();
    assert!(kept.contains("to stdout\n") && kept.contains("to stderr\n"), "{kept}");
    // A failed phase is run again, and does not end the run.
    let phase = [NAMED, &["--phase", "test"]].concat();
    let again = |code: &str| exec(&kit, &phase, &format!("exit {code}")).status().expect("runs").code();
    assert_eq!((again("1"), again("0"), again("0")), (Some(1), Some(0), Some(6)));
    let kept = kit.run(&["runs", "list", "--status", "active", "--json"]).is(0);
    assert_eq!((kept.field("/runs/0/status"), kept.field("/runs/0/lease_owner")), ("running".into(), Value::Null));
}

fn a_command_that_ignores_sigterm_is_killed(place: &Place) {
    let kit = Kit::on(place);
    let flags = [NAMED, &["--grace", "1s"]].concat();
    let mut runner = Runner::start(exec(&kit, &flags, "trap '' TERM; echo $$; while :; do sleep 600; done"));
    let command = runner.command();
    let run = runs(&kit)[0]["id"].as_str().expect("an id").to_owned();
    kit.run(&["runs", "cancel", &run]).is(0);
    ends(&command);
    assert_eq!(runner.end().code(), Some(7));
    assert_eq!(executions(&kit, &run).len(), 1);
    assert_eq!(runs(&kit)[0]["status"], "cancelled");
}

fn a_signal_is_passed_on_and_the_run_is_released(place: &Place) {
    let kit = Kit::on(place);
    let mut runner = Runner::start(exec(&kit, NAMED, "echo $$; sleep 600"));
    let command = runner.command();
    runner.signal(Signal::TERM);
    ends(&command);
    assert_eq!(runner.end().code(), Some(1));
    let run = runs(&kit)[0].clone();
    assert_eq!((&run["status"], &run["lease_owner"]), (&"running".into(), &Value::Null));
    let told = executions(&kit, run["id"].as_str().expect("an id"));
    assert_eq!(told, [("failed".to_owned(), "interrupted by SIGTERM".to_owned())]);
}

fn a_command_works_on_its_run_without_naming_it(place: &Place) {
    let kit = Kit::on(place);
    let other = kit.run(&["runs", "start", "other", "--trigger", "o", "--owner", "somebody", "--json"]).is(0);
    let other = other.field("/run/id").as_str().expect("an id").to_owned();
    let script = format!(
        "set -e; $D runs scratch --merge '{{\"a\":1}}'; $D runs renew; e=$($D runs phase begin inner); \
         $D runs phase end $e --cost-usd 0.5; $D runs nodes '{{\"n\":1}}'; \
         if $D runs scratch {other} --merge '{{\"b\":1}}'; then exit 9; fi"
    );
    let mut command = exec(&kit, NAMED, &script);
    crate::kit::Ran::of(command.env("D", DUOLOG).output().expect("runs")).is(0).says("is claimed by somebody");
    let run = runs(&kit).into_iter().find(|run| run["workflow_name"] == "w").expect("the run");
    assert_eq!((&run["status"], &run["cost_usd"]), (&"succeeded".into(), &0.5.into()));
    assert_eq!(executions(&kit, run["id"].as_str().expect("an id")).len(), 2);
    kit.run(&["runs", "renew"]).is(2).says("no run is given");
}

fn the_exit_code_says_why_nothing_was_run(place: &Place) {
    let kit = Kit::on(place);
    let code = |flags: &[&str]| exec(&kit, flags, "echo ran").output().map(|ran| (ran.status.code(), ran.stdout));
    let code = |flags: &[&str]| code(flags).expect("runs");
    let nothing = |code| (Some(code), Vec::new());
    assert_eq!(code(&["--next"]), nothing(1));
    assert_eq!(code(&["no-such-run"]), nothing(1));
    let start = ["runs", "start", "w", "--trigger", "t", "--owner", "x", "--json"];
    let run = kit.run(&start).is(0).field("/run/id").as_str().expect("an id").to_owned();
    kit.run(&start).is(3);
    assert_eq!(code(NAMED), nothing(3), "somebody else has claimed it");
    assert_eq!(code(&[&run]), nothing(3));
    kit.run(&["runs", "renew", &run, "--fence", "99"]).is(7);
    kit.run(&["runs", "pause", &run]).is(0);
    kit.run(&["runs", "pause", &run]).is(6);
    assert_eq!(code(NAMED), nothing(3), "it is paused");
    kit.run(&["runs", "resume", &run]).is(0);
    assert_eq!(code(NAMED), (Some(0), b"ran\n".to_vec()));
    assert_eq!(code(&[&run[..30]]), nothing(6), "the run has succeeded");
    kit.run(&["runs", "finish", &run]).is(6);
}

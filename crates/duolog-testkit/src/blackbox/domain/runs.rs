//! Steps with a run that only this worker changes: one command, or several at the same time.

use super::super::command::{Call, Outcome};
use super::super::worker::Worker;
use super::run::Run;
use super::run_commands::{Command, LoopAt};

/// Values of every kind, including some that a parser may reject.
const VALUES: [&str; 20] = [
    "{}",
    r#"{"keep":1}"#,
    r#"{"keep":"\ud800"}"#,
    r#"{"keep":1e999,"iteration":7}"#,
    r#"{"keep":{"deep":[1,{"x":"\udfff"}]}}"#,
    r#"{"keep":12345678901234567890123}"#,
    r#"{"keep":1.0,"z":-0.0,"e":1E5}"#,
    r#"{"keep":"\u0000\u001b"}"#,
    r#"{"iteration":"text","lastOutputExecutionId":null}"#,
    "[1,2,3]",
    r#"[{"a":"\ud800"}]"#,
    "[]",
    r#""text""#,
    r#""\ud800""#,
    r#""""#,
    "1e999",
    "-1e999",
    "0.1",
    "true",
    "null",
];
/// Costs, valid and invalid.
const COSTS: [&str; 9] = ["", "0.25", "1.00", "3.50", "-1", "abc", "NaN", "1e400", "99999999999999999999"];
const PHASES: [&str; 4] = ["build", "check", "deploy", "report"];

impl Worker {
    /// Runs one step with this worker's run.
    pub fn run_step(&mut self, gates: bool) {
        let Some(run) = self.owned.run.take() else { return self.start_own() };
        let over = ["succeeded", "failed", "cancelled"].contains(&run.status.as_str());
        if over && self.chance(60) || run.history.len() > 12 {
            return self.start_own();
        }
        let commands = if self.chance(45) { self.contest(&run) } else { vec![self.command(&run, gates)] };
        let id = run.id.clone();
        self.owned.run = self.attempt(&run, commands, |worker| worker.read_run(&id));
        if let Some(gate) = self.owned.run.as_ref().and_then(|run| run.pending.clone()) {
            self.exists("approvals", &gate);
        }
        self.check_log(&id);
    }

    /// Starts a run with a new id. If the outcome is unknown, the next step tries another id.
    fn start_own(&mut self) {
        let id = self.unique("run");
        let mut call = Call::new(&["runs", "start", "wf", "--trigger", &id, "--id", &id, "--restart-cap", "1000"]);
        if self.chance(60) {
            call = call.word("--owner").word("starter");
        }
        let done = self.run(call);
        let run = self.read_run(&id);
        match (&run, done.outcome()) {
            (None, Outcome::Done) if !self.round.directory.is_small() => {
                self.violation(
                    "acknowledged changes take effect",
                    format!("{id} was started and is missing"),
                    &done,
                    Some(&id),
                );
            }
            (Some(_), Outcome::Refused) => {
                self.violation("refused commands change nothing", format!("{id} exists"), &done, Some(&id));
            }
            _ => {}
        }
        if run.is_some() {
            self.exists("runs", &id);
        }
        self.owned.run = run;
    }

    /// Returns the owner's fence, or sometimes a wrong one.
    fn fence(&mut self, run: &Run) -> Option<u64> {
        match self.below(20) {
            0 => Some(run.fence.0.unwrap_or(0) + 1),
            1 => run.fence.0.map(|fence| fence.saturating_sub(1)),
            2 => None,
            _ => run.owner.as_ref().and(run.fence.0),
        }
    }

    /// Returns an execution of the run, mostly one in flight.
    fn execution(&mut self, run: &Run) -> Option<String> {
        let open = run.executions.iter().rfind(|execution| execution.outcome == "in_flight");
        let index = self.below(run.executions.len().max(1));
        let any = run.executions.get(index);
        open.filter(|_| self.chance(70)).or(any).map(|execution| execution.id.0.clone())
    }

    fn value(&mut self) -> String {
        VALUES[self.below(VALUES.len())].to_owned()
    }

    /// Returns a command that may be valid for the run.
    fn command(&mut self, run: &Run, gates: bool) -> Command {
        if self.chance(7) {
            return self.misplaced(run);
        }
        match run.status.as_str() {
            "running" if run.owner.is_none() && self.chance(20) => Command::Claim { owner: self.unique("owner") },
            "running" => match self.below(if gates { 12 } else { 16 }) {
                0..4 => self.gate(run),
                4..6 => Command::Merge { key: self.key(), value: self.value(), fence: self.fence(run) },
                6..8 => self.begin(run),
                8..10 => self.end(run).unwrap_or(Command::Transition("pause")),
                10 => self.acknowledge(run).unwrap_or(Command::Transition("pause")),
                11 => Command::Complete { phase: self.phase(), fence: self.fence(run), summary: self.unique("note") },
                12 => Command::Skip { phase: self.phase(), fence: self.fence(run) },
                13 => Command::Release { fence: self.fence(run) },
                14 => Command::Finish { error: self.chance(70), fence: self.fence(run) },
                _ => self.end(run).unwrap_or_else(|| self.begin(run)),
            },
            "paused" if run.pending.is_some() => self.answer(run),
            "paused" => Command::Transition("resume"),
            _ => Command::Transition("retry"),
        }
    }

    /// Returns a command without regard to the status of the run.
    fn misplaced(&mut self, run: &Run) -> Command {
        match self.below(6) {
            0 => self.gate(run),
            1 => self.answer(run),
            2 => self.end(run).unwrap_or(Command::Transition("resume")),
            3 => Command::Finish { error: self.chance(50), fence: self.fence(run) },
            _ => Command::Transition(["pause", "resume", "retry", "cancel", "fail"][self.below(5)]),
        }
    }

    fn phase(&mut self) -> String {
        PHASES[self.below(PHASES.len())].to_owned()
    }

    fn key(&mut self) -> String {
        ["loop", "other", "k"][self.below(3)].to_owned()
    }

    fn begin(&mut self, run: &Run) -> Command {
        Command::Begin { phase: self.phase(), fence: self.fence(run) }
    }

    fn end(&mut self, run: &Run) -> Option<Command> {
        let execution = self.execution(run)?;
        let (output, summary) = (self.unique("said"), self.unique("summary"));
        Some(Command::End {
            execution,
            fence: self.fence(run),
            error: self.chance(30),
            output: self.chance(70).then_some(output),
            summary: self.chance(70).then_some(summary),
            cost: COSTS[self.below(COSTS.len())].to_owned(),
        })
    }

    fn gate(&mut self, run: &Run) -> Command {
        let id = match run.gates.last() {
            Some(gate) if self.chance(5) => gate.id.clone(),
            _ => self.unique("gate"),
        };
        let execution = self.execution(run).filter(|_| self.chance(75));
        Command::Gate {
            id,
            kind: if self.chance(60) { "approve" } else { "reply" },
            hash: self.chance(25).then(|| "h1".to_owned()),
            at: execution.map(|execution| LoopAt { key: self.key(), iteration: self.below(9), execution }),
            merge: self.chance(60).then(|| (self.key(), self.value())),
            fence: self.fence(run),
        }
    }

    /// Returns an answer to the pending gate or to another one.
    fn answer(&mut self, run: &Run) -> Command {
        let index = self.below(run.gates.len().max(1));
        let pending = run.gates.iter().find(|gate| gate.status == "pending").filter(|_| self.chance(90));
        let gate = pending.or_else(|| run.gates.get(index)).cloned().unwrap_or_default();
        let fitting = if gate.kind == "reply" { "reply" } else { ["approve", "approve", "reject"][self.below(3)] };
        let verb = if self.chance(10) { ["approve", "reject", "reply"][self.below(3)] } else { fitting };
        let hash = match self.below(10) {
            0 => Some("h2".to_owned()),
            1 => None,
            _ => gate.hash,
        };
        Command::Answer { verb, gate: gate.id, response: self.unique("answer"), hash }
    }

    fn acknowledge(&mut self, run: &Run) -> Option<Command> {
        let gate = run.gates.get(self.below(run.gates.len().max(1)))?;
        Some(Command::Acknowledge { gate: gate.id.clone(), fence: self.fence(run) })
    }

    /// Returns commands that compete with each other.
    fn contest(&mut self, run: &Run) -> Vec<Command> {
        let count = 2 + self.below(3);
        let kind = self.below(5);
        let (begin, claim) = (self.begin(run), run.owner.is_none());
        (0..count)
            .map(|_| match (run.status.as_str(), kind) {
                ("running", 0) => begin.clone(),
                ("running", 1) if claim => Command::Claim { owner: self.unique("owner") },
                ("running", 1 | 2) => self.end(run).unwrap_or_else(|| begin.clone()),
                ("running", 3) => self.gate(run),
                ("paused", 0..4) if run.pending.is_some() => self.answer(run),
                _ => self.command(run, true),
            })
            .collect()
    }

    /// The log of a run has every change of its status: the last one is its status.
    fn check_log(&mut self, id: &str) {
        let Some(status) = self.owned.run.as_ref().map(|run| run.status.clone()) else { return };
        // On a full disk the lines are pending in the outbox.
        if self.round.directory.is_small() || !self.chance(25) {
            return;
        }
        let done = self.run_clean(&Call::new(&["log", "cat", id]));
        let lines = String::from_utf8_lossy(&done.ran.stdout).into_owned();
        let lines = lines.lines().filter(|line| line.contains("\"duolog.run\""));
        let last = lines.filter_map(super::json::lenient).next_back().unwrap_or_default();
        if done.ran.code == Some(0) && last["status"] != *status {
            let what = format!("{id} is {status}, and the last status in its log is {}", last["status"]);
            self.violation("the log has every status change", what, &done, Some(id));
        }
    }

    /// Several processes start a run of one workflow and trigger: one run must exist.
    pub fn start_race(&mut self) {
        let trigger = self.unique("trigger");
        let calls = (0..2 + self.below(3)).map(|_| Call::new(&["runs", "start", "race", "--trigger", &trigger]));
        let done = self.volley(calls.collect());
        let listed = self.run_clean(&Call::new(&["runs", "list", "--trigger", &trigger]));
        let runs = listed.ran.answer().map(|answer| answer["runs"].clone()).unwrap_or_default();
        let ids: Vec<&str> = runs.as_array().into_iter().flatten().filter_map(|run| run["id"].as_str()).collect();
        let answers: Vec<_> = done.iter().filter_map(|done| done.ran.answer()).collect();
        let made = answers.iter().filter(|answer| answer["existed"] == false).count();
        let is_same = answers.iter().all(|answer| answer["run"]["id"].as_str() == ids.first().copied());
        let unknown = done.iter().any(|done| done.outcome() == Outcome::Unknown);
        if listed.ran.code == Some(0)
            && (ids.len() > 1 || made > 1 || !is_same || (made == 0 && !unknown && !ids.is_empty()))
        {
            let what = format!("{made} of {} commands report a new run, {ids:?} exist", done.len());
            self.violation("one winner", what, &listed, ids.first().copied());
        }
        if let Some(id) = ids.first() {
            self.exists("runs", id);
        }
    }
}

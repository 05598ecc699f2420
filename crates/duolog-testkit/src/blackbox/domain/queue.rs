//! The queue of runs, and the limit on running runs.
//!
//! While the workers run, every list of running runs must be within the limit. At the end of the round one worker is
//! left: then each command must do exactly what the model of the queue says.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::command::Call;
use super::super::worker::{CommandRun, Worker};
use super::json::word;
use super::linear::Object;

/// The number of commands of the exact part.
const ALONE: usize = 40;

/// All runs of the home by status, and the queue.
#[derive(Clone, Debug)]
pub struct Queue {
    slots: usize,
    runs: BTreeMap<String, String>,
    /// The queued runs, oldest first: resumed runs before those that have not started. No command shows the order, so
    /// the model derives it from the commands.
    resumed: Vec<String>,
    waiting: Vec<String>,
}

impl PartialEq for Queue {
    fn eq(&self, other: &Self) -> bool {
        self.runs == other.runs
    }
}

/// A change of the queue.
#[derive(Clone, Debug)]
pub enum Command {
    /// Starts or queues a run.
    Start { id: String, queue: bool },
    /// Pauses a run at a gate.
    Gate(String),
    /// Approves the gate.
    Approve(String),
    /// Pauses, resumes, finishes, cancels, requeues or retries a run.
    Transition(&'static str, String),
    /// Admits queued runs.
    Admit { limit: usize },
}

impl Object for Queue {
    type Command = Command;

    fn name(&self) -> String {
        "queue".to_owned()
    }

    fn call(&self, command: &Command) -> Call {
        match command {
            Command::Start { id, queue } => {
                let call = Call::new(&["runs", "start", "wf", "--trigger", id, "--id", id]);
                if *queue { call.word("--queue") } else { call }
            }
            Command::Gate(run) => Call::new(&["runs", "gate", run, "ship", "--summary", "go on?"]),
            Command::Approve(run) => Call::new(&["approvals", "approve", "--run", run, "--gate", "ship"]),
            Command::Transition(verb, run) => Call::new(&["runs", verb, run]),
            Command::Admit { limit } => Call::new(&["runs", "admit", "--limit", &limit.to_string()]),
        }
    }

    fn apply(&self, command: &Command, answer: Option<&Value>) -> Vec<Self> {
        let status = |run: &str| self.runs.get(run).map_or("", String::as_str);
        match command {
            Command::Start { id, .. } if self.runs.contains_key(id) => Vec::new(),
            Command::Start { id, queue: true } => vec![self.queued(id)],
            Command::Start { id, queue: false } => self.start_or_queue(id),
            Command::Gate(run) | Command::Transition("pause", run) if status(run) == "running" => {
                vec![self.with_status(run, "paused")]
            }
            Command::Approve(run) | Command::Transition("resume", run) if status(run) == "paused" => {
                self.resume_or_queue(run)
            }
            Command::Transition("finish", run) if status(run) == "running" => vec![self.with_status(run, "succeeded")],
            Command::Transition("requeue", run) if status(run) == "running" => vec![self.queued(run)],
            Command::Transition("cancel", run) if ["queued", "running", "paused"].contains(&status(run)) => {
                vec![self.with_status(run, "cancelled")]
            }
            Command::Transition("retry", run) if ["failed", "cancelled"].contains(&status(run)) => {
                self.start_or_queue(run)
            }
            Command::Admit { limit } => self.admitted(*limit, answer),
            _ => Vec::new(),
        }
    }

    fn with_known(self, model: &Self) -> Self {
        Self { resumed: model.resumed.clone(), waiting: model.waiting.clone(), ..self }
    }
}

impl Queue {
    fn free(&self) -> usize {
        self.slots.saturating_sub(self.runs.values().filter(|status| *status == "running").count())
    }

    fn with_status(&self, run: &str, status: &str) -> Self {
        let mut next = self.clone();
        next.runs.insert(run.to_owned(), status.to_owned());
        next.resumed.retain(|waiting| waiting != run);
        next.waiting.retain(|waiting| waiting != run);
        next
    }

    fn queued(&self, run: &str) -> Self {
        let mut next = self.with_status(run, "queued");
        next.waiting.push(run.to_owned());
        next
    }

    /// A run starts if there is a slot for it and for every queued run; it is queued if there is no slot. In between
    /// both are valid: a slot may be reserved for a queued run.
    fn start_or_queue(&self, run: &str) -> Vec<Self> {
        self.slot_or(self.resumed.len() + self.waiting.len(), self.with_status(run, "running"), self.queued(run))
    }

    /// A resumed run is queued before all runs that have not started.
    fn resume_or_queue(&self, run: &str) -> Vec<Self> {
        let mut waits = self.with_status(run, "queued");
        waits.resumed.push(run.to_owned());
        self.slot_or(self.resumed.len(), self.with_status(run, "running"), waits)
    }

    fn slot_or(&self, before: usize, begins: Self, waits: Self) -> Vec<Self> {
        match self.free() {
            0 => vec![waits],
            free if free > before => vec![begins],
            _ => vec![begins, waits],
        }
    }

    /// The first queued runs start, in order, as many as there are slots.
    fn admitted(&self, limit: usize, answer: Option<&Value>) -> Vec<Self> {
        let first = self.resumed.iter().chain(&self.waiting);
        let first: Vec<String> = first.take(self.free().min(limit)).cloned().collect();
        let admitted_ids = answer.map(|answer| answer["admitted"].clone()).unwrap_or_default();
        let admitted_ids: Vec<String> =
            admitted_ids.as_array().into_iter().flatten().map(|one| word(&one["run"], "id")).collect();
        if answer.is_some() && admitted_ids != first {
            return Vec::new();
        }
        vec![first.iter().fold(self.clone(), |next, run| next.with_status(run, "running"))]
    }
}

impl Worker {
    /// Runs one command that changes the shared queue.
    pub fn queue_step(&mut self) {
        let (verb, status) = match self.below(20) {
            0..4 => ("start", ""),
            4..7 => ("gate", "running"),
            7..10 => ("approve", "paused"),
            10 => ("pause", "running"),
            11..13 => ("resume", "paused"),
            13 => ("finish", "running"),
            14 => ("cancel", "queued"),
            15 => ("retry", "cancelled"),
            16 => ("requeue", "running"),
            17..19 => ("admit", ""),
            _ => ("recover", ""),
        };
        let run = self.shared_run(status).unwrap_or_else(|| "none".to_owned());
        let mut call = match verb {
            "start" => {
                let id = self.unique("queue");
                Call::new(&["runs", "start", "wf", "--trigger", &id, "--id", &id, "--restart-cap", "1000"])
            }
            "gate" => Call::new(&["runs", "gate", &run, "ship", "--summary", "go on?"]),
            "approve" => Call::new(&["approvals", "approve", "--run", &run, "--gate", "ship"]),
            "admit" => Call::new(&["runs", "admit", "--limit", "2"]),
            "recover" => Call::new(&["runs", "recover", "--owner", "recoverer"]),
            verb => Call::new(&["runs", verb, &run]),
        };
        let starts = call.words[1] == "start" || call.words[1] == "retry";
        if starts && self.chance(20) {
            call = call.word("--queue");
        } else if call.words[1] == "start" && self.chance(15) {
            call = call.word("--owner").word("starter");
        } else if call.words[1] == "admit" && self.chance(50) {
            call = call.word("--owner").word("admitter");
        }
        let done = self.run(call);
        self.note_grants(&done);
        self.within_limit();
    }

    /// Returns a shared run that had this status when it was listed.
    fn shared_run(&mut self, status: &str) -> Option<String> {
        if status.is_empty() {
            return None;
        }
        let done = self.run_clean(&Call::new(&["runs", "list", "--status", status, "--limit", "9"]));
        let runs = done.ran.answer()?["runs"].as_array()?.clone();
        Some(word(runs.get(self.below(runs.len().max(1)))?, "id"))
    }

    /// The number of running runs is never above the limit.
    fn within_limit(&mut self) {
        let done = self.run_clean(&Call::new(&["runs", "list", "--status", "running", "--limit", "200"]));
        let runs = done.ran.answer().map(|answer| answer["runs"].clone()).unwrap_or_default();
        let running = runs.as_array().map_or(0, Vec::len);
        if running > self.round.slots {
            let what = format!("{running} runs are running, the limit is {}", self.round.slots);
            self.violation("running runs are within the limit", what, &done, None);
        }
    }

    /// Runs the exact part: no other worker runs, and nothing fails.
    pub fn queue_alone(&mut self) {
        self.check_admitted_run();
        let mut queue = None;
        for _ in 0..ALONE {
            let Some(known) = queue.take().or_else(|| self.empty_queue()) else { return };
            let command = self.queue_command(&known);
            queue = self.attempt(&known, vec![command], Self::read_queue);
        }
    }

    /// Cancels every queued run, so that the order of the queue is known.
    fn empty_queue(&mut self) -> Option<Queue> {
        let queue = self.read_queue()?;
        for (run, _) in queue.runs.iter().filter(|(_, status)| *status == "queued") {
            self.run_clean(&Call::new(&["runs", "cancel", run]));
        }
        self.read_queue()
    }

    /// A run that released its slot inside a phase is admitted: its new owner can run that phase.
    fn check_admitted_run(&mut self) {
        let Some(queue) = self.empty_queue() else { return };
        for (run, _) in queue.runs.iter().filter(|(_, status)| ["running", "paused"].contains(&status.as_str())) {
            self.run_clean(&Call::new(&["runs", "cancel", run]));
        }
        let id = self.unique("phase");
        let fence = |done: &CommandRun| {
            let answer = done.ran.answer().unwrap_or_default();
            answer["fence"].as_u64().or(answer["admitted"][0]["fence"].as_u64()).unwrap_or(0).to_string()
        };
        let started =
            self.run_clean(&Call::new(&["runs", "start", "wf", "--trigger", &id, "--id", &id, "--owner", "one"]));
        let first = fence(&started);
        self.run_clean(&Call::new(&["runs", "phase", "begin", &id, "build", "--fence", &first]));
        self.run_clean(&Call::new(&["runs", "requeue", &id, "--fence", &first]));
        let admitted = self.run_clean(&Call::new(&["runs", "admit", "--owner", "two"]));
        let second = fence(&admitted);
        let begun = self.run_clean(&Call::new(&["runs", "phase", "begin", &id, "build", "--fence", &second]));
        if begun.ran.code != Some(0) {
            let what = format!("{id} was admitted, and its new owner cannot begin its phase");
            self.violation("admitted runs can continue", what, &begun, Some(&id));
        }
        self.run_clean(&Call::new(&["runs", "cancel", &id]));
    }

    fn queue_command(&mut self, queue: &Queue) -> Command {
        let wanted = ["running", "paused", "queued", "cancelled"][self.below(4)];
        let fitting: Vec<&String> =
            queue.runs.iter().filter(|(_, status)| *status == wanted).map(|(run, _)| run).collect();
        let run = fitting.get(self.below(fitting.len().max(1))).map(|run| (*run).clone());
        match (wanted, run) {
            ("running", Some(run)) => match self.below(4) {
                0 => Command::Gate(run),
                1 => Command::Transition("pause", run),
                2 => Command::Transition("requeue", run),
                _ => Command::Transition("finish", run),
            },
            ("paused", Some(run)) if self.chance(50) => Command::Approve(run),
            ("paused", Some(run)) => Command::Transition("resume", run),
            ("cancelled", Some(run)) => Command::Transition("retry", run),
            ("queued", Some(run)) if self.chance(20) => Command::Transition("cancel", run),
            ("queued", Some(_)) => Command::Admit { limit: 1 + self.below(3) },
            _ => Command::Start { id: self.unique("alone"), queue: self.chance(25) },
        }
    }

    fn read_queue(&mut self) -> Option<Queue> {
        let mut runs = BTreeMap::new();
        let mut after: Option<String> = None;
        loop {
            let mut call = Call::new(&["runs", "list", "--limit", "200"]);
            if let Some(token) = &after {
                call = call.word("--after").word(token);
            }
            let answer = self.run_clean(&call).ran.answer()?;
            for run in answer["runs"].as_array()? {
                runs.insert(word(run, "id"), word(run, "status"));
            }
            after = answer["next"].as_str().map(str::to_owned);
            if after.is_none() {
                return Some(Queue { slots: self.round.slots, runs, resumed: Vec::new(), waiting: Vec::new() });
            }
        }
    }
}

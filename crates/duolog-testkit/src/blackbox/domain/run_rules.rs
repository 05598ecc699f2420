//! The model of a run: the effect of each command on its status, phases, executions, scratch and gates.

use serde_json::Value;

use super::super::command::Call;
use super::json::members;
use super::linear::Object;
use super::run::{Execution, Fence, Gate, Live, Run, sorted};
use super::run_commands::{Command, LoopAt, Permission};

impl Object for Run {
    type Command = Command;

    fn name(&self) -> String {
        self.id.clone()
    }

    fn call(&self, command: &Command) -> Call {
        command.call(&self.id)
    }

    fn with_known(self, model: &Self) -> Self {
        Self { live: model.live.clone(), ..self }
    }

    fn apply(&self, command: &Command, _: Option<&Value>) -> Vec<Self> {
        let mut next = self.clone();
        if let Command::Claim { owner } = command {
            return self.claimed(owner);
        }
        // A repeated gate with the same id is found: then nothing changes.
        if let Command::Gate { id, kind, hash, .. } = command
            && let Some(gate) = self.gates.iter().find(|gate| gate.id == *id)
        {
            return if gate.kind == *kind && gate.hash == *hash { vec![next] } else { Vec::new() };
        }
        let legal = self.admits(command.permission())
            && match command {
                Command::Claim { .. } => false,
                Command::Release { .. } => {
                    next.owner = None;
                    self.status == "running" && self.owner.is_some()
                }
                Command::Begin { phase, .. } => {
                    let standing = |outcome: &str| outcome == "in_flight" || outcome == "succeeded";
                    let taken = self.executions.iter().any(|one| one.phase == *phase && standing(&one.outcome));
                    next.executions.push(Execution {
                        phase: phase.clone(),
                        outcome: "in_flight".to_owned(),
                        ..Execution::default()
                    });
                    if self.owner.is_none() {
                        next.live.0.insert(phase.clone());
                    }
                    self.status == "running" && !taken
                }
                Command::End { execution, error, output, summary, cost, .. } => {
                    next.end(execution, *error, output.as_ref(), summary.as_ref(), cost)
                }
                Command::Skip { phase, .. } => {
                    next.executions.push(Execution {
                        phase: phase.clone(),
                        outcome: "skipped".to_owned(),
                        ..Execution::default()
                    });
                    self.status == "running"
                }
                Command::Complete { phase, summary, .. } => {
                    next.history.push((phase.clone(), true, summary.clone()));
                    self.status == "running"
                }
                Command::Merge { key, value, .. } => {
                    next.scratch.insert(key.clone(), sorted(value));
                    self.status == "running"
                }
                Command::Gate { id, kind, hash, at, merge, .. } => {
                    next.scratch.extend(merge.iter().map(|(key, value)| (key.clone(), sorted(value))));
                    let pointed = at.as_ref().is_none_or(|at| next.point(at));
                    next.history.push(("waiting_approval".to_owned(), true, "ship".to_owned()));
                    next.pending = Some(id.clone());
                    next.gates.push(Gate {
                        id: id.clone(),
                        status: "pending".to_owned(),
                        kind: (*kind).to_owned(),
                        hash: hash.clone(),
                        ..Gate::default()
                    });
                    next.set("paused");
                    self.status == "running" && pointed
                }
                Command::Answer { verb, gate, response, hash } => next.answer(verb, gate, response, hash.as_ref()),
                Command::Acknowledge { gate, .. } => {
                    let gate = next.gates.iter_mut().find(|one| one.id == *gate);
                    let open =
                        |gate: &&mut Gate| ["approved", "answered"].contains(&gate.status.as_str()) && !gate.consumed;
                    let open = gate.filter(open).map(|gate| gate.consumed = true);
                    self.status == "running" && open.is_some()
                }
                Command::Transition(verb) => next.transition(verb),
                Command::Finish { error, .. } => {
                    next.stop(if *error { "failed" } else { "succeeded" });
                    // A paused run can be ended by anyone; the owner can finish it only while it is running.
                    self.status == "running"
                }
            };
        if legal { vec![next.settle()] } else { Vec::new() }
    }
}

impl Run {
    /// Returns true if the fence is that of the owner, or the run has no owner.
    fn admits(&self, by: Permission) -> bool {
        match by {
            Permission::Anyone => true,
            Permission::Owner(None) => self.owner.is_none(),
            Permission::Owner(Some(fence)) => self.fence.0.is_none_or(|current| current == fence),
        }
    }

    /// Claims a run that has no owner, or whose lease has expired. The claim may end the phases of earlier owners, but
    /// no phase that runs without an owner.
    fn claimed(&self, owner: &str) -> Vec<Self> {
        if self.status != "running" || (self.owner.is_some() && !self.jumps) {
            return Vec::new();
        }
        let next = Self { owner: Some(owner.to_owned()), fence: Fence(None), live: Live::default(), ..self.clone() };
        let (mut left, mut all) = (next.clone(), next.clone());
        left.close(|phase| !self.live.0.contains(phase));
        all.close(|_| self.jumps);
        vec![next, left.settle(), all.settle()]
    }

    /// Changes the status, which ends the claim.
    fn set(&mut self, status: &str) {
        status.clone_into(&mut self.status);
        self.owner = None;
        self.fence = Fence(None);
        self.live = Live::default();
    }

    fn close(&mut self, ends: impl Fn(&str) -> bool) {
        for execution in self.executions.iter_mut().filter(|one| one.outcome == "in_flight" && ends(&one.phase)) {
            "failed".clone_into(&mut execution.outcome);
        }
    }

    /// Sorts executions and gates by content, because a clock that jumps changes the order in which they are shown.
    pub fn settle(mut self) -> Self {
        self.gates.sort_by(|one, other| one.id.cmp(&other.id));
        self.executions.sort_by(|one, other| {
            (&one.phase, &one.outcome, one.cost, &one.output).cmp(&(
                &other.phase,
                &other.outcome,
                other.cost,
                &other.output,
            ))
        });
        self
    }

    fn end(&mut self, id: &str, error: bool, output: Option<&String>, summary: Option<&String>, cost: &str) -> bool {
        let Some(cost) = micros(cost) else { return false };
        let Some(execution) = self.executions.iter_mut().find(|one| one.id.0 == id) else { return false };
        if execution.outcome != "in_flight" || self.status != "running" {
            return false;
        }
        if error { "failed" } else { "succeeded" }.clone_into(&mut execution.outcome);
        execution.cost = cost;
        execution.output = output.cloned();
        self.cost += cost;
        let entry = summary.map(|summary| (execution.phase.clone(), !error, summary.clone()));
        self.history.extend(entry);
        true
    }

    /// Sets the iteration of a loop. A value that is not an object cannot hold it and must not be replaced.
    fn point(&mut self, at: &LoopAt) -> bool {
        // A null holds nothing that could be lost.
        let old = self.scratch.get(&at.key).filter(|old| *old != "null").map_or("{}", String::as_str);
        let Some(mut state) = members(old) else { return false };
        state.insert("iteration".to_owned(), at.iteration.to_string());
        state.insert("lastOutputExecutionId".to_owned(), format!("\"{}\"", at.execution));
        let text: Vec<String> = state.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        self.scratch.insert(at.key.clone(), format!("{{{}}}", text.join(",")));
        self.executions.iter().any(|execution| execution.id.0 == at.execution)
    }

    fn answer(&mut self, verb: &str, id: &str, response: &str, hash: Option<&String>) -> bool {
        let Some(gate) = self.gates.iter_mut().find(|gate| gate.id == id && gate.status == "pending") else {
            return false;
        };
        let (status, kind) = match verb {
            "approve" => ("approved", "approve"),
            "reject" => ("rejected", "approve"),
            _ => ("answered", "reply"),
        };
        let fits = gate.kind == kind && gate.hash.as_ref() == hash;
        status.clone_into(&mut gate.status);
        gate.response = Some(response.to_owned());
        self.pending = None;
        if verb == "reject" {
            self.stop("failed");
        } else {
            self.set("running");
        }
        fits
    }

    fn transition(&mut self, verb: &str) -> bool {
        let from = self.status.clone();
        let active = ["queued", "running", "paused"].contains(&from.as_str());
        match verb {
            "pause" => self.set("paused"),
            "resume" | "retry" => self.set("running"),
            "cancel" => self.stop("cancelled"),
            _ => self.stop("failed"),
        }
        self.retries += u64::from(verb == "retry");
        match verb {
            "pause" => from == "running",
            "resume" => from == "paused" && self.pending.is_none(),
            "retry" => from == "failed" || from == "cancelled",
            "cancel" => active,
            _ => from == "running" || from == "paused",
        }
    }

    /// Ends the run: phases in flight are ended, and a pending gate can no longer be answered.
    fn stop(&mut self, status: &str) {
        self.set(status);
        self.close(|_| true);
        for gate in self.gates.iter_mut().filter(|gate| gate.status == "pending") {
            "expired".clone_into(&mut gate.status);
        }
        self.pending = None;
    }
}

/// Parses a cost as millionths of a dollar; `None` if it is invalid.
fn micros(cost: &str) -> Option<u64> {
    let (dollars, rest) = cost.split_once('.').unwrap_or((cost, ""));
    if cost.is_empty() {
        return Some(0);
    }
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (digits(dollars) && digits(rest) && rest.len() == 2)
        .then(|| Some(dollars.parse::<u64>().ok()? * 1_000_000 + rest.parse::<u64>().ok()? * 10_000))?
}

//! A run, as it is read back through the binary.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::command::Call;
use super::super::worker::Worker;
use super::json::{elements, member, members, word};

/// A generated id, which is not compared.
#[derive(Clone, Debug, Default)]
pub struct GeneratedId(pub String);

impl PartialEq for GeneratedId {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// An execution of a phase.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Execution {
    /// Its phase.
    pub phase: String,
    /// Its outcome, or in_flight.
    pub outcome: String,
    /// Its cost in millionths of a dollar.
    pub cost: u64,
    /// Its output.
    pub output: Option<String>,
    /// Its id.
    pub id: GeneratedId,
}

/// A gate of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gate {
    /// Its id, chosen by the tester.
    pub id: String,
    /// Its status.
    pub status: String,
    /// The response.
    pub response: Option<String>,
    /// True if the owner acknowledged the response.
    pub consumed: bool,
    /// Its kind: approve or reply.
    pub kind: String,
    /// The hash of its content.
    pub hash: Option<String>,
}

/// A run as it is read back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// Its id.
    pub id: String,
    /// Its status.
    pub status: String,
    /// Its history: phase, success, and the summary or the gate.
    pub history: Vec<(String, bool, String)>,
    /// Its scratch, with each value as text.
    pub scratch: BTreeMap<String, String>,
    /// Its executions, sorted by content.
    pub executions: Vec<Execution>,
    /// Its gates, by id.
    pub gates: Vec<Gate>,
    /// The pending gate.
    pub pending: Option<String>,
    /// Its cost in millionths of a dollar.
    pub cost: u64,
    /// The number of retries.
    pub retries: u64,
    /// The owner.
    pub owner: Option<String>,
    /// The fence of the last claim, `None` if the model cannot know it; it is not compared.
    pub fence: Fence,
    /// Phases that were begun while the run had no owner and that are still in flight; only the model has them.
    pub live: Live,
    /// True if clocks jump: then a lease may expire at any time.
    pub jumps: bool,
}

/// Phases that no claim may end.
#[derive(Clone, Debug, Default)]
pub struct Live(pub BTreeSet<String>);

impl PartialEq for Live {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The fence of the last claim.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fence(pub Option<u64>);

impl PartialEq for Fence {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Worker {
    /// Reads a run back: the run, the output of each execution, its gates.
    pub fn read_run(&mut self, id: &str) -> Option<Run> {
        let shown = self.run_clean(&Call::new(&["runs", "show", id]));
        let answer = shown.ran.answer().filter(|_| shown.ran.code == Some(0))?;
        let text = shown.ran.text();
        let value = &answer["run"];
        let scratch = member(&text, &["run", "scratch"]).and_then(|text| members(&text)).unwrap_or_default();
        let mut run = Run {
            id: id.to_owned(),
            status: word(value, "status"),
            scratch: scratch.into_iter().map(|(key, value)| (key, sorted(&value))).collect(),
            pending: value["pending_approval_id"].as_str().map(str::to_owned),
            cost: micros(value),
            retries: value["retry_count"].as_u64().unwrap_or(0),
            owner: value["lease_owner"].as_str().map(str::to_owned),
            fence: Fence(value["fence"].as_u64()),
            jumps: self.round.jumps,
            ..Run::default()
        };
        for entry in value["phase_history"].as_array().into_iter().flatten() {
            let about = entry["summary"].as_str().or(entry["gate"].as_str()).unwrap_or_default();
            run.history.push((word(entry, "phase"), entry["success"] == true, about.to_owned()));
        }
        for entry in answer["executions"].as_array().into_iter().flatten() {
            let execution = word(entry, "id");
            let output = self.run_clean(&Call::new(&["runs", "output", &execution]));
            let phase = word(entry, "skill").split_once(':').map(|(_, phase)| phase.to_owned());
            run.executions.push(Execution {
                phase: phase.unwrap_or_default(),
                outcome: word(entry, "outcome"),
                cost: micros(entry),
                output: output.ran.answer().and_then(|answer| answer["text"].as_str().map(str::to_owned)),
                id: GeneratedId(execution),
            });
        }
        run.gates = answer["approvals"].as_array().into_iter().flatten().map(gate_of).collect();
        self.compare_gates(&run);
        Some(run.settle())
    }

    /// The pending gate of a run is on the first page of its pending gates, and an answered one on a page of its status.
    fn compare_gates(&mut self, run: &Run) {
        let is_answered = |gate: &&Gate| matches!(&*gate.status, "approved" | "rejected" | "answered");
        if let Some(answered) = run.gates.iter().find(is_answered) {
            self.gate_is_listed(run, &answered.status, None);
        }
        if let Some(pending) = &run.pending {
            self.gate_is_listed(run, "pending", Some(pending));
        }
    }

    /// A list of one row has a gate of this status, and the given one.
    fn gate_is_listed(&mut self, run: &Run, status: &str, id: Option<&str>) {
        let words = ["approvals", "list", "--run", &run.id, "--status", status, "--limit", "1"];
        let done = self.run_clean(&Call::new(&words));
        let listed = done.ran.answer().map(|answer| answer["approvals"].clone()).unwrap_or_default();
        let is_listed = |gate: &Value| gate["status"] == status && id.is_none_or(|id| gate["id"] == id);
        if done.ran.code == Some(0) && !listed.as_array().into_iter().flatten().any(is_listed) {
            let what = format!("{} has a gate that is {status}, which is not in the list of these gates", run.id);
            self.violation("a gate is listed by its status", what, &done, Some(&run.id));
        }
    }
}

/// Returns the cost in millionths of a dollar.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn micros(value: &Value) -> u64 {
    (value["cost_usd"].as_f64().unwrap_or(0.0) * 1e6).round() as u64
}

fn gate_of(value: &Value) -> Gate {
    Gate {
        id: word(value, "id"),
        status: word(value, "status"),
        response: value["response"].as_str().map(str::to_owned),
        consumed: value["consumed_at"].is_string(),
        kind: word(value, "kind"),
        hash: value["content_hash"].as_str().map(str::to_owned),
    }
}

/// Returns the text of a value, with the members of objects sorted by name.
pub fn sorted(text: &str) -> String {
    if let Some(members) = members(text) {
        let members: Vec<String> = members.iter().map(|(key, value)| format!("\"{key}\":{}", sorted(value))).collect();
        return format!("{{{}}}", members.join(","));
    }
    elements(text).map_or_else(|| text.to_owned(), |elements| format!("[{}]", elements.join(",")))
}

//! One run: what its owner writes, and what anybody may do to it.

use std::time::Duration;

use duolog_state::owned::workflow_approvals::{self, Approval};
use duolog_state::owned::workflow_runs as table;
use duolog_state::owned::{executions, workflow_run_nodes, workflow_run_scratch};
use duolog_types::limits::{NODES_BYTES_MAX, REASON_BYTES_MAX, WORD_BYTES_MAX};
use duolog_types::{ApprovalId, ApprovalKind, ApprovalStatus, Durability, ExecutionId, RunId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::change::Changing;
use super::model::{Attribution, End, Fence, PhaseStanding, RunSummary, StatusChange};
use super::queue::Queue;
use super::rules::{self, Event, PhaseLabel};
use crate::error::{Conflict, Error, Invalid, NotFound, Result};
use crate::store::Store;

/// The pseudo-phase of a run that waits at a gate.
pub(super) const WAITING: &str = "waiting_approval";

/// One run, to be changed.
#[derive(Clone)]
pub struct RunHandle {
    pub(super) store: Store,
    pub(super) run: RunId,
    pub(super) fence: Option<Fence>,
    pub(super) durability: Durability,
}

/// Until when a gate may be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Until this instant.
    At(Timestamp),
    /// For so long from the commit on, by the clock of the state: the server's clock if the state is on one.
    After(Duration),
}

impl Expiry {
    fn instant(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::After(time) => rules::later(now, time),
        }
    }
}

/// A gate to pause at.
#[derive(Clone, Debug)]
pub struct NewGate {
    /// Its id; one is minted where none is given.
    pub id: Option<ApprovalId>,
    /// What the workflow calls it.
    pub gate: String,
    /// What resolves it.
    pub kind: ApprovalKind,
    /// What is asked, for people.
    pub summary: String,
    /// Who asks.
    pub requested_by: Option<String>,
    /// A hash of what is asked about: an answer that names another is refused.
    pub content_hash: Option<String>,
    /// Until when it may be answered. After that the run fails.
    pub expires: Option<Expiry>,
    /// What is merged into the scratch in the same step, as a JSON object.
    pub scratch: Option<String>,
    /// The turn of a loop that asks.
    pub at: Option<LoopPoint>,
}

impl NewGate {
    /// A gate of a kind with a name, and what is asked.
    pub fn new(kind: ApprovalKind, gate: &str, summary: &str) -> Self {
        Self {
            id: None,
            gate: gate.to_owned(),
            kind,
            summary: summary.to_owned(),
            requested_by: None,
            content_hash: None,
            expires: None,
            scratch: None,
            at: None,
        }
    }
}

/// The turn of a loop that asks: question and answer are kept by pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopPoint {
    /// The key of the scratch that keeps the loop: `iteration` and `lastOutputExecutionId` are set in it.
    pub key: String,
    /// Which turn.
    pub iteration: u64,
    /// The execution whose last text is the question.
    pub output: ExecutionId,
}

/// A gate that a run waits at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PausedAt {
    /// The gate.
    pub approval: Approval,
    /// True if a gate of this id and content was there before, and nothing changed.
    pub existed: bool,
}

impl RunHandle {
    /// Under a claim: what follows is refused once another claim has overtaken it.
    #[must_use]
    pub fn under(mut self, fence: Fence) -> Self {
        self.fence = Some(fence);
        self
    }

    /// Which run.
    pub fn id(&self) -> &RunId {
        &self.run
    }

    /// Enters a phase: the run says where it is.
    pub fn enter_phase(&self, phase: &str) -> Result<RunSummary> {
        PhaseLabel::parse(phase)?;
        let phase = phase.to_owned();
        self.write(move |run| {
            phase.clone_into(&mut run.row.current_phase);
            let mut fields = run.fields();
            fields.insert("phase".to_owned(), phase.as_str().into());
            fields.insert("state".to_owned(), "entered".into());
            run.tell("phase", &fields)
        })
    }

    /// Notes that a phase ended, and how. The label may come again: its last entry counts.
    pub fn complete_phase(&self, phase: &str, success: bool, summary: Option<&str>) -> Result<RunSummary> {
        PhaseLabel::parse(phase)?;
        if let Some(summary) = summary {
            rules::bounded::<REASON_BYTES_MAX>("summary", summary)?;
        }
        let (phase, summary) = (phase.to_owned(), summary.map(str::to_owned));
        self.write(move |run| run.complete_phase(&phase, success, summary.as_deref()))
    }

    /// Merges a JSON object into the scratch: each of its top-level keys replaces the one that was there, no other.
    pub fn merge_scratch(&self, patch: &str) -> Result<RunSummary> {
        let patch = rules::patch(patch)?;
        self.write(move |run| run.merge(&patch))
    }

    /// Says how nodes stand, as a JSON object of names and statuses. Nodes that are not named stay as they are.
    pub fn set_nodes(&self, nodes: &str) -> Result<RunSummary> {
        let nodes = rules::patch(nodes)?;
        self.write(move |run| {
            let mut by = 0;
            for (node, status) in &nodes {
                by += workflow_run_nodes::put(run.tx, &run.row.id, node, status)?;
            }
            let grown = rules::grown("node_statuses", run.row.nodes_bytes, by, NODES_BYTES_MAX);
            run.row.nodes_bytes = grown?;
            Ok(())
        })
    }

    /// Whether a phase is to be run, is being run or is done, as the ledger of executions says.
    pub fn should_run_phase(&self, phase: &str) -> Result<PhaseStanding> {
        PhaseLabel::parse(phase)?;
        let standing = self.store.join.state().read(|tx| {
            let row =
                table::find(tx, &self.run)?.ok_or_else(|| Error::NotFound(NotFound::Run(self.run.to_string())))?;
            Ok::<_, Error>(executions::standing(tx, &self.run, &rules::skill(&row.workflow_name, phase))?)
        })?;
        Ok(match standing {
            None => PhaseStanding::Run,
            Some((id, true)) => PhaseStanding::Running(id),
            Some((id, false)) => PhaseStanding::Done(id),
        })
    }

    /// Stops the run until somebody resumes it.
    pub fn pause(&self, act: &Attribution) -> Result<StatusChange> {
        self.turn(Event::Pause, act)
    }

    /// Has a paused run go on, to be claimed. One that waits at a gate is answered there instead.
    ///
    /// Without a free slot it is queued, before every run that has not begun.
    pub fn resume(&self, act: &Attribution) -> Result<StatusChange> {
        rules::check_act(act)?;
        let (act, fence, queue) = (act.clone(), self.fence, Queue::of(&self.store));
        self.change(move |run| {
            if let Some(gate) = workflow_approvals::pending_of(run.tx, &run.row.id)? {
                return Err(Error::Conflict(Conflict::GatePending { run: run.row.id.clone(), gate: gate.id }));
            }
            if rules::decide(&run.row.id, run.row.status, Event::Resume)?.is_none() {
                return Ok(false);
            }
            run.check_fence(fence)?;
            queue.resume(run, &act).map(|()| true)
        })
    }

    /// Ends the run from outside, whoever runs it.
    pub fn cancel(&self, act: &Attribution) -> Result<StatusChange> {
        self.turn(Event::Cancel, act)
    }

    /// Fails a run from outside, whoever runs it.
    pub fn fail(&self, act: &Attribution) -> Result<StatusChange> {
        self.turn(Event::Fail, act)
    }

    /// Ends the run, as its owner. `marker` becomes its last phase, where one is given.
    pub fn finish(&self, end: &End, marker: Option<&str>) -> Result<StatusChange> {
        let (event, reason) = match end {
            End::Succeeded => (Event::Succeed, None),
            End::Failed(why) => (Event::Fail, Some(why.clone())),
        };
        let act = Attribution { actor: None, reason };
        rules::check_act(&act)?;
        marker.map(PhaseLabel::parse).transpose()?;
        let (fence, marker) = (self.fence, marker.map(str::to_owned));
        self.change(move |run| {
            // Asked again, it finds what it made: its claim went with the end.
            if run.row.status == event.target() {
                return run.check_fence(fence).map(|()| false);
            }
            run.check_runs(fence)?;
            if let Some(marker) = &marker {
                run.add_phase(marker, event == Event::Succeed, Map::new())?;
            }
            run.turn(event, &act)
        })
    }

    /// Pauses at a gate: the marker in the history, the scratch, the gate and the status, all or nothing.
    ///
    /// A gate of the same id and content is returned as it is, and nothing changes; other content is an error.
    pub fn pause_at(&self, gate: &NewGate) -> Result<PausedAt> {
        check_gate(gate)?;
        let patch = gate.scratch.as_deref().map(rules::patch).transpose()?.unwrap_or_default();
        let (gate, run, fence) = (gate.clone(), self.run.clone(), self.fence);
        let (clock, lease) = (self.store.join.tx_clock(), self.store.join.limits().runs.lease);
        let id = gate.id.clone().unwrap_or_else(ApprovalId::new);
        self.store.transact(self.durability, move |tx| {
            let now = clock.now(tx)?;
            let mut run = Changing::open(tx, &run, now, lease)?;
            let row = gate_row(&gate, &id, &run.row.id, now);
            if let Some(there) = workflow_approvals::find(run.tx, &id)? {
                return match other_field(&there, &row) {
                    None => Ok((PausedAt { approval: there, existed: true }, Vec::new())),
                    Some(field) => Err(Error::Conflict(Conflict::GateTaken { gate: id.clone(), field })),
                };
            }
            run.check_runs(fence)?;
            if let Some(at) = row.expires_at.filter(|at| *at <= now) {
                let why = format!("is {at}, and a gate that has expired cannot be answered");
                return Err(Error::Invalid(Invalid::Value { what: "expires_at", why }));
            }
            let mut about = Map::new();
            about.insert("gate".to_owned(), gate.gate.as_str().into());
            // The marker comes first: where the gate cannot be made, nothing is left of it.
            run.add_phase(WAITING, true, about)?;
            run.merge(&patch)?;
            if let Some(at) = &gate.at {
                point(&mut run, at)?;
            }
            workflow_approvals::insert(run.tx, &row)?;
            run.turn(Event::Pause, &Attribution { actor: gate.requested_by.clone(), reason: None })?;
            run.tell_gate(&row, ApprovalStatus::Pending, None)?;
            let (_, told) = run.done()?;
            Ok((PausedAt { approval: row, existed: false }, told))
        })
    }

    /// The last gate of this name that the run came to: whether it is to be asked again is seen from it.
    pub fn gate(&self, gate: &str) -> Result<Option<Approval>> {
        let row = self.store.join.state().read(|tx| workflow_approvals::last_of(tx, &self.run, gate))?;
        Ok(row)
    }

    /// Takes note of an answer, as the owner of the resumed run; false where that was done. Until then it is told anew
    /// to every claim, so no answer is lost between its giver and the run.
    pub fn acknowledge(&self, gate: &ApprovalId) -> Result<bool> {
        let (gate, run, fence) = (gate.clone(), self.run.clone(), self.fence);
        let (clock, lease) = (self.store.join.tx_clock(), self.store.join.limits().runs.lease);
        self.store.transact(self.durability, move |tx| {
            let now = clock.now(tx)?;
            let mut run = Changing::open(tx, &run, now, lease)?;
            run.check_runs(fence)?;
            let missing = || Error::NotFound(NotFound::Approval(gate.to_string()));
            let row = workflow_approvals::find(run.tx, &gate)?.ok_or_else(missing)?;
            if row.workflow_run_id != run.row.id {
                return Err(Error::Invalid(Invalid::GateOfOtherRun { gate: gate.clone(), run: row.workflow_run_id }));
            }
            if !matches!(row.status, ApprovalStatus::Approved | ApprovalStatus::Answered) {
                return Err(Error::Conflict(Conflict::GateNotAnswered { gate: gate.clone(), status: row.status }));
            }
            let noted = workflow_approvals::consume(run.tx, &gate, now)?;
            if noted {
                let mut fields = run.fields();
                fields.insert("approval".to_owned(), gate.as_str().into());
                fields.insert("gate".to_owned(), row.gate.as_str().into());
                fields.insert("status".to_owned(), "consumed".into());
                run.tell("gate", &fields)?;
            }
            let (_, told) = run.done()?;
            Ok((noted, told))
        })
    }

    /// Moves the run by an event that anybody may cause.
    fn turn(&self, event: Event, act: &Attribution) -> Result<StatusChange> {
        rules::check_act(act)?;
        let (act, fence) = (act.clone(), self.fence);
        self.change(move |run| {
            // Asked again, it finds what it made: its claim went with the pause.
            if run.row.status == event.target() {
                return Ok(false);
            }
            run.check_fence(fence)?;
            run.turn(event, &act)
        })
    }

    /// Changes what belongs to a run that runs, as its owner.
    pub(super) fn write(
        &self,
        mut f: impl FnMut(&mut Changing<'_, '_>) -> Result<()> + Send + 'static,
    ) -> Result<RunSummary> {
        let (run, fence) = (self.run.clone(), self.fence);
        let (clock, lease) = (self.store.join.tx_clock(), self.store.join.limits().runs.lease);
        self.store.transact(self.durability, move |tx| {
            let now = clock.now(tx)?;
            let mut run = Changing::open(tx, &run, now, lease)?;
            run.check_runs(fence)?;
            f(&mut run)?;
            let (row, told) = run.done()?;
            Ok((RunSummary::from(&row), told))
        })
    }

    /// Changes how a run stands; `f` says whether it did.
    pub(super) fn change(
        &self,
        f: impl FnMut(&mut Changing<'_, '_>) -> Result<bool> + Send + 'static,
    ) -> Result<StatusChange> {
        let lease = self.store.join.limits().runs.lease;
        self.change_for(lease, f)
    }

    /// The same, where whoever is to take it up has another time to do so.
    pub(super) fn change_for(
        &self,
        lease: Duration,
        mut f: impl FnMut(&mut Changing<'_, '_>) -> Result<bool> + Send + 'static,
    ) -> Result<StatusChange> {
        let (run, clock) = (self.run.clone(), self.store.join.tx_clock());
        let turned = self.store.transact(self.durability, move |tx| {
            let now = clock.now(tx)?;
            let mut run = Changing::open(tx, &run, now, lease)?;
            let previous = run.row.status;
            if !f(&mut run)? {
                return Ok((StatusChange { previous, changed: false, run: RunSummary::from(&run.row) }, Vec::new()));
            }
            let (row, told) = run.done()?;
            Ok((StatusChange { previous, changed: true, run: RunSummary::from(&row) }, told))
        })?;
        if turned.changed && turned.run.status.is_terminal() && turned.previous != turned.run.status {
            self.store.core.observers.tell(&turned.run);
        }
        Ok(turned)
    }
}

fn check_gate(gate: &NewGate) -> Result<()> {
    rules::bounded::<WORD_BYTES_MAX>("gate", &gate.gate)?;
    if gate.gate.is_empty() {
        return Err(Error::Invalid(Invalid::Value { what: "gate", why: "must have a name".to_owned() }));
    }
    rules::bounded::<REASON_BYTES_MAX>("summary", &gate.summary)?;
    rules::check_named("requested_by", gate.requested_by.as_ref())?;
    if let Some(hash) = &gate.content_hash {
        rules::bounded::<WORD_BYTES_MAX>("content_hash", hash)?;
        if hash.is_empty() {
            return Err(Error::Invalid(Invalid::Value {
                what: "content_hash",
                why: "must not be empty; leave it out".to_owned(),
            }));
        }
    }
    if let Some(at) = &gate.at {
        rules::bounded::<WORD_BYTES_MAX>("loop key", &at.key)?;
        if at.key.is_empty() {
            return Err(Error::Invalid(Invalid::Value { what: "loop key", why: "must not be empty".to_owned() }));
        }
    }
    Ok(())
}

fn gate_row(gate: &NewGate, id: &ApprovalId, run: &RunId, now: Timestamp) -> Approval {
    Approval {
        id: id.clone(),
        workflow_run_id: run.clone(),
        gate: gate.gate.clone(),
        summary: gate.summary.clone(),
        status: ApprovalStatus::Pending,
        kind: gate.kind,
        requested_by: gate.requested_by.clone(),
        responded_by: None,
        response: None,
        responded_at: None,
        created_at: now,
        content_hash: gate.content_hash.clone(),
        expires_at: gate.expires.map(|expires| expires.instant(now)),
        consumed_at: None,
        loop_key: gate.at.as_ref().map(|at| at.key.clone()),
        iteration: gate.at.as_ref().map(|at| at.iteration),
        output_execution_id: gate.at.as_ref().map(|at| at.output.clone()),
    }
}

/// Notes in the scratch which turn of a loop asks, and which execution said what is asked.
fn point(run: &mut Changing<'_, '_>, at: &LoopPoint) -> Result<()> {
    let missing = || Error::NotFound(NotFound::Execution(at.output.clone()));
    let execution = executions::find(run.tx, &at.output)?.ok_or_else(missing)?;
    if execution.workflow_run_id.as_ref() != Some(&run.row.id) {
        return Err(missing());
    }
    let before = workflow_run_scratch::get(run.tx, &run.row.id, &at.key)?;
    let set = [
        ("iteration", Value::from(at.iteration).to_string()),
        ("lastOutputExecutionId", Value::from(at.output.as_str()).to_string()),
    ];
    let state = rules::with_members(&at.key, before.as_deref(), &set)?;
    run.merge(&[(at.key.clone(), state)].into())
}

/// The first field in which a gate differs from one that is asked for under its id. A time limit counts from the moment
/// of the request, so two of them are taken as equal.
fn other_field(there: &Approval, asked: &Approval) -> Option<&'static str> {
    let fields = [
        ("run", there.workflow_run_id == asked.workflow_run_id),
        ("name", there.gate == asked.gate),
        ("kind", there.kind == asked.kind),
        ("summary", there.summary == asked.summary),
        ("requested_by", there.requested_by == asked.requested_by),
        ("content_hash", there.content_hash == asked.content_hash),
        ("expires_at", there.expires_at.is_some() == asked.expires_at.is_some()),
        ("loop key", there.loop_key == asked.loop_key),
        ("iteration", there.iteration == asked.iteration),
        ("output", there.output_execution_id == asked.output_execution_id),
    ];
    fields.into_iter().find(|(_, is_equal)| !is_equal).map(|(field, _)| field)
}

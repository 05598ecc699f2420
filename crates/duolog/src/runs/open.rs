//! One run: the writes of its owner, and the changes that anybody may make.

use std::time::Duration;

use duolog_state::owned::workflow_approvals::{self, Approval};
use duolog_state::owned::workflow_runs as table;
use duolog_state::owned::{executions, workflow_run_nodes, workflow_run_scratch};
use duolog_types::limits::{NODES_BYTES_MAX, REASON_BYTES_MAX, WORD_BYTES_MAX};
use duolog_types::{ApprovalId, ApprovalKind, ApprovalStatus, Durability, ExecutionId, RunId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::change::Changing;
use super::model::{Attribution, End, Fence, PhaseState, RunSummary, StatusChange};
use super::queue::Queue;
use super::rules::{self, Event, PhaseLabel};
use crate::error::{Conflict, Error, Invalid, NotFound, Result};
use crate::store::Store;

/// The pseudo-phase of a run that waits at a gate.
pub(super) const WAITING: &str = "waiting_approval";

/// The handle for one run.
#[derive(Clone)]
pub struct RunHandle {
    pub(super) store: Store,
    pub(super) run: RunId,
    pub(super) fence: Option<Fence>,
    pub(super) durability: Durability,
}

/// The expiry of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// At this time.
    At(Timestamp),
    /// This long after the commit, by the clock of the state: the server's clock if the state is on a server.
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

/// A new gate.
#[derive(Clone, Debug)]
pub struct NewGate {
    /// The id [default: a new one].
    pub id: Option<ApprovalId>,
    /// The name in the workflow.
    pub gate: String,
    /// The kind of answer.
    pub kind: ApprovalKind,
    /// The question, for the user.
    pub summary: String,
    /// The requester.
    pub requested_by: Option<String>,
    /// The hash of the content. An answer with another hash is refused.
    pub content_hash: Option<String>,
    /// The expiry. The run fails if the gate is not answered by then.
    pub expires: Option<Expiry>,
    /// A JSON object that is merged into the scratch in the same transaction.
    pub scratch: Option<String>,
    /// The iteration of a loop that asks.
    pub at: Option<LoopPoint>,
}

impl NewGate {
    /// Returns a new gate with a kind, a name and a question.
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

/// The iteration of a loop that asks. The question and the answer are stored as references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopPoint {
    /// The key of the loop in the scratch: `iteration` and `lastOutputExecutionId` are set in it.
    pub key: String,
    /// The number of the iteration.
    pub iteration: u64,
    /// The execution whose output is the question.
    pub output: ExecutionId,
}

/// A gate at which a run waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PausedAt {
    /// The gate.
    pub approval: Approval,
    /// True if a gate with this id and content existed, so that nothing changed.
    pub existed: bool,
}

impl RunHandle {
    /// Sets the fence of a claim. Calls are refused after another claim has overtaken it.
    #[must_use]
    pub fn under(mut self, fence: Fence) -> Self {
        self.fence = Some(fence);
        self
    }

    /// Returns the id of the run.
    pub fn id(&self) -> &RunId {
        &self.run
    }

    /// Sets the current phase.
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

    /// Records the end of a phase. A phase may end several times: its last entry counts.
    pub fn complete_phase(&self, phase: &str, success: bool, summary: Option<&str>) -> Result<RunSummary> {
        PhaseLabel::parse(phase)?;
        if let Some(summary) = summary {
            rules::bounded::<REASON_BYTES_MAX>("summary", summary)?;
        }
        let (phase, summary) = (phase.to_owned(), summary.map(str::to_owned));
        self.write(move |run| run.complete_phase(&phase, success, summary.as_deref()))
    }

    /// Merges a JSON object into the scratch: each of its top-level keys replaces the existing value.
    pub fn merge_scratch(&self, patch: &str) -> Result<RunSummary> {
        let patch = rules::patch(patch)?;
        self.write(move |run| run.merge(&patch))
    }

    /// Sets the statuses of nodes, as a JSON object of names and statuses. Other nodes keep their status.
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

    /// Returns the state of a phase, as recorded in the ledger of executions.
    pub fn should_run_phase(&self, phase: &str) -> Result<PhaseState> {
        PhaseLabel::parse(phase)?;
        let standing = self.store.join.state().read(|tx| {
            let row =
                table::find(tx, &self.run)?.ok_or_else(|| Error::NotFound(NotFound::Run(self.run.to_string())))?;
            Ok::<_, Error>(executions::standing(tx, &self.run, &rules::skill(&row.workflow_name, phase))?)
        })?;
        Ok(match standing {
            None => PhaseState::Run,
            Some((id, true)) => PhaseState::Running(id),
            Some((id, false)) => PhaseState::Done(id),
        })
    }

    /// Pauses the run until it is resumed.
    pub fn pause(&self, act: &Attribution) -> Result<StatusChange> {
        self.turn(Event::Pause, act)
    }

    /// Resumes a paused run, so that it can be claimed. If no slot is free, it is queued ahead of every run that has
    /// not started.
    ///
    /// # Errors
    ///
    /// Returns an error if the run waits at a gate: answer the gate instead.
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

    /// Cancels the run, regardless of its owner.
    pub fn cancel(&self, act: &Attribution) -> Result<StatusChange> {
        self.turn(Event::Cancel, act)
    }

    /// Sets the run to failed, regardless of its owner.
    pub fn fail(&self, act: &Attribution) -> Result<StatusChange> {
        self.turn(Event::Fail, act)
    }

    /// Ends the run, as its owner. `marker` becomes its last phase, if it is given.
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
            // A repeated call finds the run ended; its claim ended with the run.
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

    /// Pauses the run at a gate. The entry in the history, the scratch, the gate and the status are one transaction.
    ///
    /// A gate with the same id and content is returned unchanged.
    ///
    /// # Errors
    ///
    /// Returns an error if a gate with the same id has other content, or if the expiry has passed.
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
                let why = format!("is {at}, which has passed");
                return Err(Error::Invalid(Invalid::Value { what: "expires_at", why }));
            }
            let mut about = Map::new();
            about.insert("gate".to_owned(), gate.gate.as_str().into());
            // The entry in the history comes before the gate; an error rolls back both.
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

    /// Returns the last gate with this name of the run, to decide whether to ask again.
    pub fn gate(&self, gate: &str) -> Result<Option<Approval>> {
        let row = self.store.join.state().read(|tx| workflow_approvals::last_of(tx, &self.run, gate))?;
        Ok(row)
    }

    /// Acknowledges an answer, as the owner of the resumed run. Returns false if it was acknowledged before. Every
    /// claim gets the answer until it is acknowledged, so no answer is lost.
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

    /// Applies an event that anybody may cause.
    fn turn(&self, event: Event, act: &Attribution) -> Result<StatusChange> {
        rules::check_act(act)?;
        let (act, fence) = (act.clone(), self.fence);
        self.change(move |run| {
            // A repeated call finds the run paused; its claim ended with the pause.
            if run.row.status == event.target() {
                return Ok(false);
            }
            run.check_fence(fence)?;
            run.turn(event, &act)
        })
    }

    /// Changes the data of a running run, as its owner.
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

    /// Changes the status of a run. `f` returns true if it changed.
    pub(super) fn change(
        &self,
        f: impl FnMut(&mut Changing<'_, '_>) -> Result<bool> + Send + 'static,
    ) -> Result<StatusChange> {
        let lease = self.store.join.limits().runs.lease;
        self.change_for(lease, f)
    }

    /// Changes the status of a run, with another lease for the next owner.
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
        return Err(Error::Invalid(Invalid::Value { what: "gate", why: "must not be empty".to_owned() }));
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

/// Records in the scratch the iteration that asks, and the execution with the question.
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

/// Returns the first field in which an existing gate differs from the requested one. A relative expiry counts from the
/// request, so two of them count as equal.
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

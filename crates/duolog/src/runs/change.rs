//! A run inside a transaction, and the log lines about its changes.
//!
//! Every change of a run or its parts reads and writes the row of the run. On a server, concurrent changes of the same
//! run therefore conflict, and the loser is retried with everything that it read.

use std::time::Duration;

use duolog_join::{OutboxLine, tell_if_there};
use duolog_state::Tx;
use duolog_state::owned::execution_rollups::{self, RollupRow};
use duolog_state::owned::executions::{self, EndRow, ExecutionRow};
use duolog_state::owned::workflow_runs::{self as table, RunRow};
use duolog_state::owned::{workflow_approvals, workflow_run_phases, workflow_run_scratch};
use duolog_types::limits::{
    PAGE_MAX, PHASE_ENTRY_BYTES_MAX, PHASES_BYTES_MAX, REASON_BYTES_MAX, ROLLUP_MINUTES, SCRATCH_BYTES_MAX,
};
use duolog_types::{ApprovalId, ApprovalStatus, ExecutionId, RunId, RunStatus, Timestamp};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

use super::model::{Attribution, ExecutionOutcome, Fence};
use super::rules::{self, Event};
use crate::error::{Busy, Conflict, Error, NotFound, Result, Stale};

/// The maximum number of bytes of a reason in a log line. A longer reason is refused, unless the row stores all of it.
pub(super) const TOLD_BYTES_MAX: usize = 4096;

/// A run that is being changed.
pub(crate) struct Changing<'t, 'c> {
    pub(super) tx: &'t mut Tx<'c>,
    before: RunRow,
    pub(super) row: RunRow,
    pub(super) now: Timestamp,
    lease: Duration,
    pub(super) told: Vec<OutboxLine>,
}

/// The reason for closing executions in flight.
pub(super) struct Closing<'a> {
    pub(super) stop_reason: &'a str,
    pub(super) error: &'a str,
}

/// The executions to close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// All executions in flight.
    ByAnyone,
    /// Those that were begun under an earlier claim: their owner cannot end them any more.
    ByEarlierClaims,
}

impl<'t, 'c> Changing<'t, 'c> {
    /// Reads a run to change it.
    pub(crate) fn open(tx: &'t mut Tx<'c>, run: &RunId, now: Timestamp, lease: Duration) -> Result<Self> {
        let row = table::enter(tx, run)?.ok_or_else(|| Error::NotFound(NotFound::Run(run.to_string())))?;
        Ok(Self::of(tx, row, now, lease))
    }

    /// Starts a change of a run that was read.
    pub(super) fn of(tx: &'t mut Tx<'c>, row: RunRow, now: Timestamp, lease: Duration) -> Self {
        let touched = rules::touched(&row, now);
        Self { tx, before: row, row: touched, now, lease, told: Vec::new() }
    }

    /// Returns the time of the change.
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns an error if the claim was overtaken by another one, or ended when its run stopped.
    pub(super) fn check_fence(&self, fence: Option<Fence>) -> Result<()> {
        let Some(fence) = fence.filter(|fence| fence.0 != self.before.fence) else { return Ok(()) };
        let (run, by, status) = (self.before.id.clone(), self.before.lease_owner.clone(), self.before.status);
        if matches!(status, RunStatus::Paused | RunStatus::Queued) {
            return Err(Error::Stale(Stale::ClaimEnded { run, fence: fence.0, status }));
        }
        Err(Error::Stale(Stale::Overtaken { run, fence: fence.0, now: self.before.fence, by }))
    }

    /// Returns an error if the run has an owner and this is not its claim.
    pub(super) fn check_owner(&self, fence: Option<Fence>) -> Result<()> {
        self.check_fence(fence)?;
        match (&self.before.lease_owner, self.before.lease_expires_at) {
            (Some(by), Some(until)) if fence.is_none() => {
                Err(Error::Busy(Busy::Claimed { run: self.before.id.clone(), by: by.clone(), until }))
            }
            _ => Ok(()),
        }
    }

    /// Returns an error unless the run is running and this is the claim of its owner.
    pub(super) fn check_runs(&self, fence: Option<Fence>) -> Result<()> {
        self.check_owner(fence)?;
        if self.before.status == RunStatus::Running {
            return Ok(());
        }
        Err(Error::Conflict(Conflict::RunStands { run: self.before.id.clone(), status: self.before.status }))
    }

    /// Applies an event to the run. Returns false if the run has the status already. A final status also expires the
    /// pending gate and closes executions in flight.
    pub(crate) fn turn(&mut self, event: Event, act: &Attribution) -> Result<bool> {
        let previous = self.row.status;
        let Some(status) = rules::decide(&self.row.id, previous, event)? else { return Ok(false) };
        if let Some(reason) = act.reason.as_ref().filter(|_| !status.is_terminal()) {
            rules::bounded::<TOLD_BYTES_MAX>("reason", reason)?;
        }
        self.row = rules::turned(&self.row, status, self.now, self.lease);
        self.row.actor.clone_from(&act.actor);
        if status.is_terminal() {
            self.row.error.clone_from(&act.reason);
            let error = format!("its run was {status} while it was in flight");
            self.close_executions(&Closing { stop_reason: "run_ended", error: &error }, Left::ByAnyone)?;
            self.expire_gate()?;
        }
        let mut fields = self.fields();
        fields.insert("event".to_owned(), event.as_str().into());
        fields.insert("status".to_owned(), status.as_str().into());
        fields.insert("previousStatus".to_owned(), previous.as_str().into());
        fields.insert("phase".to_owned(), self.row.current_phase.as_str().into());
        fields.insert("actor".to_owned(), act.actor.clone().into());
        let reason = act.reason.as_deref().map(|reason| rules::clip(reason, TOLD_BYTES_MAX));
        fields.insert("reason".to_owned(), reason.into());
        self.tell("run", &fields)?;
        Ok(true)
    }

    /// Expires the pending gate, because it can no longer be answered.
    fn expire_gate(&mut self) -> Result<()> {
        if let Some(gate) = workflow_approvals::pending_of(self.tx, &self.row.id)? {
            workflow_approvals::resolve(self.tx, &gate.id, ApprovalStatus::Expired, None, None, self.now)?;
            self.tell_gate(&gate, ApprovalStatus::Expired, None)?;
        }
        Ok(())
    }

    /// Records the answer to the pending gate of this run.
    pub(crate) fn answer(
        &mut self,
        gate: &ApprovalId,
        status: ApprovalStatus,
        by: Option<&str>,
        response: Option<&str>,
    ) -> Result<()> {
        workflow_approvals::resolve(self.tx, gate, status, by, response, self.now)?;
        Ok(())
    }

    /// Closes executions of this run that are in flight, each with a log line, and returns their ids.
    pub(super) fn close_executions(&mut self, why: &Closing<'_>, left: Left) -> Result<Vec<ExecutionId>> {
        let (fence, mut closed, mut after) = (self.row.fence, Vec::new(), String::new());
        loop {
            let mut open = executions::in_flight(self.tx, &self.row.id, &after, PAGE_MAX)?;
            let Some(last) = open.last() else { return Ok(closed) };
            after.clone_from(&last.skill);
            open.retain(|execution| left == Left::ByAnyone || execution.fence < fence);
            for mut execution in open {
                self.close_execution(&mut execution, why)?;
                closed.push(execution.id);
            }
        }
    }

    fn close_execution(&mut self, execution: &mut ExecutionRow, why: &Closing<'_>) -> Result<()> {
        let end = EndRow {
            finished_at: self.now,
            success: false,
            error: Some(rules::clip(why.error, REASON_BYTES_MAX).to_owned()),
            turns: None,
            duration_ms: None,
            cost_picos: None,
            input_tokens: None,
            cache_creation_input_tokens: None,
            cache_read_input_tokens: None,
            output_tokens: None,
            api_duration_ms: None,
            stop_reason: Some(why.stop_reason.to_owned()),
        };
        executions::finish(self.tx, &execution.id, &end)?;
        count_end(self.tx, execution, &end)?;
        execution.end = Some(end);
        self.tell_execution(execution)
    }

    /// Merges a patch into the scratch, key by key.
    pub(super) fn merge(&mut self, patch: &BTreeMap<String, String>) -> Result<()> {
        let mut by = 0;
        for (key, value) in patch {
            by += workflow_run_scratch::put(self.tx, &self.row.id, key, value)?;
        }
        let grown = rules::grown("scratch", self.row.scratch_bytes, by, SCRATCH_BYTES_MAX)?;
        self.row.scratch_bytes = grown;
        Ok(())
    }

    /// Records the end of a phase in the history, and writes a log line about it.
    pub(super) fn complete_phase(&mut self, phase: &str, success: bool, summary: Option<&str>) -> Result<()> {
        let mut about = Map::new();
        if let Some(summary) = summary {
            about.insert("summary".to_owned(), summary.into());
        }
        self.add_phase(phase, success, about)?;
        let mut fields = self.fields();
        fields.insert("phase".to_owned(), phase.into());
        fields.insert("state".to_owned(), "completed".into());
        fields.insert("success".to_owned(), success.into());
        self.tell("phase", &fields)
    }

    /// Adds an entry to the history and makes its phase the current one.
    pub(super) fn add_phase(&mut self, phase: &str, success: bool, about: Map<String, Value>) -> Result<()> {
        let mut entry = Map::new();
        entry.insert("phase".to_owned(), phase.into());
        entry.insert("timestamp".to_owned(), self.now.to_string().into());
        entry.insert("success".to_owned(), success.into());
        entry.extend(about);
        let entry = Value::Object(entry).to_string();
        rules::bounded::<PHASE_ENTRY_BYTES_MAX>("an entry of the history", &entry)?;
        let by = i64::try_from(entry.len()).unwrap_or(i64::MAX);
        self.row.phases_bytes = rules::grown("phase_history", self.row.phases_bytes, by, PHASES_BYTES_MAX)?;
        workflow_run_phases::insert(self.tx, &self.row.id, self.row.phases, &entry)?;
        self.row.phases += 1;
        phase.clone_into(&mut self.row.current_phase);
        Ok(())
    }

    /// Returns the fields of every log line about this run.
    pub(super) fn fields(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        fields.insert("run".to_owned(), self.row.id.as_str().into());
        fields.insert("workflow".to_owned(), self.row.workflow_name.as_str().into());
        fields
    }

    /// Writes a log line about the run. Does nothing if the session of the run was deleted.
    pub(super) fn tell(&mut self, what: &str, fields: &Map<String, Value>) -> Result<()> {
        let Some(session) = self.row.session_id.clone() else { return Ok(()) };
        self.told.extend(tell_if_there(self.tx, &session, what, self.now, fields)?);
        Ok(())
    }

    /// Writes the row of the run. If the owner has no claim, the write renews the lease.
    pub(crate) fn done(mut self) -> Result<(RunRow, Vec<OutboxLine>)> {
        if self.row.status == RunStatus::Running && self.row.lease_owner.is_none() {
            self.row.lease_expires_at = Some(rules::later(self.now, self.lease));
        }
        if !table::put(self.tx, &self.before, &self.row)? {
            // The row is read in the same snapshot, so it cannot have changed.
            let run = self.before.id;
            return Err(Error::Conflict(Conflict::RunStands { run, status: self.before.status }));
        }
        Ok((self.row, self.told))
    }
}

/// Returns the quarter hour of a timestamp.
pub(super) fn bucket(at: Timestamp) -> Timestamp {
    let length = ROLLUP_MINUTES * 60 * 1_000_000;
    Timestamp::from_micros(at.as_micros() / length * length)
}

/// Counts the start of an execution.
pub(crate) fn count_start(tx: &mut Tx<'_>, row: &ExecutionRow) -> Result<()> {
    let more = RollupRow { started: 1, ..RollupRow::default() };
    Ok(execution_rollups::add(tx, bucket(row.started_at), rules::workflow_of(&row.skill), &row.id, &more)?)
}

/// Counts the end of an execution, in the quarter hour of its start.
pub(crate) fn count_end(tx: &mut Tx<'_>, row: &ExecutionRow, end: &EndRow) -> Result<()> {
    let outcome = rules::outcome(Some(end));
    let one = |of| u64::from(outcome == of);
    let more = RollupRow {
        started: 0,
        succeeded: one(ExecutionOutcome::Succeeded),
        failed: one(ExecutionOutcome::Failed),
        skipped: one(ExecutionOutcome::Skipped),
        deferred: one(ExecutionOutcome::Deferred),
        turns: end.turns.unwrap_or_default(),
        duration_ms: end.duration_ms.unwrap_or_default(),
        cost_picos: end.cost_picos.unwrap_or_default(),
        input_tokens: end.input_tokens.unwrap_or_default(),
        cache_creation_input_tokens: end.cache_creation_input_tokens.unwrap_or_default(),
        cache_read_input_tokens: end.cache_read_input_tokens.unwrap_or_default(),
        output_tokens: end.output_tokens.unwrap_or_default(),
    };
    Ok(execution_rollups::add(tx, bucket(row.started_at), rules::workflow_of(&row.skill), &row.id, &more)?)
}

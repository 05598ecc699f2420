//! Starting runs, the queue, and retries.
//!
//! The number of running runs is decided under one row that every start, admission, retry and resume writes first. A
//! paused run gives up its slot: if none is free when it is resumed, it is queued ahead of every run that has not
//! started. A run that is taken over from a dead owner keeps its slot.

use std::sync::Arc;

use duolog_join::{IdempotencyKey, OutboxLine, PlannedLog, Write};
use duolog_state::Tx;
use duolog_state::owned::workflow_runs::{self as table, QueuePlace, RunRow};
use duolog_state::owned::{sessions, workflow_approvals, workflow_overrides, workflow_queue, workflow_run_bodies};
use duolog_types::limits::{CONTEXT_BYTES_MAX, PAGE_MAX, RunLimits};
use duolog_types::mutant::{self, Mutant};
use duolog_types::{ApprovalStatus, HomeId, RunId, RunStatus, SessionId, Timestamp};
use serde_json::Map;

use super::change::{Changing, Closing, Left};
use super::model::{
    Admission, Admitted, Attribution, Expired, Fence, NewRun, RunSummary, Started, StatusChange, TakeFilter,
};
use super::rules::{self, Event, PhaseLabel};
use super::{RunHandle, Runs};
use crate::error::{Conflict, Error, Invalid, Result};
use crate::sessions::{NewSession, rules as session_rules};
use crate::store::Store;
use crate::workflows::{BaseWorkflows, is_enabled};

/// The reason for closing an execution whose claim has ended.
pub(super) const EARLIER: Closing<'static> = Closing { stop_reason: "stale", error: "stale: its claim has ended" };

impl Runs {
    /// Starts a run, or returns the active run of the same workflow and trigger.
    ///
    /// The run is running at once if there is a free slot that no queued run waits for; otherwise it is queued. A run
    /// with the same id and content is returned unchanged.
    ///
    /// # Errors
    ///
    /// Returns an error if the workflow is disabled, or if a run with the same id has other content.
    pub fn start(&self, new: &NewRun) -> Result<Started> {
        self.start_and(new, |_, _| Ok(()))
    }

    /// Starts a run, as [`Runs::start`] does, and does something more in the same transaction.
    pub(crate) fn start_and(
        &self,
        new: &NewRun,
        mut and: impl FnMut(&mut Tx<'_>, &Started) -> Result<()> + Send + 'static,
    ) -> Result<Started> {
        check(new)?;
        let join = &self.store.join;
        let (clock, limits, home) = (join.tx_clock(), join.limits().runs, join.home());
        let id = new.id.clone().unwrap_or_else(RunId::new);
        let planned = match &new.session_id {
            Some(_) => None,
            None => Some(join.plan(session_rules::plan(&own_session(new, &id), home, join.clock().now())?)?),
        };
        let (new, queue) = (new.clone(), Queue::of(&self.store));
        let start = move |tx: &mut Tx<'_>| {
            let now = clock.now(tx)?;
            if new.id.is_some()
                && let Some(row) = table::find(tx, &id)?
            {
                let context = workflow_run_bodies::context(tx, &id)?;
                if let Some(field) = other_field(&row, context.as_deref(), &new) {
                    return Err(Error::Conflict(Conflict::RunTaken { run: id.clone(), field }));
                }
                return Ok((Started { run: RunSummary::from(&row), existed: true, fence: None }, Vec::new()));
            }
            queue.refuse_disabled(tx, &new.workflow_name)?;
            if let Some(row) = table::find_active(tx, &new.workflow_name, &new.trigger_id)? {
                return Ok((Started { run: RunSummary::from(&row), existed: true, fence: None }, Vec::new()));
            }
            let session = session_of(tx, &new, planned.as_ref())?;
            let ord = workflow_queue::enter(tx)?;
            let begins = new.admission == Admission::IfFree && queue.has_slot(tx, now, SlotFor::Start)?;
            let row = run_row(&new, Beginning { id: id.clone(), home, session, begins, ord, now }, &limits);
            table::insert(tx, &row)?;
            workflow_run_bodies::insert(tx, &row.id, new.context.as_deref())?;
            let fence = row.lease_owner.as_ref().map(|_| Fence(row.fence));
            let started = Started { run: RunSummary::from(&row), existed: false, fence };
            Ok((started, told_start(tx, row, now, &limits)?))
        };
        self.store.transact(self.durability, move |tx| {
            let (started, told) = start(tx)?;
            and(tx, &started)?;
            Ok((started, told))
        })
    }

    /// Starts queued runs while slots are free, at most `limit` of them: resumed runs first, then oldest first.
    ///
    /// Runs that waited too long before their start are cancelled. Runs of disabled workflows stay queued. If an owner
    /// is given, the runs are claimed in the same transaction, and executions that an earlier claim left in flight are
    /// closed.
    pub fn admit(&self, owner: Option<&str>, limit: u32) -> Result<Admitted> {
        self.admit_some(owner, &TakeFilter { limit, ..TakeFilter::default() })
    }

    /// Starts queued runs of some workflows, the same as [`Runs::admit`]. Other runs keep their places.
    pub(super) fn admit_some(&self, owner: Option<&str>, filter: &TakeFilter) -> Result<Admitted> {
        let join = &self.store.join;
        let (clock, limits, owner) = (join.tx_clock(), join.limits().runs, owner.map(str::to_owned));
        rules::check_named("owner", owner.as_ref())?;
        let (filter, limit) = (filter.clone(), filter.limit.clamp(1, PAGE_MAX) as usize);
        // In most calls no run is queued; then nothing is written.
        if self.store.request_key()?.is_none() && join.state().read(|tx| table::queued(tx, None, 1))?.is_empty() {
            return Ok(Admitted::default());
        }
        let queue = Queue::of(&self.store);
        let admitted = self.store.transact(self.durability, move |tx| {
            workflow_queue::enter(tx)?;
            let now = clock.now(tx)?;
            let (mut done, mut told, mut after) = (Admitted::default(), Vec::new(), None);
            let mut free = queue.free(tx)?;
            'queue: loop {
                let waiting = table::queued(tx, after, PAGE_MAX)?;
                let Some(last) = waiting.last().and_then(|row| row.queued) else { break };
                for row in waiting {
                    if queue.is_disabled(tx, &row.workflow_name)? {
                        continue;
                    }
                    if queue.is_over(&row, now) {
                        let (row, lines) = queue.expire(tx, row, now)?;
                        told.extend(lines);
                        done.expired.push(RunSummary::from(&row));
                        continue;
                    }
                    if free == 0 || done.admitted.len() >= limit {
                        break 'queue;
                    }
                    if !filter.takes(&row.workflow_name) {
                        continue;
                    }
                    let mut run = Changing::of(tx, row, now, limits.lease);
                    run.turn(Event::Admit, &Attribution::default())?;
                    let fence = match &owner {
                        Some(owner) => Some(run.take_up(owner, limits.lease)?),
                        None => None,
                    };
                    let (row, lines) = run.done()?;
                    told.extend(lines);
                    done.admitted.push((RunSummary::from(&row), fence));
                    free -= 1;
                }
                after = Some(last);
            }
            Ok((done, told))
        })?;
        admitted.expired.iter().for_each(|run| self.store.core.observers.tell(run));
        Ok(admitted)
    }

    /// Returns the number of queued runs ahead of this one; `None` if it is not queued, or too far back to count.
    pub fn waiting_before(&self, run: &RunId) -> Result<Option<u32>> {
        let waiting = self.store.join.state().read(|tx| table::queued(tx, None, PAGE_MAX))?;
        let at = waiting.iter().position(|row| row.id == *run);
        Ok(at.and_then(|at| u32::try_from(at).ok()))
    }

    /// Ends expired waits: queued runs that have not started are cancelled, and runs at an expired gate fail. Queued
    /// runs of disabled workflows are kept.
    ///
    /// Each page of runs is one transaction, and all pages are processed. Under an operation id, a retry returns the
    /// pages that were processed and continues with the others.
    pub fn expire(&self) -> Result<Expired> {
        let (key, mut expired) = (self.store.request_key()?, Expired::default());
        for number in 0_u64.. {
            let (queued, gates) = self.expire_page(page_key(key.as_ref(), number))?;
            let is_last = queued.len().max(gates.len()) < PAGE_MAX as usize;
            let summaries = |ids: Vec<RunId>| ids.iter().map(|id| self.summary(id)).collect::<Result<Vec<_>>>();
            let page = Expired { queued: summaries(queued)?, gates: summaries(gates)? };
            page.queued.iter().chain(&page.gates).for_each(|run| self.store.core.observers.tell(run));
            expired.queued.extend(page.queued);
            expired.gates.extend(page.gates);
            if is_last {
                break;
            }
        }
        self.store.end_request();
        Ok(expired)
    }

    /// Ends a page of queued runs and a page of runs at a gate, and returns their ids.
    ///
    /// Only the ids are recorded as the result: the summaries of a whole page may exceed the size limit of a result.
    fn expire_page(&self, key: Option<IdempotencyKey>) -> Result<(Vec<RunId>, Vec<RunId>)> {
        let join = &self.store.join;
        let (clock, limits, queue) = (join.tx_clock(), join.limits().runs, Queue::of(&self.store));
        self.store.transact(Write::once(self.durability, key), move |tx| {
            let now = clock.now(tx)?;
            let (mut done, mut told, mut after) = ((Vec::new(), Vec::new()), Vec::new(), None);
            loop {
                let waiting = table::queued(tx, after, PAGE_MAX)?;
                let Some(last) = waiting.last().and_then(|row| row.queued) else { break };
                for row in waiting {
                    let is_full = done.0.len() >= PAGE_MAX as usize;
                    if is_full || !queue.is_over(&row, now) || queue.is_disabled(tx, &row.workflow_name)? {
                        continue;
                    }
                    let (row, lines) = queue.expire(tx, row, now)?;
                    told.extend(lines);
                    done.0.push(row.id);
                }
                after = Some(last);
            }
            for gate in workflow_approvals::overdue(tx, now, PAGE_MAX)? {
                let mut run = Changing::open(tx, &gate.workflow_run_id, now, limits.lease)?;
                run.fail_at_gate(&gate)?;
                let (row, lines) = run.done()?;
                told.extend(lines);
                done.1.push(row.id);
            }
            Ok((done, told))
        })
    }
}

/// Returns the key of a page of a request that has several pages. No run id contains a space.
pub(super) fn page_key(key: Option<&IdempotencyKey>, number: u64) -> Option<IdempotencyKey> {
    key.map(|key| if number == 0 { key.clone() } else { key.part(&format!("page {number}")) })
}

impl RunHandle {
    /// Retries a run that failed or was cancelled, at once or from the queue. Finished phases stay finished.
    ///
    /// Retries are counted separately, and the count of takeovers starts again.
    pub fn retry(&self, admission: Admission, act: &Attribution) -> Result<StatusChange> {
        rules::check_act(act)?;
        let (act, queue) = (act.clone(), Queue::of(&self.store));
        self.change(move |run| {
            if !matches!(run.row.status, RunStatus::Failed | RunStatus::Cancelled) {
                // It is active already, or cannot be retried.
                return run.turn(Event::Retry, &act);
            }
            queue.refuse_disabled(run.tx, &run.row.workflow_name)?;
            if let Some(other) = table::find_active(run.tx, &run.row.workflow_name, &run.row.trigger_id)? {
                return Err(Error::Conflict(Conflict::TriggerActive { run: run.row.id.clone(), other: other.id }));
            }
            let ord = workflow_queue::enter(run.tx)?;
            if admission == Admission::IfFree && queue.has_slot(run.tx, run.now, SlotFor::Start)? {
                run.turn(Event::Retry, &act)?;
            } else {
                run.turn(Event::RetryLater, &act)?;
                run.row.queued = Some(QueuePlace { is_resumed: false, ord, at: run.now });
            }
            run.row.retry_count += 1;
            run.row.restart_count = 0;
            Ok(true)
        })
    }

    /// Gives up the run's slot, as its owner: the run goes to the end of the queue.
    pub fn requeue(&self, act: &Attribution) -> Result<StatusChange> {
        rules::check_act(act)?;
        let (act, fence) = (act.clone(), self.fence);
        self.change(move |run| {
            // A repeated call finds the run queued; its claim ended with the slot.
            if run.row.status == RunStatus::Queued {
                return Ok(false);
            }
            run.check_owner(fence)?;
            let ord = workflow_queue::enter(run.tx)?;
            run.turn(Event::Requeue, &act)?;
            run.row.queued = Some(QueuePlace { is_resumed: false, ord, at: run.now });
            Ok(true)
        })
    }
}

impl Changing<'_, '_> {
    /// Claims the run for an owner.
    pub(super) fn claim(&mut self, owner: &str, lease: std::time::Duration) -> Fence {
        self.row.fence += 1;
        self.row.lease_owner = Some(owner.to_owned());
        self.row.lease_expires_at = Some(rules::later(self.now, lease));
        Fence(self.row.fence)
    }

    /// Claims a run that was just admitted, and closes executions that earlier claims left in flight.
    fn take_up(&mut self, owner: &str, lease: std::time::Duration) -> Result<Fence> {
        self.close_executions(&EARLIER, Left::ByEarlierClaims)?;
        let fence = self.claim(owner, lease);
        self.tell_claim("claim", None)?;
        Ok(fence)
    }

    /// Writes a log line about the new claim.
    pub(super) fn tell_claim(&mut self, event: &str, dead: Option<&str>) -> Result<()> {
        let mut fields = self.fields();
        fields.insert("event".to_owned(), event.into());
        fields.insert("status".to_owned(), self.row.status.as_str().into());
        fields.insert("leaseOwner".to_owned(), self.row.lease_owner.clone().into());
        fields.insert("previousLeaseOwner".to_owned(), dead.into());
        fields.insert("fence".to_owned(), self.row.fence.into());
        fields.insert("restarts".to_owned(), self.row.restart_count.into());
        self.tell("run", &fields)
    }

    /// Sets a run to failed because its gate was not answered in time.
    pub(crate) fn fail_at_gate(&mut self, gate: &workflow_approvals::Approval) -> Result<()> {
        let reason = Some(format!("gate {} was not answered in time", gate.gate));
        self.turn(Event::Fail, &Attribution { actor: None, reason }).map(drop)
    }

    /// Writes a log line about the status of a gate.
    pub(crate) fn tell_gate(
        &mut self,
        gate: &workflow_approvals::Approval,
        status: ApprovalStatus,
        by: Option<&str>,
    ) -> Result<()> {
        let mut fields = self.fields();
        fields.insert("approval".to_owned(), gate.id.as_str().into());
        fields.insert("gate".to_owned(), gate.gate.as_str().into());
        fields.insert("kind".to_owned(), gate.kind.as_str().into());
        fields.insert("status".to_owned(), status.as_str().into());
        fields.insert("respondedBy".to_owned(), by.into());
        self.tell("gate", &fields)
    }
}

/// Checks the fields of a new run that do not depend on the state.
pub(crate) fn check(new: &NewRun) -> Result<()> {
    rules::check_workflow(&new.workflow_name)?;
    rules::check_named("trigger_id", Some(&new.trigger_id))?;
    rules::check_named("owner", new.owner.as_ref())?;
    rules::check_named("repo", new.repo.as_ref())?;
    rules::check_named("triggered_by", new.triggered_by.as_ref())?;
    rules::check_named("owner of a claim", new.claimed_by.as_ref())?;
    new.phase.as_deref().map(PhaseLabel::parse).transpose()?;
    if let Some(context) = &new.context {
        rules::json::<CONTEXT_BYTES_MAX>("context", context)?;
    }
    if new.issue_number.is_some_and(|number| i64::try_from(number).is_err()) {
        return Err(Error::Invalid(Invalid::Value { what: "issue_number", why: "is too large".to_owned() }));
    }
    Ok(())
}

/// Returns the session for a run without one: named like the run, if that is a valid file name.
fn own_session(new: &NewRun, id: &RunId) -> NewSession {
    NewSession {
        id: SessionId::parse(id.as_str()).ok(),
        agent_name: Some(new.workflow_name.clone()),
        ..NewSession::default()
    }
}

/// Returns the session whose log gets the lines about a run; creates it if the run has none.
fn session_of(tx: &mut Tx<'_>, new: &NewRun, planned: Option<&PlannedLog>) -> Result<SessionId> {
    if let Some(planned) = planned {
        return planned.insert(tx).map(|row| row.id).map_err(|error| match &new.id {
            Some(id) if error.is_taken() => {
                let why =
                    format!("{id} is the id of a session; use another id, or set that session as the run's session");
                Error::Invalid(Invalid::Value { what: "id", why })
            }
            _ => error.into(),
        });
    }
    let session = new.session_id.clone().unwrap_or_else(SessionId::new);
    match sessions::find(tx, &session)?.filter(|row| row.deleted_at.is_none()) {
        Some(row) => Ok(row.id),
        None => Err(duolog_join::Error::NoSession(session).into()),
    }
}

/// The initial values of a run that are not in the request.
struct Beginning {
    id: RunId,
    home: HomeId,
    session: SessionId,
    begins: bool,
    ord: u64,
    now: Timestamp,
}

fn run_row(new: &NewRun, with: Beginning, limits: &RunLimits) -> RunRow {
    let Beginning { id, home, session, begins, ord, now } = with;
    let (owner, repo) = rules::split_repo(new.owner.as_deref(), new.repo.as_deref());
    let claimed_by = new.claimed_by.clone().filter(|_| begins);
    RunRow {
        id,
        home_id: home,
        workflow_name: new.workflow_name.clone(),
        trigger_type: new.trigger_type,
        trigger_id: new.trigger_id.clone(),
        owner,
        repo,
        issue_number: new.issue_number,
        current_phase: new.phase.clone().unwrap_or_default(),
        status: if begins { RunStatus::Running } else { RunStatus::Queued },
        queued: (!begins).then_some(QueuePlace { is_resumed: false, ord, at: now }),
        session_id: Some(session),
        error: None,
        fence: u64::from(claimed_by.is_some()),
        lease_owner: claimed_by,
        lease_expires_at: begins.then(|| rules::later(now, limits.lease)),
        restart_count: 0,
        restart_cap: new.restart_cap.unwrap_or(limits.restart_cap),
        retry_count: 0,
        triggered_by: new.triggered_by.clone(),
        actor: None,
        phases: 0,
        phases_bytes: 0,
        scratch_bytes: 0,
        nodes_bytes: 0,
        cost_picos: None,
        tokens: None,
        started_at: now,
        updated_at: now,
        finished_at: None,
    }
}

/// Writes a log line about the start of a run.
fn told_start(tx: &mut Tx<'_>, row: RunRow, now: Timestamp, limits: &RunLimits) -> Result<Vec<OutboxLine>> {
    let mut run = Changing::of(tx, row, now, limits.lease);
    let mut fields: Map<_, _> = run.fields();
    fields.insert("event".to_owned(), "start".into());
    fields.insert("status".to_owned(), run.row.status.as_str().into());
    fields.insert("triggerType".to_owned(), run.row.trigger_type.as_str().into());
    fields.insert("trigger".to_owned(), run.row.trigger_id.as_str().into());
    fields.insert("triggeredBy".to_owned(), run.row.triggered_by.clone().into());
    fields.insert("leaseOwner".to_owned(), run.row.lease_owner.clone().into());
    fields.insert("owner".to_owned(), run.row.owner.clone().into());
    fields.insert("repo".to_owned(), run.row.repo.clone().into());
    fields.insert("issue".to_owned(), run.row.issue_number.into());
    run.tell("run", &fields)?;
    Ok(run.told)
}

/// Returns the first field in which an existing run differs from the requested one.
fn other_field(row: &RunRow, context: Option<&str>, new: &NewRun) -> Option<&'static str> {
    let (owner, repo) = rules::split_repo(new.owner.as_deref(), new.repo.as_deref());
    let fields = [
        ("workflow", row.workflow_name == new.workflow_name),
        ("trigger", row.trigger_id == new.trigger_id && row.trigger_type == new.trigger_type),
        ("repository", row.owner == owner && row.repo == repo),
        ("issue", row.issue_number == new.issue_number),
        ("triggered_by", row.triggered_by == new.triggered_by),
        ("context", context == new.context.as_deref()),
        ("session", new.session_id.is_none() || row.session_id == new.session_id),
        ("restart_cap", new.restart_cap.is_none_or(|cap| cap == row.restart_cap)),
    ];
    fields.into_iter().find(|(_, is_equal)| !is_equal).map(|(field, _)| field)
}

/// The purpose of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotFor {
    /// A start or a retry: every queued run goes first.
    Start,
    /// A resume: only runs that were resumed earlier go first.
    Resume,
}

/// The rules of the queue.
#[derive(Clone)]
pub(crate) struct Queue {
    bases: Arc<BaseWorkflows>,
    limits: RunLimits,
}

impl Queue {
    pub(crate) fn of(store: &Store) -> Self {
        Self { bases: Arc::clone(&store.core.base_workflows), limits: store.join.limits().runs }
    }

    /// Resumes a paused run: it is running if a slot is free, and otherwise queued ahead of every run that has not
    /// started.
    pub(crate) fn resume(&self, run: &mut Changing<'_, '_>, act: &Attribution) -> Result<()> {
        let ord = workflow_queue::enter(run.tx)?;
        if mutant::is(Mutant::ResumeWithoutSlot) || self.has_slot(run.tx, run.now, SlotFor::Resume)? {
            return run.turn(Event::Resume, act).map(drop);
        }
        run.turn(Event::ResumeLater, act)?;
        run.row.queued = Some(QueuePlace { is_resumed: true, ord, at: run.now });
        Ok(())
    }

    /// Returns the number of free slots.
    fn free(&self, tx: &mut Tx<'_>) -> Result<u64> {
        Ok(u64::from(self.limits.max_running).saturating_sub(table::count_running(tx)?))
    }

    /// Returns true if there is a free slot that no queued run waits for.
    fn has_slot(&self, tx: &mut Tx<'_>, now: Timestamp, slot: SlotFor) -> Result<bool> {
        let (mut free, mut after) = (self.free(tx)?, None);
        while free > 0 {
            let waiting = table::queued(tx, after, PAGE_MAX)?;
            after = waiting.last().and_then(|row| row.queued);
            for row in &waiting {
                if slot == SlotFor::Resume && row.queued.is_some_and(|place| !place.is_resumed) {
                    // Resumed runs are first in the queue, so all of them were counted.
                    return Ok(free > 0);
                }
                if !self.is_over(row, now) && !self.is_disabled(tx, &row.workflow_name)? {
                    free = free.saturating_sub(1);
                }
            }
            if waiting.len() < PAGE_MAX as usize {
                break;
            }
        }
        Ok(free > 0)
    }

    fn is_disabled(&self, tx: &mut Tx<'_>, workflow: &str) -> Result<bool> {
        Ok(!is_enabled(&self.bases, workflow, workflow_overrides::find(tx, workflow)?.as_ref()))
    }

    fn refuse_disabled(&self, tx: &mut Tx<'_>, workflow: &str) -> Result<()> {
        let said = workflow_overrides::find(tx, workflow)?;
        if is_enabled(&self.bases, workflow, said.as_ref()) {
            return Ok(());
        }
        Err(Error::Conflict(Conflict::WorkflowDisabled {
            workflow: workflow.to_owned(),
            by: said.and_then(|said| said.updated_by),
        }))
    }

    /// Returns true if a run that has not started waited for too long. A resumed run never expires.
    fn is_over(&self, row: &RunRow, now: Timestamp) -> bool {
        let begins = row.queued.filter(|place| !place.is_resumed);
        begins.is_some_and(|place| rules::later(place.at, self.limits.queue_wait) <= now)
    }

    fn expire(&self, tx: &mut Tx<'_>, row: RunRow, now: Timestamp) -> Result<(RunRow, Vec<OutboxLine>)> {
        let reason = Some(format!("it waited for a slot for more than {} s", self.limits.queue_wait.as_secs()));
        let mut run = Changing::of(tx, row, now, self.limits.lease);
        run.turn(Event::Expire, &Attribution { actor: None, reason })?;
        run.done()
    }
}

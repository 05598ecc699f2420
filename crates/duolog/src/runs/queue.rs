//! Starting, waiting for a place, and starting again.
//!
//! How many run at once is decided under one row that whoever starts or admits a run writes first. A run that goes on
//! after a pause, or is taken over from a dead owner, had its place before and does not ask for another.

use std::sync::Arc;

use duolog_join::{PlannedLog, Told};
use duolog_state::Tx;
use duolog_state::owned::workflow_runs::{self as table, RunRow};
use duolog_state::owned::{sessions, workflow_approvals, workflow_overrides, workflow_queue, workflow_run_bodies};
use duolog_types::limits::{CONTEXT_BYTES_MAX, PAGE_MAX, RunLimits};
use duolog_types::{ApprovalStatus, HomeId, Moment, RunId, RunStatus, SessionId};
use serde_json::Map;

use super::change::Changing;
use super::model::{Act, Admission, Admitted, Expired, Fence, NewRun, RunSummary, Started, Turned};
use super::rules::{self, Event, PhaseLabel};
use super::{OpenRun, Runs};
use crate::error::{Error, Result};
use crate::sessions::{NewSession, rules as session_rules};
use crate::workflows::{BaseWorkflows, is_enabled};

impl Runs<'_> {
    /// Starts a run, or finds the active one of the same workflow and trigger.
    ///
    /// It begins at once if fewer run than may, and waits otherwise. A workflow that is switched off refuses.
    pub fn start(&self, new: &NewRun) -> Result<Started> {
        check(new)?;
        let join = &self.store.join;
        let (clock, limits, home) = (join.tx_clock(), join.limits().runs, join.home());
        let id = new.id.clone().unwrap_or_else(RunId::new);
        let planned = match &new.session_id {
            Some(_) => None,
            None => Some(join.plan(session_rules::plan(&own_session(new, &id), home, join.clock().now())?)?),
        };
        let (new, bases) = (new.clone(), Arc::clone(&self.store.base_workflows));
        self.store.transact(self.durability, move |tx| {
            let now = clock.now(tx)?;
            refuse_disabled(tx, &bases, &new.workflow_name)?;
            if let Some(row) = table::find_active(tx, &new.workflow_name, &new.trigger_id)? {
                return Ok((Started { run: RunSummary::from(&row), existed: true, fence: None }, Vec::new()));
            }
            let session = session_of(tx, &new, planned.as_ref())?;
            let ord = workflow_queue::enter(tx)?;
            let begins = new.admission == Admission::IfFree && has_place(tx, &bases, &limits)?;
            let row = run_row(&new, Beginning { id: id.clone(), home, session, begins, ord, now }, &limits);
            table::insert(tx, &row)?;
            workflow_run_bodies::insert(tx, &row.id, new.context.as_deref())?;
            let fence = row.lease_owner.as_ref().map(|_| Fence(row.fence));
            let started = Started { run: RunSummary::from(&row), existed: false, fence };
            Ok((started, told_start(tx, row, now, &limits)?))
        })
    }

    /// Lets runs begin that wait for a place, the first first, as long as there are places; at most `limit` of them.
    ///
    /// Those that waited too long are cancelled, and those of workflows that are switched off stay where they are. With
    /// an owner, what begins is claimed in the same step.
    pub fn admit(&self, owner: Option<&str>, limit: u32) -> Result<Admitted> {
        let join = &self.store.join;
        let (clock, limits, owner) = (join.tx_clock(), join.limits().runs, owner.map(str::to_owned));
        rules::check_named("owner", owner.as_ref())?;
        let limit = limit.clamp(1, PAGE_MAX) as usize;
        // Most looks find nobody waiting, and write nothing.
        if !self.store.has_request() && join.state().read(|tx| table::queued(tx, 0, 1))?.is_empty() {
            return Ok(Admitted::default());
        }
        let bases = Arc::clone(&self.store.base_workflows);
        let admitted = self.store.transact(self.durability, move |tx| {
            workflow_queue::enter(tx)?;
            let now = clock.now(tx)?;
            let (mut done, mut told, mut from) = (Admitted::default(), Vec::new(), 0);
            let mut free = u64::from(limits.at_once_max).saturating_sub(table::count_running(tx)?);
            'queue: loop {
                let waiting = table::queued(tx, from, PAGE_MAX)?;
                let Some((last, _)) = waiting.last().and_then(|row| row.queued) else { break };
                for row in waiting {
                    if is_over(&row, now, &limits) {
                        let (row, lines) = expire_queued(tx, row, now, &limits)?;
                        told.extend(lines);
                        done.expired.push(RunSummary::from(&row));
                        continue;
                    }
                    if free == 0 || done.admitted.len() >= limit {
                        break 'queue;
                    }
                    if is_disabled(tx, &bases, &row.workflow_name)? {
                        continue;
                    }
                    let mut run = Changing::of(tx, row, now, limits.lease);
                    run.turn(Event::Admit, &Act::default())?;
                    let fence = owner.as_ref().map(|owner| run.claim(owner, limits.lease));
                    let (row, lines) = run.done()?;
                    told.extend(lines);
                    done.admitted.push((RunSummary::from(&row), fence));
                    free -= 1;
                }
                from = last + 1;
            }
            Ok((done, told))
        })?;
        admitted.expired.iter().for_each(|run| self.store.observers.tell(run));
        Ok(admitted)
    }

    /// How many runs wait for a place before this one; nothing where it does not wait, or is not among the first of very
    /// many.
    pub fn waiting_before(&self, run: &RunId) -> Result<Option<u32>> {
        let waiting = self.store.join.state().read(|tx| table::queued(tx, 0, PAGE_MAX))?;
        let at = waiting.iter().position(|row| row.id == *run);
        Ok(at.and_then(|at| u32::try_from(at).ok()))
    }

    /// Ends what was waited for too long: runs in the queue, which are cancelled, and gates, whose runs fail.
    pub fn expire(&self) -> Result<Expired> {
        let join = &self.store.join;
        let (clock, limits) = (join.tx_clock(), join.limits().runs);
        let expired = self.store.transact(self.durability, move |tx| {
            let now = clock.now(tx)?;
            let (mut done, mut told) = (Expired::default(), Vec::new());
            for row in table::queued(tx, 0, PAGE_MAX)? {
                if !is_over(&row, now, &limits) {
                    break;
                }
                let (row, lines) = expire_queued(tx, row, now, &limits)?;
                told.extend(lines);
                done.queued.push(RunSummary::from(&row));
            }
            for gate in workflow_approvals::overdue(tx, now, PAGE_MAX)? {
                let mut run = Changing::open(tx, &gate.workflow_run_id, now, limits.lease)?;
                run.fail_at_gate(&gate)?;
                let (row, lines) = run.done()?;
                told.extend(lines);
                done.gates.push(RunSummary::from(&row));
            }
            Ok((done, told))
        })?;
        expired.queued.iter().chain(&expired.gates).for_each(|run| self.store.observers.tell(run));
        Ok(expired)
    }
}

impl OpenRun<'_> {
    /// Has a run that failed or was cancelled run again, at once or when there is a place. What it did stays done.
    ///
    /// It is a person's doing: it has a count of its own, and the run may be taken over as often as a new one.
    pub fn retry(&self, admission: Admission, act: &Act) -> Result<Turned> {
        rules::check_act(act)?;
        let (act, limits) = (act.clone(), self.store.join.limits().runs);
        let bases = Arc::clone(&self.store.base_workflows);
        self.change(move |run| {
            if !matches!(run.row.status, RunStatus::Failed | RunStatus::Cancelled) {
                // It is so already, or may not be.
                return run.turn(Event::Retry, &act);
            }
            refuse_disabled(run.tx, &bases, &run.row.workflow_name)?;
            if let Some(other) = table::find_active(run.tx, &run.row.workflow_name, &run.row.trigger_id)? {
                return Err(Error::TriggerActive { run: run.row.id.clone(), other: other.id });
            }
            let ord = workflow_queue::enter(run.tx)?;
            if admission == Admission::IfFree && has_place(run.tx, &bases, &limits)? {
                run.turn(Event::Retry, &act)?;
            } else {
                run.turn(Event::RetryLater, &act)?;
                run.row.queued = Some((ord, run.now));
            }
            run.row.retry_count += 1;
            run.row.restart_count = 0;
            Ok(true)
        })
    }

    /// Gives the run's place up, as its owner: it waits at the end of the queue.
    pub fn requeue(&self, act: &Act) -> Result<Turned> {
        rules::check_act(act)?;
        let (act, fence) = (act.clone(), self.fence);
        self.change(move |run| {
            run.check_owner(fence)?;
            let ord = workflow_queue::enter(run.tx)?;
            let changed = run.turn(Event::Requeue, &act)?;
            if changed {
                run.row.queued = Some((ord, run.now));
            }
            Ok(changed)
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

    /// Fails a run whose gate was not answered in time.
    pub(crate) fn fail_at_gate(&mut self, gate: &workflow_approvals::ApprovalRow) -> Result<()> {
        let reason = Some(format!("gate {} was not answered in time", gate.gate));
        self.tell_gate(gate, ApprovalStatus::Expired, None)?;
        self.turn(Event::Fail, &Act { actor: None, reason }).map(drop)
    }

    /// Has the run's log tell how a gate stands.
    pub(crate) fn tell_gate(
        &mut self,
        gate: &workflow_approvals::ApprovalRow,
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

fn check(new: &NewRun) -> Result<()> {
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
        return Err(Error::BadValue { what: "issue_number", why: "is larger than a row takes".to_owned() });
    }
    Ok(())
}

/// The session that a run gets which has none: called as the run is, where that can be the name of a file.
fn own_session(new: &NewRun, id: &RunId) -> NewSession {
    NewSession {
        id: SessionId::parse(id.as_str()).ok(),
        agent_name: Some(new.workflow_name.clone()),
        ..NewSession::default()
    }
}

/// The session whose log is to tell of a run, made where it has none.
fn session_of(tx: &mut Tx<'_>, new: &NewRun, planned: Option<&PlannedLog>) -> Result<SessionId> {
    if let Some(planned) = planned {
        return Ok(planned.insert(tx)?.id);
    }
    let session = new.session_id.clone().unwrap_or_else(SessionId::new);
    match sessions::find(tx, &session)?.filter(|row| row.deleted_at.is_none()) {
        Some(row) => Ok(row.id),
        None => Err(duolog_join::Error::NoSession(session).into()),
    }
}

/// What a run begins with, beside what was asked for.
struct Beginning {
    id: RunId,
    home: HomeId,
    session: SessionId,
    begins: bool,
    ord: u64,
    now: Moment,
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
        queued: (!begins).then_some((ord, now)),
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

/// Has the log tell how a run began.
fn told_start(tx: &mut Tx<'_>, row: RunRow, now: Moment, limits: &RunLimits) -> Result<Vec<Told>> {
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

/// Whether another run may begin: fewer run than may, and none that could begin waits.
fn has_place(tx: &mut Tx<'_>, bases: &BaseWorkflows, limits: &RunLimits) -> Result<bool> {
    if table::count_running(tx)? >= u64::from(limits.at_once_max) {
        return Ok(false);
    }
    for row in table::queued(tx, 0, PAGE_MAX)? {
        if !is_disabled(tx, bases, &row.workflow_name)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_disabled(tx: &mut Tx<'_>, bases: &BaseWorkflows, workflow: &str) -> Result<bool> {
    Ok(!is_enabled(bases, workflow, workflow_overrides::find(tx, workflow)?.as_ref()))
}

fn refuse_disabled(tx: &mut Tx<'_>, bases: &BaseWorkflows, workflow: &str) -> Result<()> {
    let said = workflow_overrides::find(tx, workflow)?;
    if is_enabled(bases, workflow, said.as_ref()) {
        return Ok(());
    }
    Err(Error::WorkflowDisabled { workflow: workflow.to_owned(), by: said.and_then(|said| said.updated_by) })
}

/// Whether a run waited for longer than it may.
fn is_over(row: &RunRow, now: Moment, limits: &RunLimits) -> bool {
    row.queued.is_some_and(|(_, since)| rules::later(since, limits.queue_wait) <= now)
}

fn expire_queued(tx: &mut Tx<'_>, row: RunRow, now: Moment, limits: &RunLimits) -> Result<(RunRow, Vec<Told>)> {
    let reason = Some(format!("it waited for a place for more than {} s", limits.queue_wait.as_secs()));
    let mut run = Changing::of(tx, row, now, limits.lease);
    run.turn(Event::Expire, &Act { actor: None, reason })?;
    run.done()
}

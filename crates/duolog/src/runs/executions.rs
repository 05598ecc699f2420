//! The ledger of executions: their ends, costs and last outputs.

use duolog_join::{OutboxLine, tell_if_there};
use duolog_log::{Blobs, Hold};
use duolog_state::owned::execution_bodies::{self, OutputRow};
use duolog_state::owned::executions::{self as table, EndRow, ExecutionRow};
use duolog_state::{ListId, PageToken, Tx};
use duolog_types::limits::{ERRORS_WALKED_MAX, OUTPUT_BYTES_MAX, PAGE_MAX, REASON_BYTES_MAX, SKILL_BYTES_MAX};
use duolog_types::mutant::{self, Mutant};
use duolog_types::{Durability, ExecutionId, HomeId, RunId, SessionId, Timestamp, TriggerType};
use serde_json::{Map, Value};
use std::io::Read as _;

use super::RunHandle;
use super::change::{Changing, TOLD_BYTES_MAX, count_end, count_start};
use super::model::{Begun, Ended, Ending, Execution, ExecutionList, Fence, Finish, NewExecution, Output};
use super::rules::{self, PhaseLabel};
use crate::error::{Conflict, Error, Invalid, NotFound, Result};
use crate::store::Store;

/// The handle for the ledger of executions.
#[derive(Clone)]
pub struct Executions {
    pub(super) store: Store,
    pub(super) durability: Durability,
    /// The run whose executions may be changed; `None` for all.
    pub(super) run: Option<RunId>,
}

impl RunHandle {
    /// Begins a phase, unless it is in flight or done. The check and the new execution are one transaction.
    pub fn begin(&self, phase: &str, session: Option<&SessionId>) -> Result<Begun> {
        PhaseLabel::parse(phase)?;
        let (run, fence, phase, session) = (self.run.clone(), self.fence, phase.to_owned(), session.cloned());
        let (clock, lease) = (self.store.join.tx_clock(), self.store.join.limits().runs.lease);
        let (home, id) = (self.store.join.home(), ExecutionId::new());
        self.store.transact(self.durability, move |tx| {
            let now = clock.now(tx)?;
            let mut run = Changing::open(tx, &run, now, lease)?;
            run.check_runs(fence)?;
            let skill = rules::skill(&run.row.workflow_name, &phase);
            match table::standing(run.tx, &run.row.id, &skill)? {
                Some((id, true)) => return Ok((Begun::Running(id), Vec::new())),
                Some((id, false)) => return Ok((Begun::Done(id), Vec::new())),
                None => {}
            }
            let mut row = execution_of(&run, &id, &skill, home);
            row.session_id = session.clone().or(row.session_id);
            table::insert(run.tx, &row)?;
            count_start(run.tx, &row)?;
            phase.clone_into(&mut run.row.current_phase);
            run.tell_execution(&row)?;
            let (_, told) = run.done()?;
            Ok((Begun::Started(Box::new(row.into())), told))
        })
    }

    /// Records that a phase is skipped, with the reason. A skipped phase is neither done nor failed, and can begin
    /// again after a resume.
    pub fn skip(&self, phase: &str, reason: Option<&str>) -> Result<Execution> {
        PhaseLabel::parse(phase)?;
        let (run, fence, phase) = (self.run.clone(), self.fence, phase.to_owned());
        // Only the log line stores the reason.
        reason.map_or(Ok(()), |reason| rules::bounded::<TOLD_BYTES_MAX>("reason", reason))?;
        let reason = reason.map(str::to_owned);
        let (clock, lease) = (self.store.join.tx_clock(), self.store.join.limits().runs.lease);
        let (home, id) = (self.store.join.home(), ExecutionId::new());
        self.store.transact(self.durability, move |tx| {
            let now = clock.now(tx)?;
            let mut run = Changing::open(tx, &run, now, lease)?;
            run.check_runs(fence)?;
            let skill = rules::skill(&run.row.workflow_name, &phase);
            let finish = Finish { stop_reason: Some("skipped".to_owned()), ..Finish::default() };
            let end = EndRow::from(&Ended { at: now, finish });
            let row = ExecutionRow { end: Some(end.clone()), ..execution_of(&run, &id, &skill, home) };
            table::insert(run.tx, &row)?;
            count_start(run.tx, &row)?;
            count_end(run.tx, &row, &end)?;
            let mut fields = run.fields();
            fields.insert("execution".to_owned(), id.as_str().into());
            fields.insert("phase".to_owned(), phase.as_str().into());
            fields.insert("state".to_owned(), "skipped".into());
            fields.insert("reason".to_owned(), reason.clone().into());
            run.tell("execution", &fields)?;
            let (_, told) = run.done()?;
            Ok((Execution::from(row), told))
        })
    }

    /// Returns a page of the run's executions, by phase and start time.
    pub fn executions(&self, limit: u32, after: Option<&PageToken>) -> Result<ExecutionList> {
        let (limit, of_list) = (limit.clamp(1, PAGE_MAX), ListId::of("executions", &[Some(self.run.as_str())]));
        Invalid::check_page(after, of_list)?;
        self.store.join.state().read(|tx| {
            let last = match after {
                Some(token) => Some(last_of_page(tx, &self.run, token)?),
                None => None,
            };
            let rows = table::of_run(tx, &self.run, last.as_ref(), limit + 1)?;
            Ok::<_, Error>(page(rows, of_list, limit))
        })
    }

    /// Sets the session of an execution of this run that is in flight.
    pub fn set_session(&self, execution: &ExecutionId, session: &SessionId) -> Result<Execution> {
        self.ledger().set_session(execution, session, self.fence)
    }

    /// Stores the last output of an execution of this run that is in flight.
    pub fn set_output(&self, execution: &ExecutionId, text: &str) -> Result<Output> {
        self.ledger().set_output(execution, text, self.fence)
    }

    /// Ends an execution of this run.
    pub fn end(&self, execution: &ExecutionId, ending: impl Into<Ending>) -> Result<Execution> {
        self.ledger().finish(execution, ending, self.fence)
    }

    /// Returns a ledger handle that changes only executions of this run.
    fn ledger(&self) -> Executions {
        Executions { store: self.store.clone(), durability: self.durability, run: Some(self.run.clone()) }
    }
}

impl Executions {
    /// Starts an execution without a run, such as a turn of a chat.
    ///
    /// An execution with the same id and content is returned unchanged.
    ///
    /// # Errors
    ///
    /// Returns an error if an execution with the same id has other content.
    pub fn start(&self, new: &NewExecution) -> Result<Execution> {
        rules::check_named("trigger_id", Some(&new.trigger_id))?;
        rules::check_named("repo", new.repo.as_ref())?;
        rules::check_named("owner", new.owner.as_ref())?;
        rules::check_named("triggered_by", new.triggered_by.as_ref())?;
        check_skill(&new.skill)?;
        let (clock, home) = (self.store.join.tx_clock(), self.store.join.home());
        let (owner, repo) = rules::split_repo(new.owner.as_deref(), new.repo.as_deref());
        let mut row = ExecutionRow {
            id: new.id.clone().unwrap_or_else(ExecutionId::new),
            home_id: home,
            trigger_type: new.trigger_type,
            trigger_id: new.trigger_id.clone(),
            skill: new.skill.clone(),
            owner,
            repo,
            issue_number: new.issue_number,
            started_at: self.store.join.clock().now(),
            workflow_run_id: None,
            triggered_by: new.triggered_by.clone(),
            fence: 0,
            session_id: new.session_id.clone(),
            end: None,
        };
        self.store.transact(self.durability, move |tx| {
            if let Some(there) = table::find(tx, &row.id)? {
                return match other_field(&there, &row) {
                    None => Ok((Execution::from(there), Vec::new())),
                    Some(field) => Err(Error::Conflict(Conflict::ExecutionTaken { execution: row.id.clone(), field })),
                };
            }
            let now = clock.now(tx)?;
            row.started_at = now;
            table::insert(tx, &row)?;
            count_start(tx, &row)?;
            let told = told_alone(tx, &row, now)?;
            Ok((Execution::from(row.clone()), told))
        })
    }

    /// Returns the execution with this id.
    pub fn get(&self, execution: &ExecutionId) -> Result<Execution> {
        let row = self.store.join.state().read(|tx| table::find(tx, execution))?;
        row.map(Execution::from).ok_or_else(|| Error::NotFound(NotFound::Execution(execution.clone())))
    }

    /// Returns the execution with this id, or the only one whose id starts with it.
    pub fn resolve(&self, text: &str) -> Result<ExecutionId> {
        let bad = |_| Error::Invalid(Invalid::Value { what: "execution id", why: format!("cannot be {text:?}") });
        let id = ExecutionId::parse(text).map_err(bad)?;
        let found = self.store.join.state().read(|tx| {
            let exact = table::find(tx, &id)?.map(|row| row.id);
            crate::resolve::resolve(tx, "execution", text, exact, table::starting_with)
        })?;
        found.ok_or(Error::NotFound(NotFound::Execution(id)))
    }

    /// Sets the session of an execution that is in flight.
    pub fn set_session(&self, execution: &ExecutionId, session: &SessionId, fence: Option<Fence>) -> Result<Execution> {
        self.change(execution, fence, Change { session_id: Some(session.clone()), ..Change::default() })
    }

    /// Stores the last output of an execution that is in flight. For a long text, the row has the end and a blob has
    /// all of it.
    pub fn set_output(&self, execution: &ExecutionId, text: &str, fence: Option<Fence>) -> Result<Output> {
        // The hold keeps the blob from being pruned until the row that refers to it is committed.
        let (row, _hold) = self.output_row(text)?;
        let output = Output::from(&row);
        self.change(execution, fence, Change { output: Some(row), ..Change::default() })?;
        Ok(output)
    }

    /// Returns the last output of an execution, at most 1 MiB of it; `None` if there is none.
    pub fn output(&self, execution: &ExecutionId) -> Result<Option<Output>> {
        let row = self.store.join.state().read(|tx| execution_bodies::find(tx, execution))?;
        Ok(row.as_ref().map(Output::from))
    }

    /// Returns the complete last output of an execution, from its blob if the row has only the end.
    pub fn full_output(&self, execution: &ExecutionId) -> Result<Option<String>> {
        let Some(row) = self.store.join.state().read(|tx| execution_bodies::find(tx, execution))? else {
            return Ok(None);
        };
        let Some((blob, home)) = row.blob else { return Ok(Some(row.text)) };
        let broken = |why: String| Error::Invalid(Invalid::Value { what: "output", why });
        if home != self.store.join.home() {
            return Err(broken(format!("is stored as blob {blob} in home {home}")));
        }
        let id = blob.parse().map_err(|_| broken(format!("is not the id of a blob: {blob}")))?;
        let mut text = String::new();
        let mut reader = Blobs::on(self.store.join.disk()).open(&id)?;
        reader.read_to_string(&mut text).map_err(|error| broken(format!("cannot be read from its blob: {error}")))?;
        Ok(Some(text))
    }

    /// Ends an execution that is in flight, and adds its usage to its run. The end, the output, the session and the
    /// entry in the history are one transaction. An execution that has ended is not changed.
    pub fn finish(
        &self,
        execution: &ExecutionId,
        ending: impl Into<Ending>,
        fence: Option<Fence>,
    ) -> Result<Execution> {
        let Ending { finish, output, summary, session_id } = ending.into();
        rules::check_finish(&finish)?;
        if let Some(summary) = &summary {
            rules::bounded::<REASON_BYTES_MAX>("summary", summary)?;
        }
        // The hold keeps the blob from being pruned until the row that refers to it is committed.
        let (output, _hold) = match output.as_deref().map(|text| self.output_row(text)).transpose()? {
            Some((output, hold)) => (Some(output), hold),
            None => (None, None),
        };
        let output = match output {
            Some(output) if mutant::is(Mutant::EndInTwoTransactions) => {
                let id = execution.clone();
                let put = move |tx: &mut Tx<'_>| Ok((execution_bodies::put(tx, &id, &output)?, Vec::new()));
                self.store.under(None).transact(self.durability, put)?;
                None
            }
            output => output,
        };
        self.change(execution, fence, Change { session_id, output, finish: Some(finish), summary })
    }

    /// Returns the last executions of a trigger, oldest first. The next page has earlier ones.
    pub fn of_trigger(
        &self,
        kind: TriggerType,
        trigger: &str,
        limit: u32,
        after: Option<&PageToken>,
    ) -> Result<ExecutionList> {
        let list = ListId::of("trigger executions", &[Some(kind.as_str()), Some(trigger)]);
        let (limit, after) = (limit.clamp(1, PAGE_MAX), after.map(|token| place(token, list)).transpose()?);
        let after = after.as_ref().map(|(at, id)| (*at, id));
        let rows = self.store.join.state().read(|tx| table::of_trigger(tx, kind, trigger, after, limit + 1))?;
        let mut page = page(rows, list, limit);
        page.executions.reverse();
        Ok(page)
    }

    /// Returns executions with an error whose error, skill or repository contains this text, ignoring case, newest
    /// first. One call examines a limited number of executions, so a page may be short.
    pub fn search_errors(&self, text: &str, limit: u32, after: Option<&PageToken>) -> Result<ExecutionList> {
        let (limit, lowered) = (limit.clamp(1, PAGE_MAX) as usize, text.to_lowercase());
        let list = ListId::of("errors", &[Some(&lowered)]);
        let mut at = after.map(|token| place(token, list)).transpose()?;
        self.store.join.state().read(|tx| {
            let (mut executions, mut walked) = (Vec::new(), 0);
            while walked < ERRORS_WALKED_MAX {
                let rows = table::with_error(tx, at.as_ref().map(|(at, id)| (*at, id)), PAGE_MAX)?;
                if rows.is_empty() {
                    return Ok(ExecutionList { executions, next: None });
                }
                for row in rows {
                    at = Some((row.started_at, row.id.clone()));
                    walked += 1;
                    let execution = Execution::from(row);
                    if rules::is_about(&execution, &lowered) {
                        executions.push(execution);
                    }
                    if executions.len() == limit {
                        walked = ERRORS_WALKED_MAX;
                        break;
                    }
                }
            }
            let next = at.map(|(at, id)| token(list, at, &id));
            Ok::<_, Error>(ExecutionList { executions, next })
        })
    }

    /// Returns the row of an output, and the hold on the blob of a long one.
    fn output_row(&self, text: &str) -> Result<(OutputRow, Option<Hold>)> {
        if text.contains('\0') {
            return Err(Error::Invalid(Invalid::Value { what: "output_text", why: "contains a NUL byte".to_owned() }));
        }
        let (blob, hold) = if text.len() > OUTPUT_BYTES_MAX {
            let (blob, hold) = self.keep_whole(text)?;
            (Some((blob, self.store.join.home())), Some(hold))
        } else {
            (None, None)
        };
        let text_kept = rules::tail(text, OUTPUT_BYTES_MAX).to_owned();
        Ok((OutputRow { text: text_kept, bytes: text.len() as u64, blob }, hold))
    }

    /// Stores a text as a blob, and holds it.
    fn keep_whole(&self, text: &str) -> Result<(String, Hold)> {
        let join = &self.store.join;
        let blobs = Blobs::on(join.disk());
        let hold = blobs.hold(join.limits().busy_timeout)?;
        // As durable as the row that will refer to it.
        let blob = blobs.put(&mut text.as_bytes(), Durability::Power)?;
        Ok((blob.to_string(), hold))
    }

    /// Changes an execution that is in flight. If it belongs to a run, the caller must be the owner of the run.
    fn change(&self, execution: &ExecutionId, fence: Option<Fence>, change: Change) -> Result<Execution> {
        let (execution, of_run) = (execution.clone(), self.run.clone());
        let (clock, lease) = (self.store.join.tx_clock(), self.store.join.limits().runs.lease);
        self.store.transact(self.durability, move |tx| {
            let now = clock.now(tx)?;
            let missing = || Error::NotFound(NotFound::Execution(execution.clone()));
            let mut row = table::find(tx, &execution)?.ok_or_else(missing)?;
            if of_run.is_some() && of_run != row.workflow_run_id {
                return Err(missing());
            }
            let Some(run) = row.workflow_run_id.clone() else {
                if change.summary.is_some() {
                    let why = "needs a run, and the execution has none".to_owned();
                    return Err(Error::Invalid(Invalid::Value { what: "summary", why }));
                }
                change.make(tx, &mut row, now)?;
                let told = if row.end.is_some() { told_alone(tx, &row, now)? } else { Vec::new() };
                return Ok((Execution::from(row), told));
            };
            let mut run = Changing::open(tx, &run, now, lease)?;
            // An overtaken owner gets that error first; any other caller is told that the execution has ended.
            run.check_fence(fence)?;
            check_open(&row)?;
            run.check_runs(fence)?;
            change.make(run.tx, &mut row, now)?;
            if let Some(end) = &row.end {
                run.row.cost_picos = rules::sum(run.row.cost_picos, end.cost_picos);
                run.row.tokens = rules::sum(run.row.tokens, rules::tokens(end));
                run.tell_execution(&row)?;
                if let Some(summary) = &change.summary {
                    run.complete_phase(rules::phase_of(&row.skill), end.success, Some(summary))?;
                }
            }
            let (_, told) = run.done()?;
            Ok((Execution::from(row), told))
        })
    }
}

/// A change of an execution.
#[derive(Default)]
struct Change {
    session_id: Option<SessionId>,
    output: Option<OutputRow>,
    finish: Option<Finish>,
    summary: Option<String>,
}

impl Change {
    /// Writes the change, unless the execution has ended.
    fn make(&self, tx: &mut Tx<'_>, row: &mut ExecutionRow, now: Timestamp) -> Result<()> {
        check_open(row)?;
        if let Some(session) = &self.session_id {
            table::set_session(tx, &row.id, session)?;
            row.session_id = Some(session.clone());
        }
        if let Some(output) = &self.output {
            execution_bodies::put(tx, &row.id, output)?;
        }
        if let Some(finish) = &self.finish {
            let end = EndRow::from(&Ended { at: now, finish: finish.clone() });
            if !table::finish(tx, &row.id, &end)? {
                let missing = || Error::NotFound(NotFound::Execution(row.id.clone()));
                let closed = table::find(tx, &row.id)?.ok_or_else(missing)?;
                return check_open(&closed);
            }
            count_end(tx, row, &end)?;
            row.end = Some(end);
        }
        Ok(())
    }
}

/// Returns an error if an execution has ended.
fn check_open(row: &ExecutionRow) -> Result<()> {
    let Some(end) = row.end.as_ref().filter(|_| !mutant::is(Mutant::ClosedExecutionsChange)) else { return Ok(()) };
    let (execution, outcome) = (row.id.clone(), rules::outcome(Some(end)));
    Err(Error::Conflict(Conflict::ExecutionClosed { execution, outcome, why: end.error.clone() }))
}

/// Writes a log line about an execution without a run, if it has a session.
fn told_alone(tx: &mut Tx<'_>, row: &ExecutionRow, now: Timestamp) -> Result<Vec<OutboxLine>> {
    let Some(session) = &row.session_id else { return Ok(Vec::new()) };
    Ok(tell_if_there(tx, session, "execution", now, &fields_of(row, Map::new()))?.into_iter().collect())
}

/// Returns the fields of a log line about an execution.
fn fields_of(row: &ExecutionRow, mut fields: Map<String, Value>) -> Map<String, Value> {
    fields.insert("execution".to_owned(), row.id.as_str().into());
    fields.insert("skill".to_owned(), row.skill.as_str().into());
    fields.insert("outcome".to_owned(), rules::outcome(row.end.as_ref()).as_str().into());
    fields.insert("session".to_owned(), row.session_id.as_ref().map(SessionId::as_str).into());
    let why = row.end.as_ref().and_then(|end| end.stop_reason.clone());
    fields.insert("stopReason".to_owned(), why.into());
    fields
}

/// Returns the place in this list at which a page ended.
fn place(token: &PageToken, list: ListId) -> Result<(Timestamp, ExecutionId)> {
    Invalid::check_page(Some(token), list)?;
    let id = ExecutionId::parse(token.key()).map_err(|_| Error::Invalid(Invalid::OtherPage(token.to_string())))?;
    Ok((token.at(), id))
}

/// Returns the last execution of a page. A token of another list is refused, not treated as the start.
fn last_of_page(tx: &mut Tx<'_>, run: &RunId, token: &PageToken) -> Result<ExecutionRow> {
    let other = || Error::Invalid(Invalid::OtherPage(token.to_string()));
    let id = ExecutionId::parse(token.key()).map_err(|_| other())?;
    let row = table::find(tx, &id)?.filter(|row| row.workflow_run_id.as_ref() == Some(run));
    row.ok_or_else(other)
}

/// Returns the first field in which an existing execution differs from the requested one.
fn other_field(there: &ExecutionRow, asked: &ExecutionRow) -> Option<&'static str> {
    let fields = [
        ("run", there.workflow_run_id == asked.workflow_run_id),
        ("trigger", there.trigger_type == asked.trigger_type && there.trigger_id == asked.trigger_id),
        ("skill", there.skill == asked.skill),
        ("repository", there.owner == asked.owner && there.repo == asked.repo),
        ("issue", there.issue_number == asked.issue_number),
        ("triggered_by", there.triggered_by == asked.triggered_by),
        ("session", asked.session_id.is_none() || there.session_id == asked.session_id),
    ];
    fields.into_iter().find(|(_, is_equal)| !is_equal).map(|(field, _)| field)
}

impl Changing<'_, '_> {
    /// Writes a log line about an execution of this run.
    pub(super) fn tell_execution(&mut self, row: &ExecutionRow) -> Result<()> {
        let fields = fields_of(row, self.fields());
        self.tell("execution", &fields)
    }
}

/// Returns a new execution of a phase of a run.
fn execution_of(run: &Changing<'_, '_>, id: &ExecutionId, skill: &str, home: HomeId) -> ExecutionRow {
    let row = &run.row;
    ExecutionRow {
        id: id.clone(),
        home_id: home,
        trigger_type: row.trigger_type,
        trigger_id: row.trigger_id.clone(),
        skill: skill.to_owned(),
        owner: row.owner.clone(),
        repo: row.repo.clone(),
        issue_number: row.issue_number,
        started_at: run.now,
        workflow_run_id: Some(row.id.clone()),
        triggered_by: row.triggered_by.clone(),
        fence: row.fence,
        // An execution without a session of its own is told by the log of its run, which may tell what it used.
        session_id: row.session_id.clone(),
        end: None,
    }
}

fn check_skill(skill: &str) -> Result<()> {
    rules::bounded::<SKILL_BYTES_MAX>("skill", skill)?;
    match skill.rsplit_once(':') {
        None if skill == "chat" => Ok(()),
        None => Err(Error::Invalid(Invalid::Value {
            what: "skill",
            why: format!("is {skill:?}; expected chat or workflow:phase"),
        })),
        Some((workflow, phase)) => {
            rules::check_workflow(workflow)?;
            PhaseLabel::parse(phase).map(drop)
        }
    }
}

fn page(mut rows: Vec<ExecutionRow>, list: ListId, limit: u32) -> ExecutionList {
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().filter(|_| more).map(|last| token(list, last.started_at, &last.id));
    ExecutionList { executions: rows.into_iter().map(Execution::from).collect(), next }
}

/// Returns the token of the page after an execution.
fn token(list: ListId, at: Timestamp, id: &ExecutionId) -> PageToken {
    PageToken::new(list, 0, at, id)
}

impl From<&OutputRow> for Output {
    fn from(row: &OutputRow) -> Self {
        let blob = row.blob.as_ref().map(|(blob, _)| blob.clone());
        Self { text: row.text.clone(), bytes: row.bytes, blob }
    }
}

//! The ledger: what was run, how it ended, what it cost and what it said last.

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

/// The ledger of executions.
#[derive(Clone)]
pub struct Executions {
    pub(super) store: Store,
    pub(super) durability: Durability,
    /// The run whose executions alone are changed; all where none is said.
    pub(super) run: Option<RunId>,
}

impl RunHandle {
    /// Begins to run a phase, unless it is being run or done: looked at and entered in the ledger in one step.
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

    /// Notes that a phase is left out, and why: it is neither done nor failed, and is asked for again on a resume.
    pub fn skip(&self, phase: &str, reason: Option<&str>) -> Result<Execution> {
        PhaseLabel::parse(phase)?;
        let (run, fence, phase) = (self.run.clone(), self.fence, phase.to_owned());
        // Only the log line holds it.
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

    /// The executions of the run, by phase and in the order they began: a page, from behind the token on.
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

    /// Keeps what an execution of this run said last, while it is in flight.
    pub fn set_output(&self, execution: &ExecutionId, text: &str) -> Result<Output> {
        self.ledger().set_output(execution, text, self.fence)
    }

    /// Ends an execution of this run, with all that is kept of it.
    pub fn end(&self, execution: &ExecutionId, ending: impl Into<Ending>) -> Result<Execution> {
        self.ledger().finish(execution, ending, self.fence)
    }

    /// The ledger, of which only what this run executed is changed.
    fn ledger(&self) -> Executions {
        Executions { store: self.store.clone(), durability: self.durability, run: Some(self.run.clone()) }
    }
}

impl Executions {
    /// Enters an execution that belongs to no run, such as a turn of a chat.
    ///
    /// One of the same id and content is returned as it is, and nothing changes; other content is an error.
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

    /// The execution with this id.
    pub fn get(&self, execution: &ExecutionId) -> Result<Execution> {
        let row = self.store.join.state().read(|tx| table::find(tx, execution))?;
        row.map(Execution::from).ok_or_else(|| Error::NotFound(NotFound::Execution(execution.clone())))
    }

    /// Returns the execution with this id, or the only one whose id begins so.
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

    /// Keeps what an execution that is in flight said last. Of a long text the row keeps the end, and a blob the whole.
    pub fn set_output(&self, execution: &ExecutionId, text: &str, fence: Option<Fence>) -> Result<Output> {
        // A blob is held until the row that names it is there: nobody removes it before.
        let (row, _hold) = self.output_row(text)?;
        let output = Output::from(&row);
        self.change(execution, fence, Change { output: Some(row), ..Change::default() })?;
        Ok(output)
    }

    /// What an execution said last, at most a mebibyte of it; nothing where nothing was kept.
    pub fn output(&self, execution: &ExecutionId) -> Result<Option<Output>> {
        let row = self.store.join.state().read(|tx| execution_bodies::find(tx, execution))?;
        Ok(row.as_ref().map(Output::from))
    }

    /// All that an execution said last, read from its blob where the row has only the end.
    pub fn whole_output(&self, execution: &ExecutionId) -> Result<Option<String>> {
        let Some(row) = self.store.join.state().read(|tx| execution_bodies::find(tx, execution))? else {
            return Ok(None);
        };
        let Some((blob, home)) = row.blob else { return Ok(Some(row.text)) };
        let broken = |why: String| Error::Invalid(Invalid::Value { what: "output", why });
        if home != self.store.join.home() {
            return Err(broken(format!("is kept as blob {blob} in home {home}")));
        }
        let id = blob.parse().map_err(|_| broken(format!("names no blob: {blob}")))?;
        let mut text = String::new();
        let mut reader = Blobs::on(self.store.join.disk()).open(&id)?;
        reader.read_to_string(&mut text).map_err(|error| broken(format!("cannot be read from its blob: {error}")))?;
        Ok(Some(text))
    }

    /// Ends an execution that is in flight, and adds what it used to its run: its end, its output, its session and the
    /// entry in the history in one transaction. One that is closed stays as it is.
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
        // A blob is held until the row that names it is there: nobody removes it before.
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

    /// The last executions that something set off, in the order they began. The next page has those before them.
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

    /// Executions that have an error and this text in it, in what they do or in their repository, newest first,
    /// whatever the case of its letters. One call looks at a bounded number; the page may then be short.
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

    /// What is kept of an output, and the hold on the blob of a long one.
    fn output_row(&self, text: &str) -> Result<(OutputRow, Option<Hold>)> {
        if text.contains('\0') {
            return Err(Error::Invalid(Invalid::Value { what: "output_text", why: "has a NUL byte in it".to_owned() }));
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

    /// Puts a text into a blob, and holds it.
    fn keep_whole(&self, text: &str) -> Result<(String, Hold)> {
        let join = &self.store.join;
        let blobs = Blobs::on(join.disk());
        let hold = blobs.hold(join.limits().busy_timeout)?;
        // As durable as the row that is to name it.
        let blob = blobs.put(&mut text.as_bytes(), Durability::Power)?;
        Ok((blob.to_string(), hold))
    }

    /// Changes an execution that is in flight, as the owner of its run if it has one.
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
                    let why = "goes into the history of a run, and the execution has none".to_owned();
                    return Err(Error::Invalid(Invalid::Value { what: "summary", why }));
                }
                change.make(tx, &mut row, now)?;
                let told = if row.end.is_some() { told_alone(tx, &row, now)? } else { Vec::new() };
                return Ok((Execution::from(row), told));
            };
            let mut run = Changing::open(tx, &run, now, lease)?;
            // An owner that was overtaken learns that first, and anybody else that the execution is closed.
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

/// What changes of an execution, in one step.
#[derive(Default)]
struct Change {
    session_id: Option<SessionId>,
    output: Option<OutputRow>,
    finish: Option<Finish>,
    summary: Option<String>,
}

impl Change {
    /// Writes it, unless the execution has ended.
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

/// Refuses an execution that has ended.
fn check_open(row: &ExecutionRow) -> Result<()> {
    let Some(end) = row.end.as_ref().filter(|_| !mutant::is(Mutant::ClosedExecutionsChange)) else { return Ok(()) };
    let (execution, outcome) = (row.id.clone(), rules::outcome(Some(end)));
    Err(Error::Conflict(Conflict::ExecutionClosed { execution, outcome, why: end.error.clone() }))
}

/// Has the session's log tell of an execution that belongs to no run, if it has a session.
fn told_alone(tx: &mut Tx<'_>, row: &ExecutionRow, now: Timestamp) -> Result<Vec<OutboxLine>> {
    let Some(session) = &row.session_id else { return Ok(Vec::new()) };
    Ok(tell_if_there(tx, session, "execution", now, &fields_of(row, Map::new()))?.into_iter().collect())
}

/// What a line about an execution says of it.
fn fields_of(row: &ExecutionRow, mut fields: Map<String, Value>) -> Map<String, Value> {
    fields.insert("execution".to_owned(), row.id.as_str().into());
    fields.insert("skill".to_owned(), row.skill.as_str().into());
    fields.insert("outcome".to_owned(), rules::outcome(row.end.as_ref()).as_str().into());
    fields.insert("session".to_owned(), row.session_id.as_ref().map(SessionId::as_str).into());
    let why = row.end.as_ref().and_then(|end| end.stop_reason.clone());
    fields.insert("stopReason".to_owned(), why.into());
    fields
}

/// The place that a page of this list ended at.
fn place(token: &PageToken, list: ListId) -> Result<(Timestamp, ExecutionId)> {
    Invalid::check_page(Some(token), list)?;
    let id = ExecutionId::parse(token.key()).map_err(|_| Error::Invalid(Invalid::OtherPage(token.to_string())))?;
    Ok((token.at(), id))
}

/// The execution that a page ended with. A token of another list is refused, not taken for the beginning.
fn last_of_page(tx: &mut Tx<'_>, run: &RunId, token: &PageToken) -> Result<ExecutionRow> {
    let other = || Error::Invalid(Invalid::OtherPage(token.to_string()));
    let id = ExecutionId::parse(token.key()).map_err(|_| other())?;
    let row = table::find(tx, &id)?.filter(|row| row.workflow_run_id.as_ref() == Some(run));
    row.ok_or_else(other)
}

/// The first field in which an execution differs from one that is to be started under its id.
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
    /// Has the run's log tell of an execution.
    pub(super) fn tell_execution(&mut self, row: &ExecutionRow) -> Result<()> {
        let fields = fields_of(row, self.fields());
        self.tell("execution", &fields)
    }
}

/// An execution of a phase of a run that begins now.
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
            why: format!("is {skill:?}, and not chat or workflow:phase"),
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

/// The token of the page that begins behind an execution.
fn token(list: ListId, at: Timestamp, id: &ExecutionId) -> PageToken {
    PageToken::new(list, 0, at, id)
}

impl From<&OutputRow> for Output {
    fn from(row: &OutputRow) -> Self {
        let blob = row.blob.as_ref().map(|(blob, _)| blob.clone());
        Self { text: row.text.clone(), bytes: row.bytes, blob }
    }
}

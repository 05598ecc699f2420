//! Inserting converted rows in a transaction: an existing row is compared, and a missing one is added.
//!
//! Data of unlimited size is read from the source database while it is written, and again if the transaction is
//! retried.

use std::sync::Arc;

use duolog_state::Tx;
use duolog_state::owned::cron_overrides::{self, CronOverrideRow};
use duolog_state::owned::executions::ExecutionRow;
use duolog_state::owned::messaging_deliveries;
use duolog_state::owned::messaging_messages::{self, ChatMessage, NewChatMessageRow};
use duolog_state::owned::messaging_sessions::{self, ChatRow};
use duolog_state::owned::workflow_overrides::{self, OverrideRow};
use duolog_state::owned::workflow_runs::{self, QueuePlace, RunRow};
use duolog_state::owned::{
    execution_bodies, executions, workflow_approvals, workflow_queue, workflow_run_bodies, workflow_run_nodes,
    workflow_run_phases, workflow_run_scratch,
};
use duolog_types::limits::{CHAT_DELIVERY_BYTES_MAX, PAGE_MAX};
use duolog_types::{HomeId, RunStatus, Timestamp};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::chats;
use super::model::{Counts, NoteList};
use super::runs::{self, MappedExecution, MappedRun, Parent, RunFacts};
use super::source::{Database, Order};
use crate::chats::delivery_bytes;
use crate::error::{Error, Invalid, Result};
use crate::runs::{count_end, count_start};

/// The source database, shared with the transaction.
pub(super) type SharedDatabase = Arc<Mutex<Database>>;

/// The result of importing one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ImportOutcome {
    /// It was added.
    New,
    /// It existed with the same content.
    Same,
}

/// A run to import, with the source to read its parts from again.
#[derive(Clone)]
pub(super) struct RunUnit {
    pub(super) run: MappedRun,
    pub(super) facts: RunFacts,
    pub(super) home: HomeId,
    pub(super) lent: SharedDatabase,
}

/// Returns the error for something that cannot be imported. It rolls back the run or chat that it belongs to.
pub(super) fn cannot(unit: impl Into<String>, why: impl Into<String>) -> Error {
    Error::Invalid(Invalid::Document { at: unit.into(), why: why.into() })
}

fn is_another(kind: &str, id: &str) -> Error {
    cannot(format!("{kind} {id}"), "already exists with other content: it was changed here or there, or is another one")
}

impl RunUnit {
    fn unit(&self) -> String {
        format!("run {}", self.run.row.id)
    }

    /// Passes on the converted executions of the run. Those that cannot be converted are noted.
    pub(super) fn each_execution(
        &self,
        notes: &mut NoteList,
        each: &mut dyn FnMut(MappedExecution) -> Result<()>,
    ) -> Result<()> {
        let row = &self.run.row;
        let ended = row.finished_at.map(|at| (at, row.status));
        self.lent.lock().executions(row.id.as_str(), &mut |source, overtaken| {
            let of = Parent::Run { run: &row.id, ended, overtaken };
            runs::execution(&source, of, self.home, notes).map_or(Ok(()), &mut *each)
        })
    }

    /// Passes on the converted gates of the run.
    pub(super) fn each_approval(
        &self,
        notes: &mut NoteList,
        each: &mut dyn FnMut(workflow_approvals::Approval) -> Result<()>,
    ) -> Result<()> {
        self.lent.lock().approvals(self.run.row.id.as_str(), &mut |source| {
            runs::approval(&source, &self.run, &self.facts, notes).map_or(Ok(()), &mut *each)
        })
    }

    /// Returns true if the run exists with all of its parts.
    ///
    /// # Errors
    ///
    /// Returns an error if another run has its id.
    pub(super) fn exists(&self, tx: &mut Tx<'_>) -> Result<bool> {
        let MappedRun { row, context, scratch, phases, nodes } = &self.run;
        let Some(found) = workflow_runs::find(tx, &row.id)? else { return Ok(false) };
        let is_same = is_same_run(&found, row)
            && workflow_run_bodies::context(tx, &row.id)? == *context
            && workflow_run_scratch::all(tx, &row.id)?.into_iter().eq(scratch.clone())
            && workflow_run_phases::all(tx, &row.id)? == *phases
            && workflow_run_nodes::all(tx, &row.id)?.into_iter().eq(nodes.clone());
        if !is_same {
            return Err(is_another("run", row.id.as_str()));
        }
        self.each_execution(&mut NoteList::again(), &mut |execution| {
            if execution_exists(tx, &execution)? { Ok(()) } else { Err(is_another("run", row.id.as_str())) }
        })?;
        self.each_approval(&mut NoteList::again(), &mut |gate| match workflow_approvals::find(tx, &gate.id)? {
            Some(found) if found == gate => Ok(()),
            _ => Err(is_another("run", row.id.as_str())),
        })?;
        Ok(true)
    }

    /// Adds the run with all of its parts, unless it exists.
    pub(super) fn keep(&self, tx: &mut Tx<'_>, now: Timestamp, restart_cap: u32) -> Result<ImportOutcome> {
        if self.exists(tx)? {
            return Ok(ImportOutcome::Same);
        }
        let mut row = self.run.row.clone();
        row.restart_cap = row.restart_count.max(restart_cap);
        if !row.status.is_terminal() {
            if let Some(active) = workflow_runs::find_active(tx, &row.workflow_name, &row.trigger_id)? {
                let why = format!("run {} of the same workflow and trigger is active", active.id);
                return Err(cannot(self.unit(), why));
            }
            // Serialises with transactions that count running runs.
            let ord = workflow_queue::enter(tx)?;
            // Its wait starts now: earlier time in the other queue does not count.
            row.queued = (row.status == RunStatus::Queued).then_some(QueuePlace { is_resumed: false, ord, at: now });
        }
        workflow_runs::insert(tx, &row)?;
        workflow_run_bodies::insert(tx, &row.id, self.run.context.as_deref())?;
        for (key, value) in &self.run.scratch {
            workflow_run_scratch::put(tx, &row.id, key, value)?;
        }
        for (ord, entry) in self.run.phases.iter().enumerate() {
            workflow_run_phases::insert(tx, &row.id, ord as u64, entry)?;
        }
        for (node, status) in &self.run.nodes {
            workflow_run_nodes::put(tx, &row.id, node, status)?;
        }
        self.each_execution(&mut NoteList::again(), &mut |execution| {
            if executions::find(tx, &execution.row.id)?.is_some() {
                return Err(is_another("execution", execution.row.id.as_str()));
            }
            add_execution(tx, &execution)
        })?;
        self.each_approval(&mut NoteList::again(), &mut |gate| {
            if workflow_approvals::find(tx, &gate.id)?.is_some() {
                return Err(is_another("gate", gate.id.as_str()));
            }
            Ok(workflow_approvals::insert(tx, &gate)?)
        })?;
        Ok(ImportOutcome::New)
    }
}

/// Returns true if two rows are the same unchanged run. The place in the queue, the maximum number of takeovers and the
/// importing home are not compared.
fn is_same_run(found: &RunRow, row: &RunRow) -> bool {
    let mut row = row.clone();
    row.home_id = found.home_id;
    row.restart_cap = found.restart_cap;
    row.queued = row.queued.and(found.queued);
    row == *found
}

/// Returns true if an execution exists.
///
/// # Errors
///
/// Returns an error if another execution has its id.
fn execution_exists(tx: &mut Tx<'_>, execution: &MappedExecution) -> Result<bool> {
    let Some(found) = executions::find(tx, &execution.row.id)? else { return Ok(false) };
    let row = ExecutionRow { home_id: found.home_id, ..execution.row.clone() };
    let said = execution_bodies::find(tx, &execution.row.id)?;
    let home = said.as_ref().and_then(|said| said.blob.as_ref()).map_or(execution.row.home_id, |(_, home)| *home);
    if found == row && said == execution.output.as_deref().map(|text| runs::output(text, home)) {
        return Ok(true);
    }
    Err(is_another("execution", execution.row.id.as_str()))
}

fn add_execution(tx: &mut Tx<'_>, execution: &MappedExecution) -> Result<()> {
    let row = &execution.row;
    executions::insert(tx, row)?;
    count_start(tx, row)?;
    if let Some(end) = &row.end {
        count_end(tx, row, end)?;
    }
    if let Some(text) = &execution.output {
        execution_bodies::put(tx, &row.id, &runs::output(text, row.home_id))?;
    }
    Ok(())
}

/// Adds executions without a run. An execution whose id is taken by another one is noted, and the others are added.
pub(super) fn keep_executions(tx: &mut Tx<'_>, executions: &[MappedExecution]) -> Result<(Counts, Counts, NoteList)> {
    let (mut new, mut same, mut errors) = (Counts::default(), Counts::default(), NoteList::default());
    for execution in executions {
        match execution_exists(tx, execution) {
            Ok(true) => same.executions += 1,
            Ok(false) => {
                add_execution(tx, execution)?;
                new.executions += 1;
            }
            Err(Error::Invalid(Invalid::Document { at, why })) => errors.note(&at, why),
            Err(other) => return Err(other),
        }
    }
    Ok((new, same, errors))
}

/// Adds the override of a schedule, unless it exists.
///
/// # Errors
///
/// Returns an error if the schedule has another override.
pub(super) fn keep_schedule(tx: &mut Tx<'_>, row: &CronOverrideRow) -> Result<ImportOutcome> {
    match cron_overrides::find(tx, &row.name)? {
        Some(found) if found == *row => Ok(ImportOutcome::Same),
        Some(_) => Err(is_another("schedule", &row.name)),
        None => cron_overrides::put(tx, row).map(|()| ImportOutcome::New).map_err(Error::from),
    }
}

/// Adds the override of a workflow, unless it exists.
///
/// # Errors
///
/// Returns an error if the workflow has another override.
pub(super) fn keep_workflow(tx: &mut Tx<'_>, row: &OverrideRow) -> Result<ImportOutcome> {
    match workflow_overrides::find(tx, &row.name)? {
        Some(found) if found == *row => Ok(ImportOutcome::Same),
        Some(_) => Err(is_another("workflow", &row.name)),
        None => workflow_overrides::put(tx, row).map(|()| ImportOutcome::New).map_err(Error::from),
    }
}

/// A chat to import, with the source to read its messages from again.
#[derive(Clone)]
pub(super) struct ChatUnit {
    pub(super) row: ChatRow,
    pub(super) lent: SharedDatabase,
}

/// The result of importing a chat: the number of messages, what was left out, and the errors.
#[derive(Serialize, Deserialize)]
pub(super) struct KeptChat {
    pub(super) kept: ImportOutcome,
    pub(super) messages: u64,
    pub(super) left_out: NoteList,
    pub(super) errors: NoteList,
}

impl ChatUnit {
    /// Adds the chat and its messages, unless it exists.
    ///
    /// # Errors
    ///
    /// Returns an error if another chat has its id.
    pub(super) fn keep(&self, tx: &mut Tx<'_>) -> Result<KeptChat> {
        let mut done = KeptChat {
            kept: ImportOutcome::Same,
            messages: 0,
            left_out: NoteList::default(),
            errors: NoteList::default(),
        };
        let Some(found) = messaging_sessions::find(tx, &self.row.id)? else {
            done.kept = ImportOutcome::New;
            self.add(tx, &mut done)?;
            return Ok(done);
        };
        // A chat that is no longer active is the same chat, and its messages are compared below.
        let (active, message_count) = (found.active, found.message_count);
        if found != (ChatRow { active, message_count, ..self.row.clone() }) {
            return Err(is_another("chat", self.row.id.as_str()));
        }
        self.compare(tx, &mut done)?;
        Ok(done)
    }

    fn add(&self, tx: &mut Tx<'_>, done: &mut KeptChat) -> Result<()> {
        let mut row = self.row.clone();
        if row.active
            && let Some(active) = messaging_sessions::find_active(tx, &row.place)?
        {
            let why = format!("is active, and so is chat {} of its conversation: imported as ended", active.id);
            done.left_out.note(&format!("chat {}", row.id), why);
            row.active = false;
        }
        messaging_sessions::insert(tx, &row)?;
        let KeptChat { messages, left_out, errors, .. } = done;
        self.each_message(Order::FirstFirst, left_out, errors, &mut |message, left_out| {
            if let Some(delivered) = &message.platform_message_id
                && messaging_messages::find_delivered(tx, &row.id, delivered)?.is_some()
            {
                left_out.note(&format!("chat {}", row.id), format!("message {delivered} was delivered again"));
                return Ok(());
            }
            messaging_sessions::count_message(tx, &row.id, row.last_activity_at)?;
            let id = messaging_messages::insert(tx, &message)?;
            // A source chat may contain a message twice; both are stored, and the platform id refers to the first.
            if let Some(delivered) = &message.platform_message_id
                && delivery_bytes(&row.place, delivered) <= CHAT_DELIVERY_BYTES_MAX
            {
                messaging_deliveries::claim(tx, &row.place, delivered, id)?;
            }
            *messages += 1;
            Ok(())
        })
    }

    /// Compares the messages of the source with the stored ones, newest first.
    fn compare(&self, tx: &mut Tx<'_>, done: &mut KeptChat) -> Result<()> {
        let mut ours = Newest { unit: self, before: None, rows: Vec::new().into_iter(), is_over: false };
        let mut next = ours.next(tx)?;
        let KeptChat { messages, left_out, errors, .. } = done;
        self.each_message(Order::LastFirst, left_out, errors, &mut |message, left_out| {
            if next.as_ref().is_some_and(|ours| is_same_message(ours, &message)) {
                *messages += 1;
                next = ours.next(tx)?;
                return Ok(());
            }
            // A message that was delivered again is stored once, where it came first.
            let delivered = match &message.platform_message_id {
                Some(delivered) => messaging_messages::find_delivered(tx, &self.row.id, delivered)?,
                None => None,
            };
            if delivered.is_none_or(|id| next.as_ref().is_some_and(|next| id > next.id)) {
                return Err(is_another("chat", self.row.id.as_str()));
            }
            let name = message.platform_message_id.as_deref().unwrap_or_default();
            left_out.note(&format!("chat {}", self.row.id), format!("message {name} was delivered again"));
            Ok(())
        })?;
        if next.is_some() { Err(is_another("chat", self.row.id.as_str())) } else { Ok(()) }
    }

    fn each_message(
        &self,
        order: Order,
        left_out: &mut NoteList,
        errors: &mut NoteList,
        each: &mut dyn FnMut(NewChatMessageRow, &mut NoteList) -> Result<()>,
    ) -> Result<()> {
        self.lent.lock().messages(self.row.id.as_str(), order, &mut |source| match chats::message(
            &source, &self.row, left_out,
        ) {
            Ok(message) => each(message, left_out),
            Err(why) => {
                errors.note(&format!("a message of chat {}", self.row.id), why);
                Ok(())
            }
        })
    }
}

/// The stored messages of a chat, newest first, read in pages.
struct Newest<'u> {
    unit: &'u ChatUnit,
    before: Option<i64>,
    rows: std::vec::IntoIter<ChatMessage>,
    is_over: bool,
}

impl Newest<'_> {
    fn next(&mut self, tx: &mut Tx<'_>) -> Result<Option<ChatMessage>> {
        if let Some(row) = self.rows.next() {
            return Ok(Some(row));
        }
        if self.is_over {
            return Ok(None);
        }
        let rows = messaging_messages::newest(tx, &self.unit.row.id, self.before, PAGE_MAX)?;
        self.is_over = rows.len() < PAGE_MAX as usize;
        self.before = rows.last().map(|row| row.id);
        self.rows = rows.into_iter();
        Ok(self.rows.next())
    }
}

fn is_same_message(ours: &ChatMessage, theirs: &NewChatMessageRow) -> bool {
    ours.role == theirs.role
        && ours.content == theirs.content
        && ours.timestamp == theirs.timestamp
        && ours.platform_message_id == theirs.platform_message_id
}

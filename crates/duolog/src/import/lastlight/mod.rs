//! Importing from Last Light: runs with their executions and gates, overrides of schedules and workflows, and chats.
//!
//! A run is imported with all of its parts in one transaction, and so is a chat. If something cannot be imported, it is
//! noted and the import continues. A repeated import changes nothing that exists with the same content. The source
//! database is not changed, and no table of it is loaded into memory as a whole.

mod chats;
mod keep;
mod model;
mod runs;
mod source;
mod switches;
mod taking;

use std::path::Path;
use std::sync::Arc;

use duolog_join::Error as JoinError;
use duolog_log::Blobs;
use duolog_state::{Error as StateError, Tx};
use duolog_types::Durability;
use duolog_types::limits::OUTPUT_BYTES_MAX;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use model::{Counts, ImportReport, Note, NoteList, Progress};

use super::bad;
use crate::error::{Error, Invalid, Result};
use crate::store::Store;
use keep::{ChatUnit, ImportOutcome, RunUnit, SharedDatabase};
use runs::{MappedExecution, Parent, RunFacts};
use source::Database;

/// The number of executions without a run that are added in one transaction.
const EXECUTIONS_AT_ONCE: usize = 200;
/// The bytes of output after which a transaction takes no more executions.
const OUTPUT_AT_ONCE_BYTES: usize = 4 * OUTPUT_BYTES_MAX;

/// Imports everything from a Last Light database that has an equivalent.
///
/// `progress` is called after each step.
///
/// # Errors
///
/// Returns an error if the import cannot continue for a reason that is independent of the data, such as a full disk. A
/// repeated import continues where it stopped.
pub fn import(
    store: &Store,
    path: &Path,
    durability: Durability,
    mut progress: impl FnMut(&Progress),
) -> Result<ImportReport> {
    let mut report = ImportReport::default();
    let database = Database::open(path, &store.home().cache, &mut report.left_out)?;
    let Some(database) = database else { return Err(bad(path, "it has no tables of Last Light")) };
    let progress_so_far = Progress { all: database.counts()?, ..Progress::default() };
    let lent = Arc::new(Mutex::new(database));
    let mut importing = Importing { store, lent, durability, report, so_far: progress_so_far, progress: &mut progress };
    importing.overrides()?;
    importing.runs()?;
    importing.lone_executions()?;
    importing.chats()?;
    importing.tell_lone()?;
    Ok(importing.report)
}

/// An import in progress.
struct Importing<'i> {
    store: &'i Store,
    lent: SharedDatabase,
    durability: Durability,
    report: ImportReport,
    so_far: Progress,
    progress: &'i mut dyn FnMut(&Progress),
}

impl Importing<'_> {
    fn step(&mut self, done: Counts) {
        self.so_far.done += done;
        (self.progress)(&self.so_far);
    }

    fn write<T: Serialize + DeserializeOwned + Send + 'static>(
        &self,
        mut f: impl FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.store.transact(self.durability, move |tx| Ok((f(tx)?, Vec::new())))
    }

    /// Handles the result of one unit: an error about its data is noted, and the import continues.
    fn settled<T>(&mut self, unit: &str, answer: Result<T>) -> Result<Option<T>> {
        match answer {
            Ok(done) => Ok(Some(done)),
            Err(Error::Invalid(Invalid::Document { at, why })) => {
                self.report.errors.note(&at, why);
                Ok(None)
            }
            Err(error) if is_about_a_row(&error) => {
                self.report.errors.note(unit, error.to_string());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn count(&mut self, kept: ImportOutcome, counts: Counts) {
        match kept {
            ImportOutcome::New => self.report.imported += counts,
            ImportOutcome::Same => self.report.unchanged += counts,
        }
    }

    fn overrides(&mut self) -> Result<()> {
        let lent = Arc::clone(&self.lent);
        lent.lock().schedules(&mut |source| {
            let unit = format!("schedule {}", source.name.text().unwrap_or_default());
            let kept = match switches::schedule(&source, &mut self.report.left_out) {
                Ok(row) => self.write(move |tx| keep::keep_schedule(tx, &row)),
                Err(why) => Err(Error::Invalid(Invalid::Document { at: unit.clone(), why })),
            };
            self.switched(&unit, kept, Counts { schedules: 1, ..Counts::default() })
        })?;
        lent.lock().workflows(&mut |source| {
            let unit = format!("workflow {}", source.name.text().unwrap_or_default());
            let kept = match switches::workflow(&source, &mut self.report.left_out) {
                Ok(row) => self.write(move |tx| keep::keep_workflow(tx, &row)),
                Err(why) => Err(Error::Invalid(Invalid::Document { at: unit.clone(), why })),
            };
            self.switched(&unit, kept, Counts { workflows: 1, ..Counts::default() })
        })
    }

    fn switched(&mut self, unit: &str, kept: Result<ImportOutcome>, counts: Counts) -> Result<()> {
        if let Some(kept) = self.settled(unit, kept)? {
            self.count(kept, counts);
        }
        self.step(counts);
        Ok(())
    }

    /// Queued runs come last, oldest first, so that they keep their order in the queue.
    fn runs(&mut self) -> Result<()> {
        let mut after = i64::MIN;
        loop {
            let numbers = self.lent.lock().unqueued(after)?;
            let Some(last) = numbers.last() else { break };
            after = *last;
            for number in numbers {
                self.run(number)?;
            }
        }
        let mut after = (String::new(), i64::MIN);
        loop {
            let numbers = self.lent.lock().queued(&after)?;
            let Some(last) = numbers.last() else { return Ok(()) };
            let source = self.lent.lock().run(*last)?;
            after = (source.and_then(|source| source.started_at.text().map(str::to_owned)).unwrap_or_default(), *last);
            for number in numbers {
                self.run(number)?;
            }
        }
    }

    fn run(&mut self, number: i64) -> Result<()> {
        let Some(source) = self.lent.lock().run(number)? else { return Ok(()) };
        let unit = format!("run {}", source.id.text().unwrap_or("without an id"));
        let home = self.store.join.home();
        let looked_at = self.lent.lock().of_run(&source.id)?;
        let mut counts = Counts { runs: 1, ..Counts::default() };
        let run = match runs::run(&source, home, &mut self.report.left_out) {
            Ok(run) => run,
            Err(why) => {
                self.report.errors.note(&unit, format!("{why}; nothing of it is imported"));
                self.step(looked_at);
                return Ok(());
            }
        };
        let mut unit = RunUnit { run, facts: RunFacts::default(), home, lent: Arc::clone(&self.lent) };
        let long = self.look(&mut unit, &mut counts)?;
        let exists = self.store.join.state().read(|tx| unit.exists(tx));
        let name = format!("run {}", unit.run.row.id);
        if let Some(exists) = self.settled(&name, exists)? {
            let kept = if exists { Ok(ImportOutcome::Same) } else { self.keep_run(unit, long) };
            if let Some(kept) = self.settled(&name, kept)? {
                self.count(kept, counts);
            }
        }
        self.step(looked_at);
        Ok(())
    }

    /// Checks all parts of a run, and notes what cannot be imported. Returns true if an execution has an output that
    /// needs a blob.
    fn look(&mut self, unit: &mut RunUnit, counts: &mut Counts) -> Result<bool> {
        let (mut facts, mut long) = (RunFacts::default(), false);
        let ImportReport { left_out, errors, .. } = &mut self.report;
        let (id, ended) = (unit.run.row.id.clone(), unit.run.row.finished_at.map(|at| (at, unit.run.row.status)));
        let database = self.lent.lock();
        database.executions(id.as_str(), &mut |source, overtaken| {
            match runs::execution(&source, Parent::Run { run: &id, ended, overtaken }, unit.home, left_out) {
                Ok(execution) => {
                    facts.see_execution(&execution.row);
                    long |= execution.output.is_some_and(|text| runs::needs_blob(&text));
                    counts.executions += 1;
                }
                Err(why) => errors.note(&format!("execution {}", source.id.text().unwrap_or("without an id")), why),
            }
            Ok::<_, StateError>(())
        })?;
        unit.run.settle(&facts);
        database.approvals(id.as_str(), &mut |source| {
            facts.see_approval(&source);
            Ok::<_, StateError>(())
        })?;
        database.approvals(id.as_str(), &mut |source| {
            match runs::approval(&source, &unit.run, &facts, left_out) {
                Ok(_) => counts.approvals += 1,
                Err(why) => errors.note(&format!("gate {}", source.id.text().unwrap_or("without an id")), why),
            }
            Ok::<_, StateError>(())
        })?;
        unit.facts = facts;
        Ok(long)
    }

    fn keep_run(&self, unit: RunUnit, long: bool) -> Result<ImportOutcome> {
        let join = &self.store.join;
        let blobs = Blobs::on(join.disk());
        // Held until the rows that refer to the blobs are committed, so that the blobs are not pruned.
        let _hold = if long { Some(blobs.hold(join.limits().busy_timeout)?) } else { None };
        if long {
            unit.each_execution(&mut NoteList::again(), &mut |execution| {
                put_long(&blobs, &execution)?;
                Ok(())
            })?;
        }
        let (now, restart_cap) = (join.clock().now(), join.limits().runs.restart_cap);
        self.write(move |tx| unit.keep(tx, now, restart_cap))
    }

    fn lone_executions(&mut self) -> Result<()> {
        let (home, lent) = (self.store.join.home(), Arc::clone(&self.lent));
        let (mut batch, mut bytes, mut rows) = (Vec::new(), 0, 0);
        lent.lock().lone_executions(&mut |source| {
            rows += 1;
            match runs::execution(&source, Parent::NoRun, home, &mut self.report.left_out) {
                Ok(execution) => {
                    bytes += execution.output.as_ref().map_or(0, String::len);
                    batch.push(execution);
                }
                Err(why) => {
                    let unit = format!("execution {}", source.id.text().unwrap_or("without an id"));
                    self.report.errors.note(&unit, why);
                }
            }
            if batch.len() >= EXECUTIONS_AT_ONCE || bytes >= OUTPUT_AT_ONCE_BYTES {
                bytes = 0;
                self.keep_lone(std::mem::take(&mut batch), std::mem::take(&mut rows))?;
            }
            Ok::<_, Error>(())
        })?;
        self.keep_lone(batch, rows)
    }

    /// Adds executions that were converted from this number of rows.
    fn keep_lone(&mut self, batch: Vec<MappedExecution>, rows: u64) -> Result<()> {
        let mut parts = vec![batch];
        while let Some(part) = parts.pop() {
            match self.keep_part(part.clone()) {
                // One of them violates a constraint; adding them one by one finds it.
                Err(error) if is_about_a_row(&error) && part.len() > 1 => {
                    parts.extend(part.into_iter().map(|one| vec![one]));
                }
                answer => {
                    let unit = part.first().map_or_else(String::new, |one| format!("execution {}", one.row.id));
                    let Some((new, same, errors)) = self.settled(&unit, answer)? else { continue };
                    self.report.imported += new;
                    self.report.unchanged += same;
                    self.report.errors.add(errors);
                }
            }
        }
        self.step(Counts { executions: rows, ..Counts::default() });
        Ok(())
    }

    fn keep_part(&self, part: Vec<MappedExecution>) -> Result<(Counts, Counts, NoteList)> {
        let join = &self.store.join;
        let is_long = |one: &MappedExecution| one.output.as_ref().is_some_and(|text| runs::needs_blob(text));
        let blobs = Blobs::on(join.disk());
        let long = part.iter().any(is_long);
        let _hold = if long { Some(blobs.hold(join.limits().busy_timeout)?) } else { None };
        for execution in part.iter().filter(|one| is_long(one)) {
            put_long(&blobs, execution)?;
        }
        self.write(move |tx| keep::keep_executions(tx, &part))
    }

    fn chats(&mut self) -> Result<()> {
        let mut after = i64::MIN;
        loop {
            let numbers = self.lent.lock().chats(after)?;
            let Some(last) = numbers.last() else { return Ok(()) };
            after = *last;
            for number in numbers {
                self.chat(number)?;
            }
        }
    }

    fn chat(&mut self, number: i64) -> Result<()> {
        let Some((source, overtaken)) = self.lent.lock().chat(number)? else { return Ok(()) };
        let unit = format!("chat {}", source.id.text().unwrap_or("without an id"));
        let looked_at = self.lent.lock().of_chat(&source.id)?;
        let kept = match chats::chat(&source, overtaken, &mut self.report.left_out) {
            Ok(row) => {
                let chat = ChatUnit { row, lent: Arc::clone(&self.lent) };
                self.write(move |tx| chat.keep(tx))
            }
            Err(why) => Err(Error::Invalid(Invalid::Document {
                at: unit.clone(),
                why: format!("{why}; nothing of it is imported"),
            })),
        };
        if let Some(kept) = self.settled(&unit, kept)? {
            self.count(kept.kept, Counts { chats: 1, messages: kept.messages, ..Counts::default() });
            self.report.left_out.add(kept.left_out);
            self.report.errors.add(kept.errors);
        }
        self.step(looked_at);
        Ok(())
    }

    /// Notes rows whose parent does not exist.
    fn tell_lone(&mut self) -> Result<()> {
        let approvals = self.lent.lock().lone_approvals()?;
        let messages = self.lent.lock().lone_messages()?;
        if approvals > 0 {
            self.report
                .errors
                .note("table workflow_approvals", format!("{approvals} gates refer to a run that does not exist"));
        }
        if messages > 0 {
            self.report
                .errors
                .note("table messaging_messages", format!("{messages} messages refer to a chat that does not exist"));
        }
        self.step(Counts { approvals, messages, ..Counts::default() });
        Ok(())
    }
}

/// Stores the complete output of an execution as a blob if its row cannot, as durable as the row that will refer to it.
fn put_long(blobs: &Blobs, execution: &MappedExecution) -> Result<()> {
    if let Some(text) = execution.output.as_ref().filter(|text| runs::needs_blob(text)) {
        blobs.put(&mut text.as_bytes(), Durability::Power)?;
    }
    Ok(())
}

/// Returns true if an error is about the data and not about the system.
fn is_about_a_row(error: &Error) -> bool {
    use StateError::{Constraint, Nul, OutOfRange};
    matches!(error.join(), Some(JoinError::State(Constraint { .. } | Nul | OutOfRange { .. })))
}

//! Marks: rows that say which sessions have log bytes that nobody has folded yet (R6).
//!
//! A mark is set before the first append of a burst, by and for this process. Only its owner deletes it, once the fold
//! has caught up and no append is under way; a dead owner's go to whoever folds.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use duolog_log::{Mend, MendKind, Recovery, Standing, Writer};
use duolog_state::Tx;
use duolog_state::owned::behind::{self, BehindRow};
use duolog_state::owned::outbox::OutboxKey;
use duolog_state::owned::repairs::{self, NewRepair, RepairAction};
use duolog_state::owned::{operations, sessions};
use duolog_types::{Durability, Epoch, Moment, Position, ProcessId, SessionId, mutant, mutant::Mutant};

use crate::error::{Error, Result};
use crate::life::Raised;
use crate::operation::SessionRecord;
use crate::store::{Join, Known, known};

/// A log that this process appends to.
pub(crate) struct OpenLog {
    pub(crate) session: SessionId,
    pub(crate) epoch: Epoch,
    pub(crate) writer: Writer,
    /// What the state knew when the log was opened; bytes above it are known to this writer alone.
    pub(crate) recorded_to: Position,
    mark: Mutex<Mark>,
    /// The lines about rows that this process wrote here and that wait for a sync to be forgotten, each with the end of
    /// the log after it.
    copied: Mutex<Vec<(Position, OutboxKey)>>,
}

struct Mark {
    set: bool,
    generation: u64,
    in_flight: u32,
}

/// An append under way: while there is one, the mark stays.
pub(crate) struct Flight<'o>(&'o OpenLog);

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.0.mark().in_flight -= 1;
    }
}

/// A mark of this process, by which its row is deleted.
#[derive(Clone, Copy)]
pub(crate) struct MarkId {
    pub(crate) process: ProcessId,
    pub(crate) generation: u64,
}

impl OpenLog {
    fn mark(&self) -> MutexGuard<'_, Mark> {
        self.mark.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lines about rows that were written here and are not forgotten yet.
    pub(crate) fn copied(&self) -> MutexGuard<'_, Vec<(Position, OutboxKey)>> {
        self.copied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes those out that a sync up to `synced` covers.
    pub(crate) fn take_copied(&self, synced: Position) -> Vec<(Position, OutboxKey)> {
        self.copied().extract_if(.., |(end, _)| *end <= synced).collect()
    }

    /// Takes back that a mark was lifted: its row was certainly not deleted.
    pub(crate) fn put_mark_back(&self, lifted: MarkId) {
        let mut mark = self.mark();
        // An append that came meanwhile has set a later one.
        if mark.generation == lifted.generation {
            mark.set = true;
        }
    }
}

impl Join {
    /// The log of a session, open for appending; the session is marked behind before anyone can append.
    pub(crate) fn open_log(&self, session: &SessionId) -> Result<Arc<OpenLog>> {
        if let Some(open) = self.open.get(session) {
            return Ok(open);
        }
        if !self.is_writable() {
            return Err(Error::ReadOnly);
        }
        self.process.announce()?;
        loop {
            // What is let go of here keeps no mark that only this process may delete.
            let idle = self.open.trim(1);
            let left = self.marks_of(&idle);
            let mark = self.new_mark(session);
            let (generation, home) = (mark.generation, self.home);
            let id = session.clone();
            let known = self.state.write(Durability::Process, move |tx| {
                let mut known = known(tx, &id)?;
                // A log of another home is refused below; a mark of ours would only mislead that home.
                if known.row.home_id == home {
                    set_mark(tx, &mark)?;
                    known.watermark.claimed_to = operations::claimed_to(tx, &id, known.row.log_epoch)?;
                }
                for row in &left {
                    behind::hand_over(tx, row)?;
                }
                Ok::<_, Error>(known)
            });
            let known = known.map_err(|error| {
                self.open.put_back(idle);
                error.of_session(session)
            })?;
            self.own(&known.row)?;
            if self.finish_unlink(&known)? {
                continue;
            }
            let opened = self.open_writer(&known).and_then(|(writer, recovery)| {
                self.note_recovery(session, known.row.log_epoch, &recovery, None).map(|same| (writer, same))
            });
            match opened {
                Ok((writer, true)) => {
                    let open = OpenLog {
                        session: session.clone(),
                        epoch: known.row.log_epoch,
                        writer,
                        recorded_to: known.watermark.recorded_to,
                        mark: Mutex::new(Mark { set: true, generation, in_flight: 0 }),
                        copied: Mutex::default(),
                    };
                    return Ok(self.open.keep(session.clone(), open));
                }
                // Another process changed what this session's log is, on purpose: look again.
                Ok((_, false)) | Err(Error::Log(duolog_log::Error::Replaced(_))) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Opens the writer of a log as the state knows it.
    pub(crate) fn open_writer(&self, known: &Known) -> Result<(Writer, Recovery)> {
        let record = Arc::new(self.record_of(known));
        Ok(Writer::open_recorded(&self.disk, &known.place(), &known.watermark, &self.limits, record)?)
    }

    /// What the state says of a log, for those who hold its lock.
    pub(crate) fn record_of(&self, known: &Known) -> SessionRecord {
        SessionRecord {
            state: self.state.clone(),
            session: known.row.id.clone(),
            path: known.row.log_path.clone(),
            epoch: known.row.log_epoch,
            line_bytes_max: self.limits.line_bytes_max,
        }
    }

    /// The marks of logs that are let go of, to be left to nobody.
    fn marks_of(&self, logs: &[Arc<OpenLog>]) -> Vec<BehindRow> {
        let set = |open: &Arc<OpenLog>| {
            let mark = open.mark();
            mark.set.then(|| BehindRow { generation: mark.generation, ..self.new_mark(&open.session) })
        };
        logs.iter().filter_map(set).collect()
    }

    /// Closes the logs that nobody uses any more, and leaves their marks to whoever folds next.
    pub(crate) fn close_idle(&self) -> Result<()> {
        let idle = self.open.trim(0);
        let closed = self.leave_to_nobody(self.marks_of(&idle));
        if closed.is_err() {
            self.open.put_back(idle);
        }
        closed
    }

    fn leave_to_nobody(&self, marks: Vec<BehindRow>) -> Result<()> {
        if marks.is_empty() {
            return Ok(());
        }
        self.write(Durability::Process, move |tx| {
            for row in &marks {
                behind::hand_over(tx, row)?;
            }
            Ok(())
        })
    }

    /// Announces an append: the session is marked, and stays so until the append is done.
    pub(crate) fn enter<'o>(&self, open: &'o OpenLog) -> Result<Flight<'o>> {
        let mut mark = open.mark();
        mark.in_flight += 1;
        let flight = Flight(open);
        let set = mark.set;
        drop(mark);
        if !set {
            let row = self.new_mark(&open.session);
            let generation = row.generation;
            let session = open.session.clone();
            self.write(Durability::Process, move |tx| {
                // It may be deleted by now, and has no log to be marked.
                known(tx, &session)?;
                Ok(set_mark(tx, &row)?)
            })
            .map_err(|error| error.of_session(&open.session))?;
            let mut mark = open.mark();
            mark.set = true;
            mark.generation = mark.generation.max(generation);
        }
        Ok(flight)
    }

    /// Deletes this process's mark, if the fold has caught up and nobody appends.
    pub(crate) fn settle(&self, open: &OpenLog, folded_to: Position) -> Result<bool> {
        let Some(MarkId { process, generation }) = self.lift_mark(open, folded_to) else { return Ok(false) };
        let session = open.session.clone();
        self.write(Durability::Process, move |tx| Ok(behind::clear(tx, &session, &process, generation)?))
    }

    /// Takes this process's mark off a log, if the fold has caught up and nobody appends; its row is the caller's to
    /// delete. An append that comes from now on sets a mark of a later generation, which that does not delete.
    pub(crate) fn lift_mark(&self, open: &OpenLog, folded_to: Position) -> Option<MarkId> {
        let mut mark = open.mark();
        if !mark.set || mark.in_flight > 0 || open.writer.written() > folded_to {
            return None;
        }
        mark.set = false;
        let lifted = MarkId { process: self.process.id(), generation: mark.generation };
        drop(mark);
        self.note_or_keep(open, None);
        Some(lifted)
    }

    /// Whether this process has a mark on a log it has open.
    pub(crate) fn is_marked(open: &OpenLog) -> bool {
        open.mark().set
    }

    /// Leaves the marks of this process to whoever folds next.
    pub(crate) fn hand_over(&self) -> Result<()> {
        let mut left = Vec::new();
        for open in self.open.all() {
            let mut mark = open.mark();
            if mark.set && mark.in_flight == 0 {
                mark.set = false;
                left.push(BehindRow { generation: mark.generation, ..self.new_mark(&open.session) });
            }
        }
        self.leave_to_nobody(left)
    }

    fn new_mark(&self, session: &SessionId) -> BehindRow {
        BehindRow {
            session_id: session.clone(),
            process_id: self.process.id(),
            home_id: self.home,
            generation: self.marks.fetch_add(1, Ordering::SeqCst) + 1,
            pid: std::process::id(),
            marked_at: self.clock.now(),
        }
    }

    /// Records what opening a log found. Where bytes that someone may have seen are gone, that is an error, once.
    ///
    /// Returns false if the log is another one because somebody asked for that: then it is to be opened anew.
    pub(crate) fn note_recovery(
        &self,
        session: &SessionId,
        epoch: Epoch,
        recovery: &Recovery,
        found: Option<String>,
    ) -> Result<bool> {
        if let Some(mend) = recovery.mend {
            self.note_mend(session, epoch, mend)?;
        }
        if recovery.standing == Standing::Same || mutant::is(Mutant::NoEpoch) {
            return Ok(true);
        }
        match self.note_change_as(session, epoch, recovery.standing, found)? {
            Raised::OnPurpose => Ok(false),
            Raised::To(epoch) => {
                Err(Error::LogChanged { session: session.clone(), standing: recovery.standing, epoch })
            }
        }
    }

    /// Records that a log is not what it was, and raises its epoch.
    pub(crate) fn note_change(&self, session: &SessionId, epoch: Epoch, standing: Standing) -> Result<Raised> {
        self.note_change_as(session, epoch, standing, None)
    }

    fn note_change_as(
        &self,
        session: &SessionId,
        epoch: Epoch,
        standing: Standing,
        detail: Option<String>,
    ) -> Result<Raised> {
        let (action, position) = match standing {
            Standing::Same => return Ok(Raised::OnPurpose),
            Standing::Missing => (RepairAction::Missing, Position::ZERO),
            Standing::Shorter(end) => (RepairAction::Shorter, end),
            Standing::Replaced => (RepairAction::Replaced, Position::ZERO),
        };
        let repair = NewRepair { detail, ..self.repair_row(session, epoch, action, position) };
        self.raise_epoch(session, epoch, repair)
    }

    /// Records what was done to a torn tail.
    pub(crate) fn note_mend(&self, session: &SessionId, epoch: Epoch, mend: Mend) -> Result<bool> {
        let action = match mend.kind {
            MendKind::Completed => RepairAction::Completed,
            MendKind::Quarantined => RepairAction::Quarantined,
            MendKind::Terminated => RepairAction::Terminated,
        };
        let mut repair = self.repair_row(session, epoch, action, mend.position);
        repair.bytes = mend.bytes;
        repair.hash = Some(mend.hash);
        self.write(Durability::Power, move |tx| Ok(repairs::note(tx, &repair)?))
    }

    /// Records a mend that an append came upon. The append stands whether or not that can be recorded now: a failure
    /// here must not look like one of the append, or a retry would double its lines.
    pub(crate) fn note_or_keep(&self, open: &OpenLog, mend: Option<Mend>) {
        for mend in open.writer.take_untold().into_iter().chain(mend) {
            if self.note_mend(&open.session, open.epoch, mend).is_err() {
                open.writer.keep_untold(mend);
            }
        }
    }

    pub(crate) fn repair_row(
        &self,
        session: &SessionId,
        epoch: Epoch,
        action: RepairAction,
        position: Position,
    ) -> NewRepair {
        NewRepair {
            session_id: session.clone(),
            home_id: self.home,
            epoch,
            action,
            position,
            bytes: 0,
            hash: None,
            detail: None,
            repaired_at: self.clock.now(),
        }
    }
}

fn set_mark(tx: &mut Tx<'_>, mark: &BehindRow) -> std::result::Result<(), duolog_state::Error> {
    behind::mark(tx, mark)?;
    let at: Moment = mark.marked_at;
    sessions::touch(tx, &mark.session_id, at)
}

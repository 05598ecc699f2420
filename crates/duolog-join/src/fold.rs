//! Folding: derived rows follow the log in steps. Each step is a commit that takes effect only if the rows are where
//! the step began.
//!
//! One commit takes a step of one log, or of many small ones. The bytes of each log are synced before rows name them
//! (R3).

use std::collections::HashMap;
use std::sync::Arc;

use duolog_log::{LogIdentity, Reader, SyncLog, Synced, sync_logs};
use duolog_state::derived::catalog::CatalogRow;
use duolog_state::derived::{digests, responses};
use duolog_state::owned::behind::{self, BehindRow};
use duolog_types::{Durability, Position, SessionId, mutant, mutant::Mutant};

use crate::error::{Error, Result};
use crate::marks::SeenMark;
use crate::project::Derived;
use crate::rows::empty_row;
use crate::seal::SealPlan;
use crate::step::{Step, StepPlan, StepResult};
use crate::store::{Join, Known};

/// The lines about usage that are settled together.
pub(crate) const SETTLED_MAX: usize = 1024;

/// The progress of the fold of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folded {
    /// The end of the bytes that derived rows cover.
    pub to: Position,
    /// The number of bytes in complete lines that they do not cover yet.
    pub behind: u64,
}

/// Additional work in the last commit of a fold.
#[derive(Clone)]
pub(crate) enum CommitExtras {
    /// Nothing.
    Nothing,
    /// It seals the folded bytes and deletes marks.
    Seals {
        /// This process's mark, read before the log was examined.
        own: Option<SeenMark>,
        /// The marks of ended processes, and marks without an owner.
        left: Vec<BehindRow>,
    },
}

impl CommitExtras {
    /// Returns a value with seals and no marks.
    pub(crate) const fn seals() -> Self {
        Self::Seals { own: None, left: Vec::new() }
    }
}

/// An open log that was compared with the recorded state.
pub(crate) struct OpenedLog {
    known: Known,
    reader: Reader,
    /// The end of the folded bytes.
    from: Position,
    /// The end of the log.
    pub(crate) end: Position,
    extras: CommitExtras,
}

impl OpenedLog {
    pub(crate) fn session(&self) -> &SessionId {
        &self.known.row.id
    }

    pub(crate) fn extras(&self) -> &CommitExtras {
        &self.extras
    }

    /// Returns the number of bytes to fold.
    pub(crate) fn bytes(&self) -> u64 {
        self.end.0.saturating_sub(self.from.0)
    }
}

/// The result of opening a log for a fold.
pub(crate) enum OpenOutcome {
    /// The log is open. It may have been folded completely.
    Ready(Box<OpenedLog>),
    /// The log has no file, and none is missing.
    Empty(CommitExtras),
    /// The log was replaced; lost bytes are recorded. The caller must try again.
    Again,
}

impl Join {
    /// Folds a session's log into its derived rows, about `budget` bytes at most.
    pub fn fold(&self, session: &SessionId, budget: u64) -> Result<Folded> {
        self.fold_known(self.known(session)?, budget, &CommitExtras::Nothing)
    }

    /// Folds a session's log and, if that reaches the end, seals the folded bytes in the same commit.
    pub(crate) fn fold_and_seal(&self, known: Known, budget: u64) -> Result<Folded> {
        self.fold_known(known, budget, &CommitExtras::seals())
    }

    /// Folds in steps, starting from the session's rows in `known`.
    pub(crate) fn fold_known(&self, known: Known, budget: u64, extras: &CommitExtras) -> Result<Folded> {
        let session = &known.row.id.clone();
        let (mut left, mut read) = (budget, Some(known));
        loop {
            let known = read.take().map_or_else(|| self.known(session), Ok)?;
            let base = known.row.log_base;
            let opened = match self.open_to_fold(known, extras.clone())? {
                OpenOutcome::Again => continue,
                OpenOutcome::Empty(extras) => {
                    self.delete_marks(session, extras)?;
                    return Ok(Folded { to: base, behind: 0 });
                }
                OpenOutcome::Ready(opened) => opened,
            };
            let (from, end) = (opened.from, opened.end);
            if end > from && left == 0 {
                return Ok(Folded { to: from, behind: end.0 - from.0 });
            }
            let advanced =
                self.advance(std::slice::from_ref(&*opened), left)?.pop().unwrap_or(Ok(StepResult::Overtaken));
            match advanced? {
                StepResult::To(to, end) => {
                    left = left.saturating_sub(to.0 - from.0);
                    if to >= end {
                        return Ok(Folded { to, behind: 0 });
                    }
                }
                StepResult::Overtaken => {}
                StepResult::Gone => return Err(Error::NoSession(session.clone())),
            }
        }
    }

    /// Opens a log and compares it with the recorded state. A loss is recorded here.
    pub(crate) fn open_to_fold(&self, known: Known, extras: CommitExtras) -> Result<OpenOutcome> {
        self.own(&known.row)?;
        let Some(reader) = known.reader(&self.disk)? else {
            if known.watermark.recorded_to > known.row.log_base && !mutant::is(Mutant::NoEpoch) {
                return self.note_loss(&known, LogIdentity::Missing).map(|()| OpenOutcome::Again);
            }
            return Ok(OpenOutcome::Empty(extras));
        };
        let from = known.catalog.as_ref().map_or(known.row.log_base, |row| row.position);
        let end = reader.stable_end(self.limits.busy_timeout)?;
        // A deletion raises the epoch and then unlinks the file, under the lock that `stable_end` waited for. Rows of
        // the new epoch must not describe the old file.
        if !reader.is_current()? {
            return Ok(OpenOutcome::Again);
        }
        let standing = self.standing(&known, &reader, end)?;
        if standing != LogIdentity::Same {
            return self.note_loss(&known, standing).map(|()| OpenOutcome::Again);
        }
        Ok(OpenOutcome::Ready(Box::new(OpenedLog { known, reader, from, end, extras })))
    }

    /// Takes the next step of each log, about `bytes` of each at most, in one commit. The failure of a log does not
    /// affect the others.
    pub(crate) fn advance(&self, logs: &[OpenedLog], bytes: u64) -> Result<Vec<Result<StepResult>>> {
        let bytes = bytes.min(self.limits.fold_batch_bytes);
        let (mut steps, mut planned) = (Vec::new(), Vec::new());
        for (opened, synced) in logs.iter().zip(self.sync_opened(logs)) {
            planned.push(synced.and_then(|synced| self.plan_step(opened, synced, bytes)).map(|(step, plan)| {
                steps.push(step);
                plan
            }));
        }
        let mut stepped = self.commit_steps(&Arc::new(steps), &planned)?.into_iter();
        let mut advanced = Vec::with_capacity(logs.len());
        for (opened, plan) in logs.iter().zip(planned) {
            let outcome = match plan {
                Ok(plan) => match stepped.next() {
                    Some(stepped) => stepped.and_then(|stepped| self.conclude(opened.session(), &plan, stepped)),
                    None => Ok(StepResult::Overtaken),
                },
                Err(error) => Err(error),
            };
            advanced.push(outcome);
        }
        Ok(advanced)
    }

    /// Syncs the bytes to fold: a checkpoint names a position, so the bytes below it must be on the device first (R3).
    fn sync_opened(&self, logs: &[OpenedLog]) -> Vec<Result<Option<Synced>>> {
        let to_sync = |opened: &OpenedLog| opened.end > opened.from;
        // The name of a file of which nothing was folded may not be durable. After a deletion of the log the row is
        // empty.
        let is_named = |known: &Known| known.catalog.as_ref().is_some_and(|row| row.position > known.row.log_base);
        let requests = logs.iter().filter(|opened| to_sync(opened));
        let requests = requests.map(|opened| SyncLog { reader: &opened.reader, with_name: !is_named(&opened.known) });
        let requests: Vec<SyncLog<'_>> = requests.collect();
        let mut synced = sync_logs(&requests, self.limits.busy_timeout).into_iter();
        let each = logs.iter().map(|opened| match to_sync(opened).then(|| synced.next()).flatten() {
            Some(synced) => Ok(Some(synced?)),
            None => Ok(None),
        });
        each.collect()
    }

    /// Folds the next synced lines of a log and plans its part of a commit.
    fn plan_step(&self, opened: &OpenedLog, synced: Option<Synced>, bytes: u64) -> Result<(Step, StepPlan)> {
        let OpenedLog { known, reader, from, end, extras } = opened;
        let session = &known.row.id;
        let rows = match synced {
            Some(synced) => {
                let rows = self.fold_lines(self.derived(known)?, reader, synced, bytes)?.rows();
                Some((known.catalog.as_ref().map(CatalogRow::checkpoint), rows))
            }
            None => None,
        };
        let to = rows.as_ref().map_or(*from, |(_, rows)| rows.catalog.position);
        let mut step =
            Step { session: session.clone(), rows, seals: None, marks: Vec::new(), synced_lines: Vec::new() };
        let mut plan = StepPlan { to, end: *end, sealed_to: None, own: None, copied: None };
        if let CommitExtras::Seals { own, left } = extras
            && to >= *end
        {
            // Without rows, nothing of the log is known to be synced.
            step.seals =
                if known.catalog.is_some() || step.rows.is_some() { self.plan_seals(known, reader, to)? } else { None };
            plan.sealed_to = step.seals.as_ref().map(SealPlan::to);
            step.marks.clone_from(left);
            if let Some(seen) = own {
                if let Some(open) = self.open.get(session) {
                    self.note_or_keep(&open, None);
                }
                let copied = seen.mark.take_copied(known.row.log_epoch, to);
                step.synced_lines = copied.iter().map(|line| line.key.clone()).collect();
                plan.copied = Some((Arc::clone(&seen.mark), copied));
                plan.own = seen.lift();
                step.marks.extend(plan.own.as_ref().map(|own| self.lifted_row(session, own)));
            }
        }
        Ok((step, plan))
    }

    /// Deletes the marks on a log without a file.
    pub(crate) fn delete_marks(&self, session: &SessionId, extras: CommitExtras) -> Result<()> {
        let CommitExtras::Seals { own, left } = extras else { return Ok(()) };
        let own = own.and_then(|seen| seen.lift());
        let mut marks = left;
        marks.extend(own.as_ref().map(|own| self.lifted_row(session, own)));
        if marks.is_empty() {
            return Ok(());
        }
        let id = session.clone();
        let deleted = self.write(Durability::Process, move |tx| {
            for mark in &marks {
                behind::clear(tx, &id, &mark.process_id, mark.generation)?;
            }
            Ok(())
        });
        if let (Some(own), Err(error)) = (&own, &deleted)
            && !error.is_unknown()
        {
            own.put_back();
        }
        deleted
    }

    /// Removes this process's mark on a deleted session, whose row was deleted with the session.
    pub(crate) fn forget_mark(&self, session: &SessionId) {
        if let Some(seen) = self.marks.seen(session) {
            seen.mark.note_gone();
        }
        if let Some(open) = self.open.get(session) {
            self.open.let_go(session, &open);
        }
        self.marks.forget_unused(session);
    }

    /// Returns the derived rows from which a fold continues.
    fn derived(&self, known: &Known) -> Result<Derived> {
        let Some(row) = &known.catalog else { return Ok(Derived::new(empty_row(known))) };
        let saved = self.state.read(|tx| digests::get(tx, &row.session_id))?;
        Ok(Derived::resume(row.clone(), saved.as_ref()))
    }

    /// Returns the derived rows after the next lines, about `bytes` of them. All bytes that are read here are synced.
    pub(crate) fn fold_lines(
        &self,
        mut derived: Derived,
        reader: &Reader,
        synced: Synced,
        bytes: u64,
    ) -> Result<Derived> {
        let from = derived.row.position;
        let mut lines = reader.lines(from, synced.position(), self.limits.line_bytes_max)?;
        while derived.row.position.0 - from.0 < bytes
            && let Some(item) = lines.next()?
        {
            derived.project(&item, self.limits.line_bytes_max);
            if derived.waiting() >= SETTLED_MAX {
                self.settle_usage(&mut derived)?;
            }
        }
        self.settle_usage(&mut derived)?;
        Ok(derived)
    }

    /// Counts the responses that belong to this session.
    fn settle_usage(&self, derived: &mut Derived) -> Result<()> {
        let keys = derived.unsettled();
        // Most steps have no line with a response; then there is no query.
        let owners =
            if keys.is_empty() { HashMap::new() } else { self.state.read(|tx| responses::owners(tx, &keys))? };
        derived.settle(&owners);
        Ok(())
    }

    /// Returns whether the log is still the one that the checkpoint describes.
    pub(crate) fn standing(&self, known: &Known, reader: &Reader, end: Position) -> Result<LogIdentity> {
        if mutant::is(Mutant::NoEpoch) {
            return Ok(LogIdentity::Same);
        }
        Ok(duolog_log::identify(reader, end, &known.watermark, self.limits.line_bytes_max)?)
    }
}

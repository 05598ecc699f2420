//! Folding: derived rows follow the log in steps, each a commit that takes effect only where the last one ended.
//!
//! One commit takes a step of one log, or of many small ones. The bytes of each log are synced before rows name them (R3).

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
use crate::step::{Advanced, Planned, Step};
use crate::store::{Join, Known};

/// The lines about usage that are settled together.
pub(crate) const SETTLED: usize = 1024;

/// How far the fold of one session came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folded {
    /// Up to where derived rows tell of the log.
    pub to: Position,
    /// How many bytes of whole lines they do not tell of yet.
    pub behind: u64,
}

/// What the commit with which a fold catches up does besides.
#[derive(Clone)]
pub(crate) enum Along {
    /// Nothing.
    Nothing,
    /// It seals what was folded and deletes marks.
    Seals {
        /// This process's mark, as it was before the log was looked at.
        own: Option<SeenMark>,
        /// The marks of processes that ended, and nobody's.
        left: Vec<BehindRow>,
    },
}

impl Along {
    /// Nothing but seals.
    pub(crate) const fn seals() -> Self {
        Self::Seals { own: None, left: Vec::new() }
    }
}

/// A log that is open and compared with what is known of it.
pub(crate) struct Begun {
    known: Known,
    reader: Reader,
    /// Where rows end.
    from: Position,
    /// Where the log ends.
    pub(crate) end: Position,
    along: Along,
}

impl Begun {
    pub(crate) fn session(&self) -> &SessionId {
        &self.known.row.id
    }

    pub(crate) fn along(&self) -> &Along {
        &self.along
    }

    /// How many bytes are to be folded.
    pub(crate) fn bytes(&self) -> u64 {
        self.end.0.saturating_sub(self.from.0)
    }
}

/// What looking at a log came to.
pub(crate) enum Begin {
    /// It can be folded, or has been.
    Ready(Box<Begun>),
    /// It has no file, and none is missing.
    Empty(Along),
    /// The log was another one, and it is recorded if bytes are gone. It is to be looked at again.
    Again,
}

impl Join {
    /// Folds a session's log into its derived rows, at most about `budget` bytes of it.
    pub fn fold(&self, session: &SessionId, budget: u64) -> Result<Folded> {
        self.fold_known(self.known(session)?, budget, &Along::Nothing)
    }

    /// Folds and, once it has caught up, seals what was folded, in one commit.
    pub(crate) fn fold_and_seal(&self, known: Known, budget: u64) -> Result<Folded> {
        self.fold_known(known, budget, &Along::seals())
    }

    /// Folds from what was just read of a session, step by step.
    pub(crate) fn fold_known(&self, known: Known, budget: u64, along: &Along) -> Result<Folded> {
        let session = &known.row.id.clone();
        let (mut left, mut read) = (budget, Some(known));
        loop {
            let known = read.take().map_or_else(|| self.known(session), Ok)?;
            let base = known.row.log_base;
            let begun = match self.begin(known, along.clone())? {
                Begin::Again => continue,
                Begin::Empty(along) => {
                    self.delete_marks(session, along)?;
                    return Ok(Folded { to: base, behind: 0 });
                }
                Begin::Ready(begun) => begun,
            };
            let (from, end) = (begun.from, begun.end);
            if end > from && left == 0 {
                return Ok(Folded { to: from, behind: end.0 - from.0 });
            }
            let advanced = self.advance(std::slice::from_ref(&*begun), left)?.pop().unwrap_or(Ok(Advanced::Overtaken));
            match advanced? {
                Advanced::To(to, end) => {
                    left = left.saturating_sub(to.0 - from.0);
                    if to >= end {
                        return Ok(Folded { to, behind: 0 });
                    }
                }
                Advanced::Overtaken => {}
                Advanced::Gone => return Err(Error::NoSession(session.clone())),
            }
        }
    }

    /// Opens a log and compares it with what is known of it. A loss is recorded here.
    pub(crate) fn begin(&self, known: Known, along: Along) -> Result<Begin> {
        self.own(&known.row)?;
        let Some(reader) = known.reader(&self.disk)? else {
            if known.watermark.recorded_to > known.row.log_base && !mutant::is(Mutant::NoEpoch) {
                return self.note_loss(&known, LogIdentity::Missing).map(|()| Begin::Again);
            }
            return Ok(Begin::Empty(along));
        };
        let from = known.catalog.as_ref().map_or(known.row.log_base, |row| row.position);
        let end = reader.stable_end(self.limits.busy_timeout)?;
        // A deletion raises the epoch and then unlinks, under the lock that the stable end waited for: rows of the new
        // epoch must not tell of the old file.
        if !reader.is_current()? {
            return Ok(Begin::Again);
        }
        let standing = self.standing(&known, &reader, end)?;
        if standing != LogIdentity::Same {
            return self.note_loss(&known, standing).map(|()| Begin::Again);
        }
        Ok(Begin::Ready(Box::new(Begun { known, reader, from, end, along })))
    }

    /// Takes the next step of each log, about `bytes` of it at most, in one commit. A log that fails holds up no other.
    pub(crate) fn advance(&self, logs: &[Begun], bytes: u64) -> Result<Vec<Result<Advanced>>> {
        let bytes = bytes.min(self.limits.fold_batch_bytes);
        let (mut steps, mut planned) = (Vec::new(), Vec::new());
        for (begun, synced) in logs.iter().zip(self.sync_begun(logs)) {
            planned.push(synced.and_then(|synced| self.plan_step(begun, synced, bytes)).map(|(step, plan)| {
                steps.push(step);
                plan
            }));
        }
        let mut stepped = self.commit_steps(&Arc::new(steps), &planned)?.into_iter();
        let mut advanced = Vec::with_capacity(logs.len());
        for (begun, plan) in logs.iter().zip(planned) {
            let outcome = match plan {
                Ok(plan) => match stepped.next() {
                    Some(stepped) => stepped.and_then(|stepped| self.conclude(begun.session(), &plan, stepped)),
                    None => Ok(Advanced::Overtaken),
                },
                Err(error) => Err(error),
            };
            advanced.push(outcome);
        }
        Ok(advanced)
    }

    /// Syncs what is about to be folded: a checkpoint names a position, so what is below it must be on the device first
    /// (R3).
    fn sync_begun(&self, logs: &[Begun]) -> Vec<Result<Option<Synced>>> {
        let to_sync = |begun: &Begun| begun.end > begun.from;
        // The name of a file of which nothing was folded may not be durable: a log that was deleted begins with an empty
        // row.
        let is_named = |known: &Known| known.catalog.as_ref().is_some_and(|row| row.position > known.row.log_base);
        let asked = logs.iter().filter(|begun| to_sync(begun));
        let asked = asked.map(|begun| SyncLog { reader: &begun.reader, with_name: !is_named(&begun.known) });
        let asked: Vec<SyncLog<'_>> = asked.collect();
        let mut synced = sync_logs(&asked, self.limits.busy_timeout).into_iter();
        let each = logs.iter().map(|begun| match to_sync(begun).then(|| synced.next()).flatten() {
            Some(synced) => Ok(Some(synced?)),
            None => Ok(None),
        });
        each.collect()
    }

    /// Folds the next lines of a log that is synced so far, and makes of them its part of a commit.
    fn plan_step(&self, begun: &Begun, synced: Option<Synced>, bytes: u64) -> Result<(Step, Planned)> {
        let Begun { known, reader, from, end, along } = begun;
        let session = &known.row.id;
        let rows = match synced {
            Some(synced) => {
                let rows = self.fold_lines(self.derived(known)?, reader, synced, bytes)?.rows();
                Some((known.catalog.as_ref().map(CatalogRow::checkpoint), rows))
            }
            None => None,
        };
        let to = rows.as_ref().map_or(*from, |(_, rows)| rows.catalog.position);
        let mut step = Step { session: session.clone(), rows, seals: None, marks: Vec::new(), told: Vec::new() };
        let mut plan = Planned { to, end: *end, sealed_to: None, own: None, copied: None };
        if let Along::Seals { own, left } = along
            && to >= *end
        {
            // Of a log without rows nothing is known to be synced.
            step.seals =
                if known.catalog.is_some() || step.rows.is_some() { self.plan_seals(known, reader, to)? } else { None };
            plan.sealed_to = step.seals.as_ref().map(SealPlan::to);
            step.marks.clone_from(left);
            if let Some(seen) = own {
                if let Some(open) = self.open.get(session) {
                    self.note_or_keep(&open, None);
                }
                let copied = seen.mark.take_copied(known.row.log_epoch, to);
                step.told = copied.iter().map(|line| line.key.clone()).collect();
                plan.copied = Some((Arc::clone(&seen.mark), copied));
                plan.own = seen.lift();
                step.marks.extend(plan.own.as_ref().map(|own| self.lifted_row(session, own)));
            }
        }
        Ok((step, plan))
    }

    /// Deletes the marks on a log that has no file.
    pub(crate) fn delete_marks(&self, session: &SessionId, along: Along) -> Result<()> {
        let Along::Seals { own, left } = along else { return Ok(()) };
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

    /// Forgets this process's mark on a session that was deleted: its row went with the session's.
    pub(crate) fn forget_mark(&self, session: &SessionId) {
        if let Some(seen) = self.marks.seen(session) {
            seen.mark.note_gone();
        }
        if let Some(open) = self.open.get(session) {
            self.open.let_go(session, &open);
        }
        self.marks.forget_unused(session);
    }

    /// The derived rows that a fold goes on from.
    fn derived(&self, known: &Known) -> Result<Derived> {
        let Some(row) = &known.catalog else { return Ok(Derived::new(empty_row(known))) };
        let remembered = self.state.read(|tx| digests::get(tx, &row.session_id))?;
        Ok(Derived::going_on(row.clone(), remembered.as_ref()))
    }

    /// Derived rows as they are after the next lines, about `bytes` of them. What is read here is synced.
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
            if derived.waiting() >= SETTLED {
                self.settle_usage(&mut derived)?;
            }
        }
        self.settle_usage(&mut derived)?;
        Ok(derived)
    }

    /// Counts the responses that no other session's claim holds against.
    fn settle_usage(&self, derived: &mut Derived) -> Result<()> {
        let keys = derived.unsettled();
        // Mostly no line tells of a response, and nobody is asked.
        let owners =
            if keys.is_empty() { HashMap::new() } else { self.state.read(|tx| responses::owners(tx, &keys))? };
        derived.settle(&owners);
        Ok(())
    }

    /// Whether the log is still the one that the checkpoint tells of.
    pub(crate) fn standing(&self, known: &Known, reader: &Reader, end: Position) -> Result<LogIdentity> {
        if mutant::is(Mutant::NoEpoch) {
            return Ok(LogIdentity::Same);
        }
        Ok(duolog_log::standing(reader, end, &known.watermark, self.limits.line_bytes_max)?)
    }
}

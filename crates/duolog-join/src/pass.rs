//! Folding marked sessions: many small logs in one commit, large ones alone, and some are left behind.

use std::collections::HashMap;

use duolog_log::Error as LogError;
use duolog_state::owned::behind::{self, BehindRow};
use duolog_types::limits::{FOLD_BATCH_SESSIONS, FOLD_STEP_SESSIONS};
use duolog_types::{ProcessId, SessionId, mutant, mutant::Mutant};

use crate::catch_up::{CatchingUp, CaughtUp, FoldBound, PAGE};
use crate::error::{Error, Result};
use crate::fold::{CommitExtras, OpenOutcome, OpenedLog};
use crate::marks::has_no_owner;
use crate::process::ProcessState;
use crate::step::StepResult;
use crate::store::{Join, Known, known};

/// The number of bytes after which a fold with a deadline checks the clock before each session.
const STEP_BYTES: u64 = 1 << 20;

/// The marks that a fold handles.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum MarkOwners {
    /// The marks of all processes.
    All,
    /// All marks except those of other living processes, which fold for themselves.
    OwnAndDead,
}

/// A marked session, with its marks.
pub(crate) type Marked = (SessionId, Vec<BehindRow>);

/// A running fold of many sessions.
pub(crate) struct Pass<'b, 't> {
    bound: &'b FoldBound<'t>,
    /// The number of bytes that may still be folded.
    left: u64,
    pub(crate) caught_up: CaughtUp,
    owners: HashMap<ProcessId, ProcessState>,
}

impl Join {
    /// Folds the marked sessions of this home. Returns what is left, and how many more bytes may be folded.
    pub(crate) fn fold_marked(&self, bound: &mut FoldBound<'_>, owners: MarkOwners) -> Result<(CaughtUp, u64)> {
        let home = self.home;
        let mut tell = bound.tell.take();
        let mut progress = CatchingUp { sessions: 0, of_sessions: 0 };
        if tell.is_some() {
            progress.of_sessions = self.state.read(|tx| behind::sessions(tx, &home, None))?;
        }
        let mut pass = Pass::new(bound);
        let mut after: Option<(SessionId, ProcessId)> = None;
        loop {
            let from = after.as_ref().map(|(session, process)| (session, process));
            let marks = self.state.read(|tx| behind::of_home(tx, &home, from, PAGE))?;
            let is_last = marks.len() < PAGE as usize;
            let Some(last) = marks.last() else { break };
            after = Some((last.session_id.clone(), last.process_id));
            let mut marked = by_session(marks);
            if owners == MarkOwners::OwnAndDead {
                marked = self.without_others(marked, &mut pass)?;
            }
            for part in marked.chunks(pass.step()) {
                self.fold_part(part, &mut pass)?;
                progress.sessions += part.len() as u64;
                if let Some(tell) = &mut tell {
                    tell(progress);
                }
                let Some((last, _)) = part.last().filter(|_| pass.bound.is_over()) else { continue };
                pass.caught_up.sessions_behind += self.state.read(|tx| behind::sessions(tx, &home, Some(last)))?;
                return Ok((pass.caught_up, 0));
            }
            if is_last {
                break;
            }
        }
        Ok((pass.caught_up, pass.left))
    }

    /// Removes the sessions that only other living processes have marked.
    fn without_others(&self, marked: Vec<Marked>, pass: &mut Pass<'_, '_>) -> Result<Vec<Marked>> {
        let mut ours = Vec::new();
        for (session, marks) in marked {
            let mut is_ours = false;
            for mark in &marks {
                is_ours |= self.owner(mark, pass)? != ProcessState::Alive;
            }
            if is_ours {
                ours.push((session, marks));
            }
        }
        Ok(ours)
    }

    /// Folds these sessions, the small logs in one commit. Sessions that cannot be folded stay behind and are counted.
    pub(crate) fn fold_part(&self, part: &[Marked], pass: &mut Pass<'_, '_>) -> Result<()> {
        let all: Vec<Option<Known>> = self.state.read(|tx| {
            let look = |(session, _): &Marked| match known(tx, session) {
                Ok(known) => Ok(Some(known)),
                Err(Error::NoSession(_) | Error::Deleted(_)) => Ok(None),
                Err(error) => Err(error),
            };
            part.iter().map(look).collect::<Result<_>>()
        })?;
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for (at, ((session, marks), known)) in part.iter().zip(all).enumerate() {
            if pass.bound.bytes.saturating_sub(pass.left) >= STEP_BYTES && pass.bound.is_over() {
                pass.caught_up.sessions_behind += (part.len() - at) as u64;
                break;
            }
            let Some(known) = known else {
                // Deleted since: there is no row for it.
                self.forget_mark(session);
                continue;
            };
            match self.open_marked(known, marks, pass) {
                Ok(None) => {}
                Ok(Some(opened)) => {
                    if bytes + opened.bytes() > self.limits.fold_batch_bytes {
                        self.fold_batch(&batch, pass)?;
                        batch.clear();
                        bytes = 0;
                    }
                    bytes += opened.bytes();
                    pass.left = pass.left.saturating_sub(opened.bytes());
                    batch.push(*opened);
                }
                Err(error) => self.leave_behind(session, error, pass)?,
            }
        }
        self.fold_batch(&batch, pass)
    }

    /// Opens a marked log. Returns it if it is to be folded, or its marks are to be deleted, together with others.
    fn open_marked(
        &self,
        known: Known,
        marks: &[BehindRow],
        pass: &mut Pass<'_, '_>,
    ) -> Result<Option<Box<OpenedLog>>> {
        let session = known.row.id.clone();
        // Read before the log is examined: a later append keeps the mark.
        let own = self.marks.seen(&session);
        let (mut left, mut has_died) = (Vec::new(), false);
        for mark in marks {
            let owner = self.owner(mark, pass)?;
            has_died |= owner == ProcessState::Dead && !has_no_owner(mark);
            if owner == ProcessState::Dead || mutant::is(Mutant::MarksClearedByOthers) {
                left.push(mark.clone());
            }
        }
        let mut known = known;
        let stat = known.stat(&self.disk)?;
        let is_left = !left.is_empty();
        if own.is_none() && !is_left && self.bytes_behind(&known)? == 0 {
            // Its owner deletes the mark; until then this check must be cheap.
            return Ok(None);
        }
        if is_left && stat.is_some_and(|stat| stat.is_poisoned()) {
            return Err(LogError::Poisoned(known.place().path).into());
        }
        if has_died {
            self.mend(&session)?;
            known = self.known(&session)?;
        }
        let file_end = known.row.log_base.0 + stat.map_or(0, |stat| stat.len);
        let extras = CommitExtras::Seals { own, left };
        let mut is_mended = has_died;
        loop {
            let base = known.row.log_base;
            let opened = match self.open_to_fold(known, extras.clone())? {
                OpenOutcome::Empty(extras) => {
                    self.delete_marks(&session, extras)?;
                    return Ok(None);
                }
                OpenOutcome::Again => {
                    known = self.known(&session)?;
                    continue;
                }
                OpenOutcome::Ready(opened) => opened,
            };
            let is_claimed = stat.is_some_and(|stat| stat.is_claimed());
            if is_left && !is_mended && (is_claimed || opened.end.0.max(base.0) < file_end) {
                // The dead owner left a torn tail, or a claim whose lines may not be written.
                is_mended = true;
                self.mend(&session)?;
                known = self.known(&session)?;
                continue;
            }
            return self.within_bound(opened, &extras, pass);
        }
    }

    /// Folds a log alone that is too large to be folded with others, or skips it if it is too large for the limit.
    fn within_bound(
        &self,
        opened: Box<OpenedLog>,
        extras: &CommitExtras,
        pass: &mut Pass<'_, '_>,
    ) -> Result<Option<Box<OpenedLog>>> {
        let bytes = opened.bytes();
        if bytes > 0 && (pass.left == 0 || (bytes > pass.left && !pass.bound.in_parts)) {
            pass.caught_up.add(bytes);
            return Ok(None);
        }
        if bytes <= pass.left && bytes <= self.limits.fold_batch_bytes {
            return Ok(Some(opened));
        }
        // With a deadline, a large log is folded one step at a time.
        let step = if pass.bound.until.is_some() { self.limits.fold_batch_bytes } else { u64::MAX };
        let folded = self.fold_known(self.known(opened.session())?, bytes.min(pass.left).min(step), extras)?;
        pass.left = pass.left.saturating_sub(bytes.saturating_sub(folded.behind));
        pass.caught_up.add(folded.behind);
        Ok(None)
    }

    /// Folds these logs in one commit.
    fn fold_batch(&self, batch: &[OpenedLog], pass: &mut Pass<'_, '_>) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let sessions: Vec<(SessionId, CommitExtras)> =
            batch.iter().map(|opened| (opened.session().clone(), opened.extras().clone())).collect();
        let advanced = match self.advance(batch, u64::MAX) {
            Err(error) if error.leaves_behind() => {
                for (session, _) in &sessions {
                    pass.caught_up.add(self.measure(session)?.max(1));
                }
                return Ok(());
            }
            other => other?,
        };
        for ((session, extras), advanced) in sessions.iter().zip(advanced) {
            let behind = match advanced {
                Ok(StepResult::To(to, end)) => Ok(end.0.saturating_sub(to.0)),
                Ok(StepResult::Gone) => Ok(0),
                Ok(StepResult::Overtaken) => self
                    .known(session)
                    .and_then(|known| self.fold_known(known, self.limits.fold_batch_bytes, extras))
                    .map(|folded| folded.behind),
                Err(error) => Err(error),
            };
            match behind {
                Ok(bytes) => pass.caught_up.add(bytes),
                Err(error) => self.leave_behind(session, error, pass)?,
            }
        }
        Ok(())
    }

    /// Counts a log that could not be folded as behind. A locked or closed log does not affect the others.
    fn leave_behind(&self, session: &SessionId, error: Error, pass: &mut Pass<'_, '_>) -> Result<()> {
        match error {
            // Deleted since: there is no row for it.
            Error::NoSession(_) | Error::Deleted(_) => {
                self.forget_mark(session);
                Ok(())
            }
            error if error.leaves_behind() => {
                // At least one byte, because the number is unknown.
                pass.caught_up.add(self.measure(session)?.max(1));
                Ok(())
            }
            error => Err(error),
        }
    }

    /// Returns the state of the process that set a mark. It is checked once per pass.
    fn owner(&self, mark: &BehindRow, pass: &mut Pass<'_, '_>) -> Result<ProcessState> {
        if has_no_owner(mark) {
            return Ok(ProcessState::Dead);
        }
        if let Some(owner) = pass.owners.get(&mark.process_id) {
            return Ok(*owner);
        }
        let owner = self.process.state_of(mark.process_id)?;
        pass.owners.insert(mark.process_id, owner);
        Ok(owner)
    }
}

impl<'b, 't> Pass<'b, 't> {
    pub(crate) fn new(bound: &'b FoldBound<'t>) -> Self {
        Self { bound, left: bound.bytes, caught_up: CaughtUp::default(), owners: HashMap::new() }
    }

    /// Returns the number of sessions between two checks of the clock.
    pub(crate) fn step(&self) -> usize {
        if self.bound.until.is_some() { FOLD_STEP_SESSIONS } else { FOLD_BATCH_SESSIONS }
    }
}

fn by_session(marks: Vec<BehindRow>) -> Vec<Marked> {
    let mut marked: Vec<Marked> = Vec::new();
    for mark in marks {
        match marked.last_mut() {
            Some((session, marks)) if *session == mark.session_id => marks.push(mark),
            _ => marked.push((mark.session_id.clone(), vec![mark])),
        }
    }
    marked
}

//! Catching up: folds the marked sessions, before a read and in the background (R6).
//!
//! Many small logs are folded in one commit. A fold with a time limit checks the clock between sessions. The sessions
//! that it did not reach are counted by their marks, without looking at each log.

use std::collections::BTreeMap;
use std::time::Instant;

use duolog_log::dialect::digest::Digest;
use duolog_state::owned::{behind, repairs, sessions};
use duolog_types::limits::{CATCH_UP_BEFORE_LIST, Limits};
use duolog_types::{Durability, ProcessId, SessionId};

use crate::error::{Error, Result};
use crate::fold::CommitExtras;
use crate::pass::{MarkOwners, Marked, Pass};
use crate::store::{Join, Known};

/// The number of rows per query of marks or logs.
pub(crate) const PAGE: u32 = 256;

/// What is left after folding before a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaughtUp {
    /// The number of sessions that are or may be behind. Sessions that the fold did not reach are counted by their
    /// marks.
    pub sessions_behind: u64,
    /// The number of bytes that the examined logs are behind, in total.
    pub bytes_behind: u64,
    /// The number of sessions of other homes with the same state that may be behind. Their logs cannot be examined
    /// here.
    pub sessions_elsewhere: u64,
    /// The number of logs that lack recorded bytes, as far as noticed.
    pub sessions_lost: u64,
    /// The number of bytes that they lack, in total.
    pub bytes_lost: u64,
}

impl CaughtUp {
    /// Returns true if derived rows cover all logs, and no log is known to lack recorded bytes.
    pub const fn is_complete(&self) -> bool {
        self.sessions_behind == 0 && self.sessions_elsewhere == 0 && self.sessions_lost == 0
    }

    /// Adds a log that lacks recorded bytes.
    pub fn lose(&mut self, bytes: u64) {
        self.sessions_lost += u64::from(bytes > 0);
        self.bytes_lost += bytes;
    }

    pub(crate) fn add(&mut self, bytes: u64) {
        self.sessions_behind += u64::from(bytes > 0);
        self.bytes_behind += bytes;
    }
}

/// The limit of a fold before a read. The first few sessions are folded regardless of the time.
pub struct FoldBound<'t> {
    pub(crate) bytes: u64,
    pub(crate) until: Option<Instant>,
    /// If set, a log with more bytes than are left is folded in part; otherwise it is skipped.
    pub(crate) in_parts: bool,
    pub(crate) tell: Option<&'t mut dyn FnMut(CatchingUp)>,
}

/// The progress of catching up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatchingUp {
    /// The number of marked sessions that were examined.
    pub sessions: u64,
    /// The number of sessions that were marked at the start.
    pub of_sessions: u64,
}

impl From<u64> for FoldBound<'_> {
    /// A limit of bytes, without a time limit.
    fn from(bytes: u64) -> Self {
        Self { bytes, until: None, in_parts: true, tell: None }
    }
}

impl<'t> FoldBound<'t> {
    /// The limit before a list, which answers soon and reports what is missing.
    pub fn before_list(limits: &Limits) -> Self {
        Self::from(limits.fold_before_read_bytes).until(Instant::now() + CATCH_UP_BEFORE_LIST)
    }

    /// No limit, for a complete answer; the limit before a list if the configuration disables folding before reads.
    pub fn complete(limits: &Limits) -> Self {
        if limits.fold_before_read_bytes == 0 { Self::before_list(limits) } else { u64::MAX.into() }
    }

    /// Sets the time limit, which does not apply to the first few sessions.
    #[must_use]
    pub fn until(self, instant: Instant) -> Self {
        Self { until: Some(instant), ..self }
    }

    /// Sets a function that gets the progress.
    #[must_use]
    pub fn on_progress(self, tell: &'t mut dyn FnMut(CatchingUp)) -> Self {
        Self { tell: Some(tell), ..self }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }
}

impl Join {
    /// Folds the marked sessions before a read of derived rows, and returns what is left.
    pub fn catch_up<'t>(&self, bound: impl Into<FoldBound<'t>>) -> Result<CaughtUp> {
        let mut bound = bound.into();
        let caught_up = if !self.is_writable() || !self.mark_after_boot()? {
            self.measure_behind()?
        } else {
            let (budget, (mut caught_up, left)) = (bound.bytes, self.fold_marked(&mut bound, MarkOwners::All)?);
            self.renew_outdated(budget, left, &bound)?.into_iter().for_each(|bytes| caught_up.add(bytes));
            caught_up
        };
        let home = self.home;
        let (sessions_elsewhere, lost) = self
            .state
            .read(|tx| Ok::<_, Error>((behind::sessions_elsewhere(tx, &home)?, repairs::lost(tx, &home)?)))?;
        Ok(CaughtUp { sessions_elsewhere, sessions_lost: lost.sessions, bytes_lost: lost.bytes, ..caught_up })
    }

    /// Folds one session to its end, unless `fold_before_read_bytes` is 0, and returns what is left.
    pub fn catch_up_session(&self, session: &SessionId) -> Result<CaughtUp> {
        let mut caught_up = CaughtUp::default();
        let known = self.known(session)?;
        if known.row.home_id != self.home {
            let marks = self.state.read(|tx| behind::of_session(tx, session))?;
            caught_up.sessions_elsewhere = (!marks.is_empty()).into();
            return Ok(caught_up);
        }
        let mut lost = 0;
        let folded = if !self.is_writable() || self.limits.fold_before_read_bytes == 0 {
            // Nothing is recorded here, but the loss is reported.
            self.read_log(session).map(|log| lost = log.loss.map_or(0, |loss| loss.bytes))
        } else if is_outdated(&known) {
            self.rebuild_session(session).map(drop)
        } else {
            self.fold_known(known, u64::MAX, &CommitExtras::Nothing).map(drop)
        };
        match folded {
            // It stays behind, and the result says so.
            Ok(()) => {}
            Err(error) if error.leaves_behind() => {}
            Err(error) => return Err(error),
        }
        caught_up.add(match self.known(session) {
            Ok(known) => self.bytes_behind(&known)?.max(is_outdated(&known).into()),
            Err(error) => return Err(error),
        });
        let recorded = self.state.read(|tx| repairs::lost_of(tx, session))?;
        caught_up.sessions_lost = (lost > 0 || recorded.is_some()).into();
        caught_up.bytes_lost = lost + recorded.unwrap_or_default();
        Ok(caught_up)
    }

    /// Folds the sessions that this process marked, about `budget` bytes.
    pub fn fold_own(&self, budget: u64) -> Result<()> {
        self.fold_marks_of_own(&budget.into())
    }

    /// Folds the sessions that this process marked before it exits, with a short time limit.
    pub(crate) fn fold_before_leaving(&self, budget: u64) -> Result<()> {
        let until = Some(Instant::now() + CATCH_UP_BEFORE_LIST);
        self.fold_marks_of_own(&FoldBound { until, in_parts: false, ..budget.into() })
    }

    /// Folds the sessions that this process or ended processes marked, about `budget` bytes.
    pub(crate) fn fold_in_background(&self, budget: u64) -> Result<()> {
        self.fold_marked(&mut budget.into(), MarkOwners::OwnAndDead)?;
        self.close_idle(0)
    }

    fn fold_marks_of_own(&self, bound: &FoldBound<'_>) -> Result<()> {
        let marked: Vec<Marked> = self.marks.sessions().into_iter().map(|session| (session, Vec::new())).collect();
        let mut pass = Pass::new(bound);
        for part in marked.chunks(pass.step()) {
            self.fold_part(part, &mut pass)?;
            if bound.is_over() {
                break;
            }
        }
        self.close_idle(0)
    }

    /// Returns the number of bytes of a log that derived rows do not cover, by the size of its file. 1 if the file
    /// cannot be examined.
    pub(crate) fn bytes_behind(&self, known: &Known) -> Result<u64> {
        match known.stat(&self.disk) {
            Ok(stat) => {
                let end = known.row.log_base.0 + stat.map_or(0, |stat| stat.len);
                Ok(end.abs_diff(known.catalog.as_ref().map_or(known.row.log_base.0, |row| row.position.0)))
            }
            Err(Error::Log(_)) => Ok(1),
            Err(error) => Err(error),
        }
    }

    /// Returns the number of bytes that a session is behind; 0 if it does not exist.
    pub(crate) fn measure(&self, session: &SessionId) -> Result<u64> {
        match self.known(session) {
            Ok(known) => self.bytes_behind(&known),
            Err(Error::NoSession(_) | Error::Deleted(_)) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Marks every log of this home, once after each boot of the machine: a power cut may have lost the newest marks.
    /// Returns false if the disk is too full for the marks.
    fn mark_after_boot(&self) -> Result<bool> {
        if self.was_marked_after_boot()? {
            return Ok(true);
        }
        match self.mark_every_log().and_then(|()| self.process.clear_dead()).and_then(|()| self.remember_boot()) {
            // The next reader tries again.
            Err(error) if error.is_full() || error.is_busy() => Ok(false),
            other => other.map(|()| true),
        }
    }

    /// Marks every log of this home for the next fold.
    pub fn mark_every_log(&self) -> Result<()> {
        let (home, at) = (self.home, self.clock.now());
        self.write(Durability::Power, move |tx| Ok(behind::mark_all_for_nobody(tx, &home, at)?))
    }

    /// Calls `each` for every session of this home with a log, in pages.
    pub fn each_log(&self, mut each: impl FnMut(&SessionId) -> Result<()>) -> Result<()> {
        let mut after: Option<SessionId> = None;
        loop {
            let (home, from) = (self.home, after.take());
            let logs = self.state.read(|tx| sessions::logs(tx, &home, from.as_ref(), PAGE))?;
            for log in logs.iter().filter(|log| !log.deleted) {
                each(&log.session_id)?;
            }
            match logs.last() {
                Some(last) if logs.len() == PAGE as usize => after = Some(last.session_id.clone()),
                _ => return Ok(()),
            }
        }
    }

    /// Returns what a read-only reader would have to fold: marked sessions, or every log if they were not marked since
    /// the boot, and rows of an older fold version.
    fn measure_behind(&self) -> Result<CaughtUp> {
        let mut behind: BTreeMap<SessionId, u64> = BTreeMap::new();
        let mut measure = |session: &SessionId| {
            behind.insert(session.clone(), self.measure(session)?);
            Ok(())
        };
        if self.was_marked_after_boot()? {
            self.each_marked(&mut measure)?;
        } else {
            self.each_log(&mut measure)?;
        }
        for (session, bytes) in self.outdated()? {
            let before = behind.entry(session).or_default();
            *before = bytes.max(*before).max(1);
        }
        let mut caught_up = CaughtUp::default();
        for bytes in behind.into_values() {
            caught_up.add(bytes);
        }
        Ok(caught_up)
    }

    /// Calls `each` for every marked session of this home, in pages.
    fn each_marked(&self, mut each: impl FnMut(&SessionId) -> Result<()>) -> Result<()> {
        let mut after: Option<(SessionId, ProcessId)> = None;
        loop {
            let (home, from) = (self.home, after.as_ref().map(|(session, process)| (session, process)));
            let marks = self.state.read(|tx| behind::of_home(tx, &home, from, PAGE))?;
            marks.iter().try_for_each(|mark| each(&mark.session_id))?;
            match marks.last() {
                Some(last) if marks.len() == PAGE as usize => after = Some((last.session_id.clone(), last.process_id)),
                _ => return Ok(()),
            }
        }
    }
}

fn is_outdated(known: &Known) -> bool {
    known.catalog.as_ref().is_some_and(|row| row.fold_version < Digest::VERSION)
}

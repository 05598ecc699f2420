//! Folding: derived rows follow the log, in batches, each a transaction that takes effect only where the last one ended.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use duolog_log::dialect::digest::Digest;
use duolog_log::{Reader, Standing, Synced};
use duolog_state::Tx;
use duolog_state::derived::catalog::{self, CatalogRow, Checkpoint};
use duolog_state::derived::{digests, responses, usage_by_day};
use duolog_state::owned::outbox::{self, OutboxKey};
use duolog_state::owned::{behind, sessions};
use duolog_types::{Durability, Position, ProcessId, SessionId, mutant, mutant::Mutant};

use crate::behind::{MarkId, OpenLog};
use crate::error::{Error, Result};
use crate::life::Raised;
use crate::process::ProcessState;
use crate::project::{Derived, Rows};
use crate::seal::SealPlan;
use crate::store::{Join, Known};

/// The rows one look at a list of marks or logs takes.
const PAGE: u32 = 256;

/// The lines about usage that are settled together.
const SETTLED: usize = 1024;

/// How far the fold of one session came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folded {
    /// Up to where derived rows tell of the log.
    pub to: Position,
    /// How many bytes of whole lines they do not tell of yet.
    pub behind: u64,
    /// How many recorded bytes this fold found gone. It has recorded the loss and folded what is there.
    pub lost: u64,
}

/// What folding before a read left undone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaughtUp {
    /// How many sessions are still behind.
    pub sessions_behind: u64,
    /// By how many bytes, all together.
    pub bytes_behind: u64,
    /// How many sessions of other homes with the same state may be behind. Their logs are not here to be looked at.
    pub sessions_elsewhere: u64,
    /// How many logs lack bytes that were recorded of them.
    pub sessions_lost: u64,
    /// How many bytes they lack, all together.
    pub bytes_lost: u64,
}

impl CaughtUp {
    /// Returns true if derived rows tell of all that the logs hold, and the logs hold all that was recorded of them.
    pub const fn is_complete(&self) -> bool {
        self.sessions_behind == 0 && self.sessions_elsewhere == 0 && self.sessions_lost == 0
    }

    /// Counts a log that lacks recorded bytes.
    pub fn lose(&mut self, bytes: u64) {
        self.sessions_lost += u64::from(bytes > 0);
        self.bytes_lost += bytes;
    }

    fn add(&mut self, bytes: u64) {
        self.sessions_behind += u64::from(bytes > 0);
        self.bytes_behind += bytes;
    }
}

/// What the commit with which a fold catches up does besides.
#[derive(Clone, Copy)]
enum Along<'o> {
    /// Nothing.
    Nothing,
    /// It seals what was folded, and deletes this process's mark on a log that it has open.
    Seals(Option<&'o OpenLog>),
}

/// Folded lines on their way into one commit.
struct Step {
    expected: Option<Checkpoint>,
    rows: Rows,
    seals: Option<SealPlan>,
    /// This process's mark, where nothing is left to fold.
    mark: Option<MarkId>,
    /// The lines about rows that this process wrote to the log, and that are synced by now.
    told: Vec<OutboxKey>,
}

impl Step {
    /// Takes effect only where the last step ended; says whether the seals did too, or nothing where another fold was
    /// faster.
    fn commit(&self, tx: &mut Tx<'_>) -> Result<Option<bool>> {
        if write_rows(tx, self.expected, &self.rows)? != Wrote::All {
            return Ok(None);
        }
        outbox::delete(tx, &self.told)?;
        if let Some(mark) = &self.mark {
            behind::clear(tx, &self.rows.catalog.session_id, &mark.process, mark.generation)?;
        }
        self.seals.as_ref().map_or(Ok(false), |seals| seals.put(tx)).map(Some)
    }
}

impl Join {
    /// Folds a session's log into its derived rows, at most about `budget` bytes of it.
    pub fn fold(&self, session: &SessionId, budget: u64) -> Result<Folded> {
        Ok(self.fold_along(self.known(session)?, budget, Along::Nothing)?.0)
    }

    /// Folds and, once it has caught up, seals what was folded and deletes this process's mark on a log that it has
    /// open: all in one commit, unless another process does the same.
    pub(crate) fn fold_and_seal(&self, known: Known, budget: u64, open: Option<&OpenLog>) -> Result<Folded> {
        let session = known.row.id.clone();
        let (folded, sealed) = self.fold_along(known, budget, Along::Seals(open))?;
        if !sealed && (open.is_some() || folded.behind == 0) {
            self.seal(&session)?;
        }
        if let Some(open) = open {
            self.settle(open, folded.to)?;
        }
        Ok(folded)
    }

    /// Folds from what was just read of a session; says whether what was folded was sealed on the way.
    fn fold_along(&self, known: Known, budget: u64, along: Along<'_>) -> Result<(Folded, bool)> {
        let session = &known.row.id.clone();
        let (mut left, mut read, mut lost) = (budget, Some(known), 0);
        loop {
            let known = read.take().map_or_else(|| self.known(session), Ok)?;
            self.own(&known.row)?;
            let Some(reader) = known.reader(&self.disk)? else {
                if known.watermark.recorded_to > known.row.log_base && !mutant::is(Mutant::NoEpoch) {
                    lost += self.note_loss(&known, Standing::Missing)?;
                    continue;
                }
                return Ok((Folded { to: known.row.log_base, behind: 0, lost }, false));
            };
            let from = known.catalog.as_ref().map_or(known.row.log_base, |row| row.position);
            let end = reader.stable_end(self.limits.busy_timeout)?;
            // A deletion raises the epoch and then unlinks, under the lock that the stable end waited for: rows of the new
            // epoch must not tell of the old file.
            if !reader.is_current()? {
                continue;
            }
            let standing = self.standing(&known, &reader, end)?;
            if standing != Standing::Same {
                lost += self.note_loss(&known, standing)?;
                continue;
            }
            if end <= from || left == 0 {
                return Ok((Folded { to: from, behind: end.0.saturating_sub(from.0), lost }, false));
            }
            // A checkpoint names a position, so what is below that position must be on the device first (R3).
            // The name of a file of which nothing was folded may not be: a log that was deleted begins with an empty row.
            let synced = if known.catalog.as_ref().is_some_and(|row| row.position > known.row.log_base) {
                reader.sync(self.limits.busy_timeout)?
            } else {
                reader.sync_with_name(self.limits.busy_timeout)?
            };
            let start = self.derived(&known)?;
            let rows = self.fold_lines(start, &reader, synced, left.min(self.limits.fold_batch_bytes))?.rows();
            let to = rows.catalog.position;
            left = left.saturating_sub(to.0 - from.0);
            let along = if to >= end { along } else { Along::Nothing };
            let sealed = self.commit_step(&known, &reader, rows, along)?;
            // Where nothing changed, another process folded meanwhile, and what it did stands: look again.
            if let Some(sealed) = sealed
                && to >= end
            {
                return Ok((Folded { to, behind: 0, lost }, sealed));
            }
        }
    }

    /// Records that a log is not what it was; returns how many recorded bytes are gone, 0 if somebody asked for that.
    fn note_loss(&self, known: &Known, standing: Standing) -> Result<u64> {
        let raised = self.note_change(&known.row.id, known.row.log_epoch, standing)?;
        Ok(if raised == Raised::OnPurpose { 0 } else { known.bytes_lost(standing) })
    }

    /// The derived rows that a fold goes on from.
    fn derived(&self, known: &Known) -> Result<Derived> {
        let Some(row) = &known.catalog else { return Ok(Derived::new(empty_row(known))) };
        let remembered = self.state.read(|tx| digests::get(tx, &row.session_id))?;
        Ok(Derived::going_on(row.clone(), remembered.as_ref()))
    }

    /// Commits what was folded, and what goes along; see [`Step::commit`].
    fn commit_step(&self, known: &Known, reader: &Reader, rows: Rows, along: Along<'_>) -> Result<Option<bool>> {
        let (to, expected) = (rows.catalog.position, known.catalog.as_ref().map(CatalogRow::checkpoint));
        let (seals, open) = match along {
            Along::Nothing => (None, None),
            Along::Seals(open) => (self.plan_seals(known, reader, to)?, open),
        };
        let sealed_to = seals.as_ref().map(SealPlan::to);
        let mark = open.and_then(|open| self.lift_mark(open, to));
        let copied = open.map(|open| open.take_copied(to)).unwrap_or_default();
        let told = copied.iter().map(|(_, key)| key.clone()).collect();
        let step = Step { expected, rows, seals, mark, told };
        let kept = self.write(Durability::Process, move |tx| step.commit(tx));
        let kept = kept.map_err(|error| error.of_session(&known.row.id));
        let undone = match &kept {
            Ok(kept) => kept.is_none(),
            // Do not assume that the mark is still there: it may be gone, and the next append would go unmarked.
            Err(error) => !error.is_unknown(),
        };
        if let Some(open) = open.filter(|_| undone || kept.is_err()) {
            // Deleting a row that is gone does nothing.
            open.copied().extend(copied);
        }
        if let (Some(open), Some(mark), true) = (open, mark, undone) {
            open.put_mark_back(mark);
        }
        let kept = kept?;
        if let (Some(true), Some(sealed_to)) = (kept, sealed_to) {
            self.tell_sealed(&known.row.id, sealed_to);
        }
        Ok(kept.map(|sealed| sealed && sealed_to >= Some(to)))
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

    /// Counts the responses that no session before this one counts.
    fn settle_usage(&self, derived: &mut Derived) -> Result<()> {
        let keys = derived.unsettled();
        // Mostly no line tells of a response, and nobody is asked.
        let owners =
            if keys.is_empty() { HashMap::new() } else { self.state.read(|tx| responses::owners(tx, &keys))? };
        derived.settle(&owners);
        Ok(())
    }

    /// Whether the log is still the one that the checkpoint tells of.
    pub(crate) fn standing(&self, known: &Known, reader: &Reader, end: Position) -> Result<Standing> {
        if mutant::is(Mutant::NoEpoch) {
            return Ok(Standing::Same);
        }
        if end < known.watermark.recorded_to {
            return Ok(Standing::Shorter(end));
        }
        if let Some((position, hash)) = known.watermark.folded
            && reader.line_hash_at(position, self.limits.line_bytes_max)? != Some(hash)
        {
            return Ok(Standing::Replaced);
        }
        Ok(Standing::Same)
    }

    /// Folds what is marked behind, before a read of derived rows: at most `budget` bytes, and says what is left.
    pub fn catch_up(&self, budget: u64) -> Result<CaughtUp> {
        let caught_up = if self.is_writable() { self.fold_behind(budget)? } else { self.measure_behind()? };
        let home = self.home;
        let sessions_elsewhere = self.state.read(|tx| behind::sessions_elsewhere(tx, &home))?;
        Ok(CaughtUp { sessions_elsewhere, ..caught_up })
    }

    /// Folds all that is behind, before a read whose answer must be complete; nothing if `fold_before_read_bytes` is 0.
    pub fn catch_up_whole(&self) -> Result<CaughtUp> {
        self.catch_up_every(if self.limits.fold_before_read_bytes == 0 { 0 } else { u64::MAX })
    }

    /// Folds as [`Join::catch_up`], and looks at every log for the loss of recorded bytes. Costs a stat for each log.
    pub fn catch_up_every(&self, budget: u64) -> Result<CaughtUp> {
        // Before the fold: a loss that it records is no longer found afterwards.
        let lost = self.lost_logs(&self.log_standings()?)?;
        let mut caught_up = CaughtUp { sessions_lost: 0, bytes_lost: 0, ..self.catch_up(budget)? };
        for loss in lost.values() {
            caught_up.lose(loss.bytes);
        }
        Ok(caught_up)
    }

    /// Folds one session to its end, unless `fold_before_read_bytes` is 0, and says what is left of it.
    pub fn catch_up_session(&self, session: &SessionId) -> Result<CaughtUp> {
        let mut caught_up = CaughtUp::default();
        let known = self.known(session)?;
        if known.row.home_id == self.home {
            match self.read_log(session) {
                Ok(log) => caught_up.lose(log.loss.map_or(0, |loss| loss.bytes)),
                // A log that cannot be read is behind, and counted so below.
                Err(Error::Log(_)) => {}
                Err(error) => return Err(error),
            }
        } else {
            let marks = self.state.read(|tx| behind::of_session(tx, session))?;
            caught_up.sessions_elsewhere = (!marks.is_empty()).into();
            return Ok(caught_up);
        }
        let is_outdated = known.catalog.as_ref().is_some_and(|row| row.fold_version < Digest::VERSION);
        let may_fold = self.is_writable() && self.limits.fold_before_read_bytes > 0;
        let folded = match (may_fold, is_outdated) {
            (false, _) => Ok(()),
            (true, false) => self.fold(session, u64::MAX).map(drop),
            (true, true) => self.rebuild_session(session).map(drop),
        };
        match folded {
            // It stays behind, and the answer says so.
            Ok(()) | Err(Error::Log(_) | Error::LogChanged { .. }) => {}
            Err(error) => return Err(error),
        }
        caught_up.add(match self.known_behind(session) {
            Ok((known, behind)) => {
                let is_outdated = known.catalog.is_some_and(|row| row.fold_version < Digest::VERSION);
                behind.max(is_outdated.into())
            }
            Err(Error::Log(_)) => 1,
            Err(error) => return Err(error),
        });
        Ok(caught_up)
    }

    fn fold_behind(&self, budget: u64) -> Result<CaughtUp> {
        let mut caught_up = CaughtUp::default();
        let mut left = budget;
        let mut after = None;
        loop {
            let (home, from): (_, Option<(SessionId, ProcessId)>) = (self.home, after.take());
            let from = from.as_ref().map(|(session, process)| (session, process));
            let marks = self.state.read(|tx| behind::of_home(tx, &home, from, PAGE))?;
            for mark in &marks {
                let owner = self.process.state_of(mark.process_id)?;
                let folded = match self.fold_marked(&mark.session_id, owner, left) {
                    Ok(folded) => folded,
                    // A log that is locked or closed stays behind and says so; it holds up no other.
                    Err(error) if error.leaves_behind() => {
                        caught_up.add(self.bytes_behind_or_one(&mark.session_id)?);
                        continue;
                    }
                    // Gone since: no row tells of it.
                    Err(Error::NoSession(_) | Error::Deleted(_)) => continue,
                    Err(error) => return Err(error),
                };
                left = left.saturating_sub(folded.1);
                caught_up.add(folded.0.behind);
                caught_up.lose(folded.0.lost);
                let dead = owner == ProcessState::Dead || mutant::is(Mutant::MarksClearedByOthers);
                if dead && folded.0.behind == 0 {
                    let (session, process, generation) = (mark.session_id.clone(), mark.process_id, mark.generation);
                    // Of the generation that was seen: what was left to nobody since has not been folded here.
                    let cleared = self
                        .write(Durability::Process, move |tx| Ok(behind::clear(tx, &session, &process, generation)?));
                    // On a full disk the mark stays, and the next reader finds nothing to fold.
                    if let Err(error) = cleared
                        && !error.is_full()
                    {
                        return Err(error);
                    }
                }
            }
            match marks.last() {
                Some(last) if marks.len() == PAGE as usize => after = Some((last.session_id.clone(), last.process_id)),
                _ => break,
            }
        }
        // A sweep looks at every log, marked or not, so what it finds is the whole of what is behind.
        let mut caught_up = if self.has_swept()? {
            caught_up
        } else {
            let CaughtUp { sessions_lost, bytes_lost, .. } = caught_up;
            let swept = self.sweep(left)?;
            CaughtUp {
                sessions_lost: swept.sessions_lost + sessions_lost,
                bytes_lost: swept.bytes_lost + bytes_lost,
                ..swept
            }
        };
        self.renew_outdated(budget, left)?.into_iter().for_each(|bytes| caught_up.add(bytes));
        Ok(caught_up)
    }

    /// How many bytes a session that cannot be folded is behind: one at least, because nobody knows.
    fn bytes_behind_or_one(&self, session: &SessionId) -> Result<u64> {
        match self.bytes_behind(session) {
            Ok(bytes) => Ok(bytes.max(1)),
            Err(Error::Log(_)) => Ok(1),
            Err(Error::NoSession(_) | Error::Deleted(_)) => Ok(0),
            Err(error) => Err(error),
        }
    }

    fn fold_marked(&self, session: &SessionId, owner: ProcessState, budget: u64) -> Result<(Folded, u64)> {
        if owner == ProcessState::Dead {
            self.mend(session)?;
        }
        let (known, before) = self.known_behind(session)?;
        if owner == ProcessState::Alive && before == 0 {
            // Its owner deletes the mark; until then looking must cost no more than this.
            let to = known.catalog.map_or(known.row.log_base, |row| row.position);
            return Ok((Folded { to, behind: 0, lost: 0 }, 0));
        }
        let open = self.open.get(session);
        let folded = self.fold_and_seal(known, budget.min(before), open.as_deref())?;
        Ok((folded, before.saturating_sub(folded.behind)))
    }

    /// How many bytes of a session's log derived rows do not tell of, by the size of its file.
    pub fn bytes_behind(&self, session: &SessionId) -> Result<u64> {
        Ok(self.known_behind(session)?.1)
    }

    /// The same, and what is known of the log.
    fn known_behind(&self, session: &SessionId) -> Result<(Known, u64)> {
        let known = self.known(session)?;
        let end = known.row.log_base.0 + known.stat(&self.disk)?.map_or(0, |stat| stat.len);
        let folded = known.catalog.as_ref().map_or(known.row.log_base.0, |row| row.position.0);
        Ok((known, end.abs_diff(folded)))
    }

    /// Folds the sessions that this process marked, where at most `budget` bytes are waiting.
    pub fn fold_own(&self, budget: u64) -> Result<()> {
        let mut left = budget;
        for open in self.open.all() {
            if !Self::is_marked(&open) {
                continue;
            }
            let folded = self.known_behind(&open.session).and_then(|(known, before)| {
                if before > left {
                    return Ok(0);
                }
                let folded = self.fold_and_seal(known, before, Some(&open))?;
                Ok(before.saturating_sub(folded.behind))
            });
            match folded {
                Ok(bytes) => left = left.saturating_sub(bytes),
                // It was deleted: there is nothing to fold, and its mark went with its row.
                Err(Error::NoSession(_) | Error::Deleted(_)) => self.open.let_go(&open.session, &open),
                // Whoever opens next finds the mark and tells of the trouble.
                Err(Error::Log(_) | Error::LogChanged { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.close_idle()
    }

    /// Compares the size of every log with its checkpoint and folds what differs.
    ///
    /// Marks are hints and a power cut may take the newest of them, so this runs once after each boot of the machine.
    pub fn sweep(&self, budget: u64) -> Result<CaughtUp> {
        let mut caught_up = CaughtUp::default();
        let (mut left, mut cut_short) = (budget, false);
        self.each_log(|session| {
            let before = match self.bytes_behind(session) {
                Ok(0) | Err(Error::NoSession(_) | Error::Deleted(_)) => return Ok(()),
                other => other?,
            };
            let mended = self.mend(session).and_then(|()| self.known(session));
            let folded = mended.and_then(|known| self.fold_and_seal(known, left.min(before), None));
            let behind = match folded {
                Ok(folded) => {
                    caught_up.lose(folded.lost);
                    folded.behind
                }
                Err(Error::NoSession(_) | Error::Deleted(_)) => return Ok(()),
                Err(error) if error.leaves_behind() => {
                    // This sweep is the only one of this boot: what it could not fold is marked for the next reader.
                    let (id, home, at) = (session.clone(), self.home, self.clock.now());
                    let marked =
                        self.write(Durability::Process, move |tx| Ok(behind::mark_for_nobody(tx, &id, &home, at)?));
                    match marked {
                        // Without the mark, the next reader sweeps again.
                        Err(error) if error.is_full() => cut_short = true,
                        other => other?,
                    }
                    before
                }
                Err(error) => return Err(error),
            };
            left = left.saturating_sub(before.saturating_sub(behind));
            cut_short |= behind > 0 && left == 0;
            caught_up.add(behind);
            Ok(())
        })?;
        self.process.clear_dead()?;
        if !cut_short {
            match self.remember_boot() {
                // On a full disk the next reader sweeps again.
                Err(error) if error.is_full() => {}
                other => other?,
            }
        }
        Ok(caught_up)
    }

    /// Visits every session of this home that has a log, in pages.
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

    /// What a reader that may not write would have to fold: marked sessions, every log where this boot's sweep has not
    /// run, and rows that an older fold made.
    fn measure_behind(&self) -> Result<CaughtUp> {
        let mut behind: BTreeMap<SessionId, u64> = BTreeMap::new();
        let mut measure = |session: &SessionId| {
            let bytes = match self.bytes_behind(session) {
                Err(Error::Log(_)) => 1,
                Err(Error::NoSession(_) | Error::Deleted(_)) => 0,
                other => other?,
            };
            behind.insert(session.clone(), bytes);
            Ok(())
        };
        if self.has_swept()? {
            let standings = self.log_standings()?;
            standings.iter().filter(|log| log.is_marked).try_for_each(|log| measure(&log.session))?;
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
}

/// What became of the rows that a step of the fold made: all of them stand, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrote {
    /// They stand.
    All,
    /// Another fold of this log was faster.
    Behind,
    /// A fold of another log changed which responses this one counts.
    Contended,
}

/// Writes what a step of the fold made. `expected` is what the step started from: nothing, where it began with the log's
/// first byte.
pub(crate) fn write_rows(tx: &mut Tx<'_>, expected: Option<Checkpoint>, rows: &Rows) -> Result<Wrote> {
    let session = &rows.catalog.session_id;
    // Deleted meanwhile: there is no row that these could belong to. In another epoch they tell of bytes that are gone.
    let row = sessions::find(tx, session)?.filter(|row| row.deleted_at.is_none());
    if row.ok_or_else(|| Error::NoSession(session.clone()))?.log_epoch != rows.catalog.epoch {
        return Ok(Wrote::Behind);
    }
    let Some(losers) = losers(tx, rows)? else { return Ok(Wrote::Contended) };
    let advanced = match expected {
        Some(expected) => catalog::advance(tx, Some(expected), &rows.catalog)?,
        None => catalog::replace(tx, &rows.catalog)?,
    };
    if !advanced {
        return Ok(Wrote::Behind);
    }
    if expected.is_none() {
        usage_by_day::forget(tx, session)?;
        responses::forget(tx, session)?;
    }
    if let Some(digest) = &rows.digest {
        digests::put(tx, digest)?;
        usage_by_day::change(tx, session, &rows.usage)?;
    }
    responses::claim(tx, session, &rows.claimed)?;
    losers.iter().try_for_each(|loser| catalog::outdate(tx, loser))?;
    Ok(Wrote::All)
}

/// The sessions that counted what this one is to count; none at all where another fold changed who counts what since
/// this one looked.
fn losers(tx: &mut Tx<'_>, rows: &Rows) -> Result<Option<BTreeSet<SessionId>>> {
    let session = &rows.catalog.session_id;
    for (owner, key) in &rows.counting {
        if !responses::confirm(tx, owner, *key)? {
            return Ok(None);
        }
    }
    let owners: BTreeSet<SessionId> = responses::owners(tx, &rows.claimed)?.into_values().collect();
    if owners.first().is_some_and(|first| first < session) {
        return Ok(None);
    }
    Ok(Some(owners.into_iter().filter(|owner| owner != session).collect()))
}

/// Leaves what a session counted to others that tell of it too: it is about to lose lines, or to go.
pub(crate) fn leave_responses(tx: &mut Tx<'_>, session: &SessionId) -> Result<()> {
    responses::forget(tx, session)?;
    Ok(catalog::outdate_sharing(tx)?)
}

/// The derived row of a log of which nothing was folded.
pub(crate) fn empty_row(known: &Known) -> CatalogRow {
    CatalogRow::new(known.row.id.clone(), known.row.home_id, known.row.log_epoch, known.row.log_base)
}

//! Making derived rows anew from the log, beside readers and writers (I3).
//!
//! A row is computed from the log's first byte without touching the one that is there, and takes its place in one step:
//! readers see the old row or the new one, never a part.

use duolog_log::Error as LogError;
use duolog_log::dialect::digest::Digest;
use duolog_state::derived::catalog::{self, CatalogRow};
use duolog_state::owned::behind;
use duolog_types::{Durability, SessionId};

use crate::catch_up::FoldBound;
use crate::error::{Error, Result};
use crate::project::Derived;
use crate::rows::{Wrote, empty_row, write_rows};
use crate::store::Join;

/// The rows that one look at a list takes.
const PAGE: u32 = 256;
/// How often sessions that outdate one another are gone through before a read.
const PASSES_MAX: u32 = 8;

/// What a rebuild did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// How many sessions have new rows.
    pub sessions: u64,
    /// How many lines they tell of.
    pub events: u64,
    /// How many bytes were read.
    pub bytes: u64,
    /// Sessions that could not be read, and why.
    pub failed: Vec<(SessionId, String)>,
}

impl Join {
    /// Rebuilds the derived rows of every session of this home; `each` is told of each one done.
    pub fn rebuild(&self, mut each: impl FnMut(&Rebuilt)) -> Result<Rebuilt> {
        let mut rebuilt = Rebuilt::default();
        self.each_log(|session| {
            match self.rebuild_session(session) {
                Ok((events, bytes)) => {
                    rebuilt.sessions += 1;
                    rebuilt.events += events;
                    rebuilt.bytes += bytes;
                }
                Err(error @ (Error::Log(_) | Error::LogChanged { .. })) => {
                    rebuilt.failed.push((session.clone(), error.to_string()));
                }
                // Deleted while we were on the way to it.
                Err(Error::NoSession(_) | Error::Deleted(_)) => {}
                Err(error) => return Err(error),
            }
            each(&rebuilt);
            Ok(())
        })?;
        Ok(rebuilt)
    }

    /// Rebuilds rows that an older fold made, where at most `left` bytes of log are read for it; returns the bytes of
    /// each that is left.
    ///
    /// A log of more than `budget` bytes would never be read at once: its rows begin anew, and it is folded in parts. Once
    /// the time of the bound is over, the others are left as they are.
    pub(crate) fn renew_outdated(&self, budget: u64, mut left: u64, bound: &FoldBound<'_>) -> Result<Vec<u64>> {
        let mut begun = Vec::new();
        for pass in 0.. {
            let (mut behind, mut renewed) = (Vec::new(), false);
            for (session, bytes) in self.outdated()? {
                if bound.is_over() || bytes <= budget && (bytes > left || pass == PASSES_MAX) {
                    behind.push(bytes.max(1));
                    continue;
                }
                let done = if bytes > budget {
                    self.begin_anew(&session).map(|()| begun.push(bytes))
                } else {
                    self.rebuild_session(&session).map(|(_, read)| {
                        // A log that is empty or gone has nothing to count.
                        if read > 0 {
                            (left, renewed) = (left - bytes, true);
                        }
                    })
                };
                match done {
                    // What cannot be read stays as it is, and holds up no other.
                    Err(error) if error.leaves_behind() => behind.push(bytes.max(1)),
                    Ok(()) | Err(Error::NoSession(_) | Error::Deleted(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            // A session that was rebuilt may count what another did, and that one is outdated from then on.
            if !renewed {
                begun.append(&mut behind);
                return Ok(begun);
            }
        }
        Ok(begun)
    }

    /// The sessions whose rows an older fold made, with the bytes that it folded.
    pub(crate) fn outdated(&self) -> Result<Vec<(SessionId, u64)>> {
        let (home, mut all) = (self.home, Vec::<(SessionId, u64)>::new());
        loop {
            let after = all.last().map(|(session, _)| session.clone());
            let page = self.state.read(|tx| catalog::outdated(tx, &home, Digest::VERSION, after.as_ref(), PAGE))?;
            let is_last = page.len() < PAGE as usize;
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// Takes a session's derived rows back to the beginning of its log, and marks it to be folded by whoever reads.
    fn begin_anew(&self, session: &SessionId) -> Result<()> {
        let known = self.known(session)?;
        self.own(&known.row)?;
        let Some(expected) = known.catalog.as_ref().map(CatalogRow::checkpoint) else { return Ok(()) };
        let rows = Derived::new(empty_row(&known)).rows();
        let (id, home, at) = (session.clone(), self.home, self.clock.now());
        self.write(Durability::Process, move |tx| {
            // Where a fold was faster, the next reader tries again.
            if catalog::advance(tx, Some(expected), &rows.catalog)? {
                write_rows(tx, None, &rows)?;
                behind::mark_for_nobody(tx, &id, &home, at)?;
            }
            Ok(())
        })
    }

    pub(crate) fn rebuild_session(&self, session: &SessionId) -> Result<(u64, u64)> {
        // What is known first says whether this is still the log we knew; a changed one gets its new epoch here.
        self.fold(session, 0)?;
        let known = self.known(session)?;
        let Some(reader) = known.reader(&self.disk)? else { return Ok((0, 0)) };
        let mut derived = Derived::new(empty_row(&known));
        loop {
            let from = derived.row.position;
            let synced = reader.sync_with_name(self.limits.busy_timeout)?;
            derived = self.fold_lines(derived, &reader, synced, u64::MAX)?;
            let (row, rows) = (&derived.row, derived.rows());
            let done = (row.events, row.bytes);
            if row.position == known.row.log_base {
                return Ok(done);
            }
            match self.write(Durability::Process, move |tx| write_rows(tx, None, &rows))? {
                Wrote::All => return Ok(done),
                Wrote::Contended => {
                    derived = Derived::new(empty_row(&known));
                    continue;
                }
                Wrote::Behind => {}
            }
            // A fold is further than we are: go on from here until we are not behind it. If there is nothing to go on
            // to, the log lost what that fold had read.
            if row.position == from {
                let now = self.known(session)?;
                if now.row.log_epoch != known.row.log_epoch {
                    // The log is another one since, on purpose or not; a loss is on record.
                    return self.rebuild_session(session);
                }
                let (expected, found) = (now.watermark.recorded_to, row.position);
                return Err(LogError::Shrunk { path: known.place().path, expected, found }.into());
            }
        }
    }
}

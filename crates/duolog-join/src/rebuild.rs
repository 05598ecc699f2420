//! Rebuilding derived rows from the log, while readers and writers run (I3).
//!
//! A row is computed from the log's first byte without changing the existing one, and replaces it in one step: readers
//! see the old row or the new one, never a mix.

use duolog_log::Error as LogError;
use duolog_log::dialect::digest::Digest;
use duolog_state::derived::catalog::{self, CatalogRow};
use duolog_state::owned::behind;
use duolog_types::{Durability, SessionId};

use crate::catch_up::FoldBound;
use crate::error::{Error, Result};
use crate::project::Derived;
use crate::rows::{WriteOutcome, empty_row, write_rows};
use crate::store::Join;

/// The number of rows per query.
const PAGE: u32 = 256;
/// The maximum number of passes over sessions that outdate each other before a read.
const PASSES_MAX: u32 = 8;

/// The result of a rebuild.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// The number of rebuilt sessions.
    pub sessions: u64,
    /// The number of their events.
    pub events: u64,
    /// The number of bytes read.
    pub bytes: u64,
    /// Sessions that could not be read, with the reason.
    pub failed: Vec<(SessionId, String)>,
}

impl Join {
    /// Rebuilds the derived rows of every session of this home. `each` is called after each session.
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
                // Deleted before its turn.
                Err(Error::NoSession(_) | Error::Deleted(_)) => {}
                Err(error) => return Err(error),
            }
            each(&rebuilt);
            Ok(())
        })?;
        Ok(rebuilt)
    }

    /// Rebuilds rows of an older fold version, reading at most `left` bytes of logs. Returns the bytes of each session
    /// that is left.
    ///
    /// A log of more than `budget` bytes would never fit: its rows are reset, and it is folded in parts. After the
    /// deadline of `bound` the remaining sessions are left.
    pub(crate) fn renew_outdated(&self, budget: u64, mut left: u64, bound: &FoldBound<'_>) -> Result<Vec<u64>> {
        let mut reset = Vec::new();
        for pass in 0.. {
            let (mut behind, mut renewed) = (Vec::new(), false);
            for (session, bytes) in self.outdated()? {
                if bound.is_over() || bytes <= budget && (bytes > left || pass == PASSES_MAX) {
                    behind.push(bytes.max(1));
                    continue;
                }
                let done = if bytes > budget {
                    self.reset_rows(&session).map(|()| reset.push(bytes))
                } else {
                    self.rebuild_session(&session).map(|(_, read)| {
                        // An empty or missing log has nothing to count.
                        if read > 0 {
                            (left, renewed) = (left - bytes, true);
                        }
                    })
                };
                match done {
                    // A log that cannot be read stays as it is and does not affect the others.
                    Err(error) if error.leaves_behind() => behind.push(bytes.max(1)),
                    Ok(()) | Err(Error::NoSession(_) | Error::Deleted(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            // A rebuilt session may count what another session counted, which is outdated then.
            if !renewed {
                reset.append(&mut behind);
                return Ok(reset);
            }
        }
        Ok(reset)
    }

    /// Returns the sessions with rows of an older fold version, with their folded bytes.
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

    /// Resets a session's derived rows to the beginning of its log, and marks it for the next reader to fold.
    fn reset_rows(&self, session: &SessionId) -> Result<()> {
        let known = self.known(session)?;
        self.own(&known.row)?;
        let Some(expected) = known.catalog.as_ref().map(CatalogRow::checkpoint) else { return Ok(()) };
        let rows = Derived::new(empty_row(&known)).rows();
        let (id, home, at) = (session.clone(), self.home, self.clock.now());
        self.write(Durability::Process, move |tx| {
            // If another fold was faster, the next reader tries again.
            if catalog::advance(tx, Some(expected), &rows.catalog)? {
                write_rows(tx, None, &rows)?;
                behind::mark_for_nobody(tx, &id, &home, at)?;
            }
            Ok(())
        })
    }

    pub(crate) fn rebuild_session(&self, session: &SessionId) -> Result<(u64, u64)> {
        // The fold checks whether the log is still the recorded one, and raises the epoch if it is not.
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
                WriteOutcome::All => return Ok(done),
                WriteOutcome::Contended => {
                    derived = Derived::new(empty_row(&known));
                    continue;
                }
                WriteOutcome::Behind => {}
            }
            // A fold is further than this rebuild: continue until it is reached. If there are no more lines, the log
            // lost what that fold has read.
            if row.position == from {
                let now = self.known(session)?;
                if now.row.log_epoch != known.row.log_epoch {
                    // The log was replaced; a loss is recorded.
                    return self.rebuild_session(session);
                }
                let (expected, found) = (now.watermark.recorded_to, row.position);
                return Err(LogError::Shrunk { path: known.place().path, expected, found }.into());
            }
        }
    }
}

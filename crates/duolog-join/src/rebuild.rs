//! Making derived rows anew from the log, beside readers and writers (I3).
//!
//! A row is computed from the log's first byte without touching the one that is there, and takes its place in one step:
//! readers see the old row or the new one, never a part.

use duolog_log::dialect::digest::Digest;
use duolog_log::{Error as LogError, Reader};
use duolog_state::derived::catalog::{self, CatalogRow};
use duolog_state::owned::behind;
use duolog_types::{Durability, SessionId};

use crate::error::{Error, Result};
use crate::fold::{Wrote, empty_row, write_rows};
use crate::project::Derived;
use crate::store::Join;

/// The rows that one look at a list takes.
const PAGE: u32 = 256;

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

    /// Makes rows anew that an older fold made, where at most `left` bytes of log are read for it; `behind` is told the
    /// bytes of each that is left.
    ///
    /// A log of more than `budget` bytes would never be read at once: its rows begin anew, and it is folded in parts.
    pub(crate) fn renew_outdated(&self, budget: u64, mut left: u64, mut behind: impl FnMut(u64)) -> Result<()> {
        let (home, mut after) = (self.home, None::<SessionId>);
        loop {
            let from = after.take();
            let outdated = self.state.read(|tx| catalog::outdated(tx, &home, Digest::VERSION, from.as_ref(), PAGE))?;
            for (session, bytes) in &outdated {
                let renewed = match *bytes {
                    bytes if bytes > budget => self.begin_anew(session).map(|()| Some(bytes)),
                    bytes if bytes > left => Ok(Some(bytes)),
                    _ => self.rebuild_session(session).map(|_| None),
                };
                match renewed {
                    Ok(Some(bytes)) => behind(bytes),
                    Ok(None) => left -= bytes,
                    // What cannot be read stays as it is, and holds up no other.
                    Err(error) if error.leaves_behind() => behind((*bytes).max(1)),
                    Err(Error::NoSession(_) | Error::Deleted(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            match outdated.last() {
                Some((last, _)) if outdated.len() == PAGE as usize => after = Some(last.clone()),
                _ => return Ok(()),
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

    fn rebuild_session(&self, session: &SessionId) -> Result<(u64, u64)> {
        // What is known first says whether this is still the log we knew; a changed one gets its new epoch here.
        self.fold(session, 0)?;
        let known = self.known(session)?;
        let Some(reader) = Reader::open(&self.disk, &known.place())? else { return Ok((0, 0)) };
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
                let (expected, found) = (self.known(session)?.watermark.recorded_to, row.position);
                return Err(LogError::Shrunk { path: known.place().path, expected, found }.into());
            }
        }
    }
}

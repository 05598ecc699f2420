//! Search over all logs.
//!
//! The index returns candidates; each is read from its log again, and [`Query::matches`] decides. Lines that are not in
//! the index, because they are new or because no index can be used, are read from the logs. The result is therefore
//! complete and the same with and without the index.

mod directory;
mod fold;
mod model;
mod reading;
mod rules;
mod scan;

pub use directory::find_in;
pub use duolog_search::{BadQuery, Filter as SearchFilter, Query, Snippet};
pub use model::{Elsewhere, Found, Hit, HitToken, IndexStatus, Indexed, LostLog, SearchRequest, UseIndex};

use std::collections::BTreeMap;

use duolog_join::{FoldBound, LogStanding, Loss};
use duolog_search::{Error as IndexError, Index};
use duolog_state::owned::sessions;
use duolog_types::limits::{INDEX_BEFORE_SEARCH_BYTES, PAGE_MAX};
use duolog_types::{SessionId, with_causes};

use crate::Wait;
use crate::error::{Error, Invalid, Result};
use crate::store::Store;
use fold::{Fold, Work};
use scan::SearchPass;

/// The number of changed logs after which a search reads all logs.
const CHANGES_MAX: u32 = 8;

/// The handle for search.
#[derive(Clone)]
pub struct Search {
    pub(crate) store: Store,
}

/// The input of one search.
struct Task<'t> {
    request: &'t SearchRequest,
    /// Every log of the home.
    every: &'t [LogStanding],
    /// The logs to search.
    logs: Vec<&'t LogStanding>,
}

impl Search {
    /// Finds texts, newest first. `tell` is called with the progress of the index if an update takes a while.
    ///
    /// If the index cannot be used, the search is slower, and the result has the reason.
    ///
    /// # Errors
    ///
    /// Returns an error if the token belongs to another search, or if the logs cannot be read.
    pub fn find(&self, request: &SearchRequest, mut tell: impl FnMut(&Indexed)) -> Result<Found> {
        let join = &self.store.join;
        check_token(request)?;
        let (mut changes, mut lost) = (0, BTreeMap::new());
        loop {
            self.store.catch_up_within(request.wait)?;
            let every = join.log_standings()?;
            let asked = request.filter.session.as_ref();
            let logs: Vec<_> = every.iter().filter(|log| asked.is_none_or(|asked| *asked == log.session)).collect();
            if let Some(asked) = asked.filter(|_| logs.is_empty()) {
                // A deleted session, or one of another home, is an error and not an empty result.
                join.read_log(asked)?;
            }
            let task = Task { request, every: &every, logs };
            let why = match self.with_index(&task, &mut tell) {
                Ok(found) => return self.complete(found, &task, &lost),
                Err(NoIndex::Because(why)) => why,
                Err(NoIndex::Failed(error)) => return Err(error),
                Err(NoIndex::Changed(session)) if changes < CHANGES_MAX => {
                    changes += 1;
                    if let Some(loss) = self.notice(&session)? {
                        lost.entry(session).or_insert(loss);
                    }
                    continue;
                }
                Err(NoIndex::Changed(session)) => format!("{session} changed since it was indexed"),
            };
            return self.complete(SearchPass::new(&self.store, &task).at_all(Some(why))?, &task, &lost);
        }
    }

    /// Adds to a result what could not be searched: lost lines, and the logs of other homes.
    fn complete(&self, mut found: Found, task: &Task<'_>, lost: &BTreeMap<SessionId, Loss>) -> Result<Found> {
        let recorded = self.store.join.recorded_losses()?;
        for log in &task.logs {
            if let Some(loss) = lost.get(&log.session) {
                found.note_lost(&log.session, loss.bytes, loss.to_string());
            }
            if let Some(loss) = recorded.get(&log.session) {
                found.note_lost(&log.session, loss.bytes, loss.to_string());
            }
        }
        if task.request.filter.session.is_none() {
            let join = &self.store.join;
            let home = join.home();
            let (sessions, first) = join.state().read(|tx| sessions::elsewhere(tx, &home, PAGE_MAX))?;
            let first = first.into_iter().map(|row| (row.session_id, row.home_id)).collect();
            found.elsewhere = Elsewhere { sessions, first };
        }
        Ok(found)
    }

    /// Deletes the index and builds it again from all logs.
    pub fn rebuild(&self, mut tell: impl FnMut(&Indexed)) -> Result<Indexed> {
        let join = &self.store.join;
        if !self.store.is_writable() {
            return Err(duolog_join::Error::ReadOnly.into());
        }
        drop(self.lend());
        join.catch_up(FoldBound::from(u64::MAX))?;
        let every = join.log_standings()?;
        let state = &self.store.core.home.state;
        Index::delete(state)?;
        let mut index = Index::open_or_create(state, join.home())?;
        let known = index.snapshot()?.progress()?;
        let path = Index::path_in(state);
        let indexing = index.indexing()?.ok_or(IndexError::Busy(path))?;
        let logs: Vec<&LogStanding> = every.iter().collect();
        let work = Work::of(&known, &every, &logs);
        Fold { store: &self.store, indexing: &indexing, budget: u64::MAX, tell: &mut tell }.run(&work)
    }

    /// Checks the whole index and returns its status.
    pub fn index_status(&self) -> IndexStatus {
        let index = match Index::open(&self.store.core.home.state, self.store.join.home()) {
            Ok(index) => index,
            Err(IndexError::Missing(_)) => return IndexStatus::Absent,
            Err(error) => return IndexStatus::Unusable(with_causes(&error)),
        };
        match index.examine() {
            Ok(found) if found.findings.is_empty() => {
                IndexStatus::Complete { sessions: found.sessions, texts: found.texts, bytes: found.bytes }
            }
            Ok(found) => IndexStatus::Unusable(found.findings.join(", ")),
            Err(error) => IndexStatus::Unusable(with_causes(&error)),
        }
    }

    /// Searches with the index, or returns the reason why it cannot.
    fn with_index(&self, task: &Task<'_>, tell: &mut dyn FnMut(&Indexed)) -> std::result::Result<Found, NoIndex> {
        if let Some(why) = self.forbids(task.request) {
            return Err(NoIndex::Because(why));
        }
        let mut index = self.lend().map_or_else(|| self.open(), Ok)?;
        let why = match task.request.wait {
            Wait::Complete => self.bring_up(&mut index, task, tell)?,
            Wait::Briefly => None,
        };
        let found = SearchPass::new(&self.store, task).with(&index, why).map_err(|error| self.give_up(error))?;
        self.give_back(index);
        found.map_err(NoIndex::Changed)
    }

    /// Records that a log was changed, so that it is indexed as it is now. Returns what it lacks.
    fn notice(&self, session: &SessionId) -> Result<Option<Loss>> {
        let join = &self.store.join;
        let loss = match join.read_log(session) {
            Ok(log) => log.loss,
            Err(duolog_join::Error::Log(_) | duolog_join::Error::NoSession(_) | duolog_join::Error::Deleted(_)) => None,
            Err(error) => return Err(error.into()),
        };
        match join.fold(session, join.limits().fold_before_read_bytes) {
            // A log that cannot be folded is read by the search, which reports it.
            Ok(_)
            | Err(duolog_join::Error::Log(_) | duolog_join::Error::NoSession(_) | duolog_join::Error::Deleted(_)) => {
                Ok(loss)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the reason not to use the index; `None` if it may be used.
    fn forbids(&self, request: &SearchRequest) -> Option<String> {
        let why = if request.index == UseIndex::Never {
            "as asked"
        } else if !request.query.has_words() {
            "the query has no word that can be indexed"
        } else if !self.store.is_writable() {
            "this home is read-only"
        } else {
            return None;
        };
        Some(why.to_owned())
    }

    fn open(&self) -> std::result::Result<Index, NoIndex> {
        // The index uses a write-ahead log, which needs shared memory. The state may be on a server, but the index
        // never is.
        let file_system = duolog_state::file_system_of(&self.store.core.home.state)
            .map_err(|error| NoIndex::Because(with_causes(&error)))?;
        if let Some(danger) = file_system.danger {
            return Err(NoIndex::Because(format!("the home is on {danger}, where an index is not safe")));
        }
        let opened = Index::open_or_create(&self.store.core.home.state, self.store.join.home());
        opened.map_err(|error| NoIndex::Because(with_causes(&error)))
    }

    /// Adds new lines to the index, unless another process does. Returns the reason if the index is not complete then.
    fn bring_up(
        &self,
        index: &mut Index,
        task: &Task<'_>,
        tell: &mut dyn FnMut(&Indexed),
    ) -> std::result::Result<Option<String>, NoIndex> {
        let given_up = |error: IndexError| self.give_up(error.into());
        let known = index.snapshot().and_then(|snapshot| snapshot.progress()).map_err(given_up)?;
        let work = Work::of(&known, task.every, &task.logs);
        if work.is_done() {
            return Ok(None);
        }
        let indexing = match index.indexing() {
            Ok(Some(indexing)) => indexing,
            Ok(None) => return Ok(Some("another process is updating the index".to_owned())),
            Err(error) => return Ok(Some(with_causes(&error))),
        };
        let mut fold = Fold { store: &self.store, indexing: &indexing, budget: INDEX_BEFORE_SEARCH_BYTES, tell };
        match fold.run(&work) {
            Ok(done) if done.bytes < done.of_bytes && done.failed.is_empty() => {
                Ok(Some("the index is too far behind to wait for it".to_owned()))
            }
            Ok(_) => Ok(None),
            // The current content of the index can still be used.
            Err(error) if matches!(error.index(), Some(IndexError::Full(_) | IndexError::Busy(_))) => {
                Ok(Some(with_causes(&error)))
            }
            Err(error) => Err(self.give_up(error)),
        }
    }

    /// Closes an index that failed, and deletes it if the next search should rebuild it.
    fn give_up(&self, error: Error) -> NoIndex {
        let Some(cause) = error.index() else { return NoIndex::Failed(error) };
        let mut why = with_causes(&error);
        if cause.is_rebuildable() && Index::delete(&self.store.core.home.state).is_ok() {
            why.push_str("; the next search rebuilds it");
        }
        NoIndex::Because(why)
    }

    /// Returns the index that an earlier search left open, if its file was not replaced.
    fn lend(&self) -> Option<Index> {
        let mut kept = self.store.core.index.lock();
        kept.take().filter(Index::is_in_place)
    }

    fn give_back(&self, index: Index) {
        *self.store.core.index.lock() = Some(index);
    }
}

/// Returns an error if the token belongs to another search.
fn check_token(request: &SearchRequest) -> Result<()> {
    match request.after.as_ref().filter(|token| token.list != request.list()) {
        Some(token) => Err(Error::Invalid(Invalid::OtherPage(token.to_string()))),
        None => Ok(()),
    }
}

/// The reason to search without the index.
enum NoIndex {
    /// A log changed since it was indexed.
    Changed(SessionId),
    /// The index cannot be used, for this reason.
    Because(String),
    /// The search itself failed.
    Failed(Error),
}

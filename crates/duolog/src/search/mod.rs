//! Searching what the logs say, all of them at once.
//!
//! The index knows where something may be; the log is read there again, and [`Query::matches`] decides. What the index
//! does not know, because it is new, being written, or because there is no index that can be used, is read from the log.
//! So the answer is the same either way, and always whole.

mod directory;
mod fold;
mod model;
mod reading;
mod rules;
mod scan;

pub use directory::find_in;
pub use duolog_search::{BadQuery, Filter as SearchFilter, Query, Snippet};
pub use model::{Elsewhere, Found, Hit, HitToken, IndexStanding, Indexed, SearchRequest, UseIndex};

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
use scan::Looking;

/// How many logs that somebody changed one search takes notice of; then it reads all of them.
const CHANGES_MAX: u32 = 8;

/// The search over a store's logs.
#[derive(Clone)]
pub struct Search {
    pub(crate) store: Store,
}

/// What one search has to look at.
struct Task<'t> {
    request: &'t SearchRequest,
    /// Every log of the home.
    every: &'t [LogStanding],
    /// Those that are searched.
    logs: Vec<&'t LogStanding>,
}

impl Search {
    /// Finds texts, the newest first. `tell` is told how far the index was brought, where that takes a while.
    ///
    /// An index that cannot be used costs time and nothing else: the answer says why. Returns an error if the token is of
    /// another search.
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
                // Gone, or the log of another home: that is said, and not that nothing was found.
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
                Err(NoIndex::Changed(session)) => format!("{session} is not what was indexed"),
            };
            return self.complete(Looking::new(&self.store, &task).at_all(Some(why))?, &task, &lost);
        }
    }

    /// Adds to an answer what could not be searched: lost lines, and the logs of other homes.
    fn complete(&self, mut found: Found, task: &Task<'_>, lost: &BTreeMap<SessionId, Loss>) -> Result<Found> {
        let recorded = self.store.join.recorded_losses()?;
        for log in &task.logs {
            if let Some(loss) = lost.get(&log.session) {
                found.note_unread(&log.session, loss.to_string());
            }
            if let Some(loss) = recorded.get(&log.session) {
                found.note_unread(&log.session, loss.to_string());
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

    /// Throws the index away and makes it anew from all that the logs hold.
    pub fn rebuild(&self, mut tell: impl FnMut(&Indexed)) -> Result<Indexed> {
        let join = &self.store.join;
        if !self.store.is_writable() {
            return Err(duolog_join::Error::ReadOnly.into());
        }
        drop(self.lend());
        join.catch_up(FoldBound::from(u64::MAX))?;
        let every = join.log_standings()?;
        let state = &self.store.core.home.state;
        Index::throw_away(state)?;
        let mut index = Index::open_or_make(state, join.home())?;
        let known = index.snapshot()?.standings()?;
        let path = Index::path_in(state);
        let indexing = index.indexing()?.ok_or(IndexError::Busy(path))?;
        let logs: Vec<&LogStanding> = every.iter().collect();
        let work = Work::of(&known, &every, &logs);
        Fold { store: &self.store, indexing: &indexing, budget: u64::MAX, tell: &mut tell }.run(&work)
    }

    /// How the index stands, looked at from end to end.
    pub fn standing(&self) -> IndexStanding {
        let index = match Index::open(&self.store.core.home.state, self.store.join.home()) {
            Ok(index) => index,
            Err(IndexError::Missing(_)) => return IndexStanding::Absent,
            Err(error) => return IndexStanding::Unusable(with_causes(&error)),
        };
        match index.examine() {
            Ok(found) if found.findings.is_empty() => {
                IndexStanding::Whole { sessions: found.sessions, texts: found.texts, bytes: found.bytes }
            }
            Ok(found) => IndexStanding::Unusable(found.findings.join(", ")),
            Err(error) => IndexStanding::Unusable(with_causes(&error)),
        }
    }

    /// Answers with the index, or says why not.
    fn with_index(&self, task: &Task<'_>, tell: &mut dyn FnMut(&Indexed)) -> std::result::Result<Found, NoIndex> {
        if let Some(why) = self.forbids(task.request) {
            return Err(NoIndex::Because(why));
        }
        let mut index = self.lend().map_or_else(|| self.open(), Ok)?;
        let why = match task.request.wait {
            Wait::Complete => self.bring_up(&mut index, task, tell)?,
            Wait::Briefly => None,
        };
        let found = Looking::new(&self.store, task).with(&index, why).map_err(|error| self.give_up(error))?;
        self.give_back(index);
        found.map_err(NoIndex::Changed)
    }

    /// Has it recorded that a log is not what it was: from then on it is known, and indexed, as it is. Returns what it
    /// lacks.
    fn notice(&self, session: &SessionId) -> Result<Option<Loss>> {
        let join = &self.store.join;
        let loss = match join.read_log(session) {
            Ok(log) => log.loss,
            Err(duolog_join::Error::Log(_) | duolog_join::Error::NoSession(_) | duolog_join::Error::Deleted(_)) => None,
            Err(error) => return Err(error.into()),
        };
        match join.fold(session, join.limits().fold_before_read_bytes) {
            // What cannot be folded is read where it is searched, and told of there.
            Ok(_)
            | Err(duolog_join::Error::Log(_) | duolog_join::Error::NoSession(_) | duolog_join::Error::Deleted(_)) => {
                Ok(loss)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Why the index is not to be used; nothing where it is.
    fn forbids(&self, request: &SearchRequest) -> Option<String> {
        let why = if request.index == UseIndex::Never {
            "as asked"
        } else if !request.query.has_words() {
            "the query has no word that an index could know"
        } else if !self.store.is_writable() {
            "this home cannot be written"
        } else {
            return None;
        };
        Some(why.to_owned())
    }

    fn open(&self) -> std::result::Result<Index, NoIndex> {
        // A write-ahead log needs memory that every process sees alike; the state may be on a server, the index is not.
        let file_system = duolog_state::file_system_of(&self.store.core.home.state)
            .map_err(|error| NoIndex::Because(with_causes(&error)))?;
        if let Some(danger) = file_system.danger {
            return Err(NoIndex::Because(format!("the home is on {danger}, where an index is not safe")));
        }
        let opened = Index::open_or_make(&self.store.core.home.state, self.store.join.home());
        opened.map_err(|error| NoIndex::Because(with_causes(&error)))
    }

    /// Adds what is new, if no other process does. Says why not all of it is in the index then.
    fn bring_up(
        &self,
        index: &mut Index,
        task: &Task<'_>,
        tell: &mut dyn FnMut(&Indexed),
    ) -> std::result::Result<Option<String>, NoIndex> {
        let given_up = |error: IndexError| self.give_up(error.into());
        let known = index.snapshot().and_then(|snapshot| snapshot.standings()).map_err(given_up)?;
        let work = Work::of(&known, task.every, &task.logs);
        if work.is_done() {
            return Ok(None);
        }
        let indexing = match index.indexing() {
            Ok(Some(indexing)) => indexing,
            Ok(None) => return Ok(Some("another process is bringing the index up to date".to_owned())),
            Err(error) => return Ok(Some(with_causes(&error))),
        };
        let mut fold = Fold { store: &self.store, indexing: &indexing, budget: INDEX_BEFORE_SEARCH_BYTES, tell };
        match fold.run(&work) {
            Ok(done) if done.bytes < done.of_bytes && done.failed.is_empty() => {
                Ok(Some("there is more to index than one search waits for".to_owned()))
            }
            Ok(_) => Ok(None),
            // What stands there can still be asked.
            Err(error) if matches!(error.index(), Some(IndexError::Full(_) | IndexError::Busy(_))) => {
                Ok(Some(with_causes(&error)))
            }
            Err(error) => Err(self.give_up(error)),
        }
    }

    /// An index that failed is not asked again, and thrown away where that helps the next search.
    fn give_up(&self, error: Error) -> NoIndex {
        let Some(cause) = error.index() else { return NoIndex::Failed(error) };
        let mut why = with_causes(&error);
        if cause.is_to_be_made_anew() && Index::throw_away(&self.store.core.home.state).is_ok() {
            why.push_str("; the next search makes it anew");
        }
        NoIndex::Because(why)
    }

    /// The index that an earlier search left open, if it is still the one at its place.
    fn lend(&self) -> Option<Index> {
        let mut kept = self.store.core.index.lock();
        kept.take().filter(Index::is_in_place)
    }

    fn give_back(&self, index: Index) {
        *self.store.core.index.lock() = Some(index);
    }
}

/// Returns an error if the token is of another search.
fn check_token(request: &SearchRequest) -> Result<()> {
    match request.after.as_ref().filter(|token| token.list != request.list()) {
        Some(token) => Err(Error::Invalid(Invalid::OtherPage(token.to_string()))),
        None => Ok(()),
    }
}

/// Why a search goes without the index.
enum NoIndex {
    /// A log is not what was indexed.
    Changed(SessionId),
    /// It cannot be used, and this is said.
    Because(String),
    /// The search itself failed.
    Failed(Error),
}

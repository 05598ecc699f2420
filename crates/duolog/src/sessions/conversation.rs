//! A branch of a session inside a transaction: found or created, appended to, truncated.

use duolog_join::Error as JoinError;
use duolog_state::Tx;
use duolog_state::owned::branches::{self, BranchRow};
use duolog_state::owned::compactions::{self, CompactionEntry, CompactionRow};
use duolog_state::owned::messages::{self, MessageRow};
use duolog_state::owned::pool_segments::{self, PoolSegmentRow};
use duolog_state::owned::progression_items;
use duolog_state::owned::progressions::{self, Fresh, ProgressionRow};
use duolog_state::owned::sessions::{self, PoolRow};
use duolog_types::{BranchId, MessageId, ProgressionId, SessionId, Timestamp};

use super::active;
use crate::error::{Conflict, Error, Invalid, NotFound, Result};
use crate::resolve::only;

/// A reference to a branch of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BranchRef {
    /// The default branch.
    #[default]
    Default,
    /// The branch with this id, or the only one with this name.
    Text(String),
}

impl BranchRef {
    /// Returns the reference for a name or id; the default branch if there is none.
    pub fn named(text: Option<&str>) -> Self {
        text.map_or(Self::Default, |text| Self::Text(text.to_owned()))
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Default => None,
            Self::Text(text) => Some(text),
        }
    }
}

impl From<&BranchId> for BranchRef {
    fn from(id: &BranchId) -> Self {
        Self::Text(id.to_string())
    }
}

/// A branch, the end of its history, and the pool of its session.
pub(super) struct Place {
    /// The progression of the pool, which lists the session's messages on all branches and on none.
    pub(super) pool: ProgressionId,
    pub(super) branch: BranchRow,
    pub(super) head: ProgressionRow,
    /// The last segment of the pool.
    last: Option<PoolSegmentRow>,
    /// The first and the last message that were added to the pool since this was opened.
    pooled: Option<(MessageId, MessageId)>,
}

/// Finds a branch; `None` if it is the default branch and does not exist yet.
///
/// # Errors
///
/// Returns an error if a branch that is named does not exist.
pub(super) fn find(tx: &mut Tx<'_>, session: &SessionId, which: &BranchRef) -> Result<Option<Place>> {
    Ok(look(tx, session, which)?.place)
}

/// Finds a branch for a change: no other transaction changes a conversation of the session until this one ends.
pub(super) fn enter(tx: &mut Tx<'_>, session: &SessionId, which: &BranchRef, now: Timestamp) -> Result<Option<Place>> {
    sessions::enter(tx, session, now)?;
    find(tx, session, which)
}

/// Opens the branch to add to. The default branch is created if it does not exist.
pub(super) fn open(tx: &mut Tx<'_>, session: &SessionId, which: &BranchRef, now: Timestamp) -> Result<Place> {
    sessions::enter(tx, session, now)?;
    find_or_make(tx, session, which, now)
}

/// Opens the branch for new messages, given the first and the last of them, so that [`Place::note`] is not needed.
pub(super) fn open_for(
    tx: &mut Tx<'_>,
    session: &SessionId,
    which: &BranchRef,
    (first, last): (&MessageId, &MessageId),
    now: Timestamp,
) -> Result<Place> {
    sessions::enter_with(tx, session, now, first, last)?;
    find_or_make(tx, session, which, now)
}

fn find_or_make(tx: &mut Tx<'_>, session: &SessionId, which: &BranchRef, now: Timestamp) -> Result<Place> {
    let seen = look(tx, session, which)?;
    if let Some(place) = seen.place {
        return Ok(place);
    }
    let about = BranchAbout { id: BranchId::new(), name: None, user_id: None, node_metadata: None };
    let (pool, branch, head) = begin(tx, session, seen.pool, about, IsDefault::Yes, now)?;
    Ok(Place { pool, branch, head, last: seen.last, pooled: None })
}

/// The properties of a new branch.
pub(super) struct BranchAbout {
    pub(super) id: BranchId,
    pub(super) name: Option<String>,
    pub(super) user_id: Option<String>,
    pub(super) node_metadata: Option<String>,
}

/// The role of a branch in its session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IsDefault {
    Yes,
    No,
}

/// Creates a branch without a history. It becomes the default if the session has none.
pub(super) fn create(tx: &mut Tx<'_>, session: &SessionId, about: BranchAbout, now: Timestamp) -> Result<BranchRow> {
    sessions::enter(tx, session, now)?;
    let seen = look(tx, session, &BranchRef::Default)?;
    let default = if seen.place.is_some() { IsDefault::No } else { IsDefault::Yes };
    check_name_free(tx, session, about.name.as_deref())?;
    Ok(begin(tx, session, seen.pool, about, default, now)?.1)
}

fn begin(
    tx: &mut Tx<'_>,
    session: &SessionId,
    pool: Option<ProgressionId>,
    about: BranchAbout,
    default: IsDefault,
    now: Timestamp,
) -> Result<(ProgressionId, BranchRow, ProgressionRow)> {
    let pool = if let Some(pool) = pool {
        pool
    } else {
        let pool = ProgressionRow::new(Some(session), now);
        progressions::insert(tx, &pool)?;
        sessions::set_pool(tx, session, &pool.id)?;
        pool.id
    };
    let head = ProgressionRow::new(Some(session), now);
    progressions::insert(tx, &head)?;
    let BranchAbout { id, name, user_id, node_metadata } = about;
    let branch = BranchRow {
        id,
        created_at: now,
        node_metadata,
        user_id,
        name,
        session_id: session.clone(),
        progression_id: head.id.clone(),
        system_msg_id: None,
        forked: None,
        is_default: default == IsDefault::Yes,
    };
    branches::insert(tx, &branch)?;
    Ok((pool, branch, head))
}

impl Place {
    /// Appends a message to the branch, and to the pool if it is new there. Call [`Place::note`] after the last one.
    pub(super) fn append(&mut self, tx: &mut Tx<'_>, message: &MessageId, fresh: Fresh) -> Result<u64> {
        let is_new = self.is_new(tx, message, fresh)?;
        let end = self.head.end;
        let ord = progressions::append(tx, &mut self.head, message, fresh)?;
        if is_new {
            self.arrive(tx, ord)?;
            self.pooled(message, message);
        } else if self.head.end > end && self.goes_on() {
            // The pool has it elsewhere.
            self.pause(tx, ord)?;
        }
        Ok(ord)
    }

    /// Inserts messages and appends them to the branch and the pool.
    pub(super) fn add(&mut self, tx: &mut Tx<'_>, new: &[MessageRow]) -> Result<()> {
        messages::add(tx, new)?;
        let ids: Vec<MessageId> = new.iter().map(|message| message.id.clone()).collect();
        let Some((first, last)) = ids.first().zip(ids.last()) else { return Ok(()) };
        let from = self.head.end;
        progressions::append_new(tx, &mut self.head, &ids)?;
        self.arrive(tx, from)?;
        self.pooled(first, last);
        Ok(())
    }

    /// Adds a new message that is on no branch to the pool.
    pub(super) fn pool(&mut self, tx: &mut Tx<'_>, message: &MessageId) -> Result<()> {
        let ord = self.end_pool(tx)?;
        let from_ord = pool_segments::end_in(tx, &self.pool)?;
        progression_items::insert(tx, &self.pool, from_ord, message)?;
        let (progression_id, to_ord) = (self.pool.clone(), Some(from_ord + 1));
        self.extend(tx, PoolSegmentRow { ord, progression_id, from_ord, to_ord })?;
        self.pooled(message, message);
        Ok(())
    }

    /// Returns true if the session does not have a message yet.
    fn is_new(&self, tx: &mut Tx<'_>, message: &MessageId, fresh: Fresh) -> Result<bool> {
        Ok(fresh == Fresh::Yes || !pool_segments::has(tx, &self.branch.session_id, message)?)
    }

    /// Continues the pool with the items of the branch from an ordinal on.
    fn arrive(&mut self, tx: &mut Tx<'_>, from_ord: u64) -> Result<()> {
        if self.goes_on() {
            return Ok(());
        }
        let ord = self.end_pool(tx)?;
        let row = PoolSegmentRow { ord, progression_id: self.head.id.clone(), from_ord, to_ord: None };
        self.extend(tx, row)
    }

    /// Returns true if the last segment of the pool ends at the end of the branch.
    fn goes_on(&self) -> bool {
        self.last.as_ref().is_some_and(|last| last.grows_with(&self.head.id))
    }

    /// Ends the last segment of the pool, and returns the start of the next one.
    fn end_pool(&mut self, tx: &mut Tx<'_>) -> Result<u64> {
        let Some(last) = self.last.clone() else { return Ok(0) };
        let to = last.to_ord.map_or_else(|| progressions::get(tx, &last.progression_id).map(|row| row.end), Ok)?;
        if last.to_ord.is_none() {
            self.pause(tx, to)?;
        }
        Ok(last.ord + to.saturating_sub(last.from_ord))
    }

    /// Ends the last segment of the pool before an ordinal.
    fn pause(&mut self, tx: &mut Tx<'_>, to: u64) -> Result<()> {
        if let Some(last) = &mut self.last {
            pool_segments::end(tx, &self.branch.session_id, last.ord, to)?;
            last.to_ord = Some(to);
        }
        Ok(())
    }

    fn extend(&mut self, tx: &mut Tx<'_>, row: PoolSegmentRow) -> Result<()> {
        pool_segments::insert(tx, &self.branch.session_id, &row)?;
        self.last = Some(row);
        Ok(())
    }

    fn pooled(&mut self, first: &MessageId, last: &MessageId) {
        let first = self.pooled.take().map_or_else(|| first.clone(), |(first, _)| first);
        self.pooled = Some((first, last.clone()));
    }

    /// Writes the first and last message of the pool to the session's row.
    pub(super) fn note(&mut self, tx: &mut Tx<'_>) -> Result<()> {
        if let Some((first, last)) = self.pooled.take() {
            sessions::note_messages(tx, &self.branch.session_id, &first, &last)?;
        }
        Ok(())
    }

    /// Truncates the history to its first `to` items. Summaries of ranges that are cut are undone.
    pub(super) fn cut(&mut self, tx: &mut Tx<'_>, to: u64, now: Timestamp) -> Result<()> {
        if to >= self.head.end {
            return Ok(());
        }
        if active::shown(tx, &self.branch)?.iter().any(|one| one.to > to) {
            for one in active::all(tx, &self.branch)?.iter().filter(|one| one.to > to) {
                self.undo(tx, one, now)?;
            }
        }
        let progression = progressions::cut(tx, &self.head, to, Some(&self.pool), now)?;
        self.branch.progression_id = progression;
        self.head = progressions::get(tx, &self.branch.progression_id)?;
        self.last = pool_segments::last(tx, &self.branch.session_id)?;
        let (first, last) = pool_segments::bookmarks(tx, &self.branch.session_id)?;
        sessions::set_bookmarks(tx, &self.branch.session_id, first.as_ref(), last.as_ref())?;
        Ok(())
    }

    /// Undoes a summary on this branch.
    pub(super) fn undo(&self, tx: &mut Tx<'_>, one: &active::Active, now: Timestamp) -> Result<()> {
        let said = CompactionEntry::Undone { branch: one.branch.clone(), seq: one.seq };
        self.say(tx, one.from, one.to, said, now)
    }

    /// Adds a compaction row to this branch.
    pub(super) fn say(
        &self,
        tx: &mut Tx<'_>,
        from_ord: u64,
        to_ord: u64,
        entry: CompactionEntry,
        now: Timestamp,
    ) -> Result<()> {
        let seq = compactions::last_seq(tx, &self.branch.id)? + 1;
        let row = CompactionRow { branch_id: self.branch.id.clone(), seq, from_ord, to_ord, entry, created_at: now };
        Ok(compactions::insert(tx, &row)?)
    }
}

/// The conversations of a session.
struct Seen {
    pool: Option<ProgressionId>,
    last: Option<PoolSegmentRow>,
    place: Option<Place>,
}

/// Looks up a branch of an existing session.
fn look(tx: &mut Tx<'_>, session: &SessionId, which: &BranchRef) -> Result<Seen> {
    let (pool, last, found) = match which {
        BranchRef::Default => {
            let row = branches::find_default(tx, session)?.ok_or_else(|| JoinError::NoSession(session.clone()))?;
            (live(session, row.pool)?, row.last, row.branch)
        }
        BranchRef::Text(text) => {
            let row = sessions::pool(tx, session)?.ok_or_else(|| JoinError::NoSession(session.clone()))?;
            let (pool, branch) = (live(session, row)?, named(tx, session, text)?);
            let head = progressions::get(tx, &branch.progression_id)?;
            (pool, pool_segments::last(tx, session)?, Some((branch, head)))
        }
    };
    let place = |(pool, (branch, head))| Place { pool, branch, head, last: last.clone(), pooled: None };
    Ok(Seen { place: pool.clone().zip(found).map(place), pool, last })
}

/// Returns the pool of a session, unless the session was deleted.
fn live(session: &SessionId, row: PoolRow) -> Result<Option<ProgressionId>> {
    if row.deleted {
        return Err(JoinError::Deleted(session.clone()).into());
    }
    Ok(row.progression_id)
}

/// Returns an error if a branch of the session has this name. The session is locked, so no other transaction uses the
/// name meanwhile.
pub(super) fn check_name_free(tx: &mut Tx<'_>, session: &SessionId, name: Option<&str>) -> Result<()> {
    let Some(name) = name else { return Ok(()) };
    match branches::named(tx, session, name, 1)?.pop() {
        None => Ok(()),
        Some(branch) => {
            Err(Error::Conflict(Conflict::BranchNameTaken { name: name.to_owned(), branch, session: session.clone() }))
        }
    }
}

/// Returns the branch with this id, the only one with this name, or the only one whose id starts with the text.
fn named(tx: &mut Tx<'_>, session: &SessionId, text: &str) -> Result<BranchRow> {
    if let Ok(id) = BranchId::parse(text)
        && let Some(row) = branches::find(tx, &id)?
    {
        if row.session_id == *session {
            return Ok(row);
        }
        return Err(Error::Invalid(Invalid::OtherSession { branch: id, session: row.session_id }));
    }
    let mut found = branches::named(tx, session, text, 4)?;
    if found.len() > 1 {
        let found = found.iter().map(ToString::to_string).collect();
        return Err(Error::Invalid(Invalid::AmbiguousBranch { name: text.to_owned(), found }));
    }
    let id = match found.pop() {
        None if !text.is_empty() => only("branch", text, branches::starting_with(tx, Some(session), text, 4)?)?,
        found => found,
    };
    let row = id.map(|id| branches::find(tx, &id)).transpose()?.flatten();
    row.ok_or_else(|| Error::NotFound(NotFound::Branch { branch: text.to_owned(), session: session.clone() }))
}

//! A branch of a session inside a transaction: found or made, appended to, cut.

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

/// Which branch of a session is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BranchRef {
    /// The one that the session begins with.
    #[default]
    Default,
    /// The one with this id, or the only one that is called so.
    Text(String),
}

impl BranchRef {
    /// The branch that a person names; the default where nobody does.
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

/// A branch, where its history ends, and the pool of its session.
pub(super) struct Place {
    /// The progression of what is on no branch.
    pub(super) pool: ProgressionId,
    pub(super) branch: BranchRow,
    pub(super) head: ProgressionRow,
    /// The last stretch of the pool.
    last: Option<PoolSegmentRow>,
    /// The first and the last message that the pool has since this was opened.
    pooled: Option<(MessageId, MessageId)>,
}

/// The branch, if anything was ever said on it. One that is named must be there.
pub(super) fn find(tx: &mut Tx<'_>, session: &SessionId, which: &BranchRef) -> Result<Option<Place>> {
    Ok(look(tx, session, which)?.place)
}

/// The same, to be changed: until this transaction ends, no other changes a conversation of the session.
pub(super) fn enter(tx: &mut Tx<'_>, session: &SessionId, which: &BranchRef, now: Timestamp) -> Result<Option<Place>> {
    sessions::enter(tx, session, now)?;
    find(tx, session, which)
}

/// The branch to add to: the default one is made where there is none.
pub(super) fn open(tx: &mut Tx<'_>, session: &SessionId, which: &BranchRef, now: Timestamp) -> Result<Place> {
    sessions::enter(tx, session, now)?;
    find_or_make(tx, session, which, now)
}

/// The same, for messages that will be added to it, by the first and the last of them: nothing is left to be noted.
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

/// What a new branch says about itself.
pub(super) struct BranchAbout {
    pub(super) id: BranchId,
    pub(super) name: Option<String>,
    pub(super) user_id: Option<String>,
    pub(super) node_metadata: Option<String>,
}

/// Whether a branch is the default of its session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IsDefault {
    Yes,
    No,
}

/// Creates a branch without a history: the default one if the session has none.
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
    /// Puts a message at the end, and into the pool if it is new there. [`Place::note`] ends a row of these.
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

    /// Adds messages, and puts them at the end and into the pool.
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

    /// Has the session's pool list a message that was just made and is on no branch.
    pub(super) fn pool(&mut self, tx: &mut Tx<'_>, message: &MessageId) -> Result<()> {
        let ord = self.end_pool(tx)?;
        let from_ord = pool_segments::end_in(tx, &self.pool)?;
        progression_items::insert(tx, &self.pool, from_ord, message)?;
        let (progression_id, to_ord) = (self.pool.clone(), Some(from_ord + 1));
        self.extend(tx, PoolSegmentRow { ord, progression_id, from_ord, to_ord })?;
        self.pooled(message, message);
        Ok(())
    }

    /// Whether the session has not got a message yet.
    fn is_new(&self, tx: &mut Tx<'_>, message: &MessageId, fresh: Fresh) -> Result<bool> {
        Ok(fresh == Fresh::Yes || !pool_segments::has(tx, &self.branch.session_id, message)?)
    }

    /// Has the pool go on with what stands on the branch from a place on.
    fn arrive(&mut self, tx: &mut Tx<'_>, from_ord: u64) -> Result<()> {
        if self.goes_on() {
            return Ok(());
        }
        let ord = self.end_pool(tx)?;
        let row = PoolSegmentRow { ord, progression_id: self.head.id.clone(), from_ord, to_ord: None };
        self.extend(tx, row)
    }

    /// Whether the pool goes on as the branch does.
    fn goes_on(&self) -> bool {
        self.last.as_ref().is_some_and(|last| last.grows_with(&self.head.id))
    }

    /// Has the pool's last stretch end, and says where the next one begins.
    fn end_pool(&mut self, tx: &mut Tx<'_>) -> Result<u64> {
        let Some(last) = self.last.clone() else { return Ok(0) };
        let to = last.to_ord.map_or_else(|| progressions::get(tx, &last.progression_id).map(|row| row.end), Ok)?;
        if last.to_ord.is_none() {
            self.pause(tx, to)?;
        }
        Ok(last.ord + to.saturating_sub(last.from_ord))
    }

    /// Has the pool's last stretch end before a place.
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

    /// Notes in the session's row what its pool lists since it was opened.
    pub(super) fn note(&mut self, tx: &mut Tx<'_>) -> Result<()> {
        if let Some((first, last)) = self.pooled.take() {
            sessions::note_messages(tx, &self.branch.session_id, &first, &last)?;
        }
        Ok(())
    }

    /// Cuts the history to its first `to` items. Summaries of what is cut into no longer hold.
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

    /// Says that a summary no longer holds on this branch.
    pub(super) fn undo(&self, tx: &mut Tx<'_>, one: &active::Active, now: Timestamp) -> Result<()> {
        let said = CompactionEntry::Undone { branch: one.branch.clone(), seq: one.seq };
        self.say(tx, one.from, one.to, said, now)
    }

    /// Adds to what was said of this branch's ranges.
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

/// What there is of a session's conversations.
struct Seen {
    pool: Option<ProgressionId>,
    last: Option<PoolSegmentRow>,
    place: Option<Place>,
}

/// Looks a branch up in a session that is there.
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

/// The pool of a session that was not deleted.
fn live(session: &SessionId, row: PoolRow) -> Result<Option<ProgressionId>> {
    if row.deleted {
        return Err(JoinError::Deleted(session.clone()).into());
    }
    Ok(row.progression_id)
}

/// Refuses a name that a branch of the session has. The session was entered, so no other transaction gives it out meanwhile.
pub(super) fn check_name_free(tx: &mut Tx<'_>, session: &SessionId, name: Option<&str>) -> Result<()> {
    let Some(name) = name else { return Ok(()) };
    match branches::named(tx, session, name, 1)?.pop() {
        None => Ok(()),
        Some(branch) => {
            Err(Error::Conflict(Conflict::BranchNameTaken { name: name.to_owned(), branch, session: session.clone() }))
        }
    }
}

/// The branch of a session with this id, the only one that is called so, or the only one whose id begins so.
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

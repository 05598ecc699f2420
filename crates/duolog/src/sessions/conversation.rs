//! A branch of a session inside a transaction: found or made, appended to, cut.

use duolog_join::{Error as JoinError, Result as JoinResult};
use duolog_state::Tx;
use duolog_state::owned::branches::{self, BranchRow};
use duolog_state::owned::compactions::{self, CompactionRow, Said};
use duolog_state::owned::messages::{self, MessageRow};
use duolog_state::owned::progression_items;
use duolog_state::owned::progressions::{self, Fresh, ProgressionRow};
use duolog_state::owned::sessions::{self, PoolRow};
use duolog_types::{BranchId, MessageId, Moment, ProgressionId, SessionId};

use super::active;
use crate::error::{Error, refuse};

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
    pub(super) pool: ProgressionId,
    pub(super) branch: BranchRow,
    pub(super) head: ProgressionRow,
    /// Where the pool ends, where that is known.
    pool_end: Option<u64>,
    /// The first and the last message that the pool lists since it was opened.
    pooled: Option<(MessageId, MessageId)>,
}

/// The branch, if anything was ever said on it. One that is named must be there.
pub(super) fn find(tx: &mut Tx<'_>, session: &SessionId, which: &BranchRef) -> JoinResult<Option<Place>> {
    Ok(look(tx, session, which)?.place)
}

/// The same, to be changed: until this transaction ends, no other changes a conversation of the session.
pub(super) fn enter(tx: &mut Tx<'_>, session: &SessionId, which: &BranchRef, now: Moment) -> JoinResult<Option<Place>> {
    sessions::enter(tx, session, now)?;
    find(tx, session, which)
}

/// The branch to add to: the default one is made where there is none.
pub(super) fn open(tx: &mut Tx<'_>, session: &SessionId, which: &BranchRef, now: Moment) -> JoinResult<Place> {
    sessions::enter(tx, session, now)?;
    find_or_make(tx, session, which, now)
}

/// The same, for messages that will be added to it, by the first and the last of them: nothing is left to be noted.
pub(super) fn open_for(
    tx: &mut Tx<'_>,
    session: &SessionId,
    which: &BranchRef,
    (first, last): (&MessageId, &MessageId),
    now: Moment,
) -> JoinResult<Place> {
    sessions::enter_with(tx, session, now, first, last)?;
    find_or_make(tx, session, which, now)
}

fn find_or_make(tx: &mut Tx<'_>, session: &SessionId, which: &BranchRef, now: Moment) -> JoinResult<Place> {
    let Seen { pool, place } = look(tx, session, which)?;
    if let Some(place) = place {
        return Ok(place);
    }
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
    let branch = BranchRow {
        id: BranchId::new(),
        created_at: now,
        node_metadata: None,
        user_id: None,
        name: None,
        session_id: session.clone(),
        progression_id: head.id.clone(),
        system_msg_id: None,
        forked: None,
        is_default: true,
    };
    branches::insert(tx, &branch)?;
    Ok(Place { pool, branch, head, pool_end: None, pooled: None })
}

impl Place {
    /// Puts a message at the end, and into the pool if it is new there. [`Place::note`] ends a row of these.
    pub(super) fn append(&mut self, tx: &mut Tx<'_>, message: &MessageId, fresh: Fresh) -> JoinResult<u64> {
        let ord = progressions::append(tx, &mut self.head, message, fresh)?;
        self.pool(tx, message, fresh)?;
        Ok(ord)
    }

    /// Adds messages, and puts them at the end and into the pool.
    pub(super) fn add(&mut self, tx: &mut Tx<'_>, new: &[MessageRow]) -> JoinResult<()> {
        messages::add(tx, new)?;
        let ids: Vec<MessageId> = new.iter().map(|message| message.id.clone()).collect();
        let Some((first, others)) = ids.split_first() else { return Ok(()) };
        progressions::append_new(tx, &mut self.head, &ids)?;
        // The first finds out where the pool ends.
        self.pool(tx, first, Fresh::Yes)?;
        if let (Some(last), Some(end)) = (others.last(), self.pool_end) {
            progression_items::insert_all(tx, &self.pool, end, others)?;
            self.pool_end = Some(end + others.len() as u64);
            self.pooled = self.pooled.take().map(|(first, _)| (first, last.clone()));
        }
        Ok(())
    }

    /// Has the session's pool list a message.
    pub(super) fn pool(&mut self, tx: &mut Tx<'_>, message: &MessageId, fresh: Fresh) -> JoinResult<()> {
        if fresh == Fresh::No && progression_items::ord_of(tx, &self.pool, message)?.is_some() {
            return Ok(());
        }
        let ord = match self.pool_end {
            Some(end) => progression_items::insert(tx, &self.pool, end, message).map(|()| end)?,
            None => progression_items::push_new(tx, &self.pool, message)?,
        };
        self.pool_end = Some(ord + 1);
        let first = self.pooled.take().map_or_else(|| message.clone(), |(first, _)| first);
        self.pooled = Some((first, message.clone()));
        Ok(())
    }

    /// Notes in the session's row what its pool lists since it was opened.
    pub(super) fn note(&mut self, tx: &mut Tx<'_>) -> JoinResult<()> {
        if let Some((first, last)) = self.pooled.take() {
            sessions::note_messages(tx, &self.branch.session_id, &first, &last)?;
        }
        Ok(())
    }

    /// Cuts the history to its first `to` items. Summaries of what is cut into no longer hold.
    pub(super) fn cut(&mut self, tx: &mut Tx<'_>, to: u64, now: Moment) -> JoinResult<()> {
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
        self.pool_end = None;
        let first = progression_items::first(tx, &self.pool)?;
        let last = progression_items::tail(tx, &self.pool, 0, 1)?.pop().map(|(_, message)| message);
        sessions::set_bookmarks(tx, &self.branch.session_id, first.as_ref(), last.as_ref())?;
        Ok(())
    }

    /// Says that a summary no longer holds on this branch.
    pub(super) fn undo(&self, tx: &mut Tx<'_>, one: &active::Active, now: Moment) -> JoinResult<()> {
        let said = Said::Undone { branch: one.branch.clone(), seq: one.seq };
        self.say(tx, one.from, one.to, said, now)
    }

    /// Adds to what was said of this branch's ranges.
    pub(super) fn say(&self, tx: &mut Tx<'_>, from_ord: u64, to_ord: u64, said: Said, now: Moment) -> JoinResult<()> {
        let seq = compactions::last_seq(tx, &self.branch.id)? + 1;
        let row = CompactionRow { branch_id: self.branch.id.clone(), seq, from_ord, to_ord, said, created_at: now };
        Ok(compactions::insert(tx, &row)?)
    }
}

/// What there is of a session's conversations.
struct Seen {
    pool: Option<ProgressionId>,
    place: Option<Place>,
}

/// Looks a branch up in a session that is there.
fn look(tx: &mut Tx<'_>, session: &SessionId, which: &BranchRef) -> JoinResult<Seen> {
    let (pool, pool_end, found) = match which {
        BranchRef::Default => {
            let row = branches::find_default(tx, session)?.ok_or_else(|| JoinError::NoSession(session.clone()))?;
            (live(session, row.pool)?, Some(row.pool_end), row.branch)
        }
        BranchRef::Text(text) => {
            let row = sessions::pool(tx, session)?.ok_or_else(|| JoinError::NoSession(session.clone()))?;
            let (pool, branch) = (live(session, row)?, named(tx, session, text)?);
            let head = progressions::get(tx, &branch.progression_id)?;
            (pool, None, Some((branch, head)))
        }
    };
    let place = |(pool, (branch, head))| Place { pool, branch, head, pool_end, pooled: None };
    Ok(Seen { place: pool.clone().zip(found).map(place), pool })
}

/// The pool of a session that was not deleted.
fn live(session: &SessionId, row: PoolRow) -> JoinResult<Option<ProgressionId>> {
    if row.deleted {
        return Err(JoinError::Deleted(session.clone()));
    }
    Ok(row.progression_id)
}

/// The branch of a session with this id, or the only one that is called so.
fn named(tx: &mut Tx<'_>, session: &SessionId, text: &str) -> JoinResult<BranchRow> {
    if let Ok(id) = BranchId::parse(text)
        && let Some(row) = branches::find(tx, &id)?
    {
        if row.session_id == *session {
            return Ok(row);
        }
        return Err(refuse(Error::OtherSession { branch: id, session: row.session_id }));
    }
    let mut found = branches::named(tx, session, text, 2)?;
    if found.len() > 1 {
        return Err(refuse(Error::AmbiguousBranch(text.to_owned())));
    }
    let row = found.pop().map(|id| branches::find(tx, &id)).transpose()?.flatten();
    row.ok_or_else(|| refuse(Error::NoBranch { branch: text.to_owned(), session: session.clone() }))
}

//! Sessions: what logs and everything else belong to.

mod active;
mod adding;
mod branches;
mod compaction;
mod contents;
mod conversation;
mod describe;
mod exchange;
mod items;
mod messages;
mod model;
mod portable;
mod reading;
mod similar;
mod status;
mod target;

pub(crate) mod rules;

#[cfg(test)]
mod tests;

use duolog_join::{Deleted, IdempotencyKey, Write, keep_operations_of_name, tell};
use duolog_state::Page;
use duolog_state::owned::sessions as table;
use duolog_state::owned::{branches as branch_table, pool_segments, session_owners};
use duolog_types::limits::PAGE_MAX;
use duolog_types::names::check_name;
use duolog_types::{Durability, OperationId, SessionId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Map;

pub use adding::{About, AddOptions, Added};
pub use branches::{Branch, BranchChange, Branches, Forked, NewBranch, NewFork};
pub use compaction::{Compaction, CompactionInfo, Summarised};
pub use conversation::BranchRef;
pub use duolog_join::{Conversations, Deleted as DeletedSession, RemovedLog};
pub use duolog_state::owned::sessions::SessionFilter;
pub use exchange::{Acknowledged, Address, Exchange, Inbox, Mail, Outgoing, Received, Recipient, Sent};
pub use items::{BrokenItem, Described, DescribedList, HistoryView, Item, ItemList, Items};
pub use messages::{Message, Messages, NewMessage};
pub use model::{NewSession, Session, SessionChange, SessionFigures, SessionList, SessionRef, SessionSummary};
pub(crate) use portable::write_mapped;
pub use portable::{Exported, ImportedSession};
pub use reading::{RawItem, RawItems};
pub(crate) use rules::{bounded, seen_in};
pub use similar::{Metric, Similar, SimilarFilter};
pub use status::{Changed, Liveness, Owner, Status, StatusTransition, StatusUpdate};
pub use target::WriteTarget;

use crate::Wait;
use crate::error::{Conflict, Error, ErrorKind, Invalid, NotFound, Result};
use crate::resolve::resolve;
use crate::store::Store;

/// The sessions of a store.
#[derive(Clone)]
pub struct Sessions {
    pub(crate) store: Store,
    pub(crate) operation: Option<OperationId>,
    pub(crate) resolved: Option<SessionId>,
}

impl Sessions {
    /// The same, under an operation id: what is then made, renamed or deleted happens once, however often it is asked.
    ///
    /// Asked again with the same id, the same request gets the same answer, and another one is a conflict. An id is for
    /// one request; a session that is made is given back as it is by now, and one that is renamed as it was then.
    #[must_use]
    pub fn once(mut self, operation: OperationId) -> Self {
        self.operation = Some(operation);
        self
    }

    /// The same, for a reference that was resolved before, to this session: a change is made to it and to no other, whatever
    /// the reference names by now. A session that is gone is not found.
    #[must_use]
    pub fn resolved_to(mut self, session: &SessionId) -> Self {
        self.resolved = Some(session.clone());
        self
    }

    /// The items of a session: what the model sees. They are those of its default branch, unless another is said.
    pub fn items(&self, session: &SessionId) -> Items {
        Items { store: self.store.clone(), session: session.clone(), branch: BranchRef::Default }
    }

    /// The branches of a session.
    pub fn branches(&self, session: &SessionId) -> Branches {
        Branches { store: self.store.clone(), session: session.clone() }
    }

    /// The summaries of a branch of a session.
    pub fn compaction(&self, session: &SessionId, branch: BranchRef) -> Compaction {
        Compaction { store: self.store.clone(), session: session.clone(), branch }
    }

    /// How a session stands.
    pub fn status(&self, session: &SessionId) -> Status {
        Status { store: self.store.clone(), session: session.clone() }
    }

    /// Messages by themselves.
    pub fn messages(&self) -> Messages {
        Messages { store: self.store.clone() }
    }

    /// What is sent from one to another.
    pub fn exchange(&self) -> Exchange {
        Exchange { store: self.store.clone() }
    }

    /// Makes a session. A name that is taken for the same user is a conflict; a user's session that nobody named is
    /// called `session_<when>_<six letters>`.
    pub fn create(&self, new: &NewSession) -> Result<Session> {
        let join = &self.store.join;
        let now = join.clock().now();
        let key = self.asking("sessions.create", &rules::Request::create(new))?;
        let planned = join.plan(rules::plan(new, join.home(), now)?)?;
        let process = new.pid.map(|pid| join.identify(pid));
        let made = self.store.transact(Write::once(Durability::Power, key), move |tx| {
            let row = planned.insert(tx)?;
            if let Some(process) = process.clone() {
                session_owners::put(tx, &status::owner_row(&row.id, process, now))?;
            }
            Ok((row.id, Vec::new()))
        });
        match made {
            Ok(id) => self.get_made(self.operation.as_ref(), &id),
            Err(error) if error.is_taken() => Err(self.taken(new)?),
            Err(error) => Err(error),
        }
    }

    /// The session that a request made, now or when it was first asked under this operation id.
    fn get_made(&self, operation: Option<&OperationId>, id: &SessionId) -> Result<Session> {
        match (self.get(id), operation) {
            (Err(error), Some(operation)) if error.kind() == ErrorKind::NotFound => {
                Err(was_deleted_since(operation, id.as_str()))
            }
            (got, _) => got,
        }
    }

    /// What is taken of a session that could not be created.
    fn taken(&self, new: &NewSession) -> Result<Error> {
        if let Some(id) = &new.id
            && self.store.join.state().read(|tx| table::find(tx, id))?.is_some()
        {
            return Ok(Error::Conflict(Conflict::SessionTaken(id.clone())));
        }
        Ok(Error::Conflict(Conflict::NameTaken(new.name.clone().unwrap_or_default())))
    }

    /// The session to append to under this name: the one whose id or thread name it is exactly, or a new thread.
    pub fn open_thread(&self, name: &str) -> Result<Session> {
        self.open_target(&WriteTarget::Named(SessionRef::Text(name.to_owned())))
    }

    /// Returns the session that a reference means: by id, by thread name, by a unique prefix of an id, or by user and
    /// name.
    ///
    /// Under an operation id ([`crate::Store::once`]), a retry gets the session that the reference meant at first, whatever
    /// it is called by now.
    pub fn resolve(&self, reference: &SessionRef) -> Result<Session> {
        self.resolve_checked(reference, |_| Ok(()))
    }

    /// Returns the session that a reference meant when the request of this handle was carried out, or else the one that it
    /// means now, if that passes the check.
    fn resolve_checked(&self, reference: &SessionRef, check: impl FnOnce(&Session) -> Result<()>) -> Result<Session> {
        let text = rules::reference_text(reference)?;
        if let Some((id, operation)) = self.store.meant_before(&text)? {
            let id = SessionId::parse(&id).map_err(|_| Error::NotFound(NotFound::Session(id)))?;
            return self.get_made(Some(&operation), &id);
        }
        let session = self.resolve_now(reference)?;
        check(&session)?;
        self.store.mean(text, session.id.as_str());
        Ok(session)
    }

    fn resolve_now(&self, reference: &SessionRef) -> Result<Session> {
        let absent = || Error::NotFound(NotFound::Session(reference.to_string()));
        match reference {
            SessionRef::UserAndName { user, name } => {
                let found = self.store.join.state().read(|tx| table::find_addressed(tx, Some(user), name))?;
                found.map(Session::from).ok_or_else(absent)
            }
            SessionRef::Text(text) => {
                if let Some(found) = self.find_exactly(text)? {
                    return Ok(found);
                }
                let join = &self.store.join;
                let id = join.state().read(|tx| resolve(tx, "session", text, None, table::starting_with))?;
                self.get(&id.ok_or_else(absent)?)
            }
        }
    }

    /// The session with this id.
    pub fn get(&self, id: &SessionId) -> Result<Session> {
        let row = self.store.join.state().read(|tx| table::find(tx, id))?;
        row.filter(|row| row.deleted_at.is_none())
            .map(Session::from)
            .ok_or_else(|| Error::NotFound(NotFound::Session(id.to_string())))
    }

    /// The session whose log stands at a path beneath the state directory; none where it is nobody's.
    pub fn find_by_log(&self, log_path: &str) -> Result<Option<Session>> {
        let join = &self.store.join;
        let row = join.state().read(|tx| table::find_by_log(tx, &join.home(), log_path))?;
        Ok(row.filter(|row| row.deleted_at.is_none()).map(Session::from))
    }

    /// What is known of a session's log, after folding what is waiting of it.
    pub fn figures(&self, id: &SessionId) -> Result<SessionFigures> {
        let join = &self.store.join;
        let behind = join.catch_up_session(id)?;
        let row = join.figures(id)?;
        Ok(SessionFigures {
            events: row.as_ref().map(|row| row.events),
            bytes: row.as_ref().map(|row| row.bytes),
            damaged: row.as_ref().map(|row| row.damaged),
            first_at: row.as_ref().and_then(|row| row.first_at),
            last_at: row.as_ref().and_then(|row| row.last_at),
            title: row.as_ref().and_then(|row| row.title.clone()),
            model: row.as_ref().and_then(|row| row.model.clone()),
            dialect: row.and_then(|row| row.dialect),
            behind,
        })
    }

    /// A page of sessions, newest first. What is marked behind is folded first, for a moment, and how many sessions lag is
    /// said. Of the logs of this page, a loss is noticed.
    ///
    /// Returns an error if the token is of a list with other filters.
    pub fn list(&self, filter: &SessionFilter, page: &Page) -> Result<SessionList> {
        let join = &self.store.join;
        Invalid::check_page(page.after(), filter.list())?;
        let mut behind = self.store.catch_up_within(Wait::Briefly)?;
        let (rows, next) = join.state().read(|tx| table::list_page(tx, filter, page))?;
        for row in rows.iter().filter(|row| row.home_id == join.home()) {
            if let Some(loss) = join.loss_at(&row.id, &row.log_path, row.bytes.unwrap_or_default())? {
                behind.lose(loss.bytes);
            }
        }
        Ok(SessionList { sessions: rows.into_iter().map(SessionSummary::from).collect(), next, behind })
    }

    /// Returns the session that a reference means exactly, for a deletion: as [`Sessions::resolve`], but a prefix of an id is
    /// refused.
    pub fn resolve_whole(&self, reference: &SessionRef) -> Result<Session> {
        self.resolve_checked(reference, |session| match reference {
            SessionRef::Text(text) if !rules::is_called(session, text) => {
                Err(Error::Invalid(Invalid::Shortened { prefix: text.clone(), id: session.id.clone() }))
            }
            _ => Ok(()),
        })
    }

    /// Gives a session another name; its file stays where it is, and its log tells of it.
    ///
    /// The log may be another home's: its line waits for that home.
    pub fn rename(&self, which: impl Into<SessionRef>, name: &str) -> Result<Session> {
        check_name("session name", name)?;
        let which = which.into();
        let key = self.asking("sessions.rename", &rules::Request::rename(&which, name))?;
        match self.answer_or_session(key.as_ref(), &which, Self::resolve)? {
            Before::Answered(session) => Ok(session),
            Before::Never(id) => self.rename_now(key, id, name),
        }
    }

    fn rename_now(&self, key: Option<IdempotencyKey>, id: SessionId, name: &str) -> Result<Session> {
        let (at, new_name) = (self.store.join.clock().now(), name.to_owned());
        let renamed = self.store.transact(Write::once(Durability::Power, key), move |tx| {
            let old = table::find(tx, &id)?;
            if !table::rename(tx, &id, &new_name, at)? {
                return Err(duolog_join::Error::NoSession(id.clone()).into());
            }
            if let Some(old) = &old {
                keep_operations_of_name(tx, old)?;
            }
            let mut fields = Map::new();
            fields.insert("name".to_owned(), new_name.clone().into());
            fields.insert("previousName".to_owned(), old.and_then(|old| old.name).into());
            let told = tell(tx, &id, "renamed", at, &fields)?;
            let renamed = table::find(tx, &id)?.ok_or_else(|| duolog_join::Error::NoSession(id.clone()))?;
            Ok((Session::from(renamed), vec![told]))
        });
        match renamed {
            Err(error) if error.is_taken() => Err(Error::Conflict(Conflict::NameTaken(name.to_owned()))),
            other => other,
        }
    }

    /// Deletes a session with its log, and says what went.
    pub fn delete(&self, which: impl Into<SessionRef>) -> Result<Deleted> {
        let which = which.into();
        let key = self.asking("sessions.delete", &rules::Request::delete(&which))?;
        match self.answer_or_session(key.as_ref(), &which, Self::resolve_whole)? {
            Before::Answered(deleted) => Ok(deleted),
            Before::Never(id) => Ok(self.store.join.delete_once(key, &id)?),
        }
    }

    /// How many sessions of this home there are, or of one user here.
    pub fn count(&self, user: Option<&str>) -> Result<u64> {
        let join = &self.store.join;
        Ok(join.state().read(|tx| table::count(tx, &join.home(), user))?)
    }

    /// Deletes every session of this home, or of one user here, each in transactions of its own.
    ///
    /// `each` gets every session that went. After an error the ones that it got are gone, and the others are not.
    pub fn delete_all(&self, user: Option<&str>, mut each: impl FnMut(&Deleted)) -> Result<()> {
        let join = &self.store.join;
        let mut after = None;
        loop {
            let ids = join.state().read(|tx| table::ids(tx, &join.home(), user, after.as_ref(), PAGE_MAX))?;
            let Some(last) = ids.last() else { return Ok(()) };
            after = Some(last.clone());
            for id in &ids {
                match join.delete(id) {
                    Ok(deleted) => each(&deleted),
                    // Another process deleted it first.
                    Err(duolog_join::Error::NoSession(_)) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }

    /// What a session's conversations come to.
    pub fn conversations(&self, session: &SessionId) -> Result<Conversations> {
        Ok(self.store.join.conversations_of(session)?)
    }

    /// Deletes the conversations of a session; the session and its log stay, and the log tells of it.
    ///
    /// Messages that others name stay too.
    pub fn delete_context(&self, which: impl Into<SessionRef>, actor: Option<&str>) -> Result<Deleted> {
        let which = which.into();
        let key = self.asking("sessions.delete_context", &rules::Request::delete(&which))?;
        let id = match self.answer_or_session(key.as_ref(), &which, Self::resolve_whole)? {
            Before::Answered(went) => return Ok(went),
            Before::Never(id) => id,
        };
        let join = &self.store.join;
        let (actor, at) = (actor.map(str::to_owned), join.clock().now());
        self.store.transact(Write::once(Durability::Power, key), move |tx| {
            table::enter(tx, &id, at)?;
            let row = table::find(tx, &id)?.filter(|row| row.deleted_at.is_none());
            let name = row.ok_or_else(|| duolog_join::Error::NoSession(id.clone()))?.name;
            let messages = pool_segments::count(tx, &id)?;
            let went = Conversations { branches: branch_table::count(tx, &id)?, messages };
            table::forget_conversations(tx, &id)?;
            let mut fields = Map::new();
            fields.insert("branches".to_owned(), went.branches.into());
            fields.insert("messages".to_owned(), went.messages.into());
            fields.insert("actor".to_owned(), actor.clone().into());
            let told = tell(tx, &id, "context_deleted", at, &fields)?;
            Ok((Deleted { id: id.clone(), name, bytes: 0, conversations: went }, vec![told]))
        })
    }

    /// Deletes the log of a session; the session and its conversations stay. Its epoch is raised, and it is on record.
    pub fn delete_log(&self, which: impl Into<SessionRef>, actor: Option<&str>) -> Result<RemovedLog> {
        let which = which.into();
        let key = self.asking("sessions.delete_log", &rules::Request::delete(&which))?;
        let id = match self.answer_or_session(key.as_ref(), &which, Self::resolve_whole)? {
            Before::Answered(removed) => return Ok(removed),
            Before::Never(id) => id,
        };
        let by = actor.map(|actor| format!(" by {actor}")).unwrap_or_default();
        let detail = format!("the log alone was deleted{by}; the session stays");
        Ok(self.store.join.remove_log_once(key.as_ref(), &id, Some(&detail))?)
    }

    /// A request as it is known when it is asked again; nothing where it has no operation id.
    pub(crate) fn asking(&self, scope: &str, request: &impl Serialize) -> Result<Option<IdempotencyKey>> {
        let key = self.operation.as_ref().map(|operation| IdempotencyKey::new(scope, operation, request)).transpose();
        Ok(key?)
    }

    /// The answer that a request got before, or else the session that it is about: afterwards the session may be called
    /// otherwise, or be gone.
    fn answer_or_session<T>(
        &self,
        key: Option<&IdempotencyKey>,
        which: &SessionRef,
        find: fn(&Self, &SessionRef) -> Result<Session>,
    ) -> Result<Before<T>>
    where
        T: DeserializeOwned,
    {
        let answer = || key.map_or(Ok(None), |key| self.store.join.answer_to(key));
        if let Some(answer) = answer()? {
            return Ok(Before::Answered(answer));
        }
        let session = match &self.resolved {
            Some(id) => self.get(id),
            None => find(self, which),
        };
        match session {
            // Another who asks the same may have been faster, between the two looks.
            Err(Error::NotFound(NotFound::Session(text))) => {
                answer()?.map(Before::Answered).ok_or(Error::NotFound(NotFound::Session(text)))
            }
            other => other.map(|session| Before::Never(session.id)),
        }
    }

    fn find_exactly(&self, text: &str) -> Result<Option<Session>> {
        let row = self.store.join.state().read(|tx| target::find_exactly(tx, text));
        Ok(row?.map(Session::from))
    }
}

/// The error of a repetition whose session was deleted after the request was carried out.
fn was_deleted_since(operation: &OperationId, session: &str) -> Error {
    duolog_join::Error::OperationOfDeleted { operation: operation.clone(), session: session.to_owned() }.into()
}

/// What is known of a request before it is made.
enum Before<T> {
    /// It happened, and this is what was answered.
    Answered(T),
    /// It did not, and this is the session that it is about.
    Never(SessionId),
}

//! Sessions: each has a log, conversations, messages and a status.

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
pub use compaction::{Compaction, CompactionInfo, RangeSummary};
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

/// The handle for sessions.
#[derive(Clone)]
pub struct Sessions {
    pub(crate) store: Store,
    pub(crate) operation: Option<OperationId>,
    pub(crate) resolved: Option<SessionId>,
}

impl Sessions {
    /// Sets an operation id: the session is created, renamed or deleted once, even if the request is repeated.
    ///
    /// A repetition with the same id gets the same result, and a different request is a conflict. Use an id for one
    /// request. A repeated creation returns the session as it is now; a repeated rename returns it as it was then.
    #[must_use]
    pub fn once(mut self, operation: OperationId) -> Self {
        self.operation = Some(operation);
        self
    }

    /// Sets the session that the reference was resolved to before. A change applies to this session only, whatever the
    /// reference names now. If the session was deleted, it is not found.
    #[must_use]
    pub fn resolved_to(mut self, session: &SessionId) -> Self {
        self.resolved = Some(session.clone());
        self
    }

    /// Returns the handle for the items of a session's default branch. Select another branch with [`Items::on`].
    pub fn items(&self, session: &SessionId) -> Items {
        Items { store: self.store.clone(), session: session.clone(), branch: BranchRef::Default }
    }

    /// Returns the handle for the branches of a session.
    pub fn branches(&self, session: &SessionId) -> Branches {
        Branches { store: self.store.clone(), session: session.clone() }
    }

    /// Returns the handle for the summaries of a branch.
    pub fn compaction(&self, session: &SessionId, branch: BranchRef) -> Compaction {
        Compaction { store: self.store.clone(), session: session.clone(), branch }
    }

    /// Returns the handle for the status of a session.
    pub fn status(&self, session: &SessionId) -> Status {
        Status { store: self.store.clone(), session: session.clone() }
    }

    /// Returns the handle for messages.
    pub fn messages(&self) -> Messages {
        Messages { store: self.store.clone() }
    }

    /// Returns the handle for messages between sessions.
    pub fn exchange(&self) -> Exchange {
        Exchange { store: self.store.clone() }
    }

    /// Creates a session. A session with a user and no name is named `session_<time>_<six letters>`.
    ///
    /// # Errors
    ///
    /// Returns an error of the kind [`ErrorKind::Conflict`] if the id or the user's name is
    /// taken, and an error if a value is not valid.
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

    /// Returns the session that a request created, now or earlier under this operation id.
    fn get_made(&self, operation: Option<&OperationId>, id: &SessionId) -> Result<Session> {
        match (self.get(id), operation) {
            (Err(error), Some(operation)) if error.kind() == ErrorKind::NotFound => {
                Err(was_deleted_since(operation, id.as_str()))
            }
            (got, _) => got,
        }
    }

    /// Returns the error for a session whose id or name is taken.
    fn taken(&self, new: &NewSession) -> Result<Error> {
        if let Some(id) = &new.id
            && self.store.join.state().read(|tx| table::find(tx, id))?.is_some()
        {
            return Ok(Error::Conflict(Conflict::SessionTaken(id.clone())));
        }
        Ok(Error::Conflict(Conflict::NameTaken(new.name.clone().unwrap_or_default())))
    }

    /// Returns the session with exactly this id or thread name; creates a thread if there is none.
    pub fn open_thread(&self, name: &str) -> Result<Session> {
        self.open_target(&WriteTarget::Named(SessionRef::Text(name.to_owned())))
    }

    /// Returns the session of a reference: by id, by thread name, by a unique prefix of an id, or by user and name.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such session, or if several ids start with the prefix.
    ///
    /// Under an operation id ([`crate::Store::once`]), a retry gets the session that the reference resolved to first,
    /// even if it was renamed.
    pub fn resolve(&self, reference: &SessionRef) -> Result<Session> {
        self.resolve_checked(reference, |_| Ok(()))
    }

    /// Returns the session that a reference resolved to when the request of this handle was carried out. If it was not
    /// carried out, resolves the reference now and checks the session.
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

    /// Returns the session with this id.
    pub fn get(&self, id: &SessionId) -> Result<Session> {
        let row = self.store.join.state().read(|tx| table::find(tx, id))?;
        row.filter(|row| row.deleted_at.is_none())
            .map(Session::from)
            .ok_or_else(|| Error::NotFound(NotFound::Session(id.to_string())))
    }

    /// Returns the session whose log has this path below the state directory; `None` if there is none.
    pub fn find_by_log(&self, log_path: &str) -> Result<Option<Session>> {
        let join = &self.store.join;
        let row = join.state().read(|tx| table::find_by_log(tx, &join.home(), log_path))?;
        Ok(row.filter(|row| row.deleted_at.is_none()).map(Session::from))
    }

    /// Returns the statistics of a session's log, after folding its backlog.
    pub fn figures(&self, id: &SessionId) -> Result<SessionFigures> {
        let join = &self.store.join;
        let behind = join.catch_up_session(id)?;
        let row = join.catalog_row(id)?;
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

    /// Returns a page of sessions, newest first. Folds marked sessions first, for a limited time, and reports the
    /// number of sessions that lag. Losses of the logs on this page are recorded.
    ///
    /// # Errors
    ///
    /// Returns an error if the token belongs to a list with another filter.
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

    /// Returns the session of a reference for a deletion: the same as [`Sessions::resolve`], but a prefix of an id is
    /// refused.
    pub fn resolve_exact(&self, reference: &SessionRef) -> Result<Session> {
        self.resolve_checked(reference, |session| match reference {
            SessionRef::Text(text) if !rules::is_called(session, text) => {
                Err(Error::Invalid(Invalid::Shortened { prefix: text.clone(), id: session.id.clone() }))
            }
            _ => Ok(()),
        })
    }

    /// Renames a session. Its file keeps its name, and the log gets a line about it.
    ///
    /// If the log belongs to another home, the line waits until that home is opened.
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

    /// Deletes a session and its log, and returns what was deleted.
    pub fn delete(&self, which: impl Into<SessionRef>) -> Result<Deleted> {
        let which = which.into();
        let key = self.asking("sessions.delete", &rules::Request::delete(&which))?;
        match self.answer_or_session(key.as_ref(), &which, Self::resolve_exact)? {
            Before::Answered(deleted) => Ok(deleted),
            Before::Never(id) => Ok(self.store.join.delete_once(key, &id)?),
        }
    }

    /// Returns the number of sessions of this home, or of one user in this home.
    pub fn count(&self, user: Option<&str>) -> Result<u64> {
        let join = &self.store.join;
        Ok(join.state().read(|tx| table::count(tx, &join.home(), user))?)
    }

    /// Deletes every session of this home, or of one user in this home, each in its own transactions.
    ///
    /// `each` is called with every deleted session. After an error, the sessions that it was called with are deleted,
    /// and the others are not.
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

    /// Returns the totals of a session's conversations.
    pub fn conversations(&self, session: &SessionId) -> Result<Conversations> {
        Ok(self.store.join.conversations_of(session)?)
    }

    /// Deletes the conversations of a session. The session and its log are kept, and the log gets a line about it.
    ///
    /// Messages that other sessions use are kept too.
    pub fn delete_context(&self, which: impl Into<SessionRef>, actor: Option<&str>) -> Result<Deleted> {
        let which = which.into();
        let key = self.asking("sessions.delete_context", &rules::Request::delete(&which))?;
        let id = match self.answer_or_session(key.as_ref(), &which, Self::resolve_exact)? {
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

    /// Deletes the log of a session. The session and its conversations are kept. The epoch of the log increases, and
    /// the deletion is recorded.
    pub fn delete_log(&self, which: impl Into<SessionRef>, actor: Option<&str>) -> Result<RemovedLog> {
        let which = which.into();
        let key = self.asking("sessions.delete_log", &rules::Request::delete(&which))?;
        let id = match self.answer_or_session(key.as_ref(), &which, Self::resolve_exact)? {
            Before::Answered(removed) => return Ok(removed),
            Before::Never(id) => id,
        };
        let by = actor.map(|actor| format!(" by {actor}")).unwrap_or_default();
        let detail = format!("the log was deleted{by}; the session was kept");
        Ok(self.store.join.remove_log_once(key.as_ref(), &id, Some(&detail))?)
    }

    /// Returns the key of a request under the operation id; `None` if there is no operation id.
    pub(crate) fn asking(&self, scope: &str, request: &impl Serialize) -> Result<Option<IdempotencyKey>> {
        let key = self.operation.as_ref().map(|operation| IdempotencyKey::new(scope, operation, request)).transpose();
        Ok(key?)
    }

    /// Returns the recorded result of a request, or the session that the request is about. After the request, the
    /// session may be renamed or deleted, so the result is looked up first.
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
            // A concurrent identical request may have been carried out between the two lookups.
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

/// Returns the error of a repetition whose session was deleted after the request was carried out.
fn was_deleted_since(operation: &OperationId, session: &str) -> Error {
    duolog_join::Error::OperationOfDeleted { operation: operation.clone(), session: session.to_owned() }.into()
}

/// The state of a request before it is carried out.
enum Before<T> {
    /// It was carried out, with this result.
    Answered(T),
    /// It was not carried out; this is its session.
    Never(SessionId),
}

//! Adding items to the end of a branch: all of them or none, in the transaction that creates the session if it is new.

use duolog_join::{IdempotencyKey, Write};
use duolog_state::Tx;
use duolog_state::owned::messages::{self, MessageRow};
use duolog_state::owned::progressions::{self, Fresh};
use duolog_state::owned::{branches, message_types};
use duolog_types::{BranchId, Durability, MessageId, OperationId, SessionId, Timestamp};
use serde::{Deserialize, Serialize};

use super::contents::Contents;
use super::conversation::{self, BranchRef, Place};
use super::items::Items;
use super::messages::{NewMessage, packed, put, row_of};
use super::model::SessionRef;
use super::target::{Destination, WriteTarget};
use super::{Sessions, rules};
use crate::error::{Error, Invalid, Result};
use crate::store::Store;

/// Options for adding items.
#[derive(Clone, Debug)]
pub struct AddOptions {
    /// Add only once under this id, even if the request is repeated.
    pub operation: Option<OperationId>,
    /// The durability of the items when they are acknowledged.
    pub durability: Durability,
    /// The system item, which is set if the branch has none yet.
    pub system: Option<String>,
    /// The embeddings, one for each item; empty if there are none.
    pub embeddings: Vec<Vec<f32>>,
    /// The metadata, one for each item; empty if there is none.
    pub about: Vec<About>,
}

impl Default for AddOptions {
    fn default() -> Self {
        let durability = Durability::Power;
        Self { operation: None, durability, system: None, embeddings: Vec::new(), about: Vec::new() }
    }
}

/// Metadata of an item.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct About {
    /// The id of its message [default: a new one].
    ///
    /// An equal item under the same id is added once; a different item under an existing id is refused.
    pub id: Option<MessageId>,
    /// The role [default: the one that the item names].
    pub role: Option<String>,
    /// The sender.
    pub sender: Option<String>,
    /// The class of the item in the program that created it.
    pub lion_class: Option<String>,
    /// Metadata, as JSON.
    pub node_metadata: Option<String>,
}

/// The result of adding items.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Added {
    /// The session.
    pub session: SessionId,
    /// The branch.
    pub branch: BranchId,
    /// The ordinal of the first new item.
    pub from_ord: u64,
    /// The length of the history.
    pub end: u64,
}

/// The stored result of an addition under an operation id. The target is stored because the session may be renamed
/// before a retry.
#[derive(Deserialize, Serialize)]
struct Answer {
    added: Added,
    /// The user and the session as they were given.
    target: [Option<String>; 2],
}

impl Answer {
    /// Returns the result if the target refers to the session that the items were added to, by its old or its current
    /// name.
    fn to(self, sessions: &Sessions, target: &WriteTarget, operation: &OperationId) -> Result<Added> {
        let Self { added, target: given } = self;
        let is_same = given.each_ref().map(Option::as_deref) == target.parts()
            || sessions.find_target(target)?.is_some_and(|session| session.id == added.session);
        if is_same {
            return Ok(added);
        }
        Err(duolog_join::Error::OperationReused { operation: operation.clone() }.into())
    }
}

impl Items {
    /// Adds items to the end: all of them or none. The first addition creates the default branch.
    ///
    /// Each item is one JSON value and is returned byte for byte. Items are stored in the state; nothing is appended to
    /// the log.
    pub fn add(&self, items: &[&str], options: &AddOptions) -> Result<Added> {
        let target = WriteTarget::Named(SessionRef::from(&self.session));
        let batch = NewItems::of(&self.store, &target, &self.branch, items, options)?;
        match batch {
            NewItems::Answered(added) => Ok(added),
            NewItems::Checked(batch) => batch.write(Destination::Existing(self.session.clone())),
        }
    }
}

impl Sessions {
    /// Adds items to the end of a branch of the target session. If the session does not exist, it is created in the
    /// same transaction, so it is not created if the items are refused.
    pub fn add_items(
        &self,
        target: &WriteTarget,
        branch: &BranchRef,
        items: &[&str],
        options: &AddOptions,
    ) -> Result<Added> {
        match NewItems::of(&self.store, target, branch, items, options)? {
            NewItems::Answered(added) => Ok(added),
            NewItems::Checked(batch) => self.write_to(target, |destination| batch.write(destination)),
        }
    }
}

/// Items to add.
enum NewItems<'s> {
    /// They were added before under the same operation id.
    Answered(Added),
    /// They can be added.
    Checked(Box<Batch<'s>>),
}

/// Checked items.
struct Batch<'s> {
    store: &'s Store,
    how: Write,
    now: Timestamp,
    target: WriteTarget,
    branch: BranchRef,
    rows: Rows,
    /// Held until the rows are committed, so that the blobs of the items are not pruned.
    _contents: Contents,
}

/// The rows of new items.
#[derive(Clone)]
struct Rows {
    system: Option<MessageRow>,
    new: Vec<MessageRow>,
    /// The class of each item; empty if no item has one.
    classes: Vec<Option<String>>,
    /// True if the caller gave ids, which may already exist.
    has_given_ids: bool,
}

impl<'s> NewItems<'s> {
    fn of(
        store: &'s Store,
        target: &WriteTarget,
        branch: &BranchRef,
        items: &[&str],
        options: &AddOptions,
    ) -> Result<Self> {
        let join = &store.join;
        let request = rules::Added {
            what: "add items",
            branch: branch.text(),
            items,
            system: options.system.as_deref(),
            embeddings: &options.embeddings,
            about: &options.about,
        };
        let key = |operation| IdempotencyKey::new("items.add", operation, &request);
        let key = options.operation.as_ref().map(key).transpose()?;
        if let Some(key) = &key
            && let Some(answer) = join.answer_to::<Answer>(key)?
        {
            return Ok(Self::Answered(answer.to(&store.sessions(), target, key.operation())?));
        }
        let (contents, now) = (Contents::of(join), join.clock().now());
        let rows = Rows::of(&contents, items, options, now)?;
        let how = Write::once(options.durability, key);
        let target = target.clone();
        let batch = Batch { store, how, now, target, branch: branch.clone(), rows, _contents: contents };
        Ok(Self::Checked(Box::new(batch)))
    }
}

impl Batch<'_> {
    fn write(&self, destination: Destination) -> Result<Added> {
        let (mut rows, branch, now) = (self.rows.clone(), self.branch.clone(), self.now);
        let given = self.target.parts().map(|part| part.map(str::to_owned));
        let answer = self.store.transact(self.how.clone(), move |tx| {
            let session = destination.open(tx)?;
            let added = rows.add(tx, &session, &branch, now)?;
            Ok((Answer { added, target: given.clone() }, Vec::new()))
        })?;
        match &self.how.key {
            // A concurrent request with this operation id may have been faster.
            Some(key) => answer.to(&self.store.sessions(), &self.target, key.operation()),
            None => Ok(answer.added),
        }
    }
}

impl Rows {
    fn of(contents: &Contents, items: &[&str], options: &AddOptions, now: Timestamp) -> Result<Self> {
        one_each("embeddings", options.embeddings.len(), items.len())?;
        one_each("about", options.about.len(), items.len())?;
        let mut new = contents.messages(items, now)?;
        for (row, embedding) in new.iter_mut().zip(&options.embeddings) {
            row.embedding = Some(packed(embedding)?);
        }
        for ((row, item), about) in new.iter_mut().zip(items).zip(&options.about) {
            *row = described(row, item, about, contents, now)?;
        }
        let system = options.system.as_deref().map(|system| contents.message(system, now)).transpose()?;
        let classes = options.about.iter().map(|about| about.lion_class.clone()).collect();
        Ok(Self { system, new, classes, has_given_ids: options.about.iter().any(|about| about.id.is_some()) })
    }

    fn add(&mut self, tx: &mut Tx<'_>, session: &SessionId, branch: &BranchRef, now: Timestamp) -> Result<Added> {
        for (row, class) in self.new.iter_mut().zip(&self.classes) {
            row.lion_class = message_types::resolve(tx, class.as_deref())?;
        }
        if let Some(place) = self.repeated(tx, session, branch)? {
            let end = place.head.end;
            return Ok(Added { session: session.clone(), branch: place.branch.id, from_ord: end, end });
        }
        let mut place = match (&self.system, self.new.first().zip(self.new.last())) {
            // The new end of the pool is known, so the session's row is written once.
            (None, Some((first, last))) if !self.has_given_ids => {
                conversation::open_for(tx, session, branch, (&first.id, &last.id), now)?
            }
            _ => conversation::open(tx, session, branch, now)?,
        };
        if let Some(system) = &self.system {
            set_system(tx, &mut place, system)?;
        }
        let from_ord = place.head.end;
        if self.has_given_ids {
            for row in &self.new {
                let fresh = if put(tx, row)? { Fresh::Yes } else { Fresh::No };
                place.append(tx, &row.id, fresh)?;
            }
        } else {
            place.add(tx, &self.new)?;
        }
        if self.system.is_some() || self.has_given_ids {
            place.note(tx)?;
        }
        Ok(Added { session: session.clone(), branch: place.branch.id.clone(), from_ord, end: place.head.end })
    }
}

impl Rows {
    /// Returns the position of the items if all of them are already on the branch under the given ids: adding them
    /// again changes nothing.
    fn repeated(&self, tx: &mut Tx<'_>, session: &SessionId, branch: &BranchRef) -> Result<Option<Place>> {
        if !self.has_given_ids {
            return Ok(None);
        }
        let Some(place) = conversation::find(tx, session, branch)? else { return Ok(None) };
        if self.system.is_some() && place.branch.system_msg_id.is_none() {
            return Ok(None);
        }
        for row in &self.new {
            let is_same = messages::find(tx, &row.id)?.is_some_and(|there| row.repeats(&there));
            if !is_same || progressions::place_of(tx, &place.head, &row.id)?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(place))
    }
}

/// Returns an error unless a list is empty or has one entry for each item.
fn one_each(what: &'static str, count: usize, items: usize) -> Result<()> {
    if count == 0 || count == items {
        return Ok(());
    }
    Err(Error::Invalid(Invalid::Value {
        what,
        why: format!("must have one entry for each item: {count} entries for {items} items"),
    }))
}

/// Returns the row of an item with its metadata.
fn described(row: &MessageRow, item: &str, about: &About, contents: &Contents, now: Timestamp) -> Result<MessageRow> {
    let new = NewMessage {
        id: Some(about.id.clone().unwrap_or_else(|| row.id.clone())),
        role: about.role.clone().unwrap_or_else(|| row.role.clone()),
        content: item.to_owned(),
        lion_class: about.lion_class.clone(),
        node_metadata: about.node_metadata.clone(),
        sender: about.sender.clone(),
        ..NewMessage::default()
    };
    let described = row_of(&new, contents, now)?;
    Ok(MessageRow { embedding: row.embedding.clone(), ..described })
}

/// Writes the system item if the branch has none.
fn set_system(tx: &mut Tx<'_>, place: &mut Place, system: &MessageRow) -> Result<()> {
    if place.branch.system_msg_id.is_some() {
        return Ok(());
    }
    messages::add(tx, std::slice::from_ref(system))?;
    branches::set_system(tx, &place.branch.id, &system.id)?;
    place.branch.system_msg_id = Some(system.id.clone());
    place.pool(tx, &system.id)
}

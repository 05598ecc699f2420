//! Adding items at the end of a branch: all of them or none, in the transaction that creates the session if it is new.

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

/// How items are added.
#[derive(Clone, Debug)]
pub struct AddOptions {
    /// Adds only once under this id, however often it is asked.
    pub operation: Option<OperationId>,
    /// What the items survive once they are acknowledged.
    pub durability: Durability,
    /// The item that comes before all others, where the branch has none yet.
    pub system: Option<String>,
    /// What the items mean to a model, one for each; none at all where that is not known.
    pub embeddings: Vec<Vec<f32>>,
    /// What is known of the items besides what they say, one for each; none at all where nothing is.
    pub about: Vec<About>,
}

impl Default for AddOptions {
    fn default() -> Self {
        let durability = Durability::Power;
        Self { operation: None, durability, system: None, embeddings: Vec::new(), about: Vec::new() }
    }
}

/// What is known of an item besides what it says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct About {
    /// The id of its message [default: a new one].
    ///
    /// The same item under the same id is added once; another item under a taken id is refused.
    pub id: Option<MessageId>,
    /// The role [default: the one that the item names].
    pub role: Option<String>,
    /// The sender.
    pub sender: Option<String>,
    /// The class that it had in the program that made it.
    pub lion_class: Option<String>,
    /// Metadata, as JSON.
    pub node_metadata: Option<String>,
}

/// What was added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Added {
    /// The session.
    pub session: SessionId,
    /// The branch.
    pub branch: BranchId,
    /// Where the first of them stands.
    pub from_ord: u64,
    /// Where its history ends now.
    pub end: u64,
}

/// What is kept of an addition under an operation id: the session may be called otherwise by the time of a retry.
#[derive(Deserialize, Serialize)]
struct Answer {
    added: Added,
    /// The user and the session, as they were given.
    target: [Option<String>; 2],
}

impl Answer {
    /// What was added, if a target means the session that it was added to: by what it was called then, or by now.
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
    /// Adds items at the end: all of them, or none. The default branch is made by the first.
    ///
    /// Each is one JSON text, given back byte for byte. They go to the state; the log tells of what happened and is the
    /// caller's.
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
    /// Adds items at the end of a branch of the session that a target names. The session is created if there is none, in
    /// the same transaction: where the items are refused, it is not.
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

/// Items on their way into the state.
enum NewItems<'s> {
    /// They were added before, under the same operation id.
    Answered(Added),
    /// They can be added.
    Checked(Box<Batch<'s>>),
}

/// Items that were checked.
struct Batch<'s> {
    store: &'s Store,
    how: Write,
    now: Timestamp,
    target: WriteTarget,
    branch: BranchRef,
    rows: Rows,
    /// Held until the rows are committed: as long nobody removes the blobs that they name.
    _contents: Contents,
}

/// The rows of new items.
#[derive(Clone)]
struct Rows {
    system: Option<MessageRow>,
    new: Vec<MessageRow>,
    /// The class of each, where any has one.
    classes: Vec<Option<String>>,
    /// Whether ids were given: they may be taken.
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
            // Another with this operation id may have been faster.
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
            // What the pool will list is known, so the session's row is written once.
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
    /// The place of the items, if all of them stand on the branch already, under the ids that were given: adding them
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

/// Checks that a list has one entry for each item, or none at all.
fn one_each(what: &'static str, count: usize, items: usize) -> Result<()> {
    if count == 0 || count == items {
        return Ok(());
    }
    Err(Error::Invalid(Invalid::Value {
        what,
        why: format!("must be one for each item: there are {count} for {items}"),
    }))
}

/// An item's row with what is known of it.
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

/// Writes the item that comes before all others, where the branch has none.
fn set_system(tx: &mut Tx<'_>, place: &mut Place, system: &MessageRow) -> Result<()> {
    if place.branch.system_msg_id.is_some() {
        return Ok(());
    }
    messages::add(tx, std::slice::from_ref(system))?;
    branches::set_system(tx, &place.branch.id, &system.id)?;
    place.branch.system_msg_id = Some(system.id.clone());
    place.pool(tx, &system.id)
}

//! The branches of a session.

use duolog_join::tell;
use duolog_state::owned::branches::{self as table, BranchRow};
use duolog_state::owned::{compactions, progressions};
use duolog_types::json::check_value;
use duolog_types::limits::{METADATA_BYTES_MAX, PAGE_MAX};
use duolog_types::names::check_name;
use duolog_types::{BranchId, Durability, SessionId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::conversation::{self, BranchRef};
use super::rules::bounded;
use crate::error::{Error, Invalid, NotFound, Result};
use crate::store::Store;

/// The handle for the branches of a session.
#[derive(Clone)]
pub struct Branches {
    pub(crate) store: Store,
    pub(crate) session: SessionId,
}

/// A branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    /// The id.
    pub id: BranchId,
    /// The name.
    pub name: Option<String>,
    /// The user.
    pub user_id: Option<String>,
    /// The time at which it was created.
    pub created_at: Timestamp,
    /// The fork point; `None` if it is not a fork.
    pub forked: Option<Forked>,
    /// True if it is the default branch of the session.
    pub is_default: bool,
    /// The number of items in its history.
    pub items: u64,
    /// Metadata, as JSON.
    pub node_metadata: Option<String>,
}

/// The fork point of a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forked {
    /// The branch that it was forked from.
    pub parent: BranchId,
    /// The number of items of the parent's history that the branch shares.
    pub at: u64,
}

/// A new fork.
#[derive(Clone, Debug, Default)]
pub struct NewFork {
    /// The branch to fork.
    pub from: BranchRef,
    /// The number of items that the fork shares [default: all].
    pub at: Option<u64>,
    /// The name.
    pub name: Option<String>,
    /// Metadata, as JSON.
    pub node_metadata: Option<String>,
}

/// A new branch without a history.
#[derive(Clone, Debug, Default)]
pub struct NewBranch {
    /// The name.
    pub name: Option<String>,
    /// The user.
    pub user_id: Option<String>,
    /// Metadata, as JSON.
    pub node_metadata: Option<String>,
}

/// A change of a branch's properties. `None` keeps a field, and an empty text clears it.
#[derive(Clone, Debug, Default)]
pub struct BranchChange {
    /// The name.
    pub name: Option<String>,
    /// The user.
    pub user_id: Option<String>,
    /// Metadata, as JSON.
    pub node_metadata: Option<String>,
}

impl Branch {
    fn of(row: BranchRow, items: u64) -> Self {
        Self {
            id: row.id,
            name: row.name,
            user_id: row.user_id,
            created_at: row.created_at,
            forked: row.forked.map(|forked| Forked { parent: forked.parent, at: forked.at_ord }),
            is_default: row.is_default,
            items,
            node_metadata: row.node_metadata,
        }
    }
}

impl Branches {
    /// Creates a branch that shares the first items of another branch. No item is copied. The log gets a line about it.
    ///
    /// # Errors
    ///
    /// Returns an error if another branch of the session has this name, or if the fork point is past the end of the
    /// history.
    pub fn fork(&self, new: NewFork, durability: Durability) -> Result<Branch> {
        check(new.name.as_deref(), None, new.node_metadata.as_deref())?;
        let (session, now) = (self.session.clone(), self.store.join.clock().now());
        let (id, made) = (BranchId::new(), self.session.clone());
        self.store.transact(durability, move |tx| {
            // The default branch can be forked even before it has items.
            let place = conversation::open(tx, &session, &new.from, now)?;
            conversation::check_name_free(tx, &session, new.name.as_deref())?;
            let at = new.at.unwrap_or(place.head.end);
            if at > place.head.end {
                return Err(Error::Invalid(Invalid::PastEnd { at, len: place.head.end }));
            }
            let head = progressions::fork(tx, &place.head, at, now)?;
            let at_seq = compactions::last_seq(tx, &place.branch.id)?;
            let row = BranchRow {
                id: id.clone(),
                created_at: now,
                node_metadata: new.node_metadata.clone(),
                user_id: place.branch.user_id.clone(),
                name: new.name.clone(),
                session_id: session.clone(),
                progression_id: head.id,
                system_msg_id: place.branch.system_msg_id.clone(),
                forked: Some(table::ForkPoint { parent: place.branch.id.clone(), at_ord: at, at_seq }),
                is_default: false,
            };
            table::insert(tx, &row)?;
            let mut fields: Map<String, Value> = Map::new();
            fields.insert("branch".to_owned(), id.as_str().into());
            fields.insert("parentBranch".to_owned(), place.branch.id.as_str().into());
            fields.insert("forkedAtOrd".to_owned(), at.into());
            let told = tell(tx, &made, "forked", now, &fields)?;
            Ok((Branch::of(row, at), vec![told]))
        })
    }

    /// Creates a branch without a history. The first branch of a session is its default. The log gets a line about it.
    ///
    /// # Errors
    ///
    /// Returns an error if another branch of the session has this name.
    pub fn create(&self, new: NewBranch, durability: Durability) -> Result<Branch> {
        let NewBranch { name, user_id, node_metadata } = new;
        check(name.as_deref(), user_id.as_deref(), node_metadata.as_deref())?;
        let (session, now, id) = (self.session.clone(), self.store.join.clock().now(), BranchId::new());
        self.store.transact(durability, move |tx| {
            let about = conversation::BranchAbout {
                id: id.clone(),
                name: name.clone(),
                user_id: user_id.clone(),
                node_metadata: node_metadata.clone(),
            };
            let row = conversation::create(tx, &session, about, now)?;
            let mut fields: Map<String, Value> = Map::new();
            fields.insert("branch".to_owned(), id.as_str().into());
            fields.insert("name".to_owned(), row.name.clone().into());
            let told = tell(tx, &session, "branch_created", now, &fields)?;
            Ok((Branch::of(row, 0), vec![told]))
        })
    }

    /// Changes the properties of a branch. The log gets a line about it.
    ///
    /// # Errors
    ///
    /// Returns an error if another branch of the session has the new name.
    pub fn set(&self, which: &BranchRef, change: &BranchChange, durability: Durability) -> Result<Branch> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let BranchChange { name, user_id, node_metadata } = change;
        check(given(name).as_deref(), given(user_id).as_deref(), given(node_metadata).as_deref())?;
        let (session, which, change) = (self.session.clone(), which.clone(), change.clone());
        let now = self.store.join.clock().now();
        self.store.transact(durability, move |tx| {
            let Some(place) = conversation::enter(tx, &session, &which, now)? else {
                let branch = which.text().unwrap_or("default").to_owned();
                return Err(Error::NotFound(NotFound::Branch { branch, session: session.clone() }));
            };
            let (mut row, before) = (place.branch.clone(), place.branch);
            let fields = [
                (&change.name, &mut row.name),
                (&change.user_id, &mut row.user_id),
                (&change.node_metadata, &mut row.node_metadata),
            ];
            for (new, old) in fields {
                if new.is_some() {
                    *old = given(new);
                }
            }
            if row == before {
                return Ok((Branch::of(row, place.head.end), Vec::new()));
            }
            if row.name != before.name {
                conversation::check_name_free(tx, &session, row.name.as_deref())?;
            }
            let (name, user) = (row.name.as_deref(), row.user_id.as_deref());
            table::describe(tx, &row.id, name, user, row.node_metadata.as_deref())?;
            let mut fields: Map<String, Value> = Map::new();
            fields.insert("branch".to_owned(), row.id.as_str().into());
            fields.insert("name".to_owned(), row.name.clone().into());
            fields.insert("previousName".to_owned(), before.name.into());
            let told = tell(tx, &session, "branch_changed", now, &fields)?;
            Ok((Branch::of(row, place.head.end), vec![told]))
        })
    }

    /// Returns a branch; `None` if it is the default branch and does not exist yet.
    pub fn get(&self, which: &BranchRef) -> Result<Option<Branch>> {
        let place = self.store.join.state().read(|tx| conversation::find(tx, &self.session, which));
        Ok(place?.map(|place| Branch::of(place.branch, place.head.end)))
    }

    /// Returns a page of branches, ordered by id, after this one.
    ///
    /// # Errors
    ///
    /// Returns an error if `after` is not a branch of this session.
    pub fn list(&self, after: Option<&BranchId>, limit: u32) -> Result<Vec<Branch>> {
        let limit = limit.clamp(1, PAGE_MAX);
        self.store.join.state().read(|tx| {
            if let Some(after) = after
                && table::find(tx, after)?.is_none_or(|row| row.session_id != self.session)
            {
                return Err(Error::Invalid(Invalid::OtherPage(after.to_string())));
            }
            let mut branches = Vec::new();
            for row in table::list(tx, &self.session, after, limit)? {
                let items = progressions::get(tx, &row.progression_id)?.end;
                branches.push(Branch::of(row, items));
            }
            Ok::<_, Error>(branches)
        })
    }
}

fn check(name: Option<&str>, user: Option<&str>, metadata: Option<&str>) -> Result<()> {
    if let Some(name) = name {
        check_name("branch name", name)?;
    }
    if let Some(user) = user {
        check_name("user", user)?;
    }
    if let Some(metadata) = metadata {
        bounded::<METADATA_BYTES_MAX>("node_metadata", metadata)?;
        check_value(metadata).map_err(|fault| Error::Invalid(Invalid::Item { number: 0, fault }))?;
    }
    Ok(())
}

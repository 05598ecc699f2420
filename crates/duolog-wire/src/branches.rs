//! Branches of a session's conversation.

use duolog::sessions;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Json;
use crate::page::Listed;

/// A branch.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Branch {
    /// Branch id.
    pub id: String,
    /// Its name.
    pub name: Option<String>,
    /// True if it is the session's default branch.
    pub is_default: bool,
    /// The branch that it was forked from.
    pub parent_branch_id: Option<String>,
    /// How many items of its parent it sees.
    pub forked_at_ord: Option<u64>,
    /// How many items it has, those of its parents included.
    pub item_count: u64,
    /// When it was created.
    pub created_at: String,
    /// Its user.
    pub user_id: Option<String>,
    /// What its maker keeps with it.
    pub node_metadata: Option<Json>,
}

impl Listed for Branch {
    const PLURAL: &'static str = "branches";
}

impl From<&sessions::Branch> for Branch {
    fn from(branch: &sessions::Branch) -> Self {
        Self {
            id: branch.id.to_string(),
            name: branch.name.clone(),
            is_default: branch.is_default,
            parent_branch_id: branch.forked.as_ref().map(|forked| forked.parent.to_string()),
            forked_at_ord: branch.forked.as_ref().map(|forked| forked.at),
            item_count: branch.items,
            created_at: branch.created_at.to_string(),
            user_id: branch.user_id.clone(),
            node_metadata: branch.node_metadata.as_deref().map(Json::of),
        }
    }
}

/// `{"branch": {…}}`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BranchAnswer {
    /// The branch.
    pub branch: Branch,
}

impl From<&sessions::Branch> for BranchAnswer {
    fn from(branch: &sessions::Branch) -> Self {
        Self { branch: branch.into() }
    }
}

/// A branch that was forked.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Forked {
    /// The id of the new branch. Its name is promised; elsewhere such a field is `branch_id`.
    #[serde(rename = "branch")]
    pub branch_id: String,
    /// The branch that it was forked from.
    pub parent_branch_id: Option<String>,
    /// How many items of its parent it sees.
    pub forked_at_ord: Option<u64>,
}

impl From<&sessions::Branch> for Forked {
    fn from(branch: &sessions::Branch) -> Self {
        Self {
            branch_id: branch.id.to_string(),
            parent_branch_id: branch.forked.as_ref().map(|forked| forked.parent.to_string()),
            forked_at_ord: branch.forked.as_ref().map(|forked| forked.at),
        }
    }
}

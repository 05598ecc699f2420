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
    /// Name.
    pub name: Option<String>,
    /// True if it is the default branch of the session.
    pub is_default: bool,
    /// The parent branch.
    pub parent_branch_id: Option<String>,
    /// Number of visible items of its parent.
    pub forked_at_ord: Option<u64>,
    /// Number of items, including those of its parents.
    pub item_count: u64,
    /// Creation time.
    pub created_at: String,
    /// User.
    pub user_id: Option<String>,
    /// Metadata of the writer.
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

/// A forked branch.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Forked {
    /// Id of the new branch.
    pub branch_id: String,
    /// The parent branch.
    pub parent_branch_id: Option<String>,
    /// Number of visible items of its parent.
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

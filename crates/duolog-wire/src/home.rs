//! The directories of a home.

use schemars::JsonSchema;
use serde::Serialize;

/// A new or existing home.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HomeCreated {
    /// Home directory.
    pub home: String,
    /// Directory of the state and the logs.
    pub state: String,
    /// Cache directory.
    pub cache: String,
    /// Configuration directory.
    pub config: String,
    /// True if the home was created.
    pub created: bool,
}

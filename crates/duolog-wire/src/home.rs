//! A home: where its files are.

use schemars::JsonSchema;
use serde::Serialize;

/// A home that was created, or was there already.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HomeCreated {
    /// The directory of the home.
    pub home: String,
    /// The directory of its state and logs.
    pub state: String,
    /// The directory of its cache.
    pub cache: String,
    /// The directory of its configuration.
    pub config: String,
    /// True if something had to be created.
    pub created: bool,
}

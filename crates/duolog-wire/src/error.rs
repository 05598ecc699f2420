//! What a refused or failed request answers.

use schemars::JsonSchema;
use serde::Serialize;

use crate::schema::ERROR_KINDS;

/// An error: what the caller can do about it, what happened, and one thing to do.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Error {
    /// What the caller can do about it.
    #[schemars(extend("enum" = ERROR_KINDS))]
    pub kind: &'static str,
    /// What could not be done, to what, and why.
    pub message: String,
    /// One command or action that helps.
    pub hint: Option<String>,
}

/// `{"error": {…}}`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ErrorAnswer {
    /// The error.
    pub error: Error,
}

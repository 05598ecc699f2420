//! The answer of a failed request.

use schemars::JsonSchema;
use serde::Serialize;

use crate::schema::ERROR_KINDS;

/// An error: kind, message and hint.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Error {
    /// Kind of the error.
    #[schemars(extend("enum" = ERROR_KINDS))]
    pub kind: &'static str,
    /// Error message: what failed and why.
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

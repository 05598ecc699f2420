//! The checks of `doctor`.

use duolog::doctor;
use schemars::JsonSchema;
use serde::Serialize;

/// The result of `doctor`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Doctor {
    /// The worst status of all checks.
    #[schemars(extend("enum" = ["ok", "warnings", "damaged"]))]
    pub verdict: &'static str,
    /// Depth of the checks: `quick` checks the state, its records and the last changed logs; `deep` checks every log.
    #[schemars(extend("enum" = ["quick", "deep"]))]
    pub depth: &'static str,
    /// Every check.
    pub checks: Vec<DoctorCheck>,
}

/// One check.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DoctorCheck {
    /// The checked part.
    pub name: String,
    /// Status.
    #[schemars(extend("enum" = ["ok", "warning", "damaged"]))]
    pub status: &'static str,
    /// Result of the check.
    pub detail: String,
    /// Hint.
    pub hint: Option<String>,
}

impl From<&doctor::Check> for DoctorCheck {
    fn from(check: &doctor::Check) -> Self {
        Self {
            name: check.name.to_owned(),
            status: check.status.as_str(),
            detail: check.detail.clone(),
            hint: check.hint.clone(),
        }
    }
}

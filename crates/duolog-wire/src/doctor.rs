//! An examination of a store.

use duolog::doctor;
use schemars::JsonSchema;
use serde::Serialize;

/// The result of an examination.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Doctor {
    /// The worst status of a check.
    #[schemars(extend("enum" = ["ok", "warnings", "damaged"]))]
    pub verdict: &'static str,
    /// How deep the checks went: `quick` is the state, what is on record and the logs that changed last; `deep` is every log.
    #[schemars(extend("enum" = ["quick", "deep"]))]
    pub depth: &'static str,
    /// Every check.
    pub checks: Vec<DoctorCheck>,
}

/// One check.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DoctorCheck {
    /// The part that was examined.
    pub name: String,
    /// Its status.
    #[schemars(extend("enum" = ["ok", "warning", "damaged"]))]
    pub status: &'static str,
    /// What was found.
    pub detail: String,
    /// What to do about it.
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

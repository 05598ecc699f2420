//! What an examination says.

duolog_types::words!(
/// How one part stands.
#[derive(PartialOrd, Ord)]
Status, "status of a check", {
    /// As it should be.
    Ok = "ok",
    /// Worth knowing.
    Warning = "warning",
    /// Not as it should be.
    Damaged = "damaged",
});

duolog_types::words!(
/// How much is looked at.
#[derive(Default)]
Depth, "depth of an examination", {
    /// The state, what is recorded of the logs, and the logs that changed last.
    #[default]
    Quick = "quick",
    /// Every line of every log, every file and every index besides.
    Deep = "deep",
});

/// One part that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Which part.
    pub name: &'static str,
    /// How it stands.
    pub status: Status,
    /// What was seen.
    pub detail: String,
    /// What to do about it.
    pub hint: Option<String>,
}

duolog_types::words!(
/// How the whole stands.
Verdict, "verdict", {
    /// All is well.
    Ok = "ok",
    /// Nothing is lost, but something is worth knowing.
    Warnings = "warnings",
    /// Something is not as it should be.
    Damaged = "damaged",
});

/// An examination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// How the whole stands: as its worst part does.
    pub verdict: Verdict,
    /// Every part.
    pub checks: Vec<Check>,
}

pub(super) fn verdict(checks: &[Check]) -> Verdict {
    match checks.iter().map(|check| check.status).max() {
        Some(Status::Damaged) => Verdict::Damaged,
        Some(Status::Warning) => Verdict::Warnings,
        _ => Verdict::Ok,
    }
}

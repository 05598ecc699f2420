//! The types of a report.

duolog_types::words!(
/// The status of a check.
#[derive(PartialOrd, Ord)]
Status, "status of a check", {
    /// No problem.
    Ok = "ok",
    /// A problem without damage.
    Warning = "warning",
    /// Damage.
    Damaged = "damaged",
});

duolog_types::words!(
/// The depth of an examination.
#[derive(Default)]
Depth, "depth of an examination", {
    /// The state, the records about the logs, and the most recently changed logs.
    #[default]
    Quick = "quick",
    /// Also every line of every log, every file and every index.
    Deep = "deep",
});

/// A check and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The name of the check.
    pub name: &'static str,
    /// The status.
    pub status: Status,
    /// The finding.
    pub detail: String,
    /// The action to take.
    pub hint: Option<String>,
}

duolog_types::words!(
/// The verdict of a report.
Verdict, "verdict", {
    /// No problem was found.
    Ok = "ok",
    /// There are warnings, but no damage.
    Warnings = "warnings",
    /// There is damage.
    Damaged = "damaged",
});

/// A report of all checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The verdict: the worst status of all checks.
    pub verdict: Verdict,
    /// The checks.
    pub checks: Vec<Check>,
}

pub(super) fn verdict(checks: &[Check]) -> Verdict {
    match checks.iter().map(|check| check.status).max() {
        Some(Status::Damaged) => Verdict::Damaged,
        Some(Status::Warning) => Verdict::Warnings,
        _ => Verdict::Ok,
    }
}

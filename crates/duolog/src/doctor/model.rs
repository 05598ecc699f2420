//! What an examination says.

/// How one part stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// As it should be.
    Ok,
    /// Worth knowing.
    Warning,
    /// Not as it should be.
    Damaged,
}

impl Status {
    /// The word in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Damaged => "damaged",
        }
    }
}

/// How much is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// The state, what is recorded of the logs, and the logs that changed last.
    #[default]
    Quick,
    /// Every line of every log, every file and every index besides.
    Deep,
}

impl Depth {
    /// The word in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Deep => "deep",
        }
    }
}

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

/// How the whole stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All is well.
    Ok,
    /// Nothing is lost, but something is worth knowing.
    Warnings,
    /// Something is not as it should be.
    Damaged,
}

impl Verdict {
    /// The word in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warnings => "warnings",
            Self::Damaged => "damaged",
        }
    }
}

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

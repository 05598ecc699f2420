//! Looking whether all is well, without changing anything but what opening a store mends anyway.

mod checks;
mod model;

pub use model::{Check, Report, Status, Verdict};

use crate::error::Result;
use crate::store::Store;

/// Looks at every part of a store.
#[derive(Clone, Copy)]
pub struct Doctor<'s> {
    pub(crate) store: &'s Store,
}

impl Doctor<'_> {
    /// Runs every check; `each` is told of each one as it is done.
    ///
    /// A check that cannot be made is a finding, not an error: the others still speak.
    pub fn examine(&self, mut each: impl FnMut(&Check)) -> Result<Report> {
        let mut checks = Vec::new();
        for (name, check) in checks::ALL {
            let check = check(self.store).unwrap_or_else(|error| Check {
                name,
                status: if error.kind() == crate::Kind::Busy || error.is_full() {
                    Status::Warning
                } else {
                    Status::Damaged
                },
                detail: format!("could not be checked: {error}"),
                hint: error.hint(),
            });
            each(&check);
            checks.push(check);
        }
        Ok(Report { verdict: model::verdict(&checks), checks })
    }
}

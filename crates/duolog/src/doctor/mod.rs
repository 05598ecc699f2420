//! Looking whether all is well, without changing anything but what opening a store mends anyway.

mod checks;
mod model;

pub use model::{Check, Depth, Report, Status, Verdict};

use crate::error::{ErrorKind, Result};
use crate::store::Store;
use checks::Look;

/// Looks at every part of a store.
#[derive(Clone)]
pub struct Doctor {
    pub(crate) store: Store,
}

impl Doctor {
    /// Runs every check of this depth; `each` is told of each one as it is done.
    ///
    /// A check that cannot be made is a finding, not an error: the others still speak.
    pub fn examine(&self, depth: Depth, mut each: impl FnMut(&Check)) -> Result<Report> {
        let mut checks = Vec::new();
        for (name, _, check) in checks::ALL.iter().filter(|(_, from, _)| *from == Depth::Quick || depth == Depth::Deep)
        {
            let check = check(&Look { store: &self.store, depth }).unwrap_or_else(|error| Check {
                name,
                status: if matches!(error.kind(), ErrorKind::Busy | ErrorKind::Full) {
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

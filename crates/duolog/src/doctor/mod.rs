//! Health checks of a store. They change nothing except what opening a store repairs.

mod checks;
mod model;

pub use model::{Check, Depth, Report, Status, Verdict};

use crate::error::{ErrorKind, Result};
use crate::store::Store;
use checks::Look;

/// The handle for health checks.
#[derive(Clone)]
pub struct Doctor {
    pub(crate) store: Store,
}

impl Doctor {
    /// Runs every check of this depth. `each` is called after each check.
    ///
    /// A check that fails to run is a finding, not an error: the other checks still run.
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

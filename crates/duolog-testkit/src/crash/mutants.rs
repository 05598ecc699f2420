//! Removes one rule at a time: the harness must notice each, or it proves nothing about that rule.

use duolog_types::mutant::{self, Mutant};

use super::check::Broken;
use super::enumerate::enumerate;
use super::script::Script;

/// The result for one mutant.
#[derive(Clone, Debug)]
pub struct Caught {
    /// The rule that was removed.
    pub mutant: Mutant,
    /// The workload, the number of points until it was found, the crash and the violation; none if it was not found.
    pub by: Option<(Script, usize, String, Broken)>,
}

/// Removes a rule in this process and enumerates until an invariant is violated.
pub fn hunt(mutant: Mutant) -> Caught {
    mutant::set(Some(mutant));
    let mut points = 0;
    let mut caught = Caught { mutant, by: None };
    for script in Script::ALL {
        let summary = enumerate(script, 1);
        if let Some((number, what, broken)) = summary.broken {
            caught.by = Some((script, points + number, what, broken));
            break;
        }
        points += summary.points;
    }
    mutant::set(None);
    caught
}

//! Rules removed one at a time: each must be noticed, or the harness proves nothing about it.

use duolog_types::mutant::{self, Mutant};

use super::check::Broken;
use super::enumerate::enumerate;
use super::script::Script;

/// How a mutant was caught.
#[derive(Clone, Debug)]
pub struct Caught {
    /// The rule that was removed.
    pub mutant: Mutant,
    /// The workload, the number of points until it showed, the crash, and what did not hold; nothing if it never did.
    pub by: Option<(Script, usize, String, Broken)>,
}

/// Removes a rule in this process and enumerates until something does not hold.
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

//! The steps of a command: every system call that changes, locks or lists something, and every message to a server.

use super::home::{Answer, Home};

/// One step, as the shim reports it.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    kind: String,
    /// The header of a frame that ends a transaction; the frame itself is the next step.
    ends_transaction: bool,
    path: String,
}

/// Runs a command and returns its steps.
pub(crate) fn of(home: &Home, arguments: &[&str], input: Option<&str>) -> (Answer, Vec<Step>) {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let mut home = home.clone();
    home.with.push(("DUOLOG_SHIM_STEPS", file.path().display().to_string()));
    let answer = home.run(arguments, input);
    let text = std::fs::read_to_string(file.path()).expect("the steps");
    let steps = text.lines().filter_map(|line| {
        let mut words = line.splitn(3, ' ');
        let (kind, note, path) = (words.next()?, words.next()?, words.next()?);
        Some(Step { kind: kind.to_owned(), ends_transaction: note == "commit", path: path.to_owned() })
    });
    (answer, steps.collect())
}

/// Returns the steps before which a kill has a result that no earlier kill has, and one after the last.
///
/// A killed process leaves what it wrote, synced or not; a lock and a listing leave nothing; and a transaction in
/// SQLite's write-ahead log has no effect before its last frame is complete.
pub(crate) fn kill_points(steps: &[Step]) -> Vec<u32> {
    let leaves_nothing = |at: usize| {
        let step = &steps[at];
        let ends = at > 0 && steps[at - 1].ends_transaction;
        matches!(step.kind.as_str(), "lock" | "opendir" | "sync") || (step.path.ends_with("-wal") && !ends)
    };
    let numbers = (0..steps.len()).filter(|at| *at == 0 || !leaves_nothing(at - 1));
    numbers.map(|at| u32::try_from(at + 1).expect("a small number")).collect()
}

//! The phases of a run in `duolog runs show`.

use duolog::RunStatus;
use duolog::runs::{Execution, ExecutionOutcome as How, Run};
use serde::Deserialize;

use super::show::shortened;
use crate::commands::sessions::one_line;
use crate::out::{Text, Tone};

/// The status of a phase as text; sign and tone repeat the word.
#[derive(Clone, Copy)]
pub(super) struct PhaseLabel {
    sign: &'static str,
    word: &'static str,
    pub(super) tone: Tone,
}

/// The pseudo-phase of a run that waits at a gate.
const WAITING: &str = "waiting_approval";

const DONE: PhaseLabel = PhaseLabel { sign: "✓", word: "done", tone: Tone::Good };
const RUNNING: PhaseLabel = PhaseLabel { sign: "▶", word: "running", tone: Tone::Worth };
const FAILED: PhaseLabel = PhaseLabel { sign: "✗", word: "failed", tone: Tone::Bad };
const SKIPPED: PhaseLabel = PhaseLabel { sign: "–", word: "skipped", tone: Tone::Faint };
const DEFERRED: PhaseLabel = PhaseLabel { sign: "…", word: "deferred", tone: Tone::Worth };
const ENTERED: PhaseLabel = PhaseLabel { sign: "·", word: "entered", tone: Tone::Faint };

/// A phase to print.
struct Phase {
    name: String,
    stands: PhaseLabel,
    executions: usize,
    /// The error of the last execution that failed.
    error: Option<String>,
}

/// The fields of a history entry that are printed.
#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    phase: String,
    #[serde(default)]
    success: Option<bool>,
}

impl Entry {
    /// Returns a placeholder for an entry that is not a JSON object of this form.
    fn unreadable() -> Self {
        Self { phase: "(unreadable entry)".to_owned(), success: None }
    }
}

/// Prints the phases of a run.
pub(super) fn draw(text: &mut Text, run: &Run, executions: &[Execution]) {
    let phases = phases_of(run, executions);
    if phases.is_empty() {
        return;
    }
    text.line("");
    let width = phases.iter().map(|phase| phase.name.chars().count()).max().unwrap_or_default();
    for Phase { name, stands: PhaseLabel { sign, word, tone }, executions, error } in phases {
        let word = text.tone(tone, &format!("{sign} {word:<8}"));
        let times = if executions > 1 { format!("executed {executions} times") } else { String::new() };
        text.line(format!("{word} {name:<width$}  {times}").trim_end());
        if let Some(error) = error {
            text.line(format_args!("{:11}{}", "", text.tone(Tone::Faint, &error)));
        }
    }
}

/// Returns the phases in the order in which they were first entered.
///
/// The status comes from the executions of a phase, or from the history if it has none.
fn phases_of(run: &Run, executions: &[Execution]) -> Vec<Phase> {
    let mut phases: Vec<Phase> = Vec::new();
    let find = |phases: &mut Vec<Phase>, name: &str| {
        phases.iter().position(|known| known.name == name).unwrap_or_else(|| {
            phases.push(Phase { name: name.to_owned(), stands: ENTERED, executions: 0, error: None });
            phases.len() - 1
        })
    };
    for execution in executions {
        let at = find(&mut phases, phase_of(execution));
        let known = &mut phases[at];
        known.executions += 1;
        // A phase that succeeded once is done; later executions do not change that.
        if known.stands.word != DONE.word {
            known.stands = stands(execution.outcome());
        }
        known.error = execution.error().map(|error| shortened(&one_line(error))).or_else(|| known.error.take());
    }
    for entry in &run.phase_history {
        // Other fields are not decoded: a lone surrogate or 1e999 in a summary does not make the entry unreadable.
        let entry: Entry = serde_json::from_str(entry).unwrap_or_else(|_| Entry::unreadable());
        let phase = entry.phase.as_str();
        // The entry of a gate is shown with the gates.
        if phase == WAITING {
            continue;
        }
        let at = find(&mut phases, phase);
        if phases[at].executions == 0 {
            phases[at].stands = if entry.success == Some(true) { DONE } else { FAILED };
        }
    }
    let current = &run.summary.current_phase;
    if !current.is_empty() && current != WAITING && !phases.iter().any(|known| known.name == *current) {
        let at = find(&mut phases, current);
        phases[at].stands = if run.summary.status == RunStatus::Running { RUNNING } else { ENTERED };
    }
    phases
}

/// Returns the phase status for the outcome of an execution.
pub(super) fn stands(how: How) -> PhaseLabel {
    match how {
        How::Succeeded => DONE,
        How::Failed => FAILED,
        How::Skipped => SKIPPED,
        How::Deferred => DEFERRED,
        How::InFlight => RUNNING,
    }
}

/// Returns the phase of an execution.
pub(super) fn phase_of(execution: &Execution) -> &str {
    execution.skill.rsplit_once(':').map_or(execution.skill.as_str(), |(_, phase)| phase)
}

//! The output: the summary, and every violation with the commands around it.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{Events, Step, Violation};
use super::home::Disk;
use super::{Options, Tally};

/// The number of violations of one rule that are printed in full; the others are counted.
const SHOWN_MAX: usize = 2;
/// The number of commands that are printed for one violation.
const STEPS: usize = 30;
/// Commands that only read.
const READS: [&str; 18] = [
    "log cat",
    "log tail",
    "log search",
    "log verify",
    "log replay",
    "sessions show",
    "sessions list",
    "sessions export",
    "sessions items",
    "sessions branches",
    "runs show",
    "runs list",
    "runs output",
    "approvals list",
    "chats list",
    "chats history",
    "schedules show",
    "schedules runs",
];

/// Prints the violations of a round.
pub fn print(
    options: &Options,
    number: u32,
    disk: Disk,
    events: &Events,
    violations: &[Violation],
    say: &mut dyn FnMut(&str),
) {
    say(&format!(
        "FAILED round {number} on {disk:?}: {} violations; repeat with: duolog-blackbox --profile {} --seed {} --rounds {} --processes {} --steps {}",
        violations.len(),
        options.profile.name(),
        options.seed,
        number + 1,
        options.processes,
        options.steps
    ));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for violation in violations {
        let count = counts.entry(violation.rule).or_default();
        *count += 1;
        if *count > SHOWN_MAX {
            continue;
        }
        say(&format!("  rule: {}", violation.rule));
        say(&format!("    {}", violation.what.chars().take(1_500).collect::<String>()));
        let marked: BTreeSet<usize> = violation.steps.iter().copied().collect();
        // Other commands that changed the object, as far as commands and answers name it.
        let changes = |text: &str| !READS.iter().any(|read| text.contains(read));
        let around = violation.session.iter().flat_map(|session| {
            let mentions =
                move |text: &str| text.contains(&format!(" {session}")) || text.contains(&format!("\"{session}\""));
            let touched = move |(_, step): &(usize, &Step)| {
                changes(&step.text) && (mentions(&step.text) || mentions(&step.answer))
            };
            events.steps.iter().enumerate().filter(touched).map(|(index, _)| index)
        });
        let mut shown: Vec<usize> = marked.iter().copied().chain(around).collect();
        shown.sort_by_key(|step| (events.steps[*step].span.start, *step));
        shown.dedup();
        let left_out = shown.len().saturating_sub(STEPS);
        if left_out > 0 {
            say(&format!("    {left_out} earlier commands are not shown"));
        }
        for index in shown.into_iter().skip(left_out) {
            let step = &events.steps[index];
            let mark = if marked.contains(&index) { '>' } else { ' ' };
            say(&format!(
                "  {mark} [{}..{}] worker {} step {}: {}\n      {:?}: {}",
                step.span.start, step.span.end, step.worker, step.number, step.text, step.outcome, step.answer
            ));
        }
    }
}

/// Returns the summary, line by line.
pub fn summary(tally: &Tally) -> Vec<String> {
    let mut lines: Vec<String> = tally
        .verbs
        .iter()
        .map(|(verb, [done, refused, unknown])| {
            format!("  {verb:<20} {done:>7} acknowledged {refused:>6} refused {unknown:>6} unknown")
        })
        .collect();
    let [done, refused, unknown] = tally.commands();
    lines.push(format!(
        "{} commands: {done} acknowledged, {refused} refused, {unknown} unknown; {} lines acknowledged, {} lost",
        done + refused + unknown,
        tally.lines,
        tally.lost
    ));
    lines.push(format!(
        "{} kills, {} pauses, {} clock jumps, {} disks filled",
        tally.kills, tally.pauses, tally.clock_jumps, tally.disks_filled
    ));
    lines.extend(tally.missing.iter().map(|missing| format!("note: {missing}")));
    for (rule, count) in &tally.broken {
        let first = tally.first.get(rule).map(std::time::Duration::as_secs_f64).unwrap_or_default();
        lines.push(format!("  violated {count} times, first after {first:.0} s: {rule}"));
    }
    lines.push(format!("{} passed, {} failed", tally.passed, tally.failed));
    lines
}

//! One command is one transaction: every command that changes owned rows is killed before each of its steps. The home
//! must then hold the state before the command or the state after it. A repetition must complete the command.

mod cases;
mod dump;

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use cases::WITHOUT_OWNED_ROWS;
use cases::{CASES, CONFIG, Case, Contract, HOME};
use dump::{canonical, known, missing, raw};

use super::campaign::{Cases, binary, sample, try_all};
use super::check::{CheckResult, describe, done};
use super::home::Binary;
use super::steps;
use super::template::{Copied, Template};

/// Kills every command at its steps. Returns the number of kills; the error lists every command that is not atomic.
pub fn transactions(cases: &Cases) -> Result<usize, String> {
    let binary = binary(cases);
    let stage = Stage::make(&binary, cases)?;
    let meant = |case: &&Case| cases.only.as_ref().is_none_or(|only| case.words.starts_with(only.as_str()));
    let all: Vec<&Case> = CASES.iter().filter(meant).collect();
    let share = cases.cases.map(|count| count.div_ceil(all.len().max(1)));
    let (tried, broken) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let _ = try_all(&all, |case| {
        match stage.kill_all(case, share, cases.seed) {
            Ok(kills) => drop(tried.fetch_add(kills, Ordering::Relaxed)),
            Err(why) => broken.lock().expect("no thread panicked").push(format!("duolog {}{why}", case.words)),
        }
        Ok(true)
    })?;
    let broken = broken.into_inner().expect("no thread panicked");
    if broken.is_empty() { Ok(tried.into_inner()) } else { Err(broken.join("\n")) }
}

/// The first sync of a log fails.
const FAILED_SYNC: &str = "fail=5 sync .jsonl 1 0";

/// The home in which commands are killed.
struct Stage<'b> {
    binary: &'b Binary,
    template: Template,
    /// Values that the commands of the home printed, and files next to the home.
    names: BTreeMap<String, String>,
    known: HashSet<String>,
    before: Vec<String>,
    /// Commands that take an operation id.
    once: HashSet<String>,
}

/// The result of a command that is not killed.
struct Expected {
    case: Case,
    before: Vec<String>,
    after: Vec<String>,
    steps: Vec<u32>,
}

impl<'b> Stage<'b> {
    fn make(binary: &'b Binary, cases: &Cases) -> CheckResult<Self> {
        let template = Template::new(cases.store.as_ref())?;
        let home = template.home(binary);
        let mut names = BTreeMap::new();
        for name in ["document", "summary"] {
            names.insert(name.to_owned(), template.beside(name).display().to_string());
        }
        let summary = "{\"role\":\"system\",\"content\":\"a and b\"}";
        std::fs::write(template.beside("summary"), summary).map_err(|error| error.to_string())?;
        let config = home.at.join("config");
        std::fs::create_dir_all(&config).map_err(|error| error.to_string())?;
        std::fs::write(config.join("duolog.toml"), CONFIG).map_err(|error| error.to_string())?;
        let once = commands_with_operation_id(&home.run(&["docs"], None).output)?;
        for (words, input) in HOME {
            let (name, words) = words.split_once("<- ").map_or((None, *words), |(name, words)| (Some(name), words));
            let (plan, words) = words.strip_prefix('!').map_or((None, words), |words| (Some(FAILED_SYNC), words));
            let words = filled(words, &names);
            let answer = home.run_with(&words.iter().map(String::as_str).collect::<Vec<_>>(), Some(input), plan);
            if answer.ok() == plan.is_some() {
                return Err(format!("creating the home: {words:?}: {}", describe(&answer)));
            }
            if let Some(name) = name {
                let printed = answer.output.split_whitespace().next().unwrap_or_default();
                names.insert(name.to_owned(), printed.to_owned());
            }
        }
        template.finish()?;
        let copied = template.copy(binary)?;
        settle(&copied)?;
        let raw = raw(&copied)?;
        drop(copied);
        let mut known = known(&raw);
        // What tells the units of a command apart is not replaced.
        known.extend(CASES.iter().flat_map(|case| case.contract.units()).map(|unit| (*unit).to_owned()));
        let before = canonical(&raw, &known);
        Ok(Self { binary, template, names, known, before, once })
    }

    /// Returns a copy of the home, ready for the command.
    fn copy(&self, case: &Case) -> CheckResult<Copied> {
        let copied = self.template.copy(self.binary)?;
        if !case.sql.is_empty() {
            match copied.database() {
                Some(database) => drop(database.run_sql(case.sql).map_err(|error| error.to_string())?),
                None => rusqlite::Connection::open(copied.home.at.join("state/state.db"))
                    .and_then(|state| state.execute_batch(case.sql))
                    .map_err(|error| error.to_string())?,
            }
        }
        Ok(copied)
    }

    /// Returns the arguments of a command, with an operation id if it takes one.
    fn words(&self, case: &Case) -> Vec<String> {
        let mut words = filled(case.words, &self.names);
        if self.is_once(case) {
            words.extend(["--operation-id", "the-one"].map(str::to_owned));
        }
        words
    }

    fn is_once(&self, case: &Case) -> bool {
        let of_units = case.words.contains(" --all ") || case.words.contains(" --each ");
        self.once.iter().any(|command| is_of(case, command)) && !of_units
    }

    fn dump(&self, copied: &Copied) -> CheckResult<Vec<String>> {
        settle(copied)?;
        Ok(canonical(&raw(copied)?, &self.known))
    }

    /// Runs a command without a kill.
    fn expect(&self, case: &Case) -> CheckResult<Expected> {
        let words = self.words(case);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let before = if case.sql.is_empty() { self.before.clone() } else { self.dump(&self.copy(case)?)? };
        let before = compared(case, before);
        let copied = self.copy(case)?;
        let (answer, steps) = steps::of(&copied.home, &words, Some(case.input));
        done(&answer, "without a kill")?;
        let after = compared(case, self.dump(&copied)?);
        if before == after {
            return Err("the command changes nothing".to_owned());
        }
        Ok(Expected { case: case.clone(), before, after, steps: steps::kill_points(&steps) })
    }

    /// Kills a command at its steps, or at a random sample of them, until a check fails.
    fn kill_all(&self, case: &Case, share: Option<usize>, seed: u64) -> CheckResult<usize> {
        let expected = self.expect(case).map_err(|why| format!(": {why}"))?;
        let mut kills = 0;
        for step in sample(expected.steps.clone(), share, seed) {
            let killed = self.kill(&expected, step);
            kills += usize::from(killed.map_err(|why| format!(", killed before step {step}: {why}"))?);
        }
        Ok(kills)
    }

    fn kill(&self, expected: &Expected, step: u32) -> CheckResult<bool> {
        let Expected { case, before, after, .. } = expected;
        let copied = self.copy(case)?;
        let words = self.words(case);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let plan = format!("kill step * {step} 0");
        if copied.home.run_with(&words, Some(case.input), Some(&plan)).code.is_some() {
            return Ok(false);
        }
        copied.wait_for_server()?;
        let left = compared(case, self.dump(&copied)?);
        check_atomic(case.contract, before, after, &left)?;
        let appends_more = matches!(case.contract, Contract::Lines(_)) && left != *before;
        if !self.is_once(case) && (left == *after || appends_more) {
            return Ok(true);
        }
        let answer = copied.home.run(&words, Some(case.input));
        done(&answer, "repeated")?;
        let last = compared(case, self.dump(&copied)?);
        match case.contract {
            // A lost time stays lost.
            Contract::Claimed(_) => check_atomic(case.contract, after, after, &last),
            _ if last == *after => Ok(()),
            Contract::Noted if without_epochs(&last) == without_epochs(after) => Ok(()),
            _ => Err(format!("repeated, its result differs from one uninterrupted run: {}", difference(after, &last))),
        }?;
        Ok(true)
    }
}

/// Returns the compared part of a dump.
fn compared(case: &Case, mut dump: Vec<String>) -> Vec<String> {
    // A command of several units records its plan and its result under its operation id.
    if !matches!(case.contract, Contract::Atomic | Contract::Lines(_)) {
        dump.retain(|line| !line.starts_with("idempotency "));
    }
    // How far the times were looked at is noted with the row of each.
    if matches!(case.contract, Contract::Claimed(_)) {
        dump.retain(|line| !line.starts_with("cron_ticks "));
    }
    dump
}

/// Removes the epochs of logs and the records of rewritten ones: a repair that was killed after it raised the epoch and
/// before the new file had its name raises the epoch again.
fn without_epochs(lines: &[String]) -> Vec<String> {
    let is_rewrite = |line: &&String| line.starts_with("repairs ") && line.contains("\"action\":\"rewritten\"");
    let others = lines.iter().filter(|line| !is_rewrite(line));
    others
        .map(|line| match line.split_once("\"log_epoch\":") {
            Some((before, after)) => format!("{before}{}", after.trim_start_matches(|c: char| c.is_ascii_digit())),
            None => line.clone(),
        })
        .collect()
}

/// The home must hold all of a command or nothing of it; with units, all or nothing of each.
fn check_atomic(contract: Contract, before: &[String], after: &[String], left: &[String]) -> CheckResult {
    for unit in contract.units() {
        let of = |lines: &[String]| lines.iter().filter(|line| line.contains(unit)).cloned().collect::<Vec<_>>();
        let (before, after, left) = (of(before), of(after), of(left));
        if before.is_empty() && after.is_empty() {
            return Err(format!("nothing in the home tells of {unit:?}"));
        }
        let claimed = |line: &String| line.starts_with("cron_runs ") && line.contains("\"outcome\":null");
        let lost = matches!(contract, Contract::Claimed(_)) && left.len() == 1 && left.iter().all(claimed);
        if left != before && left != after && !lost {
            let (less, more) = (difference(&before, &left), difference(&after, &left));
            return Err(format!("half of {unit:?} was done. Changed: {less}\nmissing: {more}"));
        }
    }
    Ok(())
}

fn difference(from: &[String], to: &[String]) -> String {
    let mut text = String::new();
    for (sign, lines) in [('-', missing(from, to)), ('+', missing(to, from))] {
        for line in lines {
            let _ = write!(text, "\n  {sign} {line}");
        }
    }
    text
}

/// Opens the home for writing, which recovers it, and reads it, which folds the logs.
fn settle(copied: &Copied) -> CheckResult {
    for words in [&["state", "migrate"][..], &["sessions", "list"]] {
        let answer = copied.home.run(words, None);
        if !answer.ok() {
            return Err(format!("{words:?}: {}", describe(&answer)));
        }
    }
    Ok(())
}

fn filled(words: &str, names: &BTreeMap<String, String>) -> Vec<String> {
    let fill = |word: &str| {
        names.iter().fold(word.to_owned(), |word, (name, with)| word.replace(&format!("{{{name}}}"), with))
    };
    words.split(' ').map(fill).collect()
}

fn is_of(case: &Case, command: &str) -> bool {
    case.words.strip_prefix(command).is_some_and(|rest| rest.starts_with(' ') || rest.is_empty())
}

/// Returns the commands of the reference that take an operation id. Returns an error if a command has no case and is
/// not listed as changing nothing.
fn commands_with_operation_id(reference: &str) -> CheckResult<HashSet<String>> {
    let sections: Vec<(&str, &str)> =
        reference.split("\n## duolog ").skip(1).filter_map(|section| section.split_once('\n')).collect();
    let mut once = HashSet::new();
    for (command, text) in &sections {
        let above =
            sections.iter().any(|(other, _)| other.strip_prefix(command).is_some_and(|rest| rest.starts_with(' ')));
        let has_case = CASES.iter().any(|case| is_of(case, command));
        if !above && has_case == WITHOUT_OWNED_ROWS.contains(command) {
            return Err(format!(
                "{command:?} needs a case in replay/atomic/cases.rs, or an entry in WITHOUT_OWNED_ROWS"
            ));
        }
        if text.contains("--operation-id") {
            if !above && !has_case {
                return Err(format!("{command:?} takes an operation id but has no case in replay/atomic/cases.rs"));
            }
            once.insert((*command).to_owned());
        }
    }
    if sections.is_empty() {
        return Err("the reference has no command".to_owned());
    }
    Ok(once)
}

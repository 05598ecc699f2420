//! Opens a home with the real binary after a crash and checks it against the ledger.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::home::{Answer, Home};
use super::ledger::{Attempt, Effect, Ledger, Moment, Session, Stage, World, unknown};
use super::record::Record;

/// The error is a violation, as text.
pub(crate) type CheckResult<T = ()> = Result<T, String>;

/// What the real binary shows of a home.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) sessions: BTreeMap<String, FoundSession>,
    runs: BTreeMap<String, Value>,
    /// True while a command is stopped: lines about state changes may still be pending.
    early: bool,
}

/// A session of the home.
#[derive(Debug)]
pub(crate) struct FoundSession {
    pub(crate) id: String,
    name: String,
    /// The number of events in the catalog.
    events: u64,
    /// The lines of its log, if they were read.
    pub(crate) lines: Option<Vec<String>>,
}

pub(crate) const NEXT: &str = "{\"type\":\"user\",\"text\":\"same\"}";

/// Opens the home and checks it against the ledger at this point. `repair`: logs may have been closed.
pub(crate) fn check(home: &Home, ledger: &Ledger, records: &[Record], moment: Moment, repair: bool) -> CheckResult {
    check_health(home, "after the crash")?;
    let runs = ledger.runs();
    let found = look(home, &runs)?;
    let mut worlds = ledger.worlds(records, moment);
    let possible = matching(&found, &worlds).map_err(|why| format!("after the crash: {why}"))?;
    keep(&mut worlds, &possible);

    if repair {
        for session in found.sessions.keys() {
            done(&home.run(&["log", "repair", session], None), &format!("repairing {session}"))?;
        }
    }
    for (played, session) in ledger.operations(records, moment) {
        if worlds.iter().all(|world| world.sessions.contains_key(session)) {
            let answer = repeat(home, played);
            done(&answer, &format!("retrying {:?}", played.arguments))?;
        }
    }
    let mut after = ledger.worlds(records, Moment { retried: true, ..moment });
    keep(&mut after, &possible);
    for session in found.sessions.keys().filter(|id| !runs.contains(*id)) {
        check_next_writes(home, session)?;
        for world in &mut after {
            if let Some(session_there) = world.sessions.get_mut(session) {
                session_there.add(NEXT);
                session_there.name = format!("next-{session}");
                session_there.renamed.insert(format!("next-{session}"));
            }
        }
    }
    let found = look(home, &runs)?;
    matching(&found, &after).map_err(|why| format!("after a retry of every operation: {why}"))?;
    counted(&found)?;
    check_health(home, "at the end")
}

/// The catalog counts the lines of the logs.
pub(crate) fn counted(found: &Found) -> CheckResult {
    for (id, there) in &found.sessions {
        let (events, lines) = (there.events, there.lines.as_ref().map_or(0, Vec::len));
        if events != lines as u64 {
            return Err(format!("the catalog counts {events} events of {id}, its log has {lines} lines"));
        }
    }
    Ok(())
}

impl Ledger {
    fn runs(&self) -> BTreeSet<String> {
        let run = |played: &Attempt| match &played.effect {
            Effect::Run { run, .. } => Some(run.clone()),
            _ => None,
        };
        self.played.iter().filter_map(run).collect()
    }
}

/// Repeats a command, byte for byte.
pub(crate) fn repeat(home: &Home, played: &Attempt) -> Answer {
    let arguments: Vec<&str> = played.arguments.iter().map(String::as_str).collect();
    home.run(&arguments, played.input.as_deref())
}

/// Neither `doctor` nor `log verify` reports damage: only unsynced bytes were lost.
pub(crate) fn check_health(home: &Home, when: &str) -> CheckResult {
    for arguments in [&["doctor", "--deep", "--json"][..], &["log", "verify", "--all", "--json"]] {
        let answer = home.run(arguments, None);
        // The crash came before the home was created. If a command was acknowledged, another check reports it.
        if answer.json()["error"]["kind"] == "not_found" {
            continue;
        }
        if !answer.ok() || answer.json()["verdict"] == "damaged" {
            return Err(format!("{arguments:?} {when}: {}", describe(&answer)));
        }
    }
    Ok(())
}

/// The next append and the next rename succeed.
pub(crate) fn check_next_writes(home: &Home, session: &str) -> CheckResult {
    let append = ["log", "append", "--session", session, "--durability", "power", "--line", NEXT];
    done(&home.run(&append, None), &format!("the next append to {session}"))?;
    let name = format!("next-{session}");
    done(&home.run(&["sessions", "rename", session, &name], None), &format!("the next rename of {session}"))
}

pub(crate) fn done(answer: &Answer, what: &str) -> CheckResult {
    if answer.ok() { Ok(()) } else { Err(format!("{what}: {}", describe(answer))) }
}

/// Formats the exit code and the output of a command.
pub(crate) fn describe(answer: &Answer) -> String {
    let Answer { code, output, errors, .. } = answer;
    let cut = |text: &str| text.chars().take(4000).collect::<String>();
    format!("exit code {code:?}\n{}{}", cut(output), cut(errors))
}

pub(crate) fn look(home: &Home, runs: &BTreeSet<String>) -> CheckResult<Found> {
    let listed = home.run(&["sessions", "list", "--json", "--limit", "200"], None);
    done(&listed, "listing sessions")?;
    let mut found = list(&listed);
    for (id, there) in &mut found.sessions {
        let cat = home.run(&["log", "cat", &there.id], None);
        // `log cat` exits with 1 and a warning if it skipped lines; the lines are checked later.
        if !matches!(cat.code, Some(0 | 1)) {
            return Err(format!("reading the log of {id}: {}", describe(&cat)));
        }
        there.lines = Some(cat.output.lines().map(str::to_owned).collect());
    }
    for run in runs {
        let shown = home.run(&["runs", "show", run, "--json"], None);
        if shown.ok() {
            found.runs.insert(run.clone(), shown.json());
        } else if shown.code != Some(1) {
            return Err(format!("showing run {run}: {}", describe(&shown)));
        }
    }
    check_unique_lines(&found)?;
    Ok(found)
}

/// Reads some sessions while another command is stopped; `None` if that command blocks the reader.
pub(crate) fn glance(home: &Home, sessions: &[&str]) -> CheckResult<Option<Found>> {
    let listed = home.run(&["sessions", "list", "--json", "--limit", "200"], None);
    if listed.code == Some(3) {
        return Ok(None);
    }
    done(&listed, "listing sessions")?;
    let mut found = Found { early: true, ..list(&listed) };
    for (id, there) in found.sessions.iter_mut().filter(|(id, _)| sessions.contains(&id.as_str())) {
        let cat = home.run(&["log", "cat", &there.id], None);
        match cat.code {
            // Deleted since it was listed: the stopped command has deleted it in part.
            Some(1) if cat.output.is_empty() => return Ok(None),
            Some(0 | 1) => there.lines = Some(cat.output.lines().map(str::to_owned).collect()),
            Some(3) => return Ok(None),
            _ => return Err(format!("reading the log of {id}: {}", describe(&cat))),
        }
    }
    Ok(Some(found))
}

fn list(listed: &Answer) -> Found {
    let mut found = Found::default();
    for session in listed.json()["sessions"].as_array().into_iter().flatten() {
        let text = |key: &str| session[key].as_str().unwrap_or_default().to_owned();
        let (id, name, events) = (text("id"), text("name"), session["events"].as_u64().unwrap_or_default());
        // Ids of the harness are short.
        let key = if id.len() < 36 { id.clone() } else { unknown(&name) };
        found.sessions.insert(key, FoundSession { id, name, events, lines: None });
    }
    found
}

/// A line about a state change is in the log once.
fn check_unique_lines(found: &Found) -> CheckResult {
    for (id, there) in &found.sessions {
        let mut seen = BTreeSet::new();
        for line in there.lines.iter().flatten().filter(|line| line.contains("\"subtype\":\"duolog.")) {
            if !seen.insert(line) {
                return Err(format!("the log of {id} has twice: {line}"));
            }
        }
    }
    Ok(())
}

/// Returns the indexes of the worlds that agree with the home. Returns an error with the reasons if none does.
pub(crate) fn matching(found: &Found, worlds: &[World]) -> CheckResult<BTreeSet<usize>> {
    let answers: Vec<CheckResult> = worlds.iter().map(|world| agrees(found, world)).collect();
    let agreeing: BTreeSet<usize> = (0..worlds.len()).filter(|at| answers[*at].is_ok()).collect();
    if agreeing.is_empty() {
        let reasons: BTreeSet<String> = answers.into_iter().filter_map(Result::err).collect();
        return Err(reasons.into_iter().collect::<Vec<_>>().join("; or: "));
    }
    Ok(agreeing)
}

fn keep(worlds: &mut Vec<World>, numbers: &BTreeSet<usize>) {
    let mut number = 0..;
    worlds.retain(|_| number.next().is_some_and(|number| numbers.contains(&number)));
}

fn agrees(found: &Found, world: &World) -> CheckResult {
    for (id, (must, may)) in &world.runs {
        let shown = found.runs.get(id);
        for stage in [Stage::Start, Stage::Claim, Stage::Begin, Stage::End, Stage::Gate, Stage::Approve, Stage::Finish]
        {
            let happened = shown.is_some_and(|run| happened(run, stage));
            if must.contains(&stage) && !happened {
                return Err(format!("run {id} lost {stage:?}, which was acknowledged: {shown:?}"));
            }
            if !may.contains(&stage) && happened {
                return Err(format!("run {id} has {stage:?}, which no command requested: {shown:?}"));
            }
        }
    }
    for (id, session) in &world.sessions {
        let Some(there) = found.sessions.get(id) else { return Err(format!("session {id} is missing")) };
        if there.name != session.name {
            return Err(format!("session {id} is named {}, not {}", there.name, session.name));
        }
        if let Some(lines) = &there.lines {
            same_lines(id, session, lines)?;
            if !found.early {
                check_rename_lines(id, session, lines)?;
            }
        }
    }
    let known = |id: &&String| world.sessions.contains_key(*id) || world.runs.contains_key(*id);
    match found.sessions.keys().find(|id| !known(id)) {
        None => Ok(()),
        Some(id) => Err(format!("session {id} exists but should not")),
    }
}

fn same_lines(id: &str, session: &Session, lines: &[String]) -> CheckResult {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for line in lines {
        if line.contains("\"subtype\":\"duolog.") {
            continue;
        }
        if !session.lines.contains_key(line) {
            return Err(format!("the log of {id} has a line that was never appended: {}", short(line)));
        }
        *counts.entry(line).or_default() += 1;
    }
    for (line, count) in &session.lines {
        let there = counts.get(line.as_str()).copied().unwrap_or_default();
        if !(count.least..=count.most).contains(&there) {
            let (least, most) = (count.least, count.most);
            return Err(format!("the log of {id} has {there} copies, expected {least} to {most}: {}", short(line)));
        }
    }
    Ok(())
}

/// Every rename has one line in the log.
fn check_rename_lines(id: &str, session: &Session, lines: &[String]) -> CheckResult {
    for name in &session.renamed {
        let tells = |line: &&String| line.contains("duolog.renamed") && line.contains(&format!("\"name\":\"{name}\""));
        let count = lines.iter().filter(tells).count();
        if count != 1 {
            return Err(format!("the log of {id} has {count} lines for the rename to {name}"));
        }
    }
    Ok(())
}

fn short(line: &str) -> String {
    line.chars().take(60).collect()
}

fn happened(run: &Value, stage: Stage) -> bool {
    let first = |list: &str| run[list].as_array().and_then(|list| list.first()).unwrap_or(&Value::Null).clone();
    match stage {
        Stage::Start | Stage::ClaimAgain | Stage::Acknowledge => true,
        Stage::Claim => run["run"]["fence"].as_u64().unwrap_or_default() >= 1,
        Stage::Begin => first("executions").is_object(),
        Stage::End => first("executions")["outcome"] == "succeeded",
        Stage::Gate => first("approvals").is_object(),
        Stage::Approve => first("approvals")["status"] == "approved",
        Stage::Finish => run["run"]["status"] == "succeeded",
    }
}

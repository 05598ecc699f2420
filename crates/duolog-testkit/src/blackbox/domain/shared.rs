//! What all workers share: rows of lists, claims of runs, due times of schedules.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::command::Call;
use super::super::history::{Events, Span, Violation};
use super::super::worker::{CommandRun, Worker};
use super::json::word;

/// The time of the first tick, half a minute after a full hour.
const FIRST_TICK: &str = "2026-03-01T00:00:30Z";
/// The number of minutes after it that are checked.
const MINUTES: usize = 50;
/// The schedule that is due every minute and catches up on every due time.
const EVERY_MINUTE: &str = "every-minute";

/// What the workers recorded.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Rows that are never deleted: list, id, and a tick after they were seen.
    existing: Vec<(&'static str, String, u64)>,
    /// Lists that were read page by page.
    walks: Vec<Walk>,
    /// Fences of claims: run, fence, step.
    grants: Vec<(String, u64, usize)>,
    /// Due times that fired: schedule, time, step.
    fired: Vec<(String, String, usize)>,
}

/// A list that was read page by page.
#[derive(Clone, Debug)]
pub struct Walk {
    step: usize,
    span: Span,
    list: &'static str,
    how: String,
    ids: Vec<String>,
}

/// The configuration of a round.
pub fn config(slots: usize, workers: usize) -> String {
    let own =
        (0..=workers).map(|worker| format!("[schedules.own-{worker}]\ncron = \"5 4 1 1 *\"\nworkflow = \"yearly\"\n"));
    let own: String = own.collect();
    format!(
        "[runs]\nmax_running = {slots}\n\
         [schedules.{EVERY_MINUTE}]\ncron = \"* * * * *\"\nworkflow = \"minutely\"\ncatch_up = \"all\"\n\
         [schedules.latest]\ncron = \"*/2 * * * *\"\nworkflow = \"latest\"\n{own}"
    )
}

/// Checks the rules of shared objects.
pub fn check(events: &Events, found: &mut Vec<Violation>) {
    let facts = &events.facts;
    for walk in &facts.walks {
        let mut lost = facts
            .existing
            .iter()
            .filter(|(list, id, tick)| *list == walk.list && *tick < walk.span.start && !walk.ids.contains(id));
        if let Some((_, id, _)) = lost.next() {
            let what = format!("{} does not show {id}, which existed all the time; {} more", walk.how, lost.count());
            let (steps, session) = (vec![walk.step], Some(id.clone()));
            found.push(Violation { rule: "pages lose no row", what, steps, session });
        }
        // A row that is deleted and created again, by a wrong clock or from a copy, is another row with another
        // position.
        let stays = |id: &&String| facts.existing.iter().any(|(list, stays, _)| *list == walk.list && stays == *id);
        let shown: Vec<&String> = walk.ids.iter().filter(stays).collect();
        let known: BTreeSet<&String> = shown.iter().copied().collect();
        if walk.how.contains("--order") && known.len() < shown.len() {
            let what = format!("{} shows {} rows of {} twice", walk.how, shown.len() - known.len(), shown.len());
            found.push(Violation { rule: "pages show a row once", what, steps: vec![walk.step], session: None });
        }
    }
    let mut owners: BTreeMap<(&str, u64), usize> = BTreeMap::new();
    for (run, fence, step) in &facts.grants {
        if let Some(other) = owners.insert((run, *fence), *step) {
            let what = format!("fence {fence} of {run} was granted twice");
            found.push(Violation { rule: "one winner", what, steps: vec![other, *step], session: Some(run.clone()) });
        }
    }
    let mut times: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (name, due, step) in &facts.fired {
        if let Some(other) = times.insert((name, due), *step) {
            let what = format!("{name} was fired twice for {due}");
            found.push(Violation { rule: "a due time fires once", what, steps: vec![other, *step], session: None });
        }
    }
}

impl Worker {
    /// Records that a row exists and is never deleted.
    pub fn exists(&self, list: &'static str, id: &str) {
        let tick = self.round.history.tick();
        self.round.history.events().facts.existing.push((list, id.to_owned(), tick));
    }

    /// Records the fences in an answer, whatever the exit code is.
    pub fn note_grants(&self, done: &CommandRun) {
        let Some(answer) = done.ran.answer() else { return };
        let several = ["admitted", "claims"].into_iter().flat_map(|key| answer[key].as_array().into_iter().flatten());
        let all = several.chain([&answer]).filter_map(|one| Some((word(&one["run"], "id"), one["fence"].as_u64()?)));
        let grants: Vec<_> = all.map(|(run, fence)| (run, fence, done.step)).collect();
        self.round.history.events().facts.grants.extend(grants);
    }

    /// Reads a list page by page while others write.
    pub fn pages_step(&mut self) {
        let limit = (2 + self.below(4)).to_string();
        match self.below(10) {
            0..3 => self.walk_in_order(["runs", "list"], "started", &limit),
            3 => _ = self.walk("approvals", &["approvals", "list", "--all", "--limit", &limit]),
            4 => self.walk_in_order(["sessions", "list"], "created", &limit),
            5..7 => self.walk_in_order(["chats", "list"], "created", &limit),
            7 => self.walk_in_order(["usage", "session"], "created", &limit),
            _ => self.spend(),
        }
    }

    /// A list with a fixed order must lose no row in that order; otherwise the list must lose none in its only order.
    fn walk_in_order(&mut self, [noun, verb]: [&'static str; 2], order: &str, limit: &str) {
        let stable = [noun, verb, "--order", order, "--limit", limit];
        let known = self.run_clean(&Call::new(&stable)).ran.code != Some(2);
        _ = if known { self.walk(noun, &stable) } else { self.walk(noun, &[noun, verb, "--limit", limit]) };
    }

    /// Appends a line with usage, to a new session or to one that has usage already.
    fn spend(&mut self) {
        let index = self.below(self.owned.spending.len() + 2);
        let session = self.owned.spending.get(index).cloned().unwrap_or_else(|| self.unique("spending"));
        if !self.owned.spending.contains(&session) {
            let created = self.run_clean(&Call::new(&["sessions", "new", "--id", &session]));
            if created.ran.code != Some(0) {
                // The append would create a thread of that name with another id.
                return;
            }
        }
        let used = r#"{"type":"assistant","message":{"model":"m","usage":{"input_tokens":7,"output_tokens":1}}}"#;
        let done = self.run(Call::new(&["log", "append", "--session", &session, "--line", used]));
        if done.ran.code == Some(0) {
            self.exists("usage", &session);
            self.owned.spending.push(session);
        }
    }

    /// Reads a list to its end and returns its rows.
    pub fn walk(&mut self, list: &'static str, words: &[&str]) -> Vec<Value> {
        let (mut rows, mut first, mut after) = (Vec::new(), None, None::<String>);
        let (key, id) = match list {
            "usage" => ("sessions", "session_id"),
            "runs of schedules" => ("schedule_runs", "id"),
            list => (list.split(' ').next().unwrap_or_default(), "id"),
        };
        loop {
            let call = after.iter().fold(Call::new(words), |call, token| call.word("--after").word(token));
            let done = self.run_clean(&call);
            let Some(answer) = done.ran.answer().filter(|_| done.ran.code == Some(0)) else { return rows };
            // An incomplete report may lack a session.
            if list == "usage" && answer["complete"] == false {
                return rows;
            }
            let start = *first.get_or_insert(done.span.start);
            rows.extend(answer[key].as_array().into_iter().flatten().cloned());
            after = answer["next"].as_str().map(str::to_owned);
            if after.is_none() {
                let ids = rows.iter().map(|row| word(row, id)).collect();
                let (span, how) = (Span { start, end: done.span.end }, words.join(" "));
                self.round.history.events().facts.walks.push(Walk { step: done.step, span, list, how, ids });
                return rows;
            }
        }
    }

    /// Runs the first tick of the schedules: earlier due times are not missed.
    pub fn first_tick(&mut self) {
        self.run_clean(&Call::new(&["schedules", "tick", "--until", FIRST_TICK]));
    }

    /// Several processes tick at the same time, each up to one of the next minutes.
    pub fn tick(&mut self) {
        let calls: Vec<Call> = (0..=self.below(3)).map(|_| tick_until(self.below(MINUTES))).collect();
        for done in self.volley(calls) {
            self.note_fired(&done);
        }
    }

    fn note_fired(&self, done: &CommandRun) {
        let answer = done.ran.answer().unwrap_or_default();
        let fired = answer["fired"].as_array().into_iter().flatten();
        let fired: Vec<_> = fired.map(|one| (word(one, "schedule_name"), word(one, "due_at"), done.step)).collect();
        self.round.history.events().facts.fired.extend(fired);
    }

    /// At the end every due time has one row, and every reported one is among them.
    pub fn finish_schedules(&mut self) {
        let last = self.run_clean(&tick_until(MINUTES));
        self.note_fired(&last);
        let rows = self.walk("runs of schedules", &["schedules", "runs", EVERY_MINUTE, "--limit", "7"]);
        let minute = |minute: usize| format!("2026-03-01T00:{minute:02}:00.000000Z");
        let expected: Vec<String> = (1..=MINUTES).map(minute).collect();
        let mut times: Vec<String> = rows.iter().map(|row| word(row, "due_at")).collect();
        times.sort();
        if times != expected && last.ran.code.is_some_and(|code| code < 2) {
            let known: BTreeSet<&String> = times.iter().collect();
            let missing: Vec<&String> = expected.iter().filter(|time| !known.contains(time)).collect();
            let what = format!("{} due times are recorded, {} are expected; missing {missing:?}", times.len(), MINUTES);
            self.violation("a due time fires once", what, &last, None);
        }
        let fired = self.round.history.events().facts.fired.clone();
        if let Some((_, due, _)) = fired.iter().find(|(name, due, _)| name == EVERY_MINUTE && !times.contains(due)) {
            let what = format!("{due} was reported as fired and is not recorded");
            self.violation("acknowledged changes take effect", what, &last, None);
        }
    }
}

fn tick_until(minute: usize) -> Call {
    let until = format!("2026-03-01T00:{minute:02}:30Z");
    Call::new(&["schedules", "tick", "--until", &until])
}

//! Steps that read: complete logs, documents, lists, searches, and followers that resume from their cursors.

use serde_json::Value;

use super::command::{Binary, Call, Outcome};
use super::history::{Line, Listing, Look, ReadRange, Span};
use super::worker::{CommandRun, Worker, cursor, own_lines};

/// The maximum page size.
const PAGE: &str = "200";

impl Worker {
    /// Chooses a session whose id is never the name of another: only its owner deletes it, or no worker does.
    fn choose_readable(&mut self) -> String {
        match self.below(3) {
            0 => format!("stable-{}", self.below(2)),
            1 => self.own(),
            _ => format!("own-{}", self.below(self.round.workers)),
        }
    }

    /// Reads a complete log.
    pub fn cat(&mut self) {
        let session = self.choose_readable();
        let done = self.run(Call::new(&["log", "cat", &session]));
        if done.outcome() == Outcome::Done && done.ran.code == Some(0) {
            self.note_look(&done, done.span, &session, "log cat", lines_of(&done.ran.stdout));
        }
    }

    /// Records the lines of a log.
    pub fn note_look(&self, done: &CommandRun, span: Span, session: &str, how: &'static str, lines: Vec<Line>) {
        let look = Look { step: done.step, span, session: session.to_owned(), how, lines, retried: Vec::new() };
        self.round.history.events().looks.push(look);
    }

    /// Exports a session; the document contains its id.
    pub fn export(&mut self) {
        let target = match self.below(3) {
            0 => format!("race-{}", self.below(3)),
            1 => format!("id-{}", self.below(2)),
            _ => self.choose_readable(),
        };
        let done = self.run(Call::new(&["sessions", "export", &target]));
        if done.ran.code != Some(0) {
            return;
        }
        match serde_json::from_slice(&done.ran.stdout) {
            Ok(document) => self.look_at_document(&done, &document),
            Err(error) => self.violation("an exported document is complete", error.to_string(), &done, None),
        }
    }

    /// Records the lines of a document.
    pub fn look_at_document(&self, done: &CommandRun, document: &Value) {
        let Some(session) = document["session"]["id"].as_str() else { return };
        let lines = document["log"].as_array().into_iter().flatten().filter_map(Value::as_str);
        self.note_look(done, done.span, session, "sessions export", own_lines(lines));
    }

    /// Lists all sessions.
    pub fn list(&mut self) {
        if let Some((done, span, rows)) = self.list_pages(None) {
            self.note_listing(&done, span, "sessions list", &rows, Vec::new());
        }
    }

    /// Reads the list of sessions to its end: without faults in a copy, with faults otherwise.
    pub fn list_pages(&mut self, copy: Option<&Binary>) -> Option<(CommandRun, Span, Vec<Value>)> {
        let (mut rows, mut first, mut after) = (Vec::new(), None, None::<String>);
        loop {
            let call = Call::new(&["sessions", "list", "--limit", PAGE]);
            let call = after.iter().fold(call, |call, token| call.word("--after").word(token));
            let done = match copy {
                Some(copy) => self.run_on(copy, &call),
                None => self.run(call),
            };
            let answer = done.ran.answer().filter(|answer| answer["sessions"].is_array())?;
            let start = *first.get_or_insert(done.span.start);
            rows.extend(answer["sessions"].as_array().into_iter().flatten().cloned());
            after = answer["next"].as_str().map(str::to_owned);
            if after.is_none() {
                let span = Span { start, end: done.span.end };
                return Some((done, span, rows));
            }
        }
    }

    /// Records the listed sessions.
    pub fn note_listing(
        &self,
        done: &CommandRun,
        span: Span,
        how: &'static str,
        rows: &[Value],
        reported: Vec<String>,
    ) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let sessions = rows.iter().filter_map(|row| Some((text(&row["id"])?, text(&row["name"])))).collect();
        self.round.history.events().listings.push(Listing { step: done.step, span, how, sessions, reported });
    }

    /// Resumes reading a log from the last cursor: it must get each line once, or a reset.
    pub fn follow(&mut self) {
        let session = self.choose_readable();
        let Some(&(epoch, position)) = self.cursors.get(&session) else {
            let done = self.run(Call::new(&["log", "tail", &session, "-n", "0", "--show-cursor"]));
            if let Some(cursor) = shown_cursor(&done.ran.stderr).filter(|_| done.ran.code == Some(0)) {
                self.cursors.insert(session, cursor);
            }
            return;
        };
        let from = format!("{epoch}:{position}");
        let done = self.run(Call::new(&["log", "tail", &session, "--from", &from, "--show-cursor"]));
        if done.ran.code == Some(2) {
            let what = format!("cursor {from} is refused");
            self.violation("cursors stay valid", what, &done, Some(&session));
            self.cursors.remove(&session);
        }
        let Some(next) = shown_cursor(&done.ran.stderr).filter(|_| done.ran.code == Some(0)) else { return };
        let resets: Vec<(u64, u64)> =
            done.ran.stderr.lines().filter(|line| line.contains("reset")).filter_map(last_cursor).collect();
        let begin = match resets.as_slice() {
            [] => (epoch, position),
            [only] => *only,
            _ => {
                self.cursors.insert(session, next);
                return;
            }
        };
        let length = done.ran.stdout.len() as u64;
        if begin.0 != next.0 || begin.1 + length != next.1 {
            let what = format!("{length} bytes from {begin:?}, but the next cursor is {next:?}");
            self.violation("a follower gets each line once", what, &done, Some(&session));
        }
        if !resets.is_empty() && begin.0 == epoch {
            let what = format!("a reset from {from} within the same epoch, to {begin:?}");
            self.violation("no reset without a reason", what, &done, Some(&session));
        }
        let bytes = done.ran.stdout.clone();
        self.cursors.insert(session.clone(), next);
        let seen = ReadRange { step: done.step, session, epoch: begin.0, from: begin.1, bytes };
        self.round.history.events().seen.push(seen);
    }

    /// Runs commands that must not fail, and whose answers are not checked here.
    pub fn look_around(&mut self) {
        let session = self.choose_readable();
        let call = match self.below(8) {
            0 => Call::new(&["log", "verify", &session]),
            1 => Call::new(&["log", "verify", "--all"]),
            2 => Call::new(&["log", "search", "equal1", "--limit", "5"]),
            3 => Call::new(&["sessions", "show", &session]),
            4 => Call::new(&["log", "stream", "--no-follow", "--last", "3"]),
            5 => Call::new(&["state", "stats"]),
            6 => Call::new(&["usage", "daily"]),
            _ => Call::new(&["log", "replay", &session]),
        };
        self.run(call);
    }

    /// Repairs a log that needs no repair, or rebuilds derived rows.
    pub fn maintain(&mut self) {
        let call = match self.below(8) {
            0..4 => Call::new(&["log", "repair", &self.choose_readable()]),
            4 => Call::new(&["log", "repair", &format!("race-{}", self.below(3))]),
            5 => Call::new(&["state", "rebuild"]),
            6 => Call::new(&["state", "checkpoint"]),
            _ => Call::new(&["state", "blobs", "--prune"]),
        };
        self.run(call);
    }
}

/// Returns the lines of this tester in the output of `log cat`.
pub fn lines_of(bytes: &[u8]) -> Vec<Line> {
    own_lines(String::from_utf8_lossy(bytes).lines())
}

/// Returns the cursor that `--show-cursor` printed.
fn shown_cursor(stderr: &str) -> Option<(u64, u64)> {
    let line = stderr.lines().rev().find(|line| line.contains("cursor") && !line.contains("reset"))?;
    last_cursor(line)
}

/// Returns the last cursor in a line of text.
fn last_cursor(line: &str) -> Option<(u64, u64)> {
    line.split([' ', ',', ';', '(', ')']).filter_map(|word| cursor(word.trim_end_matches('.'))).next_back()
}

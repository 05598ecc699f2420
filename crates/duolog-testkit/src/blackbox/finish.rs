//! The end of a round: all workers have stopped, and everything is read.

use std::collections::BTreeMap;

use serde_json::Value;

use super::command::Call;
use super::history::{Line, Look, Place, ReadRange};
use super::model::Model;
use super::reads::lines_of;
use super::worker::{MARK, Worker};

/// The number of lines to search for.
const SEARCHES: usize = 3;

impl Worker {
    /// Reads everything. No other worker runs, and the disk has space.
    pub fn finish(&mut self) {
        self.faulty = false;
        if self.round.directory.is_small() {
            self.read_on_a_full_disk();
            self.round.directory.enlarge();
        }
        let binary = self.binary.clone();
        let opened = self.run_clean(&Call::new(&["doctor", "--deep"]));
        if opened.ran.code.is_none() {
            self.violation("doctor finds no damage", "doctor was ended by a signal".to_owned(), &opened, None);
        }
        if self.round.slots < super::MANY_SLOTS {
            self.queue_alone();
        }
        self.finish_schedules();
        self.settle();
        // A list may answer before its counts are complete; stats waits until they are.
        let stats = self.run_clean(&Call::new(&["state", "stats"]));
        if stats.ran.code != Some(0) {
            self.violation("acknowledged is there", "state stats fails".to_owned(), &stats, None);
        }
        match self.list_pages(None) {
            Some((listed, span, rows)) => {
                self.note_listing(&listed, span, "the end", &rows, Vec::new());
                for row in &rows {
                    self.read_session(row["id"].as_str().unwrap_or_default(), row);
                }
            }
            None => self.violation("acknowledged writes are present", "sessions list fails".to_owned(), &opened, None),
        }
        self.search_for_some();
        self.diagnose(&binary);
    }

    /// A home on a full disk can still be read.
    fn read_on_a_full_disk(&mut self) {
        self.round.directory.fill();
        let binary = self.binary.clone();
        for words in [["sessions", "list"], ["log", "verify"]] {
            let mut call = Call::new(&words);
            if words[1] == "verify" {
                call = call.word("--all");
            }
            let done = self.run_clean(&call);
            if done.ran.code != Some(0) {
                self.violation("a full disk is readable", format!("{} fails", call.verb()), &done, None);
            }
        }
        let done = self.run_clean(&Call::new(&["log", "cat", "stable-0"]));
        if done.ran.code == Some(0) {
            self.note_look(&done, done.span, "stable-0", "log cat on a full disk", lines_of(&done.ran.stdout));
        } else {
            self.violation("a full disk is readable", "log cat fails".to_owned(), &done, Some("stable-0"));
        }
        self.diagnose(&binary);
        self.round.directory.free();
    }

    /// Retries every operation of unknown outcome, so that the counts are exact.
    fn settle(&mut self) {
        let mut unknown: BTreeMap<String, (String, Vec<Line>)> = BTreeMap::new();
        {
            let events = self.round.history.events();
            for append in events.appends.iter().filter(|append| append.target.starts_with("stable-")) {
                if let Some(operation) = events.undecided(append) {
                    unknown.insert(operation.to_owned(), (append.target.clone(), append.lines.clone()));
                }
            }
        }
        for (operation, (target, lines)) in unknown {
            self.settle_one(&operation, &target, lines);
        }
    }

    /// Reads one session, its row and its log, and compares the two.
    fn read_session(&mut self, session: &str, row: &Value) {
        let show = self.run_clean(&Call::new(&["sessions", "show", session]));
        let cat = self.run_clean(&Call::new(&["log", "cat", session]));
        let (Some(shown), Some(0)) = (show.ran.answer(), cat.ran.code) else {
            let what = format!("{session} is listed but cannot be read");
            self.violation("acknowledged writes are present", what, &cat, Some(session));
            return;
        };
        let bytes = cat.ran.stdout.clone();
        let lines = bytes.split(|byte| *byte == b'\n').skip(1).count() as u64;
        let length = bytes.len() as u64;
        for (name, value) in [("sessions show", &shown), ("sessions list", row)] {
            // A log without a line has no row yet.
            let counted = |key: &str| value[key].as_u64().unwrap_or(0);
            if counted("events") != lines || counted("bytes") != length {
                let what = format!(
                    "{name} has {} events of {} bytes, the log {lines} of {length}",
                    value["events"], value["bytes"]
                );
                self.violation("rows match the log", what, &show, Some(session));
            }
        }
        let epoch = shown["session"]["log_epoch"].as_u64().unwrap_or_default();
        let mut events = self.round.history.events();
        let past: Vec<(usize, Place)> = events
            .appends
            .iter()
            .filter(|append| !append.imported)
            .filter_map(|append| Some((append.step, append.place.clone()?)))
            .filter(|(_, place)| place.session == session && place.epoch == epoch && place.end > length)
            .collect();
        let look = Look {
            step: cat.step,
            span: cat.span,
            session: session.to_owned(),
            how: "the log at the end",
            lines: lines_of(&bytes),
            retried: Vec::new(),
        };
        events.looks.push(look);
        events.seen.push(ReadRange { step: cat.step, session: session.to_owned(), epoch, from: 0, bytes });
        drop(events);
        if let Some((step, place)) = past.first() {
            let what =
                format!("acknowledged up to {}:{}, but the log ends at {epoch}:{length}", place.epoch, place.end);
            self.round.history.violation("one epoch, one log", what, *step, Some(session));
        }
    }

    /// Searches for some lines that must be there, by their unique tags.
    fn search_for_some(&mut self) {
        let end = self.round.history.tick();
        let mut candidates: Vec<(String, String)> = {
            let events = self.round.history.events();
            let model = Model::new(&events);
            // A retry by name may be in another session that has the name now.
            let alone = |line: &Line| model.effects.iter().filter(|effect| effect.lines.contains(line)).count() == 1;
            let unique = model.effects.iter().filter(|effect| effect.lines.len() == 1 && !effect.imported);
            let unique = unique.filter(|effect| alone(&effect.lines[0]));
            let kept = unique.filter_map(|effect| {
                let session = effect.session.filter(|session| model.must_stay(effect, session, end))?;
                Some((tag(&effect.lines[0])?.to_owned(), session.to_owned()))
            });
            kept.collect()
        };
        for _ in 0..SEARCHES.min(candidates.len()) {
            let (tag, session) = candidates.swap_remove(self.below(candidates.len()));
            let done = self.run_clean(&Call::new(&["log", "search", &tag]));
            let hits = done.ran.answer().map(|answer| answer["hits"].clone()).unwrap_or_default();
            let sessions: Vec<&str> =
                hits.as_array().into_iter().flatten().filter_map(|hit| hit["session_id"].as_str()).collect();
            if sessions != [session.as_str()] {
                let what = format!("{tag} is in {session}, but search finds it in {sessions:?}");
                self.violation("search finds every line", what, &done, Some(&session));
            }
        }
    }
}

/// Returns the tag of a unique line.
fn tag(line: &str) -> Option<&str> {
    line.strip_prefix(MARK)?.strip_prefix('"')?.split('"').next().filter(|tag| tag.starts_with("tag"))
}

//! Steps that copy the home and check the copy against earlier acknowledgements.

use super::command::{Binary, Call, Outcome};
use super::history::{Append, Look, Span};
use super::reads::lines_of;
use super::worker::{CommandRun, OPERATION, Worker, place};

/// The number of operations that are retried in a copy.
const RETRIES: usize = 8;

impl Worker {
    /// Copies the home while others write, and opens the copy.
    pub fn backup(&mut self) {
        if self.binary.store.is_some() {
            return self.cat();
        }
        let directory = self.fresh("backup");
        let done = self.run(Call::new(&["state", "backup", &directory.display().to_string()]));
        if matches!(done.ran.code, Some(0 | 4)) {
            self.look_at_copy(&done, &self.binary.on(&directory));
        }
        let _ = std::fs::remove_dir_all(directory);
    }

    /// Retries operations in the copy, then reads all of it.
    fn look_at_copy(&mut self, backup: &CommandRun, copy: &Binary) {
        let failed = backup.ran.answer().map(|answer| answer["failures"].clone()).unwrap_or_default();
        let reported = failed.as_array().into_iter().flatten();
        let reported = reported.filter_map(|failed| Some(failed["session_id"].as_str()?.to_owned())).collect();
        let retried = self.retry_in_copy(backup, copy);
        let Some((listed, _, rows)) = self.list_pages(Some(copy)) else {
            self.violation("a copy opens", "sessions list fails in the copy".to_owned(), backup, None);
            return;
        };
        self.note_listing(&listed, backup.span, "the copy", &rows, reported);
        for session in rows.iter().filter_map(|row| row["id"].as_str().map(str::to_owned)) {
            let done = self.run_on(copy, &Call::new(&["log", "cat", &session]));
            if done.ran.code != Some(0) {
                self.violation("a copy opens", format!("log cat {session} fails in the copy"), &done, Some(&session));
                continue;
            }
            let (step, span, lines) = (done.step, backup.span, lines_of(&done.ran.stdout));
            let look = Look { step, span, session, how: "the copy", lines, retried: retried.clone() };
            self.round.history.events().looks.push(look);
        }
        self.diagnose(copy);
    }

    /// Retries operations of all workers, but only on sessions that keep their id.
    fn retry_in_copy(&mut self, backup: &CommandRun, copy: &Binary) -> Vec<usize> {
        let known: Vec<Append> = {
            let events = self.round.history.events();
            let appends = events.appends.iter().rev().filter(|append| {
                append.target == "stable-0" && append.outcome != Outcome::Refused && events.retriable(append).is_some()
            });
            appends.take(RETRIES).cloned().collect()
        };
        let mut retried = Vec::new();
        for append in known {
            let Some(operation) = &append.operation else { continue };
            let call = append.lines.iter().fold(
                Call::new(&["log", "append", "--session", &append.target, OPERATION, operation]),
                |call, line| call.word("--line").word(&**line),
            );
            let done = self.run_on(copy, &call);
            let again = done.ran.answer().as_ref().and_then(place);
            if again.is_none() {
                self.violation("one operation, one answer", "refused in the copy".to_owned(), &done, Some("stable-0"));
                continue;
            }
            let early = append.span.before(Span { start: backup.span.start, end: backup.span.end });
            if early && append.outcome == Outcome::Done && again != append.place {
                let what = format!("{:?} in the home, {again:?} in the copy", append.place);
                self.violation("one operation, one answer", what, &done, Some("stable-0"));
            }
            retried.push(append.step);
        }
        retried
    }

    /// Runs `doctor`, which must find no damage.
    pub fn diagnose(&mut self, binary: &Binary) {
        let done = self.run_on(binary, &Call::new(&["doctor", "--deep"]));
        let verdict = done.ran.answer().map(|answer| answer["verdict"].as_str().unwrap_or_default().to_owned());
        if !verdict.as_deref().is_some_and(|verdict| verdict == "ok" || verdict == "warnings") {
            let checks = done.ran.answer().map(|answer| answer["checks"].clone()).unwrap_or_default();
            let bad: Vec<String> = checks
                .as_array()
                .into_iter()
                .flatten()
                .filter(|check| check["status"] == "damaged")
                .map(|check| format!("{}: {}", check["name"], check["detail"]))
                .collect();
            self.violation("doctor finds no damage", format!("{verdict:?} {}", bad.join("; ")), &done, None);
        }
    }
}

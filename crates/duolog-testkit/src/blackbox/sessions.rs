//! Steps that create, rename, delete and move sessions.

use super::command::{Call, Outcome};
use super::history::{Append, Create, Delete, Place, Rename};
use super::worker::{OPERATION, Worker, own_lines};

impl Worker {
    /// Creates the session that only this worker writes, if it does not exist.
    pub fn make_own(&mut self) {
        let own = self.own();
        self.create(&["--id", &own], Some(own.clone()), None);
    }

    /// Creates a session that other workers create and delete too.
    pub fn make_shared(&mut self) {
        if self.chance(50) {
            let id = format!("id-{}", self.below(2));
            self.create(&["--id", &id], Some(id.clone()), None);
        } else {
            let name = format!("race-{}", self.below(3));
            self.create(&["--name", &name], None, Some(name.clone()));
        }
    }

    /// Creates a session.
    pub fn create(&mut self, words: &[&str], id: Option<String>, name: Option<String>) {
        let mut call = words.iter().fold(Call::new(&["sessions", "new"]), |call, word| call.word(*word));
        if self.chance(20) {
            call = call.word(OPERATION).word(self.operation_id());
        }
        let done = self.run(call);
        let answered = done.ran.answer().and_then(|answer| Some(answer["session"]["id"].as_str()?.to_owned()));
        let outcome = if answered.is_some() { Outcome::Done } else { done.outcome() };
        let create = Create { step: done.step, span: done.span, id: answered.or(id), name, outcome };
        self.round.history.events().creates.push(create);
    }

    /// Deletes a session that other workers use, or only its log.
    pub fn delete_shared(&mut self) {
        match self.below(10) {
            0..6 => {
                let name = format!("race-{}", self.below(3));
                self.delete(&name, true);
            }
            6..8 => {
                let id = format!("id-{}", self.below(2));
                let with_session = self.chance(70);
                self.delete(&id, with_session);
            }
            _ => self.delete("stable-1", false),
        }
    }

    /// Deletes a session or only its log; with an operation id it tries twice.
    pub fn delete(&mut self, target: &str, with_session: bool) {
        let mut call = Call::new(&["sessions", "delete", target, "--yes"]);
        if !with_session {
            call = call.word("--log");
        }
        let again = self.chance(20);
        if again {
            call = call.word(OPERATION).word(self.operation_id());
        }
        let mut first = None;
        for _ in 0..=usize::from(again) {
            let mut done = self.run(call.clone());
            done.span.start = *first.get_or_insert(done.span.start);
            let answer = done.ran.answer().filter(|answer| answer["deleted"] == true);
            let session = answer.and_then(|answer| Some(answer["session_id"].as_str()?.to_owned()));
            let outcome = if session.is_some() { Outcome::Done } else { done.outcome() };
            let target = target.to_owned();
            let delete = Delete { step: done.step, span: done.span, target, session, with_session, outcome };
            self.round.history.events().deletes.push(delete);
        }
        if target == self.own() {
            self.own_end = None;
        }
    }

    /// Deletes this worker's session and creates it again with the same id.
    pub fn remake_own(&mut self) {
        let own = self.own();
        if self.chance(40) {
            return self.delete(&own, false);
        }
        self.delete(&own, true);
        // Whatever the outcome of the deletion, the session exists afterwards.
        self.make_own();
        self.ensure_own();
    }

    /// Creates this worker's session without faults if an earlier step may have failed to. Frees the disk first:
    /// without the session, an append to its id would create another one of that name.
    pub fn ensure_own(&mut self) {
        let faulty = std::mem::replace(&mut self.faulty, false);
        for _ in 0..50 {
            self.make_own();
            let shown = self.run_clean(&Call::new(&["sessions", "show", &self.own()]));
            if shown.ran.answer().is_some_and(|answer| answer["session"]["id"] == *self.own()) {
                break;
            }
            self.round.directory.free();
        }
        self.faulty = faulty;
    }

    /// Renames a session.
    pub fn rename(&mut self) {
        let (target, name) = match self.below(4) {
            0 => (format!("race-{}", self.below(3)), format!("race-{}", self.below(3))),
            1 => (format!("race-{}", self.below(3)), format!("old-{}", self.operation_id())),
            2 => (self.own(), format!("race-{}", self.below(3))),
            _ => (self.own(), format!("new-{}", self.operation_id())),
        };
        let done = self.run(Call::new(&["sessions", "rename", &target, &name]));
        let session = done.ran.answer().and_then(|answer| Some(answer["session"]["id"].as_str()?.to_owned()));
        let outcome = if session.is_some() { Outcome::Done } else { done.outcome() };
        let rename = Rename { step: done.step, span: done.span, target, session, name, outcome };
        self.round.history.events().renames.push(rename);
        self.own_end = None;
    }

    /// Exports this worker's session, deletes it, and imports it again.
    pub fn move_own(&mut self) {
        let (own, file) = (self.own(), self.fresh("export.json"));
        let path = file.display().to_string();
        let done = self.run(Call::new(&["sessions", "export", &own, "--output", &path]));
        let Some(document) = std::fs::read(&file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()) else {
            if done.outcome() == Outcome::Done {
                self.violation(
                    "acknowledged writes are present",
                    "the document is not readable".to_owned(),
                    &done,
                    Some(&own),
                );
            }
            return;
        };
        self.look_at_document(&done, &document);
        self.delete(&own, true);
        let done = self.run(Call::new(&["sessions", "import", &path]));
        let place = (done.outcome() == Outcome::Done).then(|| Place { session: own.clone(), epoch: 0, end: 0 });
        let lines = document["log"].as_array().into_iter().flatten().filter_map(serde_json::Value::as_str);
        let append = Append {
            step: done.step,
            span: done.span,
            target: own.clone(),
            lines: own_lines(lines),
            operation: None,
            outcome: done.outcome(),
            place,
            imported: true,
        };
        let create = Create { step: done.step, span: done.span, id: Some(own), name: None, outcome: done.outcome() };
        let mut events = self.round.history.events();
        events.appends.push(append);
        events.creates.push(create);
        drop(events);
        self.own_end = None;
        self.ensure_own();
        let _ = std::fs::remove_file(file);
    }
}

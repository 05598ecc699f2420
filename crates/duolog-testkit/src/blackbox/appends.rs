//! Steps that append, and that retry an append.

use super::command::{Call, Outcome};
use super::history::{Append, Line};
use super::worker::{CommandRun, OPERATION, Operation, Worker, place};

impl Worker {
    /// Chooses a session to append to. A named session may be deleted or renamed at any time; a stable one never is.
    fn choose_target(&mut self) -> String {
        match self.below(100) {
            0..30 => self.own(),
            30..55 => format!("stable-{}", self.below(2)),
            55..85 => format!("race-{}", self.below(3)),
            _ => format!("id-{}", self.below(2)),
        }
    }

    fn choose_lines(&mut self) -> Vec<Line> {
        match self.below(10) {
            0..6 => vec![self.equal()],
            6..8 => vec![self.tagged()],
            _ => {
                let mut lines = vec![self.tagged()];
                for _ in 0..=self.below(5) {
                    let line = if self.chance(60) { self.equal() } else { self.tagged() };
                    lines.push(line);
                }
                lines
            }
        }
    }

    /// Appends one batch, or several lines with `--each`.
    pub fn append(&mut self) {
        let target = self.choose_target();
        if self.chance(10) {
            return self.append_each(&target);
        }
        let lines = self.choose_lines();
        let operation = self.chance(45).then(|| self.operation_id());
        let mut call = self.append_call(&target, &lines, operation.as_deref());
        if operation.is_none()
            && target == self.own()
            && self.chance(20)
            && let Some(end) = self.own_end
        {
            let wrong = self.chance(30);
            call = call.word("--if-position").word((end + u64::from(wrong)).to_string());
        }
        self.append_batch(call, &target, lines, operation);
    }

    fn append_call(&mut self, target: &str, lines: &[Line], operation: Option<&str>) -> Call {
        let mut call = Call::new(&["log", "append", "--session", target]);
        if self.chance(60) {
            call = call.word("--durability").word(if self.chance(50) { "power" } else { "process" });
        }
        if let Some(operation) = operation {
            call = call.word(OPERATION).word(operation);
        }
        if self.chance(50) {
            lines.iter().fold(call, |call, line| call.word("--line").word(&**line))
        } else {
            call.input(text(lines))
        }
    }

    fn append_batch(&mut self, call: Call, target: &str, lines: Vec<Line>, operation: Option<String>) -> CommandRun {
        let done = self.run(call);
        if let Some(id) = &operation
            && !self.operations.iter().any(|known| known.id == *id)
        {
            self.operations.push(Operation { id: id.clone(), target: target.to_owned(), lines: lines.clone() });
        }
        let place = done.ran.answer().as_ref().and_then(place);
        if target == self.own() {
            self.own_end = place.as_ref().map(|place| place.end);
        }
        let outcome = if place.is_some() { Outcome::Done } else { done.outcome() };
        self.note_append(Append {
            step: done.step,
            span: done.span,
            target: target.to_owned(),
            lines,
            operation,
            outcome,
            place,
            imported: false,
        });
        done
    }

    fn note_append(&self, append: Append) {
        self.round.history.events().appends.push(append);
    }

    /// Appends several lines, each of which is acknowledged separately.
    fn append_each(&mut self, target: &str) {
        let many = if self.round.directory.is_small() { 400 } else { 40 };
        let count = 1 + self.below(many);
        let lines: Vec<Line> = (0..count).map(|_| if self.chance(60) { self.equal() } else { self.tagged() }).collect();
        let mut call = Call::new(&["log", "append", "--session", target, "--each"]).input(text(&lines));
        if self.chance(30) {
            call = call.word("--durability").word("power");
        }
        let done = self.run(call);
        let places: Vec<_> = done.ran.answers().iter().filter_map(place).collect();
        if done.ran.code == Some(0) && places.len() != lines.len() {
            let what = format!("{} of {} lines were acknowledged, exit 0", places.len(), lines.len());
            self.violation("acknowledged writes are present", what, &done, None);
        }
        for (index, line) in lines.into_iter().enumerate() {
            let place = places.get(index).cloned();
            let outcome = if place.is_some() { Outcome::Done } else { done.outcome() };
            self.note_append(Append {
                step: done.step,
                span: done.span,
                target: target.to_owned(),
                lines: vec![line],
                operation: None,
                outcome,
                place,
                imported: false,
            });
        }
        if target == self.own() {
            self.own_end = None;
        }
    }

    /// Appends one unique line with durability `power`. Returns the session that it is in.
    pub fn append_power(&mut self, target: &str) -> Option<String> {
        let line = self.tagged();
        let call = Call::new(&["log", "append", "--session", target, "--durability", "power", "--line", &line]);
        let done = self.append_batch(call, target, vec![line], None);
        done.ran.answer().as_ref().and_then(place).map(|place| place.session)
    }

    /// Retries an operation of unknown outcome.
    pub fn settle_one(&mut self, operation: &str, target: &str, lines: Vec<Line>) {
        let call = Call::new(&["log", "append", "--session", target, OPERATION, operation]).input(text(&lines));
        let done = self.append_batch(call, target, lines, Some(operation.to_owned()));
        if done.outcome() != Outcome::Done {
            let what = "a retry of an operation of unknown outcome fails".to_owned();
            self.violation("one operation, one answer", what, &done, Some(target));
        }
    }

    /// Retries an operation, with the same or with other content.
    pub fn retry(&mut self) {
        if self.operations.is_empty() {
            return self.append();
        }
        // Mostly a recent one.
        let recent = if self.chance(70) { 4 } else { usize::MAX };
        let back = self.below(self.operations.len().min(recent));
        let Operation { id, target, mut lines, .. } = self.operations[self.operations.len() - 1 - back].clone();
        if self.chance(20) {
            lines.push(self.tagged());
        }
        let call = self.append_call(&target, &lines, Some(&id));
        self.append_batch(call, &target, lines, Some(id));
    }
}

/// Returns the lines as the content of a file.
pub fn text(lines: &[Line]) -> String {
    lines.iter().flat_map(|line| [&**line, "\n"]).collect()
}

//! Steps that must be refused and must change nothing.

use super::command::{Call, Outcome};
use super::worker::{OPERATION, Worker};

impl Worker {
    /// Reads this worker's session, runs a command that must be refused, and reads it again.
    pub fn probe(&mut self) {
        let own = self.own();
        let Some(before) = self.snapshot(&own) else { return };
        let line = self.tagged();
        let call = match self.below(8) {
            0 => Call::new(&["sessions", "new", "--id", &own]),
            1 => Call::new(&["log", "append", "--session", &own, "--if-position", "1", "--line", &line]),
            2 => Call::new(&["log", "append", "--session", &own]).input(format!("{line}\nnot json\n{line}\n")),
            3 => Call::new(&["sessions", "delete", &format!("{own}-absent"), "--yes"]),
            4 => Call::new(&["sessions", "rename", &own, ""]),
            5 => Call::new(&["log", "append", "--session", &own, "--durability", "none", "--line", &line]),
            6 => {
                let last = self.operations.iter().rev().find(|operation| operation.target == own).cloned();
                let Some(operation) = last else { return };
                // Without faults, and twice: the first attempt may still have to append.
                let words = ["log", "append", "--session", &own, OPERATION, &operation.id];
                let call =
                    operation.lines.iter().fold(Call::new(&words), |call, line| call.word("--line").word(&**line));
                return self.probe_repeat(&own, &call);
            }
            _ => {
                let file = self.fresh("exists.json").display().to_string();
                let done = self.run_clean(&Call::new(&["sessions", "export", &own, "--output", &file]));
                if done.outcome() != Outcome::Done {
                    return;
                }
                Call::new(&["sessions", "import", &file])
            }
        };
        let done = self.run_clean(&call);
        if done.outcome() == Outcome::Done {
            self.violation("invalid commands are refused", "it was acknowledged".to_owned(), &done, Some(&own));
        }
        let after = self.snapshot(&own);
        if after.as_ref().is_some_and(|after| *after != before) {
            let what = format!("before: {before:?}, after: {after:?}");
            self.violation("refused commands change nothing", what, &done, Some(&own));
        }
    }

    /// A completed operation has no effect when it is repeated.
    fn probe_repeat(&mut self, own: &str, call: &Call) {
        // Its session may have been created again since: then it is appended for the first time, or refused.
        let first = self.run_clean(call);
        let answer = first.ran.answer().as_ref().and_then(super::worker::place);
        let target = own.to_owned();
        if first.outcome() != Outcome::Refused {
            let operation = call.words[5].clone();
            let known = self.operations.iter().find(|known| known.id == operation);
            let lines = known.map(|known| known.lines.clone()).unwrap_or_default();
            let outcome = if answer.is_some() { Outcome::Done } else { first.outcome() };
            self.round.history.events().appends.push(super::history::Append {
                step: first.step,
                span: first.span,
                target,
                lines,
                operation: Some(operation),
                outcome,
                place: answer.clone(),
                imported: false,
            });
        }
        let Some(before) = self.snapshot(own) else { return };
        let second = self.run_clean(call);
        let after = self.snapshot(own);
        if after.as_ref().is_some_and(|after| after.1 != before.1) {
            let what = format!("before: {before:?}, after: {after:?}");
            self.violation("present once", what, &second, Some(own));
        }
        let both = first.outcome() == Outcome::Done && second.outcome() == Outcome::Done;
        if both && second.ran.answer().as_ref().and_then(super::worker::place) != answer {
            let what = "the same operation gave two answers".to_owned();
            self.violation("one operation, one answer", what, &second, Some(own));
        }
    }

    /// Returns the row and the log of a session.
    fn snapshot(&mut self, session: &str) -> Option<(String, String)> {
        let show = self.run_clean(&Call::new(&["sessions", "show", session]));
        let cat = self.run_clean(&Call::new(&["log", "cat", session]));
        if show.ran.code != Some(0) || cat.ran.code != Some(0) {
            return None;
        }
        let mut answer = show.ran.answer()?;
        // Rows that are derived from the log may lag behind it.
        for derived in ["events", "bytes", "damaged", "first_at", "last_at", "title", "model", "dialect"] {
            answer.as_object_mut()?.remove(derived);
        }
        Some((answer.to_string(), String::from_utf8_lossy(&cat.ran.stdout).into_owned()))
    }
}

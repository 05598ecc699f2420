//! Tests of the rules: small histories with and without a violation.

use super::command::Outcome;
use super::history::{Append, Create, Delete, Events, Line, Listing, Look, Place, ReadRange, Span, Step};
use super::rules::check;

const LINE: &str = "{\"bb\":\"same\"}";

/// Builds a history command by command; each takes two ticks by default.
#[derive(Default)]
struct HistoryBuilder {
    events: Events,
    ticks: u64,
}

impl HistoryBuilder {
    fn step(&mut self) -> (usize, Span) {
        let span = Span { start: self.ticks, end: self.ticks + 1 };
        self.ticks += 2;
        let (text, answer) = (String::new(), String::new());
        self.events.steps.push(Step { worker: 0, number: 0, span, text, outcome: Outcome::Done, answer });
        (self.events.steps.len() - 1, span)
    }

    fn append(&mut self, target: &str, operation: Option<&str>, place: Option<(&str, u64, u64)>) -> &mut Append {
        let (step, span) = self.step();
        self.events.appends.push(Append {
            step,
            span,
            target: target.to_owned(),
            lines: vec![Line::from(LINE)],
            operation: operation.map(str::to_owned),
            outcome: if place.is_some() { Outcome::Done } else { Outcome::Unknown },
            place: place.map(|(session, epoch, end)| Place { session: session.to_owned(), epoch, end }),
            imported: false,
        });
        self.events.appends.last_mut().expect("just pushed")
    }

    fn delete(&mut self, target: &str, session: Option<&str>) -> &mut Delete {
        let (step, span) = self.step();
        let outcome = if session.is_some() { Outcome::Done } else { Outcome::Unknown };
        let (target, session) = (target.to_owned(), session.map(str::to_owned));
        self.events.deletes.push(Delete { step, span, target, session, with_session: true, outcome });
        self.events.deletes.last_mut().expect("just pushed")
    }

    fn create(&mut self, id: &str) {
        let (step, span) = self.step();
        let id = Some(id.to_owned());
        self.events.creates.push(Create { step, span, id, name: None, outcome: Outcome::Done });
    }

    fn look(&mut self, session: &str, count: usize) -> &mut Look {
        let (step, span) = self.step();
        let lines = vec![Line::from(LINE); count];
        let session = session.to_owned();
        self.events.looks.push(Look { step, span, session, how: "a look", lines, retried: Vec::new() });
        self.events.looks.last_mut().expect("just pushed")
    }

    fn violated_rules(&self) -> Vec<&'static str> {
        check(&self.events).iter().map(|violation| violation.rule).collect()
    }
}

#[test]
fn a_missing_acknowledged_line_is_reported() {
    let mut history = HistoryBuilder::default();
    history.append("s", None, Some(("s", 0, 14)));
    history.look("s", 0);
    assert_eq!(history.violated_rules(), ["acknowledged writes are present"]);
}

#[test]
fn an_unknown_append_may_be_there_once_or_not_at_all() {
    for (count, broken) in [(0, vec![]), (1, vec![]), (2, vec!["present once"])] {
        let mut history = HistoryBuilder::default();
        history.append("s", None, None);
        history.look("s", count);
        assert_eq!(history.violated_rules(), broken, "{count} lines");
    }
}

#[test]
fn a_refused_append_must_not_be_there() {
    let mut history = HistoryBuilder::default();
    history.append("s", None, None).outcome = Outcome::Refused;
    history.look("s", 1);
    assert_eq!(history.violated_rules(), ["no unexplained change"]);
}

#[test]
fn retries_of_one_operation_count_once() {
    let mut history = HistoryBuilder::default();
    history.append("s", Some("o"), None);
    history.append("s", Some("o"), Some(("s", 0, 14)));
    history.look("s", 1);
    assert!(history.violated_rules().is_empty());
    history.look("s", 2);
    assert_eq!(history.violated_rules(), ["present once"]);
}

#[test]
fn two_operations_at_one_position_are_reported() {
    let mut history = HistoryBuilder::default();
    history.append("s", Some("o"), Some(("s", 0, 14)));
    history.append("s", Some("p"), Some(("s", 0, 14)));
    assert_eq!(history.violated_rules(), ["one position, one batch"]);
}

#[test]
fn an_operation_with_two_answers_is_reported() {
    let mut history = HistoryBuilder::default();
    history.append("own-1", Some("o"), Some(("own-1", 0, 14)));
    history.append("own-1", Some("o"), Some(("own-1", 0, 28)));
    assert_eq!(history.violated_rules(), ["one operation, one answer"]);
}

#[test]
fn a_deletion_removes_only_what_was_acknowledged_before_it() {
    let mut history = HistoryBuilder::default();
    history.append("s", None, Some(("s", 0, 14)));
    history.delete("s", Some("s"));
    history.create("s");
    history.append("s", None, Some(("s", 1, 14)));
    history.look("s", 1);
    assert!(history.violated_rules().is_empty());
    history.look("s", 0);
    assert_eq!(history.violated_rules(), ["acknowledged writes are present"]);
    history.events.looks.pop();
    history.look("s", 2);
    assert_eq!(history.violated_rules(), ["present once"]);
}

#[test]
fn a_concurrent_deletion_may_remove_a_line_or_not() {
    for count in [0, 1] {
        let mut history = HistoryBuilder::default();
        history.append("s", None, Some(("s", 0, 14))).span.end = 3;
        history.delete("s", Some("s")).span.start = 1;
        history.look("s", count);
        assert!(history.violated_rules().is_empty(), "{count} lines");
    }
}

#[test]
fn a_deletion_of_another_session_of_the_same_name_removes_nothing() {
    let mut history = HistoryBuilder::default();
    history.append("name", None, Some(("a", 0, 14)));
    history.append("name", None, Some(("b", 0, 14))).span.end = 20;
    history.delete("name", Some("a"));
    history.ticks = 30;
    history.look("b", 0);
    assert_eq!(history.violated_rules(), ["acknowledged writes are present"]);
}

#[test]
fn an_append_after_an_acknowledged_deletion_is_reported() {
    let mut history = HistoryBuilder::default();
    history.append("s", None, Some(("s", 0, 14)));
    history.delete("s", Some("s"));
    history.append("s", None, Some(("s", 0, 28)));
    assert_eq!(history.violated_rules(), ["deleted sessions stay deleted"]);
}

#[test]
fn a_line_in_another_session_is_reported() {
    let mut history = HistoryBuilder::default();
    history.append("s", None, Some(("s", 0, 14)));
    history.look("other", 1);
    assert_eq!(history.violated_rules(), ["no unexplained change"]);
}

#[test]
fn one_epoch_has_the_same_bytes_for_every_reader() {
    let mut history = HistoryBuilder::default();
    history.append("s", None, Some(("s", 0, 14)));
    let (step, _) = history.step();
    let seen = ReadRange { step, session: "s".to_owned(), epoch: 0, from: 0, bytes: b"{\"bb\":\"other\"}\n".to_vec() };
    history.events.seen.push(seen);
    assert_eq!(history.violated_rules(), ["one epoch, one log"]);
}

#[test]
fn a_created_session_is_listed_until_it_is_deleted() {
    let mut history = HistoryBuilder::default();
    history.create("s");
    let (step, span) = history.step();
    let listing = Listing { step, span, how: "a list", sessions: Vec::new(), reported: Vec::new() };
    history.events.listings.push(listing.clone());
    assert_eq!(history.violated_rules(), ["acknowledged writes are present"]);
    history.events.listings.clear();
    history.delete("s", Some("s"));
    let (step, span) = history.step();
    let sessions = vec![("s".to_owned(), None)];
    history.events.listings.push(Listing { step, span, sessions, ..listing });
    assert_eq!(history.violated_rules(), ["deleted sessions stay deleted"]);
}

#[test]
fn a_copy_has_what_was_acknowledged_before_it_started() {
    let mut history = HistoryBuilder::default();
    history.append("s", Some("o"), Some(("s", 0, 14)));
    history.append("s", Some("p"), Some(("s", 0, 28))).span.end = 10;
    history.ticks = 4;
    // The second append was concurrent to the backup, and was retried in the copy.
    let look = history.look("s", 2);
    look.retried = vec![1];
    assert!(history.violated_rules().is_empty());
    history.events.looks[0].lines.pop();
    assert_eq!(history.violated_rules(), ["acknowledged writes are present"]);
    history.events.looks[0].lines = vec![Line::from(LINE); 3];
    assert_eq!(history.violated_rules(), ["present once"]);
}

//! The rules themselves: small histories by hand, with and without a fault.

use super::command::Outcome;
use super::history::{Append, Create, Delete, Events, Line, Listing, Look, Place, Seen, Span, Step};
use super::rules::check;

const LINE: &str = "{\"bb\":\"same\"}";

/// A history that is put together command by command; each takes two ticks unless it says otherwise.
#[derive(Default)]
struct Told {
    events: Events,
    ticks: u64,
}

impl Told {
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
        self.events.deletes.push(Delete { step, span, target, session, whole: true, outcome });
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

    fn broken(&self) -> Vec<&'static str> {
        check(&self.events).iter().map(|violation| violation.rule).collect()
    }
}

#[test]
fn an_acknowledged_line_that_is_missing_is_found() {
    let mut told = Told::default();
    told.append("s", None, Some(("s", 0, 14)));
    told.look("s", 0);
    assert_eq!(told.broken(), ["acknowledged is there"]);
}

#[test]
fn an_unknown_append_may_be_there_or_not_but_not_twice() {
    for (count, broken) in [(0, vec![]), (1, vec![]), (2, vec!["there once"])] {
        let mut told = Told::default();
        told.append("s", None, None);
        told.look("s", count);
        assert_eq!(told.broken(), broken, "{count} lines");
    }
}

#[test]
fn a_refused_append_must_not_be_there() {
    let mut told = Told::default();
    told.append("s", None, None).outcome = Outcome::Refused;
    told.look("s", 1);
    assert_eq!(told.broken(), ["nobody else's data"]);
}

#[test]
fn retries_of_one_operation_count_once() {
    let mut told = Told::default();
    told.append("s", Some("o"), None);
    told.append("s", Some("o"), Some(("s", 0, 14)));
    told.look("s", 1);
    assert!(told.broken().is_empty());
    told.look("s", 2);
    assert_eq!(told.broken(), ["there once"]);
}

#[test]
fn two_operations_at_one_place_are_found() {
    let mut told = Told::default();
    told.append("s", Some("o"), Some(("s", 0, 14)));
    told.append("s", Some("p"), Some(("s", 0, 14)));
    assert_eq!(told.broken(), ["one place, one batch"]);
}

#[test]
fn an_operation_with_two_answers_is_found() {
    let mut told = Told::default();
    told.append("own-1", Some("o"), Some(("own-1", 0, 14)));
    told.append("own-1", Some("o"), Some(("own-1", 0, 28)));
    assert_eq!(told.broken(), ["one operation, one answer"]);
}

#[test]
fn a_deletion_takes_what_was_acknowledged_before_it_and_nothing_else() {
    let mut told = Told::default();
    told.append("s", None, Some(("s", 0, 14)));
    told.delete("s", Some("s"));
    told.create("s");
    told.append("s", None, Some(("s", 1, 14)));
    told.look("s", 1);
    assert!(told.broken().is_empty());
    told.look("s", 0);
    assert_eq!(told.broken(), ["acknowledged is there"]);
    told.events.looks.pop();
    told.look("s", 2);
    assert_eq!(told.broken(), ["there once"]);
}

#[test]
fn a_concurrent_deletion_may_take_a_line_or_not() {
    for count in [0, 1] {
        let mut told = Told::default();
        told.append("s", None, Some(("s", 0, 14))).span.end = 3;
        told.delete("s", Some("s")).span.start = 1;
        told.look("s", count);
        assert!(told.broken().is_empty(), "{count} lines");
    }
}

#[test]
fn a_deletion_of_another_session_of_the_same_name_takes_nothing() {
    let mut told = Told::default();
    told.append("name", None, Some(("a", 0, 14)));
    told.append("name", None, Some(("b", 0, 14))).span.end = 20;
    told.delete("name", Some("a"));
    told.ticks = 30;
    told.look("b", 0);
    assert_eq!(told.broken(), ["acknowledged is there"]);
}

#[test]
fn an_append_to_a_session_whose_deletion_was_acknowledged_is_found() {
    let mut told = Told::default();
    told.append("s", None, Some(("s", 0, 14)));
    told.delete("s", Some("s"));
    told.append("s", None, Some(("s", 0, 28)));
    assert_eq!(told.broken(), ["deleted is gone"]);
}

#[test]
fn a_line_in_another_session_is_found() {
    let mut told = Told::default();
    told.append("s", None, Some(("s", 0, 14)));
    told.look("other", 1);
    assert_eq!(told.broken(), ["nobody else's data"]);
}

#[test]
fn one_epoch_shows_the_same_bytes_to_everybody() {
    let mut told = Told::default();
    told.append("s", None, Some(("s", 0, 14)));
    let (step, _) = told.step();
    let seen = Seen { step, session: "s".to_owned(), epoch: 0, from: 0, bytes: b"{\"bb\":\"other\"}\n".to_vec() };
    told.events.seen.push(seen);
    assert_eq!(told.broken(), ["one epoch, one log"]);
}

#[test]
fn a_session_that_was_made_is_listed_until_it_is_deleted() {
    let mut told = Told::default();
    told.create("s");
    let (step, span) = told.step();
    let listing = Listing { step, span, how: "a list", sessions: Vec::new(), reported: Vec::new() };
    told.events.listings.push(listing.clone());
    assert_eq!(told.broken(), ["acknowledged is there"]);
    told.events.listings.clear();
    told.delete("s", Some("s"));
    let (step, span) = told.step();
    let sessions = vec![("s".to_owned(), None)];
    told.events.listings.push(Listing { step, span, sessions, ..listing });
    assert_eq!(told.broken(), ["deleted is gone"]);
}

#[test]
fn a_copy_has_what_was_acknowledged_before_it_began() {
    let mut told = Told::default();
    told.append("s", Some("o"), Some(("s", 0, 14)));
    told.append("s", Some("p"), Some(("s", 0, 28))).span.end = 10;
    told.ticks = 4;
    // The second append ran beside the copying, and was tried again in the copy.
    let look = told.look("s", 2);
    look.retried = vec![1];
    assert!(told.broken().is_empty());
    told.events.looks[0].lines.pop();
    assert_eq!(told.broken(), ["acknowledged is there"]);
    told.events.looks[0].lines = vec![Line::from(LINE); 3];
    assert_eq!(told.broken(), ["there once"]);
}

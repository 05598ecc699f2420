use duolog_state::owned::message_types::{self, UNKNOWN};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::Durability;

use super::with_session;

on_both_engines!(a_class_has_one_number, concurrent_new_classes_have_one_number_each);

fn a_class_has_one_number(place: &Place) {
    with_session(place, |tx| {
        let ours = ["system.System", "instruction.Instruction", "assistant_response.AssistantResponse"];
        let ours = ours.into_iter().chain(["action_request.ActionRequest", "action_response.ActionResponse"]);
        for (number, class) in (1..).zip(ours) {
            let class = format!("lionagi.protocols.messages.{class}");
            assert_eq!(message_types::find(tx, &class)?, Some(number), "{class}");
            assert_eq!(message_types::class_of(tx, number)?, Some(class));
        }
        assert_eq!(message_types::class_of(tx, UNKNOWN)?.as_deref(), Some("__unknown__"));
        for none in [None, Some(""), Some(" \t")] {
            assert_eq!(message_types::resolve(tx, none)?, UNKNOWN);
        }
        assert_eq!(message_types::find(tx, "mine.Note")?, None);
        assert_eq!(message_types::resolve(tx, Some("mine.Note"))?, 6);
        assert_eq!(message_types::resolve(tx, Some("mine.Other"))?, 7);
        assert_eq!(message_types::resolve(tx, Some("mine.Note"))?, 6, "the number is kept");
        assert_eq!(message_types::class_of(tx, 99)?, None);
        Ok(())
    });
}

fn concurrent_new_classes_have_one_number_each(place: &Place) {
    let state = place.open();
    let found: Vec<i64> = std::thread::scope(|scope| {
        let make = |number: usize| {
            let state = state.clone();
            let class = format!("mine.Class{}", number % 3);
            scope.spawn(move || {
                state.write(Durability::Process, move |tx| message_types::resolve(tx, Some(&class))).expect("made")
            })
        };
        let threads: Vec<_> = (0..9).map(make).collect();
        threads.into_iter().map(|thread| thread.join().expect("ends")).collect()
    });
    let numbers: std::collections::BTreeSet<i64> = found.iter().copied().collect();
    assert!(numbers.len() == 3 && numbers.iter().all(|number| *number > 5), "{found:?}");
    assert!((0..9).all(|at| found[at] == found[at % 3]), "{found:?}");
}

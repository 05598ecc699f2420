mod model;

use duolog::errors::Conflict;
use duolog::sessions::{AddOptions, BranchRef, HistoryView, Metric, NewFork, NewMessage, NewSession, SimilarFilter};
use duolog::{Durability, Error, ErrorKind, MessageId, SessionId, Store, Timestamp};
use duolog_state::owned::messages as table;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::Apart;
use model::{MANY, Model, NUMBERS, One, Random, row, vector, vector_of};

on_both_engines!(
    the_nearest_are_those_of_a_model_whatever_changes,
    only_matching_messages_are_found,
    an_embedding_of_another_length_is_an_error_if_it_matches
);

/// Many messages, and a model of them.
fn filled(place: &Place) -> Model {
    let mut model = Model::default();
    model.add(&place.open(), 0..MANY);
    model
}

fn the_nearest_are_those_of_a_model_whatever_changes(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let mut model = filled(place);
    model.check(&store, "at first");
    let (messages, state) = (store.sessions().messages(), place.open());
    let mut random = Random(7);
    for round in 0..12 {
        let from = model.next();
        model.add(&state, from..from + random.below(24));
        for _ in 0..random.below(20) {
            let (id, seed) = (model.any(&mut random), random.next());
            // Another embedding, none, or the same one: the stored message does not change.
            let embedding = match random.below(4) {
                0 => None,
                1 => model.vector_of(&id),
                _ => Some(vector(seed)),
            };
            let message = MessageId::parse(&id).expect("an id");
            let new = NewMessage {
                id: Some(message),
                role: "user".to_owned(),
                content: "1".to_owned(),
                embedding,
                ..NewMessage::default()
            };
            let put = messages.put(&new, Durability::Process);
            assert!(matches!(put, Ok(_) | Err(Error::Conflict(Conflict::MessageTaken(_)))), "{put:?}");
        }
        let session = store.sessions().create(&NewSession::default()).expect("made").id;
        let said: Vec<Vec<f32>> = (0..8).map(|at| vector(900_000 + round * 8 + at)).collect();
        let added = add_items(&store, &session, &BranchRef::Default, &said);
        for (id, vector) in added.iter().zip(&said) {
            model.set(id, "user", Some(vector.clone()));
        }
        model.check(&store, &format!("round {round}, with a session"));
        if round % 3 != 0 {
            store.sessions().delete(&session).expect("deleted");
            model.remove_all(added.iter().map(String::as_str));
            model.check(&store, &format!("round {round}, without it"));
        }
    }
    model.check(&apart.open(), "opened later");
}

/// Adds items with embeddings to a branch, and returns the ids of their messages.
fn add_items(store: &Store, session: &SessionId, branch: &BranchRef, vectors: &[Vec<f32>]) -> Vec<String> {
    let items = store.sessions().items(session).on(branch.clone());
    let contents: Vec<&str> = vectors.iter().map(|_| "{\"role\":\"user\"}").collect();
    let embeddings = vectors.to_vec();
    let options = AddOptions { durability: Durability::Process, embeddings, ..AddOptions::default() };
    items.add(&contents, &options).expect("added");
    let list = items.latest(vectors.len(), HistoryView::Full).expect("reads");
    list.items.into_iter().map(|item| item.id.to_string()).collect()
}

/// A predicate on the id and the data of a message.
type Meant = Box<dyn Fn(&str, &One) -> bool>;

fn number(id: &str) -> u64 {
    id.strip_prefix("m-").map_or(u64::MAX, |number| number.parse().expect("a number"))
}

/// Returns a predicate on the number of a message.
fn numbered(is: impl Fn(u64) -> bool + 'static) -> Meant {
    Box::new(move |id, _| id.starts_with("m-") && is(number(id)))
}

fn one_of(ids: &[&[String]]) -> Meant {
    let ids = ids.concat();
    Box::new(move |id, _| ids.iter().any(|one| one == id))
}

fn only_matching_messages_are_found(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let mut model = filled(place);
    let make = || store.sessions().create(&NewSession::default()).expect("made").id;
    let (small, large, empty) = (make(), make(), make());
    let said: Vec<Vec<f32>> = (0..6).map(|at| vector(700_000 + at)).collect();
    let of_small = add_items(&store, &small, &BranchRef::Default, &said);
    let ids: Vec<MessageId> = (0..150).map(|at| MessageId::parse(&Model::id(at)).expect("an id")).collect();
    store.sessions().items(&large).append(&ids, Durability::Process).expect("appended");
    // The branch shares the first three items and has two of its own.
    let fork = NewFork { at: Some(3), ..NewFork::default() };
    let fork = store.sessions().branches(&small).fork(fork, Durability::Process).expect("forked").id;
    let own: Vec<Vec<f32>> = (0..2).map(|at| vector(710_000 + at)).collect();
    let own_ids = add_items(&store, &small, &BranchRef::from(&fork), &own);
    for (id, vector) in of_small.iter().zip(&said).chain(own_ids.iter().zip(&own)) {
        model.set(id, "user", Some(vector.clone()));
    }
    let text = |text: &str| Some(text.to_owned());
    let none = SimilarFilter::default;
    let at = |second: i64| Some(Timestamp::from_micros(1_700_000_000_000_000 + second * 1_000_000));
    let of = |session: &SessionId| SimilarFilter { session: Some(session.clone()), ..none() };
    let on = |session: &SessionId, branch| SimilarFilter { branch: Some(branch), ..of(session) };
    let questions: Vec<(SimilarFilter, Meant)> = vec![
        (SimilarFilter { role: text("assistant"), ..none() }, Box::new(|_, one| one.role == "assistant")),
        (SimilarFilter { sender: text("ada"), ..none() }, numbered(|at| at % 2 == 0)),
        (SimilarFilter { recipient: text("bob"), ..none() }, numbered(|at| at % 5 == 0)),
        (SimilarFilter { channel: text("rare"), ..none() }, numbered(|at| at % 50 == 0)),
        (SimilarFilter { channel: text("none"), ..none() }, numbered(|_| false)),
        (SimilarFilter { since: at(20), until: at(40), ..none() }, numbered(|at| (20..40).contains(&at))),
        (SimilarFilter { lion_class: text("made.Up"), ..none() }, numbered(|at| at % 7 == 0)),
        (SimilarFilter { lion_class: text("nobody.has.this"), ..none() }, numbered(|_| false)),
        (of(&small), one_of(&[&of_small, &own_ids])),
        (on(&small, BranchRef::Default), one_of(&[&of_small])),
        (on(&small, BranchRef::from(&fork)), one_of(&[&of_small[..3], &own_ids])),
        (of(&large), numbered(|at| at < 150)),
        (SimilarFilter { sender: text("ada"), ..of(&large) }, numbered(|at| at < 150 && at % 2 == 0)),
        (of(&empty), numbered(|_| false)),
        (on(&empty, BranchRef::Default), numbered(|_| false)),
    ];
    let check = |model: &Model, what: &str| {
        for (filter, meant) in &questions {
            model.check_among(&store, filter, meant, what);
        }
    };
    check(&model, "at first");
    model.add(&place.open(), MANY..MANY + 4);
    check(&model, "with more");
    let refused = |filter: SimilarFilter| {
        store.sessions().messages().similar(&vector(1), 3, Metric::L2, &filter).expect_err("refused").kind()
    };
    assert_eq!(refused(of(&SessionId::new())), ErrorKind::NotFound);
    assert_eq!(refused(on(&small, BranchRef::Text("nowhere".to_owned()))), ErrorKind::NotFound);
    assert_eq!(refused(SimilarFilter { branch: Some(BranchRef::Default), ..none() }), ErrorKind::Invalid);
    assert_eq!(refused(SimilarFilter { role: Some("x".repeat(200)), ..none() }), ErrorKind::Invalid);
}

fn an_embedding_of_another_length_is_an_error_if_it_matches(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let mut model = filled(place);
    let short = |range: std::ops::Range<u64>| {
        let rows: Vec<_> = range
            .map(|at| table::MessageRow { role: "short".to_owned(), ..row(at, Some(&vector_of(at, 8))) })
            .collect();
        place.open().write(Durability::Process, move |tx| table::add(tx, &rows)).expect("added");
    };
    short(3000..3005);
    let from = model.next();
    model.add(&place.open(), from..from + 40);
    let messages = store.sessions().messages();
    let none = SimilarFilter::default;
    let role = |role: &str| SimilarFilter { role: Some(role.to_owned()), ..none() };
    let refused = messages.similar(&vector(1), 3, Metric::L2, &none()).expect_err("one is shorter").to_string();
    assert!(refused.contains(&format!("{NUMBERS} numbers")) && refused.contains("m-3000 has 8"), "{refused}");
    model.check_among(&store, &role("assistant"), &|_, one| one.role == "assistant", "of the same length");
    let near = messages.similar(&vector_of(3002, 8), 9, Metric::Cosine, &role("short")).expect("found");
    assert_eq!((near.len(), near[0].id.as_str()), (5, "m-3002"));
    let refused = messages.similar(&vector_of(1, 8), 3, Metric::L2, &none()).expect_err("most are longer").to_string();
    assert!(refused.contains("8 numbers") && refused.contains(&format!("m-0 has {NUMBERS}")), "{refused}");
    short(3100..3101);
    let gone: Vec<MessageId> = (3000..3005).map(|at| MessageId::parse(&Model::id(at)).expect("an id")).collect();
    place.open().write(Durability::Process, move |tx| table::remove_unreferenced(tx, &gone, None)).expect("removed");
    let refused = messages.similar(&vector(1), 3, Metric::L2, &none()).expect_err("one is left").to_string();
    assert!(refused.contains("m-3100 has 8"), "{refused}");
    let gone = [MessageId::parse("m-3100").expect("an id")];
    place.open().write(Durability::Process, move |tx| table::remove_unreferenced(tx, &gone, None)).expect("removed");
    model.check(&store, "none is left");
}

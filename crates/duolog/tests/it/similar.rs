mod model;
mod processes;

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::{Mutex, mpsc};
use std::thread::JoinHandle;

use duolog::sessions::{
    AddOptions, BranchRef, Metric, NewFork, NewMessage, NewSession, PackStanding, SimilarFilter, View,
};
use duolog::{Durability, Error, Kind, MessageId, Moment, Said, SessionId, Store, StoreOptions};
use duolog_state::owned::messages as table;
use duolog_state::owned::{embedding_packs, message_embeddings};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::Apart;
use model::{MANY, Model, One, Random, row, vector, vector_of};

on_both_engines!(
    the_nearest_are_those_of_a_model_whatever_changes,
    only_what_is_meant_is_found,
    few_are_not_packed,
    a_damaged_pack_costs_only_time,
    what_cannot_be_packed_is_found_all_the_same,
    a_pack_of_what_was_removed_is_made_anew,
    a_state_that_was_taken_back_has_no_pack_of_what_came_later,
    a_pack_of_another_home_is_not_taken_for_ours,
    an_embedding_of_another_length_is_told_if_it_is_meant
);

/// How many embeddings are packed; nothing where none are that can be used.
fn packed(store: &Store) -> Option<u64> {
    match store.sessions().messages().packed_embeddings().expect("looks") {
        PackStanding::Whole { records, .. } => Some(records),
        PackStanding::Absent | PackStanding::Unusable(_) => None,
    }
}

/// Searches until something holds. On a server nothing is settled before those have ended who began something in any of
/// its databases, and the tests share one.
fn search_until(store: &Store, what: &str, mut holds: impl FnMut() -> bool) {
    let mut tries = 0;
    while !holds() {
        assert!(tries < 10_000, "{what}: {:?} are packed", packed(store));
        let filter = SimilarFilter { channel: Some("nobody's".to_owned()), ..SimilarFilter::default() };
        store.sessions().messages().similar(&vector(1), 1, Metric::L2, &filter).expect("looks");
        tries += 1;
        std::thread::yield_now();
    }
}

/// Searches until so many are packed.
fn search_until_packed(store: &Store, what: &str, least: u64) -> u64 {
    search_until(store, what, || packed(store) >= Some(least));
    packed(store).expect("packed")
}

fn pack_of(apart: &Apart) -> PathBuf {
    apart.home().state.join("vectors.pack")
}

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
    model.check(&store, "nothing was packed before");
    search_until_packed(&store, "at first", 257);
    let (messages, state) = (store.sessions().messages(), place.open());
    let mut random = Random(7);
    for round in 0..12 {
        let from = model.next();
        model.add(&state, from..from + random.below(24));
        for _ in 0..random.below(20) {
            let (id, seed) = (model.any(&mut random), random.next());
            // Another one, none, or the one that it has: what is stored under the id stays.
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
            assert!(matches!(put, Ok(_) | Err(Error::MessageTaken(_))), "{put:?}");
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
    // Not beside the store that packed it, but in one that was opened later.
    model.check(&apart.open(), "opened anew");
    fs::remove_file(pack_of(&apart)).expect("there is one");
    model.check(&store, "without a pack");
    search_until_packed(&store, "made anew", 200);
    model.check(&store, "made anew");
}

/// Adds items with embeddings to a branch, and says which messages they are.
fn add_items(store: &Store, session: &SessionId, branch: &BranchRef, vectors: &[Vec<f32>]) -> Vec<String> {
    let items = store.sessions().items(session).on(branch.clone());
    let contents: Vec<&str> = vectors.iter().map(|_| "{\"role\":\"user\"}").collect();
    let embeddings = vectors.to_vec();
    let options = AddOptions { durability: Durability::Process, embeddings, ..AddOptions::default() };
    items.add(&contents, &options).expect("added");
    let list = items.latest(vectors.len(), View::Full).expect("reads");
    list.items.into_iter().map(|item| item.id.to_string()).collect()
}

/// What is meant, by the id of a message and what else is known of it.
type Meant = Box<dyn Fn(&str, &One) -> bool>;

fn number(id: &str) -> u64 {
    id.strip_prefix("m-").map_or(u64::MAX, |number| number.parse().expect("a number"))
}

/// Those whose numbers are such.
fn numbered(is: impl Fn(u64) -> bool + 'static) -> Meant {
    Box::new(move |id, _| id.starts_with("m-") && is(number(id)))
}

fn one_of(ids: &[&[String]]) -> Meant {
    let ids = ids.concat();
    Box::new(move |id, _| ids.iter().any(|one| one == id))
}

fn only_what_is_meant_is_found(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let mut model = filled(place);
    let make = || store.sessions().create(&NewSession::default()).expect("made").id;
    let (small, large, empty) = (make(), make(), make());
    let said: Vec<Vec<f32>> = (0..6).map(|at| vector(700_000 + at)).collect();
    let of_small = add_items(&store, &small, &BranchRef::Default, &said);
    let ids: Vec<MessageId> = (0..150).map(|at| MessageId::parse(&Model::id(at)).expect("an id")).collect();
    store.sessions().items(&large).append(&ids, Durability::Process).expect("appended");
    // A branch sees the first three, and two of its own.
    let fork = NewFork { at: Some(3), ..NewFork::default() };
    let fork = store.sessions().branches(&small).fork(fork, Durability::Process).expect("forked").id;
    let own: Vec<Vec<f32>> = (0..2).map(|at| vector(710_000 + at)).collect();
    let own_ids = add_items(&store, &small, &BranchRef::from(&fork), &own);
    for (id, vector) in of_small.iter().zip(&said).chain(own_ids.iter().zip(&own)) {
        model.set(id, "user", Some(vector.clone()));
    }
    let text = |text: &str| Some(text.to_owned());
    let none = SimilarFilter::default;
    let at = |second: i64| Some(Moment::from_micros(1_700_000_000_000_000 + second * 1_000_000));
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
    let lock = File::create(apart.home().state.join("vectors.lock")).expect("made");
    lock.try_lock().expect("nobody else");
    check(&model, "from their table");
    assert_eq!(packed(&store), None);
    drop(lock);
    let before = search_until_packed(&store, "the lock is free", MANY - 16);
    check(&model, "packed");
    model.add(&place.open(), MANY..MANY + 4);
    check(&model, "packed in part");
    assert!(packed(&store).is_some_and(|packed| packed >= before && packed < MANY + 12), "a block is not full");
    let refused = |filter: SimilarFilter| {
        store.sessions().messages().similar(&vector(1), 3, Metric::L2, &filter).expect_err("refused").kind()
    };
    assert_eq!(refused(of(&SessionId::new())), Kind::NotFound);
    assert_eq!(refused(on(&small, BranchRef::Text("nowhere".to_owned()))), Kind::NotFound);
    assert_eq!(refused(SimilarFilter { branch: Some(BranchRef::Default), ..none() }), Kind::Invalid);
    assert_eq!(refused(SimilarFilter { role: Some("x".repeat(200)), ..none() }), Kind::Invalid);
}

fn few_are_not_packed(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let mut model = Model::default();
    model.check(&store, "there is none");
    model.add(&place.open(), 0..255);
    model.check(&store, "there are few");
    assert!(packed(&store).is_none() && !pack_of(&apart).exists());
    model.add(&place.open(), 255..256);
    model.check(&store, "there are enough");
    assert_eq!(search_until_packed(&store, "there are enough", 1), 256);
    assert_eq!(fs::metadata(pack_of(&apart)).expect("a file").permissions().mode() & 0o777, 0o600);
}

/// Whatever is done to the file, answers are right; and after two of them it is whole again.
fn a_damaged_pack_costs_only_time(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let model = filled(place);
    let path = pack_of(&apart);
    let whole = search_until_packed(&store, "at first", MANY - 16);
    model.check(&store, "packed");
    let bytes = fs::read(&path).expect("a file");
    let mut random = Random(11);
    let mut wounds: Vec<(String, Vec<u8>)> = vec![
        ("emptied".to_owned(), Vec::new()),
        ("another program's".to_owned(), b"nothing of use".repeat(bytes.len() / 10)),
        ("without its beginning".to_owned(), bytes[64..].to_vec()),
        ("torn".to_owned(), [&bytes[..bytes.len() / 2], &vec![0; bytes.len() / 2][..]].concat()),
    ];
    for _ in 0..12 {
        let (at, bit) = (usize::try_from(random.below(bytes.len() as u64)).expect("fits"), random.below(8));
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << bit;
        wounds.push((format!("bit {bit} of byte {at}"), damaged));
        let cut = usize::try_from(random.below(bytes.len() as u64)).expect("fits");
        wounds.push((format!("cut at {cut}"), bytes[..cut].to_vec()));
    }
    for (what, damaged) in wounds {
        fs::write(&path, damaged).expect("written");
        model.check(&store, &what);
        search_until(&store, &what, || packed(&store) == Some(whole));
        model.check(&store, &format!("{what}, made anew"));
    }
    // Longer than it should be: what one who was killed while packing leaves.
    fs::write(&path, [fs::read(&path).expect("a file"), vec![7; 100_000]].concat()).expect("written");
    model.check(&store, "longer");
    assert_eq!(packed(&store), Some(whole));
}

fn what_cannot_be_packed_is_found_all_the_same(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let mut model = filled(place);
    // Not a file: left as it is.
    fs::create_dir(pack_of(&apart)).expect("made");
    model.check(&store, "a directory is in its place");
    fs::remove_dir(pack_of(&apart)).expect("as it was");
    let elsewhere = apart.directory.path().join("elsewhere");
    fs::write(&elsewhere, "not ours").expect("written");
    std::os::unix::fs::symlink(&elsewhere, pack_of(&apart)).expect("linked");
    model.check(&store, "a link is in its place");
    assert_eq!(fs::read(&elsewhere).expect("still there"), b"not ours");
    fs::remove_file(pack_of(&apart)).expect("as it was");
    // Nowhere to make it.
    fs::create_dir(apart.home().state.join("vectors.new")).expect("made");
    model.check(&store, "it cannot be made");
    assert_eq!(packed(&store), None);
    fs::remove_dir(apart.home().state.join("vectors.new")).expect("as it was");
    let before = search_until_packed(&store, "it can be made", MANY - 16);
    model.check(&store, "packed");
    // While another has the lock, what is new is read where it is.
    let lock = File::options().write(true).open(apart.home().state.join("vectors.lock")).expect("a lock");
    lock.try_lock().expect("nobody else");
    model.add(&place.open(), MANY..MANY + 40);
    model.check(&store, "another is packing");
    assert_eq!(packed(&store), Some(before));
    drop(lock);
    search_until_packed(&store, "nobody is packing", before + 1);
    model.check(&store, "nobody is");
}

fn a_pack_of_what_was_removed_is_made_anew(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let mut model = Model::default();
    model.add(&place.open(), 0..600);
    let before = search_until_packed(&store, "at first", 580);
    model.check(&store, "packed");
    // Every second, so that no block is without.
    let removed: Vec<MessageId> =
        (0..600).step_by(2).map(|at| MessageId::parse(&Model::id(at)).expect("an id")).collect();
    model.remove_all(removed.iter().map(MessageId::as_str));
    let gone = place.open().write(Durability::Process, move |tx| table::remove_unnamed(tx, &removed, None));
    assert_eq!(gone.expect("removed"), 300);
    model.check(&store, "half of them are gone");
    search_until(&store, "made anew", || packed(&store).is_some_and(|after| (280..=300).contains(&after)));
    assert!(before > 580);
    model.check(&store, "made anew");
}

/// Copies the state of a place as people copy one, while nobody uses it.
fn copied(place: &Place) -> Place {
    if let Some(database) = place.database() {
        let copy = Place::postgres();
        let name = copy.database().expect("a database").name();
        database.run_sql(&format!("DROP DATABASE {name}")).expect("dropped");
        database.run_sql(&format!("CREATE DATABASE {name} TEMPLATE {}", database.name())).expect("copied");
        copy
    } else {
        let copy = Place::sqlite();
        place.open().backup_to(&copy.home().join("state.db")).expect("copied");
        copy
    }
}

/// Two states that were one: the same numbers stand for others in each, and both are searched in the same home.
fn a_state_that_was_taken_back_has_no_pack_of_what_came_later(place: &Place) {
    let apart = Apart::of(place);
    let mut model = filled(place);
    search_until_packed(&apart.open(), "at first", MANY - 16);
    let copy = copied(place);
    let mut of_copy = model.clone();
    model.add(&place.open(), MANY..MANY + 100);
    model.check(&apart.open(), "it goes on");
    search_until_packed(&apart.open(), "it goes on", MANY + 64);
    let taken_back = || {
        let options = StoreOptions::at(apart.home()).with_store(Said::At(copy.address())).one_shot();
        Store::open(options).expect("opens")
    };
    of_copy.check(&taken_back(), "taken back");
    // As many as there: the same numbers, in a file that comes out as long.
    of_copy.add(&copy.open(), 5000..5100);
    of_copy.check(&taken_back(), "going on from there");
    search_until_packed(&taken_back(), "going on from there", MANY + 64);
    of_copy.check(&taken_back(), "packed from there");
    model.check(&apart.open(), "once more");
    search_until_packed(&apart.open(), "once more", MANY + 64);
    model.check(&apart.open(), "made anew");
    of_copy.check(&taken_back(), "and back");
}

fn a_pack_of_another_home_is_not_taken_for_ours(place: &Place) {
    let (here, there) = (Apart::of(place), Apart::of(place));
    let (store, other) = (here.open(), there.open());
    let mut model = filled(place);
    search_until_packed(&store, "here", MANY - 16);
    fs::copy(pack_of(&here), pack_of(&there)).expect("copied");
    assert_eq!(packed(&other), None);
    model.check(&other, "a pack from elsewhere");
    search_until_packed(&other, "there", MANY - 16);
    model.add(&place.open(), MANY..MANY + 64);
    search_until_packed(&other, "there, further", MANY + 32);
    model.check(&other, "packed there");
    fs::copy(pack_of(&there), pack_of(&here)).expect("copied");
    assert_eq!(packed(&store), None);
    model.check(&store, "a longer pack from elsewhere");
    search_until_packed(&store, "here, anew", MANY + 32);
    model.check(&store, "packed here");
    model.check(&other, "as it was");
    assert_ne!(fs::read(pack_of(&here)).expect("a file"), fs::read(pack_of(&there)).expect("a file"));
}

fn an_embedding_of_another_length_is_told_if_it_is_meant(place: &Place) {
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
    for what in ["at first", "packed"] {
        let refused = messages.similar(&vector(1), 3, Metric::L2, &none()).expect_err("one is shorter").to_string();
        assert!(refused.contains("4096 numbers") && refused.contains("m-3000 has 8"), "{what}: {refused}");
        model.check_among(&store, &role("assistant"), &|_, one| one.role == "assistant", what);
        let near = messages.similar(&vector_of(3002, 8), 9, Metric::Cosine, &role("short")).expect("found");
        assert_eq!((near.len(), near[0].id.as_str()), (5, "m-3002"), "{what}");
        let refused =
            messages.similar(&vector_of(1, 8), 3, Metric::L2, &none()).expect_err("most are longer").to_string();
        assert!(refused.contains("8 numbers") && refused.contains("m-0 has 4096"), "{what}: {refused}");
        search_until_packed(&store, what, MANY);
    }
    short(3100..3101);
    let gone: Vec<MessageId> = (3000..3005).map(|at| MessageId::parse(&Model::id(at)).expect("an id")).collect();
    place.open().write(Durability::Process, move |tx| table::remove_unnamed(tx, &gone, None)).expect("removed");
    let refused = messages.similar(&vector(1), 3, Metric::L2, &none()).expect_err("one is left").to_string();
    assert!(refused.contains("m-3100 has 8"), "{refused}");
    let gone = [MessageId::parse("m-3100").expect("an id")];
    place.open().write(Durability::Process, move |tx| table::remove_unnamed(tx, &gone, None)).expect("removed");
    model.check(&store, "none is left");
}

/// A transaction that has put an embedding and not ended; what is sent, or that nothing is any more, ends it.
fn slow(place: &Place, number: u64) -> (mpsc::Sender<()>, JoinHandle<()>) {
    let (began, begins) = mpsc::channel();
    let (end, ends) = mpsc::channel::<()>();
    let (state, ends) = (place.open(), Mutex::new(ends));
    let writer = std::thread::spawn(move || {
        let row = row(number, Some(&vector(number)));
        let written = state.write(Durability::Process, move |tx| {
            table::add(tx, std::slice::from_ref(&row))?;
            let _ = began.send(());
            let _ = ends.lock().expect("alone").recv();
            Ok::<_, duolog_state::Error>(())
        });
        written.expect("written");
    });
    begins.recv().expect("begun");
    (end, writer)
}

/// On a server a lower number may be committed after a higher one was packed, if nobody takes care.
#[test]
fn an_embedding_that_is_committed_late_is_found() {
    let place = Place::postgres();
    let apart = Apart::of(&place);
    let store = apart.open();
    let (end, writer) = slow(&place, 10_000);
    let mut model = filled(&place);
    model.check(&store, "one is on its way");
    model.check(&store, "one is still on its way");
    assert_eq!(packed(&store), None, "a lower number may still come");
    drop(end);
    writer.join().expect("ended");
    model.set(&Model::id(10_000), "assistant", Some(vector(10_000)));
    let late = SimilarFilter { since: Some(row(10_000, None).created_at), ..SimilarFilter::default() };
    let is_late = |id: &str, _: &One| number(id) >= 10_000;
    model.check(&store, "it came");
    model.check_among(&store, &late, &is_late, "it came");
    let before = search_until_packed(&store, "it came", MANY - 16);
    model.check_among(&store, &late, &is_late, "packed");
    // Where one always begins before another ends, what was seen before both is settled all the same.
    let (end_first, first) = slow(&place, 10_001);
    model.add(&place.open(), MANY..MANY + 64);
    model.check(&store, "one is on its way again");
    let noted = || {
        let found = place.open().read(|tx| embedding_packs::find(tx, &store.home_id())).expect("reads");
        found.and_then(|row| row.horizon).map_or(0, |horizon| horizon.seq)
    };
    let last = place.open().read(message_embeddings::last).expect("reads");
    search_until(&store, "it is noted how far it can be packed", || noted() >= last);
    assert_eq!(packed(&store), Some(before));
    let (end_second, second) = slow(&place, 10_002);
    drop(end_first);
    first.join().expect("ended");
    model.set(&Model::id(10_001), "assistant", Some(vector(10_001)));
    model.check(&store, "another is on its way");
    model.check_among(&store, &late, &is_late, "another is on its way");
    search_until_packed(&store, "what was noted is settled", before + 32);
    model.check_among(&store, &late, &is_late, "packed");
    drop(end_second);
    second.join().expect("ended");
    model.set(&Model::id(10_002), "user", Some(vector(10_002)));
    model.add(&place.open(), MANY + 64..MANY + 128);
    model.check(&store, "nobody is");
    model.check_among(&store, &late, &is_late, "nobody is");
    search_until_packed(&store, "nobody is", MANY + 100);
    model.check(&store, "all are packed");
    model.check_among(&store, &late, &is_late, "all are packed");
}

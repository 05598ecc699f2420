use std::ops::ControlFlow;
use std::time::Duration;

use duolog::log::{Follow, ReadFrom, Recording, Replay, ReplayDetail, Start, Stream};
use duolog::runs::NewRun;
use duolog::{Durability, Error, ErrorKind, Home, OperationId, Seen, Store, StoreOptions, TriggerType};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::{Apart, line, lines};

on_both_engines!(
    a_handle_keeps_its_store_open_and_the_last_one_closes_it,
    after_close_every_other_handle_is_refused,
    closing_twice_is_not_an_error,
    a_request_is_seen_by_its_handle_alone,
    a_request_makes_one_change_and_may_be_tried_again,
    threads_that_ask_the_same_get_one_answer
);

/// The test is that this compiles.
#[test]
fn handles_are_owned_and_shared_by_threads() {
    fn shared<T: Clone + Send + Sync + 'static>() {}
    fn owned<T: Send + Sync + 'static>() {}
    shared::<Store>();
    shared::<duolog::approvals::Approvals>();
    shared::<duolog::chats::Chats>();
    shared::<duolog::doctor::Doctor>();
    shared::<duolog::log::Log>();
    shared::<duolog::runs::Executions>();
    shared::<duolog::runs::RunHandle>();
    shared::<duolog::runs::Runs>();
    shared::<duolog::schedules::Schedules>();
    shared::<duolog::search::Search>();
    shared::<duolog::sessions::Branches>();
    shared::<duolog::sessions::Compaction>();
    shared::<duolog::sessions::Exchange>();
    shared::<duolog::sessions::Items>();
    shared::<duolog::sessions::Messages>();
    shared::<duolog::sessions::Sessions>();
    shared::<duolog::sessions::Status>();
    shared::<duolog::state::State>();
    shared::<duolog::usage::Usage>();
    shared::<duolog::workflows::Workflows>();
    // These have their own position, so they cannot be cloned.
    owned::<Follow>();
    owned::<Recording>();
    owned::<Replay>();
    owned::<Stream>();
    owned::<duolog::state::CountedBlobs>();
}

fn operation(text: &str) -> OperationId {
    OperationId::parse(text).expect("an operation id")
}

/// The number of processes that have the home open for writing.
fn processes(apart: &Apart) -> usize {
    std::fs::read_dir(apart.home().state.join("processes")).map_or(0, Iterator::count)
}

fn a_handle_keeps_its_store_open_and_the_last_one_closes_it(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = store.sessions().open_thread("s").expect("made").id;
    let log = store.log(&session);
    let mut follow = log.follow(None).expect("follows");
    drop(store);
    log.append(&line("{\"n\":1}"), Durability::Process).expect("appended");
    drop(log);
    let mut seen = 0;
    assert_eq!(follow.poll(&mut |_| seen += 1).expect("polls"), Seen::Delivered);
    assert_eq!((seen, processes(&apart)), (1, 1));
    drop(follow);
    assert_eq!(processes(&apart), 0, "the last handle closed the store");
    let read = Store::open(apart.options().for_reading()).expect("opens");
    let behind = read.sessions().figures(&session).expect("figures");
    assert_eq!(behind.events, Some(1), "the backlog was folded");
}

fn after_close_every_other_handle_is_refused(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = store.sessions().open_thread("s").expect("made").id;
    let (log, clone) = (store.log(&session), store.clone());
    log.append(&line("{\"n\":1}"), Durability::Process).expect("appended, so the log is open for appending");
    let mut follow = log.follow(None).expect("follows");
    let mut recording = log.record(duolog::log::RecordOptions::default()).expect("records");
    let counted = clone.state().count_blobs(|_| {}).expect("counted");
    store.close().expect("closes");
    let new = NewRun::new("build", TriggerType::Cli, "t");
    let refused = [
        log.append(&line("{\"n\":2}"), Durability::Process).err(),
        log.end().err(),
        log.read(ReadFrom::Start, |_| ControlFlow::Continue(())).err(),
        log.follow(None).err(),
        log.full("blob:0").err(),
        follow.poll(&mut |_| {}).err(),
        recording.event(b"{\"n\":3}").and_then(|_| recording.flush()).err(),
        counted.prune().err(),
        clone.stream(Start::All, ReplayDetail::All).err(),
        clone.sessions().open_thread("t").err(),
        clone.sessions().get(&session).err(),
        clone.runs().start(&new).err(),
        clone.once("start", &operation("o"), &()).expect("a handle").runs().start(&new).err(),
        clone.state().stats().err(),
        clone.state().checkpoint().err(),
        clone.now().err(),
    ];
    for (number, error) in refused.into_iter().enumerate() {
        let error = error.unwrap_or_else(|| panic!("call {number} was served after close"));
        assert!(matches!(error, Error::Closed), "call {number}: {error:?}");
        assert_eq!(error.kind(), ErrorKind::Closed);
    }
    let store = apart.open();
    assert_eq!(lines(&store, &session), ["{\"n\":1}"]);
    assert!(store.runs().find_active("build", "t").expect("reads").is_none());
}

fn closing_twice_is_not_an_error(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let other = store.clone();
    store.close().expect("closes");
    other.close().expect("is closed");
}

fn a_request_is_seen_by_its_handle_alone(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let disable = |store: &Store, name: &str| store.workflows().disable(name, None).expect("answered");
    let once = || store.once("disable", &operation("one"), &"a").expect("a handle");
    let pending = once();
    // Another thread with a clone of the store makes a change in between, which is not part of the request.
    let clone = store.clone();
    assert!(std::thread::spawn(move || clone.workflows().disable("b", None).expect("done")).join().expect("no panic"));
    assert!(disable(&pending, "a"));
    // The request has its recorded result; the change of the thread has none.
    assert!(disable(&once(), "a"), "the recorded result");
    assert!(!disable(&store, "b"), "done before, without an operation id");
    assert!(!disable(&store, "a"));
    let other = store.once("disable", &operation("one"), &"c").expect("a handle");
    assert_eq!(other.workflows().disable("c", None).expect_err("another request").kind(), ErrorKind::Conflict);
}

fn a_request_makes_one_change_and_may_be_tried_again(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let once = store.once("start", &operation("o"), &"t").expect("a handle");
    store.workflows().disable("build", None).expect("disabled");
    let new = NewRun::new("build", TriggerType::Cli, "t");
    assert!(once.runs().start(&new).is_err(), "the workflow is disabled");
    store.workflows().enable("build", None).expect("enabled");
    let started = once.runs().start(&new).expect("the same handle may try again");
    let refused = once.runs().start(&NewRun::new("build", TriggerType::Cli, "u")).expect_err("a second change");
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    assert!(store.runs().find_active("build", "u").expect("reads").is_none());
    once.runs().get(&started.run.id).expect("reads are not limited");
    let again = store.once("start", &operation("o"), &"t").expect("a handle");
    assert_eq!(again.runs().start(&new).expect("answered").run.id, started.run.id);
}

fn threads_that_ask_the_same_get_one_answer(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let ask = |store: Store| {
        move || {
            let once = store.once("start", &operation("o"), &"t").expect("a handle");
            once.runs().start(&NewRun::new("build", TriggerType::Cli, "t")).expect("answered").run.id
        }
    };
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(ask(store.clone()))).collect();
    let ids: Vec<_> = threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

/// A follower runs in a thread that outlives the scope that created it.
#[test]
fn a_follower_lives_in_a_thread_of_its_own() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = Store::open(StoreOptions::at(Home::beneath(directory.path()))).expect("opens");
    let session = store.sessions().open_thread("s").expect("made").id;
    let log = store.log(&session);
    let mut follow = log.follow(None).expect("follows");
    drop(store);
    let (send, received) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let mut left = 3;
        while left > 0 {
            follow.poll(&mut |_| {
                left -= 1;
                send.send(left).expect("someone listens");
            })?;
            if left > 0 {
                follow.wait(Duration::from_mins(2));
            }
        }
        Ok::<_, Error>(follow.cursor())
    });
    for n in 0..3 {
        log.append(&line(&format!("{{\"n\":{n}}}")), Durability::Process).expect("appended");
    }
    assert_eq!(thread.join().expect("no panic").expect("followed").position, log.end().expect("reads"));
    assert_eq!(received.iter().collect::<Vec<_>>(), [2, 1, 0]);
}

use std::io::Cursor;
use std::process::{Command, Stdio};

use duolog::errors::{Conflict, Invalid};
use duolog::import::lionagi::{self, BranchSource, SessionSource, Source};
use duolog::sessions::{BranchChange, BranchRef, NewBranch, NewFork};
use duolog::{Durability, Error, ErrorKind, Home, SessionId, Store, StoreAddress, StoreOptions};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::{Apart, lines};

on_both_engines!(
    a_branch_name_is_given_once_in_a_session,
    processes_that_want_one_name_make_one_branch,
    imported_branches_with_one_name_are_selected_by_id
);

const PROCESS: Durability = Durability::Process;

fn fork(name: &str) -> NewFork {
    NewFork { name: Some(name.to_owned()), ..NewFork::default() }
}

fn new(name: &str) -> NewBranch {
    NewBranch { name: Some(name.to_owned()), ..NewBranch::default() }
}

fn called(name: &str) -> BranchChange {
    BranchChange { name: Some(name.to_owned()), ..BranchChange::default() }
}

fn a_branch_name_is_given_once_in_a_session(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = store.sessions().open_thread("demo").expect("made").id;
    let branches = store.sessions().branches(&session);
    let side = branches.fork(fork("side"), PROCESS).expect("forked").id;
    let other = branches.create(new("other"), PROCESS).expect("made").id;
    let (told, there) = (lines(&store, &session), branches.list(None, 9).expect("lists"));
    let rename = branches.set(&BranchRef::from(&other), &called("side"), PROCESS);
    for refused in [branches.fork(fork("side"), PROCESS), branches.create(new("side"), PROCESS), rename] {
        let error = refused.expect_err("a second of that name");
        assert!(
            matches!(&error, Error::Conflict(Conflict::BranchNameTaken { branch, .. }) if *branch == side),
            "{error}"
        );
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.to_string().contains(side.as_str()), "it names the existing branch: {error}");
    }
    assert_eq!((lines(&store, &session), branches.list(None, 9).expect("lists")), (told, there), "nothing was created");
    // Setting its own name again is allowed, a name that was given up is free, and another session has its own names.
    branches.set(&BranchRef::from(&side), &called("side"), PROCESS).expect("as it was");
    branches.set(&BranchRef::from(&side), &called(""), PROCESS).expect("cleared");
    branches.set(&BranchRef::from(&other), &called("side"), PROCESS).expect("free again");
    let elsewhere = store.sessions().open_thread("other").expect("made").id;
    store.sessions().branches(&elsewhere).create(new("side"), PROCESS).expect("made");
}

const HOME: &str = "DUOLOG_TEST_HOME";

/// Tries to use ten names, each by a fork, a new branch or a rename, in its own process.
#[test]
fn child_wants_names() {
    let Some(home) = std::env::var_os(HOME) else { return };
    let said = |name: &str| std::env::var(name).expect(name);
    let store: StoreAddress = said("DUOLOG_TEST_STORE").parse().expect("an address");
    let options = StoreOptions::at(Home::beneath(home.as_ref())).with_store(store).one_shot();
    let store = Store::open(options).expect("opens");
    let session = SessionId::parse(&said("DUOLOG_TEST_SESSION")).expect("an id");
    let child: usize = said("DUOLOG_TEST_CHILD").parse().expect("a number");
    let branches = store.sessions().branches(&session);
    for number in 0..10 {
        let name = format!("name-{number}");
        let wanted = match (child + number) % 3 {
            0 => branches.fork(fork(&name), PROCESS),
            1 => branches.create(new(&name), PROCESS),
            _ => {
                let unnamed = branches.create(NewBranch::default(), PROCESS).expect("made");
                branches.set(&BranchRef::from(&unnamed.id), &called(&name), PROCESS)
            }
        };
        assert!(matches!(&wanted, Ok(_) | Err(Error::Conflict(Conflict::BranchNameTaken { .. }))), "{wanted:?}");
    }
}

fn processes_that_want_one_name_make_one_branch(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let session = store.sessions().open_thread("demo").expect("made").id;
    let address = match place.database() {
        Some(database) => database.url(),
        None => format!("sqlite:{}", place.home().display()),
    };
    let start = |child: u32| {
        Command::new(std::env::current_exe().expect("this binary"))
            .args(["--exact", "branch_names::child_wants_names", "--nocapture", "--test-threads=1"])
            .env(HOME, apart.directory.path())
            .env("DUOLOG_TEST_STORE", &address)
            .env("DUOLOG_TEST_SESSION", session.as_str())
            .env("DUOLOG_TEST_CHILD", child.to_string())
            .stdout(Stdio::null())
            .spawn()
            .expect("starts")
    };
    let children: Vec<_> = (0..4).map(start).collect();
    for mut child in children {
        assert!(child.wait().expect("ends").success());
    }
    let all = store.sessions().branches(&session).list(None, 200).expect("lists");
    let mut names: Vec<String> = all.into_iter().filter_map(|branch| branch.name).collect();
    names.sort();
    assert_eq!(names, (0..10).map(|number| format!("name-{number}")).collect::<Vec<_>>(), "each once");
}

fn imported_branches_with_one_name_are_selected_by_id(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let branch = |id: &str| BranchSource {
        id: id.to_owned(),
        created_at: 2.0,
        name: Some("same".to_owned()),
        progression_id: format!("{id}-prog"),
        ..BranchSource::default()
    };
    let session = SessionSource {
        id: "s".to_owned(),
        created_at: 1.0,
        progression_id: Some("s-prog".to_owned()),
        ..SessionSource::default()
    };
    let (branches, messages, statuses) = (vec![branch("one"), branch("two")], [].into(), Vec::new());
    let source = Source { session, branches, messages, statuses };
    let mapped = lionagi::map(source).expect("mapped");
    let session = store.sessions().import(Cursor::new(mapped.document().expect("written"))).expect("imported").session;
    let branches = store.sessions().branches(&session.id);
    let same = BranchRef::Text("same".to_owned());
    let ambiguous = branches.get(&same).expect_err("either");
    assert!(matches!(ambiguous, Error::Invalid(Invalid::AmbiguousBranch { .. })), "{ambiguous}");
    let text = ambiguous.to_string();
    assert!(text.contains("one") && text.contains("two"), "it lists the candidates: {text}");
    let taken = branches.create(new("same"), PROCESS).expect_err("a third");
    assert!(matches!(taken, Error::Conflict(Conflict::BranchNameTaken { .. })), "{taken}");
    let two = BranchRef::Text("two".to_owned());
    let described = BranchChange { node_metadata: Some("{}".to_owned()), ..BranchChange::default() };
    branches.set(&two, &described, PROCESS).expect("its name does not change");
    branches.set(&two, &called("second"), PROCESS).expect("renamed");
    assert_eq!(branches.get(&same).expect("one is left").map(|branch| branch.id.to_string()).as_deref(), Some("one"));
}

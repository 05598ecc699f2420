//! Several processes at once, and such as are killed.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use duolog::sessions::{Metric, SimilarFilter};
use duolog::{Durability, Home, Said, Store, StoreOptions};
use duolog_state::owned::messages as table;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::model::{MANY, Model, Random, row, vector};
use super::{filled, search_until_packed};
use crate::Apart;

on_both_engines!(
    two_processes_search_and_pack_while_a_third_writes,
    whoever_is_killed_while_packing_leaves_nothing_that_is_believed
);

/// What a child is told by its environment.
const HOME: &str = "DUOLOG_TEST_SIMILAR_HOME";
const STORE: &str = "DUOLOG_TEST_SIMILAR_STORE";
const ROLE: &str = "DUOLOG_TEST_SIMILAR_ROLE";

/// What is asked for, and the messages that are nearer to it than any other will be.
const WANTED: u64 = 4_000_000;
const NEAR: [u64; 5] = [20_000, 20_001, 20_002, 20_003, 20_004];

fn near(number: u64) -> Vec<f32> {
    let off = f32::from(u16::try_from(number - NEAR[0] + 1).expect("small")) / 100.0;
    vector(WANTED).into_iter().map(|one| one + off * one.abs().sqrt()).collect()
}

fn start(apart: &Apart, place: &Place, role: &str) -> Child {
    let address = match place.database() {
        Some(database) => database.url(),
        None => format!("sqlite:{}", place.home().display()),
    };
    Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", "similar::processes::child", "--nocapture", "--test-threads=1"])
        .env(HOME, apart.directory.path())
        .env(STORE, address)
        .env(ROLE, role)
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts")
}

/// What children do, each in a process of its own.
#[test]
fn child() {
    let Some(home) = std::env::var_os(HOME) else { return };
    let said = |name: &str| std::env::var(name).expect(name);
    let (home, at) = (Home::beneath(home.as_ref()), said(STORE).parse::<Said>().expect("an address"));
    let store = Store::open(StoreOptions::at(home.clone()).with_store(at.clone()).one_shot()).expect("opens");
    match said(ROLE).as_str() {
        "search" => search(&store, 25),
        "pack" => search(&store, usize::MAX),
        "write" => write(&at, &home),
        role => panic!("{role}"),
    }
}

/// Searches again and again, every third time where the pack was deleted.
fn search(store: &Store, rounds: usize) {
    let pack = store.home().state.join("vectors.pack");
    for round in 0..rounds {
        if round % 3 == 0 {
            let _ = fs::remove_file(&pack);
        }
        for metric in [Metric::L2, Metric::Cosine] {
            let messages = store.sessions().messages();
            let found = messages.similar(&vector(WANTED), NEAR.len(), metric, &SimilarFilter::default());
            let found: Vec<String> = found.expect("found").iter().map(|one| one.id.to_string()).collect();
            assert_eq!(found, NEAR.map(Model::id), "round {round}, {metric:?}");
        }
        writeln!(std::io::stdout(), "done {round}").expect("heard");
    }
}

/// The messages that are written, those that get another embedding, and those that go.
const WRITTEN: u64 = 200;

fn write(at: &Said, home: &Home) {
    let state = duolog_state::State::open(duolog_state::OpenState::address(at.clone().or_in(&home.state)));
    let state = state.expect("opens");
    for from in (MANY..MANY + WRITTEN).step_by(10) {
        let rows: Vec<_> = (from..from + 10).map(|number| row(number, Some(&vector(number)))).collect();
        state.write(Durability::Process, move |tx| table::add(tx, &rows)).expect("added");
        let (another, gone) = (row(from, Some(&vector(from + 5000))), row(from + 1, None).id);
        let changed = state.write(Durability::Process, move |tx| {
            // A message has one embedding for ever: another one is that of a message added anew.
            table::remove_unnamed(tx, std::slice::from_ref(&another.id), None)?;
            table::add(tx, std::slice::from_ref(&another))?;
            table::remove_unnamed(tx, std::slice::from_ref(&gone), None)
        });
        assert_eq!(changed.expect("changed"), 1);
    }
}

fn with_near(place: &Place) -> Model {
    let mut model = filled(place);
    let rows: Vec<_> = NEAR.iter().map(|number| row(*number, Some(&near(*number)))).collect();
    place.open().write(Durability::Process, move |tx| table::add(tx, &rows)).expect("added");
    for number in NEAR {
        model.set(&Model::id(number), "user", Some(near(number)));
    }
    model
}

fn two_processes_search_and_pack_while_a_third_writes(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let mut model = with_near(place);
    let children = ["search", "search", "write"].map(|role| start(&apart, place, role));
    for child in children {
        let ended = child.wait_with_output().expect("ends");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    }
    for from in (MANY..MANY + WRITTEN).step_by(10) {
        for number in from..from + 10 {
            model.set(&Model::id(number), "user", Some(vector(number)));
        }
        model.set(&Model::id(from), "user", Some(vector(from + 5000)));
        model.remove(&Model::id(from + 1));
    }
    model.check(&store, "all have ended");
    search_until_packed(&store, "all have ended", MANY);
    model.check(&store, "packed");
}

/// How often one is killed.
const KILLS: u64 = 12;

fn whoever_is_killed_while_packing_leaves_nothing_that_is_believed(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let model = with_near(place);
    let mut random = Random(5);
    for kill in 0..KILLS {
        let mut child = start(&apart, place, "pack");
        // It is listened to until it ends, as it would fail otherwise.
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let wanted = format!("done {}", random.below(4));
        lines.by_ref().map_while(Result::ok).find(|line| line.ends_with(&wanted)).expect("it told so");
        let until = Instant::now() + Duration::from_micros(random.below(40_000));
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        child.kill().expect("killed");
        assert!(child.wait().expect("ended").code().is_none(), "it failed by itself");
        model.check(&store, &format!("kill {kill}"));
    }
    search_until_packed(&store, "nobody is killed any more", MANY - 16);
    model.check(&store, "nobody is killed any more");
    let left: Vec<_> =
        fs::read_dir(apart.home().state).expect("a directory").flatten().map(|one| one.file_name()).collect();
    assert!(!left.iter().any(|name| name == "vectors.new"), "{left:?}");
}

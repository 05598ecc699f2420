//! A process changes branches, reports each step that was acknowledged, and is killed at a random time. The state found
//! afterwards must be the result of all reported steps, or of those and the next one.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use duolog::sessions::NewSession;
use duolog::{Durability, Home, SessionId, Store, StoreAddress, StoreOptions};
use duolog_state::owned::sessions;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::model::{self, Model, Step};
use super::{Apart, check_nothing_is_left, rows_of};

on_both_engines!(acknowledged_steps_survive_a_kill);

/// The default number of kills.
const KILLS_DEFAULT: u64 = 32;
/// The variable that overrides the number of kills.
const KILLS: &str = "DUOLOG_TEST_KILLS";
/// The number of kills per session; then a new session begins, so that the cost of a round stays the same.
const KILLS_PER_SESSION: u64 = 8;
/// The limit of acknowledged steps before a kill.
const STEPS_MAX: u64 = 24;

/// The endless sequence of steps of a seed.
fn steps(seed: u64) -> impl Iterator<Item = (usize, Step)> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let chance = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), chance);
    let steps = model::step();
    std::iter::repeat_with(move || steps.new_tree(&mut runner).expect("a step").current())
}

/// The steps so far: the number for each seed.
#[derive(Clone, Default)]
struct Done(Vec<(u64, u64)>);

impl Done {
    fn to_text(&self) -> String {
        self.0.iter().map(|(seed, count)| format!("{seed}:{count}")).collect::<Vec<_>>().join(" ")
    }

    fn parse(text: &str) -> Self {
        let number = |text: &str| text.parse().expect("a number");
        let pair = |word: &str| word.split_once(':').map(|(seed, count)| (number(seed), number(count)));
        Self(text.split_whitespace().map(|word| pair(word).expect("two numbers")).collect())
    }

    fn with(&self, seed: u64, count: u64) -> Self {
        Self(self.0.iter().copied().chain([(seed, count)]).collect())
    }

    /// Returns the expected branches after these steps.
    fn model(&self) -> Model {
        let mut model = Model::default();
        for (seed, count) in &self.0 {
            for (at, step) in steps(*seed).take(usize::try_from(*count).expect("small")) {
                model.apply(at, &step);
            }
        }
        model
    }
}

/// Continues where others were killed, until it is killed.
#[test]
fn child_changes_branches() {
    let Ok(done) = std::env::var("DUOLOG_TEST_DONE") else { return };
    let said = |name: &str| std::env::var(name).expect(name);
    let store: StoreAddress = said("DUOLOG_TEST_STORE").parse().expect("an address");
    let home = Home::beneath(said("DUOLOG_TEST_KILLED_HOME").as_ref());
    let store = Store::open(StoreOptions::at(home).with_store(store)).expect("opens");
    let session = SessionId::parse(&said("DUOLOG_TEST_SESSION")).expect("an id");
    let mut model = Done::parse(&done).model();
    for (number, (at, step)) in steps(said("DUOLOG_TEST_SEED").parse().expect("a seed")).enumerate() {
        tell(&format!("done {number}"));
        let outcome = model.ask(&store, &session, at, &step);
        assert_eq!(outcome, model.apply(at, &step), "{step:?}");
    }
}

/// Writes a line in one write; the parent may have exited.
fn tell(words: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n{words}\n").as_bytes()).and_then(|()| out.flush()).expect("the parent listens");
}

/// Starts a child, kills it soon after it has reported this many steps, and returns the number of reported steps.
fn kill_one(apart: &Apart, place: &Place, session: &SessionId, done: &Done, seed: u64) -> u64 {
    let address = match place.database() {
        Some(database) => database.url(),
        None => format!("sqlite:{}", place.home().display()),
    };
    let mut child = Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", "branching::killed::child_changes_branches", "--nocapture", "--test-threads=1"])
        .env("DUOLOG_TEST_KILLED_HOME", apart.directory.path())
        .env("DUOLOG_TEST_STORE", &address)
        .env("DUOLOG_TEST_SESSION", session.as_str())
        .env("DUOLOG_TEST_DONE", done.to_text())
        .env("DUOLOG_TEST_SEED", seed.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let told = lines.map_while(Result::ok).filter_map(|line| line.strip_prefix("done ")?.parse::<u64>().ok());
    let (mut acknowledged, wanted) = (None, seed % STEPS_MAX);
    for number in told {
        if number == wanted {
            // During the next step or a little later; a server takes longer for a step.
            let micros_max = if place.database().is_some() { 8000 } else { 800 };
            let until = Instant::now() + Duration::from_micros(seed / STEPS_MAX % micros_max);
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            child.kill().expect("killed");
        }
        acknowledged = Some(number);
    }
    let ended = child.wait().expect("ended");
    assert!(!ended.success() && ended.code().is_none(), "it failed by itself: {ended}");
    acknowledged.expect("it told of something")
}

fn acknowledged_steps_survive_a_kill(place: &Place) {
    let kills = std::env::var(KILLS).map_or(KILLS_DEFAULT, |text| text.parse().expect("a number of kills"));
    let apart = Apart::of(place);
    let mut in_flight = 0;
    for first in (0..kills).step_by(usize::try_from(KILLS_PER_SESSION).expect("small")) {
        let store = apart.open();
        let session = store.sessions().create(&NewSession::default()).expect("made").id;
        store.close().expect("closes");
        let mut done = Done::default();
        for kill in first..kills.min(first + KILLS_PER_SESSION) {
            // Each seed is different, and the same in every run.
            let seed = (kill + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
            let acknowledged = kill_one(&apart, place, &session, &done, seed);
            let store = apart.open();
            settle(place, &session);
            let (before, after) = (done.with(seed, acknowledged), done.with(seed, acknowledged + 1));
            let found = model::shown(&store, &session);
            let (told, all) = (before.model(), after.model());
            let messages = model::messages(&store, &session);
            let is_after = found != told.shown() || messages != told.messages();
            if is_after {
                assert_eq!(found, all.shown(), "seed {seed}: neither {acknowledged} steps nor one more");
                in_flight += 1;
            }
            let model = if is_after { all } else { told };
            assert_eq!(messages, model.messages(), "seed {seed}");
            assert_eq!(rows_of(&store, "messages"), messages.len() as u64, "seed {seed}: nothing is left over");
            let lines = store.log(&session).last(10_000).expect("reads");
            let told = lines.iter().filter(|line| String::from_utf8_lossy(line).contains("duolog.forked")).count();
            assert_eq!(told, model.forks(), "seed {seed}: the log tells of each fork once");
            done = if is_after { after } else { before };
            store.close().expect("closes");
        }
        let store = apart.open();
        store.sessions().delete(&session).expect("deleted");
        check_nothing_is_left(&store);
        store.close().expect("closes");
    }
    assert!(in_flight <= kills, "{kills} kills, {in_flight} after the commit of the step in flight");
}

/// A server may still finish a transaction of a killed process; writing the session's row waits for that.
fn settle(place: &Place, session: &SessionId) {
    let (session, now) = (session.clone(), duolog::Timestamp::from_micros(0));
    let settled = place.open().write(Durability::Process, move |tx| sessions::enter(tx, &session, now));
    assert!(settled.expect("written"), "there is such a session");
}

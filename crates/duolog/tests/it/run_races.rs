use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use duolog::approvals::Answer;
use duolog::errors::{Busy, Conflict};
use duolog::limits::RunLimits;
use duolog::runs::{Admission, Attribution, End, NewGate, Until};
use duolog::{ApprovalId, ApprovalKind, Durability, Error, Home, RunId, RunStatus, Store, StoreAddress, StoreOptions};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use super::Apart;
use super::runs::{by, new, start};

on_both_engines!(
    eight_processes_never_exceed_the_limit,
    eight_processes_do_each_thing_once,
    a_wait_ends_by_a_change_of_another_process
);

const PROCESSES: usize = 8;
const CAP: u32 = 4;

/// Starts this binary again to run a role on the same home.
pub fn child(apart: &Apart, place: &Place, role: &str, with: &str) -> Child {
    let address = match place.database() {
        Some(database) => database.url(),
        None => format!("sqlite:{}", place.home().display()),
    };
    Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", role, "--nocapture", "--test-threads=1"])
        .env("DUOLOG_TEST_HOME", apart.directory.path())
        .env("DUOLOG_TEST_STORE", address)
        .env("DUOLOG_TEST_WITH", with)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts")
}

/// Returns the options and the task of a role; `None` if this process has no role.
pub fn role() -> Option<(StoreOptions, String)> {
    let home = Home::beneath(std::path::Path::new(&std::env::var_os("DUOLOG_TEST_HOME")?));
    let said: StoreAddress = std::env::var("DUOLOG_TEST_STORE").ok()?.parse().expect("an address");
    let mut options = StoreOptions::at(home).with_store(said).one_shot();
    options.limits.busy_timeout = Duration::from_mins(1);
    options.limits.runs = RunLimits { max_running: CAP, ..RunLimits::default() };
    Some((options, std::env::var("DUOLOG_TEST_WITH").expect("what to do")))
}

/// Starts all children at once, and counts the lines that they print.
fn race(mut children: Vec<Child>) -> BTreeMap<String, usize> {
    let mut readers = Vec::new();
    for child in &mut children {
        let mut reader = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        while !line.contains("ready") {
            line.clear();
            assert!(reader.read_line(&mut line).expect("reads") > 0, "the child ended before it was ready");
        }
        readers.push(reader);
    }
    for child in &mut children {
        child.stdin.take().expect("piped").write_all(b"go\n").expect("writes");
    }
    let mut said = BTreeMap::new();
    for (child, reader) in children.iter_mut().zip(readers) {
        for line in reader.lines().map_while(Result::ok) {
            if let Some(word) = line.strip_prefix("did ") {
                *said.entry(word.to_owned()).or_insert(0) += 1;
            }
        }
        assert!(child.wait().expect("ends").success(), "a child failed");
    }
    said
}

fn wait_for_go() {
    writeln!(std::io::stdout(), "\nready").expect("writes");
    std::io::stdin().lock().read_line(&mut String::new()).expect("reads");
}

fn count(store: &Store, status: RunStatus) -> u64 {
    let counts = store.runs().count_by_status().expect("counted");
    counts.into_iter().find(|(one, _)| *one == status).map_or(0, |(_, count)| count)
}

fn eight_processes_never_exceed_the_limit(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    for number in 0..40 {
        let new = duolog::runs::NewRun { admission: Admission::Queue, ..new("build", &number.to_string()) };
        store.runs().start(&new).expect("starts");
    }
    let children = (0..PROCESSES).map(|n| child(&apart, place, "run_races::admits", &format!("w{n}"))).collect();
    let said = race(children);
    assert_eq!(said.len(), 40, "each of them ran: {said:?}");
    assert!(said.values().all(|times| *times == 1), "once: {said:?}");
    assert_eq!((count(&store, RunStatus::Succeeded), count(&store, RunStatus::Queued)), (40, 0));
}

/// Admits, runs and ends runs until none is left, and checks each time that the limit is not exceeded.
#[test]
fn admits() {
    let Some((options, owner)) = role() else { return };
    let store = Store::open(options).expect("opens");
    wait_for_go();
    loop {
        let admitted = store.runs().admit(Some(&owner), 2).expect("admits").admitted;
        let running = count(&store, RunStatus::Running);
        assert!(running <= u64::from(CAP), "{running} run");
        for (run, fence) in &admitted {
            let open = store.runs().open(&run.id).under(fence.expect("claimed"));
            assert!(open.finish(&End::Succeeded, None).expect("finished").changed);
            println!("did {}", run.trigger_id);
        }
        if admitted.is_empty() && count(&store, RunStatus::Queued) == 0 {
            return;
        }
    }
}

fn eight_processes_do_each_thing_once(place: &Place) {
    let apart = Apart::of(place);
    let mut options = apart.options();
    options.limits.runs.max_running = 1000;
    let store = Store::open(options).expect("opens");
    let mut with = Vec::new();
    for number in 0..6 {
        let id = |what: &str| start(&store, "build", &format!("{what}-{number}")).run.id;
        let (gated, claimed, failed, cancelled) = (id("gate"), id("claim"), id("fail"), id("cancel"));
        let gate = NewGate::new(ApprovalKind::Approve, "g", "look");
        let gate = store.runs().open(&gated).pause_at(&gate).expect("paused").approval.id;
        store.runs().open(&failed).finish(&End::Failed("why".to_owned()), None).expect("finished");
        with.push(format!("{gate} {claimed} {failed} {cancelled}"));
    }
    let with = with.join(";");
    let children = (0..PROCESSES).map(|_| child(&apart, place, "run_races::does_all", &with)).collect();
    let said = race(children);
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for (word, times) in &said {
        assert_eq!(*times, 1, "{word}: {said:?}");
        *kinds.entry(word.split(' ').next().unwrap_or_default()).or_default() += 1;
    }
    let expected = [("answer", 6), ("cancel", 6), ("claim", 6), ("retry", 6), ("start", 1)];
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), expected);
    assert_eq!(count(&store, RunStatus::Paused), 0, "no run is paused after its answer");
}

/// Answers, claims, retries and cancels the same runs as all others, and starts the same run.
#[test]
fn does_all() {
    let Some((options, with)) = role() else { return };
    let store = Store::open(options).expect("opens");
    let owner = format!("w{}", std::process::id());
    wait_for_go();
    if !start(&store, "build", "the same").existed {
        println!("did start");
    }
    for group in with.split(';') {
        let ids: Vec<&str> = group.split(' ').collect();
        let gate = ApprovalId::parse(ids[0]).expect("an id");
        let run = |at: usize| RunId::parse(ids[at]).expect("an id");
        let word = if std::process::id().is_multiple_of(2) { "yes" } else { "no" };
        let answer = Answer { by: Some(owner.clone()), ..Answer::default() };
        let answered = match word {
            "yes" => store.approvals().approve(&gate, &answer),
            _ => store.approvals().reject(&gate, &answer),
        };
        match answered {
            Ok(_) => println!("did answer {gate}"),
            Err(Error::Conflict(Conflict::GateResolved { .. })) => {}
            Err(error) => panic!("{error}"),
        }
        match store.runs().open(&run(1)).claim(&owner, None) {
            Ok(_) => println!("did claim {}", ids[1]),
            Err(Error::Busy(Busy::Claimed { .. })) => {}
            Err(error) => panic!("{error}"),
        }
        if store.runs().open(&run(2)).retry(Admission::IfFree, &by(&owner)).expect("asked").changed {
            println!("did retry {}", ids[2]);
        }
        let cancelled = store.runs().durable(Durability::Process).open(&run(3)).cancel(&Attribution::default());
        if cancelled.expect("asked").changed {
            println!("did cancel {}", ids[3]);
        }
    }
}

fn a_wait_ends_by_a_change_of_another_process(place: &Place) {
    let apart = Apart::of(place);
    let store = apart.open();
    let id = start(&store, "build", "t").run.id;
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| store.runs().open(&id).wait(&Until::Ended, Duration::from_mins(1)));
        race(vec![child(&apart, place, "run_races::finishes", id.as_str())]);
        assert_eq!(waiter.join().expect("no panic").expect("met").status, RunStatus::Succeeded);
    });
}

/// Finishes the given run.
#[test]
fn finishes() {
    let Some((options, run)) = role() else { return };
    let store = Store::open(options).expect("opens");
    wait_for_go();
    let run = store.runs().open(&RunId::parse(&run).expect("an id"));
    run.finish(&End::Succeeded, None).expect("finished");
}

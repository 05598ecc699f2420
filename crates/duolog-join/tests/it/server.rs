use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use duolog_join::{Error, Join, prepare, tell};
use duolog_state::owned::{outbox, sessions};
use duolog_state::{Error as StateError, OpenState, StoreAddress, params};
use duolog_testkit::engines::Place;
use duolog_testkit::postgres::Server;
use duolog_types::limits::Limits;
use duolog_types::{Durability, SessionId};

use crate::kit::{join, limits, lines, open, raise, session};

const PROCESSES: usize = 8;
const STEPS: u32 = 40;
const KILLS: u32 = 10;

/// Opens its own home on a shared database.
fn open_home(dir: &Path, url: &str, limits: Limits) -> Arc<Join> {
    let prepared = prepare(dir).unwrap();
    let address = url.parse::<StoreAddress>().unwrap().or_in(dir);
    let state = OpenState::address(address).busy_timeout(limits.busy_timeout);
    join(state, prepared.disk, prepared.id, limits).unwrap()
}

/// Starts this binary again as another process with its own home.
fn start(role: &str, dir: &Path, url: &str, name: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("server::{role}"), "--nocapture", "--test-threads=1"])
        .env("DUOLOG_TEST_DIR", dir.join(name))
        .env("DUOLOG_TEST_URL", url)
        .env("DUOLOG_TEST_NAME", name)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Returns the arguments of a child process. `None` if this is not a child.
fn child_arguments() -> Option<(std::path::PathBuf, String, String)> {
    let variable = |name| std::env::var(name).ok();
    Some((variable("DUOLOG_TEST_DIR")?.into(), variable("DUOLOG_TEST_URL")?, variable("DUOLOG_TEST_NAME")?))
}

/// Returns the lines of a child's output that begin with a word, without the word, after the child has exited
/// successfully.
fn output_lines(mut child: Child, word: &'static str) -> JoinHandle<Vec<String>> {
    let output = BufReader::new(child.stdout.take().unwrap());
    thread::spawn(move || {
        let lines = output.lines().map_while(Result::ok);
        let found = lines.filter_map(|line| Some(line.strip_prefix(word)?.trim().to_owned())).collect();
        assert!(child.wait().unwrap().success());
        found
    })
}

/// Moves a session from each name to the next, unless another process was faster.
#[test]
fn race() {
    let Some((dir, url, _)) = child_arguments() else { return };
    let join = open_home(&dir, &url, limits());
    println!("\nready");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    for step in 0..STEPS {
        let at = join.clock().now();
        let won = join.transact::<_, Error>(Durability::Power, move |tx| {
            let id = SessionId::parse("s").unwrap();
            let sql = "UPDATE sessions SET name = ?3 WHERE id = ?1 AND name = ?2";
            if tx.execute(sql, params![&id, format!("n{step}"), format!("n{}", step + 1)])? == 0 {
                return Ok((false, Vec::new()));
            }
            let mut fields = serde_json::Map::new();
            fields.insert("step".to_owned(), step.into());
            Ok((true, vec![tell(tx, &id, "moved", at, &fields)?]))
        });
        if won.unwrap() {
            println!("\nwon {step}");
        }
    }
}

#[test]
fn one_of_eight_racing_processes_makes_each_transition() {
    let place = Place::postgres();
    let owner = open(&place);
    let id = session(&owner, "s");
    let first = id.clone();
    owner
        .state()
        .write(Durability::Power, move |tx| sessions::rename(tx, &first, "n0", duolog_types::Timestamp::from_micros(0)))
        .unwrap();
    let homes = tempfile::tempdir().unwrap();
    let url = place.database().unwrap().url();
    let mut children: Vec<Child> =
        (0..PROCESSES).map(|n| start("race", homes.path(), &url, &format!("home{n}"))).collect();
    for child in &mut children {
        let mut output = BufReader::new(child.stdout.as_mut().unwrap());
        let mut line = String::new();
        while !line.starts_with("ready") {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "the child exited");
        }
    }
    for child in &mut children {
        drop(child.stdin.take());
    }
    let racers: Vec<_> = children.into_iter().map(|child| output_lines(child, "won ")).collect();
    let mut won: Vec<u32> =
        racers.into_iter().flat_map(|racer| racer.join().unwrap()).map(|step| step.parse().unwrap()).collect();
    won.sort_unstable();
    assert_eq!(won, (0..STEPS).collect::<Vec<_>>(), "each transition happened exactly once");
    // They came from other homes; the home that has the log appends them in order.
    owner.drain(&id).unwrap();
    assert_eq!(owner.state().read(outbox::count).unwrap(), 0);
    let steps: Vec<u64> = steps(&owner, &id, "step");
    assert_eq!(steps, (0..u64::from(STEPS)).collect::<Vec<_>>());
}

/// Returns the numbers in the lines of a log.
fn steps(join: &Join, id: &SessionId, field: &str) -> Vec<u64> {
    let number = |line: &String| serde_json::from_str::<serde_json::Value>(line).unwrap()[field].as_u64().unwrap();
    lines(join, id).iter().map(number).collect()
}

/// Raises until its input ends, and prints what was acknowledged. A call with an unknown outcome is retried with the
/// same id.
#[test]
fn raise_until_told_to_stop() {
    let Some((dir, url, name)) = child_arguments() else { return };
    let limits = Limits { busy_timeout: Duration::from_secs(2), ..limits() };
    let join = open_home(&dir, &url, limits);
    let stop = Arc::new(AtomicBool::new(false));
    thread::spawn({
        let stop = Arc::clone(&stop);
        move || {
            std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
            stop.store(true, Ordering::SeqCst);
        }
    });
    let mut number = 0;
    while !stop.load(Ordering::SeqCst) {
        number += 1;
        let operation = format!("{name}-{number}");
        let answer = loop {
            match raise(&join, &operation, "s") {
                Ok(answer) => break answer,
                Err(Error::State(StateError::Unknown { .. })) => println!("\nunknown {operation}"),
                Err(Error::State(
                    StateError::Unreachable { .. } | StateError::Busy { .. } | StateError::Conflict { .. },
                )) => {}
                Err(error) => panic!("{error}: {error:?}"),
            }
        };
        println!("\nack {operation} {answer}");
    }
}

#[test]
fn a_server_killed_ten_times_loses_and_duplicates_nothing() {
    let mut server = Server::start().unwrap();
    let database = server.create_database().unwrap();
    let homes = tempfile::tempdir().unwrap();
    let owner = open_home(&homes.path().join("owner"), &database.url(), limits());
    let id = session(&owner, "s");
    let mut children: Vec<Child> =
        (0..4).map(|n| start("raise_until_told_to_stop", homes.path(), &database.url(), &format!("home{n}"))).collect();
    let stdins: Vec<_> = children.iter_mut().map(|child| child.stdin.take().unwrap()).collect();
    let acks: Vec<_> = children.into_iter().map(|child| output_lines(child, "ack ")).collect();
    for _ in 0..KILLS {
        thread::sleep(Duration::from_millis(300));
        server.stop_immediate().unwrap();
        server.restart().unwrap();
    }
    thread::sleep(Duration::from_millis(300));
    drop(stdins);
    let mut acknowledged: Vec<(String, u64)> = Vec::new();
    for output in acks {
        acknowledged.extend(output.join().unwrap().iter().map(|ack| {
            let (operation, answer) = ack.split_once(' ').unwrap();
            (operation.to_owned(), answer.parse().unwrap())
        }));
    }
    acknowledged.sort_by_key(|(_, answer)| *answer);
    let count = acknowledged.len() as u64;
    assert!(count > 100, "{count}");
    let answers: Vec<u64> = acknowledged.iter().map(|(_, answer)| *answer).collect();
    assert_eq!(answers, (1..=count).collect::<Vec<_>>(), "every answer was returned once");
    let row = owner.state().read(|tx| sessions::find(tx, &id)).unwrap().unwrap();
    assert_eq!(row.agent_name, Some(count.to_string()), "the row has the acknowledged value");
    owner.drain(&id).unwrap();
    assert_eq!(steps(&owner, &id, "raised"), answers, "the log has each number once and in order");
    drop((owner, database));
}

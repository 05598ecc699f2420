use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::kit::{Kit, Ran, lines_of};

/// A stopped process that holds the lock of a file until it is dropped.
struct Holder(Child);

impl Holder {
    fn of(path: &std::path::Path) -> Self {
        let mut command = Command::new("flock");
        command.arg("-x").arg("--no-fork").arg(path).args(["sh", "-c", "echo held; exec sleep 60"]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("flock runs");
        let mut held = [0; 4];
        std::io::Read::read_exact(child.stdout.as_mut().expect("a pipe"), &mut held).expect("it holds");
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::STOP)
            .expect("stopped");
        Self(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn with_timeout(kit: &Kit, args: &[&str]) -> (Ran, Duration) {
    let begun = Instant::now();
    let output = kit.command(args).env("DUOLOG_BUSY_TIMEOUT_MS", "200").output().expect("runs");
    (Ran::of(output), begun.elapsed())
}

#[test]
fn a_writer_asleep_inside_its_lock_is_named() {
    let kit = Kit::new();
    kit.append("demo", "{\"n\":1}\n");
    let append = ["log", "append", "--session", "demo", "--line", "{\"n\":2}"];
    let rename = ["sessions", "rename", "demo", "other"];
    for (file, command) in [(kit.log_of("demo"), &append[..]), (kit.home().join("state/state.lock"), &rename)] {
        let holder = Holder::of(&file);
        let (ran, took) = with_timeout(&kit, command);
        ran.is(3).says(&format!("process {}", holder.0.id())).says("hint: try again");
        assert!(took < Duration::from_secs(3), "{took:?}");
        let (ran, _) = with_timeout(&kit, &[command, &["--json"]].concat());
        assert_eq!(ran.is(3).field("/error/kind"), "busy");
    }
    let holder = Holder::of(&kit.log_of("demo"));
    let (ran, _) = with_timeout(&kit, &["log", "cat", "demo"]);
    ran.is(3).says(&format!("process {}", holder.0.id()));
    drop(holder);
    assert_eq!(lines_of(&kit.log_of("demo")), ["{\"n\":1}"]);
    kit.run(&append).is(0);
}

/// As agents in shells write: each process appends one line.
#[test]
fn one_shot_appends_of_many_processes_are_stored_once_and_listed() {
    const WRITERS: u32 = 8;
    const EACH: u32 = 25;
    let kit = Kit::new();
    kit.append("demo", "{\"n\":0}\n");
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let kit = &kit;
            scope.spawn(move || {
                for n in 0..EACH {
                    let line = format!("{{\"writer\":{writer},\"n\":{n}}}");
                    kit.run(&["log", "append", "--session", "demo", "--line", &line]).is(0);
                }
            });
        }
    });
    let lines = lines_of(&kit.log_of("demo"));
    for writer in 0..WRITERS {
        let of_writer = format!("\"writer\":{writer},");
        let numbers: Vec<&String> = lines.iter().filter(|line| line.contains(&of_writer)).collect();
        let expected: Vec<String> = (0..EACH).map(|n| format!("{{\"writer\":{writer},\"n\":{n}}}")).collect();
        assert!(numbers.into_iter().eq(&expected), "each line is there once, in order");
    }
    let listed = kit.run(&["sessions", "list", "--json"]).is(0);
    assert_eq!(listed.field("/sessions/0/events"), 1 + WRITERS * EACH);
    assert_eq!(kit.run(&["doctor", "--json"]).is(0).field("/verdict"), "ok");
    kit.run(&["log", "verify", "demo"]).is(0);
}

const EVENTS: u32 = 10_000;

#[test]
fn two_writers_never_interleave_and_each_keeps_its_order() {
    let kit = Kit::new();
    let write = |writer: &str| {
        let input = (0..EVENTS).fold(String::new(), |mut all, n| {
            let _ =
                writeln!(all, "{{\"writer\":\"{writer}\",\"n\":{n},\"padding\":\"{}\"}}", "é".repeat(n as usize % 50));
            all
        });
        kit.feed(&["log", "append", "--session", "demo", "--each"], input.as_bytes()).is(0)
    };
    let (a, b) = std::thread::scope(|scope| {
        let (a, b) = (scope.spawn(|| write("a")), scope.spawn(|| write("b")));
        (a.join().expect("done"), b.join().expect("done"))
    });
    for ran in [&a, &b] {
        let positions: Vec<u64> = ran.text().lines().map(|line| line.parse().expect("a position")).collect();
        assert_eq!(positions.len(), EVENTS as usize, "each line was acknowledged");
        assert!(positions.is_sorted());
    }
    let mut next = std::collections::BTreeMap::from([("a".to_owned(), 0), ("b".to_owned(), 0)]);
    for line in lines_of(&kit.log_of("demo")) {
        let event: serde_json::Value = serde_json::from_str(&line).expect("a complete line");
        let expected = next.get_mut(event["writer"].as_str().expect("a writer")).expect("known");
        assert_eq!(event["n"], *expected);
        *expected += 1;
    }
    assert!(next.values().all(|n| *n == EVENTS), "{next:?}");
    assert_eq!(kit.run(&["sessions", "list", "--json"]).is(0).field("/sessions/0/events"), 2 * EVENTS);
}

#[test]
fn a_backup_under_writers_is_a_home() {
    let kit = Kit::new();
    let args = ["log", "append", "--session", "busy", "--each"];
    let mut writer = kit.command(&args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    let mut pipe = writer.stdin.take().expect("a pipe");
    let mut acknowledged = BufReader::new(writer.stdout.take().expect("a pipe")).lines();
    let feeder = std::thread::spawn(move || {
        // Until the writer or the test stops.
        for n in 0_u64.. {
            if writeln!(pipe, "{{\"n\":{n}}}").is_err() {
                break;
            }
        }
    });
    // After the first acknowledgement, the writer's session is in every copy.
    acknowledged.next().expect("a line").expect("read");
    let reader = std::thread::spawn(move || acknowledged.count());
    kit.append("still", "{\"n\":1}\n");
    let mut homes = Vec::new();
    for n in 0..3 {
        let copy = format!("copy-{n}");
        kit.run(&["state", "backup", &copy]).is(0);
        homes.push(copy);
    }
    writer.kill().expect("stopped");
    writer.wait().expect("ended");
    feeder.join().expect("ended");
    assert!(reader.join().expect("ended") > 0, "it wrote while it was copied");
    for home in &homes {
        let doctor = kit.run(&["--home", home, "doctor", "--json"]).is(0);
        assert_eq!(doctor.field("/verdict"), "ok", "{}", doctor.text());
        assert_eq!(kit.run(&["--home", home, "log", "cat", "still"]).is(0).text(), "{\"n\":1}\n");
        let events = kit.run(&["--home", home, "log", "cat", "busy"]).is(0).text();
        for (n, line) in events.lines().enumerate() {
            assert_eq!(line, format!("{{\"n\":{n}}}"), "complete lines from the first one on");
        }
        kit.run(&["--home", home, "log", "append", "--session", "still", "--line", "{}"]).is(0);
    }
    kit.run(&["doctor"]).is(0);
}

#[test]
fn a_rebuild_changes_nothing() {
    let kit = Kit::new();
    for thread in ["a", "b", "c"] {
        kit.append(thread, &"{\"type\":\"user\",\"text\":\"hello\"}\n".repeat(100));
    }
    kit.run(&["sessions", "new", "--name", "empty"]).is(0);
    let listed = || kit.run(&["sessions", "list", "--json"]).is(0).text();
    let before = listed();
    assert_eq!(kit.run(&["state", "rebuild", "--json"]).is(0).field("/events"), 300);
    assert_eq!(listed(), before);
}

/// Commands end without closing the database; a later one checkpoints the write-ahead log before it grows long.
#[test]
fn many_commands_leave_a_short_write_ahead_log() {
    let kit = Kit::new();
    let wal = kit.home().join("state/state.db-wal");
    let mut longest = 0;
    let mut emptied = 0;
    for n in 0..40 {
        kit.append("short", &format!("{{\"n\":{n}}}\n"));
        let bytes = wal.metadata().expect("a write-ahead log").len();
        emptied += usize::from(bytes == 0);
        longest = longest.max(bytes);
    }
    assert!(emptied > 1 && longest < 200 * 4096, "emptied {emptied} times, {longest} bytes at most");
    assert_eq!(lines_of(&kit.log_of("short")).len(), 40);
    kit.run(&["doctor"]).is(0);
}

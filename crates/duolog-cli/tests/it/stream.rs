use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use duolog_testkit::transcripts::{self, Cut};
use rustix::process::Signal;
use serde_json::Value;

use crate::follow::Following;
use crate::kit::{Kit, Ran, Transcript};

/// A directory of logs that is not a home.
struct Root(PathBuf);

impl Root {
    fn of(kit: &Kit) -> Self {
        Self(kit.dir.path().join("root"))
    }

    fn add(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("beneath the root")).expect("a directory");
        let mut file = OpenOptions::new().append(true).create(true).open(path).expect("a file");
        file.write_all(bytes.as_ref()).expect("written");
    }

    fn changed_at(&self, path: &str, seconds: u64) {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        File::options().write(true).open(self.0.join(path)).expect("a file").set_modified(time).expect("dated");
    }
}

fn user(text: &str) -> String {
    format!("{{\"type\":\"user\",\"text\":\"{text}\"}}\n")
}

fn following(kit: &Kit, args: &[&str]) -> Following {
    Following::start(kit, &[&["log", "stream", "--json"][..], args].concat())
}

/// Returns the next object.
fn next(following: &mut Following) -> Value {
    let line = following.next();
    serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"))
}

/// Returns the source and the text of the next item.
fn item(following: &mut Following) -> (String, String) {
    let next = next(following);
    assert_eq!(next["kind"], "user", "{next}");
    (text_of(&next, "path"), text_of(&next, "text"))
}

/// Returns the source and the text of the next notice.
fn notice(following: &mut Following) -> (String, String) {
    let next = next(following);
    assert_eq!(next["kind"], "notice", "{next}");
    (text_of(&next, "path"), text_of(&next, "notice"))
}

fn text_of(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

fn pair(path: &str, what: &str) -> (String, String) {
    (path.to_owned(), what.to_owned())
}

#[test]
fn every_dialect_beneath_a_directory_is_shown_oldest_first() {
    let kit = Kit::new();
    let root = Root::of(&kit);
    let made = [
        ("projects/-srv-app/0a1b.jsonl", transcripts::claude(7, 1)),
        ("2026/05/27/rollout-7.jsonl", transcripts::codex(7, 1, false)),
        ("outputs/transcripts/debate.jsonl", transcripts::transcript(7, 1)),
        ("john_example_com/plan.jsonl", transcripts::turns(7, 2, Cut::LastTurn)),
        ("agent-sessions/s.jsonl", transcripts::envelope(7, 1)),
    ];
    for (age, (path, made)) in made.iter().enumerate() {
        root.add(path, made.text());
        root.changed_at(path, 1000 + age as u64);
    }
    root.add("plain.jsonl", user("hello") + "not json\n" + "{\"n\":1}\n{\"type\":\"assistant\",\"te");
    let before = listing(&root.0);
    let mut transcript = Transcript::default();
    for args in [
        &["log", "stream", "--logs-dir", "root", "--no-follow"][..],
        &["log", "stream", "--logs-dir", "root", "--no-follow", "--verbose", "--last", "2"],
        &["log", "stream", "--logs-dir", "root", "--no-follow", "--json", "--last", "1"],
        &["log", "stream", "--logs-dir", "root", "--no-follow", "--from", "end"],
        &["log", "stream", "--logs-dir", "root", "--last", "1", "--from", "end"],
        &["log", "stream", "--logs-dir", "nowhere", "--no-wait"],
        &["log", "stream", "--logs-dir", "nowhere", "--no-follow", "--json"],
    ] {
        let ran = Ran::of(kit.command(args).env("COLUMNS", "80").output().expect("runs"));
        let text = ran.text();
        let wide =
            text.lines().find(|line| !line.starts_with('{') && unicode_width::UnicodeWidthStr::width(*line) > 80);
        assert_eq!(wide, None);
        transcript.add(args, &ran);
    }
    kit.snapshot("stream", &transcript.0);
    assert_eq!(listing(&root.0), before, "nothing is changed");
    assert!(!kit.home().exists(), "no home is needed");
}

/// Returns every path below a directory, its bytes and its time.
fn listing(at: &Path) -> BTreeMap<PathBuf, (Vec<u8>, Option<SystemTime>)> {
    let mut found = BTreeMap::new();
    let mut left = vec![at.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).expect("a directory").flatten() {
            let metadata = entry.metadata().expect("metadata");
            if metadata.is_dir() {
                left.push(entry.path());
                found.insert(entry.path(), (Vec::new(), None));
            } else {
                let bytes = fs::read(entry.path()).expect("read");
                found.insert(entry.path(), (bytes, Some(metadata.modified().expect("a time"))));
            }
        }
    }
    found
}

#[test]
fn no_line_is_lost_doubled_or_torn_whatever_happens_to_the_files() {
    let kit = Kit::new();
    let root = Root::of(&kit);
    let euro = user("a € sign");
    // A line that is incomplete when the stream starts, cut inside a character.
    let cut = euro.find('€').expect("there") + 1;
    root.add("one.jsonl", user("first"));
    root.add("one.jsonl", &euro.as_bytes()[..cut]);
    let mut stream = following(&kit, &["--logs-dir", "root"]);
    assert_eq!(item(&mut stream), pair("one.jsonl", "first"));
    root.add("one.jsonl", &euro.as_bytes()[cut..=cut]);
    root.add("new/folder/two.jsonl", user("in a new folder"));
    assert_eq!(item(&mut stream), pair("new/folder/two.jsonl", "in a new folder"), "the half line is not shown");
    root.add("one.jsonl", &euro.as_bytes()[cut + 1..]);
    // The first item of a turn ends the previous turn.
    assert_eq!(next(&mut stream)["kind"], "turn_end");
    assert_eq!(item(&mut stream), pair("one.jsonl", "a € sign"));
    // Truncated at a line, then continued.
    let first = user("first").len() as u64;
    OpenOptions::new().write(true).open(root.0.join("one.jsonl")).expect("a file").set_len(first).expect("cut");
    assert_eq!(notice(&mut stream), pair("one.jsonl", "reset"));
    root.add("one.jsonl", user("after the cut"));
    assert_eq!(item(&mut stream), pair("one.jsonl", "after the cut"));
    // Replaced by another file.
    root.add("aside", user("replaced") + &"x".repeat(300) + "\n" + &user("behind"));
    fs::rename(root.0.join("aside"), root.0.join("one.jsonl")).expect("replaced");
    let reset = next(&mut stream);
    assert_eq!((text_of(&reset, "notice"), &reset["position"]), ("reset".to_owned(), &Value::from(0)));
    assert_eq!(item(&mut stream), pair("one.jsonl", "replaced"));
    let odd = next(&mut stream);
    assert_eq!((text_of(&odd, "kind"), text_of(&odd, "subtype")), ("note".to_owned(), "unreadable".to_owned()));
    assert_eq!(next(&mut stream)["kind"], "turn_end");
    assert_eq!(item(&mut stream), pair("one.jsonl", "behind"));
    fs::remove_dir_all(root.0.join("new")).expect("removed");
    assert_eq!(notice(&mut stream), pair("new/folder/two.jsonl", "gone"));
    stream.signal(Signal::INT);
    let ran = stream.end().is(0);
    assert_eq!((ran.text(), ran.stderr), (String::new(), String::new()));
}

#[test]
fn skipped_parts_are_reported_on_stderr() {
    let kit = Kit::new();
    let root = Root::of(&kit);
    root.add("one.jsonl", user("first") + &user("second"));
    std::os::unix::fs::symlink("one.jsonl", root.0.join("link.jsonl")).expect("a link");
    let mut stream = Following::start(&kit, &["log", "stream", "--logs-dir", "root"]);
    while stream.next() != "  second" {}
    File::options().write(true).open(root.0.join("one.jsonl")).expect("a file").set_len(0).expect("cut");
    root.add("one.jsonl", user("third"));
    while stream.next() != "  third" {}
    stream.signal(Signal::INT);
    stream.end().is(0).says("link.jsonl: not shown: it is a symbolic link").says("one.jsonl: reset:");
}

#[test]
fn a_missing_directory_is_waited_for() {
    let kit = Kit::new();
    let root = Root::of(&kit);
    let mut stream = following(&kit, &["--logs-dir", "root"]);
    assert_eq!(notice(&mut stream), pair("", "missing"));
    root.add("a/one.jsonl", user("at last"));
    assert_eq!(item(&mut stream), pair("a/one.jsonl", "at last"));
    stream.signal(Signal::INT);
    stream.end().is(0);
    let mut people = Following::start(&kit, &["log", "stream", "--logs-dir", "later"]);
    fs::create_dir(kit.dir.path().join("later")).expect("made");
    fs::write(kit.dir.path().join("later/one.jsonl"), user("hello")).expect("written");
    while people.next() != "  hello" {}
    people.signal(Signal::INT);
    people.end().is(0);
    kit.run(&["log", "stream", "--logs-dir", "never", "--no-wait"]).is(1).says("there is no directory");
    assert!(!kit.home().exists());
}

#[test]
fn a_home_is_shown_by_the_names_of_its_sessions_from_before_it_is_there() {
    let kit = Kit::new();
    kit.run(&["log", "stream", "--no-follow"]).is(1).says("or create the home: duolog --home");
    let mut stream = following(&kit, &[]);
    kit.append("plan", &user("what is the plan?"));
    let mut first = next(&mut stream);
    if first["notice"] == "missing" {
        // It was created between the home and its first log.
        first = next(&mut stream);
    }
    assert_eq!([text_of(&first, "session_name"), text_of(&first, "text")], ["plan", "what is the plan?"]);
    let id = kit.run(&["sessions", "show", "plan", "--json"]).is(0).field("/session/id");
    assert_eq!(first["session_id"], id);
    kit.run(&["sessions", "rename", "plan", "route"]).is(0);
    kit.append("route", "{\"type\":\"assistant\",\"text\":\"this one\"}\n");
    let next_one = next(&mut stream);
    assert_eq!([text_of(&next_one, "session_name"), text_of(&next_one, "text")], ["route", "this one"], "{next_one}");
    let given = ["log", "append", "--user-email", "ada@example.com", "--session-name", "plan"];
    kit.feed(&given, user("of a user").as_bytes()).is(0);
    assert_eq!(item(&mut stream).1, "of a user");
    kit.run(&["sessions", "delete", "route", "--yes"]).is(0);
    assert_eq!(notice(&mut stream), pair("threads/plan.jsonl", "gone"));
    stream.signal(Signal::INT);
    stream.end().is(0);
    let text = kit.run(&["log", "stream", "--no-follow"]).is(0).text();
    assert!(text.starts_with("━━ plan · ada@example.com ━━\n"), "{text}");
    kit.run(&["doctor"]).is(0);
}

#[test]
fn an_empty_home_has_nothing_to_show() {
    let kit = Kit::new();
    kit.run(&["sessions", "new", "--name", "empty"]).is(0);
    let ran = kit.run(&["log", "stream", "--no-follow"]).is(0).says("no sessions yet");
    assert_eq!(ran.text(), "");
    kit.run(&["log", "stream", "--no-wait"]).is(1).says("there is no directory");
}

#[test]
fn shortened_text_is_fetched_in_a_home() {
    let kit = Kit::new();
    let whole = (0..9000).fold(String::new(), |whole, n| whole + &format!("case {n} ok\\n"));
    let event = format!("{{\"type\":\"tool_execution_end\",\"toolCallId\":\"d0\",\"result\":\"{whole}\"}}\n");
    kit.feed(&["log", "record", "--session", "demo", "--prompt", "p"], event.as_bytes()).is(0);
    let args = ["log", "stream", "--no-follow", "--verbose", "--full"];
    assert!(kit.run(&args).is(0).text().contains("case 8999 ok"));
    assert!(!kit.run(&args[..4]).is(0).text().contains("case 8999 ok"));
    fs::remove_dir_all(kit.home().join("state/blobs")).expect("removed");
    kit.run(&args).is(4).says("1 whole text missing or damaged");
}

#[test]
fn a_stream_ends_when_its_pipe_is_closed() {
    let kit = Kit::new();
    let root = Root::of(&kit);
    root.add("one.jsonl", user("first"));
    for args in [&["--logs-dir", "root"][..], &["--logs-dir", "nowhere"]] {
        let mut stream = following(&kit, args);
        stream.next();
        let Following { child, lines } = stream;
        drop(lines);
        let ran = Ran::of(child.wait_with_output().expect("ended")).is(0);
        assert_eq!(ran.stderr, "", "{args:?}");
    }
}

#[test]
fn ten_thousand_files_need_few_descriptors_and_little_memory() {
    const FILES: usize = 10_000;
    let kit = Kit::new();
    let root = Root::of(&kit);
    for number in 0..FILES {
        let call = format!("{{\"type\":\"tool_use\",\"id\":\"{number}\",\"name\":\"bash\",\"input\":{{}}}}\n");
        root.add(&format!("d{}/{number}.jsonl", number % 50), user(&number.to_string()) + &call);
    }
    let mut stream = following(&kit, &["--logs-dir", "root"]);
    let mut seen = vec![0; FILES];
    for _ in 0..FILES {
        let (path, text) = item(&mut stream);
        assert!(path.ends_with(&format!("/{text}.jsonl")), "{path}");
        seen[text.parse::<usize>().expect("a number")] += 1;
    }
    assert!(seen.iter().all(|count| *count == 1));
    root.add("d7/7.jsonl", user("more"));
    assert_eq!(item(&mut stream), pair("d7/7.jsonl", "more"), "a closed file is read from its last position");
    let proc = PathBuf::from(format!("/proc/{}", stream.child.id()));
    let open = fs::read_dir(proc.join("fd")).expect("descriptors").flatten();
    let logs = open.filter_map(|entry| fs::read_link(entry.path()).ok()).filter(|link| link.starts_with(&root.0));
    assert!((1..=65).contains(&logs.count()), "the open files, and the root");
    let status = fs::read_to_string(proc.join("status")).expect("a status");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let kib: u64 = peak.trim().split(' ').next().expect("a figure").parse().expect("a number");
    assert!(kib < 64 << 10, "{kib} KiB");
    stream.signal(Signal::INT);
    stream.end().is(0);
}

const WRITERS: [&str; 4] = ["a", "b", "c", "d"];
const EACH: usize = 25_000;

/// Four processes append batches of many sizes, two to each session.
fn write_all(kit: &Kit) {
    std::thread::scope(|scope| {
        for writer in WRITERS {
            scope.spawn(move || {
                let mut text = String::new();
                for n in 0..EACH {
                    let _ = writeln!(text, "{{\"who\":\"{writer}\",\"n\":{n},\"x\":\"{}\"}}", "é".repeat(n % 30));
                }
                let session = if writer < "c" { "one" } else { "two" };
                let args = ["log", "append", "--session", session, "--each", "--quiet"];
                kit.feed(&args, text.as_bytes()).is(0);
            });
        }
    });
}

/// Reads lines until all were seen, each once, complete and in the order of its writer.
fn count(lines: impl Iterator<Item = String>, writers: &[&str]) {
    let mut next: BTreeMap<&str, usize> = writers.iter().map(|writer| (*writer, 0)).collect();
    for line in lines.take(writers.len() * EACH) {
        let event: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"));
        let (_, expected) = next.iter_mut().find(|(who, _)| event["who"] == **who).expect("one of them");
        assert_eq!(event["n"], *expected);
        assert_eq!(event["x"].as_str().expect("text").chars().count(), *expected % 30);
        *expected += 1;
    }
    assert!(next.values().all(|count| *count == EACH), "{next:?}");
}

#[test]
fn a_hundred_thousand_lines_of_four_writers_come_once_and_in_order() {
    let kit = Kit::new();
    for session in ["one", "two"] {
        kit.run(&["sessions", "new", "--name", session]).is(0);
    }
    let mut stream = following(&kit, &["--verbose"]);
    assert_eq!(notice(&mut stream), pair("", "missing"), "there is no log yet");
    let mut tail = Following::start(&kit, &["log", "tail", "one", "--from", "0", "-f"]);
    std::thread::scope(|scope| {
        scope.spawn(|| write_all(&kit));
        scope.spawn(|| count(tail.lines.by_ref().lines().map(|line| line.expect("read")), &WRITERS[..2]));
        let text = |line: std::io::Result<String>| {
            let item: Value = serde_json::from_str(&line.expect("read")).expect("an object");
            assert_eq!(item["kind"], "note", "{item}");
            text_of(&item, "text")
        };
        count(stream.lines.by_ref().lines().map(text), &WRITERS);
    });
    for following in [stream, tail] {
        following.signal(Signal::INT);
        let ran = following.end().is(0);
        assert_eq!(ran.text(), "", "nothing twice");
    }
}

#[test]
fn a_second_ctrl_c_ends_a_stream_whose_reader_does_not_read() {
    let kit = Kit::new();
    let root = Root::of(&kit);
    root.add("one.jsonl", user(&"x".repeat(1 << 20)));
    let mut child =
        kit.command(&["log", "stream", "--logs-dir", "root"]).stdout(Stdio::piped()).spawn().expect("starts");
    let mut stdout = child.stdout.take().expect("a pipe");
    // It is in the middle of a line that does not fit the pipe.
    stdout.read_exact(&mut [0; 64]).expect("some of it");
    let pid = rustix::process::Pid::from_child(&child);
    while child.try_wait().expect("waits").is_none() {
        // Sent until it ends: the system merges two pending signals.
        rustix::process::kill_process(pid, Signal::INT).expect("signalled");
        std::thread::yield_now();
    }
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&child.wait().expect("ended")), Some(2));
    drop(stdout);
}

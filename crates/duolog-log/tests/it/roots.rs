use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use duolog_log::{
    Disk, Files, Hints, Item, Lock, Open, Pace, Place, Progress, ResetReason, RootEvent, RootFollower, RootOptions,
    Skip, Start, Watermark, Writer, Writers,
};
use duolog_types::limits::Limits;
use proptest::prelude::*;
use tempfile::TempDir;

use crate::kit::{PROCESS, batch};

/// With these pauses only a hint ends a wait.
const NEVER: Duration = Duration::from_hours(1);
const BY_HINTS: Pace = Pace { min: NEVER, max: NEVER, with_hints: NEVER };
/// With these pauses every wait is short.
const BY_SWEEPS: Pace =
    Pace { min: Duration::ZERO, max: Duration::from_millis(1), with_hints: Duration::from_millis(1) };

/// A root event in a form that can be kept and compared.
#[derive(Debug, PartialEq, Eq)]
enum OwnedEvent {
    Line(String, String),
    TooLong(String),
    Reset(String, u64, ResetReason),
    Gone(String),
    Missing,
    Skipped(String, &'static str),
}

fn line(path: &str, text: &str) -> OwnedEvent {
    OwnedEvent::Line(path.into(), text.into())
}

fn to_owned_event(event: &RootEvent<'_>) -> OwnedEvent {
    let text = |path: &Path| path.to_str().expect("text").to_owned();
    match event {
        RootEvent::Item { path, item: Item::Line(line) } => {
            OwnedEvent::Line(text(path), String::from_utf8(line.bytes.to_vec()).expect("complete characters"))
        }
        RootEvent::Item { path, item: Item::TooLong { .. } } => OwnedEvent::TooLong(text(path)),
        RootEvent::Reset { path, to, why } => OwnedEvent::Reset(text(path), to.0, *why),
        RootEvent::Gone { path } => OwnedEvent::Gone(text(path)),
        RootEvent::Missing => OwnedEvent::Missing,
        RootEvent::Skipped { path, why } => OwnedEvent::Skipped(
            text(path),
            match why {
                Skip::Unreadable(_) => "unreadable",
                Skip::NotAFile => "not a file",
                Skip::Cold => "cold",
                Skip::TooMany => "too many",
                Skip::TooDeep => "too deep",
            },
        ),
    }
}

/// A root and its follower.
struct Root {
    at: PathBuf,
    follower: RootFollower,
    _temp: Option<TempDir>,
}

impl Root {
    fn over(temp: TempDir, hints: &Hints, options: RootOptions) -> Self {
        let at = temp.path().to_owned();
        Self { follower: RootFollower::new(&at, hints, options).unwrap(), at, _temp: Some(temp) }
    }

    /// Creates a root that is swept at every poll, so that no test waits for a hint.
    fn swept(temp: TempDir, options: RootOptions) -> Self {
        Self::over(temp, &Hints::none(), RootOptions { pace: BY_SWEEPS, ..options })
    }

    fn add(&self, path: &str, bytes: impl AsRef<[u8]>) {
        add(&self.at, path, bytes.as_ref());
    }

    /// Sweeps the whole tree until there are no more events.
    fn drain(&mut self) -> Vec<OwnedEvent> {
        let mut events = Vec::new();
        loop {
            self.follower.look_again();
            let progress = self.follower.poll(&mut |event| events.push(to_owned_event(&event))).expect("polls");
            if progress != Progress::Delivered {
                return events;
            }
        }
    }

    /// Polls and waits until there are `count` events.
    fn until(&mut self, count: usize) -> Vec<OwnedEvent> {
        let mut events = Vec::new();
        while events.len() < count {
            if self.follower.poll(&mut |event| events.push(to_owned_event(&event))).expect("polls")
                != Progress::Delivered
            {
                self.follower.wait(NEVER);
            }
        }
        events
    }
}

fn temp() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

fn add(root: &Path, path: &str, bytes: &[u8]) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("beneath the root")).expect("a directory");
    OpenOptions::new().append(true).create(true).open(path).expect("a file").write_all(bytes).expect("written");
}

fn changed_at(root: &Path, path: &str, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    File::options().write(true).open(root.join(path)).unwrap().set_modified(time).unwrap();
}

#[test]
fn existing_files_come_oldest_first_and_then_new_lines() {
    let temp = temp();
    for (path, seconds) in [("b.jsonl", 30), ("a/z.jsonl", 10), ("a/b/c.jsonl", 20), ("c.jsonl", 20)] {
        add(temp.path(), path, format!("{{\"at\":{seconds}}}\n").as_bytes());
        changed_at(temp.path(), path, seconds);
    }
    let mut root = Root::swept(temp, RootOptions::default());
    let oldest_first = ["a/z.jsonl", "a/b/c.jsonl", "c.jsonl", "b.jsonl"];
    let expected: Vec<_> =
        oldest_first.iter().zip([10, 20, 20, 30]).map(|(path, at)| line(path, &format!("{{\"at\":{at}}}"))).collect();
    assert_eq!(root.drain(), expected);
    root.add("c.jsonl", "{\"n\":1}\n{\"n\":2}\n");
    root.add("new/one.jsonl", "{\"n\":3}\n");
    let events = root.drain();
    let of = |path: &str| {
        events.iter().filter(|event| matches!(event, OwnedEvent::Line(at, _) if at == path)).collect::<Vec<_>>()
    };
    assert_eq!(of("c.jsonl"), [&line("c.jsonl", "{\"n\":1}"), &line("c.jsonl", "{\"n\":2}")]);
    assert_eq!(of("new/one.jsonl"), [&line("new/one.jsonl", "{\"n\":3}")]);
    assert_eq!((events.len(), root.follower.file_count()), (3, 5));
}

/// No interval helps here: a new file in nested new directories causes a hint.
#[test]
fn new_files_in_new_directories_cause_hints() {
    let mut root = Root::over(temp(), &Hints::new(), RootOptions { pace: BY_HINTS, ..RootOptions::default() });
    assert_eq!(root.follower.poll(&mut |_| panic!("nothing is there")).unwrap(), Progress::Idle);
    root.add("a/b/c/one.jsonl", "{\"n\":1}\n");
    assert_eq!(root.until(1), [line("a/b/c/one.jsonl", "{\"n\":1}")]);
    root.add("a/b/c/one.jsonl", "{\"n\":2}\n");
    assert_eq!(root.until(1), [line("a/b/c/one.jsonl", "{\"n\":2}")]);
    fs::remove_dir_all(root.at.join("a")).unwrap();
    assert_eq!(root.until(1), [OwnedEvent::Gone("a/b/c/one.jsonl".into())]);
    // The same names again: other directories, other watches.
    root.add("a/b/c/one.jsonl", "{\"n\":3}\n");
    assert_eq!(root.until(1), [line("a/b/c/one.jsonl", "{\"n\":3}")]);
    fs::rename(root.at.join("a/b"), root.at.join("b")).unwrap();
    assert_eq!(root.until(2), [OwnedEvent::Gone("a/b/c/one.jsonl".into()), line("b/c/one.jsonl", "{\"n\":3}")]);
    root.add("b/c/one.jsonl", "{\"n\":4}\n");
    assert_eq!(root.until(1), [line("b/c/one.jsonl", "{\"n\":4}")]);
}

/// Polls are counted: without a change there is no wake-up.
#[test]
fn only_changes_wake_a_follower_of_a_root() {
    let mut root = Root::over(temp(), &Hints::new(), RootOptions { pace: BY_HINTS, ..RootOptions::default() });
    root.add("one.jsonl", "");
    let (at, count) = (root.at.clone(), 200);
    let (ready, go) = std::sync::mpsc::channel();
    let writer = std::thread::spawn(move || {
        for number in 0..count {
            go.recv().expect("a reader");
            add(&at, "one.jsonl", format!("{{\"n\":{number}}}\n").as_bytes());
        }
    });
    let (mut polls, mut lines) = (0, 0);
    root.follower.poll(&mut |_| panic!("nothing is there")).unwrap();
    for expected in 1..=count {
        ready.send(()).unwrap();
        while lines < expected {
            polls += 1;
            if root.follower.poll(&mut |_| lines += 1).unwrap() == Progress::Idle {
                root.follower.wait(NEVER);
            }
        }
    }
    writer.join().unwrap();
    assert!(polls <= 4 * count + 4, "{polls} polls for {count} changes");
}

#[test]
fn a_partial_line_is_delivered_when_it_is_complete() {
    for start in [Start::All, Start::Last(1), Start::New] {
        let temp = temp();
        add(temp.path(), "one.jsonl", "{\"n\":1}\n{\"n\":2}\n{\"text\":\"h\u{e9}".as_bytes());
        let mut root = Root::swept(temp, RootOptions { start, ..RootOptions::default() });
        let lines = [line("one.jsonl", "{\"n\":1}"), line("one.jsonl", "{\"n\":2}")];
        let skipped = match start {
            Start::All => 0,
            Start::Last(_) => 1,
            Start::New => 2,
        };
        assert_eq!(root.drain(), lines[skipped..], "{start:?}");
        assert_eq!(root.drain(), []);
        // The euro sign arrives byte by byte.
        for byte in "\u{20ac}".bytes() {
            root.add("one.jsonl", [byte]);
            assert_eq!(root.drain(), []);
        }
        root.add("one.jsonl", "\"}\n{");
        assert_eq!(root.drain(), [line("one.jsonl", "{\"text\":\"h\u{e9}\u{20ac}\"}")], "{start:?}");
        // A later file is delivered from its beginning, independent of the start option.
        root.add("two.jsonl", "{\"n\":1}\n");
        assert_eq!(root.drain(), [line("two.jsonl", "{\"n\":1}")]);
    }
}

#[test]
fn a_truncated_replaced_or_deleted_file_is_reported_and_still_followed() {
    let temp = temp();
    add(temp.path(), "one.jsonl", b"{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n");
    let mut root = Root::swept(temp, RootOptions::default());
    root.drain();
    let path = root.at.join("one.jsonl");
    let one = || "one.jsonl".to_owned();

    File::options().write(true).open(&path).unwrap().set_len(8).unwrap();
    assert_eq!(root.drain(), [OwnedEvent::Reset(one(), 8, ResetReason::Shorter)], "the first line is unchanged");
    root.add("one.jsonl", "{\"n\":4}\n");
    assert_eq!(root.drain(), [line("one.jsonl", "{\"n\":4}")]);

    let other = root.at.join("other");
    fs::write(&other, "{\"o\":1}\n{\"o\":2}\n").unwrap();
    fs::rename(&other, &path).unwrap();
    let expected = [
        OwnedEvent::Reset(one(), 0, ResetReason::Replaced),
        line("one.jsonl", "{\"o\":1}"),
        line("one.jsonl", "{\"o\":2}"),
    ];
    assert_eq!(root.drain(), expected);

    // The same bytes in another file, and one more line.
    fs::write(&other, "{\"o\":1}\n{\"o\":2}\n{\"o\":3}\n").unwrap();
    fs::rename(&other, &path).unwrap();
    assert_eq!(root.drain(), [line("one.jsonl", "{\"o\":3}")]);

    // Rewritten in place, and longer than before.
    fs::write(&path, "{\"o\":1}\n{\"p\":2}\n{\"p\":3}\n{\"p\":4}\n").unwrap();
    let mut expected = vec![OwnedEvent::Reset(one(), 8, ResetReason::Replaced)];
    expected.extend((2..5).map(|n| line("one.jsonl", &format!("{{\"p\":{n}}}"))));
    assert_eq!(root.drain(), expected);

    fs::remove_file(&path).unwrap();
    assert_eq!(root.drain(), [OwnedEvent::Gone(one())]);
    root.add("one.jsonl", "{\"q\":1}\n");
    assert_eq!(root.drain(), [line("one.jsonl", "{\"q\":1}")]);
}

#[test]
fn a_follower_waits_for_a_missing_root() {
    let temp = temp();
    let at = temp.path().join("not/yet");
    for hints in [Hints::new(), Hints::none()] {
        let options = RootOptions { start: Start::New, pace: BY_SWEEPS, ..RootOptions::default() };
        let follower = RootFollower::new(&at, &hints, options).unwrap();
        let mut root = Root { at: at.clone(), follower, _temp: None };
        assert_eq!(root.drain(), [OwnedEvent::Missing]);
        assert_eq!(root.drain(), [], "it is reported once");
        assert_eq!(root.follower.poll(&mut |_| ()).unwrap(), Progress::Missing);
        root.add("a/one.jsonl", "{\"n\":1}\n");
        assert_eq!(root.until(1), [line("a/one.jsonl", "{\"n\":1}")], "it was not there before");
        fs::remove_dir_all(&at).unwrap();
        assert_eq!(root.until(2), [OwnedEvent::Gone("a/one.jsonl".into()), OwnedEvent::Missing]);
        root.add("a/one.jsonl", "{\"n\":2}\n");
        assert_eq!(root.until(1), [line("a/one.jsonl", "{\"n\":2}")]);
        // Another directory under the same name.
        fs::rename(&at, temp.path().join("moved")).unwrap();
        root.add("a/one.jsonl", "{\"n\":3}\n");
        let events = root.until(2);
        let last_two = [OwnedEvent::Gone("a/one.jsonl".into()), line("a/one.jsonl", "{\"n\":3}")];
        assert!(
            events == last_two || events[..2] == [OwnedEvent::Gone("a/one.jsonl".into()), OwnedEvent::Missing],
            "{events:?}"
        );
        fs::remove_dir_all(temp.path().join("moved")).unwrap();
        fs::remove_dir_all(&at).unwrap();
    }
}

#[test]
fn other_files_are_skipped_and_reported_once() {
    let outside = temp();
    add(outside.path(), "secret.jsonl", b"{\"secret\":1}\n");
    let temp = temp();
    let at = temp.path();
    add(at, "one.jsonl", b"{\"n\":1}\n");
    for name in ["one.jsonl.torn", "one.jsonl.tmp", "notes.txt", "jsonl", "dir.jsonl/readme"] {
        add(at, name, b"{\"not\":1}\n");
    }
    add(at, "old.jsonl.zst", b"\x28\xb5\x2f\xfd");
    symlink(outside.path().join("secret.jsonl"), at.join("link.jsonl")).unwrap();
    symlink(outside.path(), at.join("linked")).unwrap();
    symlink(at, at.join("loop")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        at.join("pipe.jsonl"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let mut root = Root::swept(temp, RootOptions::default());
    let mut events = root.drain();
    events.sort_by_key(|event| format!("{event:?}"));
    let skipped = |path: &str, why| OwnedEvent::Skipped(path.into(), why);
    assert_eq!(
        events,
        [
            line("one.jsonl", "{\"n\":1}"),
            skipped("link.jsonl", "not a file"),
            skipped("old.jsonl.zst", "cold"),
            skipped("pipe.jsonl", "not a file"),
        ]
    );
    assert_eq!(root.drain(), []);
    // A directory that becomes a link loses its files, and the target of the link is not shown.
    root.add("dir/secret.jsonl", "{\"n\":2}\n");
    assert_eq!(root.drain(), [line("dir/secret.jsonl", "{\"n\":2}")]);
    fs::remove_dir_all(root.at.join("dir")).unwrap();
    symlink(outside.path(), root.at.join("dir")).unwrap();
    assert_eq!(root.drain(), [OwnedEvent::Gone("dir/secret.jsonl".into())]);
}

#[test]
fn files_lines_and_depth_are_limited() {
    let temp = temp();
    let deep = format!("{}one.jsonl", "d/".repeat(70));
    add(temp.path(), &deep, b"{\"n\":1}\n");
    for name in ["a.jsonl", "b.jsonl"] {
        add(temp.path(), name, format!("{{\"long\":\"{}\"}}\n{{\"n\":1}}\n", "x".repeat(100)).as_bytes());
    }
    let mut root = Root::swept(temp, RootOptions { files_max: 1, line_bytes_max: 50, ..RootOptions::default() });
    let events = root.drain();
    let is = |wanted: &dyn Fn(&OwnedEvent) -> bool| events.iter().filter(|event| wanted(event)).count();
    assert_eq!(is(&|event| matches!(event, OwnedEvent::Skipped(_, "too many"))), 1, "{events:?}");
    assert_eq!(is(&|event| matches!(event, OwnedEvent::Skipped(_, "too deep"))), 1, "{events:?}");
    assert_eq!(is(&|event| matches!(event, OwnedEvent::TooLong(_))), 1, "{events:?}");
    assert_eq!(is(&|event| matches!(event, OwnedEvent::Line(_, text) if text == "{\"n\":1}")), 1, "{events:?}");
}

/// Counts the descriptors of this process beneath a directory.
fn descriptors_beneath(root: &Path) -> usize {
    let links = fs::read_dir("/proc/self/fd").unwrap().flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    links.filter(|link| link.starts_with(root)).count()
}

#[test]
fn ten_thousand_files_need_few_descriptors() {
    const FILES: usize = 10_000;
    let temp = temp();
    for number in 0..FILES {
        add(temp.path(), &format!("d{}/{number}.jsonl", number % 50), format!("{{\"n\":{number}}}\n").as_bytes());
    }
    let options = RootOptions { open_files_max: 16, pace: BY_HINTS, ..RootOptions::default() };
    let mut root = Root::over(temp, &Hints::new(), options);
    let (mut lines, mut most) = (vec![0; FILES], 0);
    let at = root.at.clone();
    while root
        .follower
        .poll(&mut |event| {
            let OwnedEvent::Line(_, text) = to_owned_event(&event) else { panic!("{event:?}") };
            lines[text[5..text.len() - 1].parse::<usize>().unwrap()] += 1;
        })
        .unwrap()
        == Progress::Delivered
    {
        most = most.max(descriptors_beneath(&at));
    }
    assert!(lines.iter().all(|count| *count == 1));
    // The open files, and the root.
    assert!((2..=16 + 1).contains(&most), "{most} descriptors");
    root.add("d7/7.jsonl", "{\"more\":1}\n");
    assert_eq!(root.until(1), [line("d7/7.jsonl", "{\"more\":1}")]);
    assert_eq!(root.follower.file_count(), FILES);
}

#[test]
fn a_writer_that_holds_its_lock_delays_only_its_own_file() {
    let temp = temp();
    let disk: Arc<dyn Disk> = Arc::new(Files::beneath(temp.path()).unwrap());
    add(temp.path(), "held.jsonl", b"{\"n\":1}\n");
    add(temp.path(), "free.jsonl", b"{\"n\":2}\n");
    let file = disk.open("held.jsonl".as_ref(), Open::Append).unwrap();
    assert!(file.try_lock(Lock::Exclusive).unwrap());
    file.append(b"{\"taken\":\"back\"}\n").unwrap();
    let writers = Writers::Ours { timeout: Duration::ZERO };
    let mut root = Root::swept(temp, RootOptions { writers, ..RootOptions::default() });
    assert_eq!(root.drain(), [line("free.jsonl", "{\"n\":2}")]);
    file.set_len(8).unwrap();
    file.append(b"{\"n\":3}\n").unwrap();
    file.unlock().unwrap();
    assert_eq!(root.drain(), [line("held.jsonl", "{\"n\":1}"), line("held.jsonl", "{\"n\":3}")]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// The same lines are delivered for every split of the writes and every time of polling.
    #[test]
    fn splits_of_writes_change_nothing(
        texts in prop::collection::vec("[a-z\u{e9}\u{20ac}\u{1f600}\u{2028}]{0,40}", 1..20),
        cuts in prop::collection::vec((0..2_usize, 1..30_usize, any::<bool>()), 1..200),
    ) {
        let text = texts.join("\n") + "\n";
        let mut root = Root::swept(temp(), RootOptions::default());
        let names = ["a/one.jsonl", "two.jsonl"];
        let mut written = [0, 0];
        let mut events = Vec::new();
        for (which, len, look) in cuts {
            let end = (written[which] + len).min(text.len());
            root.add(names[which], &text.as_bytes()[written[which]..end]);
            written[which] = end;
            if look {
                events.extend(root.drain());
            }
        }
        events.extend(root.drain());
        for (name, written) in names.iter().zip(written) {
            let expected: Vec<_> = text.as_bytes()[..written]
                .split_inclusive(|byte| *byte == b'\n')
                .filter(|text| text.ends_with(b"\n"))
                .map(|text| line(name, std::str::from_utf8(&text[..text.len() - 1]).unwrap()))
                .collect();
            let delivered: Vec<_> = events.iter().filter(|event| matches!(event, OwnedEvent::Line(at, _) if at == name)).collect();
            prop_assert_eq!(delivered, expected.iter().collect::<Vec<_>>());
        }
    }
}

const ROLE: &str = "DUOLOG_TEST_ROOTS_ROLE";
const ROOT: &str = "DUOLOG_TEST_ROOTS_ROOT";
const EACH: usize = 25_000;

/// A child process that is killed at the end of the test.
struct ChildProcess(Child);

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn child(program: &Path, role: &str, root: &Path, change: impl FnOnce(&mut Command)) -> ChildProcess {
    let mut command = Command::new(program);
    command.args(["--exact", "roots::a_child_process_runs_its_role", "--nocapture"]);
    command.env(ROLE, role).env(ROOT, root).stdin(Stdio::piped()).stdout(Stdio::piped());
    change(&mut command);
    ChildProcess(command.spawn().expect("starts"))
}

/// The child process of the tests below; without a role it does nothing.
#[test]
fn a_child_process_runs_its_role() {
    let (Ok(role), Ok(root)) = (std::env::var(ROLE), std::env::var(ROOT)) else { return };
    let root = Path::new(&root);
    if role == "read" {
        let mut follower = RootFollower::new(root, &Hints::none(), RootOptions::default()).unwrap();
        println!();
        while follower.poll(&mut |event| println!("{:?}", to_owned_event(&event))).unwrap() == Progress::Delivered {}
        return;
    }
    println!("\nready");
    std::io::stdin().lines().next();
    match role.strip_prefix("ours ") {
        Some(who) => append_with_writer(root, who.parse().unwrap()),
        None => append_like_another_program(root, &role),
    }
}

fn event(who: &str, number: usize) -> String {
    format!("{{\"who\":\"{who}\",\"n\":{number},\"x\":\"{}\"}}\n", "é".repeat(number % 30))
}

/// Appends through Duolog's writer: two processes share a log.
fn append_with_writer(root: &Path, who: usize) {
    let disk: Arc<dyn Disk> = Arc::new(Files::beneath(root).unwrap());
    let place = Place::file(format!("shared/{}.jsonl", who % 2));
    let limits = Limits { busy_timeout: Duration::from_mins(1), ..Limits::default() };
    let log = Writer::open(&disk, &place, &Watermark::default(), &limits).unwrap().0;
    for number in 0..EACH {
        log.append(&batch(event(&who.to_string(), number)), &PROCESS).unwrap();
    }
}

/// Appends with plain writes, without a lock, split at any byte.
fn append_like_another_program(root: &Path, who: &str) {
    fs::create_dir_all(root.join("others").join(who)).unwrap();
    let path = root.join("others").join(who).join("log.jsonl");
    let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
    let mut rest = Vec::new();
    for number in 0..EACH {
        rest.extend_from_slice(event(who, number).as_bytes());
        let take = rest.len() * (number % 7) / 7;
        file.write_all(&rest[..take]).unwrap();
        rest.drain(..take);
    }
    file.write_all(&rest).unwrap();
}

/// Follows the logs of four processes, and checks that each line is delivered once, complete and in order.
fn follow_four(roles: [&str; 4], names: [&str; 4], options: RootOptions) {
    let temp = temp();
    fs::create_dir_all(temp.path().join("shared")).unwrap();
    let exe = std::env::current_exe().expect("this test");
    let mut children: Vec<ChildProcess> = roles.iter().map(|role| child(&exe, role, temp.path(), |_| ())).collect();
    for child in &mut children {
        let mut lines = BufReader::new(child.0.stdout.as_mut().expect("piped")).lines();
        assert!(lines.any(|line| line.expect("text") == "ready"), "the child ended early");
    }
    let mut follower = RootFollower::new(temp.path(), &Hints::new(), options).unwrap();
    for child in &mut children {
        child.0.stdin.take().expect("piped").write_all(b"go\n").unwrap();
    }
    let mut next: BTreeMap<String, usize> = names.iter().map(|name| ((*name).to_owned(), 0)).collect();
    let mut left = roles.len() * EACH;
    while left > 0 {
        let progress = follower.poll(&mut |event| {
            let OwnedEvent::Line(path, text) = to_owned_event(&event) else { panic!("{event:?}") };
            let value: serde_json::Value = serde_json::from_str(&text).expect("a complete line");
            let who = value["who"].as_str().expect("a writer");
            let expected = next.get_mut(who).expect("one of them");
            assert_eq!(value["n"], *expected, "{who} in {path}");
            assert_eq!(value["x"].as_str().unwrap().chars().count(), *expected % 30);
            *expected += 1;
            left -= 1;
        });
        if progress.expect("polls") != Progress::Delivered {
            follower.wait(NEVER);
        }
    }
    assert!(next.values().all(|count| *count == EACH), "{next:?}");
    for child in &mut children {
        assert!(child.0.wait().unwrap().success());
    }
    assert_eq!(follower.poll(&mut |event| panic!("{event:?}")).unwrap(), Progress::Idle, "no event twice");
}

#[test]
fn lines_of_four_duolog_writers_are_delivered_once_and_in_order() {
    let writers = Writers::Ours { timeout: Duration::from_millis(1) };
    follow_four(
        ["ours 0", "ours 1", "ours 2", "ours 3"],
        ["0", "1", "2", "3"],
        RootOptions { writers, ..RootOptions::default() },
    );
}

#[test]
fn lines_of_four_other_programs_are_delivered_once_and_in_order() {
    let names = ["a", "b", "c", "d"];
    follow_four(names, names, RootOptions::default());
}

/// Root may read every file, so a test that runs as root reads in an unprivileged child process.
#[test]
fn unreadable_paths_are_reported_once_and_hide_nothing_else() {
    let outer = temp();
    let at = outer.path().join("root");
    for (path, mode) in [("open.jsonl", 0o644), ("closed.jsonl", 0o000), ("dir/in.jsonl", 0o644)] {
        add(&at, path, b"{\"n\":1}\n");
        fs::set_permissions(at.join(path), PermissionsExt::from_mode(mode)).unwrap();
    }
    let exe = outer.path().join("test");
    fs::copy(std::env::current_exe().expect("this test"), &exe).unwrap();
    for (path, mode) in [(outer.path(), 0o755), (&*at, 0o755), (&*at.join("dir"), 0o000), (&*exe, 0o755)] {
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }
    let am_root = rustix::process::geteuid().is_root();
    let mut reader = child(&exe, "read", &at, |command| {
        if am_root {
            command.uid(65_534).gid(65_534);
        }
    });
    let text: Vec<String> =
        BufReader::new(reader.0.stdout.take().expect("piped")).lines().map_while(Result::ok).collect();
    fs::set_permissions(at.join("dir"), PermissionsExt::from_mode(0o755)).unwrap();
    let mut found: Vec<&str> = text
        .iter()
        .map(String::as_str)
        .filter(|line| line.starts_with("Line") || line.starts_with("Skipped"))
        .collect();
    found.sort_unstable();
    let expected = [
        r#"Line("open.jsonl", "{\"n\":1}")"#,
        r#"Skipped("closed.jsonl", "unreadable")"#,
        r#"Skipped("dir", "unreadable")"#,
    ];
    assert_eq!(found, expected, "{text:?}");
}

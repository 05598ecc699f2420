use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use duolog_log::{
    Disk, Error, FileKind, Files, Follower, Lock, LogIdentity, Open, Place, Polled, Reader, Watermark, Writer,
    torn_records,
};
use duolog_types::Position;
use duolog_types::limits::Limits;
use rustix::process::{Pid, Signal, kill_process};

use crate::kit::{LOG, POWER, PROCESS, batch, limits, place, put};

/// The role of a child process of these tests, and its directory.
const ROLE: &str = "DUOLOG_TEST_ROLE";
const ROOT: &str = "DUOLOG_TEST_ROOT";

fn disk_at(root: &Path) -> Arc<dyn Disk> {
    Arc::new(Files::beneath(root).expect("a directory"))
}

fn long_timeout() -> Limits {
    Limits { busy_timeout: Duration::from_mins(1), ..Limits::default() }
}

fn open(disk: &Arc<dyn Disk>, limits: &Limits) -> duolog_log::Result<Writer> {
    Writer::open(disk, &place(), &Watermark::default(), limits).map(|opened| opened.0)
}

/// A child process that is killed at the end of the test, even if it is stopped.
struct ChildProcess(Child);

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn child(role: &str, root: &Path) -> ChildProcess {
    let child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "files::a_child_process_runs_its_role", "--nocapture"])
        .env(ROLE, role)
        .env(ROOT, root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    ChildProcess(child.expect("starts"))
}

/// The child process of the tests below; without a role it does nothing.
#[test]
fn a_child_process_runs_its_role() {
    let (Ok(role), Ok(root)) = (std::env::var(ROLE), std::env::var(ROOT)) else { return };
    let disk = disk_at(Path::new(&root));
    if role == "hold" {
        let file = disk.open(LOG.as_ref(), Open::Append).unwrap();
        assert!(file.try_lock(Lock::Exclusive).unwrap());
        println!("\nholding");
        // Until the parent closes the pipe.
        std::io::stdin().lines().for_each(drop);
        return;
    }
    let log = open(&disk, &long_timeout()).unwrap();
    println!("\nready");
    std::io::stdin().lines().next();
    append_all(&log, &role, 10_000);
}

fn append_all(log: &Writer, who: &str, count: usize) {
    for number in 0..count {
        // Lengths differ, so that a misplaced byte is noticed.
        let line = format!("{{\"who\":\"{who}\",\"n\":{number},\"x\":\"{}\"}}", "é".repeat(number % 40));
        log.append(&batch(line), &PROCESS).expect("appends");
    }
}

fn wait_for(child: &mut ChildProcess, word: &str) {
    let mut lines = BufReader::new(child.0.stdout.as_mut().expect("piped")).lines();
    assert!(lines.any(|line| line.expect("text") == word), "the child ended early");
}

/// Checks that the log contains `count` complete lines of each writer, in order, and nothing else.
fn check_lines(root: &Path, writers: &[String], count: usize) {
    let text = fs::read_to_string(root.join(LOG)).unwrap();
    let mut next = vec![0; writers.len()];
    for line in text.lines() {
        let value: serde_json::Value = serde_json::from_str(line).expect("a complete line");
        let who = writers.iter().position(|who| value["who"] == who.as_str()).expect("a known writer");
        assert_eq!(value["n"], next[who], "{}", writers[who]);
        assert_eq!(value["x"].as_str().unwrap().chars().count(), next[who] % 40);
        next[who] += 1;
    }
    assert!(next.iter().all(|n| *n == count), "{next:?}");
    assert!(text.ends_with('\n'));
}

#[test]
fn two_processes_never_interleave() {
    let root = tempfile::tempdir().unwrap();
    let who = ["one".to_owned(), "two".to_owned()];
    let mut children: Vec<ChildProcess> = who.iter().map(|who| child(who, root.path())).collect();
    for child in &mut children {
        wait_for(child, "ready");
    }
    for child in &mut children {
        child.0.stdin.take().expect("piped").write_all(b"go\n").unwrap();
    }
    for child in &mut children {
        assert!(std::io::copy(child.0.stdout.as_mut().expect("piped"), &mut std::io::sink()).is_ok());
        assert!(child.0.wait().unwrap().success());
    }
    check_lines(root.path(), &who, 10_000);
}

#[test]
fn eight_threads_never_interleave() {
    let root = tempfile::tempdir().unwrap();
    let disk = disk_at(root.path());
    let log = open(&disk, &long_timeout()).unwrap();
    let who: Vec<String> = (0..8).map(|n| format!("thread {n}")).collect();
    std::thread::scope(|scope| {
        for who in &who {
            scope.spawn(|| append_all(&log, who, 1_000));
        }
    });
    check_lines(root.path(), &who, 1_000);
}

#[test]
fn a_stopped_holder_is_named_and_hangs_nobody() {
    let root = tempfile::tempdir().unwrap();
    let disk = disk_at(root.path());
    let log = open(&disk, &limits()).unwrap();
    put(&log, "{\"a\":1}");
    let mut child = child("hold", root.path());
    wait_for(&mut child, "holding");
    let pid = Pid::from_child(&child.0);
    kill_process(pid, Signal::STOP).unwrap();
    let stable_end = || Reader::open(&disk, &place()).unwrap().unwrap().stable_end(limits().busy_timeout);
    for error in [
        log.append(&batch("{\"b\":1}"), &POWER).map(|_| ()).unwrap_err(),
        open(&disk, &limits()).map(|_| ()).unwrap_err(),
        stable_end().map(|_| ()).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Busy { holder, .. } if holder == Some(child.0.id())), "{error:?}");
    }
    kill_process(pid, Signal::CONT).unwrap();
    drop(child.0.stdin.take());
    assert!(child.0.wait().unwrap().success());
    put(&log, "{\"c\":1}");
    assert_eq!(fs::read_to_string(root.path().join(LOG)).unwrap(), "{\"a\":1}\n{\"c\":1}\n");
}

#[test]
fn what_is_not_a_file_is_not_a_log() {
    type Make = fn(&Path);
    let cases: [(&str, Make, FileKind); 5] = [
        ("a directory", |at| fs::create_dir(at).unwrap(), FileKind::Directory),
        (
            "a link to a file",
            |at| {
                fs::write(at.with_extension("other"), "{}\n").unwrap();
                symlink(at.with_extension("other"), at).unwrap();
            },
            FileKind::Other,
        ),
        ("a link to nothing", |at| symlink("nothing", at).unwrap(), FileKind::Other),
        (
            "a pipe",
            |at| {
                let mode = rustix::fs::Mode::from_raw_mode(0o600);
                rustix::fs::mknodat(rustix::fs::CWD, at, rustix::fs::FileType::Fifo, mode, 0).unwrap();
            },
            FileKind::Other,
        ),
        ("a link to a device", |at| symlink("/dev/zero", at).unwrap(), FileKind::Other),
    ];
    for (what, make, kind) in cases {
        let root = tempfile::tempdir().unwrap();
        let disk = disk_at(root.path());
        let at = root.path().join(LOG);
        fs::create_dir(at.parent().unwrap()).unwrap();
        // A writer that finds it, and one that was opened before.
        let early = open(&disk, &limits()).unwrap();
        make(&at);
        let is_right = |error: &Error| matches!(error, Error::NotALog { found, .. } if *found == kind);
        for error in [
            open(&disk, &limits()).map(|_| ()).unwrap_err(),
            Reader::open(&disk, &place()).map(|_| ()).unwrap_err(),
            early.append(&batch("{}"), &POWER).map(|_| ()).unwrap_err(),
            duolog_log::rewrite(&disk, &place(), Position::ZERO, &limits(), |_| Ok(())).map(|_| ()).unwrap_err(),
        ] {
            assert!(is_right(&error), "{what}: {error:?}");
        }
        let mut follower = Follower::new(&disk, &place(), Position::ZERO, limits().busy_timeout, 100);
        assert!(is_right(&follower.poll(&mut |_| panic!("no line")).unwrap_err()), "{what}");
        if what == "a link to a file" {
            assert_eq!(fs::read_to_string(at.with_extension("other")).unwrap(), "{}\n");
        }
    }
}

#[test]
fn a_scope_that_is_a_link_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    symlink(outside.path(), root.path().join("scope")).unwrap();
    let disk = disk_at(root.path());
    let log = open(&disk, &limits());
    assert!(log.and_then(|log| log.append(&batch("{}"), &PROCESS)).is_err(), "an absent log");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0, "nothing was created outside");
    fs::write(outside.path().join("session.jsonl"), "{\"theirs\":1}\n{\"torn").unwrap();
    assert!(open(&disk, &limits()).is_err(), "an existing log");
    assert!(Reader::open(&disk, &place()).is_err());
    assert!(disk.list("scope".as_ref()).is_err());
    assert_eq!(fs::read_to_string(outside.path().join("session.jsonl")).unwrap(), "{\"theirs\":1}\n{\"torn");
}

#[test]
fn no_path_leaves_the_root() {
    let around = tempfile::tempdir().unwrap();
    let root = around.path().join("root");
    fs::create_dir(&root).unwrap();
    fs::create_dir(root.join("scope")).unwrap();
    fs::write(around.path().join("there"), "{}\n").unwrap();
    let disk = disk_at(&root);
    let absolute = around.path().join("there");
    let names =
        ["../there", "../absent", "scope/../../there", "scope/../../absent", "..", "", "/", absolute.to_str().unwrap()];
    for name in names {
        let path = PathBuf::from(name);
        let place = Place::file(&path);
        let opened = Writer::open(&disk, &place, &Watermark::default(), &limits());
        assert!(opened.and_then(|(log, _)| log.append(&batch("{}"), &PROCESS)).is_err(), "{name:?}");
        assert!(!matches!(Reader::open(&disk, &place), Ok(Some(_))), "{name:?}");
        if !name.is_empty() {
            assert!(disk.stat(&path).is_err(), "{name:?}: stat is refused");
            assert!(disk.list(&path).is_err() && disk.sync_dir(&path).is_err(), "{name:?}");
        }
        assert!(disk.create_dir(&path).is_err() && disk.unlink(&path).is_err(), "{name:?}");
        assert!(disk.rename(&path, "x".as_ref()).is_err() && disk.rename("x".as_ref(), &path).is_err(), "{name:?}");
    }
    assert_eq!(fs::read_to_string(around.path().join("there")).unwrap(), "{}\n");
    let count = |at: &Path| fs::read_dir(at).unwrap().count();
    assert_eq!((count(around.path()), count(&root), count(&root.join("scope"))), (2, 1, 0));
}

#[test]
fn files_and_directories_are_for_their_owner_only() {
    let root = tempfile::tempdir().unwrap();
    let disk = disk_at(root.path());
    let place = Place::file("a/b/session.jsonl");
    let (log, _) = Writer::open(&disk, &place, &Watermark::default(), &limits()).unwrap();
    put(&log, "{}");
    let at = root.path().join("a/b/session.jsonl");
    fs::OpenOptions::new().append(true).open(&at).unwrap().write_all(b"{\"torn").unwrap();
    put(&log, "{}");
    duolog_log::rewrite(&disk, &place, Position::ZERO, &limits(), |_| Ok(())).unwrap();
    let mode = |path: &Path| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777;
    for directory in ["a", "a/b"] {
        assert_eq!(mode(&root.path().join(directory)), 0o700, "{directory}");
    }
    let files: Vec<_> = fs::read_dir(root.path().join("a/b")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 2, "the log and its torn bytes: {files:?}");
    assert!(files.iter().all(|file| mode(file) == 0o600));
    assert_eq!(torn_records(&disk, &place.path).unwrap().len(), 1);
}

#[test]
fn a_log_that_goes_from_under_its_writer_takes_no_line_with_it() {
    type Change = fn(&Path);
    let cases: [(&str, Change); 4] = [
        ("deleted", |at| fs::remove_file(at).unwrap()),
        ("moved away", |at| fs::rename(at, at.with_extension("moved")).unwrap()),
        ("replaced", |at| {
            fs::write(at.with_extension("new"), "{\"theirs\":1}\n").unwrap();
            fs::rename(at.with_extension("new"), at).unwrap();
        }),
        ("gone with its directory", |at| {
            let scope = at.parent().unwrap();
            fs::rename(scope, scope.with_extension("moved")).unwrap();
        }),
    ];
    for (what, change) in cases {
        let root = tempfile::tempdir().unwrap();
        let disk = disk_at(root.path());
        let log = open(&disk, &limits()).unwrap();
        let end = put(&log, "{\"a\":1}").end;
        change(&root.path().join(LOG));
        for how in [&PROCESS, &POWER] {
            let error = log.append(&batch("{\"b\":1}"), how).unwrap_err();
            assert!(matches!(error, Error::Replaced(_)), "{what}: {error:?}");
        }
        let known = Watermark { recorded_to: end, ..Watermark::default() };
        let known = Watermark { folded: Some((end, duolog_log::hash_line(b"{\"a\":1}"))), ..known };
        let (anew, recovery) = Writer::open(&disk, &place(), &known, &limits()).unwrap();
        let expected = if what == "replaced" { LogIdentity::Replaced } else { LogIdentity::Missing };
        assert_eq!(recovery.identity, expected, "{what}");
        put(&anew, "{\"c\":1}");
        assert!(fs::read_to_string(root.path().join(LOG)).unwrap().ends_with("{\"c\":1}\n"));
        for kept in ["scope/session.moved", "scope.moved/session.jsonl"] {
            let kept = fs::read_to_string(root.path().join(kept));
            assert!(kept.is_err() || kept.unwrap() == "{\"a\":1}\n", "{what}: nothing went to the old file");
        }
    }
}

#[test]
fn a_position_far_after_the_end_is_not_a_disk_error() {
    let root = tempfile::tempdir().unwrap();
    let disk = disk_at(root.path());
    put(&open(&disk, &limits()).unwrap(), "{}");
    let log = Reader::open(&disk, &place()).unwrap().unwrap();
    for far in [4, 1 << 40, i64::MAX.unsigned_abs(), i64::MAX.unsigned_abs() + 2, u64::MAX] {
        let error = log.lines(Position(far), Position(3), 10).err().unwrap();
        assert!(matches!(error, Error::BeyondEnd { end: Position(3), .. }), "{far}: {error:?}");
    }
}

#[test]
fn real_files_are_repaired_poisoned_rewritten_and_followed() {
    let root = tempfile::tempdir().unwrap();
    let disk = disk_at(root.path());
    let at = root.path().join(LOG);
    let log = open(&disk, &limits()).unwrap();
    let mut follower = Follower::new(&disk, &place(), Position::ZERO, limits().busy_timeout, 100);
    let mut lines = Vec::new();
    let mut poll = |follower: &mut Follower| {
        follower.poll(&mut |item| lines.push(crate::kit::owned(item).2.expect("short"))).expect("polls")
    };
    assert_eq!(poll(&mut follower), Polled::Idle);
    log.append(&batch("{\"a\":1}"), &POWER).unwrap();
    fs::OpenOptions::new().append(true).open(&at).unwrap().write_all(b"{\"torn").unwrap();
    assert_eq!(poll(&mut follower), Polled::Delivered);
    assert!(log.append(&batch("{\"b\":1}"), &POWER).unwrap().mend.is_some());
    fs::set_permissions(&at, fs::Permissions::from_mode(0o400)).unwrap();
    assert!(matches!(log.append(&batch("{\"no\":1}"), &PROCESS), Err(Error::Poisoned(_))));
    assert!(matches!(open(&disk, &limits()), Err(Error::Poisoned(_))));
    assert_eq!(poll(&mut follower), Polled::Delivered);
    duolog_log::rewrite(&disk, &place(), Position::ZERO, &limits(), |_| Ok(())).unwrap();
    assert!(matches!(log.append(&batch("{\"no\":1}"), &PROCESS), Err(Error::Poisoned(_) | Error::Replaced(_))));
    put(&open(&disk, &limits()).unwrap(), "{\"c\":1}");
    assert_eq!(poll(&mut follower), Polled::Delivered);
    assert_eq!(poll(&mut follower), Polled::Idle);
    assert_eq!(lines, [b"{\"a\":1}", b"{\"b\":1}", b"{\"c\":1}"]);
    assert_eq!(torn_records(&disk, LOG.as_ref()).unwrap().len(), 1);
    let names = disk.list("scope".as_ref()).unwrap();
    assert!(names.iter().all(|(_, kind)| *kind == FileKind::File) && names.len() == 2, "{names:?}");
}

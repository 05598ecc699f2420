use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use duolog_log::{Disk, Error, Files, Follower, Hints, Item, Lock, Open, Pace, Polled, ResetReason, Writer};
use duolog_types::Position;
use duolog_types::limits::Limits;

use crate::kit::{LOG, PROCESS, batch, place};

/// With these pauses only a hint ends a wait.
const NEVER: Duration = Duration::from_hours(1);
const BY_HINTS: Pace = Pace { min: NEVER, max: NEVER, with_hints: NEVER };

fn disk_at(root: &Path) -> Arc<dyn Disk> {
    Arc::new(Files::beneath(root).expect("a directory"))
}

fn writer(root: &Path) -> Writer {
    let known = duolog_log::Watermark::default();
    Writer::open(&disk_at(root), &place(), &known, &Limits::default()).expect("opens").0
}

/// Creates a follower that waits for a writer's lock.
fn follower(root: &Path, hints: &Hints, pace: Pace) -> Follower {
    follower_with_timeout(Duration::from_mins(1), root, hints, pace)
}

fn follower_with_timeout(timeout: Duration, root: &Path, hints: &Hints, pace: Pace) -> Follower {
    let limits = Limits::default();
    Follower::new(&disk_at(root), &place(), Position::ZERO, timeout, limits.line_bytes_max)
        .with_hints(hints, root)
        .at_pace(pace)
}

/// Polls and waits until `count` lines were delivered; returns them and the number of polls.
fn lines(follower: &mut Follower, count: usize) -> (Vec<String>, usize) {
    let (mut lines, mut polls) = (Vec::new(), 0);
    while lines.len() < count {
        polls += 1;
        let polled = follower.poll(&mut |item| match item {
            Item::Line(line) => lines.push(String::from_utf8(line.bytes.to_vec()).expect("text")),
            Item::TooLong { .. } => panic!("a short line"),
        });
        match polled {
            Ok(Polled::Delivered) => {}
            Ok(Polled::Idle) | Err(Error::Busy { .. }) => follower.wait(NEVER),
            other => panic!("{other:?}"),
        }
    }
    (lines, polls)
}

/// No interval ends these waits, and polls are counted: each append wakes its follower, and nothing else does.
#[test]
fn only_an_append_wakes_a_follower() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("scope")).unwrap();
    let mut follower = follower(root.path(), &Hints::new(), BY_HINTS);
    let (ready, go) = channel();
    let at = root.path().to_owned();
    let count = 300;
    let writing = std::thread::spawn(move || {
        let log = writer(&at);
        for number in 0..count {
            go.recv().expect("a follower");
            // Other files in the same directory do not wake it.
            fs::write(at.join(format!("scope/{number}.jsonl")), "{}\n").unwrap();
            log.append(&batch(format!("{{\"n\":{number}}}")), &PROCESS).unwrap();
        }
    });
    let mut polls = 0;
    for number in 0..count {
        ready.send(()).unwrap();
        let (lines, polled) = lines(&mut follower, 1);
        assert_eq!(lines, [format!("{{\"n\":{number}}}")]);
        polls += polled;
    }
    writing.join().unwrap();
    // A poll that finds nothing, and one that finds the line.
    assert!(polls <= 3 * count + 3, "{polls} polls for {count} appends");
}

#[test]
fn many_followers_share_hints_and_each_gets_its_own() {
    let root = tempfile::tempdir().unwrap();
    let hints = Hints::new();
    fs::create_dir(root.path().join("scope")).unwrap();
    let mut followers: Vec<Follower> = (0..20).map(|_| follower(root.path(), &hints, BY_HINTS)).collect();
    fs::write(root.path().join(LOG), "").unwrap();
    for number in 0..20 {
        let log = format!("{{\"n\":{number}}}");
        let mut file = fs::OpenOptions::new().append(true).open(root.path().join(LOG)).unwrap();
        file.write_all(format!("{log}\n").as_bytes()).unwrap();
        for follower in &mut followers {
            assert_eq!(lines(follower, 1).0, [&*log]);
        }
        // A dropped follower does not remove a watch that others need.
        followers.pop();
    }
}

/// A directory that does not exist yet, is deleted, and is created again.
#[test]
fn a_directory_that_is_deleted_and_created_is_watched_again() {
    let root = tempfile::tempdir().unwrap();
    let pace = Pace { min: Duration::from_millis(1), max: Duration::from_millis(1), with_hints: NEVER };
    let hints = Hints::new();
    let mut follower = follower(root.path(), &hints, pace);
    for round in 0..5 {
        let log = format!("{{\"round\":{round}}}");
        assert_eq!(follower.poll(&mut |_| panic!("nothing is there")).unwrap(), Polled::Idle);
        follower.wait(Duration::from_millis(3));
        fs::create_dir(root.path().join("scope")).unwrap();
        fs::write(root.path().join(LOG), format!("{log}\n")).unwrap();
        assert_eq!(lines(&mut follower, 1).0, [log]);
        // Now it is watched: its deletion wakes the follower.
        fs::remove_dir_all(root.path().join("scope")).unwrap();
        loop {
            match follower.poll(&mut |_| panic!("nothing is there")).unwrap() {
                Polled::Idle => follower.wait(NEVER),
                reset => {
                    assert_eq!(reset, Polled::Reset { to: Position::ZERO, why: ResetReason::Missing });
                    break;
                }
            }
        }
    }
}

#[test]
fn a_bell_wakes_a_follower_and_a_released_lock_is_found_without_a_hint() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("scope")).unwrap();
    // There are no hints: the bell wakes the follower.
    let mut deaf = follower(root.path(), &Hints::none(), BY_HINTS);
    let bell = deaf.bell();
    let at = root.path().to_owned();
    let ringing = std::thread::spawn(move || {
        fs::write(at.join(LOG), "{\"n\":1}\n").unwrap();
        bell.ring();
    });
    assert_eq!(lines(&mut deaf, 1).0, ["{\"n\":1}"]);
    ringing.join().unwrap();

    // A writer holds the lock when the hint comes: its release is found without a hint.
    let pace = Pace { min: Duration::from_micros(100), max: Duration::from_millis(1), with_hints: NEVER };
    let mut follower = follower_with_timeout(Duration::ZERO, root.path(), &Hints::new(), pace);
    assert_eq!(lines(&mut follower, 1).0, ["{\"n\":1}"]);
    // The follower watches from here on.
    follower.wait(Duration::ZERO);
    let file = disk_at(root.path()).open(LOG.as_ref(), Open::Append).unwrap();
    assert!(file.try_lock(Lock::Exclusive).unwrap());
    file.append(b"{\"n\":2}\n").unwrap();
    follower.wait(NEVER);
    assert!(matches!(follower.poll(&mut |_| panic!("it may be taken back")), Err(Error::Busy { .. })));
    file.unlock().unwrap();
    assert_eq!(lines(&mut follower, 1).0, ["{\"n\":2}"]);
}

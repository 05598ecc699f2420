use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use duolog_join::{Error, Join, Seen};
use duolog_log::Pace;
use duolog_testkit::SimDisk;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::{Cursor, Epoch, HomeId, Position, SessionId};

use crate::kit::{open, open_on, put, session};

on_both_engines!(
    a_stale_cursor_gets_a_reset_with_the_last_good_position,
    a_follower_in_this_process_is_woken_by_an_append,
    a_follower_of_another_process_is_woken_by_file_notification
);

fn a_stale_cursor_gets_a_reset_with_the_last_good_position(place: &Place) {
    let join = open(place);
    let id = session(&join, "s");
    (0..4).for_each(|n| put(&join, &id, &format!("{{\"n\":{n}}}")));
    join.catch_up(u64::MAX).unwrap();
    drop(join);
    // Cut by hand inside the third line: two lines are left.
    let file = place.home().join("sessions/threads/s.jsonl");
    let text = std::fs::read(&file).unwrap();
    std::fs::write(&file, &text[..20]).unwrap();
    let join = open(place);
    join.fold(&id, 0).unwrap();
    let mut follow = join.follow(&id, Some(Cursor { epoch: Epoch(0), position: Position(32) })).unwrap();
    let Seen::Reset(cursor) = follow.poll(&mut |_| {}).unwrap() else { panic!("no reset") };
    assert_eq!((cursor.epoch, cursor.position), (Epoch(1), Position(16)));
    let current = Cursor { epoch: Epoch(1), position: Position(3) };
    assert!(matches!(join.follow(&id, Some(current)).map(drop), Err(Error::Log(duolog_log::Error::NotABoundary(_)))));
}

fn a_follower_in_this_process_is_woken_by_an_append(place: &Place) {
    let join = open(place);
    let id = session(&join, "s");
    let mut follow = join.follow(&id, None).unwrap();
    assert_eq!(follow.poll(&mut |_| {}).unwrap(), Seen::Idle);
    std::thread::scope(|scope| {
        scope.spawn(|| put(&join, &id, "{\"n\":1}"));
        // Far longer than the test may take: only the wake-up ends it.
        follow.wait(Duration::from_mins(2));
    });
    let mut seen = 0;
    assert_eq!(follow.poll(&mut |_| seen += 1).unwrap(), Seen::Delivered);
    assert_eq!((seen, follow.cursor().position), (1, Position(8)));
}

/// No interval ends these waits.
const NEVER: Duration = Duration::from_hours(1);
const BY_HINTS: Pace = Pace { min: NEVER, max: NEVER, with_hints: NEVER };

/// Follows what `writer` appends, one line at a time. Returns the number of polls.
fn count_polls(reader: &Arc<Join>, writer: &Join, id: &SessionId, pace: Pace, count: usize) -> usize {
    let mut follow = reader.follow(id, None).unwrap().at_pace(pace);
    let (ready, go) = channel();
    let (mut seen, mut polls) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for n in 0..count {
                go.recv().expect("a follower");
                put(writer, id, &format!("{{\"n\":{n}}}"));
            }
        });
        for expected in 1..=count {
            ready.send(()).expect("a writer");
            while seen < expected {
                polls += 1;
                if follow.poll(&mut |_| seen += 1).unwrap() == Seen::Idle {
                    follow.wait(NEVER);
                }
            }
        }
    });
    polls
}

fn a_follower_of_another_process_is_woken_by_file_notification(place: &Place) {
    let (reader, writer) = (open(place), open(place));
    let id = session(&writer, "s");
    // A directory must exist to be watched.
    put(&writer, &id, "{\"first\":true}");
    let count = 100;
    let polls = count_polls(&reader, &writer, &id, BY_HINTS, count);
    // One poll that finds nothing, one for the change, and one while the lock is still held.
    assert!(polls <= 3 * count + 3, "{polls} polls for {count} appends");
}

/// A disk in memory has no file notification: it is polled, and the bell still rings.
#[test]
fn a_disk_without_file_notification_is_polled() {
    let place = Place::sqlite();
    let (disk, home) = (SimDisk::new(), HomeId::new());
    let (reader, writer) = (open_on(&place, &disk, home), open_on(&place, &disk, home));
    let id = session(&writer, "s");
    let soon = Pace { min: Duration::from_micros(50), max: Duration::from_millis(1), with_hints: NEVER };
    assert!(count_polls(&reader, &writer, &id, soon, 20) >= 20);
    let bell = session(&writer, "bell");
    assert!(count_polls(&writer, &writer, &bell, BY_HINTS, 20) <= 3 * 20 + 3);
}

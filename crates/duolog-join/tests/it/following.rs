use std::time::Duration;

use duolog_join::{Error, Seen};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::{Cursor, Epoch, Position};

use crate::kit::{open, put, session};

on_both_engines!(
    a_stale_cursor_gets_a_reset_with_the_last_good_position,
    a_follower_in_this_process_is_woken_by_an_append
);

fn a_stale_cursor_gets_a_reset_with_the_last_good_position(place: &Place) {
    let join = open(place);
    let id = session(&join, "s");
    (0..4).for_each(|n| put(&join, &id, &format!("{{\"n\":{n}}}")));
    join.catch_up(u64::MAX).unwrap();
    drop(join);
    // Cut by hand inside the third line: two lines still stand.
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

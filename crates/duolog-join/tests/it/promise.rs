use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};

use duolog_join::{Error, IdempotencyKey, Join, Seen};
use duolog_log::{Error as LogError, Item};
use duolog_state::owned::repairs::RepairAction;
use duolog_state::owned::{behind, outbox, sessions};
use duolog_testkit::SimDisk;
use duolog_testkit::disk::{CallKind, EIO, Fault};
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::limits::Limits;
use duolog_types::{Cursor, Epoch, HomeId, OperationId, Position, ProcessId, SessionId};

use crate::kit::{POWER, PROCESS, batch, limits, lines, open, open_on, open_with, put, rename, session};

on_both_engines!(
    equal_lines_of_different_operations_are_all_appended,
    a_retry_after_a_failed_write_and_a_repair_writes,
    a_claim_of_a_dead_writer_is_settled_first,
    a_path_and_an_epoch_are_never_used_twice,
    a_first_append_to_a_deleted_session_is_refused,
    a_second_deletion_does_not_affect_the_new_session,
    deleting_a_log_loses_no_line_of_the_new_epoch,
    an_interrupted_log_deletion_is_finished_first,
    an_interrupted_session_deletion_is_finished_by_its_retry,
    a_cursor_of_a_deleted_log_gets_a_reset,
    a_cursor_of_a_later_epoch_starts_over,
    a_missing_log_has_no_counts,
    a_directory_that_cannot_be_opened_closes_no_log,
    a_follower_across_a_repair_sees_each_line_once,
    a_follower_sees_the_lines_of_a_log_that_begins_with_equal_lines,
    marks_of_closed_logs_stay_until_their_process_folds_or_leaves,
    a_deleted_session_does_not_block_other_folds,
    an_append_after_a_change_comes_after_its_line,
    appends_during_a_deletion_succeed_or_report_no_session,
    a_pending_line_comes_before_the_next_append,
    a_log_that_is_locked_during_the_sweep_is_folded_later,
);

fn operation(name: &str) -> OperationId {
    OperationId::parse(name).unwrap()
}

pub(crate) fn equal_lines_of_different_operations_are_all_appended(place: &Place) {
    let joins: Vec<_> = (0..4).map(|_| open(place)).collect();
    let id = session(&joins[0], "s");
    let (rounds, start) = (20, Barrier::new(joins.len()));
    std::thread::scope(|scope| {
        for (number, join) in joins.iter().enumerate() {
            let (id, start) = (&id, &start);
            scope.spawn(move || {
                for round in 0..rounds {
                    start.wait();
                    let name = operation(&format!("op-{number}-{round}"));
                    // One of the four has no operation id: it claims no place.
                    if number == 0 {
                        put(join, id, "{}");
                    } else {
                        join.append_once(id, &name, &batch(&["{}"]), &PROCESS).unwrap();
                        join.append_once(id, &name, &batch(&["{}"]), &PROCESS).unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(lines(&joins[0], &id).len(), 4 * rounds);
}

fn a_retry_after_a_failed_write_and_a_repair_writes(place: &Place) {
    let (disk, home) = (SimDisk::new(), HomeId::new());
    let join = open_on(place, &disk, home);
    let id = session(&join, "s");
    put(&join, &id, "{}");
    disk.fail_kind_from(CallKind::Append, 0, Fault::Error(EIO));
    assert!(join.append_once(&id, &operation("op"), &batch(&["{}"]), &PROCESS).is_err());
    disk.heal();
    join.repair(&id).unwrap();
    join.append_once(&id, &operation("op"), &batch(&["{}"]), &PROCESS).unwrap();
    join.append_once(&id, &operation("op"), &batch(&["{}"]), &PROCESS).unwrap();
    assert_eq!(lines(&join, &id), ["{}", "{}"]);
}

/// Whatever call the writer dies in, and whether or not other processes had the log open before.
pub(crate) fn a_claim_of_a_dead_writer_is_settled_first(place: &Place) {
    let mut nth = 0;
    loop {
        let (disk, home) = (SimDisk::new(), HomeId::new());
        let other = open_on(place, &disk, home);
        let id = session(&other, &format!("s-{nth}"));
        put(&other, &id, "{}");
        let writer = open_on(place, &disk, home);
        let before = disk.call_count();
        disk.fail_at(before + nth, Fault::Stop { after_bytes: (nth % 2 == 0).then_some(1) });
        let name = operation("op");
        let acknowledged = writer.append_once(&id, &name, &batch(&["{}"]), &PROCESS).is_ok();
        let is_over = disk.call_count() <= before + nth;
        disk.heal();
        put(&other, &id, "{}");
        other.append_once(&id, &name, &batch(&["{}"]), &PROCESS).unwrap();
        assert_eq!(lines(&other, &id).len(), 3, "it died in call {nth}; acknowledged: {acknowledged}");
        let path = row(&other, &id).log_path;
        assert_eq!(disk.mode(&path), Some(0o600));
        if is_over {
            assert!(acknowledged && nth > 12, "only {nth} calls were tried");
            return;
        }
        nth += 1;
    }
}

fn row(join: &Join, id: &SessionId) -> sessions::SessionRow {
    join.state().read(|tx| sessions::find(tx, id)).unwrap().expect("a session")
}

pub(crate) fn a_path_and_an_epoch_are_never_used_twice(place: &Place) {
    let join = open(place);
    let mut seen = BTreeSet::new();
    let mut last = None;
    for _ in 0..6 {
        let id = session(&join, "s");
        put(&join, &id, "{}");
        let row = row(&join, &id);
        assert!(seen.insert(row.log_path.clone()), "{} was used twice", row.log_path);
        assert!(last < Some(row.log_epoch), "epoch {} after {last:?}", row.log_epoch);
        last = Some(row.log_epoch);
        let epoch = join.remove_log(&id, None).unwrap().epoch;
        assert!(last < Some(epoch));
        last = Some(epoch);
        assert_eq!(self::row(&join, &id).log_path, row.log_path, "deleting the log keeps its path");
        join.delete(&id).unwrap();
    }
}

fn a_first_append_to_a_deleted_session_is_refused(place: &Place) {
    let (a, b) = (open(place), open(place));
    let id = session(&a, "s");
    // The log is open here and has no file yet.
    a.append(&id, &batch(&[]), &PROCESS).unwrap();
    let path = place.home().join(row(&a, &id).log_path);
    b.delete(&id).unwrap();
    let refused = a.append(&id, &batch(&["{}"]), &PROCESS);
    assert!(matches!(refused, Err(Error::NoSession(_) | Error::Deleted(_))), "{refused:?}");
    assert!(!path.exists(), "no file is left");
}

fn a_second_deletion_does_not_affect_the_new_session(place: &Place) {
    let join = open(place);
    let id = session(&join, "s");
    let before = row(&join, &id);
    join.delete(&id).unwrap();
    let id = session(&join, "s");
    put(&join, &id, "{}");
    // What an overtaken process would do now.
    let (path, at) = (before.log_path, before.created_at);
    let gone = id.clone();
    let marked = place.open().write(duolog_types::Durability::Power, move |tx| {
        Ok::<_, duolog_state::Error>(sessions::tombstone(tx, &gone, &path, at)? || sessions::remove(tx, &gone, &path)?)
    });
    assert!(!marked.unwrap());
    assert_eq!(lines(&join, &id), ["{}"]);
}

pub(crate) fn deleting_a_log_loses_no_line_of_the_new_epoch(place: &Place) {
    let joins: Vec<_> = (0..3).map(|_| open(place)).collect();
    let id = session(&joins[0], "s");
    let (done, acknowledged) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for (number, join) in joins[1..].iter().enumerate() {
            let (id, done, acknowledged) = (&id, &done, &acknowledged);
            scope.spawn(move || {
                for n in 0.. {
                    if done.load(Ordering::SeqCst) {
                        return;
                    }
                    let line = format!("{{\"{number}\":{n}}}");
                    let committed = join.append(id, &batch(&[&line]), &PROCESS).expect("appended");
                    acknowledged.lock().unwrap().push((committed.epoch, line));
                }
            });
        }
        for _ in 0..40 {
            joins[0].remove_log(&id, None).unwrap();
        }
        done.store(true, Ordering::SeqCst);
    });
    let epoch = row(&joins[0], &id).log_epoch;
    let there: BTreeSet<String> = lines(&joins[0], &id).into_iter().collect();
    for (of, line) in acknowledged.into_inner().unwrap() {
        assert!(of < epoch || there.contains(&line), "{line} was acknowledged in epoch {of}, which is the last");
    }
    let repairs = joins[0].repairs_of(&id).unwrap();
    assert!(repairs.iter().all(|row| row.repair.action == RepairAction::Deleted), "{repairs:?}");
}

/// The next process that uses a log with an interrupted deletion.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// A live process that has the log open appends.
    Appends,
    /// A live process that has the log open appends under an operation id.
    AppendsOnce,
    /// Another process opens the home and appends.
    Opens,
    /// Only the process that retries the deletion.
    Retries,
}

/// Whatever call the deleting process dies in: lines acknowledged under the new epoch are in the log once, and
/// nothing else.
pub(crate) fn an_interrupted_log_deletion_is_finished_first(place: &Place) {
    for next in [Next::Appends, Next::AppendsOnce, Next::Opens, Next::Retries] {
        let mut died_in_between = 0;
        for nth in 0.. {
            let (disk, home) = (SimDisk::new(), HomeId::new());
            let other = open_on(place, &disk, home);
            let id = session(&other, &format!("s-{next:?}-{nth}"));
            (0..2).for_each(|_| put(&other, &id, "{}"));
            let key = IdempotencyKey::new("delete", &operation(id.as_str()), &"request").unwrap();
            let deleting = open_on(place, &disk, home);
            let before = disk.call_count();
            disk.fail_at(before + nth, Fault::Stop { after_bytes: None });
            let answered = deleting.remove_log_once(Some(&key), &id, None);
            let is_over = disk.call_count() <= before + nth;
            disk.heal();
            let (old, now) = (Epoch(0), row(&other, &id));
            died_in_between += usize::from(now.unlink_due);
            let expected: &[&str] = if now.log_epoch == old { &["{}", "{}"] } else { &[] };
            assert_eq!(lines(&other, &id), expected, "{next:?}, call {nth}: a concurrent reader");
            let mut seen = Vec::new();
            let stale = Cursor { epoch: old, position: Position(6) };
            let mut follower = other.follow(&id, Some(stale)).unwrap();
            let reset = follower.poll(&mut |item| seen.push(matches!(item, Item::Line(_)))).unwrap();
            assert_eq!(matches!(reset, Seen::Reset(_)), now.log_epoch > old, "{next:?}, call {nth}: {reset:?}");
            while follower.poll(&mut |item| seen.push(matches!(item, Item::Line(_)))).unwrap() == Seen::Delivered {}
            assert!(seen.is_empty(), "{next:?}, call {nth}: a follower got lines of the deleted log");
            let committed = match next {
                Next::Appends => Some(other.append(&id, &batch(&["{}"]), &PROCESS).unwrap()),
                Next::AppendsOnce => Some(other.append_once(&id, &operation("op"), &batch(&["{}"]), &PROCESS).unwrap()),
                Next::Opens => Some(open_on(place, &disk, home).append(&id, &batch(&["{}"]), &PROCESS).unwrap()),
                Next::Retries => None,
            };
            let again = other.remove_log_once(Some(&key), &id, None).unwrap();
            assert!(answered.is_err() || answered.unwrap() == again, "{next:?}, call {nth}");
            let now = row(&other, &id);
            assert_eq!((now.log_epoch, now.unlink_due), (again.epoch, false), "{next:?}, call {nth}");
            let is_new = committed.is_some_and(|committed| committed.epoch == now.log_epoch);
            let expected: &[&str] = if is_new { &["{}"] } else { &[] };
            assert_eq!(lines(&other, &id), expected, "{next:?}, call {nth}: after the retry");
            if is_new {
                assert_eq!(disk.mode(&now.log_path), Some(0o600), "{next:?}, call {nth}");
                while follower.poll(&mut |item| seen.push(matches!(item, Item::Line(_)))).unwrap() != Seen::Idle {}
                assert_eq!(seen, [true], "{next:?}, call {nth}: the follower");
            } else {
                assert_eq!(disk.read(&now.log_path).unwrap_or_default(), b"", "{next:?}, call {nth}");
            }
            let repairs = other.repairs_of(&id).unwrap();
            let deleted = repairs.iter().all(|row| row.repair.action == RepairAction::Deleted);
            assert!(deleted && repairs.len() == 1, "{next:?}, call {nth}: {repairs:?}");
            if is_over {
                assert!(died_in_between > 0, "no call of {nth} was between epoch and unlink");
                break;
            }
        }
    }
}

fn an_interrupted_session_deletion_is_finished_by_its_retry(place: &Place) {
    let (disk, home) = (SimDisk::new(), HomeId::new());
    let (other, deleting) = (open_on(place, &disk, home), open_on(place, &disk, home));
    let id = session(&other, "s");
    put(&other, &id, "{}");
    let path = row(&other, &id).log_path;
    let key = IdempotencyKey::new("delete", &operation("op"), &"request").unwrap();
    disk.fail_kind_from(CallKind::Unlink, 0, Fault::Stop { after_bytes: None });
    deleting.delete_once(Some(key.clone()), &id).unwrap_err();
    disk.heal();
    let refused = other.append(&id, &batch(&["{}"]), &PROCESS);
    assert!(matches!(refused, Err(Error::NoSession(_) | Error::Deleted(_))), "{refused:?}");
    assert_eq!(other.delete_once(Some(key), &id).unwrap().bytes, 3);
    assert_eq!(disk.read(&path), None);
    assert_eq!(other.state().read(|tx| sessions::find(tx, &id)).unwrap(), None);
}

fn a_cursor_of_a_deleted_log_gets_a_reset(place: &Place) {
    let join = open(place);
    let id = session(&join, "s");
    (0..3).for_each(|n| put(&join, &id, &format!("{{\"n\":{n}}}")));
    let stale = Cursor { epoch: Epoch(0), position: Position(24) };
    join.remove_log(&id, None).unwrap();
    let mut follow = join.follow(&id, Some(stale)).unwrap();
    let reset = Cursor { epoch: Epoch(1), position: Position(0) };
    assert_eq!(follow.poll(&mut |_| {}).unwrap(), Seen::Reset(reset));
    put(&join, &id, "{\"n\":9}");
    let mut seen = 0;
    follow.poll(&mut |_| seen += 1).unwrap();
    assert_eq!((seen, follow.cursor()), (1, Cursor { epoch: Epoch(1), position: Position(8) }));
    // A session that is created again with a log of the same length.
    join.delete(&id).unwrap();
    let id = session(&join, "s");
    put(&join, &id, "{\"n\":7}");
    let mut again = join.follow(&id, Some(follow.cursor())).unwrap();
    assert!(matches!(again.poll(&mut |_| {}).unwrap(), Seen::Reset(cursor) if cursor.position == Position(0)));
}

fn a_cursor_of_a_later_epoch_starts_over(place: &Place) {
    let join = open(place);
    let id = session(&join, "s");
    (0..3).for_each(|n| put(&join, &id, &format!("{{\"n\":{n}}}")));
    let later = Cursor { epoch: Epoch(7), position: Position(16) };
    let mut follow = join.follow(&id, Some(later)).unwrap();
    let reset = Cursor { epoch: Epoch(0), position: Position(0) };
    assert_eq!(follow.poll(&mut |_| {}).unwrap(), Seen::Reset(reset));
}

fn a_missing_log_has_no_counts(place: &Place) {
    let join = open(place);
    let id = session(&join, "s");
    (0..3).for_each(|n| put(&join, &id, &format!("{{\"n\":{n}}}")));
    join.leave(u64::MAX).unwrap();
    assert_eq!(join.catalog_row(&id).unwrap().map(|row| row.events), Some(3));
    std::fs::remove_file(place.home().join(row(&join, &id).log_path)).unwrap();
    let join = open(place);
    join.fold(&id, u64::MAX).unwrap();
    assert_eq!(join.catalog_row(&id).unwrap().map(|row| (row.events, row.bytes)), Some((0, 0)));
    join.rebuild(|_| {}).unwrap();
    assert_eq!(join.catalog_row(&id).unwrap().map(|row| (row.events, row.bytes)), Some((0, 0)));
}

fn a_directory_that_cannot_be_opened_closes_no_log(place: &Place) {
    const EMFILE: i32 = 24;
    let (disk, home) = (SimDisk::new(), HomeId::new());
    let join = open_on(place, &disk, home);
    let id = session(&join, "s");
    disk.fail_kind_from(CallKind::SyncDir, 0, Fault::Error(EMFILE));
    assert!(join.append(&id, &batch(&["{}"]), &POWER).is_err(), "it may not be durable");
    disk.heal();
    assert!(!join.is_poisoned(&id).unwrap());
    join.append(&id, &batch(&["{}"]), &POWER).unwrap();
    assert_eq!(lines(&join, &id).len(), 2);
}

pub(crate) fn a_follower_across_a_repair_sees_each_line_once(place: &Place) {
    let (disk, home) = (SimDisk::new(), HomeId::new());
    let (join, reader) = (open_on(place, &disk, home), open_on(place, &disk, home));
    let id = session(&join, "s");
    put(&join, &id, "{\"n\":0}");
    let mut follow = reader.follow(&id, None).unwrap();
    let mut seen = Vec::new();
    let mut look = |follow: &mut duolog_join::Follow| {
        let mut resets = 0;
        loop {
            let polled = follow.poll(&mut |item| {
                if let Item::Line(line) = item {
                    seen.push(String::from_utf8_lossy(line.bytes).into_owned());
                }
            });
            match polled.unwrap() {
                Seen::Idle => return resets,
                Seen::Delivered => {}
                Seen::Reset(_) => resets += 1,
            }
        }
    };
    look(&mut follow);
    let before = follow.cursor();
    disk.fail_kind_from(CallKind::Sync, 0, Fault::Error(EIO));
    assert!(matches!(join.append(&id, &batch(&["{\"n\":1}"]), &POWER), Err(Error::Log(LogError::Poisoned(_)))));
    disk.heal();
    join.repair(&id).unwrap();
    put(&join, &id, "{\"n\":2}");
    assert_eq!(look(&mut follow), 0, "the delivered lines are still there");
    assert_eq!(follow.cursor().epoch, Epoch(1));
    let mut resumed = reader.follow(&id, Some(follow.cursor())).unwrap();
    assert_eq!(look(&mut resumed), 0);
    let mut from_before = reader.follow(&id, Some(before)).unwrap();
    assert!(!matches!(from_before.poll(&mut |_| {}).unwrap(), Seen::Reset(_)), "the delivered lines are still there");
    assert_eq!(seen, ["{\"n\":0}", "{\"n\":1}", "{\"n\":2}"]);
}

fn a_follower_sees_the_lines_of_a_log_that_begins_with_equal_lines(place: &Place) {
    let (join, reader) = (open(place), open(place));
    let id = session(&join, "s");
    put(&join, &id, "{}");
    put(&join, &id, "{}");
    let mut follow = reader.follow(&id, None).unwrap();
    let mut look = || {
        let (mut seen, mut resets) = (0, Vec::new());
        loop {
            match follow.poll(&mut |_| seen += 1).unwrap() {
                Seen::Idle => return (seen, resets, follow.cursor()),
                Seen::Delivered => {}
                Seen::Reset(cursor) => resets.push(cursor),
            }
        }
    };
    let at = |epoch, position| Cursor { epoch: Epoch(epoch), position: Position(position) };
    assert_eq!(look(), (2, vec![], at(0, 6)));
    // Between two polls the log is deleted and begins again, with lines equal to the delivered ones.
    join.remove_log(&id, None).unwrap();
    (0..3).for_each(|_| put(&join, &id, "{}"));
    assert_eq!(look(), (3, vec![at(1, 0)], at(1, 9)));
    join.remove_log(&id, None).unwrap();
    join.remove_log(&id, None).unwrap();
    (0..3).for_each(|_| put(&join, &id, "{}"));
    assert_eq!(look(), (3, vec![at(3, 0)], at(3, 9)));
    assert_eq!(look(), (0, vec![], at(3, 9)));
}

fn marks_of_closed_logs_stay_until_their_process_folds_or_leaves(place: &Place) {
    let join = open_with(place, Limits { open_logs_max: 2, ..limits() });
    let other = open(place);
    for n in 0..6 {
        let id = session(&join, &format!("s-{n}"));
        put(&join, &id, "{}");
    }
    let marks = |join: &Join| join.state().read(|tx| behind::of_home(tx, &join.home(), None, 99)).unwrap();
    assert_eq!(marks(&join).iter().filter(|mark| mark.process_id == join.process()).count(), 6);
    assert_eq!(other.catch_up(u64::MAX).unwrap().sessions_behind, 0);
    assert_eq!(marks(&join).len(), 6, "their owner lives");
    join.fold_own(u64::MAX).unwrap();
    assert_eq!(marks(&join), []);
    put(&join, &SessionId::parse("s-0").unwrap(), "{}");
    join.leave(0).unwrap();
    assert_eq!(marks(&join).iter().map(|mark| mark.process_id).collect::<Vec<_>>(), [ProcessId::NOBODY]);
    assert_eq!(other.catch_up(u64::MAX).unwrap().sessions_behind, 0);
    assert_eq!(marks(&join), [], "any fold deletes marks without an owner");
}

fn a_deleted_session_does_not_block_other_folds(place: &Place) {
    let join = open(place);
    let ids = ["a", "b", "c"].map(|name| session(&join, name));
    for id in &ids {
        put(&join, id, "{}");
    }
    open(place).delete(&ids[1]).unwrap();
    join.leave(u64::MAX).unwrap();
    for id in [&ids[0], &ids[2]] {
        assert_eq!(join.catalog_row(id).unwrap().map(|row| row.events), Some(1));
    }
}

pub(crate) fn an_append_after_a_change_comes_after_its_line(place: &Place) {
    let join = open(place);
    let id = session(&join, "s");
    let rounds = 100;
    std::thread::scope(|scope| {
        scope.spawn(|| (0..rounds).for_each(|n| rename(&join, &id, &format!("name-{n}")).unwrap()));
        let mut n = 0;
        while n < rounds {
            let name = row(&join, &id).name.unwrap_or_default();
            if let Some(seen) = name.strip_prefix("name-").and_then(|n| n.parse::<usize>().ok())
                && seen >= n
            {
                put(&join, &id, &format!("{{\"saw\":{seen}}}"));
                n = seen + 1;
            }
        }
    });
    let mut named = None;
    for line in lines(&join, &id) {
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        if let Some(saw) = line["saw"].as_u64() {
            assert!(named >= Some(saw), "the line of change {saw} comes after an append that saw it");
        } else {
            let name = line["name"].as_str().and_then(|name| name.strip_prefix("name-"));
            named = name.and_then(|n| n.parse().ok());
        }
    }
}

fn appends_during_a_deletion_succeed_or_report_no_session(place: &Place) {
    let joins: Vec<_> = (0..3).map(|_| open(place)).collect();
    for round in 0..15 {
        let id = session(&joins[0], &format!("s-{round}"));
        let start = Barrier::new(3);
        std::thread::scope(|scope| {
            for join in &joins[1..] {
                let (id, start) = (&id, &start);
                scope.spawn(move || {
                    start.wait();
                    loop {
                        let done = join.append(id, &batch(&["{}"]), &PROCESS).and_then(|_| join.fold_own(u64::MAX));
                        match done {
                            Ok(()) => {}
                            Err(Error::NoSession(_) | Error::Deleted(_)) => return,
                            Err(error) => panic!("{error:?}"),
                        }
                    }
                });
            }
            start.wait();
            joins[0].delete(&id).unwrap();
        });
        let repairs = joins[0].repairs_of(&id).unwrap();
        assert!(repairs.iter().all(|row| row.repair.action == RepairAction::Deleted), "{repairs:?}");
    }
}

fn a_pending_line_comes_before_the_next_append(place: &Place) {
    let (disk, home) = (SimDisk::new(), HomeId::new());
    let join = open_on(place, &disk, home);
    let id = session(&join, "s");
    put(&join, &id, "{\"n\":0}");
    disk.fail_kind_from(CallKind::Append, 0, Fault::Short(3));
    rename(&join, &id, "other").unwrap();
    assert_eq!(lines(&join, &id).len(), 1, "the disk refused the line");
    disk.heal();
    put(&join, &id, "{\"n\":1}");
    let all = lines(&join, &id);
    assert_eq!(all.len(), 3);
    assert!(all[1].contains("\"duolog.renamed\""), "{all:?}");
    join.leave(u64::MAX).unwrap();
    assert_eq!(join.state().read(outbox::count).unwrap(), 0);
}

fn a_log_that_is_locked_during_the_sweep_is_folded_later(place: &Place) {
    let join = open(place);
    let id = session(&join, "s");
    put(&join, &id, "{}");
    // As after a boot that lost the mark.
    let (gone, process) = (id.clone(), join.process());
    place.open().write(duolog_types::Durability::Power, move |tx| behind::clear(tx, &gone, &process, 1)).unwrap();
    let path = place.home().join(row(&join, &id).log_path);
    drop(join);
    let held = std::fs::File::open(&path).unwrap();
    held.lock().unwrap();
    let join = open_with(place, Limits { busy_timeout: std::time::Duration::from_millis(1), ..limits() });
    join.mark_every_log().unwrap();
    assert_eq!(join.catch_up(u64::MAX).unwrap().sessions_behind, 1);
    drop(held);
    let join = open(place);
    assert_eq!(join.catch_up(u64::MAX).unwrap().sessions_behind, 0);
    assert_eq!(join.catalog_row(&id).unwrap().map(|row| row.events), Some(1));
}

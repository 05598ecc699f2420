use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use duolog_join::{CaughtUp, FoldBound, Folder, Join};
use duolog_state::derived::catalog;
use duolog_state::owned::{behind, outbox, seals};
use duolog_state::params;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_types::limits::{FOLD_STEP_SESSIONS, Limits};
use duolog_types::{Durability, Epoch, Position, ProcessId, SessionId};

use crate::kit::{batch, limits, lines, open, open_with, put, rename, session};

on_both_engines!(
    a_smaller_limit_of_appended_lines_changes_no_derived_row,
    a_rebuild_while_writers_run_gives_the_same_rows,
    two_processes_that_fold_at_once_count_nothing_twice,
    a_read_folds_within_its_limit_and_reports_the_rest,
    a_mark_is_deleted_by_its_owner_or_after_its_death,
    more_sessions_than_open_logs_are_all_written_and_folded,
    damaged_lines_are_counted_and_skipped,
    a_fold_that_reaches_the_end_is_one_commit,
    concurrent_folds_leave_no_mark_and_a_complete_chain,
    log_standings_open_no_log,
    many_small_logs_are_folded_in_one_commit,
    a_fold_past_its_deadline_counts_the_remaining_marks,
    a_log_that_is_opened_again_keeps_its_mark,
    outbox_rows_are_deleted_also_if_their_log_was_closed,
    a_loss_that_a_fold_found_is_counted_until_the_log_is_deleted,
    logs_without_a_mark_are_folded_after_a_boot,
);

fn sessions_with_a_line(join: &Join, count: usize) -> Vec<SessionId> {
    let ids: Vec<SessionId> = (0..count).map(|n| session(join, &format!("s-{n:03}"))).collect();
    for id in &ids {
        put(join, id, "{}");
    }
    ids
}

fn many_small_logs_are_folded_in_one_commit(place: &Place) {
    let join = open_with(place, Limits { open_logs_max: 2, ..limits() });
    // The first fold after a boot is not measured.
    join.catch_up(u64::MAX).unwrap();
    let ids = sessions_with_a_line(&join, 40);
    let before = join.state().counters().commits;
    assert_eq!(join.catch_up(u64::MAX).unwrap(), CaughtUp::default());
    assert_eq!(join.state().counters().commits - before, 1);
    let rows = join.state().read(catalog::dump).unwrap();
    assert_eq!(
        rows.iter().map(|row| (&row.session_id, row.events)).collect::<Vec<_>>(),
        ids.iter().map(|id| (id, 1)).collect::<Vec<_>>()
    );
    for id in &ids {
        assert_eq!(join.state().read(|tx| seals::last(tx, id, Epoch(0))).unwrap().unwrap().to_position, Position(3));
    }
    assert_eq!(join.state().read(|tx| behind::sessions(tx, &join.home(), None)).unwrap(), 0);
}

fn a_fold_past_its_deadline_counts_the_remaining_marks(place: &Place) {
    let join = open(place);
    join.catch_up(u64::MAX).unwrap();
    let count = 2 * FOLD_STEP_SESSIONS + 3;
    sessions_with_a_line(&join, count);
    let is_over = || FoldBound::from(u64::MAX).until(Instant::now());
    for left in [count - FOLD_STEP_SESSIONS, 3, 0] {
        let caught_up = join.catch_up(is_over()).unwrap();
        assert_eq!(caught_up.sessions_behind, left as u64);
        assert_eq!(caught_up.is_complete(), left == 0);
    }
    assert_eq!(join.state().read(catalog::dump).unwrap().len(), count);
}

fn a_log_that_is_opened_again_keeps_its_mark(place: &Place) {
    let join = open_with(place, Limits { open_logs_max: 2, ..limits() });
    let ids = sessions_with_a_line(&join, 6);
    let marks = || join.state().read(|tx| behind::of_home(tx, &join.home(), None, 99)).unwrap();
    let (first, commits) = (marks(), join.state().counters().commits);
    assert!(first.iter().all(|mark| mark.process_id == join.process()) && first.len() == 6, "{first:?}");
    for _ in 0..3 {
        for id in &ids {
            put(&join, id, "{}");
        }
    }
    assert_eq!((marks(), join.state().counters().commits), (first, commits), "no append needed a commit");
    join.fold_own(u64::MAX).unwrap();
    assert_eq!(marks(), []);
    put(&join, &ids[0], "{}");
    assert_eq!(marks().len(), 1, "the next burst is marked again");
    // If another process deletes and creates a session again, the mark is deleted with it.
    let other = open(place);
    other.delete(&ids[0]).unwrap();
    session(&other, ids[0].as_str());
    for id in ids.iter().cycle().take(12) {
        put(&join, id, "{}");
    }
    assert_eq!(marks().len(), 6);
    join.leave(0).unwrap();
    assert!(marks().iter().all(|mark| mark.process_id == ProcessId::NOBODY) && marks().len() == 6);
}

fn outbox_rows_are_deleted_also_if_their_log_was_closed(place: &Place) {
    let join = open_with(place, Limits { open_logs_max: 1, ..limits() });
    let ids = sessions_with_a_line(&join, 3);
    for id in &ids {
        rename(&join, id, &format!("{id} renamed")).unwrap();
    }
    assert_eq!(join.state().read(outbox::count).unwrap(), 3);
    join.fold_own(u64::MAX).unwrap();
    assert_eq!(join.state().read(outbox::count).unwrap(), 0);
    for id in &ids {
        assert_eq!(lines(&join, id).len(), 2);
    }
}

fn a_loss_that_a_fold_found_is_counted_until_the_log_is_deleted(place: &Place) {
    let join = open(place);
    let ids = sessions_with_a_line(&join, 3);
    assert_eq!(join.catch_up(u64::MAX).unwrap(), CaughtUp::default());
    std::fs::remove_file(place.home().join("sessions/threads/s-001.jsonl")).unwrap();
    assert_eq!(join.catch_up(u64::MAX).unwrap().sessions_lost, 0, "the log was not examined");
    join.mark_every_log().unwrap();
    for _ in 0..2 {
        let caught_up = join.catch_up(u64::MAX).unwrap();
        assert_eq!((caught_up.sessions_lost, caught_up.bytes_lost, caught_up.sessions_behind), (1, 3, 0));
    }
    assert_eq!(join.catch_up_session(&ids[1]).unwrap().sessions_lost, 1);
    assert_eq!(join.catch_up_session(&ids[0]).unwrap().sessions_lost, 0);
    join.remove_log(&ids[1], None).unwrap();
    assert!(join.catch_up(u64::MAX).unwrap().is_complete());
}

fn logs_without_a_mark_are_folded_after_a_boot(place: &Place) {
    let join = open(place);
    join.catch_up(u64::MAX).unwrap();
    let ids = sessions_with_a_line(&join, 3);
    let taken = join.state().write(Durability::Power, |tx| tx.execute("DELETE FROM behind", params![]));
    assert_eq!(taken.unwrap(), 3, "as a power loss may do");
    drop(join);
    std::fs::write(place.home().join("processes/boot"), "another boot").unwrap();
    let join = open(place);
    let caught_up = join.catch_up(FoldBound::from(u64::MAX).until(Instant::now())).unwrap();
    assert_eq!(caught_up, CaughtUp::default());
    assert_eq!(join.state().read(catalog::dump).unwrap().len(), ids.len());
}

fn a_rebuild_while_writers_run_gives_the_same_rows(place: &Place) {
    let writers = open(place);
    let sessions: Vec<_> = (0..4).map(|n| session(&writers, &format!("s{n}"))).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for id in &sessions {
            let (stop, writers) = (&stop, &writers);
            scope.spawn(move || {
                // Long enough to outlast a rebuild, with a limit for a busy machine.
                for n in 0..5_000 {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    put(writers, id, &format!("{{\"n\":{n},\"timestamp\":\"2026-01-01T00:00:{:02}Z\"}}", n % 60));
                }
            });
        }
        let _folder = Folder::start(&writers).unwrap();
        let operator = open(place);
        for _ in 0..5 {
            operator.state().write(Durability::Process, catalog::clear).unwrap();
            let rebuilt = operator.rebuild(|_| {}).unwrap();
            assert_eq!((rebuilt.sessions, rebuilt.failed.len()), (4, 0));
        }
        stop.store(true, Ordering::SeqCst);
    });
    let reader = open(place);
    assert_eq!(reader.catch_up(u64::MAX).unwrap().bytes_behind, 0);
    let folded = reader.state().read(catalog::dump).unwrap();
    for row in &folded {
        assert_eq!(row.events, lines(&reader, &row.session_id).len() as u64);
    }
    reader.state().write(Durability::Process, catalog::clear).unwrap();
    reader.rebuild(|_| {}).unwrap();
    assert_eq!(reader.state().read(catalog::dump).unwrap(), folded);
}

fn two_processes_that_fold_at_once_count_nothing_twice(place: &Place) {
    // Small steps, so that they meet often.
    let small = Limits { fold_batch_bytes: 64, ..limits() };
    let writer = open_with(place, small);
    let id = session(&writer, "s");
    let many: Vec<String> = (0..500).map(|n| format!("{{\"n\":{n}}}")).collect();
    writer.append(&id, &batch(&many.iter().map(String::as_str).collect::<Vec<_>>()), &crate::kit::PROCESS).unwrap();
    let others: Vec<_> = (0..4).map(|_| open_with(place, small)).collect();
    std::thread::scope(|scope| {
        for other in &others {
            scope.spawn(|| other.fold(&id, u64::MAX).unwrap());
        }
    });
    let row = writer.state().read(|tx| catalog::get(tx, &id)).unwrap().unwrap();
    let end = writer.reader(&id).unwrap().unwrap().stable_end(limits().busy_timeout).unwrap();
    assert_eq!((row.events, row.bytes, row.position), (500, end.0, end));
}

fn a_read_folds_within_its_limit_and_reports_the_rest(place: &Place) {
    let writer = open_with(place, Limits { fold_batch_bytes: 256, ..limits() });
    let id = session(&writer, "s");
    assert_eq!(writer.catch_up(u64::MAX).unwrap().sessions_behind, 0);
    (0..100).for_each(|n| put(&writer, &id, &format!("{{\"n\":{n}}}")));
    let size = writer.log_bytes(&id).unwrap().unwrap();
    let caught_up = writer.catch_up(300).unwrap();
    assert_eq!(caught_up.sessions_behind, 1);
    assert!(caught_up.bytes_behind > 0 && caught_up.bytes_behind <= size - 300, "{caught_up:?} of {size}");
    assert_eq!(writer.catch_up(u64::MAX).unwrap().bytes_behind, 0);
}

fn a_mark_is_deleted_by_its_owner_or_after_its_death(place: &Place) {
    let (a, b) = (open(place), open(place));
    let id = session(&a, "s");
    put(&a, &id, "{}");
    let marks = || b.state().read(|tx| behind::of_session(tx, &id)).unwrap().len();
    b.catch_up(u64::MAX).unwrap();
    assert_eq!(marks(), 1, "a is alive");
    a.catch_up(u64::MAX).unwrap();
    assert_eq!(marks(), 0, "a has folded its lines");
    put(&a, &id, "{}");
    assert_eq!(marks(), 1, "the next burst is marked again");
    drop(a);
    b.catch_up(u64::MAX).unwrap();
    assert_eq!(marks(), 0, "a has exited, and b folded for it");
}

fn log_standings_open_no_log(place: &Place) {
    let join = open(place);
    let (one, two) = (session(&join, "one"), session(&join, "two"));
    put(&join, &one, "{}");
    let standings = |join: &duolog_join::Join| {
        let mut standings = join.log_standings().unwrap();
        standings.retain(|log| log.session == one || log.session == two);
        standings.into_iter().map(|log| (log.session == one, log.folded_to, log.is_marked)).collect::<Vec<_>>()
    };
    assert!(standings(&join).contains(&(true, None, true)), "appended bytes are folded or marked");
    join.catch_up(u64::MAX).unwrap();
    assert!(standings(&join).contains(&(true, Some(Position(3)), false)), "{:?}", standings(&join));
    assert!(standings(&join).contains(&(false, None, false)));
    put(&join, &one, "{}");
    assert!(standings(&join).contains(&(true, Some(Position(3)), true)));
}

/// A command that appends one line and exits makes one commit: rows, seal and mark together.
fn a_fold_that_reaches_the_end_is_one_commit(place: &Place) {
    let join = open(place);
    let id = session(&join, "s");
    let mut end = Position::ZERO;
    // The first creates a seal, the second extends it.
    for line in [r#"{"n":1}"#, r#"{"n":2}"#] {
        put(&join, &id, line);
        end.0 += line.len() as u64 + 1;
        let before = join.state().counters().commits;
        join.fold_own(u64::MAX).unwrap();
        assert_eq!(join.state().counters().commits - before, 1);
        let (row, seal, marks) = join
            .state()
            .read(|tx| {
                let seal = seals::last(tx, &id, Epoch(0))?;
                Ok::<_, duolog_state::Error>((catalog::get(tx, &id)?, seal, behind::of_session(tx, &id)?))
            })
            .unwrap();
        assert_eq!((row.unwrap().position, seal.unwrap().to_position, marks), (end, end, Vec::new()));
    }
    let verified = join.verify(&id, |_, _| {}).unwrap();
    assert_eq!((verified.seals, verified.sealed_to, verified.damaged), (1, end, 0));
}

/// Two processes fold and seal the same lines at once: one is faster, and the other's mark is deleted too.
fn concurrent_folds_leave_no_mark_and_a_complete_chain(place: &Place) {
    let owners: Vec<_> = (0..3).map(|_| open(place)).collect();
    let id = session(&owners[0], "s");
    for round in 0..40 {
        std::thread::scope(|scope| {
            for (n, owner) in owners.iter().enumerate() {
                let id = &id;
                scope.spawn(move || {
                    put(owner, id, &format!("{{\"round\":{round},\"n\":{n}}}"));
                    owner.fold_own(u64::MAX).unwrap();
                });
            }
        });
        // Lines that were appended after an owner's fold were folded by the process that appended them.
        for owner in &owners {
            owner.fold_own(u64::MAX).unwrap();
        }
        assert_eq!(owners[0].state().read(|tx| behind::of_session(tx, &id)).unwrap(), Vec::new(), "round {round}");
    }
    let row = owners[0].catalog_row(&id).unwrap().unwrap();
    assert_eq!(row.events, 120);
    let verified = owners[0].verify(&id, |_, _| {}).unwrap();
    assert_eq!((verified.sealed_to, verified.damaged, verified.unsynced), (verified.end, 0, 0));
}

fn more_sessions_than_open_logs_are_all_written_and_folded(place: &Place) {
    let join = open_with(place, Limits { open_logs_max: 2, ..limits() });
    let sessions: Vec<_> = (0..10).map(|n| session(&join, &format!("s{n}"))).collect();
    for n in 0..3 {
        for id in &sessions {
            put(&join, id, &format!("{{\"n\":{n}}}"));
        }
    }
    assert_eq!(join.catch_up(u64::MAX).unwrap().sessions_behind, 0);
    let rows = join.state().read(catalog::dump).unwrap();
    assert_eq!(rows.iter().map(|row| row.events).collect::<Vec<_>>(), [3; 10]);
}

fn damaged_lines_are_counted_and_skipped(place: &Place) {
    let join = open(place);
    let id = session(&join, "s");
    put(&join, &id, "{\"n\":1}");
    drop(join);
    let file = place.home().join("sessions/threads/s.jsonl");
    let mut text = std::fs::read(&file).unwrap();
    text.extend_from_slice(b"\0\0\0\0\nnot json\n{\"half\":\xff}\n{\"n\":2}\n");
    std::fs::write(&file, text).unwrap();
    let join = open(place);
    put(&join, &id, "{\"n\":3}");
    join.catch_up(u64::MAX).unwrap();
    let row = join.state().read(|tx| catalog::get(tx, &id)).unwrap().unwrap();
    assert_eq!((row.events, row.damaged), (3, 3));
    let verified = join.verify(&id, |_, _| {}).unwrap();
    assert_eq!((verified.events, verified.places.len()), (3, 3));
    assert!(verified.places.iter().all(|place| place.from > Position::ZERO));
}

fn a_smaller_limit_of_appended_lines_changes_no_derived_row(place: &Place) {
    let writer = open(place);
    let id = session(&writer, "s");
    put(&writer, &id, &format!("{{\"text\":\"{}\"}}", "x".repeat(5000)));
    let limited = open_with(place, Limits { line_bytes_max: 1024, ..limits() });
    limited.catch_up(u64::MAX).unwrap();
    let counts = |join: &Join| join.catalog_row(&id).unwrap().map(|row| (row.events, row.damaged));
    assert_eq!(counts(&writer), Some((1, 0)), "folded with a smaller limit");
    limited.rebuild(|_| {}).unwrap();
    assert_eq!(counts(&writer), Some((1, 0)), "rebuilt with a smaller limit");
    let verified = limited.verify(&id, |_, _| {}).unwrap();
    assert_eq!((verified.events, verified.damaged), (1, 0));
}

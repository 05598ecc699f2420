use std::sync::Arc;

use duolog_join::Join;
use duolog_log::dialect::prices::Prices;
use duolog_log::dialect::usage::UsageFold;
use duolog_state::derived::catalog::{self, CatalogRow};
use duolog_state::derived::digests::{self, DigestRow};
use duolog_state::derived::responses::{self, Owner};
use duolog_state::derived::usage_by_quarter::{self, UsageFilter, UsageRow};
use duolog_state::params;
use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_testkit::transcripts::{self, Cut, GeneratedLog};
use duolog_types::limits::Limits;
use duolog_types::{Durability, SessionId};

use crate::kit::{PROCESS, batch, limits, open, open_with, put, session, while_held};

on_both_engines!(
    small_steps_equal_one_step_and_a_rebuild,
    rows_of_an_older_fold_are_rebuilt_by_a_read,
    rows_of_an_older_fold_advance_until_they_are_rebuilt,
    a_replaced_log_is_counted_again,
    four_folds_at_once_count_everything_once,
    responses_copied_by_a_resumed_session_are_counted_once,
    two_copies_folded_at_once_count_each_response_once,
    a_fork_counts_its_own_responses_in_any_order,
    forks_of_an_absent_parent_count_its_usage_once,
    the_largest_count_of_a_response_wins_across_logs,
    a_result_counts_once_across_logs,
    a_result_of_a_resumed_session_counts_beside_the_first,
    what_a_stopped_process_told_counts_beside_the_result_of_the_next,
    parts_of_a_stream_count_once_beside_the_whole,
    a_thread_of_codex_exec_counts_once_across_logs,
    the_log_that_remains_counts_the_result,
    two_recordings_folded_at_once_count_each_result_once
);

type Rows = (Vec<CatalogRow>, Vec<DigestRow>, Vec<UsageRow>, Vec<(u64, Owner)>);

fn rows(join: &Join) -> Rows {
    let dump = |tx: &mut duolog_state::Tx<'_>| {
        let rows = (catalog::dump(tx)?, digests::dump(tx)?, usage_by_quarter::dump(tx)?, responses::dump(tx)?);
        Ok::<_, duolog_state::Error>(rows)
    };
    join.state().read(dump).expect("reads")
}

fn made() -> Vec<(&'static str, GeneratedLog)> {
    vec![
        ("claude", transcripts::claude(5, 6)),
        ("codex", transcripts::codex(6, 5, true)),
        ("envelope", transcripts::envelope(7, 5)),
        ("turns", transcripts::turns(8, 3, Cut::Nothing)),
    ]
}

fn write(join: &Join, id: &SessionId, made: &GeneratedLog) {
    let lines: Vec<&str> = made.lines.iter().map(String::as_str).collect();
    join.append(id, &batch(&lines), &PROCESS).expect("appended");
}

/// Returns the usage of a session: responses and output.
fn used(join: &Join, id: &SessionId) -> (u64, u64) {
    let usage = rows(join).2;
    let whole = usage.iter().filter(|row| row.session_id == *id && !row.charge.is_part());
    whole.fold((0, 0), |(responses, output), row| (responses + row.used.responses, output + row.used.output))
}

fn small_steps_equal_one_step_and_a_rebuild(place: &Place) {
    // Every step is a line or two.
    let join = open_with(place, Limits { fold_batch_bytes: 1, ..limits() });
    for (dialect, made) in made() {
        let id = session(&join, dialect);
        write(&join, &id, &made);
        join.fold(&id, u64::MAX).expect("folds");
        let row = join.state().read(|tx| catalog::get(tx, &id)).expect("reads").expect("folded");
        assert_eq!(row.dialect.as_deref(), Some(dialect));
        assert_eq!(row.model.as_deref(), Some(made.model.as_str()));
        assert!(row.title.is_some(), "{dialect}");
        assert_eq!(used(&join, &id), (made.responses, made.tokens.output), "{dialect}");
    }
    let folded = rows(&join);
    let rebuilt = open(place);
    assert!(rebuilt.rebuild(|_| {}).expect("rebuilds").failed.is_empty());
    assert_eq!(rows(&rebuilt), folded);
}

/// Makes every row one of an older fold.
fn age(join: &Join) {
    let aged = join.state().write(Durability::Process, |tx| {
        tx.execute("UPDATE catalog SET fold_version = 0, title = NULL, model = NULL, dialect = NULL", params![])?;
        tx.execute("DELETE FROM digests", params![])?;
        tx.execute("DELETE FROM usage_by_quarter", params![])?;
        Ok::<_, duolog_state::Error>(())
    });
    aged.expect("writes");
}

fn aged(place: &Place) -> (Arc<Join>, SessionId, GeneratedLog, Rows) {
    let join = open(place);
    let (id, made) = (session(&join, "s"), transcripts::claude(3, 5));
    write(&join, &id, &made);
    join.catch_up(u64::MAX).expect("folds");
    let before = rows(&join);
    age(&join);
    (join, id, made, before)
}

fn rows_of_an_older_fold_are_rebuilt_by_a_read(place: &Place) {
    let (join, id, _, before) = aged(place);
    let size = join.log_bytes(&id).expect("looks").expect("a file");
    let left = join.catch_up(size - 1).expect("reads");
    assert_eq!((left.sessions_behind, left.bytes_behind), (1, size), "too much for this read, and reported");
    assert_eq!(join.catch_up(size).expect("reads").bytes_behind, 0);
    assert_eq!(rows(&join), before);
}

fn rows_of_an_older_fold_advance_until_they_are_rebuilt(place: &Place) {
    let (join, id, made, before) = aged(place);
    put(&join, &id, "{\"n\":1}");
    join.fold(&id, u64::MAX).expect("folds");
    let row = join.state().read(|tx| catalog::get(tx, &id)).expect("reads").expect("folded");
    assert_eq!((row.events, row.fold_version), (made.lines.len() as u64 + 1, 0));
    assert_eq!(used(&join, &id), (0, 0), "a part would be wrong");
    join.catch_up(u64::MAX).expect("reads");
    assert_eq!(used(&join, &id), (made.responses, made.tokens.output));
    assert_eq!(rows(&join).2, before.2);
}

fn a_replaced_log_is_counted_again(place: &Place) {
    let join = open(place);
    let (id, other) = (session(&join, "s"), transcripts::codex(2, 2, false));
    write(&join, &id, &transcripts::claude(3, 5));
    join.catch_up(u64::MAX).expect("folds");
    drop(join);
    std::fs::write(place.home().join("sessions/threads/s.jsonl"), other.text()).expect("replaced");
    let join = open(place);
    join.fold(&id, u64::MAX).expect("folds");
    assert_eq!(used(&join, &id), (other.responses, other.tokens.output));
    let total = join.state().read(|tx| usage_by_quarter::total(tx, &UsageFilter::default())).expect("reads");
    assert!(total.iter().all(|sum| sum.model == other.model), "{total:?}");
}

fn four_folds_at_once_count_everything_once(place: &Place) {
    let small = Limits { fold_batch_bytes: 512, ..limits() };
    let join = open_with(place, small);
    let (id, made) = (session(&join, "s"), transcripts::claude(9, 12));
    write(&join, &id, &made);
    let others: Vec<_> = (0..4).map(|_| open_with(place, small)).collect();
    std::thread::scope(|scope| {
        for other in &others {
            scope.spawn(|| other.fold(&id, u64::MAX).expect("folds"));
        }
    });
    assert_eq!(used(&join, &id), (made.responses, made.tokens.output));
    let folded = rows(&join);
    join.rebuild(|_| {}).expect("rebuilds");
    assert_eq!(rows(&join), folded);
}

/// Creates a session and one that was resumed from it by copying all but its last lines, each with its own lines.
fn resumed(join: &Join) -> [(SessionId, GeneratedLog); 2] {
    let first = transcripts::claude(3, 5);
    let mut second = transcripts::claude(4, 3);
    second.lines.splice(0..0, first.lines.iter().take(first.lines.len() * 2 / 3).cloned());
    [("first", first), ("second", second)].map(|(name, made)| (session(join, name), made))
}

/// Returns the responses of all sessions, counted by a single fold of all their lines.
fn responses_of(sessions: &[(SessionId, GeneratedLog)]) -> u64 {
    let mut fold = UsageFold::default();
    sessions.iter().flat_map(|(_, made)| &made.lines).for_each(|line| fold.line(line));
    fold.report(&Prices::builtin()).models.iter().map(|model| model.responses).sum()
}

fn responses_copied_by_a_resumed_session_are_counted_once(place: &Place) {
    let join = open(place);
    let sessions = resumed(&join);
    let [(first, original), (second, copy)] = &sessions;
    let all = responses_of(&sessions);
    // The copy is folded first, so it counts all its responses.
    write(&join, second, copy);
    join.catch_up(u64::MAX).expect("folds");
    let alone = used(&join, second).0;
    assert!(alone > copy.responses, "with the copied responses");
    // The original has the smaller id: it takes over its responses.
    write(&join, first, original);
    join.catch_up(u64::MAX).expect("folds");
    assert_eq!(used(&join, first), (original.responses, original.tokens.output));
    assert_eq!(used(&join, first).0 + used(&join, second).0, all);
    let folded = rows(&join);
    assert!(folded.0.iter().any(|row| row.session_id == *second && row.shared > 0));
    join.rebuild(|_| {}).expect("rebuilds");
    assert_eq!(rows(&join), folded, "the order of the folds does not matter");
    // After the original is deleted, the copy counts its responses.
    join.delete(first).expect("deleted");
    join.catch_up(u64::MAX).expect("folds");
    assert_eq!(used(&join, second).0, alone);
    assert!(rows(&join).0.iter().all(|row| row.shared == 0));
}

fn two_copies_folded_at_once_count_each_response_once(place: &Place) {
    let small = Limits { fold_batch_bytes: 700, ..limits() };
    let join = open_with(place, small);
    let sessions = resumed(&join);
    let all = responses_of(&sessions);
    for (id, made) in &sessions {
        write(&join, id, made);
    }
    let others: Vec<_> = (0..4).map(|_| open_with(place, small)).collect();
    std::thread::scope(|scope| {
        for (at, other) in others.iter().enumerate() {
            let id = &sessions[at % 2].0;
            scope.spawn(move || other.fold(id, u64::MAX).expect("folds"));
        }
    });
    join.catch_up(u64::MAX).expect("folds");
    assert_eq!(sessions.iter().map(|(id, _)| used(&join, id).0).sum::<u64>(), all);
    let folded = rows(&join);
    join.rebuild(|_| {}).expect("rebuilds");
    assert_eq!(rows(&join), folded);
}

/// Returns a line with the totals of a Codex session.
fn total(at: &str, input: u64, last: u64) -> String {
    let used = |input: u64| format!(r#"{{"input_tokens":{input},"output_tokens":{}}}"#, input / 10);
    let (total, last) = (used(input), used(last));
    format!(
        r#"{{"timestamp":"{at}","type":"event_msg","payload":{{"type":"token_count","info":{{"total_token_usage":{total},"last_token_usage":{last}}}}}}}"#
    )
}

fn rollout(id: &str, parent: Option<&str>, lines: &[String]) -> Vec<String> {
    let parent = parent.map(|parent| format!(r#","forked_from_id":"{parent}""#)).unwrap_or_default();
    let meta =
        format!(r#"{{"timestamp":"2026-01-02T00:00:00Z","type":"session_meta","payload":{{"id":"{id}"{parent}}}}}"#);
    std::iter::once(meta).chain(lines.iter().cloned()).collect()
}

/// Writes logs in this order, folding after each. Returns the output that each counts, by name. A rebuild and a fold
/// line by line must give the same.
fn outputs(place: &Place, logs: &[(&str, Vec<String>)]) -> Vec<(String, u64)> {
    let join = open_with(place, Limits { fold_batch_bytes: 1, ..limits() });
    for (name, lines) in logs {
        let id = session(&join, name);
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        join.append(&id, &batch(&lines), &PROCESS).expect("appended");
        assert!(join.catch_up(u64::MAX).expect("folds").is_complete());
    }
    let folded = rows(&join);
    join.rebuild(|_| {}).expect("rebuilds");
    assert_eq!(rows(&join), folded);
    let mut found: Vec<_> = logs.iter().map(|(name, _)| ((*name).to_owned(), used(&join, &id_of(name)).1)).collect();
    found.sort();
    for (name, _) in logs {
        join.delete(&id_of(name)).expect("deleted");
    }
    found
}

fn id_of(name: &str) -> SessionId {
    SessionId::parse(name).expect("an id")
}

fn named(found: &[(&str, u64)]) -> Vec<(String, u64)> {
    found.iter().map(|(name, output)| ((*name).to_owned(), *output)).collect()
}

fn a_fork_counts_its_own_responses_in_any_order(place: &Place) {
    let totals =
        |day: &str| [total(&format!("{day}T00:00:07Z"), 100, 100), total(&format!("{day}T00:00:19Z"), 300, 200)];
    let parent = rollout("p", None, &totals("2026-01-01"));
    let mut replay = totals("2026-01-02").to_vec();
    replay.push(total("2026-01-02T00:01:00Z", 350, 50));
    let fork = rollout("f", Some("p"), &replay);
    // The parent counts its responses, also if the fork's id is smaller or the fork is folded first.
    for [first, second] in [["a", "b"], ["c", "d"]] {
        let found = outputs(place, &[(second, parent.clone()), (first, fork.clone())]);
        assert_eq!(found, named(&[(first, 5), (second, 30)]));
        let (third, fourth) = (format!("{first}2"), format!("{second}2"));
        let found = outputs(place, &[(&third, fork.clone()), (&fourth, parent.clone())]);
        assert_eq!(found, named(&[(&third, 5), (&fourth, 30)]));
    }
}

fn forks_of_an_absent_parent_count_its_usage_once(place: &Place) {
    let fork = |id: &str, own: u64| {
        let replay = [total("2026-01-02T00:00:07Z", 100, 100), total("2026-01-02T00:00:07Z", 300, 200)];
        rollout(id, Some("p"), &[replay.as_slice(), &[total("2026-01-02T00:01:00Z", 300 + own, own)]].concat())
    };
    assert_eq!(outputs(place, &[("a", fork("f", 50))]), named(&[("a", 35)]));
    assert_eq!(outputs(place, &[("b", fork("f", 50)), ("c", fork("g", 70))]), named(&[("b", 35), ("c", 7)]));
    assert_eq!(outputs(place, &[("e", fork("f", 50)), ("d", fork("g", 70))]), named(&[("d", 37), ("e", 5)]));
}

fn the_largest_count_of_a_response_wins_across_logs(place: &Place) {
    let log_of = |outputs: &[u64]| -> Vec<String> {
        let line = |output: &u64| {
            format!(
                r#"{{"type":"assistant","requestId":"r","timestamp":"2026-01-01T00:00:00Z","message":{{"id":"m","model":"claude-opus-4-8","content":[],"usage":{{"input_tokens":1,"output_tokens":{output}}}}}}}"#
            )
        };
        outputs.iter().map(line).collect()
    };
    assert_eq!(outputs(place, &[("a", log_of(&[5])), ("b", log_of(&[5, 90]))]), named(&[("a", 0), ("b", 90)]));
    assert_eq!(outputs(place, &[("d", log_of(&[5, 90])), ("c", log_of(&[5]))]), named(&[("c", 0), ("d", 90)]));
    assert_eq!(
        outputs(place, &[("e", log_of(&[7])), ("f", log_of(&[7]))]),
        named(&[("e", 7), ("f", 0)]),
        "of equal counts the smaller id"
    );
    // One log has the smaller and the larger count, the other has one between them.
    assert_eq!(outputs(place, &[("g", log_of(&[5, 90])), ("h", log_of(&[40]))]), named(&[("g", 90), ("h", 0)]));
    assert_eq!(outputs(place, &[("i", log_of(&[40])), ("j", log_of(&[5, 90, 5]))]), named(&[("i", 0), ("j", 90)]));
}

/// A message of a stream, of which a line knows only the first token.
fn message(session: &str, id: &str) -> String {
    format!(
        r#"{{"type":"assistant","session_id":"{session}","uuid":"u-{id}","parent_tool_use_id":null,"timestamp":"2026-01-01T00:00:00Z","message":{{"id":"{id}","model":"claude-opus-4-8","content":[],"usage":{{"input_tokens":7,"output_tokens":1}}}}}}"#
    )
}

/// The result of a turn, which took this much; without an id it is known by how long it took.
fn result(session: &str, id: Option<&str>, took_ms: u64, output: u64) -> String {
    let id = id.map(|id| format!(r#","uuid":"{id}""#)).unwrap_or_default();
    format!(
        r#"{{"type":"result","subtype":"success","session_id":"{session}"{id},"duration_ms":{took_ms},"num_turns":1,"total_cost_usd":0.5,"timestamp":"2026-01-01T00:00:01Z","usage":{{"input_tokens":14,"output_tokens":{output}}}}}"#
    )
}

fn init(session: &str) -> String {
    format!(
        r#"{{"type":"system","subtype":"init","session_id":"{session}","uuid":"u-init","model":"claude-opus-4-8","tools":[]}}"#
    )
}

/// A stream of one turn of two messages.
fn stream(id: Option<&str>) -> Vec<String> {
    vec![init("s"), message("s", "m1"), message("s", "m2"), result("s", id, 4200, 90)]
}

fn a_result_counts_once_across_logs(place: &Place) {
    for (prefix, id) in [("i", Some("r")), ("n", None)] {
        let whole = stream(id);
        // What the other log has of the stream. The log with more of it counts it; the names decide between equal ones.
        let parts = [
            ("whole", whole.clone()),
            ("cut", whole[..3].to_vec()),
            ("first", whole[..2].to_vec()),
            ("half", whole[2..].to_vec()),
            ("result", whole[3..].to_vec()),
            ("twice", [whole.clone(), whole.clone()].concat()),
        ];
        for (part, lines) in &parts {
            for (whole_name, part_name) in [("1", "2"), ("2", "1")] {
                for is_first in [true, false] {
                    let [one, other] = [whole_name, part_name].map(|name| format!("{prefix}-{part}-{is_first}-{name}"));
                    let is_equal = matches!(*part, "whole" | "twice");
                    let counts = if is_equal { one.clone().min(other.clone()) } else { one.clone() };
                    let mut logs = [(&*one, whole.clone()), (&*other, lines.clone())];
                    if !is_first {
                        logs.reverse();
                    }
                    let found = outputs(place, &logs);
                    assert!(
                        found.iter().all(|(name, output)| *output == if *name == counts { 90 } else { 0 }),
                        "{found:?}"
                    );
                }
            }
        }
    }
}

fn a_result_of_a_resumed_session_counts_beside_the_first(place: &Place) {
    let first = stream(Some("r1"));
    let resumed = |id| vec![init("s"), message("s", "m3"), result("s", id, 900, 90)];
    let second = resumed(Some("r2"));
    assert_eq!(outputs(place, &[("a", first.clone()), ("b", second.clone())]), named(&[("a", 90), ("b", 90)]));
    assert_eq!(outputs(place, &[("c", [first, second].concat())]), named(&[("c", 180)]));
    let (first, second) = (stream(None), resumed(None));
    assert_eq!(outputs(place, &[("d", first.clone()), ("e", second.clone())]), named(&[("d", 90), ("e", 90)]));
    assert_eq!(outputs(place, &[("f", [first, second].concat())]), named(&[("f", 180)]));
    // Two sessions of the agent are recorded in one log at the same time.
    let mixed = [message("s", "m1"), message("t", "n1"), result("s", Some("r1"), 1, 90), message("t", "n2")];
    assert_eq!(outputs(place, &[("g", mixed.to_vec())]), named(&[("g", 92)]));
    let both = [&mixed[..], &[result("t", Some("r2"), 1, 90)]].concat();
    assert_eq!(outputs(place, &[("h", both)]), named(&[("h", 180)]));
}

fn what_a_stopped_process_told_counts_beside_the_result_of_the_next(place: &Place) {
    let stopped = [init("s"), message("s", "m1"), message("s", "m2"), message("s", "m3")];
    let resumed = [init("s"), message("s", "m4"), result("s", Some("r"), 900, 90)];
    assert_eq!(outputs(place, &[("a", [&stopped[..], &resumed].concat())]), named(&[("a", 93)]));
    assert_eq!(outputs(place, &[("b", stopped.to_vec()), ("c", resumed.to_vec())]), named(&[("b", 3), ("c", 90)]));
}

/// A process that answers several prompts tells totals that run up; the log that has all of them counts all of them.
fn parts_of_a_stream_count_once_beside_the_whole(place: &Place) {
    let made = transcripts::claude_stream(3, 3);
    let said = |line: &&String| !line.contains("stream_event");
    let lines: Vec<String> = made.lines.iter().filter(said).cloned().collect();
    for (at, cut) in (1..lines.len()).step_by(3).enumerate() {
        let [whole, start, end] = ["w", "s", "e"].map(|name| format!("{name}{at}"));
        let parts = [(&*start, lines[..cut].to_vec()), (&*whole, lines.clone()), (&*end, lines[cut..].to_vec())];
        // Of equal parts the smaller name counts; together it is always the whole.
        let found = outputs(place, &parts);
        assert_eq!(found.iter().map(|(_, output)| output).sum::<u64>(), made.tokens.output, "cut at {cut}: {found:?}");
    }
}

fn turn_of(total: u64) -> String {
    format!(r#"{{"type":"turn.completed","usage":{{"input_tokens":{total},"output_tokens":{total}}}}}"#)
}

fn thread(id: &str, totals: &[u64]) -> Vec<String> {
    let turns = totals.iter().map(|total| turn_of(*total));
    std::iter::once(format!(r#"{{"type":"thread.started","thread_id":"{id}"}}"#)).chain(turns).collect()
}

fn a_thread_of_codex_exec_counts_once_across_logs(place: &Place) {
    let whole = thread("t", &[10, 30]);
    assert_eq!(outputs(place, &[("a", whole.clone()), ("b", whole.clone())]), named(&[("a", 30), ("b", 0)]));
    assert_eq!(outputs(place, &[("d", whole.clone()), ("c", whole.clone())]), named(&[("c", 30), ("d", 0)]));
    let cut = thread("t", &[10]);
    assert_eq!(outputs(place, &[("e", cut.clone()), ("f", whole.clone())]), named(&[("e", 0), ("f", 30)]));
    assert_eq!(outputs(place, &[("h", whole.clone()), ("g", cut.clone())]), named(&[("g", 0), ("h", 30)]));
    // Resumed in another log, the thread's totals hold what was told before.
    let resumed = thread("t", &[70]);
    assert_eq!(outputs(place, &[("i", whole.clone()), ("j", resumed)]), named(&[("i", 0), ("j", 70)]));
    let other = thread("u", &[10, 30]);
    assert_eq!(outputs(place, &[("k", whole.clone()), ("l", other.clone())]), named(&[("k", 30), ("l", 30)]));
    // A log that comes back to a thread goes on with its totals.
    let back = [whole, other, thread("t", &[35])].concat();
    assert_eq!(outputs(place, &[("m", back)]), named(&[("m", 65)]));
}

fn the_log_that_remains_counts_the_result(place: &Place) {
    let join = open(place);
    let all = [("a", stream(Some("r"))), ("b", stream(Some("r"))), ("c", stream(Some("r"))[..3].to_vec())];
    for (name, lines) in &all {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        join.append(&session(&join, name), &batch(&lines), &PROCESS).expect("appended");
    }
    let counted = || {
        assert!(join.catch_up(u64::MAX).expect("folds").is_complete());
        ["a", "b", "c"].map(|name| used(&join, &id_of(name)).1)
    };
    assert_eq!(counted(), [90, 0, 0]);
    join.remove_log(&id_of("a"), None).expect("deleted");
    assert_eq!(counted(), [0, 90, 0]);
    join.delete(&id_of("b")).expect("deleted");
    assert_eq!(counted(), [0, 0, 2], "the messages are all that is left");
}

fn two_recordings_folded_at_once_count_each_result_once(place: &Place) {
    let small = Limits { fold_batch_bytes: 700, ..limits() };
    let join = open_with(place, small);
    let made = transcripts::claude_stream(5, 4);
    let sessions = ["first", "second", "third"].map(|name| session(&join, name));
    write(&join, &sessions[0], &made);
    write(&join, &sessions[1], &made);
    let half = GeneratedLog { lines: made.lines[made.lines.len() / 2..].to_vec(), ..made.clone() };
    write(&join, &sessions[2], &half);
    let others: Vec<_> = (0..6).map(|_| open_with(place, small)).collect();
    std::thread::scope(|scope| {
        for (at, other) in others.iter().enumerate() {
            let id = &sessions[at % 3];
            scope.spawn(move || other.fold(id, u64::MAX).expect("folds"));
        }
    });
    assert!(join.catch_up(u64::MAX).expect("folds").is_complete());
    assert_eq!(sessions.each_ref().map(|id| used(&join, id).1), [made.tokens.output, 0, 0]);
    let folded = rows(&join);
    join.rebuild(|_| {}).expect("rebuilds");
    assert_eq!(rows(&join), folded);
}

/// A copy is folded while its original is deleted: the copy counts the responses that no session counts any more,
/// whichever ends first.
#[test]
fn a_copy_counts_the_responses_of_its_deleted_original() {
    let place = Place::postgres();
    let database = place.database().expect("a database");
    let join = open(&place);
    let made = transcripts::claude(3, 5);
    let [first, second] = ["first", "second"].map(|name| session(&join, name));
    write(&join, &first, &made);
    write(&join, &second, &made);
    join.fold(&first, u64::MAX).expect("folds");
    let (folder, deleter) = (open(&place), open(&place));
    let until = |sql: &str| while database.run_sql(sql).expect("asks") != "t" {};
    let waiting =
        "(SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')";
    std::thread::scope(|scope| {
        // When the fold waits for this table, it has read the owners.
        while_held(&place, "digests", || {
            scope.spawn(|| folder.fold(&second, u64::MAX).expect("folds"));
            until(&format!("SELECT {waiting} = 1"));
            scope.spawn(|| deleter.delete(&first).expect("deleted"));
            // The deletion is committed, or waits for the fold.
            until(&format!("SELECT {waiting} = 2 OR NOT EXISTS (SELECT 1 FROM responses WHERE session_id = 'first')"));
        });
    });
    join.catch_up(u64::MAX).expect("folds");
    assert_eq!(used(&join, &second), (made.responses, made.tokens.output));
}

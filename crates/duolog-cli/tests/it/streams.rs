use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_testkit::transcripts::{self, GeneratedLog};
use serde_json::Value;

use crate::kit::{Kit, lines_of};

on_both_engines!(
    a_stream_that_is_piped_in_is_replayed_counted_and_found,
    a_stream_in_two_sessions_is_counted_once,
    a_phase_without_a_session_counts_by_the_log_of_its_run
);

fn both() -> [(&'static str, GeneratedLog); 2] {
    [("claude", transcripts::claude_stream(1, 2)), ("codex", transcripts::codex_exec(2, 2))]
}

fn a_stream_that_is_piped_in_is_replayed_counted_and_found(place: &Place) {
    let kit = Kit::on(place);
    for (name, made) in both() {
        let record = ["log", "record", "--session", name, "--model", "gpt-5.2-codex", "--operation-id", name, "--json"];
        let ran = kit.feed(&record, made.text().as_bytes()).is(0);
        assert_eq!(ran.field("/unknown_lines"), 0, "{name}");
        let lines = lines_of(&kit.log_of(name));
        let again = kit.feed(&record, made.text().as_bytes()).is(0);
        assert_eq!(lines_of(&kit.log_of(name)), lines, "a retry adds nothing: {}", again.text());
        let replayed = kit.run(&["log", "replay", name, "--verbose"]).is(0).text();
        for shown in ["$ cargo test", "1 test failed", "Bug 1 is fixed.", "turn 2"] {
            assert!(replayed.contains(shown), "{shown}: {replayed}");
        }
        assert!(!replayed.contains("incomplete"), "{replayed}");
        let found = kit.run(&["log", "search", "fixed", "--session", name, "--json"]).is(0);
        assert!(found.text().contains("Bug 1 is fixed."), "{}", found.text());
    }
    let usage = kit.run(&["usage", "session", "--json"]).is(0);
    let sessions = usage.field("/sessions");
    for (name, made) in both() {
        let line = sessions.as_array().expect("a list").iter().find(|line| line["session_name"] == name).expect(name);
        assert_eq!(line["tokens"], made.tokens.total(), "{name}");
        if name == "claude" {
            let cents = |dollars: f64| (dollars * 100.0).round();
            let stated: f64 = made.cost.to_string().parse().expect("a number");
            assert_eq!(line["cost_usd"].as_f64().map(cents), Some(cents(stated)));
        }
    }
    let days = kit.run(&["usage", "daily", "--json"]).is(0);
    assert!(
        days.field("/days/0/day").is_string(),
        "lines without a time count when they were appended: {}",
        days.text()
    );
}

/// The tokens and the cost of all.
fn totals(kit: &Kit) -> (Value, Value) {
    let usage = kit.run(&["usage", "daily", "--json"]).is(0);
    (usage.field("/totals/tokens"), usage.field("/totals/cost_usd"))
}

fn a_stream_in_two_sessions_is_counted_once(place: &Place) {
    for (name, made) in both() {
        let kit = Kit::on(place);
        let record = |session: &str, lines: &[String]| {
            let text = lines.join("\n") + "\n";
            kit.feed(&["log", "record", "--session", session, "--model", "gpt-5.2-codex"], text.as_bytes()).is(0);
        };
        record("m", &made.lines);
        let once = totals(&kit);
        assert_eq!(once.0, made.tokens.total(), "{name}");
        record("m", &made.lines);
        assert_eq!(totals(&kit), once, "{name}: twice in one session");
        for session in ["a", "z"] {
            record(session, &made.lines);
            assert_eq!(totals(&kit), once, "{name}: in session {session}");
        }
        record("cut", &made.lines[..made.lines.len() / 2]);
        assert_eq!(totals(&kit), once, "{name}: the first half");
        kit.run(&["sessions", "delete", "a", "--yes"]).is(0);
        assert_eq!(totals(&kit), once, "{name}: without the session that counted it");
        kit.run(&["sessions", "delete", "m", "--log", "--yes"]).is(0);
        assert_eq!(totals(&kit), once, "{name}: without another log");
        kit.run(&["state", "rebuild"]).is(0);
        assert_eq!(totals(&kit), once, "{name}: rebuilt");
        kit.run(&["sessions", "delete", "z", "--yes"]).is(0);
        kit.run(&["sessions", "delete", "cut", "--yes"]).is(0);
        assert_eq!(totals(&kit).0, 0);
        kit.run(&["sessions", "delete", "m", "--yes"]).is(0);
    }
}

fn a_phase_without_a_session_counts_by_the_log_of_its_run(place: &Place) {
    let kit = Kit::on(place);
    let made = transcripts::claude_stream(1, 2);
    let started = kit.run(&["runs", "start", "build", "--trigger", "t", "--id", "r", "--owner", "w", "--json"]).is(0);
    let session = started.field("/run/session_id");
    let (session, fence) = (session.as_str().expect("a session"), started.field("/fence").to_string());
    let phase = |name: &str, more: &[&str]| {
        let begun = kit.run(&["runs", "phase", "begin", "r", name, "--fence", &fence, "--json"]).is(0);
        let execution = begun.field("/execution_id");
        let end = ["runs", "phase", "end", "r", execution.as_str().expect("an id"), "--fence", &fence];
        kit.run(&[&end[..], &["--cost-usd", "3", "--output-tokens", "5"], more].concat()).is(0);
    };
    phase("before", &[]);
    assert_eq!(totals(&kit), (5.into(), 3.into()), "no log tells what it used");
    kit.feed(&["log", "record", "--session", session], made.text().as_bytes()).is(0);
    let told = totals(&kit);
    assert_eq!(told.0, made.tokens.total(), "the log of the run tells it");
    phase("after", &[]);
    assert_eq!(totals(&kit), told);
    let by_workflow = kit.run(&["usage", "workflow", "--json"]).is(0);
    assert_eq!(by_workflow.field("/workflows/0/workflow_name"), "build", "{}", by_workflow.text());
    assert_eq!(by_workflow.field("/workflows").as_array().map(Vec::len), Some(1), "{}", by_workflow.text());
    // A session of its own, whose log tells nothing.
    kit.append("own", "{\"n\":1}\n");
    phase("own", &["--session", "own"]);
    assert_eq!(totals(&kit).0, made.tokens.total() + 5);
}

#[test]
fn unknown_lines_are_kept_counted_and_reported() {
    let kit = Kit::new();
    let input = "{\"type\":\"thread.started\",\"thread_id\":\"t\"}\n{\"type\":\"mystery\",\"n\":1}\nnot JSON\n{\"type\":\"turn.comp";
    let ran = kit.feed(&["log", "record", "--session", "demo", "--json"], input.as_bytes()).is(0);
    assert_eq!((ran.field("/unknown_lines"), ran.field("/appended")), (3.into(), 4.into()));
    ran.says("3 lines of unknown format; kept unchanged");
    let lines = lines_of(&kit.log_of("demo")).join("\n");
    assert!(lines.contains("mystery") && lines.contains("not JSON") && lines.contains("turn.comp"), "{lines}");
}

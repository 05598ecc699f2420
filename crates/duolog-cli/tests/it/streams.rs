use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_testkit::transcripts::{self, GeneratedLog};

use crate::kit::{Kit, lines_of};

on_both_engines!(a_stream_that_is_piped_in_is_replayed_counted_and_found);

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

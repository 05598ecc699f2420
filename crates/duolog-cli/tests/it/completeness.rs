use std::fs;

use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use crate::kit::{Kit, Ran};

on_both_engines!(an_answer_that_is_not_complete_says_so, a_large_append_is_counted_to_its_end);

/// Returns a response line with this many bytes of text.
fn response(number: usize, bytes: usize) -> String {
    format!(
        "{{\"type\":\"assistant\",\"requestId\":\"r{number}\",\"timestamp\":\"2026-05-01T10:00:00Z\",\"message\":{{\"id\":\"m{number}\",\
         \"model\":\"claude-opus-4-8\",\"content\":[{{\"type\":\"text\",\"text\":\"{}\"}}],\"usage\":{{\"input_tokens\":1000}}}}}}\n",
        "x".repeat(bytes)
    )
}

fn limit(kit: &Kit, text: &str) {
    fs::create_dir_all(kit.home().join("config")).expect("made");
    fs::write(kit.home().join("config/duolog.toml"), text).expect("written");
}

const REPORTS: [&[&str]; 7] = [
    &["usage", "daily"],
    &["usage", "session"],
    &["usage", "model"],
    &["usage", "workflow"],
    &["sessions", "list"],
    &["sessions", "show", "demo"],
    &["state", "stats"],
];

fn asked(kit: &Kit, report: &[&str], more: &[&str]) -> Ran {
    kit.run(&[report, more].concat()).is(0)
}

fn an_answer_that_is_not_complete_says_so(place: &Place) {
    let kit = Kit::on(place);
    kit.run(&["init"]).is(0);
    // Nothing is folded before a read.
    limit(&kit, "[limits]\nfold_before_read_bytes = \"0\"\n");
    // More than a command folds when it ends.
    let lines: String = (0..3).map(|number| response(number, 2 << 20)).collect();
    kit.append("demo", &lines);
    for report in REPORTS {
        let told = asked(&kit, report, &["--json"]);
        assert_eq!(told.field("/complete"), false, "{report:?}: {}", told.text());
        assert_eq!(told.field("/missing/lagging_sessions"), 1, "{report:?}");
        assert_eq!(told.field("/missing/lagging_bytes"), lines.len(), "{report:?}");
        asked(&kit, report, &[]).says("the counts are incomplete: ");
        asked(&kit, report, &["--quiet"]).says("in 1 session are not counted yet; run: duolog state rebuild");
    }
    limit(&kit, "");
    for report in REPORTS {
        let told = asked(&kit, report, &["--json"]);
        assert_eq!(
            (told.field("/complete"), told.field("/missing/lagging_bytes")),
            (true.into(), 0.into()),
            "{report:?}"
        );
        assert!(!told.stderr.contains("incomplete"), "{report:?}: {}", told.stderr);
    }
    assert_eq!(asked(&kit, REPORTS[0], &["--json"]).field("/totals/input_tokens"), 3000);
    limit(&kit, "[limits]\nfold_before_read_bytes = \"0\"\n");
    kit.append("demo", &(3..6).map(|number| response(number, 2 << 20)).collect::<String>());
    let table = asked(&kit, REPORTS[0], &[]).text();
    assert!(table.contains("total (incomplete)") && table.contains("3,000"), "{table}");
    kit.run(&["state", "rebuild"]).is(0);
    assert_eq!(asked(&kit, REPORTS[0], &["--json"]).field("/complete"), true);
}

fn a_large_append_is_counted_to_its_end(place: &Place) {
    let kit = Kit::on(place);
    let lines: String = (0..100).map(|number| response(number, 1 << 20)).collect();
    kit.append("demo", &lines);
    let told = asked(&kit, &["usage", "model"], &["--json"]);
    assert_eq!(
        (told.field("/totals/responses"), told.field("/complete")),
        (100.into(), true.into()),
        "{}",
        told.text()
    );
    let shown = asked(&kit, &["sessions", "show", "demo"], &["--json"]);
    assert_eq!((shown.field("/events"), shown.field("/complete")), (100.into(), true.into()));
}

#[test]
fn a_list_counts_a_large_append_in_parts_and_says_so() {
    let kit = Kit::new();
    kit.run(&["init"]).is(0);
    limit(&kit, "[limits]\nfold_before_read_bytes = \"1 MiB\"\n");
    let lines: String = (0..5).map(|number| response(number, 1 << 20)).collect();
    kit.append("demo", &lines);
    let told = asked(&kit, &["sessions", "list"], &["--json"]);
    assert_eq!(told.field("/complete"), false, "{}", told.text());
    assert_eq!(
        asked(&kit, &["usage", "daily"], &["--json"]).field("/totals/responses"),
        5,
        "a sum includes every line"
    );
    assert_eq!(asked(&kit, &["sessions", "list"], &["--json"]).field("/complete"), true);
}

#[test]
fn a_search_that_could_not_read_a_line_is_not_complete() {
    let kit = Kit::new();
    kit.append("demo", &response(1, 10));
    let log = kit.log_of("demo");
    let mut bytes = fs::read(&log).expect("a log");
    bytes.extend_from_slice(b"not JSON\n");
    fs::write(&log, bytes).expect("written");
    kit.append("demo", &response(2, 10));
    let found = kit.run(&["log", "search", "xxxxxxxxxx", "--json"]).is(0);
    assert_eq!((found.field("/complete"), found.field("/damaged_lines")), (false.into(), 1.into()));
    kit.run(&["log", "search", "xxxxxxxxxx", "--quiet"]).is(0).says("1 damaged line not searched");
}

#[test]
fn a_search_that_does_not_wait_says_which_logs_it_left_out() {
    let kit = Kit::new();
    kit.append("demo", &response(1, 10));
    let search = |more: &[&str]| kit.run(&[&["log", "search", "xxxxxxxxxx", "--json"], more].concat());
    let early = search(&["--no-wait"]).is(1).says("1 session not searched to the end");
    assert_eq!((early.field("/complete"), early.field("/lagging_sessions")), (false.into(), 1.into()));
    for more in [&[][..], &["--no-wait"]] {
        let found = search(more).is(0);
        assert_eq!((found.field("/complete"), found.field("/lagging_sessions")), (true.into(), 0.into()), "{more:?}");
    }
    for report in [&["usage", "daily"][..], &["state", "stats"]] {
        assert_eq!(asked(&kit, report, &["--no-wait", "--json"]).field("/complete"), true, "{report:?}");
    }
}

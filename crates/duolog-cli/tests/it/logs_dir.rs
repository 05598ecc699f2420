use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use duolog_testkit::transcripts;
use serde_json::Value;

use crate::kit::{Kit, Ran};

const REPORTS: [&str; 4] = ["daily", "session", "model", "workflow"];

/// The logs of other programs: two copies of one conversation, a fork and its parent, and one of our own form.
fn logs() -> BTreeMap<&'static str, String> {
    let claude = transcripts::claude(7, 3).text();
    let (parent, fork) = transcripts::codex_fork_of_one(11);
    BTreeMap::from([
        ("projects/-srv-app/0a1b.jsonl", claude.clone()),
        ("projects/-srv-app/0a1c.jsonl", claude + &transcripts::claude(8, 1).text()),
        ("sessions/2026/05/27/rollout-1.jsonl", parent.text()),
        ("sessions/2026/05/27/rollout-2.jsonl", fork.text()),
        ("other/plain.jsonl", "{\"type\":\"user\",\"text\":\"find the needle\"}\n".to_owned()),
    ])
}

/// Writes the logs to a directory.
fn write(kit: &Kit) -> PathBuf {
    let root = kit.dir.path().join("logs");
    for (path, text) in logs() {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }
    root
}

/// Appends the logs to sessions of a home, under the names of the files.
fn import(kit: &Kit) {
    for (path, text) in logs() {
        let stem = path.rsplit('/').next().and_then(|name| name.strip_suffix(".jsonl")).expect("a name");
        kit.run(&["sessions", "new", "--id", stem, "--quiet"]).is(0);
        kit.feed(&["log", "append", "--session", stem], text.as_bytes()).is(0);
    }
}

/// A report without what only one side has: names, and the order of sessions.
fn lines(ran: &Ran, plural: &str) -> Vec<String> {
    let mut lines = ran.field(&format!("/{plural}")).as_array().expect("lines").clone();
    for line in &mut lines {
        line.as_object_mut().expect("an object").remove("session_name");
    }
    let mut lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_directory_has_the_usage_of_its_import() {
    let (kit, home) = (Kit::new(), Kit::new());
    let root = write(&kit);
    import(&home);
    for report in REPORTS {
        let ask = ["usage", report, "--zone", "UTC", "--json"];
        let stored = home.run(&ask).is(0);
        let read = kit.run(&[&ask[..], &["--logs-dir", "logs"]].concat()).is(0);
        assert_eq!(read.stderr, "");
        assert_eq!(read.field("/totals"), stored.field("/totals"), "{report}");
        assert_ne!(read.field("/totals/responses"), 0, "{report}");
        let plural = format!("{}s", if report == "daily" { "day" } else { report });
        assert_eq!(lines(&read, &plural), lines(&stored, &plural), "{report}");
        assert_eq!(read.field("/complete"), true);
    }
    let first = kit.run(&["usage", "session", "--logs-dir", "logs", "--limit", "1", "--json"]).is(0);
    let next = first.field("/next").as_str().expect("a token").to_owned();
    let second = kit.run(&["usage", "session", "--logs-dir", "logs", "--limit", "1", "--after", &next, "--json"]).is(0);
    assert_ne!(first.field("/sessions/0/session_id"), second.field("/sessions/0/session_id"));
    assert_eq!(first.field("/totals"), second.field("/totals"));
    for (path, text) in logs() {
        assert_eq!(fs::read_to_string(root.join(path)).expect("a file"), text, "nothing is changed");
    }
    assert!(!kit.home().exists(), "no home is needed");
}

#[test]
fn a_directory_is_searched_like_its_import() {
    let (kit, home) = (Kit::new(), Kit::new());
    write(&kit);
    import(&home);
    let found = |ran: &Ran| -> Vec<String> {
        let hits = ran.field("/hits").as_array().expect("hits").clone();
        hits.iter()
            .map(|hit| {
                ["session_id", "position", "part", "kind", "snippet"].map(|name| hit[name].to_string()).join(" ")
            })
            .collect()
    };
    for query in ["needle", "the", "t* -needle"] {
        let stored = home.run(&["log", "search", query, "--no-index", "--limit", "200", "--json"]);
        let read = kit.run(&["log", "search", query, "--logs-dir", "logs", "--limit", "200", "--json"]);
        assert_eq!(read.code, stored.code, "{query}");
        assert_eq!(found(&read), found(&stored), "{query}");
        assert_eq!(read.stderr, "", "{query}");
    }
    let needle = kit.run(&["log", "search", "needle", "--logs-dir", "logs", "--json"]).is(0);
    assert_eq!(needle.field("/hits/0/session_name"), "other/plain.jsonl");
    assert!(!kit.home().exists(), "no home is needed");
}

#[test]
fn a_file_that_cannot_be_read_makes_an_answer_incomplete() {
    let kit = Kit::new();
    let root = write(&kit);
    std::os::unix::fs::symlink(root.join("other/plain.jsonl"), root.join("link.jsonl")).expect("linked");
    let usage = kit.run(&["usage", "model", "--logs-dir", "logs", "--json"]).is(0).says("link.jsonl was not read");
    assert_eq!(usage.field("/complete"), false);
    let found = kit.run(&["log", "search", "needle", "--logs-dir", "logs", "--json"]).is(0);
    let found = found.says("session link was not searched to the end");
    assert_eq!(found.field("/complete"), false);
    for command in [&["usage", "daily"][..], &["log", "search", "x"]] {
        kit.run(&[command, &["--logs-dir", "nowhere"]].concat()).is(1).says("there is no directory");
    }
}

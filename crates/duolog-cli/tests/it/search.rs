use std::fs;
use std::process::Stdio;

use crate::kit::{Kit, Ran, Transcript};

const TALK: &str = concat!(
    r#"{"type":"user","message":{"role":"user","content":"Where is the deadlock in foo_bar?"},"timestamp":"2026-01-02T03:04:05Z"}"#,
    "\n",
    r#"{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"I look for it.\nThe deadlock may be in std::fs."},{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"grep -rn deadlock src\nmake test"}}]},"timestamp":"2026-01-02T03:04:06Z"}"#,
    "\n",
    r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"src/a.rs: // \u001b[31mdeadlock\u001b[0m here, naïvely 日本語 🎉"}]},"timestamp":"2026-01-02T03:04:07Z"}"#,
    "\n",
);

fn talking() -> Kit {
    let kit = Kit::new();
    kit.append("demo", TALK);
    kit
}

/// Returns enough lines of text that indexing them takes some time; the last has a unique word.
fn many(lines: usize) -> String {
    let words = "the agent reads a file and writes another one then it runs the tests again ".repeat(12);
    let line = |number: usize| format!("{{\"role\":\"assistant\",\"content\":\"w{number} {words}\"}}\n");
    (0..lines).map(line).chain(["{\"role\":\"user\",\"content\":\"needle\"}\n".to_owned()]).collect()
}

#[test]
fn search_finds_text() {
    let kit = talking();
    let mut transcript = Transcript::default();
    for args in [
        &["log", "search", "deadlock", "--json"][..],
        &["log", "search", "deadlock -grep", "--limit", "1", "--json"],
        &["log", "search", "std::fs", "--json"],
        &["log", "search", "make", "--tool", "bash", "--json"],
        &["log", "search", "\"deadlock here\"", "--json"],
        &["log", "search", "日本", "--role", "tool_result", "--session", "demo", "--json"],
        &["log", "search", "🎉", "--json"],
        &["log", "search", "dead*", "--no-index", "--limit", "1", "--json"],
    ] {
        transcript.run(&kit, args).is(0);
    }
    transcript.run(&kit, &["log", "search", "deadlock", "--since", "1s"]).is(1);
    transcript.run(&kit, &["log", "search", "absent", "--json"]).is(1);
    transcript.run(&kit, &["log", "search", "deadlocked"]).is(1);
    transcript.run(&kit, &["log", "search", "-deadlock"]).is(2);
    transcript.run(&kit, &["log", "search", "", "--json"]).is(2);
    transcript.run(&kit, &["log", "search"]).is(2);
    transcript.run(&kit, &["log", "search", "x", "--since", "soon"]).is(2);
    transcript.run(&kit, &["log", "search", "x", "--after", "soon"]).is(2);
    transcript.run(&kit, &["log", "search", "x", "--session", "nope"]).is(1);
    transcript.run(&kit, &["log", "search", "--rebuild"]).is(0);
    transcript.run(&kit, &["log", "search", "--rebuild", "--json"]).is(0);
    kit.snapshot("search", &transcript.0);
}

#[test]
fn people_see_matches_marked_with_and_without_color() {
    let kit = talking();
    let plain = kit.run(&["log", "search", "deadlock"]).is(0).text();
    assert_eq!(plain.matches("«deadlock»").count(), 4, "{plain}");
    assert!(plain.contains("  src/a.rs: // «deadlock» here, naïvely 日本語 🎉\n"), "{plain}");
    assert!(plain.contains("demo 0:") && plain.contains("  tool_call Bash  "), "{plain}");
    assert!(!plain.contains('\u{1b}'), "nothing steers the terminal");
    let colored = kit.run(&["log", "search", "deadlock", "--color", "always"]).is(0).text();
    assert!(colored.contains("«deadlock»\u{1b}[0m") && !colored.contains("\u{1b}[31m"), "{colored:?}");
    // A hit has the cursor of its line.
    let cursor = plain.lines().nth(2).and_then(|line| line.split(' ').nth(1)).expect("a cursor");
    let shown = kit.run(&["log", "replay", "demo", "--verbose", "--from", cursor]).is(0).text();
    assert!(shown.contains("make test"), "{shown}");
}

#[test]
fn pages_follow_each_other() {
    let kit = talking();
    let mut seen = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let mut args = vec!["log", "search", "deadlock", "--limit", "1", "--json"];
        args.extend(after.iter().flat_map(|after| ["--after", after.as_str()]));
        let ran = kit.run(&args).is(0);
        seen.push((ran.field("/hits/0/position"), ran.field("/hits/0/part")));
        match ran.field("/next").as_str() {
            Some(next) => after = Some(next.to_owned()),
            None => break,
        }
    }
    seen.dedup();
    assert_eq!(seen.len(), 4, "{seen:?}");
    kit.run(&["log", "search", "deadlock", "--limit", "1"]).is(0).says("more results: add --after ");
}

#[test]
fn a_token_of_another_search_is_refused() {
    let kit = talking();
    let next = |args: &[&str]| {
        let ran = kit.run(&[args, &["--json"]].concat()).is(0);
        ran.field("/next").as_str().expect("a token").to_owned()
    };
    let token = next(&["log", "search", "deadlock", "--limit", "1"]);
    let other = "belongs to another list or other filters";
    kit.run(&["log", "search", "deadlock", "--limit", "2", "--since", "2020-01-01", "--after", &token]).is(0);
    kit.run(&["log", "search", "make", "--after", &token]).is(2).says(other);
    kit.run(&["log", "search", "deadlock", "--role", "user", "--after", &token]).is(2).says(other);
    kit.run(&["log", "search", "deadlock", "--session", "demo", "--after", &token]).is(2).says(other);
    kit.append("second", "{}\n");
    let sessions = next(&["sessions", "list", "--limit", "1"]);
    kit.run(&["log", "search", "deadlock", "--after", &sessions]).is(2).says("is not a page token");
    kit.run(&["sessions", "list", "--after", &token]).is(2);
}

#[test]
fn a_home_without_logs_says_what_to_do_next() {
    let kit = Kit::new();
    kit.run(&["log", "search", "x"]).is(1).says("there are no logs yet");
    assert!(kit.run(&["log", "search", "x", "--json"]).is(1).field("/hits").as_array().is_some_and(Vec::is_empty));
    assert!(!kit.home().exists(), "reading creates nothing");
}

#[test]
fn hostile_queries_are_only_text() {
    let kit = talking();
    let long = "word ".repeat(60);
    for query in ["NEAR(a b", "\"x", "'; DROP TABLE docs; --", "body:x", "*", "---", "a\u{301}", "(((", long.as_str()] {
        let ran = kit.run(&["log", "search", query]);
        assert!(matches!(ran.code, Some(0 | 1)) && !ran.stderr.contains("error"), "{query}: {}", ran.stderr);
    }
    kit.run(&["log", "search", &"x ".repeat(5_000)]).is(2).says("over the limit of 64");
    kit.run(&["log", "search", &"x".repeat(20_000)]).is(2).says("shorter search terms");
}

#[test]
fn a_killed_indexer_leaves_a_valid_index() {
    let kit = Kit::new();
    kit.append("large", &many(30_000));
    let indexing = kit.home().join("state/search.db-wal");
    for _ in 0..3 {
        let mut child = kit.command(&["log", "search", "needle"]).stdout(Stdio::null()).spawn().expect("starts");
        // Until it writes or ends.
        while child.try_wait().expect("waits").is_none() && indexing.metadata().map_or(0, |file| file.len()) < 200_000 {
            std::thread::yield_now();
        }
        child.kill().expect("killed");
        child.wait().expect("ended");
        let ran = kit.run(&["log", "search", "needle", "--no-index", "--json"]).is(0);
        assert_eq!(ran.field("/hits/0/snippet"), "needle");
        let stopped = kit.run(&["doctor", "--deep", "--json"]);
        assert!(!stopped.text().contains("cannot be used"), "{}", stopped.text());
        for word in ["needle", "w0", "w15000", "w29999"] {
            let ran = kit.run(&["log", "search", word, "--json"]).is(0);
            assert_eq!((ran.field("/hits").as_array().map(Vec::len), ran.field("/index/used")), (Some(1), true.into()));
        }
        for file in ["search.db", "search.db-wal", "search.db-shm"] {
            let _ = fs::remove_file(kit.home().join("state").join(file));
        }
    }
}

#[test]
fn two_concurrent_indexers_give_equal_answers() {
    let kit = Kit::new();
    kit.append("large", &many(20_000));
    for _ in 0..2 {
        let start = || kit.command(&["log", "search", "needle", "--json"]).stdout(Stdio::piped()).spawn();
        let running = [start().expect("starts"), start().expect("starts"), start().expect("starts")];
        for child in running {
            let ran = Ran::of(child.wait_with_output().expect("ends")).is(0);
            assert_eq!(ran.field("/hits/0/snippet"), "needle");
        }
        assert_eq!(kit.run(&["log", "search", "w19999", "--json"]).is(0).field("/scanned_bytes"), 0);
        for file in ["search.db", "search.db-wal", "search.db-shm"] {
            let _ = fs::remove_file(kit.home().join("state").join(file));
        }
    }
}

#[test]
fn a_read_only_home_is_searched() {
    let kit = talking();
    let read_only = |command: &str| {
        Ran::of(kit.mounting(&format!("mount --bind $H $H && mount -o remount,ro,bind $H && exec $D {command}")))
    };
    let ran = read_only("log search deadlock --json").is(0);
    assert_eq!((ran.field("/hits").as_array().map(Vec::len), ran.field("/index/used")), (Some(4), false.into()));
    kit.run(&["log", "search", "deadlock"]).is(0);
    let ran = read_only("log search deadlock").is(0).says("read without the index: this home is read-only");
    assert_eq!(ran.text().matches("«deadlock»").count(), 4);
    read_only("log search --rebuild").is(5);
    read_only("doctor").is(0);
}

#[test]
fn a_full_disk_is_searched_without_an_index() {
    let kit = Kit::new();
    fs::create_dir(kit.home()).expect("made");
    fs::write(kit.dir.path().join("lines"), many(2_000)).expect("written");
    let output = kit.mounting(
        r#"set -u
        mount -t tmpfs -o size=16m,mode=700 tmpfs $H || exit 99
        $D log append --session demo ${H%/*}/lines --quiet || exit 98
        $D sessions list --quiet >/dev/null || exit 97
        head -c 32m /dev/zero > $H/filler 2>/dev/null
        $D log search needle; echo "full: $?"
        rm -f $H/filler
        $D log search needle --json; echo "again: $?"
        "#,
    );
    let ran = Ran::of(output).is(0);
    let text = ran.text();
    assert!(text.contains("«needle»\nfull: 0\n") && text.contains("again: 0\n"), "{text}\n{}", ran.stderr);
    assert!(text.contains(r#""index":{"used":true,"reason":null}"#), "{text}");
    assert!(ran.stderr.contains("of logs were read"), "{}", ran.stderr);
}

#[test]
fn doctor_reports_the_index_status() {
    let kit = talking();
    let index = |kit: &Kit| {
        let text = kit.run(&["doctor", "--deep"]).text();
        text.lines().find(|line| line.contains(" index ")).expect("a line").to_owned()
    };
    assert!(index(&kit).contains("there is none yet"));
    kit.run(&["log", "search", "deadlock"]).is(0);
    assert!(index(&kit).contains("4 texts of 1 session"), "{}", index(&kit));
    let database = rusqlite::Connection::open(kit.home().join("state/search.db")).expect("opens");
    database.execute_batch("UPDATE texts_data SET block = x'00' WHERE id > 10").expect("damaged");
    drop(database);
    let ran = kit.run(&["doctor", "--deep"]);
    assert!(ran.text().contains("warning  index") && ran.text().contains("log search --rebuild"), "{}", ran.text());
    kit.run(&["log", "search", "--rebuild"]).is(0);
    assert!(index(&kit).contains("4 texts of 1 session"));
}

/// Case, width and composition make no difference, with an index and without; JSON results of tools are decoded.
#[test]
fn text_is_found_in_any_case_width_and_composition() {
    let kit = Kit::new();
    let said = ["Die Straße nach ΣΟΦΟΣ", "ein cafe\u{301} in ＤＵＯＬＯＧ", "ｶﾞｷﾞ ﬁle GRÖẞE"];
    let line = |text: &str| format!("{{\"type\":\"user\",\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}\n");
    kit.append("demo", &said.iter().map(|text| line(text)).collect::<String>());
    let codex = r#"{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{"id":"a"}}
{"timestamp":"2026-01-01T00:00:01Z","type":"response_item","payload":{"type":"function_call_output","call_id":"c","output":"{\"output\":\"firstword one\\nsecondword two\",\"metadata\":{\"exit_code\":0}}"}}
"#;
    kit.append("codex", codex);
    let light = r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"d0","content":"{\"content\":[{\"type\":\"text\",\"text\":\"alphaword one\\nbetaword two\"}]}"}]}}
{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"d1","content":"{\"stdout\":\"gammaword\\ndeltaword\"}"}]}}
"#;
    kit.append("light", light);
    for index in [&[][..], &["--no-index"]] {
        for (query, found) in [
            ("STRASSE", "Straße"),
            ("straße", "Straße"),
            ("σοφος", "ΣΟΦΟΣ"),
            ("σοφοσ", "ΣΟΦΟΣ"),
            ("CAFÉ", "cafe\u{301}"),
            ("duolog", "ＤＵＯＬＯＧ"),
            ("ガギ", "ｶﾞｷﾞ"),
            ("FILE", "ﬁle"),
            ("grösse", "GRÖẞE"),
            ("secondword", "secondword"),
            ("betaword", "betaword"),
            ("deltaword", "deltaword"),
        ] {
            let ran = kit.run(&[&["log", "search", query, "--json"][..], index].concat()).is(0);
            let (snippet, place) = (ran.field("/hits/0/snippet"), ran.field("/hits/0/matches/0"));
            let at = |end: usize| usize::try_from(place[end].as_u64().expect("a number")).expect("fits");
            let letters = snippet.as_str().expect("text").chars().skip(at(0)).take(at(1) - at(0));
            assert_eq!(letters.collect::<String>(), found, "{query} {index:?} in {snippet}");
            assert_eq!(ran.field("/index/used"), index.is_empty(), "{query}");
        }
        kit.run(&[&["log", "search", "cafe"][..], index].concat()).is(1);
    }
    for session in ["codex", "light"] {
        let shown = kit.run(&["log", "replay", session, "--verbose"]).is(0).text();
        assert!(shown.contains("word one\n") && !shown.contains("\\n"), "{shown}");
    }
}

#[test]
fn an_index_of_an_older_format_is_rebuilt() {
    let kit = talking();
    kit.run(&["log", "search", "deadlock"]).is(0);
    let index = kit.home().join("state/search.db");
    rusqlite::Connection::open(&index).expect("opens").pragma_update(None, "user_version", 1).expect("written");
    let found = kit.run(&["log", "search", "deadlock", "--json"]).is(0);
    assert_eq!(found.field("/index/used"), true, "{}", found.text());
    let format = |row: &rusqlite::Row<'_>| row.get::<_, u32>(0);
    let now = rusqlite::Connection::open(&index).expect("opens").query_row("PRAGMA user_version", [], format);
    assert_eq!(now.expect("read"), 2);
}

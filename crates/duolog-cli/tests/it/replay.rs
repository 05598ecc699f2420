use duolog_testkit::transcripts::{self, Cut};

use crate::kit::{Kit, Ran, Transcript};

/// A conversation with a long answer, a failure, code, wide characters and a turn without an end.
const CONVERSATION: &str = r#"{"type":"user","message":{"role":"user","content":"Why do the tests of the server fail? Please find out, and mend what is broken."},"timestamp":"2026-05-27T09:00:03.000Z"}
{"type":"assistant","message":{"role":"assistant","model":"openai/gpt-5.5","content":[{"type":"thinking","thinking":"The failing one is in the server crate, and it seems to depend on a port being free."},{"type":"text","text":"Looking."},{"type":"tool_use","id":"d0","name":"bash","input":{"command":"cargo nextest run -p server --no-fail-fast 2>&1 | tail -n 40","timeout":120}}]},"timestamp":"2026-05-27T09:00:03.500Z"}
{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"d0","content":"one ok\ntwo ok\nthree ok\nfour ok\nfive ok\nsix FAILED","is_error":true}]},"timestamp":"2026-05-27T09:00:15.000Z"}
{"role":"system","subtype":"auto_retry_start","content":"Auto-retry 1/3 in 10s: 429 RATE_LIMIT_EXCEEDED","timestamp":"2026-05-27T09:00:20.000Z"}
{"type":"assistant","isApiErrorMessage":true,"error":"429 RATE_LIMIT_EXCEEDED","timestamp":"2026-05-27T09:00:21.000Z"}
{"type":"assistant","message":{"role":"assistant","model":"openai/gpt-5.5","content":[{"type":"text","text":"Fixed: the test took a port that another test had. It asks the system for a free one now.\n\n```rust\n    let listener = TcpListener::bind(\"127.0.0.1:0\")?;\n```\n\n日本語のテキストも折り返される。"}]},"timestamp":"2026-05-27T09:01:23.500Z"}
{"type":"result","subtype":"success","is_error":false,"result":"Fixed: the test took a port that another test had. It asks the system for a free one now.\n\n```rust\n    let listener = TcpListener::bind(\"127.0.0.1:0\")?;\n```\n\n日本語のテキストも折り返される。","num_turns":2,"total_cost_usd":0.14,"total_input_tokens":2400,"total_output_tokens":680,"total_cache_read_input_tokens":5000,"total_cache_creation_input_tokens":0,"duration_ms":80500,"timestamp":"2026-05-27T09:01:23.500Z"}
{"type":"user","message":{"role":"user","content":"Thanks. And the docs?"},"timestamp":"2026-05-27T09:05:00.000Z"}
{"from":"the future"}
"#;

fn replayed(kit: &Kit, width: &str, args: &[&str]) -> Ran {
    Ran::of(kit.command(args).env("COLUMNS", width).output().expect("runs")).is(0)
}

#[test]
fn a_conversation_fits_its_terminal() {
    let kit = Kit::new();
    kit.append("demo", CONVERSATION);
    let mut transcript = Transcript::default();
    for (width, args) in [
        ("80", &["log", "replay", "demo"][..]),
        ("80", &["log", "replay", "demo", "--verbose"]),
        ("40", &["log", "replay", "demo", "--verbose"]),
        ("100", &["log", "replay", "demo", "--verbose", "--full", "--last", "2"]),
    ] {
        let ran = replayed(&kit, width, args);
        let most: usize = width.parse().expect("a number");
        for line in ran.text().lines() {
            assert!(unicode_width::UnicodeWidthStr::width(line) <= most, "{width}: {line}");
        }
        transcript.add(args, &ran);
    }
    transcript.run(&kit, &["log", "replay", "demo", "--verbose", "--json"]).is(0);
    transcript.run(&kit, &["log", "replay", "demo", "--last", "1"]).is(0);
    transcript.run(&kit, &["log", "replay", "demo", "--from", "0:5"]).is(2);
    transcript.run(&kit, &["log", "replay"]).is(2);
    transcript.run(&kit, &["log", "replay", "demo", "--file", "x"]).is(2);
    kit.run(&["sessions", "new", "--name", "empty"]).is(0);
    transcript.run(&kit, &["log", "replay", "empty"]).is(0);
    kit.snapshot("replay", &transcript.0);
}

#[test]
fn every_dialect_is_shown() {
    let kit = Kit::new();
    let made = [
        ("envelope", transcripts::envelope(7, 2)),
        ("turns", transcripts::turns(7, 2, Cut::LastTurn)),
        ("transcript", transcripts::transcript(7, 1)),
        ("claude", transcripts::claude(7, 2)),
        ("codex", transcripts::codex(7, 2, false)),
    ];
    let mut transcript = Transcript::default();
    for (dialect, made) in made {
        let path = kit.dir.path().join(format!("{dialect}.jsonl"));
        std::fs::write(&path, made.text()).expect("written");
        let file = format!("{dialect}.jsonl");
        for args in [&["log", "replay", "--file", &file][..], &["log", "replay", "--file", &file, "--verbose"]] {
            transcript.add(args, &replayed(&kit, "80", args));
        }
        let told = kit.run(&["log", "replay", "--file", &file, "--json"]).is(0).text();
        let turns = told.lines().filter(|line| line.contains("\"kind\":\"turn_end\"")).count();
        assert_eq!(turns as u64, made.turns, "{dialect}");
        let named = kit.run(&["log", "replay", "--file", &file, "--json", "--dialect", dialect]).is(0).text();
        assert_eq!(named, told, "{dialect}: it is recognised");
        assert!(!kit.home().exists(), "a file needs no home");
        kit.dir.path().read_dir().expect("reads").flatten().for_each(|entry| {
            assert!(entry.path().extension().is_some_and(|ending| ending == "jsonl"), "nothing else is created");
        });
    }
    kit.snapshot("dialects", &transcript.0);
}

#[test]
fn hostile_text_moves_no_cursor() {
    let kit = Kit::new();
    let evil = r"\u001b[2J\u001b]0;owned\u0007\u009b31m\u0008\u007f\u202eabc\u0000\rover";
    let lines = [
        format!(r#"{{"type":"user","message":{{"role":"user","content":"{evil}"}}}}"#),
        format!(
            r#"{{"type":"assistant","message":{{"role":"assistant","model":"{evil}","content":[{{"type":"thinking","thinking":"{evil}"}},{{"type":"text","text":"{evil}"}},{{"type":"tool_use","id":"{evil}","name":"{evil}","input":{{"a":"{evil}"}}}}]}}}}"#
        ),
        format!(
            r#"{{"type":"user","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{evil}","content":"{evil}","fullOutput":"{evil}"}}]}}}}"#
        ),
        format!(r#"{{"type":"system","subtype":"{evil}","content":"{evil}"}}"#),
        format!(r#"{{"type":"result","subtype":"{evil}","result":"{evil} again","num_turns":"{evil}"}}"#),
        format!(r#"{{"t":1,"iter":0,"agent_id":"{evil}","role":"{evil}","error":"{evil}","content":"{evil}"}}"#),
    ];
    kit.append("demo", &lines.join("\n"));
    for more in [&[][..], &["--verbose"], &["--verbose", "--full"]] {
        for width in ["40", "80"] {
            let text = replayed(&kit, width, &[&["log", "replay", "demo"][..], more].concat()).text();
            let bad = |letter: char| (letter.is_control() && letter != '\n') || letter == '\u{202e}';
            assert!(!text.contains(bad), "{more:?}: {text:?}");
            assert!(text.contains("abc"), "{text}");
        }
    }
    let piped = kit.run(&["log", "cat", "demo", "--pretty"]).is(0).text();
    assert!(!piped.contains('\u{1b}') && !piped.contains('\u{9b}'), "{piped:?}");
}

#[test]
fn shortened_text_is_fetched_and_verified() {
    let kit = Kit::new();
    let whole = (0..9000).fold(String::new(), |whole, n| whole + &format!("case {n} ok\\n"));
    let event = format!("{{\"type\":\"tool_execution_end\",\"toolCallId\":\"d0\",\"result\":\"{whole}\"}}\n");
    let record = ["log", "record", "--session", "demo", "--prompt", "p", "--json"];
    assert_eq!(kit.feed(&record, event.as_bytes()).is(0).field("/blob_count"), 1);
    let folded = kit.run(&["log", "replay", "demo", "--verbose"]).is(0).text();
    assert!(folded.contains("more lines") && folded.contains("blob:") && !folded.contains("case 5 ok"), "{folded}");
    let full = ["log", "replay", "demo", "--verbose", "--full"];
    let text = kit.run(&full).is(0).text();
    assert!(text.contains("case 8999 ok") && !text.contains("truncated"), "{}", text.len());
    let blobs: Vec<_> = kit.home().join("state/blobs").read_dir().expect("blobs").flatten().collect();
    assert_eq!(blobs.len(), 1);
    let blob = blobs[0].path().read_dir().expect("a folder").flatten().next().expect("a blob").path();
    std::fs::write(&blob, "forged").expect("written");
    let damaged = kit.run(&full).is(4).says("1 whole text missing or damaged").text();
    assert!(
        damaged.contains("the full text is damaged") && damaged.contains("case 5 ok") && !damaged.contains("forged")
    );
    std::fs::remove_file(&blob).expect("removed");
    assert!(kit.run(&full).is(4).text().contains("the full text is missing"));
    let told = kit.run(&[&full[..], &["--json"]].concat()).is(4).text();
    assert!(told.contains("\"full_text_status\":\"missing\""), "{told}");
}

#[test]
fn live_and_replay_look_alike() {
    let kit = Kit::new();
    kit.append("demo", CONVERSATION);
    let replay = replayed(&kit, "80", &["log", "replay", "demo", "--verbose"]).text();
    assert_eq!(replayed(&kit, "80", &["log", "cat", "demo", "--pretty"]).text(), replay);
    assert_eq!(replayed(&kit, "80", &["log", "tail", "demo", "--pretty", "-n", "100"]).text(), replay);
    let told = kit.run(&["log", "replay", "demo", "--verbose", "--json"]).is(0).text();
    assert_eq!(kit.run(&["log", "cat", "demo", "--pretty", "--json"]).is(0).text(), told);
    let color = kit.run(&["log", "replay", "demo", "--color", "always"]).is(0).text();
    assert!(color.contains("\u{1b}["));
}

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use duolog_log::dialect::prices::Prices;
use duolog_log::dialect::recorder::{Known, Options, Recorder};
use duolog_log::dialect::turn::{Turn, TurnFold};
use duolog_log::dialect::usage::{Usage, UsageFold};
use duolog_log::dialect::{Boundary, Dialect, ItemKind, TimelineItem};
use duolog_testkit::FixedClock;
use duolog_testkit::transcripts::{self, GeneratedLog};
use serde_json::{Value, json};

use crate::dialects::{one, render};
use crate::record::Written;

const AT: i64 = 1_779_872_405_000_000;

/// Records lines as from a pipe; returns the number of unknown lines.
fn record(options: Options, lines: &[String]) -> (Written, u64) {
    let mut written = Written::default();
    let mut recorder = Recorder::new(Options { clock: Arc::new(FixedClock::at(AT)), ..options }, &Known::default());
    for line in lines {
        recorder.event(line, &mut written).expect("recorded");
    }
    recorder.finish(&mut written).expect("finished");
    (written, recorder.unknown())
}

fn prompt(text: &str) -> Options {
    Options { prompt: Some(text.to_owned()), ..Options::default() }
}

fn used(lines: &[String]) -> Usage {
    let mut fold = UsageFold::default();
    for line in lines {
        fold.line(line);
    }
    fold.report(&Prices::builtin())
}

fn turns(items: &[TimelineItem]) -> Vec<Turn> {
    let mut fold = TurnFold::default();
    let mut turns: Vec<_> = items.iter().filter_map(|item| fold.item(item)).collect();
    turns.extend(fold.last());
    turns
}

fn texts(items: &[TimelineItem], kind: ItemKind) -> Vec<&str> {
    items.iter().filter(|item| item.kind == kind && !item.sidechain).map(|item| item.text.as_str()).collect()
}

fn both() -> [(Dialect, GeneratedLog); 2] {
    [(Dialect::Envelope, transcripts::claude_stream(1, 3)), (Dialect::Codex, transcripts::codex_exec(2, 3))]
}

#[test]
fn a_stream_is_recorded_with_its_turns_calls_results_and_usage() {
    for (dialect, made) in both() {
        let (written, unknown) = record(Options::default(), &made.lines);
        assert_eq!(unknown, 0, "{dialect}");
        let items = render(dialect, &written.lines);
        let turns = turns(&items);
        assert_eq!(turns.len() as u64, made.turns, "{dialect}");
        assert!(turns.iter().all(Turn::is_complete), "{dialect}");
        assert!(texts(&items, ItemKind::Assistant).contains(&"Bug 2 is fixed."), "{dialect}");
        let answers: Vec<_> = items.iter().filter(|item| item.kind == ItemKind::ToolResult).collect();
        assert!(answers.iter().any(|item| item.failed && item.text.contains("1 test failed")), "{dialect}");
        assert!(answers.iter().all(|item| item.tool.is_some()), "{dialect}");
        assert!(items.iter().all(|item| item.at.map(duolog_types::Timestamp::as_micros) == Some(AT)), "{dialect}");
        let usage = used(&written.lines);
        assert_eq!(usage.tokens(), made.tokens, "{dialect}");
        assert_eq!(usage.cost().cents(), made.cost.cents(), "{dialect}");
    }
}

#[test]
fn partial_messages_are_not_recorded_if_the_message_is_complete() {
    let (written, _) = record(Options::default(), &transcripts::claude_stream(1, 1).lines);
    assert!(!written.lines.iter().any(|line| line.contains("stream_event")));
    let items = render(Dialect::Envelope, &written.lines);
    assert_eq!(texts(&items, ItemKind::Assistant), ["I see it.", "Bug 0 is fixed."]);
}

#[test]
fn parts_before_the_end_of_input_are_kept() {
    let made = transcripts::claude_stream(1, 1);
    let delta = made.lines.iter().rposition(|line| line.contains("text_delta")).expect("a part");
    let (written, _) = record(prompt("Fix bug 0"), &made.lines[..=delta]);
    let items = render(Dialect::Envelope, &written.lines);
    assert_eq!(texts(&items, ItemKind::Assistant).last(), Some(&"Bug 0 is fixed."));
    assert!(items.iter().any(|item| item.what.as_deref() == Some("unfinished")));
    assert!(!turns(&items)[0].is_complete());
}

#[test]
fn a_repeated_prompt_is_written_once_and_a_missing_one_starts_the_turn() {
    let made = transcripts::claude_stream(1, 1);
    for lines in [made.lines.clone(), made.lines.iter().filter(|line| !line.contains("isReplay")).cloned().collect()] {
        let (written, _) = record(prompt("Fix bug 0"), &lines);
        let items = render(Dialect::Envelope, &written.lines);
        assert_eq!(texts(&items, ItemKind::User), ["Fix bug 0"]);
        assert_eq!(turns(&items).len(), 1);
        let (bare, _) = record(Options::default(), &lines);
        assert_eq!(turns(&render(Dialect::Envelope, &bare.lines)).len(), 1, "an answer without a prompt starts a turn");
    }
    let (written, _) = record(prompt("Fix bug 0"), &transcripts::codex_exec(1, 1).lines);
    assert_eq!(turns(&render(Dialect::Codex, &written.lines)).len(), 1);
}

#[test]
fn thinking_of_a_stream_is_kept_only_if_requested() {
    for (dialect, made) in both() {
        for keep_thinking in [true, false] {
            let (written, _) = record(Options { keep_thinking, ..Options::default() }, &made.lines);
            let items = render(dialect, &written.lines);
            assert_eq!(texts(&items, ItemKind::Thinking).is_empty(), !keep_thinking, "{dialect}");
            assert_eq!(used(&written.lines).tokens(), made.tokens, "{dialect}");
        }
    }
}

#[test]
fn a_long_result_of_a_stream_goes_to_a_blob() {
    let long = "x".repeat(200);
    let result = json!([{"type":"tool_result","tool_use_id":"t","content":long}]);
    let claude = json!({"type":"user","message":{"role":"user","content":result},"parent_tool_use_id":null,"session_id":"s","uuid":"u","tool_use_result":{"stdout":long}});
    let item = json!({"id":"i","type":"command_execution","command":"ls","aggregated_output":long,"exit_code":0,"status":"completed"});
    let codex = json!({"type":"item.completed","item":item});
    for (dialect, line) in [(Dialect::Envelope, claude), (Dialect::Codex, codex)] {
        let options = Options { tool_result_bytes_max: 100, ..Options::default() };
        let (written, _) = record(options, &[line.to_string()]);
        assert_eq!(written.blobs, std::slice::from_ref(&long));
        let items = render(dialect, &written.lines);
        let answer = items.iter().find(|item| item.kind == ItemKind::ToolResult).expect("a result");
        assert!(answer.full.is_some() && answer.text.contains("truncated 100 chars"), "{}", answer.text);
        assert!(written.lines[0].len() < 500, "{}", written.lines[0]);
    }
}

#[test]
fn lines_of_every_format_may_be_mixed_and_unknown_ones_are_counted() {
    let event = json!({"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"from a runtime"}]}});
    let mut lines = vec![event.to_string()];
    for made in [transcripts::claude_stream(3, 1), transcripts::codex_exec(4, 1), transcripts::claude(5, 1)] {
        lines.extend(made.lines);
    }
    lines.extend(transcripts::turns(6, 1, transcripts::Cut::Nothing).lines);
    let known = lines.len();
    for unknown in [r#"{"type":"mystery","a":1}"#, r#"{"a":1}"#, "not JSON at all", "{\"type\":\"assis"] {
        lines.insert(lines.len() / 2, unknown.to_owned());
    }
    let (written, unknown) = record(Options::default(), &lines);
    assert_eq!((unknown, lines.len() - known), (4, 4));
    let all = written.lines.join("\n");
    for text in ["mystery", "not JSON at all", "from a runtime", "Bug 0 is fixed.", "Step 0 is done.", "done 0"] {
        assert!(all.contains(text), "{text}");
    }
}

/// The lines of a stream with usage, with these counts.
fn message(id: &str, input: u64, output: u64) -> String {
    let usage = json!({"input_tokens":input,"output_tokens":output});
    let message = json!({"id":id,"model":"claude-opus-4-8","content":[],"usage":usage});
    line(json!({"type":"assistant","message":message,"parent_tool_use_id":null}))
}

fn result(input: u64, output: u64, cost: f64) -> String {
    let model = json!({"inputTokens":input,"outputTokens":output,"costUSD":cost});
    let usage = json!({"input_tokens":input,"output_tokens":output});
    line(
        json!({"type":"result","subtype":"success","total_cost_usd":cost,"usage":usage,"modelUsage":{"claude-opus-4-8":model}}),
    )
}

/// Returns a line of the stream with an id of its own, as Claude Code writes it.
fn line(mut line: Value) -> String {
    static LINES: AtomicU64 = AtomicU64::new(0);
    line["session_id"] = json!("s");
    line["uuid"] = json!(format!("u{}", LINES.fetch_add(1, Ordering::Relaxed)));
    line.to_string()
}

fn counted(lines: &[String]) -> (u64, u64, u128) {
    let usage = used(lines);
    (usage.tokens().input, usage.tokens().output, usage.cost().cents())
}

#[test]
fn the_lines_of_one_message_are_one_response_and_its_result_holds() {
    let parts = [message("m", 100, 3), message("m", 100, 3), message("m", 100, 8)];
    assert_eq!(used(&parts).tokens().output, 8, "without a result the largest count wins");
    let whole = [&parts[..], &[result(100, 250, 0.5)]].concat();
    assert_eq!(counted(&whole), (100, 250, 50));
}

#[test]
fn cumulative_results_are_counted_by_difference() {
    let lines = [message("a", 100, 3), result(100, 250, 0.5), message("b", 120, 3), result(220, 300, 0.75)];
    assert_eq!(counted(&lines), (220, 300, 75));
    let failed = [&lines[..], &[result(220, 300, 0.75)]].concat();
    assert_eq!(counted(&failed), (220, 300, 75), "a turn without a response repeats the totals");
}

#[test]
fn results_of_several_processes_are_added() {
    let lines = [message("a", 100, 3), result(100, 250, 0.5), message("b", 180, 3), result(180, 300, 0.75)];
    assert_eq!(counted(&lines), (280, 550, 125), "the second total does not include the first");
    let bare = [result(100, 250, 0.5), result(180, 300, 0.75)];
    assert_eq!(counted(&bare), (280, 550, 125), "as `--output-format json` prints them");
}

#[test]
fn subagents_count_where_the_result_leaves_them_out() {
    let side = message("b", 900, 5).replace(r#""parent_tool_use_id":null"#, r#""parent_tool_use_id":"t""#);
    let old = result(100, 250, 0.5).replace("modelUsage", "other");
    assert_eq!(counted(&[message("a", 100, 3), side, old]).0, 1000);
}

#[test]
fn partial_messages_are_never_counted() {
    let delta =
        json!({"type":"stream_event","event":{"type":"message_delta","usage":{"input_tokens":9,"output_tokens":9}}});
    let start = json!({"type":"stream_event","event":{"type":"message_start","message":{"id":"m","model":"claude-opus-4-8","usage":{"input_tokens":9}}}});
    assert_eq!(counted(&[line(delta), line(start)]), (0, 0, 0));
}

#[test]
fn the_totals_of_a_thread_move_and_another_thread_begins_from_nothing() {
    let thread = |id: &str| json!({"type":"thread.started","thread_id":id}).to_string();
    let done = |input: u64, output: u64| {
        json!({"type":"turn.completed","usage":{"input_tokens":input,"cached_input_tokens":0,"output_tokens":output}})
            .to_string()
    };
    let resumed = [thread("a"), done(100, 10), thread("a"), done(150, 30)];
    assert_eq!(used(&resumed).tokens().total(), 180);
    assert_eq!(used(&[&resumed[..], &[done(150, 30)]].concat()).tokens().total(), 180, "repeated");
    let two = [thread("a"), done(100, 10), thread("b"), done(150, 30)];
    assert_eq!(used(&two).tokens().total(), 290);
}

#[test]
fn the_callers_model_is_added_to_lines_of_codex() {
    let options = Options { model: Some("gpt-5.2-codex".to_owned()), ..Options::default() };
    let made = transcripts::codex_exec(2, 2);
    let (written, _) = record(options, &made.lines);
    let usage = used(&written.lines);
    assert_eq!(usage.models.len(), 1);
    assert_eq!(usage.models[0].model.as_deref(), Some("gpt-5.2-codex"));
    assert!(usage.cost() > duolog_log::dialect::money::Money::ZERO);
}

#[test]
fn slash_commands_are_shown_as_typed_and_end_with_their_output() {
    let user = |text: &str| {
        json!({"type":"user","isSidechain":false,"userType":"external","uuid":"u","timestamp":"2026-01-01T00:00:00Z",
            "message":{"role":"user","content":text}})
        .to_string()
    };
    let text = "<command-name>/model</command-name>\n <command-message>model</command-message>\n <command-args>opus</command-args>";
    let item = one(Dialect::Claude, &user(text));
    assert_eq!((item.kind, item.text.as_str(), item.boundary), (ItemKind::User, "/model opus", Boundary::Opens));
    let bash = one(Dialect::Claude, &user("<bash-input>git status</bash-input>"));
    assert_eq!(bash.text, "! git status");
    let output = one(Dialect::Claude, &user("<local-command-stdout>Set model to <b>opus</b></local-command-stdout>"));
    assert_eq!((output.kind, output.boundary), (ItemKind::Note, Boundary::Closes));
    assert_eq!(output.text, "Set model to <b>opus</b>");
    let typed = one(Dialect::Claude, &user("what does <command-name> mean?"));
    assert_eq!(typed.text, "what does <command-name> mean?");
}

#[test]
fn lines_about_runs_are_sentences() {
    let line = |what: &str, fields: Value| {
        let mut line = json!({"type":"system","subtype":format!("duolog.{what}"),"uuid":"u","timestamp":"2026-01-01T00:00:00Z",
            "sessionId":"s","run":"01a1e332-3d9d","workflow":"triage"});
        line.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
        one(Dialect::Envelope, &line.to_string()).text
    };
    for (what, fields, sentence) in [
        (
            "run",
            json!({"event":"start","status":"running","triggeredBy":"ada"}),
            "run started by ada · triage 01a1e332",
        ),
        ("run", json!({"event":"start","status":"queued","triggeredBy":null}), "run queued · triage 01a1e332"),
        ("run", json!({"event":"claim","leaseOwner":"w1","fence":3}), "run claimed by w1 (fence 3) · triage 01a1e332"),
        ("run", json!({"event":"fail","actor":"w1","reason":"no disk"}), "run failed by w1: no disk · triage 01a1e332"),
        ("phase", json!({"phase":"plan","state":"completed","success":false}), "phase plan failed · triage 01a1e332"),
        (
            "gate",
            json!({"gate":"merge","status":"approved","respondedBy":"ada"}),
            "gate merge approved by ada · triage 01a1e332",
        ),
        ("renamed", json!({"name":"plan","previousName":null}), "session renamed to plan"),
    ] {
        assert_eq!(line(what, fields), sentence);
    }
    assert!(line("unheard_of", json!({"x":1})).contains("\"x\":1"), "shown with its raw members");
}

#[test]
fn progress_is_distinguished_from_results() {
    let progress = r#"{"type":"progress","data":{"type":"hook_progress"},"uuid":"u","isSidechain":false}"#;
    assert!(one(Dialect::Claude, progress).is_progress());
    let updated = r#"{"type":"item.updated","item":{"id":"i","type":"todo_list","items":[]}}"#;
    assert!(one(Dialect::Codex, updated).is_progress());
    let made = transcripts::codex_exec(1, 1);
    let items = render(Dialect::Codex, &made.lines);
    assert_eq!(items.iter().filter(|item| item.is_progress()).count(), 2);
    assert_eq!(items.iter().filter(|item| item.kind == ItemKind::ToolCall).count(), 4, "each call once");
}

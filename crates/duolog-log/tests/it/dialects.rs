use duolog_log::dialect::detect::{Detector, of_line};
use duolog_log::dialect::summary::Summary;
use duolog_log::dialect::turn::TurnFold;
use duolog_log::dialect::{Boundary, Dialect, Interpreter, ItemKind, TimelineItem};
use duolog_testkit::transcripts::{self, Cut, GeneratedLog};
use duolog_types::Position;

pub(crate) fn made_of_each() -> Vec<(Dialect, GeneratedLog)> {
    vec![
        (Dialect::Envelope, transcripts::envelope(1, 5)),
        (Dialect::Turns, transcripts::turns(2, 5, Cut::Nothing)),
        (Dialect::Transcript, transcripts::transcript(3, 5)),
        (Dialect::Claude, transcripts::claude(4, 5)),
        (Dialect::Codex, transcripts::codex(5, 5, false)),
    ]
}

pub(crate) fn render(dialect: Dialect, lines: &[String]) -> Vec<TimelineItem> {
    let mut interpreter = Interpreter::new(dialect);
    let (mut items, mut at) = (Vec::new(), 0);
    for line in lines {
        interpreter.line(Position(at), line, &mut items);
        at += line.len() as u64 + 1;
    }
    items
}

fn detect(lines: &[String]) -> Option<Dialect> {
    let mut detector = Detector::default();
    for line in lines {
        detector.line(line);
    }
    detector.dialect()
}

pub(crate) fn one(dialect: Dialect, line: &str) -> TimelineItem {
    let mut items = render(dialect, &[line.to_owned()]);
    assert_eq!(items.len(), 1, "{line}");
    items.remove(0)
}

fn count(items: &[TimelineItem], kind: ItemKind) -> usize {
    items.iter().filter(|item| item.kind == kind && !item.sidechain).count()
}

#[test]
fn a_dialect_is_detected_by_content() {
    for (dialect, made) in made_of_each() {
        assert_eq!(detect(&made.lines), Some(dialect));
        assert_eq!(dialect.word().parse(), Ok(dialect));
    }
    assert_eq!(detect(&[]), None);
    assert_eq!(detect(&["{}".to_owned(), "nonsense".to_owned(), String::new()]), None);
}

#[test]
fn plain_messages_do_not_make_a_claude_file_an_envelope() {
    let plain = r#"{"type":"user","message":{"role":"user","content":"x"},"timestamp":"2026-01-01T00:00:00Z"}"#;
    let marked = r#"{"type":"summary","summary":"s","leafUuid":"u"}"#;
    assert_eq!(of_line(plain), Some(Dialect::Envelope));
    let lines: Vec<_> = [plain, plain, plain, marked].map(str::to_owned).into();
    assert_eq!(detect(&lines), Some(Dialect::Claude));
}

#[test]
fn every_turn_of_every_dialect_is_found() {
    for (dialect, made) in made_of_each() {
        let items = render(dialect, &made.lines);
        let mut fold = TurnFold::default();
        let mut turns: Vec<_> = items.iter().filter_map(|item| fold.item(item)).collect();
        turns.extend(fold.last());
        assert_eq!(turns.len() as u64, made.turns, "{dialect}");
        let complete = turns.iter().filter(|turn| turn.is_complete()).count() as u64;
        // A transcript has no end of a turn.
        assert_eq!(complete, if dialect == Dialect::Transcript { 0 } else { made.turns }, "{dialect}");
    }
}

#[test]
fn a_turn_that_was_cut_off_is_incomplete() {
    let made = transcripts::turns(7, 3, Cut::LastTurn);
    let mut fold = TurnFold::default();
    let ended: Vec<_> = render(Dialect::Turns, &made.lines)
        .iter()
        .filter_map(|item| fold.item(item))
        .map(|turn| turn.is_complete())
        .collect();
    assert_eq!(ended, [true, true]);
    let last = fold.last().expect("a last turn");
    assert!(!last.is_complete());
    assert_eq!((last.items, last.tool_calls), (6, 1));
}

#[test]
fn every_line_is_shown_with_its_position() {
    for (dialect, made) in made_of_each() {
        let items = render(dialect, &made.lines);
        let shown: std::collections::BTreeSet<_> = items.iter().map(|item| item.position).collect();
        // Each turn of a rollout repeats three items.
        let twice = if dialect == Dialect::Codex { 3 * made.turns } else { 0 };
        assert_eq!(shown.len() as u64, made.lines.len() as u64 - twice, "{dialect}");
        assert!(items.windows(2).all(|pair| (pair[0].position, pair[0].part) < (pair[1].position, pair[1].part)));
        assert!(items.iter().filter(|item| item.kind != ItemKind::Note).all(|item| item.at.is_some()), "{dialect}");
    }
}

#[test]
fn a_rollout_shows_each_item_once() {
    let made = transcripts::codex(5, 4, false);
    let items = render(Dialect::Codex, &made.lines);
    for kind in [ItemKind::User, ItemKind::Assistant, ItemKind::Thinking, ItemKind::ToolCall, ItemKind::ToolResult] {
        assert_eq!(count(&items, kind), 4, "{kind:?}");
    }
    assert!(items.iter().any(|item| item.what.as_deref() == Some("context") && item.kind == ItemKind::Note));
}

#[test]
fn the_same_text_twice_is_two_items() {
    let person = r#"{"timestamp":"2026-01-01T00:00:00Z","type":"event_msg","payload":{"type":"user_message","message":"go on"}}"#;
    let model = r#"{"timestamp":"2026-01-01T00:00:00Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"go on"}]}}"#;
    for (lines, times) in [
        (vec![person, person], 2),
        (vec![model, person], 1),
        (vec![person, model], 1),
        (vec![model, person, person], 2),
        (vec![model, person, model, person], 2),
    ] {
        let lines: Vec<_> = lines.into_iter().map(str::to_owned).collect();
        assert_eq!(render(Dialect::Codex, &lines).len(), times, "{lines:?}");
    }
}

#[test]
fn a_result_is_shown_with_its_tool() {
    for dialect in [Dialect::Envelope, Dialect::Claude, Dialect::Codex] {
        let (_, made) = made_of_each().into_iter().find(|(of, _)| *of == dialect).expect("made");
        let items = render(dialect, &made.lines);
        let answers: Vec<_> = items.iter().filter(|item| item.kind == ItemKind::ToolResult).collect();
        assert!(!answers.is_empty());
        assert!(answers.iter().all(|item| item.tool.is_some() && item.call_id.is_some()), "{dialect}");
    }
}

#[test]
fn side_conversations_are_marked_and_start_no_turn() {
    let line = r#"{"type":"user","isSidechain":true,"agentId":"a1","parentUuid":null,"uuid":"u","message":{"role":"user","content":"look"},"timestamp":"2026-01-01T00:00:00Z"}"#;
    for dialect in [Dialect::Claude, Dialect::Envelope] {
        let item = one(dialect, line);
        assert!(item.sidechain);
        assert_eq!((item.kind, item.boundary), (ItemKind::User, Boundary::Within));
    }
    assert_eq!(one(Dialect::Claude, line).author.as_deref(), Some("a1"));
}

#[test]
fn text_that_no_person_wrote_starts_no_turn() {
    let meta = |flag: &str| {
        format!(
            r#"{{"type":"user","{flag}":true,"parentUuid":null,"uuid":"u","message":{{"role":"user","content":"x"}}}}"#
        )
    };
    for (flag, what) in [("isMeta", "meta"), ("isCompactSummary", "compact_summary")] {
        let item = one(Dialect::Claude, &meta(flag));
        assert_eq!((item.kind, item.boundary), (ItemKind::Note, Boundary::Within));
        assert_eq!(item.what.as_deref(), Some(what));
    }
}

#[test]
fn text_that_claude_code_adds_starts_no_turn() {
    let interrupted = ["[Request interrupted by user]", "[Request interrupted by user for tool use]"];
    let output = "<local-command-stdout>ok</local-command-stdout>";
    for (text, what, boundary, shown) in [
        (interrupted[0], "interrupted", Boundary::Within, interrupted[0]),
        (interrupted[1], "interrupted", Boundary::Within, interrupted[1]),
        // No model answers a command of the program itself.
        (output, "command_output", Boundary::Closes, "ok"),
    ] {
        let line = format!(
            r#"{{"type":"user","isSidechain":false,"parentUuid":null,"uuid":"u","message":{{"role":"user","content":[{{"type":"text","text":"{text}"}}]}}}}"#
        );
        let item = one(Dialect::Claude, &line);
        assert_eq!((item.kind, item.boundary, item.what.as_deref()), (ItemKind::Note, boundary, Some(what)));
        assert_eq!(item.text, shown);
    }
}

#[test]
fn duologs_own_lines_are_understood_in_every_dialect() {
    let line = r#"{"type":"system","subtype":"duolog.phase","uuid":"u","timestamp":"2026-01-02T03:04:05Z","sessionId":"s","phase":"build"}"#;
    for dialect in Dialect::ALL {
        let item = one(dialect, line);
        assert_eq!((item.kind, item.what.as_deref()), (ItemKind::Note, Some("duolog.phase")));
        assert_eq!(item.text, r#"{"phase":"build"}"#);
        assert!(item.at.is_some());
    }
    assert_eq!(of_line(line), None, "they do not decide the file's dialect");
}

#[test]
fn in_a_mixed_file_each_line_is_rendered_by_its_own_dialect() {
    let all = made_of_each();
    for home in Dialect::ALL {
        for (dialect, made) in &all {
            let at_home = render(*dialect, &made.lines);
            let abroad = render(home, &made.lines);
            let words = |items: &[TimelineItem]| -> Vec<_> {
                items.iter().map(|item| (item.kind, item.text.clone(), item.tool.clone())).collect()
            };
            assert_eq!(words(&abroad), words(&at_home), "{dialect} in a file of {home}");
        }
    }
}

#[test]
fn older_forms_of_an_envelope_are_read() {
    let tool = one(Dialect::Envelope, r#"{"type":"tool_use","id":"t1","name":"bash","input":{"c":1}}"#);
    assert_eq!((tool.kind, tool.tool.as_deref(), tool.text.as_str()), (ItemKind::ToolCall, Some("bash"), r#"{"c":1}"#));
    let remark = one(Dialect::Envelope, r#"{"role":"system","subtype":"auto_retry_start","content":"Auto-retry 1/3"}"#);
    assert_eq!((remark.kind, remark.text.as_str()), (ItemKind::Note, "Auto-retry 1/3"));
    let text = r#"{"type":"assistant","message":"{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"hi\"}]}"}"#;
    assert_eq!(one(Dialect::Envelope, text).text, "hi");
    let failed = one(Dialect::Envelope, r#"{"type":"assistant","isApiErrorMessage":true,"error":"no credit"}"#);
    assert_eq!((failed.kind, failed.text.as_str(), failed.failed), (ItemKind::Error, "no credit", true));
    let calls =
        r#"{"role":"assistant","content":"","tool_calls":[{"id":"c","function":{"name":"ls","arguments":"{}"}}]}"#;
    assert_eq!(one(Dialect::Envelope, calls).tool.as_deref(), Some("ls"));
}

#[test]
fn a_summary_names_the_session() {
    let made = transcripts::claude(4, 3);
    let mut summary = Summary::default();
    let items = render(Dialect::Claude, &made.lines);
    for item in &items {
        summary.item(item);
    }
    assert_eq!(summary.title.as_deref(), Some("Session 4"), "a summary takes precedence over the first prompt");
    assert_eq!(summary.model.as_deref(), Some(made.model.as_str()));
    assert_eq!(summary.prompts, 3);
    assert_eq!(summary.lines, made.lines.len() as u64);
    assert!(summary.first_at() < summary.last_at());
    // It can stop after any item and resume.
    for cut in 0..items.len() {
        let mut first = Summary::default();
        items[..cut].iter().for_each(|item| first.item(item));
        let mut second = Summary::from_bytes(&first.to_bytes()).expect("reads back");
        items[cut..].iter().for_each(|item| second.item(item));
        assert_eq!(second, summary);
    }
    assert_eq!(Summary::from_bytes(b"nonsense"), None);
}

#[test]
fn a_line_of_no_dialect_with_a_role_and_a_text_is_shown_as_such() {
    let cases = [
        (r#"{"type":"user","text":"What is the plan?"}"#, ItemKind::User, Boundary::Opens, "What is the plan?"),
        (
            r#"{"type":"assistant","text":"First, a log.","model":"m"}"#,
            ItemKind::Assistant,
            Boundary::Within,
            "First, a log.",
        ),
        (r#"{"kind":"thinking","text":"hm"}"#, ItemKind::Thinking, Boundary::Within, "hm"),
        (r#"{"type":"error","text":"no"}"#, ItemKind::Error, Boundary::Within, "no"),
        (r#"{"type":"result","text":"done"}"#, ItemKind::Result, Boundary::Closes, "done"),
        (r#"{"type":"tool_result","tool":"ls","text":"a"}"#, ItemKind::ToolResult, Boundary::Within, "a"),
        (r#"{"type":"system","text":"resumed"}"#, ItemKind::Note, Boundary::Within, "resumed"),
        (r#"{"type":"user","content":[{"type":"text","text":"a"}]}"#, ItemKind::User, Boundary::Opens, "a"),
    ];
    for dialect in Dialect::ALL {
        for (line, kind, boundary, text) in &cases {
            let item = one(dialect, line);
            assert_eq!((item.kind, item.boundary, item.text.as_str()), (*kind, *boundary, *text), "{line}");
            assert_eq!(of_line(line), None, "{line} makes a file none of theirs");
        }
        for other in [
            r#"{"type":"user"}"#,
            r#"{"text":"who?"}"#,
            r#"{"type":"beat","text":"x"}"#,
            r#"{"type":"user","text":null}"#,
        ] {
            let item = one(dialect, other);
            assert_eq!((item.kind, item.text.as_str()), (ItemKind::Note, other), "{other} is kept as it stands");
        }
    }
}

#[test]
fn a_result_object_is_shown_as_its_text() {
    let line = |answer: &str| {
        format!(
            r#"{{"type":"user","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t","content":{answer}}}]}}}}"#
        )
    };
    let item = one(Dialect::Envelope, &line(r#"{"content":[{"type":"text","text":"a\nb"}],"details":{"n":1}}"#));
    assert_eq!((item.kind, item.text.as_str(), item.failed), (ItemKind::ToolResult, "a\nb", false));
    let item = one(Dialect::Envelope, &line(r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#));
    assert_eq!((item.text.as_str(), item.failed), ("no", true));
    let item = one(Dialect::Envelope, &line(r#"{"stdout":"a"}"#));
    assert_eq!(item.text, r#"{"stdout":"a"}"#);
}

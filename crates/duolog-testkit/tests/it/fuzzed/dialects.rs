//! Rendering: no line is hidden, rendering is deterministic, and a bad line does not affect others.

use duolog_log::dialect::detect::of_line;
use duolog_log::dialect::summary::Summary;
use duolog_log::dialect::turn::TurnFold;
use duolog_log::dialect::{Dialect, Interpreter, TimelineItem};
use duolog_types::Position;

use super::{choice, lines_in};

pub(super) fn target(input: &[u8]) {
    for dialect in Dialect::ALL {
        let items = render(dialect, input);
        assert_eq!(items, render(dialect, input), "{dialect}: rendering is deterministic");
        let order = |item: &TimelineItem| (item.position, item.part);
        assert!(items.windows(2).all(|pair| order(&pair[0]) < order(&pair[1])), "{dialect}: positions increase");
        each_by_itself(dialect, input);
        the_next_good_line_is_read(dialect, input);
        folds(&items, choice(input, 1) % (items.len() + 1));
    }
}

fn render(dialect: Dialect, input: &[u8]) -> Vec<TimelineItem> {
    render_with(&mut Interpreter::new(dialect), input)
}

fn render_with(interpreter: &mut Interpreter, input: &[u8]) -> Vec<TimelineItem> {
    let (mut items, mut at) = (Vec::new(), 0);
    for line in lines_in(input) {
        interpreter.bytes(Position(at), line, &mut items);
        at += line.len() as u64 + 1;
    }
    items
}

fn each_by_itself(dialect: Dialect, input: &[u8]) {
    for line in lines_in(input) {
        let text = String::from_utf8_lossy(line);
        let (mut by_bytes, mut by_text) = (Vec::new(), Vec::new());
        Interpreter::new(dialect).bytes(Position(7), line, &mut by_bytes);
        Interpreter::new(dialect).line(Position(7), &text, &mut by_text);
        assert_eq!(by_bytes, by_text);
        assert_eq!(by_text.is_empty(), text.trim().is_empty(), "{dialect}: only a blank line has no item");
        assert!(by_text.iter().all(|item| item.position == Position(7)));
        let padded = format!("  {text}\t\r");
        let mut by_padded = Vec::new();
        Interpreter::new(dialect).line(Position(7), &padded, &mut by_padded);
        assert_eq!(by_padded, by_text, "{dialect}: white space around a line does not matter");
    }
}

/// Returns a line with a text that no input contains.
fn good_line(dialect: Dialect, word: &str) -> String {
    let line = match dialect {
        Dialect::Envelope => r#"{"type":"user","message":{"role":"user","content":"WORD"}}"#,
        Dialect::Turns => r#"{"kind":"user_message","userInput":"WORD"}"#,
        Dialect::Transcript => r#"{"t": 1.5, "iter": 0, "agent_id": "a", "role": "user", "content": "WORD"}"#,
        Dialect::Claude => r#"{"type":"user","parentUuid":null,"uuid":"u","message":{"role":"user","content":"WORD"}}"#,
        Dialect::Codex => {
            r#"{"timestamp":"2026-01-01T00:00:00Z","type":"event_msg","payload":{"type":"user_message","message":"WORD"}}"#
        }
    };
    line.replace("WORD", word)
}

fn the_next_good_line_is_read(dialect: Dialect, input: &[u8]) {
    let word = format!("said {:x}", choice(input, 2));
    let line = good_line(dialect, &word);
    assert_eq!(of_line(&line), Some(dialect));
    let mut interpreter = Interpreter::new(dialect);
    render_with(&mut interpreter, input);
    let (mut after, mut alone) = (Vec::new(), Vec::new());
    interpreter.line(Position(9), &line, &mut after);
    Interpreter::new(dialect).line(Position(9), &line, &mut alone);
    let told = |items: &[TimelineItem]| -> Vec<_> {
        items.iter().map(|item| (item.kind, item.boundary, item.text.clone())).collect()
    };
    assert_eq!(told(&after), told(&alone), "{dialect}");
    assert!(alone.len() == 1 && alone[0].text == word, "{dialect}");
}

/// Turns and summaries accept any items; a summary can stop after any item and resume.
fn folds(items: &[TimelineItem], cut: usize) {
    let (mut turns, mut whole, mut first) = (TurnFold::default(), Summary::default(), Summary::default());
    let mut told: u64 = 0;
    for item in items {
        told += turns.item(item).map_or(0, |turn| turn.items);
        whole.item(item);
    }
    told += turns.last().map_or(0, |turn| turn.items);
    assert!(told <= items.len() as u64, "no item is in two turns");
    items[..cut].iter().for_each(|item| first.item(item));
    let mut second = Summary::from_bytes(&first.to_bytes()).expect("reads back");
    items[cut..].iter().for_each(|item| second.item(item));
    assert_eq!(second, whole, "resumed after {cut}");
}

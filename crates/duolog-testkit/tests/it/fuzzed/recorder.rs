//! Every output of a runtime becomes lines that a log accepts and the envelope reader knows, deterministically.

use std::convert::Infallible;
use std::sync::Arc;

use duolog_log::dialect::detect::of_line;
use duolog_log::dialect::recorder::{Known, Options, Recorder, Sink};
use duolog_log::dialect::{Dialect, Interpreter, ItemKind};
use duolog_types::Position;
use duolog_types::line::check_line;

use super::{choice, lines_in};
use duolog_testkit::FixedClock;

/// The output of a recorder.
#[derive(Default, Debug, PartialEq, Eq)]
struct Written {
    lines: Vec<String>,
    blobs: Vec<String>,
}

impl Sink for Written {
    type Error = Infallible;

    fn line(&mut self, line: &str) -> Result<(), Infallible> {
        assert_eq!(check_line(line.as_bytes(), 64 << 20), Ok(()), "a log rejects the line {line:.300}");
        self.lines.push(line.to_owned());
        Ok(())
    }

    fn blob(&mut self, whole: &str) -> Result<String, Infallible> {
        self.blobs.push(whole.to_owned());
        Ok(format!("blob:{:064x}", self.blobs.len()))
    }
}

pub(super) fn target(input: &[u8]) {
    let events: Vec<String> =
        lines_in(input).into_iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect();
    let tool_result_bytes_max = 1 + choice(input, 1) % 2000;
    let written = record(&events, tool_result_bytes_max, &Known::default());
    assert_eq!(written, record(&events, tool_result_bytes_max, &Known::default()), "recording is deterministic");
    let mut items = Vec::new();
    let mut interpreter = Interpreter::new(Dialect::Envelope);
    let mut known = Known::default();
    for line in &written.lines {
        items.clear();
        interpreter.line(Position::ZERO, line, &mut items);
        let unread = items.iter().any(|item| item.what.as_deref() == Some("unreadable"));
        // A rollout has some events twice, and the second line of such a pair has no item.
        let may_be_silent = of_line(line) == Some(Dialect::Codex);
        assert!((may_be_silent || !items.is_empty()) && !unread, "{line:.300}");
        // The complete result is kept, and its start is shown.
        for item in items.iter().filter(|item| item.kind == ItemKind::ToolResult) {
            let Some(number) = item.full.as_deref().and_then(|full| full.strip_prefix("blob:")) else { continue };
            let whole =
                usize::from_str_radix(number, 16).ok().and_then(|number| written.blobs.get(number.wrapping_sub(1)));
            let shown = item.text.rsplit_once("\n…[truncated ").map(|(shown, _)| shown);
            // A runtime may name its own blob.
            if let (Some(whole), Some(shown)) = (whole, shown) {
                assert!(whole.starts_with(shown) && shown.len() <= tool_result_bytes_max);
            }
        }
    }
    let _ = written.lines.iter().rev().all(|line| known.line_before(line));
    // Some runtimes repeat what was not acknowledged: it is recorded again.
    let again = record(&events, tool_result_bytes_max, &known);
    assert!(again.lines.len() <= written.lines.len(), "a resumed session repeats at most the original lines");
}

fn record(events: &[String], tool_result_bytes_max: usize, known: &Known) -> Written {
    let clock = Arc::new(FixedClock::at(1_779_872_405_000_000));
    let prompt = Some("do the thing".to_owned());
    let options = Options { prompt, tool_result_bytes_max, clock, ..Options::default() };
    let mut written = Written::default();
    let mut recorder = Recorder::new(options, known);
    for event in events {
        recorder.event(event, &mut written).expect("recorded");
    }
    recorder.finish(&mut written).expect("finished");
    written
}

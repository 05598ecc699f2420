//! Reading the texts of a log, from its start or from a checkpoint, with the same result.

use duolog_log::dialect::detect::Detector;
use duolog_log::dialect::{Dialect, Interpreter, TimelineItem, text};
use duolog_log::{Item, Reader};
use duolog_types::{Position, Timestamp};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::log::Entry;

/// The state of the reader: what is needed to read the lines after a position as if all earlier lines had been read.
pub(super) struct Reading {
    dialect: Dialect,
    /// True if no further line changes the dialect.
    is_settled: bool,
    interpreter: Interpreter,
    /// The last timestamp of a line; 0 before the first.
    at: i64,
    /// The number of lines that could not be read.
    pub(super) damaged: u64,
    items: Vec<TimelineItem>,
}

/// The stored form of a [`Reading`].
#[derive(Serialize, Deserialize)]
struct Memory {
    dialect: String,
    is_settled: bool,
    at: i64,
    scene: String,
}

/// A text in a log.
pub(super) struct SearchText<'t> {
    pub(super) item: &'t TimelineItem,
    /// The timestamp in microseconds since 1970; 0 if there is none.
    pub(super) at: i64,
    /// The text to search.
    pub(super) words: &'t str,
}

impl Reading {
    /// Starts at the first line of a log. Lines up to `to` determine the dialect.
    pub(super) fn begin(reader: &Reader, to: Position, line_bytes_max: usize) -> Result<Self> {
        let (dialect, is_settled) = detect(reader, to, line_bytes_max)?;
        let interpreter = Interpreter::new(dialect);
        Ok(Self { dialect, is_settled, interpreter, at: 0, damaged: 0, items: Vec::new() })
    }

    /// Continues from a stored state; `None` if the log turned out to be in another dialect.
    pub(super) fn go_on(
        memory: &[u8],
        damaged: u64,
        reader: &Reader,
        to: Position,
        line_bytes_max: usize,
    ) -> Result<Option<Self>> {
        let Ok(Memory { dialect, mut is_settled, at, scene }) = serde_json::from_slice(memory) else {
            return Ok(None);
        };
        let Ok(dialect) = dialect.parse() else { return Ok(None) };
        if !is_settled {
            let (now, settled) = detect(reader, to, line_bytes_max)?;
            if now != dialect {
                return Ok(None);
            }
            is_settled = settled;
        }
        let interpreter = Interpreter::from_bytes(dialect, scene.as_bytes());
        Ok(interpreter.map(|interpreter| Self { dialect, is_settled, interpreter, at, damaged, items: Vec::new() }))
    }

    /// Returns the dialect in a stored state.
    pub(super) fn dialect_of(memory: &[u8]) -> Option<Dialect> {
        serde_json::from_slice::<Memory>(memory).ok()?.dialect.parse().ok()
    }

    /// Returns the state to store.
    pub(super) fn memory(&self) -> Vec<u8> {
        let memory = Memory {
            dialect: self.dialect.word().to_owned(),
            is_settled: self.is_settled,
            at: self.at,
            scene: String::from_utf8(self.interpreter.to_bytes()).unwrap_or_default(),
        };
        serde_json::to_vec(&memory).unwrap_or_default()
    }

    /// Reads the next line and passes on its texts. A line that cannot be read is counted and skipped.
    pub(super) fn line(
        &mut self,
        item: Item<'_>,
        line_bytes_max: usize,
        each: &mut dyn FnMut(&SearchText<'_>) -> Result<()>,
    ) -> Result<()> {
        let Entry::Line(line) = Entry::of(item, line_bytes_max) else {
            self.damaged += 1;
            return Ok(());
        };
        self.items.clear();
        self.interpreter.bytes(line.start, line.bytes, &mut self.items);
        for item in &self.items {
            self.at = item.at.map_or(self.at, |at| at.as_micros().max(1));
            each(&SearchText { item, at: self.at, words: &text::readable(item) })?;
        }
        Ok(())
    }
}

/// Returns the item with this number in a line, without its context.
pub(super) fn item_at(dialect: Dialect, start: Position, line: &[u8], part: u32) -> Option<TimelineItem> {
    let mut items = Vec::new();
    Interpreter::new(dialect).bytes(start, line, &mut items);
    items.into_iter().find(|item| item.part == part)
}

/// Converts microseconds to a timestamp.
pub(super) fn moment(at: i64) -> Option<Timestamp> {
    (at > 0).then(|| Timestamp::from_micros(at))
}

/// Returns the dialect of most of the first lines, and true if further lines would not change it.
fn detect(reader: &Reader, to: Position, line_bytes_max: usize) -> Result<(Dialect, bool)> {
    let mut detector = Detector::default();
    let mut lines = reader.lines(reader.first(), to, line_bytes_max)?;
    while !detector.is_done()
        && let Some(item) = lines.next()?
    {
        if let Entry::Line(line) = Entry::of(item, line_bytes_max) {
            detector.line(&String::from_utf8_lossy(line.bytes));
        }
    }
    // If no line is in a known dialect, every line is a note in any dialect.
    Ok((detector.dialect().unwrap_or(Dialect::Envelope), detector.is_done()))
}

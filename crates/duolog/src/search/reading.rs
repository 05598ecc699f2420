//! Reading a log as texts, from its beginning or from where somebody stopped, with the same outcome.

use duolog_log::dialect::detect::Detector;
use duolog_log::dialect::{Dialect, Interpreter, TimelineItem, text};
use duolog_log::{Item, Reader};
use duolog_types::{Position, Timestamp};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::log::Entry;

/// What must be known to read the lines behind a position as if all before it had been read.
pub(super) struct Reading {
    dialect: Dialect,
    /// No further line changes the dialect.
    is_settled: bool,
    interpreter: Interpreter,
    /// The last time that a line told; 0 before the first.
    at: i64,
    /// How many lines could not be read.
    pub(super) damaged: u64,
    items: Vec<TimelineItem>,
}

/// The same, as it is kept.
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
    /// When, in microseconds since 1970; 0 where nobody tells.
    pub(super) at: i64,
    /// What is searched.
    pub(super) words: &'t str,
}

impl Reading {
    /// Begins with a log's first line; lines up to `to` tell what it is in.
    pub(super) fn begin(reader: &Reader, to: Position, line_bytes_max: usize) -> Result<Self> {
        let (dialect, is_settled) = detect(reader, to, line_bytes_max)?;
        let interpreter = Interpreter::new(dialect);
        Ok(Self { dialect, is_settled, interpreter, at: 0, damaged: 0, items: Vec::new() })
    }

    /// Goes on from what was kept; nothing where that cannot be, because the log turned out to be in another dialect.
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

    /// The dialect that was kept.
    pub(super) fn dialect_of(memory: &[u8]) -> Option<Dialect> {
        serde_json::from_slice::<Memory>(memory).ok()?.dialect.parse().ok()
    }

    /// What is to be kept.
    pub(super) fn memory(&self) -> Vec<u8> {
        let memory = Memory {
            dialect: self.dialect.word().to_owned(),
            is_settled: self.is_settled,
            at: self.at,
            scene: String::from_utf8(self.interpreter.to_bytes()).unwrap_or_default(),
        };
        serde_json::to_vec(&memory).unwrap_or_default()
    }

    /// Reads the next line and gives out its texts. A line that cannot be read is counted and hides nothing.
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

/// The item with this number of a line that stands by itself.
pub(super) fn item_at(dialect: Dialect, start: Position, line: &[u8], part: u32) -> Option<TimelineItem> {
    let mut items = Vec::new();
    Interpreter::new(dialect).bytes(start, line, &mut items);
    items.into_iter().find(|item| item.part == part)
}

/// The moment behind microseconds as texts have them.
pub(super) fn moment(at: i64) -> Option<Timestamp> {
    (at > 0).then(|| Timestamp::from_micros(at))
}

/// What most of the first lines are in, and whether further ones would not change that.
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
    // Where no line tells, every line is a note in whatever dialect.
    Ok((detector.dialect().unwrap_or(Dialect::Envelope), detector.is_done()))
}

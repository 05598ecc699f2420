//! Recording the output of a runtime: events become lines and are appended as they arrive.
//!
//! Lines are collected until [`Recording::flush`]. A caller that reads events from a pipe flushes before it waits for
//! more, so that the log is complete during a pause. A blob is durable before the line that refers to it, and held
//! until that line is appended, so that it is not pruned in between.

use std::time::Duration;

use duolog_join::{Committed, ReadLog};
use duolog_log::dialect::detect;
use duolog_log::dialect::envelope::Builder;
use duolog_log::dialect::recorder::{Known, Options, RecordError, Recorder, Sink};
use duolog_log::{Append, Blobs, Hold, Item};
use duolog_types::line::LineFault;
use duolog_types::{BadLine, Batch, Cursor, Durability, OperationId, Timestamp};

use super::Log;
use super::model::{BadEvent, RecordFormat, RecordOptions, Recorded};
use crate::error::{Error, Invalid, Result};

/// The byte order mark that some programs write before their first line.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// The number of collected bytes that triggers an append.
const BATCH_BYTES: usize = 1 << 20;
/// The number of lines before the end that are searched for a turn without a result.
const TAIL_LINES_MAX: u32 = 10_000;
/// The bytes of those lines.
const TAIL_BYTES_MAX: u64 = 64 << 20;

/// A recording in progress. Dropping it discards the lines that were not flushed.
pub struct Recording {
    log: Log,
    durability: Durability,
    form: Form,
    sink: Waiting,
    recorded: Recorded,
    /// The prefix of the operation ids of the events.
    operation: Option<OperationId>,
}

enum Form {
    Events(Box<Recorder>),
    Lines(RecordFormat),
}

/// Lines that are waiting for their append.
struct Waiting {
    blobs: Blobs,
    /// Set if a line refers to a blob.
    hold: Option<Hold>,
    busy_timeout: Duration,
    batch: Batch,
    lines: u64,
    kept: u64,
}

impl Sink for Waiting {
    type Error = Error;

    fn line(&mut self, line: &str) -> Result<()> {
        self.batch.push(line.as_bytes())?;
        self.lines += 1;
        Ok(())
    }

    fn blob(&mut self, whole: &str) -> Result<String> {
        if self.hold.is_none() {
            self.hold = Some(self.blobs.hold(self.busy_timeout)?);
        }
        self.kept += 1;
        // Before the line that refers to it, and as durable as that line may become.
        Ok(self.blobs.put(&mut whole.as_bytes(), Durability::Power)?.reference())
    }
}

impl Log {
    /// Starts a recording. If the log ends with a prompt that has no result yet, that prompt is not written again.
    pub fn record(&self, options: RecordOptions) -> Result<Recording> {
        let join = &self.store.join;
        let form = match options.form {
            RecordFormat::Envelope => {
                let how = Options {
                    prompt: options.prompt,
                    model: options.model,
                    keep_thinking: options.keep_thinking,
                    ..Options::default()
                };
                Form::Events(Box::new(Recorder::new(how, &self.known()?)))
            }
            other => Form::Lines(other),
        };
        let sink = Waiting {
            blobs: Blobs::on(join.disk()),
            hold: None,
            busy_timeout: join.limits().busy_timeout,
            batch: Batch::new(join.append_limits()),
            lines: 0,
            kept: 0,
        };
        let RecordOptions { durability, operation, .. } = options;
        Ok(Recording { log: self.clone(), durability, form, sink, recorded: Recorded::default(), operation })
    }

    /// Returns what a recorder must know of the log: the last turn, if it has no result.
    fn known(&self) -> Result<Known> {
        let mut known = Known::default();
        // The first append refuses a log that lacks lines.
        let ReadLog { reader, end, .. } = self.store.join.read_log(&self.session)?;
        let Some(reader) = reader else { return Ok(known) };
        let mut back = reader.back(end, self.store.join.limits().line_bytes_max)?;
        for _ in 0..TAIL_LINES_MAX {
            match back.next()? {
                Some(item) if end.0 - item.end().0 > TAIL_BYTES_MAX => break,
                Some(Item::Line(line)) if known.line_before(&String::from_utf8_lossy(line.bytes)) => {}
                Some(Item::TooLong { .. }) => {}
                Some(Item::Line(_)) | None => break,
            }
        }
        Ok(known)
    }
}

impl Recording {
    /// Takes one line of the runtime's output. The line is durable after [`Recording::flush`].
    ///
    /// A line that cannot be appended does not end the recording: it is kept as a remark if it fits, and returned in
    /// any case.
    pub fn event(&mut self, line: &[u8]) -> Result<Option<BadEvent>> {
        self.recorded.events += 1;
        let line = if self.recorded.events == 1 { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line) } else { line };
        let taken = match &mut self.form {
            Form::Events(recorder) => match std::str::from_utf8(line) {
                Ok(text) => {
                    let taken = recorder.event(text, &mut self.sink).map_err(unwrapped);
                    self.recorded.unknown = recorder.unknown();
                    taken
                }
                Err(error) => Err(BadLine { number: 0, fault: LineFault::NotUtf8(error.valid_up_to()) }.into()),
            },
            Form::Lines(form) => {
                keep(*form, line, &mut self.sink).map(|is_other| self.recorded.others += u64::from(is_other))
            }
        };
        let bad = match taken {
            Ok(()) => None,
            Err(Error::Invalid(Invalid::Line(bad))) => Some(self.bad_event(line, bad.fault)?),
            Err(other) => return Err(other),
        };
        if self.operation.is_some() {
            self.flush_once(&self.recorded.events.to_string(), line)?;
        } else if self.sink.batch.as_bytes().len() >= BATCH_BYTES {
            self.flush()?;
        }
        Ok(bad)
    }

    /// Counts a line that is over the limit and was skipped by the caller.
    pub fn too_long(&mut self, bytes: usize, max: usize) -> BadEvent {
        self.recorded.events += 1;
        self.recorded.refused += 1;
        BadEvent { number: self.recorded.events, fault: LineFault::TooLong { bytes, max }, is_kept: false }
    }

    /// Keeps a line that cannot be appended as a remark, unless it is too long for one.
    fn bad_event(&mut self, line: &[u8], fault: LineFault) -> Result<BadEvent> {
        let kept = remark(line, self.log.store.join.clock().now(), &mut self.sink)?;
        *(if kept { &mut self.recorded.remarks } else { &mut self.recorded.refused }) += 1;
        Ok(BadEvent { number: self.recorded.events, fault, is_kept: kept })
    }

    /// Appends the collected lines. They are as durable as requested when this returns.
    pub fn flush(&mut self) -> Result<()> {
        if self.sink.batch.is_empty() {
            return Ok(());
        }
        let committed = self.log.append(&self.sink.batch, self.durability)?;
        self.note(&committed);
        Ok(())
    }

    /// Appends the lines of one event, unless they were appended before under the id of this event.
    fn flush_once(&mut self, event_id: &str, event: &[u8]) -> Result<()> {
        let Some(operation) = self.operation.as_ref().filter(|_| !self.sink.batch.is_empty()) else { return Ok(()) };
        let operation = OperationId::parse(&format!("{operation}/{event_id}")).map_err(|bad| {
            Error::Invalid(Invalid::Value { what: "the operation id of an event", why: bad.to_string() })
        })?;
        let (join, how) = (&self.log.store.join, Append { durability: self.durability, if_position: None });
        match join.append_event_once(&self.log.session, &operation, event, &self.sink.batch, &how) {
            Ok(committed) => self.note(&committed),
            Err(error) => {
                // A later flush would append them without an operation id.
                self.sink.batch.clear();
                return Err(error.into());
            }
        }
        Ok(())
    }

    fn note(&mut self, committed: &Committed) {
        self.sink.batch.clear();
        self.sink.hold = None;
        self.recorded.cursor = Some(committed.cursor());
        (self.recorded.lines, self.recorded.blobs) = (self.sink.lines, self.sink.kept);
    }

    /// Returns the totals of the lines that are in the log so far.
    pub const fn so_far(&self) -> &Recorded {
        &self.recorded
    }

    /// Ends the recording. A turn that ended gets its result; a turn that was cut off gets none.
    pub fn finish(mut self) -> Result<Recorded> {
        if let Form::Events(recorder) = &mut self.form {
            recorder.finish(&mut self.sink).map_err(unwrapped)?;
        }
        // A retry may have more input and another end.
        self.flush_once(&format!("end-{}", self.recorded.events), b"end")?;
        self.flush()?;
        if self.recorded.cursor.is_none() {
            let epoch = self.log.store.sessions().get(&self.log.session)?.log_epoch;
            self.recorded.cursor = Some(Cursor { epoch, position: self.log.end()? });
        }
        Ok(self.recorded)
    }
}

/// Keeps a line unchanged. Returns true if it is in another dialect than requested.
fn keep(form: RecordFormat, line: &[u8], sink: &mut Waiting) -> Result<bool> {
    if line.iter().all(u8::is_ascii_whitespace) {
        return Ok(false);
    }
    sink.batch.push(line)?;
    sink.lines += 1;
    Ok(form.dialect().is_some_and(|dialect| detect::of_line(&String::from_utf8_lossy(line)) != Some(dialect)))
}

/// Keeps a line that is not a JSON object as a remark. Returns false if it does not fit into a line.
fn remark(line: &[u8], at: Timestamp, sink: &mut Waiting) -> Result<bool> {
    let mut text = String::with_capacity(line.len());
    for chunk in line.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    let timestamp = at.to_string();
    let remark = Builder { timestamp: &timestamp, session_id: None }.remark("output", &text).to_text();
    match sink.line(&remark.map_err(RecordError::Json).map_err(unwrapped)?) {
        Ok(()) => Ok(true),
        Err(Error::Invalid(Invalid::Line(_))) => Ok(false),
        Err(error) => Err(error),
    }
}

fn unwrapped(error: RecordError<Error>) -> Error {
    match error {
        RecordError::Sink(error) => error,
        RecordError::Json(_) => BadLine { number: 0, fault: LineFault::NotJson(0) }.into(),
    }
}

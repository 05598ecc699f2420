//! Recording: what a runtime says, made into lines and appended as it comes.
//!
//! Lines collect until [`Recording::flush`]; whoever reads events from a pipe flushes before waiting for more, so that
//! what was said before a silence stands in the log. A blob is durable before the line that names it, and held until
//! that stands, so that nobody takes it away in between.

use std::time::Duration;

use duolog_log::dialect::recorder::{Known, Options, RecordError, Recorder, Sink};
use duolog_log::dialect::{Boundary, Dialect, Interpreter, detect};
use duolog_log::{Blobs, Hold, Item};
use duolog_types::line::LineFault;
use duolog_types::{BadLine, Batch, Cursor, Durability};

use super::Log;
use super::model::{As, RecordOptions, Recorded};
use crate::error::{Error, Result};

/// The bytes that collect before they are appended without being asked to.
const BATCH_BYTES: usize = 1 << 20;
/// The lines before the end among which an unanswered prompt is looked for.
const TAIL_LINES_MAX: u32 = 10_000;
/// The bytes of those lines.
const TAIL_BYTES_MAX: u64 = 64 << 20;

/// A recording in progress. What was not flushed goes with it.
pub struct Recording<'s> {
    log: Log<'s>,
    durability: Durability,
    form: Form,
    sink: Waiting,
    recorded: Recorded,
}

enum Form {
    Events(Box<Recorder>),
    Lines(As),
}

/// Lines that wait for their append.
struct Waiting {
    blobs: Blobs,
    /// Where a line names a blob.
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
        // Before the line that names it, and as durable as that may become.
        Ok(self.blobs.put(&mut whole.as_bytes(), Durability::Power)?.reference())
    }
}

impl<'s> Log<'s> {
    /// Begins to record. Where the log ends with a prompt that has no result yet, that prompt is not written again.
    pub fn record(&self, options: RecordOptions) -> Result<Recording<'s>> {
        let join = &self.store.join;
        let form = match options.form {
            As::Envelope => {
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
            batch: Batch::new(join.limits()),
            lines: 0,
            kept: 0,
        };
        Ok(Recording { log: self.clone(), durability: options.durability, form, sink, recorded: Recorded::default() })
    }

    /// What a recorder must know of the log: the last line that begins or ends a turn, looked for from the end.
    fn known(&self) -> Result<Known> {
        let mut known = Known::default();
        let Some(reader) = self.store.join.reader(&self.session)? else { return Ok(known) };
        let end = self.stable_end(&reader)?;
        let mut back = reader.back(end, self.store.join.limits().line_bytes_max)?;
        let (mut interpreter, mut items) = (Interpreter::new(Dialect::Envelope), Vec::new());
        for _ in 0..TAIL_LINES_MAX {
            match back.next()? {
                Some(item) if end.0 - item.end().0 > TAIL_BYTES_MAX => break,
                Some(Item::Line(line)) => {
                    let text = String::from_utf8_lossy(line.bytes);
                    items.clear();
                    interpreter.line(line.start, &text, &mut items);
                    if items.iter().any(|item| item.boundary != Boundary::Within) {
                        known.line(&text);
                        break;
                    }
                }
                Some(Item::TooLong { .. }) => {}
                None => break,
            }
        }
        Ok(known)
    }
}

impl Recording<'_> {
    /// Takes what the runtime said, one line of it. Says nothing of durability before [`Recording::flush`].
    pub fn event(&mut self, line: &[u8]) -> Result<()> {
        self.recorded.events += 1;
        let number = usize::try_from(self.recorded.events).unwrap_or(usize::MAX);
        let taken = match &mut self.form {
            Form::Events(recorder) => recorder.event(&String::from_utf8_lossy(line), &mut self.sink).map_err(unwrapped),
            Form::Lines(form) => {
                keep(*form, line, &mut self.sink).map(|is_other| self.recorded.others += u64::from(is_other))
            }
        };
        match taken {
            Err(Error::BadLine(bad)) => return Err(BadLine { number, ..bad }.into()),
            other => other?,
        }
        if self.sink.batch.as_bytes().len() >= BATCH_BYTES { self.flush() } else { Ok(()) }
    }

    /// Appends what was taken. Once it returns, that is as durable as was asked for.
    pub fn flush(&mut self) -> Result<()> {
        if self.sink.batch.is_empty() {
            return Ok(());
        }
        let committed = self.log.append(&self.sink.batch, self.durability)?;
        self.sink.batch.clear();
        self.sink.hold = None;
        self.recorded.cursor = Some(committed.cursor());
        (self.recorded.lines, self.recorded.blobs) = (self.sink.lines, self.sink.kept);
        Ok(())
    }

    /// What was recorded so far, as far as it stands in the log.
    pub const fn so_far(&self) -> &Recorded {
        &self.recorded
    }

    /// Ends the recording. A turn that came to its end gets its result; one that was cut off gets none.
    pub fn finish(mut self) -> Result<Recorded> {
        if let Form::Events(recorder) = &mut self.form {
            recorder.finish(&mut self.sink).map_err(unwrapped)?;
        }
        self.flush()?;
        if self.recorded.cursor.is_none() {
            let epoch = self.log.store.sessions().get(&self.log.session)?.log_epoch;
            self.recorded.cursor = Some(Cursor { epoch, position: self.log.end()? });
        }
        Ok(self.recorded)
    }
}

/// Keeps a line as it is; says whether it is in another dialect than was asked for.
fn keep(form: As, line: &[u8], sink: &mut Waiting) -> Result<bool> {
    if line.iter().all(u8::is_ascii_whitespace) {
        return Ok(false);
    }
    sink.batch.push(line)?;
    sink.lines += 1;
    Ok(form.dialect().is_some_and(|dialect| detect::of_line(&String::from_utf8_lossy(line)) != Some(dialect)))
}

fn unwrapped(error: RecordError<Error>) -> Error {
    match error {
        RecordError::Sink(error) => error,
        RecordError::Json(_) => BadLine { number: 0, fault: LineFault::NotJson(0) }.into(),
    }
}

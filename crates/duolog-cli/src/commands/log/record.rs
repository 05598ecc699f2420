//! `duolog log record`.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use duolog::log::{BadEvent, RecordFormat, RecordOptions, Recorded, Recording};
use duolog::sessions::Session;
use duolog::{Durability, OperationId};
use duolog_wire as wire;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use signal_hook::consts::{SIGINT, SIGTERM};

use super::{Context, Target};
use crate::args;
use crate::failure::{CommandResult, Ended, Failure};
use crate::figures;
use crate::out::Progress;

const AFTER: &str = "\
Examples:
  claude -p \"$task\" --output-format stream-json --verbose | duolog log record --session demo --prompt \"$task\"
  codex exec --json \"$task\" | duolog log record --session demo --prompt \"$task\" --model gpt-5.2-codex
  my-agent --json | duolog log record --session demo --durability power
  skillet-log | duolog log record --session demo --dialect turns
  duolog log record --session demo --operation-id job-17 < events.jsonl

JSON:
  {\"session_id\", \"appended\": 12, \"input_lines\": 40, \"blob_count\": 1, \"unknown_lines\": 0,
   \"other_dialect_lines\": 0, \"remark_lines\": 0, \"refused_lines\": 0, \"bad_lines\": [{\"line\", \"reason\", \"is_kept\"}],
   \"position\": 1234, \"cursor\": \"0:1234\", \"dialect\": \"envelope\", \"interrupted\": false}
  bad_lines lists the first 20. The exit code is 2 if a line could not be appended unchanged.";

/// Size of the read buffer.
const READ_BYTES: usize = 64 << 10;
/// Maximum wait for input before the stop flag is checked. A signal usually interrupts the wait earlier.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// Record the output of an agent
///
/// Reads JSON objects from stdin, one per line, and appends each before it reads more. Press Ctrl-C to stop.
///
/// These formats can be mixed: Claude Code (--output-format stream-json, session files), Codex (exec --json, rollouts),
/// the events of the recorder (session, message_end, tool_execution_end, usage_snapshot, fatal_error) and the other
/// dialects. Events of the recorder become envelopes. Other lines are kept unchanged; a timestamp is added if they have
/// none. Lines of unknown format are kept and counted.
///
/// Thinking is kept only with --thinking. A tool result over 64 KiB is stored in a blob, and its line refers to the
/// blob. A partial message is kept only if the input ends before the message is complete. If the first prompt equals
/// the prompt of the open turn in the log, the recording continues that turn.
///
/// With --dialect turns, transcript or raw, lines are kept byte for byte. A line that is not a JSON object is kept as a
/// remark and reported.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Record {
    #[command(flatten)]
    target: Target,
    /// Output format: events as envelopes, or lines unchanged
    #[arg(long, value_parser = args::recorded_as(), default_value = RecordFormat::Envelope.word())]
    dialect: RecordFormat,
    /// Prompt, if the output of the agent does not contain it
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// Model, if the output of the agent does not contain it
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Keep the agent's thinking
    #[arg(long)]
    thinking: bool,
    /// Durability of the acknowledged lines [default: durability of the configuration]
    ///
    /// process: they survive a process crash. power: they also survive a power cut.
    #[arg(long, value_parser = args::durability())]
    durability: Option<Durability>,
    /// Operation id: each event of the input is recorded once per id
    ///
    /// Event N of the input has the operation id ID/N: a retry with the same input records only the missing events.
    #[arg(long = "operation-id", value_name = "ID")]
    operation: Option<OperationId>,
}

/// Maximum number of bad lines that are reported one by one.
const BAD_LINES_MAX: usize = 20;

impl Record {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let config = context.config()?.clone().with_durability(self.durability);
        let is_ended = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // From here on, a signal sets a flag: the input that was read is appended first.
            signal_hook::flag::register(signal, Arc::clone(&is_ended))
                .map_err(Failure::file("listen for", Path::new("Ctrl-C")))?;
        }
        context.out.invite("reading events from stdin; press Ctrl-D to end");
        let store = context.open_to_write()?;
        let session = store.sessions().open_to_record(&self.target.write_target(&config), self.operation.as_ref())?;
        let recording = store.log(&session.id).record(RecordOptions {
            durability: config.durability(),
            form: self.dialect,
            prompt: self.prompt.clone(),
            model: self.model.clone(),
            keep_thinking: self.thinking,
            operation: self.operation.clone(),
        })?;
        let mut input = Input::new(config.limits().line_bytes_max)?;
        let mut taking =
            EventSink { recording, bytes: 0, bad: Vec::new(), progress: context.out.progress("recording") };
        let read =
            input.read_all(&is_ended, &mut taking).and_then(|()| self.take_last(context, &mut input, &mut taking));
        let EventSink { mut recording, progress, bad, .. } = taking;
        drop(progress);
        for bad in &bad {
            context.out.alert(bad);
        }
        if let Err(failure) = read {
            // Keep the events before the failure; the next recording continues after them.
            recording.flush()?;
            context.close(store);
            return Err(failure);
        }
        let recorded = recording.finish()?;
        self.answer(context, &session, &recorded, &bad, input.interrupted)?;
        context.close(store);
        Ok(if recorded.remarks + recorded.refused == 0 { Ended::Done } else { Ended::Invalid })
    }

    /// Records a last line without a newline. If a signal cut it off, it is a remark in envelopes and is dropped
    /// otherwise.
    fn take_last(&self, context: &Context<'_>, input: &mut Input, taking: &mut EventSink) -> Result<(), Failure> {
        let bytes = input.rest.len() + input.passed;
        if bytes == 0 {
            return Ok(());
        }
        if input.interrupted && self.dialect != RecordFormat::Envelope {
            context.out.warn(format_args!("the last line was not recorded: it was cut off after {bytes} bytes"));
            return Ok(());
        }
        input.end_line(taking)
    }

    fn answer(
        &self,
        context: &mut Context<'_>,
        session: &Session,
        recorded: &Recorded,
        bad: &[BadEvent],
        interrupted: bool,
    ) -> Result<(), Failure> {
        let shape = wire::Recorded { interrupted, ..wire::Recorded::of(&session.id, self.dialect, recorded, bad) };
        let name = session.called();
        context.out.confirm(&shape, |text| {
            let (lines, events) = (figures::things(recorded.lines, "line"), figures::things(recorded.events, "event"));
            let end =
                recorded.cursor.map(|cursor| format!("; the log ends at {}", cursor.position)).unwrap_or_default();
            let how = if interrupted { "interrupted: " } else { "" };
            text.line(format_args!("{how}recorded {lines} from {events} to {name}{end}"));
        })?;
        if recorded.unknown > 0 {
            let lines = figures::things(recorded.unknown, "line");
            context.out.warn(format_args!("{lines} of unknown format; kept unchanged"));
        }
        if recorded.others > 0 {
            let lines = figures::things(recorded.others, "line");
            context.out.warn(format_args!("{lines} not in the {} dialect; kept unchanged", self.dialect.word()));
        }
        if recorded.remarks + recorded.refused > bad.len() as u64 {
            let (kept, refused) =
                (figures::things(recorded.remarks, "bad line"), figures::things(recorded.refused, "bad line"));
            context.out.alert(format_args!("total: {kept} kept as remarks, {refused} not recorded"));
        }
        Ok(())
    }
}

/// Passes events to the recording and shows the progress.
struct EventSink {
    recording: Recording,
    bytes: u64,
    /// First bad lines, up to `BAD_LINES_MAX`.
    bad: Vec<BadEvent>,
    progress: Progress,
}

impl EventSink {
    fn event(&mut self, line: &[u8]) -> Result<(), Failure> {
        self.bytes += line.len() as u64 + 1;
        if let Some(bad) = self.recording.event(line)? {
            self.report(bad);
        }
        Ok(())
    }

    fn too_long(&mut self, bytes: usize, max: usize) {
        self.bytes += bytes as u64 + 1;
        let bad = self.recording.too_long(bytes, max);
        self.report(bad);
    }

    fn report(&mut self, bad: BadEvent) {
        if self.bad.len() < BAD_LINES_MAX {
            self.bad.push(bad);
        }
    }

    /// Appends the events that were passed so far to the log.
    fn flush(&mut self) -> Result<(), Failure> {
        self.recording.flush()?;
        self.progress.set(self.bytes, None);
        self.progress.at(&figures::things(self.recording.so_far().events, "event"));
        Ok(())
    }
}

/// Reads stdin in blocks. Each block is appended before the next read waits.
struct Input {
    stdin: File,
    /// Start of a line whose end has not been read yet.
    rest: Vec<u8>,
    /// Number of bytes of that line that were dropped because the line is over the limit.
    passed: usize,
    interrupted: bool,
    line_bytes_max: usize,
}

impl Input {
    fn new(line_bytes_max: usize) -> Result<Self, Failure> {
        let stdin = io::stdin().as_fd().try_clone_to_owned().map_err(Failure::file("read", Path::new("stdin")))?;
        Ok(Self { stdin: File::from(stdin), rest: Vec::new(), passed: 0, interrupted: false, line_bytes_max })
    }

    /// Reads until the end of stdin or a signal. After a signal, reads only the input that is already available.
    fn read_all(&mut self, is_ended: &AtomicBool, taking: &mut EventSink) -> Result<(), Failure> {
        let mut buffer = vec![0; READ_BYTES];
        // After a signal, read no more than a pipe holds: a writer that does not stop must not block the end.
        let mut drained = 0;
        loop {
            let asked = is_ended.load(Ordering::Relaxed);
            let is_ready = self.wait(if asked { &NOW } else { &LOOK })?;
            if asked && (!is_ready || drained >= DRAIN_BYTES_MAX) {
                break;
            }
            if !is_ready {
                continue;
            }
            let read = match self.stdin.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other.map_err(Failure::file("read", Path::new("stdin")))?,
            };
            if read == 0 {
                break;
            }
            drained += if asked { read } else { 0 };
            self.take(&buffer[..read], taking)?;
            taking.flush()?;
        }
        self.interrupted = is_ended.load(Ordering::Relaxed);
        Ok(())
    }

    /// Waits for input. Returns true if stdin has input or has ended.
    fn wait(&self, most: &Timespec) -> Result<bool, Failure> {
        let mut polled = [PollFd::new(&self.stdin, PollFlags::IN)];
        match rustix::event::poll(&mut polled, Some(most)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(Failure::file("wait for", Path::new("stdin"))(error.into())),
        }
    }

    fn take(&mut self, bytes: &[u8], taking: &mut EventSink) -> Result<(), Failure> {
        let mut pieces = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            let is_whole = pieces.peek().is_some();
            if is_whole && self.rest.is_empty() && self.passed == 0 {
                taking.event(piece)?;
                continue;
            }
            self.rest.extend_from_slice(piece);
            if self.passed > 0 || self.rest.len() > self.line_bytes_max {
                self.passed += self.rest.len();
                self.rest.clear();
            }
            if is_whole {
                self.end_line(taking)?;
            }
        }
        Ok(())
    }

    /// Records the line whose last byte was read.
    fn end_line(&mut self, taking: &mut EventSink) -> Result<(), Failure> {
        let (line, passed) = (std::mem::take(&mut self.rest), std::mem::take(&mut self.passed));
        if passed > 0 {
            taking.too_long(passed, self.line_bytes_max);
            return Ok(());
        }
        taking.event(&line)
    }
}

/// Timeout of zero: do not wait.
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// Maximum number of bytes that are read after a signal.
const DRAIN_BYTES_MAX: usize = 1 << 20;

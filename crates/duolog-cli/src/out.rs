//! All output: the only module that knows `--json`, color, stdout, stderr, terminals and exit codes.
//!
//! Answers go to stdout; notes, warnings and errors go to stderr. A command passes each answer in both renderings, JSON and
//! text, and does not check which one is used. A closed pipe is success. No control or invisible character of stored data
//! reaches a terminal: see `screen`.

mod ending;
mod page;
mod progress;
mod prose;
mod screen;
mod table;
mod timeline;

use std::env;
use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal as _, StdoutLock, Write as _};
use std::path::Path;
use std::process::ExitCode;

use anstream::AutoStream;
use clap::builder::styling::{AnsiColor, Style};
use duolog::ErrorKind;
use duolog_wire::{Error, ErrorAnswer};
use serde::Serialize;

pub use ending::Ending;
pub use progress::Progress;
pub use prose::plain;
use screen::{Screen, styled, visible};
pub use table::{Column, Layout, Table};
pub use timeline::{Detail, ItemContext, Timeline};

use crate::args::{Color, Global, TableLayout, Tables};
use crate::failure::{CommandResult, Ended, Failure};

/// The exit codes: code, error kinds and meaning. Help and docs show this table.
pub const EXIT_CODES: &[(u8, &[ErrorKind], &str)] = &[
    (0, &[], "success; a closed pipe is success"),
    (1, &[ErrorKind::NotFound, ErrorKind::Conflict], "not found, or the answer is no"),
    (2, &[ErrorKind::Invalid, ErrorKind::Unsupported], "invalid usage or input"),
    (3, &[ErrorKind::Busy], "busy: claimed, queued, paused or locked; try again"),
    (4, &[ErrorKind::Damaged], "stored data is damaged"),
    (
        5,
        &[ErrorKind::Unknown, ErrorKind::Full, ErrorKind::ReadOnly, ErrorKind::Closed, ErrorKind::Io],
        "the machine failed, or the outcome is unknown",
    ),
    (6, &[], "already done; nothing changed"),
    (7, &[ErrorKind::Stale], "stale: overtaken by another owner, or changed since it was read"),
];

/// Returns the exit codes as a help section.
pub fn exit_codes() -> String {
    let line = |(code, _, meaning): &(u8, &[ErrorKind], &str)| format!("\n  {code}  {meaning}");
    EXIT_CODES.iter().map(line).fold("Exit codes:".to_owned(), |text, line| text + &line)
}

/// The size of the stdout buffer: logs are copied in large pieces.
const BUFFER_BYTES: usize = 64 << 10;

/// The tone of a text, shown as a color. Text never depends on color alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Success.
    Good,
    /// Warning.
    Worth,
    /// Error.
    Bad,
    /// Secondary detail.
    Faint,
    /// A heading.
    Strong,
}

impl Tone {
    const ALL: [Self; 5] = [Self::Good, Self::Worth, Self::Bad, Self::Faint, Self::Strong];

    /// Returns the letter that encodes the tone in text that is not rendered yet.
    const fn letter(self) -> char {
        match self {
            Self::Good => 'g',
            Self::Worth => 'w',
            Self::Bad => 'b',
            Self::Faint => 'f',
            Self::Strong => 's',
        }
    }

    fn of_letter(letter: char) -> Option<Self> {
        Self::ALL.into_iter().find(|tone| tone.letter() == letter)
    }

    fn style(self) -> Style {
        match self {
            Self::Good => AnsiColor::Green.on_default(),
            Self::Worth => AnsiColor::Yellow.on_default(),
            Self::Bad => AnsiColor::Red.on_default().bold(),
            Self::Faint => Style::new().dimmed(),
            Self::Strong => Style::new().bold(),
        }
    }
}

/// The output of a command: answers on stdout, messages on stderr.
pub struct Out {
    json: bool,
    color: bool,
    layout: Layout,
    talk: StderrSettings,
    stdout: BufWriter<StdoutLock<'static>>,
    /// Escapes data; set if stdout is a terminal.
    screen: Option<Screen>,
}

/// The settings for stderr.
struct StderrSettings {
    quiet: bool,
    color: bool,
}

impl Out {
    /// Creates the output that the options ask for.
    pub fn new(global: &Global, tables: Tables) -> Self {
        let colored = |auto: anstream::ColorChoice| match global.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => auto != anstream::ColorChoice::Never,
        };
        Self {
            json: global.json,
            color: colored(AutoStream::choice(&io::stdout())),
            layout: Layout {
                is_wide: tables.layout == Some(TableLayout::Wide),
                columns: (!tables.columns.is_empty()).then_some(tables.columns),
            },
            talk: StderrSettings { quiet: global.quiet, color: colored(AutoStream::choice(&io::stderr())) },
            stdout: BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock()),
            screen: io::stdout().is_terminal().then(Screen::default),
        }
    }

    /// Writes one answer as JSON or as text, and flushes.
    pub fn answer<T: Serialize>(&mut self, shape: &T, people: impl FnOnce(&mut Text)) -> Result<(), Failure> {
        if self.json {
            self.piece(shape, |_| {})?;
            return self.flush();
        }
        // Messages about an answer come after it, so the answer must not stay in the buffer.
        self.part(people)
    }

    /// Writes one of many answers without flushing.
    pub fn piece<T: Serialize>(&mut self, shape: &T, people: impl FnOnce(&mut Text)) -> Result<(), Failure> {
        if self.json {
            serde_json::to_writer(self.writer(), shape).map_err(|error| Failure::Output(error.into()))?;
            return self.raw(b"\n");
        }
        self.part_of(people)
    }

    /// Writes text between answers without flushing; skipped with `--json`.
    pub fn part_of(&mut self, people: impl FnOnce(&mut Text)) -> Result<(), Failure> {
        if self.json {
            return Ok(());
        }
        let mut text = Text::new(self.color, self.width(), self.layout.clone());
        people(&mut text);
        if let Some(failure) = text.failure {
            return Err(failure);
        }
        self.stdout.write_all(text.lines.as_bytes()).map_err(Failure::Output)?;
        if !text.dropped.is_empty() {
            self.stdout.flush().map_err(Failure::Output)?;
            self.note(format_args!("columns not shown: {}; add -o wide", text.dropped.join(", ")));
        }
        Ok(())
    }

    /// Writes an answer that only confirms a change; the text is skipped with `--quiet`.
    pub fn confirm<T: Serialize>(&mut self, shape: &T, people: impl FnOnce(&mut Text)) -> Result<(), Failure> {
        if self.talk.quiet && !self.json {
            return Ok(());
        }
        self.answer(shape, people)
    }

    /// Writes and flushes a part of an answer as text; skipped with `--json`, which gets the whole answer at the end.
    pub fn part(&mut self, people: impl FnOnce(&mut Text)) -> Result<(), Failure> {
        self.part_of(people)?;
        if self.json { Ok(()) } else { self.flush() }
    }

    /// Returns true if a person reads the output on a terminal.
    pub fn is_watched(&self) -> bool {
        !self.json && io::stdout().is_terminal()
    }

    /// Writes bytes unchanged; escaped if stdout is a terminal.
    pub fn raw(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.writer().write_all(bytes).map_err(Failure::Output)
    }

    /// Returns a writer for a streamed document; it treats bytes like [`Out::raw`].
    pub fn writer(&mut self) -> impl io::Write + '_ {
        Data { stdout: &mut self.stdout, screen: self.screen.as_mut() }
    }

    /// Flushes stdout.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.writer().flush().map_err(Failure::Output)
    }

    /// Listens for the end of a streaming command: Ctrl-C, or a reader that closed the pipe. A command that waits for events
    /// writes nothing, so it would not notice a closed pipe.
    pub fn ending(&self) -> Result<Ending, Failure> {
        Ending::listen(self.stdout.get_ref()).map_err(Failure::file("listen for", Path::new("Ctrl-C")))
    }

    /// Writes a notice between answers: as a JSON line with `--json`, as a warning on stderr otherwise.
    pub fn notice<T: Serialize>(&mut self, shape: &T, people: Option<&str>) -> Result<(), Failure> {
        if self.json {
            return self.piece(shape, |_| {});
        }
        if let Some(text) = people {
            // Write the previous answers first.
            self.flush()?;
            self.alert(text);
        }
        Ok(())
    }

    /// Prints a note on stderr; skipped with `--quiet` and `--json`.
    pub fn note(&self, text: impl Display) {
        if !self.talk.quiet && !self.json {
            say(&text);
        }
    }

    /// Prints a warning on stderr; skipped with `--quiet`.
    pub fn warn(&self, text: impl Display) {
        if !self.talk.quiet {
            self.alert(text);
        }
    }

    /// Prints a warning on stderr, even with `--quiet`.
    pub fn alert(&self, text: impl Display) {
        say(&format_args!("{}: {text}", paint(self.talk.color, Tone::Worth, "warning")));
    }

    /// Prints an error on stderr in addition to an answer.
    pub fn fault(&self, failure: &Failure) {
        say(&format_args!("{}: {}", paint(self.talk.color, Tone::Bad, "error"), plain(&failure.message())));
    }

    /// Prints requested information on stderr that is not part of the data.
    pub fn tell(&self, label: &str, text: impl Display) {
        say(&format_args!("{}: {text}", paint(self.talk.color, Tone::Faint, label)));
    }

    /// Returns a progress bar; it is hidden if stderr is not a terminal.
    pub fn progress(&self, what: &'static str) -> Progress {
        Progress::new(what, self.shows_progress())
    }

    /// Returns true if a progress bar is shown, so that its total is needed.
    pub fn shows_progress(&self) -> bool {
        !self.talk.quiet && io::stderr().is_terminal()
    }

    /// Prints a note that the command waits for input, if stdin is a terminal.
    pub fn invite(&self, text: &str) {
        if io::stdin().is_terminal() {
            self.note(text);
        }
    }

    /// Asks a yes/no question; `None` if stdin or stderr is not a terminal.
    pub fn ask(&self, question: &str) -> Option<bool> {
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return None;
        }
        let question = visible(&paint(self.talk.color, Tone::Strong, question));
        let _ = write!(io::stderr(), "{question} [y/N] ");
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).ok()?;
        Some(matches!(answer.trim(), "y" | "Y" | "yes"))
    }

    /// Flushes the output, prints the error if there is one, and returns the exit code.
    pub fn end(mut self, outcome: CommandResult) -> ExitCode {
        let outcome = outcome.and_then(|ended| self.flush().map(|()| ended));
        let failure = match outcome {
            Ok(ended) => return ended_code(ended),
            Err(failure) => failure,
        };
        if failure.is_closed_pipe() {
            return ExitCode::SUCCESS;
        }
        let (kind, message, hint) = (failure.kind(), failure.message(), failure.hint());
        if self.json {
            let shape = ErrorAnswer { error: (&failure).into() };
            if self.answer(&shape, |_| {}).is_ok() {
                return kind_code(kind);
            }
        }
        // Write the answers before the error.
        let _ = self.flush();
        // Indent further lines below the first one.
        let message = message.replace('\n', "\n       ");
        say(&format_args!("{}: {message}", paint(self.talk.color, Tone::Bad, "error")));
        if let Some(hint) = hint {
            say(&format_args!("  {}: {hint}", paint(self.talk.color, Tone::Good, "hint")));
        }
        kind_code(kind)
    }

    /// Returns the maximum width of tables: that of the terminal, or `COLUMNS`; `None` if there is no limit.
    fn width(&self) -> Option<u16> {
        let columns = || env::var("COLUMNS").ok()?.parse().ok();
        let terminal = || rustix::termios::tcgetwinsize(self.stdout.get_ref()).ok().map(|size| size.ws_col);
        terminal().or_else(columns).filter(|width| *width > 0)
    }
}

/// The text of an answer while it is built.
pub struct Text {
    color: bool,
    width: Option<u16>,
    layout: Layout,
    lines: String,
    /// The columns that did not fit.
    dropped: Vec<String>,
    /// The error of a table that could not be drawn.
    failure: Option<Failure>,
}

impl Text {
    const fn new(color: bool, width: Option<u16>, layout: Layout) -> Self {
        Self { color, width, layout, lines: String::new(), dropped: Vec::new(), failure: None }
    }

    /// Adds a line.
    pub fn line(&mut self, text: impl Display) {
        self.lines.push_str(&visible(&text.to_string()));
        self.lines.push('\n');
    }

    /// Adds a line with a padded label.
    pub fn field(&mut self, label: &str, text: impl Display) {
        let label = paint(self.color, Tone::Faint, &format!("{label:<12}"));
        self.line(format_args!("{label} {text}"));
    }

    /// Returns text in a tone.
    pub fn tone(&self, tone: Tone, text: &str) -> String {
        paint(self.color, tone, text)
    }

    /// Adds a table that fits the width.
    pub fn table(&mut self, table: &Table) {
        table.draw(self);
    }
}

/// Prints a parse error, or the help or version, and returns the exit code.
pub fn refuse(error: &clap::Error) -> ExitCode {
    let code = ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
    let message = error.to_string();
    let text = without_passwords(&message);
    if !error.use_stderr() || !env::args_os().any(|arg| arg == "--json") {
        // Ignore write errors: a closed pipe is success.
        let shown = visible(&text);
        let _ = if !error.use_stderr() || shown == message { error.print() } else { write!(io::stderr(), "{shown}") };
        return code;
    }
    let message = refusal(&text);
    let hint = Some("add --help to show the options of the command".to_owned());
    let shape = ErrorAnswer { error: Error { kind: ErrorKind::Invalid.as_str(), message, hint } };
    if let Ok(text) = serde_json::to_string(&shape) {
        let _ = writeln!(io::stdout(), "{}", screen::escaped(&text));
    }
    code
}

/// Returns the message of a parse error without tips and usage. A repeated value may have several lines.
fn refusal(text: &str) -> String {
    let sections = ["\n\nFor more information", "\n\nUsage:", "\n\n  tip:"];
    let text =
        sections.iter().fold(text.trim_end(), |text, section| text.rfind(section).map_or(text, |at| &text[..at]));
    let mut details = text.trim_start_matches("error: ").split("\n  ");
    let first = details.next().unwrap_or_default().trim_end_matches(':').to_owned();
    details.fold(first, |message, detail| format!("{message} {}", detail.trim()))
}

/// Removes passwords from addresses in a text: the parser repeats invalid arguments, and one of them may be an address.
fn without_passwords(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        let end = after.find(|letter: char| letter.is_whitespace() || letter == '\'').unwrap_or(after.len());
        let (address, left) = after.split_at(end);
        shown.push_str(before);
        shown.push_str("://");
        let (address, query) = address.split_once('?').map_or((address, ""), |(address, _)| (address, "?…"));
        let login = address.rsplit_once('@').and_then(|(login, place)| Some((login.split_once(':')?.0, place)));
        shown.push_str(&login.map_or_else(|| address.to_owned(), |(user, place)| format!("{user}:…@{place}")));
        shown.push_str(query);
        rest = left;
    }
    shown + rest
}

fn paint(color: bool, tone: Tone, text: &str) -> String {
    if color { styled(tone, text) } else { text.to_owned() }
}

/// Writes to stderr; errors are ignored.
fn say(text: &dyn Display) {
    let _ = writeln!(io::stderr(), "{}", visible(&text.to_string()));
}

/// A writer to stdout: exact bytes, or escaped for a terminal.
struct Data<'o> {
    stdout: &'o mut BufWriter<StdoutLock<'static>>,
    screen: Option<&'o mut Screen>,
}

impl io::Write for Data<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.screen {
            None => self.stdout.write(bytes),
            Some(screen) => screen.write(bytes, self.stdout).map(|()| bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Some(screen) = &mut self.screen {
            screen.end(self.stdout)?;
        }
        self.stdout.flush()
    }
}

fn ended_code(ended: Ended) -> ExitCode {
    ExitCode::from(match ended {
        Ended::Partly(kind) => return kind_code(kind),
        Ended::Done => 0,
        Ended::No => 1,
        Ended::Invalid => 2,
        Ended::Busy => 3,
        Ended::Damaged => 4,
        Ended::AlreadyDone => 6,
        Ended::Stale => 7,
    })
}

fn kind_code(kind: ErrorKind) -> ExitCode {
    let code = EXIT_CODES.iter().find(|(_, kinds, _)| kinds.contains(&kind)).map(|(code, _, _)| *code);
    ExitCode::from(code.unwrap_or(5))
}

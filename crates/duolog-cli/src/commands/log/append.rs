//! `duolog log append`.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, stdin};
use std::path::{Path, PathBuf};

use clap::Args;
use duolog::config::Config;
use duolog::errors::{Invalid, NotFound};
use duolog::limits::Limits;
use duolog::log::AppendOptions;
use duolog::sessions::Session;
use duolog::{Batch, Committed, Cursor, Durability, Error, OperationId, Position, SessionId, Store};
use duolog_wire::Appended;

use super::{Context, Target};
use crate::args;
use crate::failure::{CommandResult, Ended, Failure};
use crate::figures;

const AFTER: &str = "\
Examples:
  duolog log append --session demo < events.jsonl
  duolog log append --session demo --line '{\"type\":\"user\",\"text\":\"hello\"}'
  my-agent | duolog log append --session demo --each --durability power
  duolog log append --session demo --each --operation-id job-17 < events.jsonl
  duolog log append --user-email ada@example.com --session-name plan --operation-id step-7 out.jsonl

JSON:
  {\"session\": id, \"appended\": 3, \"position\": 1234, \"cursor\": \"0:1234\"}
  With --each, one object per line when the line is acknowledged. For empty input, fields without
  a value are null";

/// Size of the read buffer.
const READ_BYTES: usize = 64 << 10;

/// Append lines to the log of a session
///
/// Reads JSON lines from stdin until the end and appends them as one batch, byte for byte: all lines, or none.
///
/// --session must be a whole id or a thread name. If the session does not exist, it is created. Empty input changes
/// nothing.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Append {
    #[command(flatten)]
    target: Target,
    /// Durability of the acknowledged lines [default: durability of the configuration]
    ///
    /// process: they survive a process crash. power: they also survive a power cut.
    #[arg(long, value_parser = args::durability())]
    durability: Option<Durability>,
    /// Expected end of the log; append only if the log ends there
    #[arg(long, value_name = "POS", value_parser = args::position)]
    if_position: Option<Position>,
    /// Operation id: the lines are appended once per id, and a retry returns the first answer
    ///
    /// With --each, line N has the operation id ID/N: a retry with the same input appends only the missing lines.
    #[arg(long = "operation-id", value_name = "ID")]
    operation: Option<OperationId>,
    /// Append and acknowledge each line as it arrives
    #[arg(long)]
    each: bool,
    /// Line; may be repeated
    #[arg(long, value_name = "JSON", conflicts_with = "inputs")]
    line: Vec<String>,
    /// Input files, - for stdin, or lines that start with { [default: stdin]
    #[arg(value_name = "INPUT")]
    inputs: Vec<PathBuf>,
}

impl Append {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let config = context.config()?.clone().with_durability(self.durability);
        let limits = config.limits();
        if self.line.is_empty() && (self.inputs.is_empty() || self.inputs.iter().any(|input| input == Path::new("-"))) {
            context.out.invite("reading JSON lines from stdin; press Ctrl-D to end");
        }
        if self.each {
            return self.append_each(context, &config);
        }
        // Read and check the whole input before the store is opened: invalid input changes nothing.
        let mut batch = Batch::new(&limits);
        self.each_line(&limits, |line| {
            if batch.as_bytes().len() + line.len() >= limits.batch_bytes_max {
                return Err(too_large(&limits));
            }
            Ok(batch.push(line).map_err(Error::from)?)
        })?;
        if batch.is_empty() {
            return self.append_nothing(context);
        }
        let options = self.options(config.durability());
        let store = context.open_to_write()?;
        let (session, committed) = store.sessions().append(&self.target.write_target(&config), &batch, &options)?;
        answer_whole(context, &session.id, session.called(), &committed)?;
        // Print the acknowledgement before the store is closed.
        context.close(store);
        Ok(Ended::Done)
    }

    fn append_each(&self, context: &mut Context<'_>, config: &Config) -> CommandResult {
        let (limits, durability) = (&config.limits(), config.durability());
        let mut opened: Option<(Store, Session)> = None;
        let mut batch = Batch::new(limits);
        let mut options = self.options(durability);
        let mut appended = 0;
        let read = self.each_line(limits, |line| {
            batch.clear();
            batch.push(line).map_err(|mut bad| {
                bad.number = appended + 1;
                Error::from(bad)
            })?;
            options.operation = self.operation_of(appended + 1)?;
            let committed = if let Some((store, session)) = &opened {
                store.log(&session.id).append_with(&batch, &options)?
            } else {
                let store = context.open_to_write()?;
                let appended = store.sessions().append(&self.target.write_target(config), &batch, &options);
                let (session, committed) = match appended {
                    Ok(appended) => appended,
                    Err(error) => {
                        context.close(store);
                        return Err(error.into());
                    }
                };
                opened = Some((store, session));
                committed
            };
            let Some((_, session)) = &opened else { return Ok(()) };
            // With --if-position, the next line must follow this one.
            options.if_position = options.if_position.map(|_| committed.end);
            appended += 1;
            answer(context, &session.id, &committed, || committed.end.to_string())
        });
        match opened {
            Some((store, _)) => context.close(store),
            None if read.is_ok() => return self.append_nothing(context),
            None => {}
        }
        read.map(|()| Ended::Done).map_err(|failure| failure.after(appended as u64))
    }

    /// Answers for empty input. Creates nothing.
    fn append_nothing(&self, context: &mut Context<'_>) -> CommandResult {
        let found = match context.open_if_there()? {
            Some(store) => self.find(&store, context.config()?)?,
            None => None,
        };
        let cursor = found.as_ref().map(|(_, cursor)| *cursor);
        let shape = Appended::nothing(found.as_ref().map(|(session, _)| &session.id), cursor);
        context.out.confirm(&shape, |text| text.line("appended nothing: the input is empty"))?;
        Ok(Ended::Done)
    }

    /// Returns the session and the end of its log. `None` if the session does not exist.
    fn find(&self, store: &Store, config: &Config) -> Result<Option<(Session, Cursor)>, Failure> {
        let Some(reference) = self.target.reference(config) else { return Ok(None) };
        let session = match store.sessions().resolve_exact(&reference) {
            Ok(session) => session,
            Err(
                Error::NotFound(NotFound::Session(_))
                | Error::Invalid(Invalid::Ambiguous { .. } | Invalid::Shortened { .. }),
            ) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let cursor = Cursor { epoch: session.log_epoch, position: store.log(&session.id).end()? };
        Ok(Some((session, cursor)))
    }

    /// Returns the operation id of one line of --each.
    fn operation_of(&self, number: usize) -> Result<Option<OperationId>, Failure> {
        let parsed = self.operation.as_ref().map(|id| OperationId::parse(&format!("{id}/{number}"))).transpose();
        parsed.map_err(|bad| Failure::Given {
            message: bad.to_string(),
            hint: Some("use a shorter --operation-id".to_owned()),
        })
    }

    fn options(&self, durability: Durability) -> AppendOptions {
        AppendOptions { durability, if_position: self.if_position, operation: self.operation.clone() }
    }

    /// Calls `each` with every line of all inputs, in order.
    fn each_line(&self, limits: &Limits, mut each: impl FnMut(&[u8]) -> Result<(), Failure>) -> Result<(), Failure> {
        if !self.line.is_empty() {
            return self.line.iter().try_for_each(|line| each(line.as_bytes()));
        }
        if self.inputs.is_empty() {
            return lines_of(stdin().lock(), Path::new("stdin"), limits, &mut each);
        }
        for input in &self.inputs {
            let bytes = input.as_os_str().as_encoded_bytes();
            if bytes.starts_with(b"{") {
                each(bytes)?;
            } else if bytes == b"-" {
                lines_of(stdin().lock(), Path::new("stdin"), limits, &mut each)?;
            } else {
                let file = File::open(input).map_err(Failure::file("open", input))?;
                lines_of(BufReader::with_capacity(READ_BYTES, file), input, limits, &mut each)?;
            }
        }
        Ok(())
    }
}

/// Splits an input at newlines; the last line may lack its newline. Memory is bounded by the maximum line length.
fn lines_of(
    mut input: impl BufRead,
    path: &Path,
    limits: &Limits,
    each: &mut impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    // Room for the newline and for one more byte, which shows that the line is too long.
    let most = limits.line_bytes_max as u64 + 2;
    let mut line = Vec::new();
    loop {
        line.clear();
        input.by_ref().take(most).read_until(b'\n', &mut line).map_err(Failure::file("read", path))?;
        if line.is_empty() {
            return Ok(());
        }
        each(line.strip_suffix(b"\n").unwrap_or(&line))?;
    }
}

fn answer(
    context: &mut Context<'_>,
    session: &SessionId,
    committed: &Committed,
    sentence: impl FnOnce() -> String,
) -> Result<(), Failure> {
    context.out.confirm(&Appended::of(session, committed), |text| text.line(sentence()))
}

/// Answers for the whole batch.
fn answer_whole(
    context: &mut Context<'_>,
    session: &SessionId,
    called: &str,
    committed: &Committed,
) -> Result<(), Failure> {
    answer(context, session, committed, || {
        let lines = figures::things(committed.lines as u64, "line");
        format!("appended {lines} to {called}; the log ends at {}", committed.end)
    })
}

fn too_large(limits: &Limits) -> Failure {
    Failure::Given {
        message: format!(
            "cannot append the input: it is larger than the batch limit of {}",
            figures::size(limits.batch_bytes_max as u64)
        ),
        hint: Some("use --each to append line by line".to_owned()),
    }
}

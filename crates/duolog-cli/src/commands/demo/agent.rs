//! The agent of the demo: a process that appends to a session and can be killed at any time.
//!
//! It reports to its parent on stdout. `ack N` and N lines: these lines are acknowledged. `large N`: a line of N bytes is
//! ready and is written after a line arrives on stdin. `half N`: N bytes of a line are written, and the rest never is.

use std::fs::File;
use std::io::{BufRead as _, Write as _, stdin};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use clap::{Args, ValueEnum};
use duolog::{Batch, Durability, SessionId, Store};

use super::script::{self, Step};
use crate::commands::Context;
use crate::failure::{CommandResult, Ended, Failure};

/// Run the agent of duolog demo
#[derive(Args)]
pub struct DemoAgent {
    /// Session to append to
    #[arg(long)]
    session: SessionId,
    /// Part of the script to play
    #[arg(long, value_enum)]
    stage: Stage,
    /// Pause after each batch
    #[arg(long, default_value_t = 0)]
    pace_ms: u64,
    /// Log file, for stage half
    #[arg(long)]
    file: Option<PathBuf>,
}

/// The part of the script that the agent plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Stage {
    /// From the beginning to the large answer
    Begin,
    /// The call and the large answer again
    Again,
    /// From the end of the log to the end of the script
    Finish,
    /// Half a line, without the library
    Half,
}

impl Stage {
    /// Returns the value on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Begin => "begin",
            Self::Again => "again",
            Self::Finish => "finish",
            Self::Half => "half",
        }
    }
}

impl DemoAgent {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        if self.stage == Stage::Half {
            return self.write_half(context);
        }
        let store = context.open_to_write()?;
        match self.stage {
            Stage::Begin => {
                self.play(context, &store, script::BEGIN)?;
                self.flood(context, &store)?;
            }
            Stage::Again => {
                self.play(context, &store, &[&[script::CALL]])?;
                self.flood(context, &store)?;
            }
            Stage::Finish | Stage::Half => {
                // The log is the agent's memory: repeat a call that has no answer.
                if store.log(&self.session).last(1)?.last().is_some_and(|line| script::is_call(line)) {
                    self.play(context, &store, &[&[script::FLOOD]])?;
                }
                self.play(context, &store, script::FINISH)?;
            }
        }
        context.close(store);
        Ok(Ended::Done)
    }

    /// Appends batches and reports each one as acknowledged.
    fn play(&self, context: &mut Context<'_>, store: &Store, batches: &[&[Step]]) -> Result<(), Failure> {
        for steps in batches {
            let lines: Vec<Vec<u8>> = steps.iter().map(|step| script::line(&self.session, *step)).collect();
            self.append(context, store, &lines)?;
            sleep(Duration::from_millis(self.pace_ms));
        }
        Ok(())
    }

    /// Appends the large answer after a line on stdin.
    fn flood(&self, context: &mut Context<'_>, store: &Store) -> Result<(), Failure> {
        let line = script::line(&self.session, script::FLOOD);
        context.out.raw(format!("large {}\n", line.len()).as_bytes())?;
        context.out.flush()?;
        wait()?;
        self.append(context, store, &[line])
    }

    fn append(&self, context: &mut Context<'_>, store: &Store, lines: &[Vec<u8>]) -> Result<(), Failure> {
        let (limits, durability): (_, Durability) = (context.config()?.limits(), context.config()?.durability());
        let mut batch = Batch::new(&limits);
        for line in lines {
            batch.push(line).map_err(duolog::Error::from)?;
        }
        store.log(&self.session).append(&batch, durability)?;
        context.out.raw(format!("ack {}\n", lines.len()).as_bytes())?;
        context.out.raw(batch.as_bytes())?;
        context.out.flush()
    }

    /// Writes half a line directly to the file, like a process that dies in the middle of a write.
    fn write_half(&self, context: &mut Context<'_>) -> CommandResult {
        let Some(path) = &self.file else {
            return Err(Failure::Given { message: "--file is missing".to_owned(), hint: None });
        };
        let line = script::line(&self.session, script::FLOOD);
        let half = &line[..line.len() / 2];
        let mut file = File::options().append(true).open(path).map_err(Failure::file("open", path))?;
        file.write_all(half).map_err(Failure::file("write", path))?;
        context.out.raw(format!("half {}\n", half.len()).as_bytes())?;
        context.out.flush()?;
        wait()?;
        Ok(Ended::Done)
    }
}

/// Waits for a line on stdin. Returns an error if stdin is closed.
fn wait() -> Result<(), Failure> {
    let read = stdin().lock().read_line(&mut String::new()).map_err(Failure::file("read", "stdin".as_ref()))?;
    if read > 0 {
        return Ok(());
    }
    Err(Failure::Given { message: "stdin was closed".to_owned(), hint: None })
}

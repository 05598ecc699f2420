//! `duolog help` and `duolog version`.

use clap::{Args, CommandFactory as _};

use super::Context;
use crate::args::Cli;
use crate::failure::{CommandResult, Ended, Failure};
use crate::out::exit_codes;

/// The topic that is not a command.
const EXIT_CODES: &str = "exit-codes";

const AFTER: &str = "\
Examples:
  duolog help runs exec
  duolog help exit-codes";

/// Print the help of a command or topic
///
/// Topics: exit-codes.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Help {
    /// Command or topic
    #[arg(value_name = "COMMAND")]
    words: Vec<String>,
}

impl Help {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        if self.words == [EXIT_CODES] {
            context.out.raw(exit_codes().as_bytes())?;
            context.out.raw(b"\n")?;
            return Ok(Ended::Done);
        }
        let mut command = Cli::command();
        command.build();
        let mut at = &mut command;
        for word in &self.words {
            at = at.find_subcommand_mut(word).ok_or_else(|| Failure::Given {
                message: format!("unknown command or topic {:?}", self.words.join(" ")),
                hint: Some("to list the commands, run: duolog --help; the only topic is exit-codes".to_owned()),
            })?;
        }
        context.out.raw(at.render_long_help().to_string().as_bytes())?;
        Ok(Ended::Done)
    }
}

const VERSION_AFTER: &str = "\
Examples:
  duolog version";

/// Print the version
#[derive(Args)]
#[command(after_help = VERSION_AFTER)]
pub struct Version {}

impl Version {
    #[allow(clippy::unused_self, reason = "every command has this signature")]
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        context.out.raw(format!("duolog {}\n", env!("CARGO_PKG_VERSION")).as_bytes())?;
        Ok(Ended::Done)
    }
}

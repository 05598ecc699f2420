//! `duolog help` and `duolog version`.

use clap::{Args, CommandFactory as _};

use super::Context;
use crate::args::{Cli, ENVIRONMENT, HOME};
use crate::failure::{CommandResult, Ended, Failure};
use crate::out::exit_codes;

/// A topic that is not a command: name, description and text.
type Topic = (&'static str, &'static str, fn() -> String);

/// The topics that are not commands.
const TOPICS: [Topic; 4] = [
    ("environment", "Environment variables", || ENVIRONMENT.to_owned()),
    ("exit-codes", "Exit codes", exit_codes),
    ("home", "Home directory and state store", || HOME.to_owned()),
    ("topics", "This list", topics),
];

/// Returns the list of the topics as a help section.
fn topics() -> String {
    let line = |(name, about, _): &Topic| format!("\n  {name:<11}  {about}");
    TOPICS.iter().map(line).fold("Topics:".to_owned(), |text, line| text + &line)
}

/// Returns the text after the options.
fn after() -> String {
    format!("{}\n\n{AFTER}", topics())
}

const AFTER: &str = "\
Examples:
  duolog help runs exec
  duolog help exit-codes";

/// Print the help of a command or topic
#[derive(Args)]
#[command(after_help = after())]
pub struct Help {
    /// Command or topic
    #[arg(value_name = "COMMAND")]
    words: Vec<String>,
}

impl Help {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let topic = TOPICS.iter().find(|(name, ..)| self.words == [*name]);
        if let Some((_, _, text)) = topic {
            context.out.raw(text().as_bytes())?;
            context.out.raw(b"\n")?;
            return Ok(Ended::Done);
        }
        let mut command = Cli::command();
        command.build();
        let mut at = &mut command;
        for word in &self.words {
            at = at.find_subcommand_mut(word).ok_or_else(|| Failure::Given {
                message: format!("cannot show help: unknown command or topic {:?}", self.words.join(" ")),
                hint: Some(
                    "to list the commands, run: duolog --help; to list the topics, run: duolog help topics".to_owned(),
                ),
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

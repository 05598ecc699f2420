//! `duolog man`.

use std::path::PathBuf;

use clap::{Args, CommandFactory as _};

use super::Context;
use crate::args::Cli;
use crate::failure::{CommandResult, Ended, Failure};

const AFTER: &str = "\
Examples:
  duolog man ~/.local/share/man/man1 && man duolog-sessions-list";

/// Write the manual pages of all commands
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Man {
    /// Output directory; created if it does not exist
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl Man {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        std::fs::create_dir_all(&self.directory).map_err(Failure::file("create", &self.directory))?;
        clap_mangen::generate_to(Cli::command(), &self.directory)
            .map_err(Failure::file("write manual pages to", &self.directory))?;
        context.out.note(format_args!("wrote manual pages to {}", self.directory.display()));
        Ok(Ended::Done)
    }
}

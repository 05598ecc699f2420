//! `duolog completions`.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::Context;
use crate::args::Cli;
use crate::failure::{CommandResult, Ended};

const AFTER: &str = "\
Examples:
  duolog completions bash > ~/.local/share/bash-completion/completions/duolog
  duolog completions zsh  > ~/.zfunc/_duolog
  duolog completions fish > ~/.config/fish/completions/duolog.fish";

/// Print a shell completion script
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Completions {
    /// Shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

impl Completions {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "duolog", &mut script);
        context.out.raw(&script)?;
        Ok(Ended::Done)
    }
}

//! `duolog config`.

mod check;
mod show;

use clap::Subcommand;

use super::Context;
use crate::failure::Outcome;

/// What to do with the configuration.
#[derive(Subcommand)]
pub enum Config {
    Show(show::Show),
    Check(check::Check),
}

impl Config {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        match self {
            Self::Show(command) => command.run(context),
            Self::Check(command) => command.run(context),
        }
    }
}

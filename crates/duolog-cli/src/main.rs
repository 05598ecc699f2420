//! The `duolog` command: the durable state layer for AI agents, from a shell.
//!
//! `args.rs` is what can be said on the command line, `out.rs` is everything that is said back, and each file below
//! `commands/` is the whole of one command.

mod args;
mod commands;
mod failure;
mod figures;
mod login;
mod out;

use std::env;
use std::mem::ManuallyDrop;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};

fn main() -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(error) => return out::refuse(&error),
    };
    let mut out = out::Out::new(&cli.global);
    let ended = commands::run(cli, &mut out);
    out.end(ended)
}

/// Understands the command line. The description of all commands goes with the process: taking it down takes a while.
fn parse() -> Result<args::Cli, clap::Error> {
    let mut tree = ManuallyDrop::new(args::Cli::command());
    let mut matches = tree.try_get_matches_from_mut(env::args_os())?;
    args::Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut tree))
}

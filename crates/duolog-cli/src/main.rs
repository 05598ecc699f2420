//! The `duolog` command: the durable state layer for AI agents on the command line.
//!
//! `args.rs` defines the command line, `out.rs` writes all output, and each file in `commands/` is one command.

mod args;
mod commands;
mod environment;
mod failure;
mod figures;
mod hints;
mod login;
mod out;

use std::env;
use std::mem::ManuallyDrop;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{CommandFactory as _, FromArgMatches as _};

fn main() -> ExitCode {
    // Without a handler SIGXFSZ ends the process; with one, a write beyond the file size limit fails with an error.
    // Registering is best effort.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    let (cli, request, tables) = match parse() {
        Ok(parsed) => parsed,
        Err(error) => return out::refuse(&error),
    };
    let mut out = out::Out::new(&cli.global, tables);
    let ended = commands::run(cli, request, &mut out);
    out.end(ended)
}

/// Parses the command line. The command tree is never dropped: dropping it takes a while and the process ends soon.
fn parse() -> Result<(args::Cli, Option<args::Request>, args::Tables), clap::Error> {
    let mut tree = ManuallyDrop::new(args::Cli::command());
    let mut matches = tree.try_get_matches_from_mut(env::args_os())?;
    let (request, tables) = (args::Request::of(&matches), args::Tables::of(&matches));
    let cli = args::Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut tree))?;
    Ok((cli, request, tables))
}

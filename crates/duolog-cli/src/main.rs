//! The `duolog` command: the durable state layer for AI agents, from a shell.
//!
//! `args.rs` is what can be said on the command line, `out.rs` is everything that is said back, and each file below
//! `commands/` is the whole of one command.

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
    // Without a handler the signal ends the process; with one, the write that goes over the limit of a file's size fails.
    // Where no handler can be set, it stays as it was.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    let (cli, request) = match parse() {
        Ok(parsed) => parsed,
        Err(error) => return out::refuse(&error),
    };
    let mut out = out::Out::new(&cli.global);
    let ended = commands::run(cli, request, &mut out);
    out.end(ended)
}

/// Understands the command line. The description of all commands goes with the process: taking it down takes a while.
fn parse() -> Result<(args::Cli, Option<args::Request>), clap::Error> {
    let mut tree = ManuallyDrop::new(args::Cli::command());
    let mut matches = tree.try_get_matches_from_mut(env::args_os())?;
    let request = args::Request::of(&matches);
    let cli = args::Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut tree))?;
    Ok((cli, request))
}

//! The `duolog` command: the durable state layer for AI agents, from a shell.
//!
//! `args.rs` is what can be said on the command line, `out.rs` is everything that is said back, and each file below
//! `commands/` is the whole of one command.

mod args;
mod commands;
mod failure;
mod figures;
mod out;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return out::refuse(&error),
    };
    let mut out = out::Out::new(&cli.global);
    let ended = commands::run(cli, &mut out);
    out.end(ended)
}

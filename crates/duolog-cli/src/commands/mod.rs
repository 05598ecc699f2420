//! The commands, one file each: help, arguments, work, and both renderings of the answer.

mod completions;
mod docs;
mod doctor;
mod init;
mod log;
mod man;
mod sessions;
mod state;

use clap::Subcommand;
use duolog::{Store, StoreOptions};

use crate::args::{Cli, Global};
use crate::failure::{Failure, Outcome};
use crate::out::Out;

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    Init(init::Init),
    /// Sessions: what logs and everything else belong to
    #[command(subcommand)]
    Sessions(sessions::Sessions),
    /// The log of a session: what happened, line by line
    #[command(subcommand)]
    Log(log::Log),
    /// The state store: figures, rebuilding, copies
    #[command(subcommand)]
    State(state::State),
    Doctor(doctor::Doctor),
    Completions(completions::Completions),
    #[command(hide = true)]
    Docs(docs::Docs),
    #[command(hide = true)]
    Man(man::Man),
}

/// What a command works with.
pub struct Context<'a> {
    /// The global flags.
    pub global: &'a Global,
    /// Where answers and talk go.
    pub out: &'a mut Out,
}

impl Context<'_> {
    /// Opens the store to read it.
    pub fn open_to_read(&self) -> Result<Store, Failure> {
        self.open(self.global.store_options()?.for_reading())
    }

    /// Opens the store to write it.
    pub fn open_to_write(&self) -> Result<Store, Failure> {
        self.open(self.global.store_options()?)
    }

    /// Closes a store that was written. What was acknowledged stands either way, so a failure is no failure of the
    /// command.
    pub fn close(&self, store: Store) {
        if let Err(error) = store.close() {
            self.out.warn(format_args!("closing the store: {}", Failure::from(error).message()));
        }
    }

    fn open(&self, options: StoreOptions) -> Result<Store, Failure> {
        let store = Store::open(options)?;
        for warning in store.warnings() {
            self.out.warn(warning);
        }
        Ok(store)
    }
}

/// Runs the command that was given.
pub fn run(cli: Cli, out: &mut Out) -> Outcome {
    let mut context = Context { global: &cli.global, out };
    match cli.command {
        Command::Init(command) => command.run(&mut context),
        Command::Sessions(command) => command.run(&mut context),
        Command::Log(command) => command.run(&mut context),
        Command::State(command) => command.run(&mut context),
        Command::Doctor(command) => command.run(&mut context),
        Command::Completions(command) => command.run(&mut context),
        Command::Docs(command) => command.run(&mut context),
        Command::Man(command) => command.run(&mut context),
    }
}

//! The commands, one file each: help, arguments, work, and both renderings of the answer.

/// Declares a noun and its commands, and runs the one that was given.
macro_rules! commands {
    ($(#[$about:meta])* $noun:ident { $($(#[$attribute:meta])* $name:ident($command:ty),)+ }) => {
        $(#[$about])*
        #[derive(clap::Subcommand)]
        pub enum $noun { $($(#[$attribute])* $name($command),)+ }

        impl $noun {
            pub fn run(self, context: &mut $crate::commands::Context<'_>) -> $crate::failure::CommandResult {
                match self { $(Self::$name(command) => command.run(context),)+ }
            }
        }
    };
}

mod approvals;
mod chats;
mod completeness;
mod completions;
mod config;
mod demo;
mod docs;
mod doctor;
mod help;
mod init;
mod log;
mod man;
mod runs;
mod schedules;
mod sessions;
mod state;
mod usage;
mod workflows;

use std::cell::{OnceCell, RefCell};

use clap::Subcommand;
use duolog::config::Config;
use duolog::{Home, Store, StoreAddress, StoreOptions};

use crate::args::{Cli, Deferred, Global, Request};
use crate::environment;
use crate::failure::{CommandResult, Failure};
use crate::out::Out;

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    Demo(demo::Demo),
    Init(init::Init),
    /// Sessions: what logs and everything else belong to
    #[command(subcommand)]
    Sessions(Deferred<sessions::Sessions>),
    /// The log of a session: what happened, line by line
    #[command(subcommand)]
    Log(Deferred<log::Log>),
    /// Runs of workflows: who runs them, what is done, what comes next
    #[command(subcommand)]
    Runs(Deferred<runs::Runs>),
    /// Gates: what runs wait for people to say
    #[command(subcommand)]
    Approvals(Deferred<approvals::Approvals>),
    /// Workflows: which there are, and which may be started
    #[command(subcommand)]
    Workflows(Deferred<workflows::Workflows>),
    /// What fires when, what is said over it, and what came of it
    #[command(subcommand)]
    Schedules(Deferred<schedules::Schedules>),
    /// Chats with people on platforms, and which session of an agent answers
    #[command(subcommand)]
    Chats(Deferred<chats::Chats>),
    /// The state store: figures, rebuilding, copies
    #[command(subcommand)]
    State(Deferred<state::State>),
    /// What was used: tokens, and what they cost
    #[command(subcommand)]
    Usage(Deferred<usage::Usage>),
    Doctor(doctor::Doctor),
    /// The configuration: what is in force, and whether a file is right
    #[command(subcommand)]
    Config(Deferred<config::Config>),
    Completions(completions::Completions),
    Help(help::Help),
    Version(help::Version),
    #[command(hide = true)]
    DemoAgent(demo::DemoAgent),
    #[command(hide = true)]
    DemoRunner(demo::DemoRunner),
    #[command(hide = true)]
    ExecGuard(runs::ExecGuard),
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
    /// The home and what is in force there, once somebody asked.
    settled: OnceCell<(Home, Config)>,
    /// What is asked under an operation id.
    request: Option<Request>,
    /// What was read from stdin, which belongs to the request.
    read: RefCell<String>,
}

impl Context<'_> {
    /// What is in force: the configuration of the home, and the environment before it.
    pub fn config(&self) -> Result<&Config, Failure> {
        Ok(&self.settled()?.1)
    }

    /// Opens the store to read it.
    pub fn open_to_read(&self) -> Result<Store, Failure> {
        self.open(self.options()?.for_reading())
    }

    /// The same, or nothing where there is no home yet, and so no state in it.
    pub fn open_if_there(&self) -> Result<Option<Store>, Failure> {
        match self.open_to_read() {
            Err(failure) if failure.is_missing_home() && *self.config()?.store() == StoreAddress::Home => Ok(None),
            other => other.map(Some),
        }
    }

    /// Opens the store to write it.
    pub fn open_to_write(&self) -> Result<Store, Failure> {
        let store = self.open(self.options()?)?;
        let Some(Request { operation, command, given }) = &self.request else { return Ok(store) };
        Ok(store.once(&format!("command/{command}"), operation, &(given, &*self.read.borrow()))?)
    }

    /// Opens the store to write it, for a command that stays.
    pub fn open_to_stay(&self) -> Result<Store, Failure> {
        let (home, config) = self.settled()?;
        self.open(StoreOptions::at(home.clone()).configured(config))
    }

    /// The home that is meant.
    pub fn home(&self) -> Result<&Home, Failure> {
        Ok(&self.settled()?.0)
    }

    /// Makes what was read from stdin a part of the request; before the store is opened.
    pub fn has_read(&self, text: &str) {
        self.read.borrow_mut().push_str(text);
    }

    /// Closes a store that was written, as the last thing a command does. What was acknowledged stands either way, so a
    /// failure is no failure of the command.
    pub fn close(&self, store: Store) {
        if let Err(error) = store.close_at_exit() {
            self.out.warn(format_args!("closing the store: {}", Failure::from(error).message()));
        }
    }

    /// The home that is meant, and what is in force there. Both are looked for once.
    fn settled(&self) -> Result<&(Home, Config), Failure> {
        if let Some(settled) = self.settled.get() {
            return Ok(settled);
        }
        let home = self.global.find_home()?;
        let config = self.global.config(&home)?;
        Ok(self.settled.get_or_init(|| (home, config)))
    }

    /// Says what is odd about the configuration, and which variables nothing reads.
    pub fn warn_of_config(&self) -> Result<(), Failure> {
        let config = self.config()?;
        config.warnings().iter().for_each(|warning| self.out.warn(warning));
        let keys: Vec<&str> = config.settings().map(|setting| setting.key.variable()).collect();
        for name in environment::unknown(&keys) {
            self.out.warn(format_args!("{name} is set, and no such variable exists: duolog config show --help"));
        }
        Ok(())
    }

    /// How to open the store, for a command that does one thing and ends.
    pub fn options(&self) -> Result<StoreOptions, Failure> {
        let (home, config) = self.settled()?;
        Ok(StoreOptions::at(home.clone()).configured(config).one_shot())
    }

    fn open(&self, options: StoreOptions) -> Result<Store, Failure> {
        let store = Store::open(options)?;
        self.warn_of_config()?;
        store.warnings().iter().for_each(|warning| self.out.warn(warning));
        Ok(store)
    }
}

/// Runs the command that was given.
pub fn run(cli: Cli, request: Option<Request>, out: &mut Out) -> CommandResult {
    let mut context = Context { global: &cli.global, out, settled: OnceCell::new(), request, read: RefCell::default() };
    match cli.command {
        Command::Demo(command) => command.run(&mut context),
        Command::Init(command) => command.run(&mut context),
        Command::Sessions(command) => command.0.run(&mut context),
        Command::Log(command) => command.0.run(&mut context),
        Command::Runs(command) => command.0.run(&mut context),
        Command::Approvals(command) => command.0.run(&mut context),
        Command::Workflows(command) => command.0.run(&mut context),
        Command::Schedules(command) => command.0.run(&mut context),
        Command::Chats(command) => command.0.run(&mut context),
        Command::State(command) => command.0.run(&mut context),
        Command::Usage(command) => command.0.run(&mut context),
        Command::Doctor(command) => command.run(&mut context),
        Command::Config(command) => command.0.run(&mut context),
        Command::Completions(command) => command.run(&mut context),
        Command::Help(command) => command.run(&mut context),
        Command::Version(command) => command.run(&mut context),
        Command::DemoAgent(command) => command.run(&mut context),
        Command::DemoRunner(command) => command.run(&mut context),
        Command::ExecGuard(command) => command.run(&mut context),
        Command::Docs(command) => command.run(&mut context),
        Command::Man(command) => command.run(&mut context),
    }
}

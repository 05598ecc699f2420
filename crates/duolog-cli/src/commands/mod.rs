//! The commands, one file each: help, arguments, work, and both renderings of the answer.

/// Declares a noun and its commands, and runs the one that was parsed.
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
use std::path::Path;

use clap::Subcommand;
use duolog::config::Config;
use duolog::{Home, HomeSource, Store, StoreAddress, StoreOptions};

use crate::args::{Cli, Deferred, Global, Request};
use crate::environment;
use crate::failure::{CommandResult, Failure};
use crate::out::Out;

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    Demo(demo::Demo),
    Init(init::Init),
    /// Manage sessions
    #[command(subcommand)]
    Sessions(Deferred<sessions::Sessions>),
    /// Read and write session logs
    #[command(subcommand)]
    Log(Deferred<log::Log>),
    /// Manage workflow runs
    #[command(subcommand)]
    Runs(Deferred<runs::Runs>),
    /// List and answer approval gates
    #[command(subcommand)]
    Approvals(Deferred<approvals::Approvals>),
    /// List, enable and disable workflows
    #[command(subcommand)]
    Workflows(Deferred<workflows::Workflows>),
    /// Manage schedules, their overrides and their history
    #[command(subcommand)]
    Schedules(Deferred<schedules::Schedules>),
    /// Manage chats and their sessions
    #[command(subcommand)]
    Chats(Deferred<chats::Chats>),
    /// Inspect and maintain the state store
    #[command(subcommand)]
    State(Deferred<state::State>),
    /// Report token usage and cost
    #[command(subcommand)]
    Usage(Deferred<usage::Usage>),
    Doctor(doctor::Doctor),
    /// Show, check and create the configuration
    #[command(subcommand)]
    Config(Deferred<config::Config>),
    Completions(completions::Completions),
    Man(man::Man),
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
}

/// The context of a command: options, output, home and configuration.
pub struct Context<'a> {
    /// The global options.
    pub global: &'a Global,
    /// The output.
    pub out: &'a mut Out,
    /// The home and its effective configuration, loaded on first use.
    settled: OnceCell<(Home, Config)>,
    /// The request, if the command has an operation id.
    request: Option<Request>,
    /// The text read from stdin, which is part of the request.
    read: RefCell<String>,
}

impl Context<'_> {
    /// Returns the effective configuration.
    pub fn config(&self) -> Result<&Config, Failure> {
        Ok(&self.settled()?.1)
    }

    /// Opens the store for reading.
    pub fn open_to_read(&self) -> Result<Store, Failure> {
        self.open(self.options()?.for_reading())
    }

    /// Opens the store for reading; `None` if the home, and so the state in it, does not exist yet. Warns if the home was
    /// named: the name may be misspelled.
    pub fn open_if_there(&self) -> Result<Option<Store>, Failure> {
        match self.open_to_read() {
            Err(failure) if failure.is_missing_home() && *self.config()?.store() == StoreAddress::Home => {
                if let Failure::NoHome { home, .. } = &failure {
                    let source = self.home()?.source.as_str();
                    self.out.warn(format_args!("there is no home at {} ({source})", home.display()));
                }
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    /// Opens the store for writing.
    pub fn open_to_write(&self) -> Result<Store, Failure> {
        let store = self.open_or_create(self.options()?)?;
        let Some(Request { operation, command, given }) = &self.request else { return Ok(store) };
        Ok(store.once(&format!("command/{command}"), operation, &(given, &*self.read.borrow()))?)
    }

    /// Opens the store for writing, for a long-running command.
    pub fn open_to_stay(&self) -> Result<Store, Failure> {
        let (home, config) = self.settled()?;
        self.open_or_create(StoreOptions::at(home.clone()).configured(config))
    }

    /// Returns the home.
    pub fn home(&self) -> Result<&Home, Failure> {
        Ok(&self.settled()?.0)
    }

    /// Adds text read from stdin to the request. Call it before the store is opened.
    pub fn has_read(&self, text: &str) {
        self.read.borrow_mut().push_str(text);
    }

    /// Closes a store after writing, as the last step of a command. Acknowledged changes are kept if closing fails, so a
    /// failure is only a warning.
    pub fn close(&self, store: Store) {
        if let Err(error) = store.close_at_exit() {
            self.out.warn(format_args!("cannot close the store: {}", Failure::from(error).message()));
        }
    }

    /// Returns the home and its effective configuration, and loads both on the first call.
    fn settled(&self) -> Result<&(Home, Config), Failure> {
        if let Some(settled) = self.settled.get() {
            return Ok(settled);
        }
        let home = self.global.find_home()?;
        let config = self.global.config(&home)?;
        Ok(self.settled.get_or_init(|| (home, config)))
    }

    /// Prints the warnings of the configuration and the unknown `DUOLOG_` variables.
    pub fn warn_of_config(&self) -> Result<(), Failure> {
        let config = self.config()?;
        config.warnings().iter().for_each(|warning| self.out.warn(warning));
        let keys: Vec<&str> = config.settings().map(|setting| setting.key.variable()).collect();
        for name in environment::unknown(&keys) {
            self.out.warn(format_args!("unknown environment variable {name}; see: duolog config show --help"));
        }
        Ok(())
    }

    /// Adds the directory to the error that a named home does not exist.
    fn of_home(&self, error: duolog::Error) -> Failure {
        match self.home() {
            Ok(home)
                if error.is_missing_home() && matches!(home.source, HomeSource::Named | HomeSource::Environment) =>
            {
                Failure::NoHome { home: directory(home).to_owned(), error }
            }
            _ => error.into(),
        }
    }

    /// Returns the options to open the store for a one-shot command.
    pub fn options(&self) -> Result<StoreOptions, Failure> {
        let (home, config) = self.settled()?;
        Ok(StoreOptions::at(home.clone()).configured(config).one_shot())
    }

    /// Opens the store for writing, and notes if that created the home.
    fn open_or_create(&self, options: StoreOptions) -> Result<Store, Failure> {
        let home = self.home()?;
        let is_new = !home.state.is_dir();
        let store = self.open(options)?;
        if is_new {
            self.out.note(format_args!("created home {}", directory(home).display()));
        }
        Ok(store)
    }

    fn open(&self, options: StoreOptions) -> Result<Store, Failure> {
        let store = Store::open(options).map_err(|error| self.of_home(error))?;
        self.warn_of_config()?;
        store.warnings().iter().for_each(|warning| self.out.warn(warning));
        Ok(store)
    }
}

/// Returns the directory of a home; that of its state if its roles have different parents.
fn directory(home: &Home) -> &Path {
    let parent = |role: &Path| role.parent().map(Path::to_owned);
    match home.state.parent() {
        Some(directory) if parent(&home.cache) == parent(&home.state) => directory,
        _ => &home.state,
    }
}

/// Runs the parsed command.
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

//! What can be said on the command line and in the environment: the root of the tree, the global flags, and the
//! arguments that several commands share.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgMatches, Args, FromArgMatches, Parser, Subcommand, ValueEnum};
use duolog::config::Config;
use duolog::log::{Dialect, RecordFormat};
use duolog::runs::Expiry;
use duolog::sessions::SessionRef;
use duolog::{
    Clock as _, Cursor, Durability, Home, OperationId, PageOrder, PageToken, Position, SessionStatus, Surroundings,
    SystemClock, Timestamp, UnknownWord, limits,
};

use crate::commands::Command;
use crate::failure::Failure;
use crate::login;
use crate::out::exit_codes;

const AFTER: &str = "\
Examples:
  duolog demo
  echo '{\"type\":\"user\",\"text\":\"hello\"}' | duolog log append --session demo
  duolog log tail demo --follow
  duolog sessions list

Home: the first of --home, DUOLOG_HOME, a .duolog folder here or above, the user's directories.

Store: the state is SQLite in the home, unless --store, DUOLOG_STORE or the configuration say:
  sqlite:DIRECTORY, or just the directory
  postgres://USER[:PASSWORD]@HOST[:PORT]/DATABASE[?sslmode=…]
  The logs stay in the home. Command lines are for all to see: a password goes into the environment.

Environment:
  DUOLOG_HOME     the home, where --home is not given
  DUOLOG_STORE    where the state is, where --store is not given
  PGPASSWORD      the password of a server, where its address has none
  DUOLOG_<KEY>    a key of the configuration: duolog config show --help
  NO_COLOR        no color, unless --color says otherwise
  COLUMNS         the width of tables, where the terminal does not tell";

/// What follows the list of commands: examples, places, and the one table of exit codes.
fn after() -> String {
    format!("{AFTER}\n\n{}", exit_codes())
}

/// Which page of a list.
#[derive(Args)]
pub struct Paging {
    /// Maximum number of results
    #[arg(long, value_name = "N", default_value_t = limits::PAGE_DEFAULT)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::PAGE_MAX)))]
    pub limit: u32,
    /// Page token: show the page after the one that printed it
    #[arg(long, value_name = "TOKEN")]
    pub after: Option<PageToken>,
}

/// The durable state layer for AI agents: what an agent did, and what it must do next
#[derive(Parser)]
#[command(name = "duolog", version, after_help = after(), max_term_width = 110, subcommand_required = true)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub struct Cli {
    /// What every command takes.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What every command takes.
#[derive(Args)]
pub struct Global {
    /// The home to work in
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub home: Option<PathBuf>,
    /// Where the state is, if not in the home: a directory, or postgres://USER@HOST/DATABASE
    #[arg(long, global = true, value_name = "ADDRESS", help_heading = "Global options")]
    pub store: Option<OsString>,
    /// Answer with one JSON object on stdout, errors too
    #[arg(long, global = true, help_heading = "Global options")]
    pub json: bool,
    /// No notes, warnings or progress bars: only the answer, and errors
    #[arg(long, short, global = true, help_heading = "Global options")]
    pub quiet: bool,
    /// Whether to color what people read
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = "Global options")]
    pub color: Color,
    /// Show tables with all columns in full
    #[arg(id = "layout", long = "layout", short = 'o', global = true, value_name = "LAYOUT")]
    #[arg(help_heading = "Global options")]
    pub layout: Option<TableLayout>,
    /// Columns of a table, by their JSON names: id,name,status
    #[arg(long, global = true, value_name = "NAMES", value_delimiter = ',', help_heading = "Global options")]
    pub columns: Vec<String>,
}

/// How tables are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TableLayout {
    /// All columns in full, however wide the terminal is
    Wide,
}

/// Whether to color what people read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// Where a terminal reads it, and NO_COLOR is not set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Global {
    /// The home that is meant, by flags, environment and place.
    pub fn find_home(&self) -> Result<Home, Failure> {
        let variable = |name| env::var_os(name).map(PathBuf::from);
        let around = Surroundings {
            named: self.home.clone(),
            duolog_home: variable("DUOLOG_HOME"),
            cwd: here()?,
            user_home: variable("HOME"),
            xdg_state_home: variable("XDG_STATE_HOME"),
            xdg_cache_home: variable("XDG_CACHE_HOME"),
            xdg_config_home: variable("XDG_CONFIG_HOME"),
        };
        Home::discover(&around, &Path::is_dir).map_err(|error| Failure::Given {
            message: error.to_string(),
            hint: Some("name a directory with --home".to_owned()),
        })
    }

    /// What is in force in a home: its configuration, the environment before it, and the flags before that.
    pub fn config(&self, home: &Home) -> Result<Config, Failure> {
        let said = Config::load(home)?.with_environment(|name| env::var_os(name))?.with_store(self.store.as_deref())?;
        let said = said.from_directory(&here()?).with_password(env::var_os("PGPASSWORD").as_deref());
        Ok(said.for_login(login::name().as_deref()))
    }
}

/// Commands that are described to the parser only once one of them is meant: describing all of them takes longer than
/// finding the one.
pub struct Deferred<T>(pub T);

impl<T: FromArgMatches> FromArgMatches for Deferred<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, clap::Error> {
        T::from_arg_matches_mut(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl<T: Subcommand> Subcommand for Deferred<T> {
    fn augment_subcommands(command: clap::Command) -> clap::Command {
        command.defer(|command| with_operation_ids(keeping_about(command, T::augment_subcommands)))
    }

    fn augment_subcommands_for_update(command: clap::Command) -> clap::Command {
        command.defer(|command| keeping_about(command, T::augment_subcommands_for_update))
    }

    fn has_subcommand(name: &str) -> bool {
        T::has_subcommand(name)
    }
}

/// The commands whose change happens once under an operation id, by the command that they are below. Those that keep
/// more than the answer under their id have the flag by themselves.
const ONCE: &[(&str, &[&str])] = &[
    ("log", &["repair"]),
    ("branch", &["new", "rename", "set"]),
    ("sessions", &["clear", "close", "compact", "fork", "inbox", "pop", "reopen", "run", "send", "set"]),
    (
        "runs",
        &[
            "acknowledge",
            "admit",
            "cancel",
            "claim",
            "expire",
            "fail",
            "finish",
            "gate",
            "nodes",
            "pause",
            "recover",
            "release",
            "renew",
            "requeue",
            "resume",
            "retry",
            "scratch",
            "start",
        ],
    ),
    ("phase", &["begin", "complete", "end", "enter", "session", "skip"]),
    ("execution", &["begin", "end", "session"]),
    ("approvals", &["approve", "reject", "reply"]),
    ("chats", &["add", "reset"]),
    ("schedules", &["clear", "set", "tick"]),
    ("workflows", &["clear", "disable", "enable"]),
];

/// The name of the flag among the arguments of a command.
const OPERATION_ID: &str = "operation_id";

/// Gives `--operation-id` to those of a command's subcommands that take it.
fn with_operation_ids(command: clap::Command) -> clap::Command {
    let above = command.get_name().to_owned();
    let takes = ONCE.iter().find(|(name, _)| *name == above).map_or(&[][..], |(_, names)| *names);
    command.mut_subcommands(|below| {
        if !takes.contains(&below.get_name()) {
            return if ONCE.iter().any(|(name, _)| *name == below.get_name()) {
                with_operation_ids(below)
            } else {
                below
            };
        }
        let flag = clap::Arg::new(OPERATION_ID).long("operation-id").value_name("ID");
        let flag = flag.value_parser(clap::value_parser!(OperationId));
        let flag = if below.get_name() == "inbox" { flag.requires("ack") } else { flag };
        below.arg(flag.help("Operation id; the same request under the same id changes nothing again"))
    })
}

/// What a command was asked under an operation id.
pub struct Request {
    /// The id.
    pub operation: OperationId,
    /// Which command.
    pub command: String,
    /// Its arguments.
    pub given: Vec<(String, Vec<String>)>,
}

impl Request {
    /// The request of the command that was given, if it has an operation id.
    pub fn of(matches: &ArgMatches) -> Option<Self> {
        let (mut at, mut words) = (matches, Vec::new());
        while let Some((name, below)) = at.subcommand() {
            words.push(name);
            at = below;
        }
        // An error says that the command has no such flag.
        let operation = at.try_get_one::<OperationId>(OPERATION_ID).ok().flatten()?.clone();
        // How the answer looks is no part of the request; where the home is, the id is unique within.
        let of_global = ["home", "store", "json", "quiet", "color", OPERATION_ID];
        #[allow(clippy::unnecessary_debug_formatting, reason = "Display loses bytes that are not UTF-8")]
        let raw = |id: &clap::Id| {
            let values = at.try_get_raw(id.as_str()).ok().flatten()?;
            Some((id.to_string(), values.map(|value| format!("{value:?}")).collect()))
        };
        let mut given: Vec<_> = at.ids().filter(|id| !of_global.contains(&id.as_str())).filter_map(raw).collect();
        given.sort_unstable();
        Some(Self { operation, command: words.join(" "), given })
    }
}

/// Describes commands below one that was described already: what it is for is said there.
fn keeping_about(command: clap::Command, describe: impl FnOnce(clap::Command) -> clap::Command) -> clap::Command {
    let about = command.get_about().cloned().unwrap_or_default();
    describe(command).about(about)
}

/// The current directory.
pub fn here() -> Result<PathBuf, Failure> {
    env::current_dir().map_err(Failure::file("find", Path::new("the current directory")))
}

/// The session that a reading command is about.
#[derive(Args)]
pub struct Which {
    /// An id, the beginning of one, or a thread name
    #[arg(value_name = "SESSION", conflicts_with_all = ["session", "user_email", "session_name"])]
    reference: Option<String>,
    /// The same, as a flag
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["user_email", "session_name"])]
    session: Option<String>,
    #[command(flatten)]
    of_user: OfUser,
}

/// A session by its user and what that user calls it.
#[derive(Args)]
pub struct OfUser {
    /// The user whose session it is; the one of the configuration where it is not given
    #[arg(long, value_name = "USER", requires = "user_scope")]
    user_email: Option<String>,
    /// What that user calls it
    #[arg(long, value_name = "NAME", group = "user_scope")]
    session_name: Option<String>,
}

impl OfUser {
    /// The session, where it is named so.
    pub fn reference(&self, config: &Config) -> Option<SessionRef> {
        let name = self.session_name.clone()?;
        let user = self.user_email.clone().unwrap_or_else(|| config.user().to_owned());
        Some(SessionRef::UserAndName { user, name })
    }
}

impl Which {
    /// The user, if one is given.
    pub fn user(&self) -> Option<&str> {
        self.of_user.user_email.as_deref()
    }

    /// The reference as the library takes it.
    pub fn reference(&self, config: &Config) -> Result<SessionRef, Failure> {
        let text = self.reference.as_ref().or(self.session.as_ref());
        let named = text.map(|text| SessionRef::Text(text.clone())).or_else(|| self.of_user.reference(config));
        named.ok_or_else(|| Failure::Given {
            message: "no session is named".to_owned(),
            hint: Some("give an id, a thread name, or --session-name, with --user-email for another user's".to_owned()),
        })
    }
}

/// Where in a log to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At a position, whatever the epoch.
    Position(Position),
    /// At a cursor, which is checked for being stale.
    Cursor(Cursor),
}

/// Reads a position (`1234`) or a cursor (`0:1234`).
pub fn start(text: &str) -> Result<Start, String> {
    if text.contains(':') {
        return text.parse().map(Start::Cursor).map_err(|error: <Cursor as std::str::FromStr>::Err| error.to_string());
    }
    position(text).map(Start::Position)
}

/// Reads a position.
pub fn position(text: &str) -> Result<Position, String> {
    text.parse().map(Position).map_err(|_| "a position is a number of bytes, like 1234".to_owned())
}

/// Reads a moment: an instant, a day, or how long ago.
pub fn since(text: &str) -> Result<Timestamp, String> {
    let instant = || text.parse().or_else(|_| format!("{text}T00:00:00Z").parse()).ok();
    ago(text).or_else(instant).ok_or_else(|| "a moment is 2026-01-31, 2026-01-31T09:30:00Z, or an age like 12h".into())
}

/// The moment so long ago: `90s`, `90m`, `12h`, `7d`, `2w`.
fn ago(text: &str) -> Option<Timestamp> {
    let micros = i64::try_from(seconds(text)?).ok()?.checked_mul(1_000_000)?;
    Some(Timestamp::from_micros(SystemClock.now().as_micros().saturating_sub(micros)))
}

/// Reads how long something takes: `90s`, `90m`, `12h`, `7d`, `2w`.
pub fn duration(text: &str) -> Result<Duration, String> {
    seconds(text)
        .map(Duration::from_secs)
        .ok_or_else(|| "a time is a number and a unit, like 30s, 5m, 12h or 7d".into())
}

/// Reads until when a gate may be answered: an instant, a day, or how long from now. What "now" is, the state says.
pub fn expiry(text: &str) -> Result<Expiry, String> {
    let after = seconds(text).map(|seconds| Expiry::After(Duration::from_secs(seconds)));
    let instant = || text.parse().or_else(|_| format!("{text}T00:00:00Z").parse()).ok().map(Expiry::At);
    let wrong = || "a moment is 2026-01-31, 2026-01-31T09:30:00Z, or a time from now like 12h".into();
    after.or_else(instant).ok_or_else(wrong)
}

fn seconds(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        "w" => 604_800,
        _ => return None,
    };
    number.parse::<u32>().ok().map(|number| u64::from(number) * seconds)
}

/// Reads a word of a closed vocabulary, and lists the words in help and completions.
pub fn word<T>(all: &'static [T], as_str: fn(T) -> &'static str) -> impl TypedValueParser<Value = T>
where
    T: Copy + FromStr<Err = UnknownWord> + Send + Sync + 'static,
{
    PossibleValuesParser::new(all.iter().map(|word| as_str(*word))).try_map(|word| word.parse::<T>())
}

/// Reads a session's status, and lists the words in help and completions.
pub fn status() -> impl TypedValueParser<Value = SessionStatus> {
    PossibleValuesParser::new(SessionStatus::ALL.iter().map(|status| status.as_str()))
        .try_map(|word| word.parse::<SessionStatus>())
}

/// Reads the order of a list: the word for the last changed first, or `created`.
pub fn page_order(changed: &'static str) -> impl TypedValueParser<Value = PageOrder> {
    let order = |word: String| if word == "created" { PageOrder::Created } else { PageOrder::Updated };
    PossibleValuesParser::new([changed, "created"]).map(order)
}

/// Reads a dialect, likewise.
pub fn dialect() -> impl TypedValueParser<Value = Dialect> {
    PossibleValuesParser::new(Dialect::ALL.map(Dialect::word)).try_map(|word| word.parse::<Dialect>())
}

/// Reads what to record as, likewise.
pub fn recorded_as() -> impl TypedValueParser<Value = RecordFormat> {
    PossibleValuesParser::new(RecordFormat::ALL.map(RecordFormat::word))
        .map(|word| RecordFormat::ALL.into_iter().find(|form| form.word() == word).unwrap_or_default())
}

/// Reads a durability, likewise.
pub fn durability() -> impl TypedValueParser<Value = Durability> {
    PossibleValuesParser::new([Durability::Process, Durability::Power].map(Durability::as_str))
        .map(|word| if word == Durability::Power.as_str() { Durability::Power } else { Durability::Process })
}

//! The command line: the root command, the global options, and the arguments that several commands share.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgMatches, Args, FromArgMatches, Parser, Subcommand, ValueEnum};
use duolog::config::Config;
use duolog::limits::Limits;
use duolog::log::{Dialect, Directory, RecordFormat};
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

const EXAMPLES: &str = "\
Examples:
  duolog demo
  echo '{\"type\":\"user\",\"text\":\"hello\"}' | duolog log append --session demo
  duolog log tail demo --follow
  duolog sessions list";

/// The search order of the home directory, and the addresses of the state store.
pub const HOME: &str = "\
Home directory, in order of precedence:
  --home, DUOLOG_HOME, .duolog in the current directory or a parent, the XDG directories of the user

State store [default: SQLite in the home], set with --store, DUOLOG_STORE or the key store.address:
  sqlite:DIRECTORY or DIRECTORY
  postgres://USER[:PASSWORD]@HOST[:PORT]/DATABASE[?sslmode=…]
  The logs stay in the home. Other users can read command lines: pass a password in the environment.";

/// The environment variables.
pub const ENVIRONMENT: &str = "\
Environment:
  DUOLOG_HOME     home directory; --home overrides it
  DUOLOG_STORE    address of the state store; --store overrides it
  PGPASSWORD      PostgreSQL password if the address has none
  DUOLOG_<KEY>    configuration key; see duolog config show --help
  NO_COLOR        disables color; --color overrides it
  COLUMNS         width of tables if stdout is not a terminal";

/// Returns the text after the list of commands: examples, home, store, environment and exit codes.
fn after() -> String {
    format!("{EXAMPLES}\n\n{HOME}\n\n{ENVIRONMENT}\n\n{}", exit_codes())
}

/// The page of a list.
#[derive(Args)]
pub struct Paging {
    /// Maximum number of results [max: 200]
    #[arg(long, short = 'n', value_name = "N", default_value_t = limits::PAGE_DEFAULT)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::PAGE_MAX)))]
    pub limit: u32,
    /// Page token printed by the previous page
    #[arg(long, value_name = "TOKEN")]
    pub after: Option<PageToken>,
}

/// Store what an agent did and what it must do next
#[derive(Parser)]
#[command(name = "duolog", version, after_help = after(), max_term_width = 110, subcommand_required = true)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub struct Cli {
    /// The global options.
    #[command(flatten)]
    pub global: Global,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The options of every command.
#[derive(Args)]
pub struct Global {
    /// Home directory
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub home: Option<PathBuf>,
    /// State store: a directory or postgres://USER@HOST/DATABASE
    #[arg(long, global = true, value_name = "ADDRESS", help_heading = "Global options")]
    pub store: Option<OsString>,
    /// Print one JSON object on stdout, also for errors
    #[arg(long, global = true, help_heading = "Global options")]
    pub json: bool,
    /// Suppress notes, warnings and progress bars
    #[arg(long, short, global = true, help_heading = "Global options")]
    pub quiet: bool,
    /// When to use color
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = "Global options")]
    pub color: Color,
}

/// The format of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TableLayout {
    /// All columns, not shortened
    Wide,
}

/// When to use color.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Global {
    /// Finds the home from the options, the environment and the current directory.
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
            hint: Some("set the home directory with --home DIR".to_owned()),
        })
    }

    /// Returns the effective configuration of a home: flags override the environment, which overrides the file.
    pub fn config(&self, home: &Home) -> Result<Config, Failure> {
        let config =
            Config::load(home)?.with_environment(|name| env::var_os(name))?.with_store(self.store.as_deref())?;
        let config = config.from_directory(&here()?).with_password(env::var_os("PGPASSWORD").as_deref());
        Ok(config.for_login(login::name().as_deref()))
    }
}

/// Subcommands whose arguments are built only when one of them is parsed: building all of them takes longer than parsing
/// the command line.
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
        command.defer(|command| with_shared_flags(keeping_about(command, T::augment_subcommands)))
    }

    fn augment_subcommands_for_update(command: clap::Command) -> clap::Command {
        command.defer(|command| keeping_about(command, T::augment_subcommands_for_update))
    }

    fn has_subcommand(name: &str) -> bool {
        T::has_subcommand(name)
    }
}

/// The commands that take `--operation-id`, by parent command. Commands that record more than their answer under the id
/// declare the flag themselves.
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

/// The argument id of `--operation-id`.
const OPERATION_ID: &str = "operation_id";

/// The commands that print one table and take `--layout` and `--columns`, by parent command.
const LISTS: &[(&str, &[&str])] = &[
    ("log", &["verify"]),
    ("sessions", &["branches", "history", "inbox", "list", "similar"]),
    ("runs", &["errors", "history", "list", "stats"]),
    ("execution", &["list"]),
    ("approvals", &["list"]),
    ("chats", &["list"]),
    ("schedules", &["list", "runs"]),
    ("state", &["blobs"]),
    ("usage", &["daily", "model", "session", "workflow"]),
    ("workflows", &["list"]),
    ("config", &["show"]),
];

/// The commands that print tables besides other text and take only `--layout`, by parent command.
const VIEWS: &[(&str, &[&str])] = &[("runs", &["show"]), ("sessions", &["show"]), ("state", &["stats"])];

/// The argument ids of `--layout` and `--columns`.
const LAYOUT: &str = "layout";
const COLUMNS: &str = "columns";

/// Adds `--operation-id`, `--layout` and `--columns` to the subcommands that take them.
fn with_shared_flags(command: clap::Command) -> clap::Command {
    let above = command.get_name().to_owned();
    let takes = |list: &[(&str, &[&str])], below: &str| {
        list.iter().any(|(name, names)| *name == above && names.contains(&below))
    };
    command.mut_subcommands(|mut below| {
        if below.has_subcommands() {
            return with_shared_flags(below);
        }
        let name = below.get_name().to_owned();
        if takes(ONCE, &name) {
            let flag = clap::Arg::new(OPERATION_ID).long("operation-id").value_name("ID");
            let flag = flag.value_parser(clap::value_parser!(OperationId));
            let flag = if name == "inbox" { flag.requires("ack") } else { flag };
            below = below
                .arg(flag.help("Operation id: the change is made once per id, and a retry returns the first answer"));
        }
        if takes(LISTS, &name) || takes(VIEWS, &name) {
            let flag = clap::Arg::new(LAYOUT).long("layout").short('o').value_name("LAYOUT");
            let flag = flag.value_parser(clap::value_parser!(TableLayout));
            below = below.arg(flag.help("Layout of the table"));
        }
        if takes(LISTS, &name) {
            let flag = clap::Arg::new(COLUMNS).long("columns").value_name("NAMES").value_delimiter(',');
            let flag = flag.action(clap::ArgAction::Append);
            below = below.arg(flag.help("Columns by JSON name, for example id,status"));
        }
        below
    })
}

/// The layout of tables on the command line.
#[derive(Debug, Default)]
pub struct Tables {
    /// The layout.
    pub layout: Option<TableLayout>,
    /// The columns to show; empty if `--columns` is not given.
    pub columns: Vec<String>,
}

impl Tables {
    /// Returns the options of the parsed command; the default if it prints no table.
    pub fn of(matches: &ArgMatches) -> Self {
        let (at, _) = leaf(matches);
        // The lookup fails if the command has no such flag.
        let columns = at.try_get_many::<String>(COLUMNS).ok().flatten();
        Self {
            layout: at.try_get_one(LAYOUT).ok().flatten().copied(),
            columns: columns.map_or_else(Vec::new, |names| names.cloned().collect()),
        }
    }
}

/// Returns the matches of the parsed command, and its words.
fn leaf(matches: &ArgMatches) -> (&ArgMatches, Vec<&str>) {
    let (mut at, mut words) = (matches, Vec::new());
    while let Some((name, below)) = at.subcommand() {
        words.push(name);
        at = below;
    }
    (at, words)
}

/// The variable with the run that `duolog runs exec` sets for its command.
pub const RUN_VARIABLE: &str = "DUOLOG_RUN_ID";

/// The argument ids of a run and of a name that belongs to it. One name alone is the second one.
pub const FIRST_NAME: &str = "first_name";
pub const SECOND_NAME: &str = "second_name";

/// Returns the run of the environment; `None` if the variable is unset or empty.
pub fn run_of_environment() -> Result<Option<String>, Failure> {
    let Some(run) = env::var_os(RUN_VARIABLE).filter(|run| !run.is_empty()) else { return Ok(None) };
    run.into_string().map(Some).map_err(|_| Failure::Given {
        message: format!("cannot read {RUN_VARIABLE}: the value is not UTF-8"),
        hint: Some(format!("unset {RUN_VARIABLE}, or give the run id as an argument")),
    })
}

/// The request that a command makes under an operation id.
pub struct Request {
    /// The id.
    pub operation: OperationId,
    /// The command, as on the command line.
    pub command: String,
    /// The arguments by name.
    pub given: Vec<(String, Vec<String>)>,
}

impl Request {
    /// Returns the request of the parsed command; `None` if it has no operation id.
    pub fn of(matches: &ArgMatches) -> Option<Self> {
        let (at, words) = leaf(matches);
        // The lookup fails if the command has no such flag.
        let operation = at.try_get_one::<OperationId>(OPERATION_ID).ok().flatten()?.clone();
        // The output format is not part of the request, and an id is unique within its home.
        let of_global = ["home", "store", "json", "quiet", "color", LAYOUT, COLUMNS, OPERATION_ID];
        #[allow(clippy::unnecessary_debug_formatting, reason = "Display loses bytes that are not UTF-8")]
        let raw = |id: &clap::Id| {
            let values = at.try_get_raw(id.as_str()).ok().flatten()?;
            Some((id.to_string(), values.map(|value| format!("{value:?}")).collect()))
        };
        // clap adds a group per struct, with the name of the struct: that name is not part of the request.
        let is_argument = |id: &&clap::Id| !id.as_str().starts_with(char::is_uppercase);
        let is_of_request = |id: &&clap::Id| is_argument(id) && !of_global.contains(&id.as_str());
        let mut given: Vec<_> = at.ids().filter(is_of_request).filter_map(raw).collect();
        if let Some(alone) = given.iter_mut().find(|(id, _)| id == FIRST_NAME)
            && matches!(at.try_contains_id(SECOND_NAME), Ok(false))
        {
            // The run of the environment is a part of the request.
            SECOND_NAME.clone_into(&mut alone.0);
            let run = env::var_os(RUN_VARIABLE).unwrap_or_default();
            given.push((FIRST_NAME.to_owned(), vec![format!("{run:?}")]));
        }
        given.sort_unstable();
        Some(Self { operation, command: words.join(" "), given })
    }
}

/// Adds subcommands and keeps the description of the parent command.
fn keeping_about(command: clap::Command, describe: impl FnOnce(clap::Command) -> clap::Command) -> clap::Command {
    let about = command.get_about().cloned().unwrap_or_default();
    describe(command).about(about)
}

/// Returns the current directory.
pub fn here() -> Result<PathBuf, Failure> {
    env::current_dir().map_err(Failure::file("find", Path::new("the current directory")))
}

/// The session that a command reads.
#[derive(Args)]
pub struct Which {
    /// Session id, unique prefix or thread name
    #[arg(value_name = "SESSION", conflicts_with_all = ["session", "user_email", "session_name"])]
    reference: Option<String>,
    /// Session id, unique prefix or thread name
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["user_email", "session_name"])]
    session: Option<String>,
    #[command(flatten)]
    of_user: OfUser,
}

/// A session by user and session name.
#[derive(Args)]
pub struct OfUser {
    /// Owner of the session [default: user.email of the configuration]
    #[arg(long, value_name = "USER", requires = "user_scope")]
    user_email: Option<String>,
    /// Session name of that user
    #[arg(long, value_name = "NAME", group = "user_scope")]
    session_name: Option<String>,
}

impl OfUser {
    /// Returns the session; `None` if `--session-name` is not given.
    pub fn reference(&self, config: &Config) -> Option<SessionRef> {
        let name = self.session_name.clone()?;
        let user = self.user_email.clone().unwrap_or_else(|| config.user().to_owned());
        Some(SessionRef::UserAndName { user, name })
    }
}

impl Which {
    /// Returns the user; `None` if `--user-email` is not given.
    pub fn user(&self) -> Option<&str> {
        self.of_user.user_email.as_deref()
    }

    /// Returns the reference for the library.
    pub fn reference(&self, config: &Config) -> Result<SessionRef, Failure> {
        let text = self.reference.as_ref().or(self.session.as_ref());
        let named = text.map(|text| SessionRef::Text(text.clone())).or_else(|| self.of_user.reference(config));
        named.ok_or_else(|| Failure::Given {
            message: "no session is given".to_owned(),
            hint: Some("add a session id, a thread name or --session-name NAME".to_owned()),
        })
    }
}

/// The directory of another program's logs that a command reads instead of the home.
#[derive(Args)]
pub struct LogsDir {
    /// Directory to read instead of the home: every *.jsonl file below it; no file is changed
    #[arg(long = "logs-dir", value_name = "DIR")]
    logs_dir: Option<PathBuf>,
}

impl LogsDir {
    /// Returns true if the home is read.
    pub const fn is_none(&self) -> bool {
        self.logs_dir.is_none()
    }

    /// Opens the directory; `None` if it is not given. Returns an error if it does not exist.
    pub fn open(&self, limits: &Limits) -> Result<Option<Directory>, Failure> {
        let Some(given) = &self.logs_dir else { return Ok(None) };
        let directory = here()?.join(given);
        let opened = Directory::open(&directory, limits)?.ok_or_else(|| Failure::Absent {
            message: format!("there is no directory {}", directory.display()),
            hint: Some(
                "give the directory of the logs, for example ~/.claude/projects or ~/.codex/sessions".to_owned(),
            ),
        })?;
        Ok(Some(opened))
    }
}

/// The start of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// A position in the current epoch.
    Position(Position),
    /// A cursor; a stale one is an error.
    Cursor(Cursor),
}

/// Parses a position (`1234`) or a cursor (`0:1234`).
pub fn start(text: &str) -> Result<Start, String> {
    if text.contains(':') {
        return text.parse().map(Start::Cursor).map_err(|error: <Cursor as std::str::FromStr>::Err| error.to_string());
    }
    position(text).map(Start::Position)
}

/// Parses a position.
pub fn position(text: &str) -> Result<Position, String> {
    text.parse().map(Position).map_err(|_| "expected a byte position such as 1234".to_owned())
}

/// Parses a point in time: a timestamp, a date or an age.
pub fn since(text: &str) -> Result<Timestamp, String> {
    let instant = || text.parse().or_else(|_| format!("{text}T00:00:00Z").parse()).ok();
    ago(text).or_else(instant).ok_or_else(|| "expected 2026-01-31, 2026-01-31T09:30:00Z or an age such as 12h".into())
}

/// Returns the timestamp of an age: `90s`, `90m`, `12h`, `7d`, `2w`.
fn ago(text: &str) -> Option<Timestamp> {
    let micros = i64::try_from(seconds(text)?).ok()?.checked_mul(1_000_000)?;
    Some(Timestamp::from_micros(SystemClock.now().as_micros().saturating_sub(micros)))
}

/// Parses a duration: `90s`, `90m`, `12h`, `7d`, `2w`.
pub fn duration(text: &str) -> Result<Duration, String> {
    seconds(text)
        .map(Duration::from_secs)
        .ok_or_else(|| "expected a number and a unit, such as 30s, 5m, 12h or 7d".into())
}

/// Parses the expiry of a gate: a timestamp, a date or a duration from now. The clock of the state store is "now".
pub fn expiry(text: &str) -> Result<Expiry, String> {
    let after = seconds(text).map(|seconds| Expiry::After(Duration::from_secs(seconds)));
    let instant = || text.parse().or_else(|_| format!("{text}T00:00:00Z").parse()).ok().map(Expiry::At);
    let wrong = || "expected 2026-01-31, 2026-01-31T09:30:00Z or a duration from now such as 12h".into();
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

/// Parses one of a fixed set of words and lists them in help and completions.
pub fn word<T>(all: &'static [T], as_str: fn(T) -> &'static str) -> impl TypedValueParser<Value = T>
where
    T: Copy + FromStr<Err = UnknownWord> + Send + Sync + 'static,
{
    PossibleValuesParser::new(all.iter().map(|word| as_str(*word))).try_map(|word| word.parse::<T>())
}

/// Parses the status of a session and lists the words in help and completions.
pub fn status() -> impl TypedValueParser<Value = SessionStatus> {
    PossibleValuesParser::new(SessionStatus::ALL.iter().map(|status| status.as_str()))
        .try_map(|word| word.parse::<SessionStatus>())
}

/// Parses the order of a list: `changed` is the word for last changed first, the other word is `created`.
pub fn page_order(changed: &'static str) -> impl TypedValueParser<Value = PageOrder> {
    let order = |word: String| if word == "created" { PageOrder::Created } else { PageOrder::Updated };
    PossibleValuesParser::new([changed, "created"]).map(order)
}

/// Parses a dialect.
pub fn dialect() -> impl TypedValueParser<Value = Dialect> {
    PossibleValuesParser::new(Dialect::ALL.map(Dialect::word)).try_map(|word| word.parse::<Dialect>())
}

/// Parses a record format.
pub fn recorded_as() -> impl TypedValueParser<Value = RecordFormat> {
    PossibleValuesParser::new(RecordFormat::ALL.map(RecordFormat::word))
        .map(|word| RecordFormat::ALL.into_iter().find(|form| form.word() == word).unwrap_or_default())
}

/// Parses a durability.
pub fn durability() -> impl TypedValueParser<Value = Durability> {
    PossibleValuesParser::new([Durability::Process, Durability::Power].map(Durability::as_str))
        .map(|word| if word == Durability::Power.as_str() { Durability::Power } else { Durability::Process })
}

//! `duolog config show` and the reference of all keys.

use clap::Args;
use duolog::config::{Config, Key, Setting, Source};
use duolog::{Money, Rates};
use duolog_wire as wire;

use super::Context;
use crate::failure::{CommandResult, Ended};
use crate::out::{Column, Table, Tone};

/// Keys of the file with their defaults or examples, and their meaning from column 37 on. The template of
/// `duolog config init` is made from this text.
pub(super) const KEYS: &str = "\
  [limits]
  line_bytes_max = \"64 MiB\"          maximum size of an appended line, 1 KiB to 1 GiB
  batch_bytes_max = \"256 MiB\"        maximum size of an append, 1 KiB to 4 GiB
  busy_timeout_ms = 5000             maximum wait for a lock, 0 to 3600000
  open_logs_max = 128                maximum number of open logs per process, 8 to 65536
  fold_batch_bytes = \"8 MiB\"         log bytes per fold transaction, 64 KiB to 1 GiB
  fold_before_read_bytes = \"64 MiB\"  maximum log bytes that a list folds first, 0 to 1024 GiB
  [durability]
  log = \"process\"                    what appended lines survive: \"process\", a crash of the process;
                                     \"power\", a power failure
  [store]
  address = \"sqlite:\"                state store: SQLite in the home, an absolute directory, or
                                     \"postgres://USER[:PASSWORD]@HOST[:PORT]/DATABASE[?sslmode=…]\"
  [user]
  email = \"LOGIN@localhost\"          user for --session-name without --user-email

  [prices.\"MODEL\"]                  price in US dollars per million tokens, up to six decimals
  input = 2.5                        overrides the built-in price
  output = 10
  cache_read = 0.25                  cache prices [default: input]
  cache_write_5m = 3.125
  cache_write_1h = 5

  [runs]
  max_running = 4                    maximum number of running runs, 1 to 100000; others are queued
  queue_wait = \"1h\"                  maximum time in the queue before a run is cancelled, 1s to 365d
  lease = \"1m\"                       time until a claim expires unless it is renewed, 3s to 1d
  restart_cap = 3                    takeovers from dead owners before a run fails, 0 to 1000

  [chats]
  idle = \"30m\"                       time without messages until a chat ends, 1s to 365d

  [schedules.NAME]                   schedule; to override it, use duolog schedules set
  cron = \"30 3 * * MON-FRI\"          minute hour day month weekday: lists, ranges, steps, names;
                                     0 and 7 are Sunday; if day and weekday are both set, either
                                     one matches; with six fields, the first one is seconds;
                                     also @hourly, @daily, @weekly, @monthly, @yearly
  zone = \"UTC\"                       time zone, for example \"Europe/Berlin\"
  workflow = \"review\"                workflow to start
  context = { repo = \"a/b\" }         context of the run
  enabled = true                     false disables the schedule
  catch_up = \"latest\"                missed times to fire at the next tick: \"latest\", the last one;
                                     \"all\", up to 100; \"none\", only those up to 5 minutes late
  description = \"…\"

  [workflows.NAME]                   workflow
  enabled = true                     false rejects new runs
  description = \"…\"";

const NOTES: &str = "\
  Daylight saving time: a fixed hour that is skipped fires right after the gap, and one that occurs
  twice fires the first time. If the hour field starts with *, the schedule follows the clock.

  Sizes are a number of bytes, or text with B, KiB, MiB, GiB or TiB.";

const EXAMPLES: &str = "\
Examples:
  duolog config show
  DUOLOG_DURABILITY=power duolog config show --json | jq '.settings[] | select(.source != \"default\")'

Keys of config/duolog.toml in the home, all optional, with their defaults or examples:";

const AFTER: &str = "\
Environment variables override the file; flags override both:
  DUOLOG_LINE_BYTES_MAX  DUOLOG_BATCH_BYTES_MAX   DUOLOG_BUSY_TIMEOUT_MS         DUOLOG_OPEN_LOGS_MAX
  DUOLOG_DURABILITY      DUOLOG_FOLD_BATCH_BYTES  DUOLOG_FOLD_BEFORE_READ_BYTES  DUOLOG_STORE
  DUOLOG_CHATS_IDLE
  DUOLOG_USER_EMAIL
  DUOLOG_RUNS_MAX_RUNNING  DUOLOG_RUNS_QUEUE_WAIT  DUOLOG_RUNS_LEASE  DUOLOG_RUNS_RESTART_CAP

Passwords are never shown. PGPASSWORD is used if the address has no password. Restrict a file with a
password to its owner (chmod 600).

JSON:
  {\"path\": path, \"exists\": true|false,
   \"settings\": [{\"key\", \"value\", \"source\", \"line\", \"variable\"}],
   \"prices\": [{\"model\", \"usd_per_million_tokens\": {\"input\", \"output\", \"cache_read\",
               \"cache_write_5m\", \"cache_write_1h\"}, \"line\"}],
   \"schedules\": [{\"name\", \"cron\", \"zone\", \"workflow_name\", \"context\", \"enabled\", \"catch_up\",
                  \"description\", \"line\"}],
   \"workflows\": [{\"name\", \"enabled\", \"description\", \"line\"}]}
  source is \"default\", \"file\", \"environment\" or \"flag\"
  line is the line in the file; null if the value is not from the file
  prices lists the prices in the file; the built-in prices are not listed";

/// Returns the text after the options.
fn after() -> String {
    format!("{EXAMPLES}\n{KEYS}\n\n{NOTES}\n\n{AFTER}")
}

/// Show the effective configuration and its sources
#[derive(Args)]
#[command(after_help = after())]
pub struct Show {}

impl Show {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let Self {} = self;
        let (home, config) = context.settled()?;
        let settings: Vec<Setting> = config.settings().collect();
        let file = Config::path(home);
        let exists = file.is_file();
        let config = config.clone();
        let answer = wire::ConfigShown {
            path: file.to_string_lossy().into_owned(),
            exists,
            settings: settings.iter().map(wire::ConfigSetting::from).collect(),
            prices: config.price_settings().iter().map(wire::ConfigPrice::from).collect(),
            schedules: config.schedules().iter().map(wire::ConfigSchedule::from).collect(),
            workflows: config.workflows().iter().map(wire::ConfigWorkflow::from).collect(),
        };
        context.out.answer(&answer, |text| text.table(&table(&settings, &config)))?;
        let is_there = if exists { "" } else { " (does not exist)" };
        context.out.note(format_args!("file: {}{is_there}", file.display()));
        for warning in context.config()?.warnings() {
            context.out.warn(warning);
        }
        Ok(Ended::Done)
    }
}

/// Converts picodollars per token to dollars per million tokens.
fn dollars(rate: u64) -> Money {
    Money::from_picos(u128::from(rate) * 1_000_000)
}

fn table(settings: &[Setting], config: &Config) -> Table {
    let mut table = Table::new(&[(Column::Word, "KEY"), (Column::Figure, "VALUE"), (Column::Text, "SOURCE")]);
    for setting in settings {
        let from = match setting.source {
            Source::File { line } => format!("file, line {line}"),
            Source::Environment => setting.key.variable().to_owned(),
            Source::Flag if setting.key == Key::StoreAddress => "--store".to_owned(),
            Source::Default | Source::Flag => setting.source.as_str().to_owned(),
        };
        table.row(vec![setting.key.to_string(), setting.value.to_string(), from]);
        if setting.source == Source::Default {
            table.tone(2, Tone::Faint);
        }
    }
    let disabled = |enabled: bool| if enabled { "" } else { ", disabled" };
    for set in config.price_settings() {
        let Rates { input, output, .. } = set.price.rates;
        let both = format!("${} in, ${} out", dollars(input), dollars(output));
        table.row(vec![format!("prices.{:?}", set.model), both, format!("file, line {}", set.line)]);
    }
    for set in config.schedules() {
        let when = format!("{} {}{}", set.cron, set.zone, disabled(set.enabled));
        table.row(vec![format!("schedules.{}", set.name), when, format!("file, line {}", set.line)]);
    }
    for set in config.workflows() {
        let enabled = if set.enabled { "enabled" } else { "disabled" };
        table.row(vec![format!("workflows.{}", set.name), enabled.to_owned(), format!("file, line {}", set.line)]);
    }
    table
}

//! `duolog config show`, and the reference of all keys.

use clap::Args;
use duolog::config::{Config, Key, Setting, Source};
use duolog::{Money, Rates};
use duolog_wire as wire;

use super::Context;
use crate::failure::{CommandResult, Ended};
use crate::out::{Column, Table, Tone};

const AFTER: &str = "\
Examples:
  duolog config show
  DUOLOG_DURABILITY=power duolog config show --json | jq '.settings[] | select(.source != \"default\")'

Keys of config/duolog.toml in the home, all of them optional, with their defaults:
  [limits]
  line_bytes_max = \"64 MiB\"          one appended line, 1 KiB to 1 GiB; a longer one is refused
  batch_bytes_max = \"256 MiB\"        one append, 1 KiB to 4 GiB
  busy_timeout_ms = 5000             how long to wait for a lock, 0 to 3600000
  open_logs_max = 128                logs that one process keeps open, 8 to 65536
  fold_batch_bytes = \"8 MiB\"         log that one transaction covers, 64 KiB to 1 GiB
  fold_before_read_bytes = \"64 MiB\"  log that a list brings up to date before it answers, 0 to 1024 GiB
  [durability]
  log = \"process\"                    what appended lines survive: \"process\", its death; \"power\", a power cut
  [store]
  address = \"sqlite:\"                where the state is: \"sqlite:\", in the home; a directory, from /;
                                     \"postgres://USER[:PASSWORD]@HOST[:PORT]/DATABASE[?sslmode=…]\"
  [user]
  email = \"LOGIN@localhost\"          whose sessions are meant where --session-name comes without --user-email

  [prices.\"MODEL\"]                  what a model costs, in US dollars per million tokens, where the built-in price
  input = 2.5                        is wrong or missing; six decimals at most
  output = 10
  cache_read = 0.25                  these three cost what input costs where they are not said
  cache_write_5m = 3.125
  cache_write_1h = 5

  [runs]
  max_running = 4                    runs that may run at the same time, 1 to 100000; others are queued
  queue_wait = \"1h\"                  how long one waits for a place before it is cancelled, 1s to 365d
  lease = \"1m\"                       how long an owner that does not renew is taken to be alive, 3s to 1d
  restart_cap = 3                    how often a run is taken over from a dead owner before it fails, 0 to 1000

  [chats]
  idle = \"30m\"                       how long a chat may be silent and still be the same one, 1s to 365d

  [schedules.NAME]                   what fires when; duolog schedules set says something over it
  cron = \"30 3 * * MON-FRI\"          minute hour day month weekday: lists, ranges, steps, names; 0 and 7 are Sunday;
                                     where day and weekday are both given either will do; @hourly, @daily, @weekly,
                                     @monthly, @yearly; with six fields the first is the second
  zone = \"UTC\"                       the time zone in which that is meant, like \"Europe/Berlin\"
  workflow = \"review\"                the workflow that it is for
  context = { repo = \"a/b\" }         what that is given
  enabled = true                     whether it fires
  catch_up = \"latest\"                of times that passed while nobody ticked: \"latest\", the last one is fired;
                                     \"all\", each is, at most 100; \"none\" that is over 5 minutes late
  description = \"…\"

  [workflows.NAME]                   what may be started
  enabled = true
  description = \"…\"

  Where clocks are put forward or back: a time of named hours that is left out fires right after the gap, one that
  comes twice fires the first time. Where the hours begin with * it goes with the clock as that goes.

  Sizes are numbers of bytes, or text with B, KiB, MiB, GiB or TiB.

Environment, which goes before the file, as flags go before it:
  DUOLOG_LINE_BYTES_MAX  DUOLOG_BATCH_BYTES_MAX   DUOLOG_BUSY_TIMEOUT_MS         DUOLOG_OPEN_LOGS_MAX
  DUOLOG_DURABILITY      DUOLOG_FOLD_BATCH_BYTES  DUOLOG_FOLD_BEFORE_READ_BYTES  DUOLOG_STORE
  DUOLOG_CHATS_IDLE
  DUOLOG_USER_EMAIL
  DUOLOG_RUNS_MAX_RUNNING  DUOLOG_RUNS_QUEUE_WAIT  DUOLOG_RUNS_LEASE  DUOLOG_RUNS_RESTART_CAP

A password is never shown. PGPASSWORD is taken where the address has none; a file with a password
should be for its owner alone (chmod 600).

JSON:
  {\"path\": path, \"exists\": true|false,
   \"settings\": [{\"key\", \"value\", \"source\", \"line\", \"variable\"}],
   \"prices\": [{\"model\", \"usd_per_million_tokens\": {\"input\", \"output\", \"cache_read\",
               \"cache_write_5m\", \"cache_write_1h\"}, \"line\"}],
   \"schedules\": [{\"name\", \"cron\", \"zone\", \"workflow_name\", \"context\", \"enabled\", \"catch_up\",
                  \"description\", \"line\"}],
   \"workflows\": [{\"name\", \"enabled\", \"description\", \"line\"}]}
  source is \"default\", \"file\", \"environment\" or \"flag\"
  line is that of the file, null where the value is not from it
  prices are those that the file sets; all others are built in";

/// Show what is in force, and where each value came from
#[derive(Args)]
#[command(after_help = AFTER)]
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
        let is_there = if exists { "" } else { " (not there: nothing but defaults and environment)" };
        context.out.note(format_args!("file: {}{is_there}", file.display()));
        for warning in context.config()?.warnings() {
            context.out.warn(warning);
        }
        Ok(Ended::Done)
    }
}

/// Dollars per million tokens: a picodollar per token is a micro-dollar of them.
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

//! `duolog config show`, and the reference of all keys.

use std::path::Path;

use clap::Args;
use duolog::config::{Key, PriceSetting, Setting, Source, Value, WorkflowSetting};
use duolog::schedules::BaseSchedule;
use duolog::{Config, Money, Rates};
use serde::Serialize;
use serde_json::value::RawValue;

use super::super::schedules::JsonText;
use super::Context;
use crate::failure::{Ended, Outcome};
use crate::out::{Column, Table, Tone};

const AFTER: &str = "\
Examples:
  duolog config show
  DUOLOG_DURABILITY=power duolog config show --json | jq '.settings[] | select(.from != \"default\")'

Keys of config/duolog.toml in the home, all of them optional, with their defaults:
  [limits]
  line_bytes_max = \"64 MiB\"          one line, 1 KiB to 1 GiB; a longer one is refused, and counts as damaged
                                     where it is in a log already
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
  at_once_max = 4                    runs that run at once, 1 to 100000; what is started beyond waits
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
  DUOLOG_RUNS_AT_ONCE_MAX  DUOLOG_RUNS_QUEUE_WAIT  DUOLOG_RUNS_LEASE  DUOLOG_RUNS_RESTART_CAP

A password is never shown. PGPASSWORD is taken where the address has none; a file with a password
should be for its owner alone (chmod 600).

JSON:
  {\"file\": path, \"exists\": true|false,
   \"settings\": [{\"key\", \"value\", \"from\", \"line\", \"variable\"}],
   \"prices\": [{\"model\", \"input\", \"output\", \"cache_read\", \"cache_write_5m\", \"cache_write_1h\", \"line\"}],
   \"schedules\": [{\"name\", \"cron\", \"zone\", \"workflow\", \"context\", \"enabled\", \"catch_up\", \"description\",
                  \"line\"}],
   \"workflows\": [{\"name\", \"enabled\", \"description\", \"line\"}]}
  from is \"default\", \"file\", \"environment\" or \"flag\"
  line is that of the file, null where the value is not from it
  prices are those that the file sets; all others are built in";

/// Show what is in force, and where each value came from
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Show {}

#[derive(Serialize)]
struct Answer<'a> {
    file: &'a Path,
    exists: bool,
    settings: Vec<Shape>,
    prices: Vec<Priced<'a>>,
    schedules: Vec<Scheduled<'a>>,
    workflows: Vec<Workflow<'a>>,
}

#[derive(Serialize)]
struct Scheduled<'a> {
    name: &'a str,
    cron: &'a str,
    zone: &'a str,
    workflow: Option<&'a str>,
    context: Option<JsonText<'a>>,
    enabled: bool,
    catch_up: &'static str,
    description: Option<&'a str>,
    line: usize,
}

#[derive(Serialize)]
struct Workflow<'a> {
    name: &'a str,
    enabled: bool,
    description: Option<&'a str>,
    line: usize,
}

#[derive(Serialize)]
struct Priced<'a> {
    model: &'a str,
    input: Option<Box<RawValue>>,
    output: Option<Box<RawValue>>,
    cache_read: Option<Box<RawValue>>,
    cache_write_5m: Option<Box<RawValue>>,
    cache_write_1h: Option<Box<RawValue>>,
    line: usize,
}

#[derive(Serialize)]
struct Shape {
    key: String,
    value: serde_json::Value,
    from: &'static str,
    line: Option<usize>,
    variable: &'static str,
}

impl Show {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        let Self {} = self;
        let (home, config) = context.settled()?;
        let settings: Vec<Setting> = config.settings().collect();
        let file = Config::path(home);
        let exists = file.is_file();
        let config = config.clone();
        let prices = config.price_settings();
        let answer = Answer {
            file: &file,
            exists,
            settings: settings.iter().map(shape).collect(),
            prices: prices.iter().map(priced).collect(),
            schedules: config.schedules().iter().map(scheduled).collect(),
            workflows: config.workflows().iter().map(workflow).collect(),
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

fn shape(setting: &Setting) -> Shape {
    let Setting { key, value, source } = setting;
    let line = if let Source::File { line } = source { Some(*line) } else { None };
    let value = match value {
        Value::Size(number) | Value::Number(number) => (*number).into(),
        Value::Durability(durability) => durability.as_str().into(),
        Value::Time(_) | Value::Address(_) | Value::Name(_) => value.to_string().into(),
    };
    Shape { key: key.to_string(), value, from: source.as_str(), line, variable: key.variable() }
}

/// Dollars per million tokens: a picodollar per token is a micro-dollar of them.
fn dollars(rate: u64) -> Money {
    Money::from_picos(u128::from(rate) * 1_000_000)
}

fn priced(set: &PriceSetting) -> Priced<'_> {
    let number = |rate| RawValue::from_string(dollars(rate).to_string()).ok();
    let Rates { input, output, cache_read, cache_write_5m, cache_write_1h } = set.price.rates;
    Priced {
        model: &set.model,
        input: number(input),
        output: number(output),
        cache_read: number(cache_read),
        cache_write_5m: number(cache_write_5m),
        cache_write_1h: number(cache_write_1h),
        line: set.line,
    }
}

fn scheduled(schedule: &BaseSchedule) -> Scheduled<'_> {
    Scheduled {
        name: &schedule.name,
        cron: &schedule.cron,
        zone: &schedule.zone,
        workflow: schedule.workflow.as_deref(),
        context: schedule.context.as_deref().map(JsonText),
        enabled: schedule.enabled,
        catch_up: schedule.catch_up.as_str(),
        description: schedule.description.as_deref(),
        line: schedule.line,
    }
}

fn workflow(set: &WorkflowSetting) -> Workflow<'_> {
    Workflow { name: &set.name, enabled: set.enabled, description: set.description.as_deref(), line: set.line }
}

fn table(settings: &[Setting], config: &Config) -> Table {
    let mut table = Table::new(&[(Column::Word, "KEY"), (Column::Figure, "VALUE"), (Column::Text, "FROM")]);
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

//! `duolog schedules set`.

use clap::{ArgGroup, Args, ValueEnum};
use duolog::schedules::ScheduleChange;

use super::super::sessions::actor;
use super::{Context, show};
use crate::failure::{CommandResult, Ended};

const AFTER: &str = "\
Examples:
  duolog schedules set nightly --disable
  duolog schedules set nightly --enable --cron '30 4 * * *' --zone Europe/Berlin
  duolog schedules set nightly --unset cron --unset zone

JSON:
  {\"schedule\": {… as schedules show …}}";

/// Override a schedule without touching the configuration
///
/// Keys that are not given stay as they are. --unset resets one key to the configuration's value; schedules clear
/// removes the whole override. The override applies to every home on the same state.
///
/// If the change affects when the schedule fires, due times that have not fired are recorded as skipped; schedules runs
/// lists them.
#[derive(Args)]
#[command(after_help = AFTER)]
#[command(group = ArgGroup::new("said").required(true).multiple(true))]
pub struct Set {
    /// Schedule name
    #[arg(value_name = "NAME")]
    name: String,
    /// Enable the schedule
    #[arg(long, group = "said", conflicts_with = "disable")]
    enable: bool,
    /// Disable the schedule
    #[arg(long, group = "said")]
    disable: bool,
    /// Cron expression: minute hour day month weekday, or @daily
    #[arg(long, value_name = "CRON", group = "said")]
    cron: Option<String>,
    /// Time zone of the cron expression, such as Europe/Berlin
    #[arg(long, value_name = "ZONE", group = "said")]
    zone: Option<String>,
    /// Key to reset to the configuration's value; may be given more than once
    #[arg(long, value_name = "KEY", group = "said")]
    unset: Vec<Key>,
    /// Actor to record [default: $USER]
    #[arg(long = "by", value_name = "NAME")]
    actor: Option<String>,
}

/// A key that an override can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Key {
    Enabled,
    Cron,
    Zone,
}

impl Set {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let is_unset = |key| self.unset.contains(&key);
        let enabled = match (self.enable, self.disable) {
            (true, _) => Some(Some(true)),
            (_, true) => Some(Some(false)),
            _ => is_unset(Key::Enabled).then_some(None),
        };
        let change = ScheduleChange {
            enabled,
            cron: self.cron.clone().map(Some).or_else(|| is_unset(Key::Cron).then_some(None)),
            zone: self.zone.clone().map(Some).or_else(|| is_unset(Key::Zone).then_some(None)),
        };
        let durability = context.config()?.durability();
        let store = context.open_to_write()?;
        let schedule = store.schedules().by(actor(self.actor)).set(&self.name, &change, durability)?;
        show::answer(context, &schedule)?;
        context.close(store);
        Ok(Ended::Done)
    }
}

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
/// What is not mentioned stays as it was; --unset uses the configuration's value; schedules clear removes the override.
/// Every home on the same state has it so. If the change affects when the schedule fires, times that were due before and
/// were not fired are recorded as skipped; schedules runs lists them.
#[derive(Args)]
#[command(after_help = AFTER)]
#[command(group = ArgGroup::new("said").required(true).multiple(true))]
pub struct Set {
    /// Which
    #[arg(value_name = "NAME")]
    name: String,
    /// It fires
    #[arg(long, group = "said", conflicts_with = "disable")]
    enable: bool,
    /// It does not fire
    #[arg(long, group = "said")]
    disable: bool,
    /// When it fires: minute hour day month weekday, or @daily
    #[arg(long, value_name = "CRON", group = "said")]
    cron: Option<String>,
    /// The time zone in which that is meant, like Europe/Berlin
    #[arg(long, value_name = "ZONE", group = "said")]
    zone: Option<String>,
    /// As the configuration has it; may be given more than once
    #[arg(long, value_name = "KEY", group = "said")]
    unset: Vec<Key>,
    /// Who says so; the user where it is not given
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
}

/// What can be said over a schedule.
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

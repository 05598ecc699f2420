//! `duolog schedules clear`.

use clap::Args;
use duolog_wire::ScheduleCleared;

use super::Context;
use crate::failure::{CommandResult, Ended};

const AFTER: &str = "\
Examples:
  duolog schedules clear nightly

Exit code: 0 removed · 6 the schedule has no override

JSON:
  {\"schedule_name\", \"changed\": true|false}";

/// Remove the override of a schedule
///
/// The schedule then uses the values of the configuration.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Clear {
    /// Schedule name
    #[arg(value_name = "NAME")]
    name: String,
}

impl Clear {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let durability = context.config()?.durability();
        let store = context.open_to_write()?;
        let cleared = store.schedules().clear(&self.name, durability)?;
        context.out.confirm(&ScheduleCleared { schedule_name: self.name.clone(), changed: cleared }, |text| {
            let name = &self.name;
            text.line(if cleared {
                format!("the override of schedule \"{name}\" is removed")
            } else {
                format!("schedule \"{name}\" has no override")
            });
        })?;
        context.close(store);
        Ok(if cleared { Ended::Done } else { Ended::AlreadyDone })
    }
}

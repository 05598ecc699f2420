//! `duolog schedules clear`.

use clap::Args;
use duolog_wire::ScheduleCleared;

use super::Context;
use crate::failure::{CommandResult, Ended};

const AFTER: &str = "\
Examples:
  duolog schedules clear nightly

Exit code: 0 taken back · 6 nothing was said over it

JSON:
  {\"schedule_name\", \"changed\": true|false}";

/// Take back all that was said over a schedule: it is as the configuration has it again
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Clear {
    /// Which
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
                format!("{name} is as the configuration has it")
            } else {
                format!("nothing was said over {name}")
            });
        })?;
        context.close(store);
        Ok(if cleared { Ended::Done } else { Ended::AlreadyDone })
    }
}

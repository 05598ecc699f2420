//! `duolog schedules`, and the shapes that its commands share.

mod clear;
mod list;
mod runs;
mod set;
mod show;
mod tick;

use clap::Subcommand;
use duolog::CronOutcome;
use duolog::schedules::Standing;

use super::Context;
use crate::failure::Outcome;
use crate::out::Tone;

/// What to do with schedules.
#[derive(Subcommand)]
pub enum Schedules {
    List(list::List),
    Show(show::Show),
    Set(set::Set),
    Clear(clear::Clear),
    Runs(runs::Runs),
    Tick(tick::Tick),
}

impl Schedules {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        match self {
            Self::List(command) => command.run(context),
            Self::Show(command) => command.run(context),
            Self::Set(command) => command.run(context),
            Self::Clear(command) => command.run(context),
            Self::Runs(command) => command.run(context),
            Self::Tick(command) => command.run(context),
        }
    }
}

fn tone(standing: Standing) -> Tone {
    match standing {
        Standing::Ended(CronOutcome::Ok) => Tone::Good,
        Standing::Ended(CronOutcome::Nothing) => Tone::Faint,
        Standing::Ended(CronOutcome::Skipped) | Standing::Running => Tone::Worth,
        Standing::Ended(CronOutcome::Failed) | Standing::Lost => Tone::Bad,
    }
}

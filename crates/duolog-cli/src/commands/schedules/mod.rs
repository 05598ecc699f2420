//! `duolog schedules`, and the shapes that its commands share.

mod clear;
mod list;
mod runs;
mod set;
mod show;
mod tick;

use duolog::CronOutcome;
use duolog::schedules::Standing;

use super::Context;
use crate::out::Tone;

commands! {
/// What to do with schedules.
Schedules {
    List(list::List),
    Show(show::Show),
    Set(set::Set),
    Clear(clear::Clear),
    Runs(runs::Runs),
    Tick(tick::Tick),
}}

fn tone(standing: Standing) -> Tone {
    match standing {
        Standing::Ended(CronOutcome::Ok) => Tone::Good,
        Standing::Ended(CronOutcome::Nothing) => Tone::Faint,
        Standing::Ended(CronOutcome::Skipped) | Standing::Running => Tone::Worth,
        Standing::Ended(CronOutcome::Failed) | Standing::Lost => Tone::Bad,
    }
}

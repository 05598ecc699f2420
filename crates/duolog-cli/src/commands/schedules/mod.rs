//! `duolog schedules`, and the helpers that its commands share.

mod clear;
mod list;
mod runs;
mod set;
mod show;
mod tick;

use duolog::CronOutcome;
use duolog::schedules::FiringStatus;

use super::Context;
use crate::out::Tone;

commands! {
/// Subcommands of `duolog schedules`.
Schedules {
    List(list::List),
    Show(show::Show),
    Set(set::Set),
    Clear(clear::Clear),
    Runs(runs::Runs),
    Tick(tick::Tick),
}}

fn tone(standing: FiringStatus) -> Tone {
    match standing {
        FiringStatus::Ended(CronOutcome::Ok) => Tone::Good,
        FiringStatus::Ended(CronOutcome::Nothing) => Tone::Faint,
        FiringStatus::Ended(CronOutcome::Skipped) | FiringStatus::Running => Tone::Worth,
        FiringStatus::Ended(CronOutcome::Failed) | FiringStatus::Lost => Tone::Bad,
    }
}

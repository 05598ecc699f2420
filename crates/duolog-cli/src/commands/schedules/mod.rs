//! `duolog schedules`, and the shapes that its commands share.

mod clear;
mod list;
mod runs;
mod set;
mod show;
mod tick;

use clap::Subcommand;
use duolog::CronOutcome;
use duolog::schedules::{CronRun, Standing};
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

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

/// A firing, as programs get it.
#[derive(Serialize)]
struct RunShape {
    id: String,
    name: String,
    workflow: Option<String>,
    due_at: String,
    started_at: String,
    finished_at: Option<String>,
    standing: &'static str,
    error: Option<String>,
    detail: Option<String>,
    workflow_run_id: Option<String>,
    home_id: String,
    actor: Option<String>,
}

impl From<&CronRun> for RunShape {
    fn from(run: &CronRun) -> Self {
        Self {
            id: run.id.to_string(),
            name: run.name.clone(),
            workflow: run.workflow.clone(),
            due_at: run.due_at.to_string(),
            started_at: run.started_at.to_string(),
            finished_at: run.finished_at.map(|at| at.to_string()),
            standing: run.standing.as_str(),
            error: run.error.clone(),
            detail: run.detail.clone(),
            workflow_run_id: run.workflow_run_id.clone(),
            home_id: run.home_id.to_string(),
            actor: run.actor.clone(),
        }
    }
}

/// A JSON text that is written as the value that it is. A text that is not JSON fails the answer: it is never left out.
pub(super) struct JsonText<'a>(pub(super) &'a str);

impl Serialize for JsonText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::from_str::<&RawValue>(self.0).map_err(S::Error::custom)?.serialize(serializer)
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

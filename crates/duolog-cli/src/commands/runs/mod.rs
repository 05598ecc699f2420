//! `duolog runs`, and the arguments and output that its commands share.

mod acknowledge;
mod admit;
mod cancel;
mod claim;
mod errors;
mod exec;
mod execution;
mod expire;
mod fail;
mod finish;
mod gate;
mod history;
mod list;
mod next;
mod nodes;
mod output;
mod pause;
mod phase;
mod phases;
mod recover;
mod release;
mod renew;
mod requeue;
mod resume;
mod retry;
mod scratch;
mod show;
mod start;
mod stats;
mod used;
mod wait;

use std::io::{Read as _, stdin};
use std::path::Path;

use clap::Args;
use duolog::errors::Invalid;
use duolog::runs::{Attribution, Fence, RunHandle, RunSummary, StatusChange};
use duolog::{Error, RunId, RunStatus, Store};
use duolog_wire as wire;

pub use exec::ExecGuard;

use super::Context;
use super::sessions::actor;
use crate::args::{self, RUN_VARIABLE};
use crate::failure::{CommandResult, Ended, Failure};
use crate::figures;
use crate::out::Tone;

commands! {
/// Subcommands of `duolog runs`.
Runs {
    List(list::List),
    Show(show::Show),
    History(history::History),
    Start(start::Start),
    Exec(Box<exec::Exec>),
    Claim(claim::Claim),
    Renew(renew::Renew),
    Release(release::Release),
    /// Record the phases of a run
    #[command(subcommand)]
    Phase(phase::Phase),
    /// Record executions that belong to no run, such as chat turns
    #[command(subcommand)]
    Execution(execution::Execution),
    Scratch(scratch::Scratch),
    Nodes(nodes::Nodes),
    Output(output::Output),
    Gate(gate::Gate),
    Acknowledge(acknowledge::Acknowledge),
    Pause(pause::Pause),
    Resume(resume::Resume),
    Finish(finish::Finish),
    Fail(fail::Fail),
    Cancel(cancel::Cancel),
    Retry(retry::Retry),
    Requeue(requeue::Requeue),
    Admit(admit::Admit),
    Recover(recover::Recover),
    Expire(expire::Expire),
    Wait(wait::Wait),
    Stats(stats::Stats),
    Errors(errors::Errors),
}}

/// The variable with the fence that `duolog runs exec` sets for its command.
const FENCE_VARIABLE: &str = "DUOLOG_FENCE";

/// The run that a command changes.
#[derive(Args)]
struct Changed {
    /// Run id or a unique prefix
    #[arg(value_name = "RUN")]
    run: String,
}

impl Changed {
    fn open(&self, store: &Store) -> Result<RunHandle, Failure> {
        Ok(store.runs().open(&store.runs().resolve(&self.run)?))
    }
}

/// The run that its owner changes, and the owner's claim.
#[derive(Args)]
struct Owned {
    /// Run id or a unique prefix
    #[arg(value_name = "RUN", env = RUN_VARIABLE, hide_env_values = true)]
    run: Option<String>,
    #[command(flatten)]
    claim: UnderClaim,
}

/// The run that its owner changes, a name that belongs to it, and the owner's claim.
///
/// Both names are optional for the parser, so that flags may stand between them. One name alone is the second one; the
/// run then comes from the environment. Commands set the value name and the help of `name` with `mut_arg`.
#[derive(Args)]
struct OwnedNamed {
    /// Run id or a unique prefix [env: DUOLOG_RUN_ID]
    #[arg(id = args::FIRST_NAME, value_name = "RUN")]
    first: Option<String>,
    #[arg(id = args::SECOND_NAME)]
    second: Option<String>,
    #[command(flatten)]
    claim: UnderClaim,
}

impl OwnedNamed {
    /// Returns the run with its claim, and the second name; `noun` is what that names.
    fn split(self, noun: &'static str) -> Result<(Owned, String), Failure> {
        let Self { first, second, claim } = self;
        let (run, name) = match (first, second) {
            (run, Some(name)) => (run, name),
            (Some(name), None) => (args::run_of_environment()?, name),
            (None, None) => {
                let names = noun.to_uppercase();
                return Err(Failure::Given {
                    message: format!("no {noun} is given"),
                    hint: Some(format!("give RUN and {names}, or only {names} if {RUN_VARIABLE} is set")),
                });
            }
        };
        if run.is_none() {
            return Err(Failure::Given {
                message: format!("no run is given, only the {noun} {name:?}"),
                hint: Some(format!("give RUN before {}, or set {RUN_VARIABLE}", noun.to_uppercase())),
            });
        }
        Ok((Owned { run, claim }, name))
    }
}

/// The claim of the owner of a run.
#[derive(Args)]
struct UnderClaim {
    /// Fence of the claim; not needed if the run is unclaimed [env: DUOLOG_FENCE, if RUN is DUOLOG_RUN_ID]
    #[arg(long, value_name = "N", value_parser = fence)]
    fence: Option<Fence>,
}

impl Owned {
    /// Returns the id of the run.
    fn id(&self, store: &Store) -> Result<RunId, Failure> {
        let Some(text) = self.run.as_ref().filter(|text| !text.is_empty()) else {
            return Err(Failure::Given {
                message: "no run is given".to_owned(),
                hint: Some(format!("give a run id, or set {RUN_VARIABLE}")),
            });
        };
        Ok(store.runs().resolve(text)?)
    }

    fn open(&self, store: &Store) -> Result<RunHandle, Failure> {
        self.claim.on(store.runs().open(&self.id(store)?))
    }
}

impl UnderClaim {
    /// Returns the fence of the flag, or that of the environment if it is for the same run.
    fn fence(&self, run: &RunId) -> Result<Option<Fence>, Failure> {
        let variable = |name| std::env::var(name).ok();
        if self.fence.is_some() || variable(RUN_VARIABLE).as_deref() != Some(run.as_str()) {
            return Ok(self.fence);
        }
        let parse = |text: String| {
            fence(&text)
                .map_err(|why| Failure::Given { message: format!("cannot read {FENCE_VARIABLE}: {why}"), hint: None })
        };
        variable(FENCE_VARIABLE).map(parse).transpose()
    }

    fn on(&self, run: RunHandle) -> Result<RunHandle, Failure> {
        Ok(match self.fence(run.id())? {
            Some(fence) => run.under(fence),
            None => run,
        })
    }
}

/// The actor and the reason of a change.
#[derive(Args)]
struct Doing {
    /// Reason to record
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Actor to record [default: $USER]
    #[arg(long = "by", value_name = "NAME")]
    actor: Option<String>,
}

impl Doing {
    fn act(self) -> Attribution {
        Attribution { actor: actor(self.actor), reason: self.reason }
    }
}

/// Parses a fence.
fn fence(text: &str) -> Result<Fence, String> {
    text.parse().map_err(|_| "expected a number, as printed by duolog runs claim".to_owned())
}

/// Returns the text of an argument, or all of stdin if the argument is `-`.
pub(super) fn text_or_stdin(context: &Context<'_>, text: String) -> Result<String, Failure> {
    if text != "-" {
        return Ok(text);
    }
    let bytes_max = context.config()?.limits().batch_bytes_max;
    context.out.invite("reading the text from stdin; Ctrl-D ends it");
    let mut input = String::new();
    let read = stdin().lock().take(bytes_max as u64 + 1).read_to_string(&mut input);
    read.map_err(Failure::file("read", Path::new("stdin")))?;
    if input.len() > bytes_max {
        let message = format!(
            "cannot read stdin: the input is larger than the batch limit of {}",
            figures::size(bytes_max as u64)
        );
        return Err(Failure::Given { message, hint: None });
    }
    context.has_read(&input);
    Ok(input)
}

/// Adds the name of the argument to an error in its JSON.
fn in_argument(argument: &'static str) -> impl FnOnce(Error) -> Failure {
    move |error| match error {
        Error::Invalid(Invalid::Item { .. }) => Failure::Given {
            message: format!("cannot read {argument}: {error}"),
            hint: Some("quote the JSON for the shell; NaN and Infinity are not JSON".to_owned()),
        },
        other => other.into(),
    }
}

/// The note for a resumed run that finds no free slot.
pub(super) const NO_SLOT: &str = "no slot is free: the run is queued before all runs that have not started";

/// Prints the status of a run after a command, and notes if it did not change.
fn answer_turned(context: &mut Context<'_>, turned: &StatusChange) -> CommandResult {
    let StatusChange { previous, changed, run } = turned;
    let waits = *changed && run.status == RunStatus::Queued && *previous == RunStatus::Paused;
    context.out.confirm(&wire::RunTransition::from(turned), |text| {
        let (id, status) = (&run.id, text.tone(tone(run.status), run.status.as_str()));
        let was = if *changed { format!(" (was {previous})") } else { " already".to_owned() };
        text.line(format_args!("run {id} is {status}{was}"));
    })?;
    if waits {
        context.out.note(NO_SLOT);
    }
    Ok(if *changed { Ended::Done } else { Ended::AlreadyDone })
}

/// Confirms a write that does not change the status of a run.
fn answer_run(context: &mut Context<'_>, run: &RunSummary, note: &str) -> CommandResult {
    context
        .out
        .confirm(&wire::RunAnswer { run: run.into() }, |text| text.line(format_args!("run {}: {note}", run.id)))?;
    Ok(Ended::Done)
}

/// Formats the repository and issue of a run as `owner/repo#12`.
fn repository(owner: Option<&str>, repo: Option<&str>, issue: Option<u64>) -> String {
    let owner = owner.map(|owner| format!("{owner}/")).unwrap_or_default();
    let issue = issue.map(|issue| format!("#{issue}")).unwrap_or_default();
    repo.map_or_else(|| issue.clone(), |repo| format!("{owner}{repo}{issue}"))
}

pub(super) fn tone(status: RunStatus) -> Tone {
    match status {
        RunStatus::Running => Tone::Good,
        RunStatus::Paused | RunStatus::Queued | RunStatus::Cancelled => Tone::Worth,
        RunStatus::Succeeded => Tone::Faint,
        RunStatus::Failed => Tone::Bad,
    }
}

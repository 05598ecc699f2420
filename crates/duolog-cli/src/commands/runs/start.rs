//! `duolog runs start`.

use clap::Args;
use duolog::runs::{Admission, NewRun};
use duolog::{RunId, RunStatus, TriggerType};
use duolog_wire as wire;

use super::{Context, actor, in_argument, text_or_stdin};
use crate::args;
use crate::commands::sessions::named;
use crate::failure::{CommandResult, Ended};

const AFTER: &str = "\
Examples:
  run=$(duolog runs start build --trigger acme/web#42 --repo acme/web --issue 42)
  read run fence <<< \"$(duolog runs start build --trigger nightly --claim \"$HOSTNAME\")\"
  duolog runs start build --trigger nightly --queue --context '{\"branch\":\"main\"}'

Exit code: 3 where --claim gives no fence: the run exists, or is queued

JSON:
  {\"run\": {… as runs list …}, \"existed\": true|false, \"fence\": 1|null}
  existed: a run of the same --id, or an active run of the same workflow and trigger, was there";

/// Start a run of a workflow, and print its id; and the fence, where it was claimed
///
/// While a run of the same workflow and trigger is active, that one is found instead of starting another. The run starts
/// if a slot is free beside those that queued runs wait for; otherwise it is queued. Its log tells what becomes of it.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Start {
    /// What it is a run of
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    /// What sets it off
    #[arg(long, value_name = "ID")]
    trigger: String,
    /// What kind of thing that is
    #[arg(long, value_name = "KIND", default_value = "cli")]
    #[arg(value_parser = args::word(TriggerType::ALL, TriggerType::as_str))]
    trigger_type: TriggerType,
    /// Who sets it off; the user where it is not given
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// The repository that it works on
    #[arg(long, value_name = "OWNER/REPO")]
    repo: Option<String>,
    /// The issue that it works on
    #[arg(long, value_name = "N")]
    issue: Option<u64>,
    /// What set it off, for its phases to read; - reads it from stdin. It never changes
    #[arg(long, value_name = "JSON")]
    context: Option<String>,
    /// The session whose log is to tell of it; one of its own where it is not given
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// The phase that it begins with
    #[arg(long, value_name = "PHASE")]
    phase: Option<String>,
    /// Have it wait until somebody admits it
    #[arg(long)]
    queue: bool,
    /// Claim it in the same step, if it begins at once
    #[arg(long, value_name = "OWNER")]
    claim: Option<String>,
    /// How often it may be taken over from an owner that died
    #[arg(long, value_name = "N")]
    restart_cap: Option<u32>,
    /// Run id; the same id with other content is refused
    #[arg(long, value_name = "ID")]
    id: Option<RunId>,
}

impl Start {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        // What is read from stdin belongs to the request: before the store is opened.
        let given = self.context.map(|text| text_or_stdin(context, text)).transpose()?;
        let store = context.open_to_write()?;
        let new = NewRun {
            id: self.id,
            workflow_name: self.workflow,
            trigger_type: self.trigger_type,
            trigger_id: self.trigger,
            owner: None,
            repo: self.repo,
            issue_number: self.issue,
            triggered_by: actor(self.by),
            context: given,
            session_id: self.session.map(|text| named(&store, &text)).transpose()?,
            phase: self.phase,
            admission: if self.queue { Admission::Queue } else { Admission::IfFree },
            claimed_by: self.claim.clone(),
            restart_cap: self.restart_cap,
        };
        let started = store.runs().start(&new).map_err(in_argument("--context"))?;
        let run = &started.run;
        let is_same_id = new.id.as_ref() == Some(&run.id);
        context.out.answer(&wire::RunStarted::from(&started), |text| match started.fence {
            Some(fence) => text.line(format_args!("{} {fence}", run.id)),
            None => text.line(&run.id),
        })?;
        let mut ended = Ended::Done;
        if self.claim.is_some() && started.fence.is_none() {
            let (id, status) = (&run.id, run.status);
            context.out.note(match status {
                RunStatus::Running => format!("run {id} exists: duolog runs claim {id} --owner NAME"),
                RunStatus::Queued => format!("run {id} is queued: duolog runs exec --next takes it in its turn"),
                _ => format!("run {id} is {status}: duolog runs show {id}"),
            });
            ended = Ended::Busy;
        } else if started.existed {
            let same = if is_same_id { "a run with this id" } else { "an active run of the same workflow and trigger" };
            context.out.note(format_args!("nothing changed: {same} exists, and is {}", run.status));
        } else if run.status == RunStatus::Queued {
            context.out.note("it is queued: duolog runs admit lets queued runs begin");
        } else if started.fence.is_none() {
            context.out.note(format_args!("it runs, for whoever claims it: duolog runs claim {} --owner NAME", run.id));
        }
        context.close(store);
        Ok(ended)
    }
}

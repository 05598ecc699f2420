//! `duolog runs start`.

use clap::Args;
use duolog::runs::{Admission, NewRun};
use duolog::sessions::SessionRef;
use duolog::{RunId, RunStatus, TriggerType};
use duolog_wire as wire;

use super::{Context, actor, in_argument, text_or_stdin};
use crate::args;
use crate::failure::{CommandResult, Ended};

const AFTER: &str = "\
Examples:
  run=$(duolog runs start build --trigger acme/web#42 --repo acme/web --issue 42)
  read run fence <<< \"$(duolog runs start build --trigger nightly --owner \"$HOSTNAME\")\"
  duolog runs start build --trigger nightly --queue --context '{\"branch\":\"main\"}'

Exit code: 3 if --owner gets no fence: the run exists or is queued

JSON:
  {\"run\": {… as runs list …}, \"existed\": true|false, \"fence\": 1|null}
  existed: true if a run with this --id, or an active run of the same workflow and trigger, exists";

/// Start a run of a workflow and print its id
///
/// The run starts if fewer than runs.max_running are running; otherwise it is queued. Runs that are already queued come
/// first. If an active run of the same workflow and trigger exists, its id is printed and no run is started.
///
/// With --owner the fence is printed after the id. The status changes of the run are written to the log of its session.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Start {
    /// Workflow name
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    /// Trigger id; one active run per workflow and trigger
    #[arg(long, value_name = "ID")]
    trigger: String,
    /// Trigger type
    #[arg(long, value_name = "KIND", default_value = "cli")]
    #[arg(value_parser = args::word(TriggerType::ALL, TriggerType::as_str))]
    trigger_type: TriggerType,
    /// Actor to record [default: $USER]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Repository of the run
    #[arg(long, value_name = "OWNER/REPO")]
    repo: Option<String>,
    /// Issue number
    #[arg(long, value_name = "N")]
    issue: Option<u64>,
    /// Read-only context for the phases; - reads it from stdin
    #[arg(long, value_name = "JSON")]
    context: Option<String>,
    /// Session that logs the run [default: a new session]
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// First phase
    #[arg(long, value_name = "PHASE")]
    phase: Option<String>,
    /// Queue the run even if a slot is free
    #[arg(long)]
    queue: bool,
    /// Owner that claims the run if it starts
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    /// Maximum number of takeovers from dead owners [default: runs.restart_cap]
    #[arg(long, value_name = "N")]
    restart_cap: Option<u32>,
    /// Run id; the same id with different content is refused
    #[arg(long, value_name = "ID")]
    id: Option<RunId>,
}

impl Start {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        // Stdin is part of the request, so it is read before the store is opened.
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
            session_id: match self.session {
                Some(text) => Some(store.sessions().resolve(&SessionRef::Text(text))?.id),
                None => None,
            },
            phase: self.phase,
            admission: if self.queue { Admission::Queue } else { Admission::IfFree },
            claimed_by: self.owner.clone(),
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
        if self.owner.is_some() && started.fence.is_none() {
            let (id, status) = (&run.id, run.status);
            context.out.note(match status {
                RunStatus::Running => format!("run {id} already exists: duolog runs claim {id} --owner NAME"),
                RunStatus::Queued => format!("run {id} is queued: duolog runs exec --next runs it when a slot is free"),
                _ => format!("run {id} is {status}: duolog runs show {id}"),
            });
            ended = Ended::Busy;
        } else if started.existed {
            let same = if is_same_id { "a run with this id" } else { "an active run of the same workflow and trigger" };
            context.out.note(format_args!("nothing changed: {same} exists and is {}", run.status));
        } else if run.status == RunStatus::Queued {
            context.out.note("the run is queued: duolog runs admit starts queued runs");
        } else if started.fence.is_none() {
            context.out.note(format_args!("ready to claim: duolog runs claim {} --owner NAME", run.id));
        }
        context.close(store);
        Ok(ended)
    }
}

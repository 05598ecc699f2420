//! `duolog runs execution begin`.

use clap::Args;
use duolog::runs::NewExecution;
use duolog::{ExecutionId, TriggerType};
use duolog_wire::ExecutionAnswer;

use super::super::{Context, actor};
use crate::args;
use crate::commands::sessions::of_agent;
use crate::failure::{CommandResult, Ended};

const AFTER: &str = "\
Examples:
  turn=$(duolog runs execution begin chat --trigger \"$thread\" --trigger-type chat --session \"$session\")
  duolog runs execution begin triage:label --trigger acme/web#42 --repo acme/web --issue 42

JSON:
  {\"execution\": {… as runs phase end …}}";

/// Begin an execution outside of runs and print its id
///
/// duolog runs stats counts it together with the phases of runs.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Begin {
    /// Skill: chat, or WORKFLOW:PHASE
    #[arg(value_name = "SKILL")]
    skill: String,
    /// Trigger id, such as a thread
    #[arg(long, value_name = "ID")]
    trigger: String,
    /// Trigger type
    #[arg(long, value_name = "KIND", default_value = "chat")]
    #[arg(value_parser = args::word(TriggerType::ALL, TriggerType::as_str))]
    trigger_type: TriggerType,
    /// Session of the agent, if known: an id, a unique prefix or a thread name
    ///
    /// The id of a session of another program, such as Claude Code, is stored as given: the session need not exist here.
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Repository of the execution
    #[arg(long, value_name = "OWNER/REPO")]
    repo: Option<String>,
    /// Issue number
    #[arg(long, value_name = "N")]
    issue: Option<u64>,
    /// Actor to record [default: $USER]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Execution id; the same id with different content is refused
    #[arg(long, value_name = "ID")]
    id: Option<ExecutionId>,
}

impl Begin {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_write()?;
        let new = NewExecution {
            id: self.id,
            trigger_type: self.trigger_type,
            trigger_id: self.trigger,
            skill: self.skill,
            session_id: self.session.map(|text| of_agent(context, &store, &text)).transpose()?,
            owner: None,
            repo: self.repo,
            issue_number: self.issue,
            triggered_by: actor(self.by),
        };
        let execution = store.runs().executions().start(&new)?;
        context.out.answer(&ExecutionAnswer::from(&execution), |text| text.line(&execution.id))?;
        context.close(store);
        Ok(Ended::Done)
    }
}

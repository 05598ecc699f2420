//! `duolog sessions new`.

use std::path::PathBuf;

use clap::Args;
use duolog::sessions::NewSession;
use duolog::{Durability, SessionId, SessionStatus};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{Context, Operation, Shape, run};
use crate::args;
use crate::failure::{Ended, Failure, Outcome};

const AFTER: &str = "\
Examples:
  duolog sessions new
  duolog sessions new --user-email ada@example.com --session-name plan --status running
  id=$(duolog sessions new --cwd . --agent coder)
  duolog sessions new --name build --operation-id job-17-session
  duolog sessions new --session-name plan --pid $$

JSON:
  {\"session\": {\"id\", \"user_id\", \"name\", \"scope\", \"status\", \"created_at\", \"started_at\",
   \"updated_at\", \"ended_at\", \"cwd\", \"agent_name\", \"invocation_kind\", \"source_kind\", \"home_id\",
   \"log_path\", \"log_epoch\", \"node_metadata\"}}";

/// Make a session, and print its id
///
/// Nothing is required: the session then has an id and no name. With --session-name it is a user's, and so it is with
/// --user-email, which makes up a name where none is given. A name that the same user has already is a conflict.
/// Asked again under the same operation id, it gives the session that it made.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct New {
    /// Its id, instead of a new one
    #[arg(long, value_name = "ID")]
    id: Option<SessionId>,
    /// The user whose session it is: with no name said, one is made up, like session_2026-01-31T09:30:00.000Z_0a1b2c
    #[arg(long, value_name = "USER")]
    user_email: Option<String>,
    /// What its user calls it; with no user said, the one of the configuration
    #[arg(long, value_name = "NAME", conflicts_with = "name")]
    session_name: Option<String>,
    /// A thread name: what people call it where it has no user
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The working directory it belongs to
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// The agent's name
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// How it stands
    #[arg(long, value_parser = args::status())]
    status: Option<SessionStatus>,
    /// The process that runs it; it stands as running then
    #[arg(long, value_name = "PID", conflicts_with = "status")]
    pid: Option<u32>,
    /// Whatever is to be kept with it, as a JSON object
    #[arg(long, value_name = "JSON")]
    metadata: Option<String>,
    #[command(flatten)]
    operation: Operation,
}

#[derive(Serialize)]
struct Answer {
    session: Shape,
}

impl New {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        if let Some(metadata) = &self.metadata {
            check_metadata(metadata)?;
        }
        // The real path, so that one directory has one scope however it was reached.
        let cwd = self.cwd.map(|cwd| cwd.canonicalize().map_err(Failure::file("find", &cwd))).transpose()?;
        let user_id = match (self.user_email, &self.session_name) {
            (None, Some(_)) => Some(context.config()?.user().to_owned()),
            (user, _) => user,
        };
        let new = NewSession {
            id: self.id,
            user_id,
            name: self.session_name.or(self.name),
            cwd,
            agent_name: self.agent,
            invocation_kind: None,
            status: self.status.or(self.pid.map(|_| SessionStatus::Running)),
            node_metadata: self.metadata,
        };
        let store = context.open_to_write()?;
        let session = self.operation.sessions(&store).create(&new)?;
        if let Some(pid) = self.pid {
            run::own(&store, &session, pid, Durability::Power)?;
        }
        let path = store.home().state.join(&session.log_path);
        context.out.answer(&Answer { session: (&session).into() }, |text| text.line(&session.id))?;
        context.out.note(format_args!("its log is {}", path.display()));
        context.close(store);
        Ok(Ended::Done)
    }
}

fn check_metadata(text: &str) -> Result<(), Failure> {
    let is_object = serde_json::from_str::<&RawValue>(text).is_ok_and(|raw| raw.get().starts_with('{'));
    if is_object {
        return Ok(());
    }
    Err(Failure::Given {
        message: "--metadata is not a JSON object".to_owned(),
        hint: Some("--metadata '{\"team\":\"blue\"}'".to_owned()),
    })
}

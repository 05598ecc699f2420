//! `duolog sessions new`.

use std::path::PathBuf;

use clap::Args;
use duolog::sessions::NewSession;
use duolog::{SessionId, SessionStatus};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{Context, Operation, Shape};
use crate::args;
use crate::failure::{Ended, Failure, Outcome};

const AFTER: &str = "\
Examples:
  duolog sessions new
  duolog sessions new --user-email ada@example.com --session-name plan --status running
  id=$(duolog sessions new --cwd . --agent coder)
  duolog sessions new --session-name plan --operation job-17-session

JSON:
  {\"session\": {\"id\", \"user_id\", \"name\", \"scope\", \"status\", \"created_at\", \"started_at\",
   \"updated_at\", \"ended_at\", \"cwd\", \"agent_name\", \"invocation_kind\", \"source_kind\", \"home_id\",
   \"log_path\", \"log_epoch\", \"node_metadata\"}}";

/// Make a session, and print its id
///
/// Nothing is required: the session then has an id and no name. A name that the same user has already is a conflict.
/// Asked again under the same operation id, it gives the session that it made.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct New {
    /// Its id, instead of a new one
    #[arg(long, value_name = "ID")]
    id: Option<SessionId>,
    /// The user whose session it is
    #[arg(long, value_name = "USER")]
    user_email: Option<String>,
    /// What people call it: with a user unique for that user, without one a thread name
    #[arg(long, value_name = "NAME", visible_alias = "name")]
    session_name: Option<String>,
    /// The working directory it belongs to
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// The agent's name
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// How it stands
    #[arg(long, value_parser = args::status())]
    status: Option<SessionStatus>,
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
        let new = NewSession {
            id: self.id,
            user_id: self.user_email,
            name: self.session_name,
            cwd,
            agent_name: self.agent,
            invocation_kind: None,
            status: self.status,
            node_metadata: self.metadata,
        };
        let store = context.open_to_write()?;
        let session = self.operation.sessions(&store).create(&new)?;
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

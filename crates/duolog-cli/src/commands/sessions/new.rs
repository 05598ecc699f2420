//! `duolog sessions new`.

use std::path::PathBuf;

use clap::Args;
use duolog::sessions::NewSession;
use duolog::{SessionId, SessionStatus};
use duolog_wire::SessionAnswer;

use super::{Context, Operation, Provenance, check_metadata, run};
use crate::args;
use crate::failure::{CommandResult, Ended, Failure};

const AFTER: &str = "\
Examples:
  duolog sessions new
  duolog sessions new --user-email ada@example.com --session-name plan --status running
  id=$(duolog sessions new --cwd . --agent coder)
  duolog sessions new --name build --operation-id job-17-session
  duolog sessions new --session-name plan --pid $$
  duolog sessions new --name nightly --playbook review --kind play --source imported_fs --started-at 2026-01-31T09:30:00Z

JSON:
  {\"session\": {\"id\", \"user_id\", \"name\", \"scope\", \"status\", \"created_at\", \"started_at\",
   \"updated_at\", \"ended_at\", \"cwd\", \"agent_name\", \"invocation_kind\", \"playbook_name\",
   \"show_topic\", \"show_play_name\", \"artifacts_path\", \"source_kind\", \"home_id\", \"log_path\",
   \"log_epoch\", \"first_msg_id\", \"last_msg_id\", \"progression_id\", \"node_metadata\"}}";

/// Create a session and print its id
///
/// All arguments are optional. Without a name, the session has only an id.
///
/// With --session-name or --user-email the session belongs to a user. --user-email alone generates a name. The names of
/// a user's sessions are unique: a name that is taken is a conflict.
///
/// A retry with the same operation id prints the session that the first call created.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct New {
    /// Session id [default: a new id]
    #[arg(long, value_name = "ID")]
    id: Option<SessionId>,
    /// User of the session
    ///
    /// Without --session-name a name is generated, like session_2026-01-31T09:30:00.000Z_0a1b2c.
    #[arg(long, value_name = "USER")]
    user_email: Option<String>,
    /// Name of the session, unique per user
    ///
    /// Without --user-email the session belongs to the user of the configuration.
    #[arg(long, value_name = "NAME", conflicts_with = "name")]
    session_name: Option<String>,
    /// Thread name, for a session without a user
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Working directory
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    #[command(flatten)]
    provenance: Provenance,
    /// Initial status
    #[arg(long, value_parser = args::status())]
    status: Option<SessionStatus>,
    /// Process that runs the session; sets the status to running
    #[arg(long, value_name = "PID", conflicts_with = "status")]
    pid: Option<u32>,
    /// Metadata, as a JSON object
    #[arg(long, value_name = "JSON")]
    metadata: Option<String>,
    #[command(flatten)]
    operation: Operation,
}

impl New {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        if let Some(metadata) = &self.metadata {
            check_metadata(metadata)?;
        }
        // Use the real path, so that a directory has the same scope when it is reached through a link.
        let cwd = self.cwd.map(|cwd| cwd.canonicalize().map_err(Failure::file("find", &cwd))).transpose()?;
        let user_id = match (self.user_email, &self.session_name) {
            (None, Some(_)) => Some(context.config()?.user().to_owned()),
            (user, _) => user,
        };
        if let Some(pid) = self.pid {
            run::is_there(pid)?;
        }
        let Provenance { agent, kind, playbook, show_topic, play, artifacts, source, started_at, ended_at } =
            self.provenance;
        let new = NewSession {
            id: self.id,
            user_id,
            name: self.session_name.or(self.name),
            cwd,
            agent_name: agent,
            invocation_kind: kind,
            playbook_name: playbook,
            show_topic,
            show_play_name: play,
            artifacts_path: artifacts,
            source_kind: source,
            status: self.status.or(self.pid.map(|_| SessionStatus::Running)),
            pid: self.pid,
            started_at,
            ended_at,
            node_metadata: self.metadata,
        };
        let store = context.open_to_write()?;
        let session = self.operation.sessions(&store).create(&new)?;
        let path = store.home().state.join(&session.log_path);
        context.out.answer(&SessionAnswer::from(&session), |text| text.line(&session.id))?;
        context.out.note(format_args!("log: {}", path.display()));
        context.close(store);
        Ok(Ended::Done)
    }
}

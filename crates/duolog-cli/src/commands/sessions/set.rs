//! `duolog sessions set`.

use clap::Args;
use duolog::sessions::SessionChange;
use duolog_wire::SessionAnswer;

use super::{Context, Provenance, check_metadata};
use crate::args::Which;
use crate::failure::{CommandResult, Ended, Failure};

const AFTER: &str = "\
Examples:
  duolog sessions set demo --playbook review --kind play --artifacts /srv/artifacts/demo
  duolog sessions set demo --show-topic ''
  duolog sessions set --user-email ada@example.com --session-name plan --metadata '{\"team\":\"blue\"}'

JSON:
  {\"session\": {… as sessions new …}}";

/// Set the provenance, times and metadata of a session
///
/// Fields that are not given do not change. An empty text clears --agent, --playbook, --show-topic, --play, --artifacts
/// and --metadata; the other fields can be replaced but not cleared. The change is written to the session's log.
///
/// Use sessions close and sessions reopen to change the status, and sessions rename to change the name.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Set {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    provenance: Provenance,
    /// Metadata, as a JSON object
    #[arg(long, value_name = "JSON")]
    metadata: Option<String>,
}

impl Set {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let reference = self.which.reference(context.config()?)?;
        if let Some(metadata) = self.metadata.as_deref().filter(|text| !text.is_empty()) {
            check_metadata(metadata)?;
        }
        let Provenance { agent, kind, playbook, show_topic, play, artifacts, source, started_at, ended_at } =
            self.provenance;
        let change = SessionChange {
            agent_name: agent,
            invocation_kind: kind,
            playbook_name: playbook,
            show_topic,
            show_play_name: play,
            artifacts_path: artifacts,
            source_kind: source,
            started_at,
            ended_at,
            node_metadata: self.metadata,
        };
        if change == SessionChange::default() {
            return Err(Failure::Given {
                message: "cannot set the session: no field is given".to_owned(),
                hint: Some("duolog sessions set --help lists the fields".to_owned()),
            });
        }
        let durability = context.config()?.durability();
        let store = context.open_to_write()?;
        let session = store.sessions().set(&reference, &change, durability)?;
        context.out.confirm(&SessionAnswer::from(&session), |text| {
            text.line(format_args!("set session {}", session.id));
        })?;
        context.close(store);
        Ok(Ended::Done)
    }
}

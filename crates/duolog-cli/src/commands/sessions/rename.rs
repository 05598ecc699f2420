//! `duolog sessions rename`.

use clap::Args;
use duolog::sessions::SessionRef;
use duolog_wire::SessionAnswer;

use super::{Context, Operation};
use crate::args::OfUser;
use crate::failure::{CommandResult, Ended, Failure};

const AFTER: &str = "\
Examples:
  duolog sessions rename demo \"the plan\"
  duolog sessions rename demo \"the plan\" --operation-id job-17-rename
  duolog sessions rename --user-email ada@example.com --session-name plan \"the plan\"

JSON:
  {\"session\": {… as sessions new …}}";

/// Rename a session
///
/// The log file keeps its path, and the new name is written to it. A name that is taken is a conflict.
///
/// If several homes share a state, any of them can rename a session. The home that has the log writes the log line.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Rename {
    /// Session id, unique prefix or thread name; with --session-name, the new name
    #[arg(value_name = "SESSION")]
    session: String,
    /// New name
    #[arg(value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    of_user: OfUser,
    #[command(flatten)]
    operation: Operation,
}

impl Rename {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let (reference, name) = match (self.of_user.reference(context.config()?), &self.name) {
            (Some(reference), None) => (reference, &self.session),
            (None, Some(name)) => (SessionRef::Text(self.session.clone()), name),
            (Some(_), _) => return Err(misnamed("cannot rename the session: with --session-name, give only NAME")),
            (None, _) => return Err(misnamed("cannot rename the session: no new name is given")),
        };
        let store = context.open_to_write()?;
        let renamed = self.operation.sessions(&store).rename(reference, name)?;
        context.out.answer(&SessionAnswer::from(&renamed), |text| {
            text.line(format_args!("renamed session {} to {name}", renamed.id));
        })?;
        context.close(store);
        Ok(Ended::Done)
    }
}

fn misnamed(message: &str) -> Failure {
    Failure::Given {
        message: message.to_owned(),
        hint: Some(
            "duolog sessions rename SESSION NAME, or: duolog sessions rename --session-name OLD NAME".to_owned(),
        ),
    }
}

//! `duolog sessions delete`.

use clap::Args;
use serde::Serialize;

use super::Context;
use crate::args::{self, Which};
use crate::failure::{Ended, Failure, Outcome};
use crate::figures;

const AFTER: &str = "\
Examples:
  duolog sessions delete demo
  duolog sessions delete 01936400-0000-7000-8000-000000000000 --yes

Exit code: 1 where the question is answered with no

JSON:
  {\"session\": id, \"deleted\": true|false, \"bytes\": 1234}";

/// Delete a session with its log
///
/// The session must be named whole: by its id, its thread name, or user and name. A person at a terminal is asked; a
/// script says --yes.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Delete {
    #[command(flatten)]
    which: Which,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

#[derive(Serialize)]
struct Answer<'a> {
    session: &'a str,
    deleted: bool,
    bytes: Option<u64>,
}

impl Delete {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        let reference = self.which.reference()?;
        let store = context.open_to_write()?;
        let session = args::exactly(store.sessions().resolve(&reference)?, &reference)?;
        // A log that cannot be read can be deleted all the same.
        let bytes = store.log(&session.id).end().ok().map(|end| end.0);
        let size = bytes.map(|bytes| format!(" and {} of log", figures::size(bytes))).unwrap_or_default();
        let called = session.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        let what = format!("session {}{called}{size}", session.id);
        let deleted = self.yes
            || context.out.ask(&format!("delete {what}?")).ok_or_else(|| Failure::Given {
                message: format!("{what} would be deleted, and nobody is there to ask"),
                hint: Some("say --yes".to_owned()),
            })?;
        if deleted {
            store.sessions().delete(&session.id)?;
        }
        context.out.answer(&Answer { session: session.id.as_str(), deleted, bytes }, |text| {
            text.line(format_args!("{} {what}", if deleted { "deleted" } else { "kept" }));
        })?;
        context.close(store);
        Ok(if deleted { Ended::Done } else { Ended::No })
    }
}

//! `duolog sessions delete`.

use clap::Args;
use duolog::Store;
use duolog::sessions::{DeletedSession, SessionRef};
use serde::Serialize;

use super::{Context, Operation};
use crate::args::Which;
use crate::failure::{Ended, Failure, Outcome};
use crate::figures;

const AFTER: &str = "\
Examples:
  duolog sessions delete demo
  duolog sessions delete 01936400-0000-7000-8000-000000000000 --yes
  duolog sessions delete demo --yes --operation job-17-clean

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
    #[command(flatten)]
    operation: Operation,
}

#[derive(Serialize)]
struct Answer<'a> {
    session: &'a str,
    deleted: bool,
    bytes: u64,
}

impl Delete {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        let reference = self.which.reference()?;
        let store = context.open_to_write()?;
        if !self.yes
            && let Some(kept) = ask(context, &store, &reference)?
        {
            context.out.answer(&answer(&kept, false), |text| text.line(format_args!("kept {}", told(&kept))))?;
            context.close(store);
            return Ok(Ended::No);
        }
        let deleted = self.operation.sessions(&store).delete(reference)?;
        context.out.answer(&answer(&deleted, true), |text| text.line(format_args!("deleted {}", told(&deleted))))?;
        context.close(store);
        Ok(Ended::Done)
    }
}

/// Asks a person; what is kept where the answer is no.
fn ask(context: &Context<'_>, store: &Store, reference: &SessionRef) -> Result<Option<DeletedSession>, Failure> {
    let session = store.sessions().resolve_whole(reference)?;
    let bytes = store.log(&session.id).end()?.0;
    let asked = DeletedSession { id: session.id, name: session.name, bytes };
    let what = told(&asked);
    let yes = context.out.ask(&format!("delete {what}?")).ok_or_else(|| Failure::Given {
        message: format!("{what} would be deleted, and nobody is there to ask"),
        hint: Some("say --yes".to_owned()),
    })?;
    Ok((!yes).then_some(asked))
}

fn answer(session: &DeletedSession, deleted: bool) -> Answer<'_> {
    Answer { session: session.id.as_str(), deleted, bytes: session.bytes }
}

fn told(session: &DeletedSession) -> String {
    let called = session.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
    format!("session {}{called} and {} of log", session.id, figures::size(session.bytes))
}

//! `duolog sessions rename`.

use clap::Args;
use duolog::sessions::SessionRef;
use serde::Serialize;

use super::{Context, Operation, Shape};
use crate::failure::{Ended, Outcome};

const AFTER: &str = "\
Examples:
  duolog sessions rename demo \"the plan\"
  duolog sessions rename demo \"the plan\" --operation job-17-rename

JSON:
  {\"session\": {… as sessions new …}}";

/// Give a session another name
///
/// Its log stays where it is, and tells of the new name. A name that is taken is a conflict. Where several homes share a
/// state, any of them may rename: the line waits for the home that has the log.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Rename {
    /// The whole id, or the thread name
    #[arg(value_name = "SESSION")]
    session: String,
    /// The new name
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    operation: Operation,
}

#[derive(Serialize)]
struct Answer {
    session: Shape,
}

impl Rename {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        let reference = SessionRef::Text(self.session);
        let store = context.open_to_write()?;
        let renamed = self.operation.sessions(&store).rename(reference, &self.name)?;
        context.out.answer(&Answer { session: (&renamed).into() }, |text| {
            text.line(format_args!("{} is now called {}", renamed.id, self.name));
        })?;
        context.close(store);
        Ok(Ended::Done)
    }
}

//! `duolog sessions rename`.

use clap::Args;
use duolog::sessions::SessionRef;
use serde::Serialize;

use super::{Context, Shape};
use crate::args;
use crate::failure::{Ended, Outcome};

const AFTER: &str = "\
Examples:
  duolog sessions rename demo \"the plan\"

JSON:
  {\"session\": {… as sessions new …}}";

/// Give a session another name
///
/// Its log stays where it is, and tells of the new name. A name that is taken is a conflict.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Rename {
    /// The whole id, or the thread name
    #[arg(value_name = "SESSION")]
    session: String,
    /// The new name
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Serialize)]
struct Answer {
    session: Shape,
}

impl Rename {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        let reference = SessionRef::Text(self.session);
        let store = context.open_to_write()?;
        let session = args::exactly(store.sessions().resolve(&reference)?, &reference)?;
        let renamed = store.sessions().rename(&session.id, &self.name)?;
        context.out.answer(&Answer { session: (&renamed).into() }, |text| {
            text.line(format_args!("{} is now called {}", renamed.id, self.name));
        })?;
        context.close(store);
        Ok(Ended::Done)
    }
}

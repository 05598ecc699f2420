//! `duolog state migrate`.

use clap::Args;
use duolog_wire as wire;

use super::Context;
use crate::failure::{CommandResult, Ended};

const AFTER: &str = "\
Examples:
  duolog state migrate

JSON:
  {\"schema_version\": 1, \"newest_schema_version\": 1}
  newest_schema_version is the newest that this program knows";

/// Bring the schema up to date, and say which version it has
///
/// Every command that writes does so by itself; this one does nothing else. In an empty database it makes the tables. A
/// store of a newer program is never changed.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Migrate {}

impl Migrate {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let Self {} = self;
        let store = context.open_to_write()?;
        let found = store.state().version();
        context.out.answer(&wire::Migrated::from(&found), |text| {
            text.line(format_args!(
                "the schema has version {}; this program knows up to {}",
                found.version, found.known
            ));
        })?;
        context.close(store);
        Ok(Ended::Done)
    }
}

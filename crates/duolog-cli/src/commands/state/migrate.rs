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
  newest_schema_version is the newest version that this program supports";

/// Migrate the schema and show its version
///
/// Every command that writes migrates the schema; this command does only that. It creates the tables in an empty database.
/// It never changes the store of a newer program.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Migrate {}

impl Migrate {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let Self {} = self;
        let store = context.open_to_write()?;
        let found = store.state().version();
        context.out.answer(&wire::Migrated::from(&found), |text| {
            text.line(format_args!("schema version {}; this program supports up to {}", found.version, found.known));
        })?;
        context.close(store);
        Ok(Ended::Done)
    }
}

//! `duolog state vacuum`.

use clap::Args;
use duolog_wire as wire;

use super::Context;
use crate::failure::{CommandResult, Ended};
use crate::figures;

const AFTER: &str = "\
Examples:
  duolog state vacuum
  duolog state vacuum --json | jq '.bytes_before - .bytes_after'

JSON:
  {\"bytes_before\": 458752, \"bytes_after\": 131072, \"table_names\": [\"sessions\", …],
   \"performed_by\": \"duolog\"|\"server\"}";

/// Vacuum the database to free unused space
///
/// SQLite rewrites the database file: that needs the same space again, and writers wait.
///
/// On a server, Duolog's tables are vacuumed and analysed while others use them; the server keeps most of the space for
/// reuse.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Vacuum {}

impl Vacuum {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let Self {} = self;
        let store = context.open_to_write()?;
        let done = store.state().vacuum()?;
        context.out.answer(&wire::Vacuumed::from(&done), |text| {
            let (before, after) = (figures::size(done.bytes_before), figures::size(done.bytes_after));
            text.line(if done.on_server {
                let tables = figures::things(done.tables.len() as u64, "table");
                format!("vacuumed and analysed {tables}, {after}")
            } else {
                format!("vacuumed the database: {before} before, {after} after")
            });
        })?;
        context.close(store);
        Ok(Ended::Done)
    }
}

//! `duolog state vacuum`.

use clap::Args;
use serde::Serialize;

use super::Context;
use crate::failure::{Ended, Outcome};
use crate::figures;

const AFTER: &str = "\
Examples:
  duolog state vacuum
  duolog state vacuum --json | jq '.bytes_before - .bytes_after'

JSON:
  {\"bytes_before\": 458752, \"bytes_after\": 131072, \"tables\": [\"sessions\", …],
   \"by\": \"duolog\"|\"server\"}";

/// Give back the space of what was deleted
///
/// A database file is rewritten: that needs as much space again, and writers wait for it. On a server our tables are
/// vacuumed and analysed beside everything else; most of the space stays the server's, to be used again.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Vacuum {}

#[derive(Serialize)]
struct Answer<'a> {
    bytes_before: u64,
    bytes_after: u64,
    tables: &'a [String],
    by: &'static str,
}

impl Vacuum {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        let Self {} = self;
        let store = context.open_to_write()?;
        let done = store.state().vacuum()?;
        let answer = Answer {
            bytes_before: done.bytes_before,
            bytes_after: done.bytes_after,
            tables: &done.tables,
            by: if done.on_server { "server" } else { "duolog" },
        };
        context.out.answer(&answer, |text| {
            let (before, after) = (figures::size(done.bytes_before), figures::size(done.bytes_after));
            text.line(if done.on_server {
                let tables = figures::things(done.tables.len() as u64, "table");
                format!("vacuumed and analysed {tables}, {after}")
            } else {
                format!("rewrote the database: it takes {after}, before {before}")
            });
        })?;
        context.close(store);
        Ok(Ended::Done)
    }
}

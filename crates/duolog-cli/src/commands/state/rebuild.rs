//! `duolog state rebuild`.

use clap::Args;
use duolog_wire as wire;

use super::Context;
use crate::failure::{CommandResult, Ended};
use crate::figures;

const AFTER: &str = "\
Examples:
  duolog state rebuild

Exit code: 4 if a log could not be read; the others are rebuilt

JSON:
  {\"session_count\": 3, \"events\": 120, \"bytes\": 45678, \"failures\": [{\"session_id\", \"reason\"}]}";

/// Rebuild all derived rows from the logs
///
/// Readers and writers may run during the rebuild. They see the old row of a session or the new one, never a mix.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Rebuild {}

impl Rebuild {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let Self {} = self;
        let store = context.open_to_write()?;
        // The total is only for the progress bar: ignore an error.
        let total =
            if context.out.shows_progress() { store.state().stats_within(duolog::Wait::Briefly).ok() } else { None };
        let total = total.map(|stats| stats.logs.bytes);
        let progress = context.out.progress("rebuilding");
        let rebuilt = store.state().rebuild(|done| {
            progress.set(done.bytes, total);
            progress.at(&figures::things(done.sessions, "session"));
        })?;
        drop(progress);
        context.out.answer(&wire::Rebuilt::from(&rebuilt), |text| {
            let (sessions, events) =
                (figures::things(rebuilt.sessions, "session"), figures::things(rebuilt.events, "event"));
            text.line(format_args!("rebuilt {sessions} from {events}, {}", figures::size(rebuilt.bytes)));
        })?;
        for (session, reason) in &rebuilt.failed {
            context.out.alert(format_args!("cannot rebuild session {session}: {reason}"));
        }
        let ended = if rebuilt.failed.is_empty() { Ended::Done } else { Ended::Damaged };
        context.close(store);
        Ok(ended)
    }
}

//! `duolog state rebuild`.

use clap::Args;
use duolog_wire as wire;

use super::Context;
use crate::failure::{CommandResult, Ended};
use crate::figures;

const AFTER: &str = "\
Examples:
  duolog state rebuild

Exit code: 4 where a log could not be read; all others are rebuilt

JSON:
  {\"session_count\": 3, \"events\": 120, \"bytes\": 45678, \"failures\": [{\"session_id\", \"reason\"}]}";

/// Make all derived rows anew from the logs
///
/// Runs beside readers and writers: they see the old row of a session or the new one, never a part.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Rebuild {}

impl Rebuild {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let Self {} = self;
        let store = context.open_to_write()?;
        // Without a total the bar only counts; that is no reason to fail.
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
            context.out.alert(format_args!("{session} could not be rebuilt: {reason}"));
        }
        let ended = if rebuilt.failed.is_empty() { Ended::Done } else { Ended::Damaged };
        context.close(store);
        Ok(ended)
    }
}

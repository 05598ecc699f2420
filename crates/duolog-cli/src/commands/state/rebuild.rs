//! `duolog state rebuild`.

use clap::Args;
use serde::Serialize;

use super::Context;
use crate::failure::{Ended, Outcome};
use crate::figures;

const AFTER: &str = "\
Examples:
  duolog state rebuild

Exit code: 4 where a log could not be read; all others are rebuilt

JSON:
  {\"sessions\": 3, \"events\": 120, \"bytes\": 45678, \"failed\": [{\"session\", \"reason\"}]}";

/// Make all derived rows anew from the logs
///
/// Runs beside readers and writers: they see the old row of a session or the new one, never a part.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Rebuild {}

#[derive(Serialize)]
struct Answer<'a> {
    sessions: u64,
    events: u64,
    bytes: u64,
    failed: Vec<Failed<'a>>,
}

#[derive(Serialize)]
struct Failed<'a> {
    session: &'a str,
    reason: &'a str,
}

impl Rebuild {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        let Self {} = self;
        let store = context.open_to_write()?;
        // Without a total the bar only counts; that is no reason to fail.
        let total = if context.out.shows_progress() { store.state().stats().ok() } else { None };
        let total = total.map(|stats| stats.logs.bytes);
        let progress = context.out.progress("rebuilding");
        let rebuilt = store.state().rebuild(|done| {
            progress.set(done.bytes, total);
            progress.at(&figures::things(done.sessions, "session"));
        })?;
        drop(progress);
        let failed = rebuilt.failed.iter().map(|(session, reason)| Failed { session: session.as_str(), reason });
        let answer = Answer {
            sessions: rebuilt.sessions,
            events: rebuilt.events,
            bytes: rebuilt.bytes,
            failed: failed.collect(),
        };
        context.out.answer(&answer, |text| {
            let (sessions, events) =
                (figures::things(answer.sessions, "session"), figures::things(answer.events, "event"));
            text.line(format_args!("rebuilt {sessions} from {events}, {}", figures::size(answer.bytes)));
        })?;
        for Failed { session, reason } in &answer.failed {
            context.out.alert(format_args!("{session} could not be rebuilt: {reason}"));
        }
        let ended = if answer.failed.is_empty() { Ended::Done } else { Ended::Damaged };
        context.close(store);
        Ok(ended)
    }
}

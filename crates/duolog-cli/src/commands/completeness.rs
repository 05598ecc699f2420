//! Warns if an answer lacks log lines that are not folded into the state yet.

use clap::Args;
use duolog::{CaughtUp, Store, Wait, limits};

use crate::failure::Failure;
use crate::figures;
use crate::out::Out;

/// The option not to wait until the derived rows have caught up with the logs.
#[derive(Args, Clone, Copy)]
pub struct Waiting {
    /// Return at once, even if the result is incomplete
    #[arg(long)]
    no_wait: bool,
}

impl Waiting {
    /// Catches up with the logs, with a progress bar if that takes long. Does nothing with `--no-wait`.
    pub fn wait(self, out: &Out, store: &Store) -> Result<Wait, Failure> {
        if self.no_wait {
            return Ok(Wait::Briefly);
        }
        let mut bar = None;
        store.catch_up(|done| {
            if done.of_sessions > limits::FOLD_BATCH_SESSIONS as u64 {
                bar.get_or_insert_with(|| out.progress("catching up")).count(done.sessions, done.of_sessions);
            }
        })?;
        Ok(Wait::Complete)
    }
}

/// Warns about missing log lines on stderr, even with `--quiet`.
pub fn alert(out: &Out, caught_up: &CaughtUp) {
    let CaughtUp { sessions_behind, bytes_behind, sessions_elsewhere, sessions_lost, bytes_lost } = *caught_up;
    if sessions_lost > 0 {
        let (sessions, bytes) = (figures::things(sessions_lost, "session"), figures::size(bytes_lost));
        out.alert(format_args!(
            "the logs are incomplete: {bytes} of {sessions} are lost; run: duolog log verify --all"
        ));
    }
    if sessions_behind > 0 {
        let (sessions, bytes) = (figures::things(sessions_behind, "session"), figures::size(bytes_behind));
        // The bytes of sessions that were not checked yet are unknown.
        let lines = if bytes_behind > 0 { format!("{bytes} of log lines") } else { "log lines".to_owned() };
        out.alert(format_args!(
            "the counts are incomplete: {lines} in {sessions} are not counted yet; run: duolog state rebuild"
        ));
    }
    if sessions_elsewhere > 0 {
        let sessions = figures::things(sessions_elsewhere, "session");
        out.alert(format_args!(
            "the counts may be incomplete: {sessions} of other homes may have log lines that are not counted yet"
        ));
    }
}

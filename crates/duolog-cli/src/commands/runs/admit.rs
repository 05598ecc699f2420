//! `duolog runs admit`.

use clap::Args;
use duolog::limits;
use duolog_wire as wire;

use super::Context;
use crate::failure::{CommandResult, Ended};

const AFTER: &str = "\
Examples:
  duolog runs admit
  duolog runs admit --owner \"$HOSTNAME\" --limit 1 --json

JSON:
  {\"admitted\": [{\"run\": {… as runs list …}, \"fence\": 1|null}],
   \"cancelled_runs\": [{… as runs list …}]}
  cancelled_runs were queued for longer than runs.queue_wait";

/// Start queued runs while slots are free and print their ids
///
/// Resumed runs start first, then the others in the order in which they were queued. Runs that were queued for longer
/// than runs.queue_wait are cancelled, unless they have been started before. Runs of disabled workflows stay queued.
///
/// With --owner each run is claimed and its fence is printed. Executions that an earlier claim left in flight are
/// closed.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Admit {
    /// Owner that claims the runs in the same transaction
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    /// Maximum number of runs to start
    #[arg(long, short = 'n', value_name = "N", default_value_t = limits::PAGE_MAX)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::PAGE_MAX)))]
    limit: u32,
}

impl Admit {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let store = context.open_to_write()?;
        let done = store.runs().admit(self.owner.as_deref(), self.limit)?;
        context.out.answer(&wire::Admitted::from(&done), |text| {
            for (run, fence) in &done.admitted {
                match fence {
                    Some(fence) => text.line(format_args!("{} {fence}", run.id)),
                    None => text.line(&run.id),
                }
            }
        })?;
        for run in &done.expired {
            context.out.note(format_args!("run {} is cancelled: it was queued for too long", run.id));
        }
        if done.admitted.is_empty() {
            context.out.note("no run started: no slot is free, or no queued run can start");
        }
        context.close(store);
        Ok(Ended::Done)
    }
}

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
  cancelled_runs were queued for too long";

/// Let queued runs begin while slots are free, and print them
///
/// Resumed runs come first, then the others in order of arrival. With --owner each is claimed, its fence is printed, and
/// executions that an earlier claim left in flight are closed. Runs that waited too long before they began are cancelled.
/// Runs of disabled workflows stay queued.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Admit {
    /// Claim what begins, in the same step
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    /// How many at the most
    #[arg(long, value_name = "N", default_value_t = limits::PAGE_MAX)]
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
            context.out.note(format_args!("run {} waited too long, and is cancelled", run.id));
        }
        if done.admitted.is_empty() {
            context.out.note("no run begins: no slot is free, or no queued run may begin");
        }
        context.close(store);
        Ok(Ended::Done)
    }
}

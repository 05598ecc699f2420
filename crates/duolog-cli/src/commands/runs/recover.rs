//! `duolog runs recover`.

use clap::Args;
use duolog::RunId;
use duolog::runs::TakeFilter;
use duolog_wire as wire;

use super::Context;
use crate::failure::{CommandResult, Ended, Failure};
use crate::figures;

const AFTER: &str = "\
Examples:
  duolog runs recover --owner \"$HOSTNAME\" | while read run fence; do resume \"$run\" \"$fence\"; done
  duolog runs recover --owner worker-1 --workflow nightly --limit 1 --json

JSON:
  {\"claims\": [{… as runs claim …}], \"failed_runs\": [{… as runs list …}],
   \"errors\": [{\"workflow_run_id\", \"error\": {\"kind\", \"message\", \"hint\"}}], \"complete\": true|false,
   \"untried_runs\": [id]}
  claims: the runs to resume; failed_runs: runs that were taken over too often
  complete is false if an error stopped the command before all runs were tried; untried_runs are
  the runs that were found and not tried";

/// Claim the runs of dead owners and print their fences
///
/// Runs whose lease has expired are claimed for --owner, which must resume them. Their executions in flight are closed,
/// and the takeover is counted. A run that was taken over too often fails instead. Run this at startup and from time to
/// time.
///
/// An error of one run does not stop the others: the claims are printed, the error is reported, and the exit code is
/// that of the first error. An error of the whole state, such as a server that cannot be reached, stops the command: the
/// claims are printed, and the runs that were not tried are reported.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Recover {
    /// Owner of the claims
    #[arg(long, value_name = "NAME")]
    owner: String,
    /// Workflow name; may be given more than once [default: all]
    #[arg(long, value_name = "NAME")]
    workflow: Vec<String>,
    /// Maximum number of runs to claim [default: no limit]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
}

impl Recover {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let filter = TakeFilter { workflows: self.workflow, limit: self.limit.unwrap_or(u32::MAX) };
        let store = context.open_to_write()?;
        let done = store.runs().recover_some(&self.owner, &filter)?;
        let failed: Vec<(RunId, Failure)> = done.failed.into_iter().map(|(run, error)| (run, error.into())).collect();
        let error = |(run, failure): &(RunId, Failure)| wire::RunError {
            workflow_run_id: run.to_string(),
            error: failure.into(),
        };
        let shape = wire::Recovered {
            claims: done.resumed.iter().map(wire::Claim::from).collect(),
            failed_runs: done.given_up.iter().map(wire::RunSummary::from).collect(),
            errors: failed.iter().map(error).collect(),
            complete: done.complete,
            untried_runs: done.untried.iter().map(ToString::to_string).collect(),
        };
        context.out.answer(&shape, |text| {
            for claim in &done.resumed {
                text.line(format_args!("{} {}", claim.run.id, claim.fence));
            }
        })?;
        for run in &done.given_up {
            let (id, times) = (&run.id, run.restart_count);
            context.out.note(format_args!("run {id} failed: it was already taken over {times} times"));
        }
        if done.resumed.is_empty() && done.given_up.is_empty() && failed.is_empty() {
            context.out.note("no run to recover");
        }
        if !done.complete {
            let untried = match done.untried.len() as u64 {
                0 => "the remaining runs were not tried".to_owned(),
                1 => "1 run that was found was not tried".to_owned(),
                many => format!("{} runs that were found were not tried", figures::count(many)),
            };
            context.out.alert(format_args!("incomplete: {untried}; run the command again"));
        }
        for (run, failure) in &failed {
            let message = format!("cannot recover run {run}: {}", failure.message());
            context.out.fault(&Failure::Given { message, hint: None });
        }
        context.close(store);
        if let Some(error) = done.stopped {
            return Err(error.into());
        }
        Ok(failed.first().map_or(Ended::Done, |(_, failure)| Ended::Partly(failure.kind())))
    }
}

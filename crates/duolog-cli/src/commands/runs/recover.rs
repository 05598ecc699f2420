//! `duolog runs recover`.

use clap::Args;
use serde::Serialize;

use super::claim::ClaimShape;
use super::{Context, Shape};
use crate::failure::{Ended, Outcome};

const AFTER: &str = "\
Examples:
  duolog runs recover --owner \"$HOSTNAME\" | while read run fence; do resume \"$run\" \"$fence\"; done
  duolog runs recover --owner worker-1 --json

JSON:
  {\"resumed\": [{… as runs claim …}], \"given_up\": [{… as runs list …}]}";

/// Take up what dead owners left, and print each run with the fence of its claim
///
/// Runs whose lease ended are claimed for --owner, who is to resume them; what was in flight of each is closed, and the
/// takeover is counted. One that was taken over too often fails instead. Do so at boot, and now and then.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Recover {
    /// Who is to hold them
    #[arg(long, value_name = "NAME")]
    owner: String,
}

#[derive(Serialize)]
struct Answer<'a> {
    resumed: Vec<ClaimShape<'a>>,
    given_up: Vec<Shape<'a>>,
}

impl Recover {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        let store = context.open_to_write()?;
        let done = store.runs().recover(&self.owner)?;
        let shape = Answer {
            resumed: done.resumed.iter().map(ClaimShape::from).collect(),
            given_up: done.given_up.iter().map(Shape::from).collect(),
        };
        context.out.answer(&shape, |text| {
            for claim in &done.resumed {
                text.line(format_args!("{} {}", claim.run.id, claim.fence));
            }
        })?;
        for run in &done.given_up {
            let (id, times) = (&run.id, run.restart_count);
            context.out.note(format_args!("run {id} was taken over {times} times before, and is given up"));
        }
        if done.resumed.is_empty() && done.given_up.is_empty() {
            context.out.note("nothing was left behind");
        }
        context.close(store);
        Ok(Ended::Done)
    }
}

//! `duolog runs nodes`.

use clap::Args;

use super::{Context, OwnedNamed, answer_run, in_argument, text_or_stdin};
use crate::args;
use crate::failure::CommandResult;

const AFTER: &str = "\
Examples:
  duolog runs nodes \"$run\" '{\"build\":\"succeeded\",\"test\":\"running\"}' --fence \"$fence\"

JSON:
  {\"run\": {… as runs list …}}";

/// Set the statuses of a run's nodes
///
/// For a workflow whose phases are a graph. Nodes that are not given keep their status. runs show shows all nodes.
#[derive(Args)]
#[command(after_help = AFTER, override_usage = "duolog runs nodes [OPTIONS] [RUN] <JSON>")]
#[command(mut_arg(args::SECOND_NAME, |name| name.value_name("JSON").help("JSON object of node names and statuses; - reads it from stdin")))]
pub struct Nodes {
    #[command(flatten)]
    names: OwnedNamed,
}

impl Nodes {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let (run, nodes) = self.names.split("JSON")?;
        let nodes = text_or_stdin(context, nodes)?;
        let store = context.open_to_write()?;
        let run = run.open(&store)?.set_nodes(&nodes).map_err(in_argument("JSON"))?;
        let ended = answer_run(context, &run, "node statuses set")?;
        context.close(store);
        Ok(ended)
    }
}

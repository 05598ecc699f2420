//! `duolog runs nodes`.

use clap::Args;

use super::{Context, Owned, answer_run, in_argument, text_or_stdin};
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
#[command(after_help = AFTER, allow_missing_positional = true)]
pub struct Nodes {
    #[command(flatten)]
    run: Owned,
    /// JSON object of node names and statuses; - reads it from stdin
    #[arg(value_name = "JSON")]
    nodes: String,
}

impl Nodes {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let nodes = text_or_stdin(context, self.nodes)?;
        let store = context.open_to_write()?;
        let run = self.run.open(&store)?.set_nodes(&nodes).map_err(in_argument("JSON"))?;
        let ended = answer_run(context, &run, "node statuses set")?;
        context.close(store);
        Ok(ended)
    }
}

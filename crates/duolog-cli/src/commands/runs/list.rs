//! `duolog runs list`.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use duolog::runs::{RunFilter, RunList, RunOrder, RunPage, RunSummary};
use duolog::{Clock as _, RunStatus, SystemClock, Timestamp};
use duolog_wire as wire;

use super::{Context, repository, tone};
use crate::args;
use crate::failure::{CommandResult, Ended};
use crate::figures;
use crate::out::{Column, Table, Tone};

const AFTER: &str = "\
Examples:
  duolog runs list
  duolog runs list --status active --repo acme/web
  duolog runs list --order started --limit 200
  duolog runs list --status failed --since 7d --total
  duolog runs list --json | jq -r '.runs[].id'

JSON:
  {\"runs\": [{\"id\", \"workflow_name\", \"trigger_type\", \"trigger_id\", \"owner\", \"repo\", \"issue_number\",
             \"current_phase\", \"status\", \"session_id\", \"lease_owner\",
             \"lease_expires_at\", \"is_stale\", \"restart_count\", \"retry_count\",
             \"triggered_by\", \"started_at\", \"updated_at\", \"finished_at\",
             \"cost_usd\", \"tokens\"}],
   \"next\": token|null, \"total\": 12|null}
  total is null without --total; cost_usd and tokens are null if no execution reported them";

/// The status shown for a running run whose lease has expired.
const STALE: &str = "stale";

/// The --status value for all runs that have not ended.
const ACTIVE: &str = "active";

/// List runs
///
/// Running, queued and paused runs come first, then the others, newest first. With --workflow, --repo or --trigger the
/// order is newest first. A running run whose lease has expired is shown as stale.
///
/// In the default order a run that changes its status between two pages may be missed or listed twice. With --order
/// started, --workflow, --repo or --trigger the pages list every run exactly once.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct List {
    #[command(flatten)]
    page: args::Paging,
    /// Filter by status; may be given more than once [default: all]
    #[arg(long, value_parser = PossibleValuesParser::new(words()).map(|word| statuses_of(&word)))]
    status: Vec<StatusFilter>,
    /// Filter by workflow name
    #[arg(long, value_name = "NAME")]
    workflow: Option<String>,
    /// Filter by repository; without OWNER, of any owner
    #[arg(long, value_name = "[OWNER/]REPO")]
    repo: Option<String>,
    /// Filter by trigger id
    #[arg(long, value_name = "ID")]
    trigger: Option<String>,
    /// Start of the range of start times: an instant, a day, or an age like 12h
    #[arg(long, value_name = "TIME", value_parser = args::since)]
    since: Option<Timestamp>,
    /// Sort order: active runs first, or newest first
    #[arg(long, default_value = "active", value_parser = PossibleValuesParser::new(["active", "started"]).map(|word| order(&word)))]
    order: RunOrder,
    /// Count all matching runs; this can be slow
    #[arg(long)]
    total: bool,
}

/// The statuses that a --status value stands for.
#[derive(Clone, Debug)]
struct StatusFilter(Vec<RunStatus>);

fn words() -> impl Iterator<Item = &'static str> {
    RunStatus::ALL.iter().map(|status| status.as_str()).chain([ACTIVE])
}

fn statuses_of(word: &str) -> StatusFilter {
    let matches_word =
        |status: &RunStatus| if word == ACTIVE { !status.is_terminal() } else { status.as_str() == word };
    StatusFilter(RunStatus::ALL.iter().copied().filter(matches_word).collect())
}

fn order(word: &str) -> RunOrder {
    if word == "started" { RunOrder::Started } else { RunOrder::Active }
}

impl List {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let filter = RunFilter {
            statuses: self.status.into_iter().flat_map(|wanted| wanted.0).collect(),
            workflow_name: self.workflow,
            owner: None,
            repo: self.repo,
            trigger_id: self.trigger,
            since: self.since,
            order: self.order,
        };
        let is_filtered =
            filter != (RunFilter { order: self.order, ..RunFilter::default() }) || self.page.after.is_some();
        let (list, total) = match context.open_if_there()? {
            Some(store) => {
                let list = store.runs().list(&filter, &RunPage::new(self.page.limit, self.page.after))?;
                (list, self.total.then(|| store.runs().count(&filter)).transpose()?)
            }
            // Without a store the list is empty.
            None => (RunList { runs: Vec::new(), next: None }, self.total.then_some(0)),
        };
        let next = list.next.as_ref().map(ToString::to_string);
        let runs = list.runs.iter().map(wire::RunSummary::from).collect();
        let answer = wire::RunList { runs, next: next.clone(), total };
        context.out.answer(&answer, |text| {
            if !list.runs.is_empty() {
                text.table(&table(&list.runs, SystemClock.now()));
            }
        })?;
        if list.runs.is_empty() && next.is_none() {
            context.out.note(if is_filtered {
                "no run matches"
            } else {
                "there are no runs yet; start one with: duolog runs start WORKFLOW --trigger ID"
            });
        }
        if let Some(total) = total {
            context.out.note(format_args!("{} in all", figures::things(total, "run")));
        }
        context.out.more(next.as_ref());
        Ok(Ended::Done)
    }
}

fn table(runs: &[RunSummary], now: Timestamp) -> Table {
    let mut table = Table::new(&[
        (Column::Id, "ID"),
        (Column::Word, "WORKFLOW_NAME"),
        (Column::Word, "STATUS"),
        (Column::Text, "CURRENT_PHASE"),
        (Column::Word, "TRIGGER_ID"),
        (Column::Text, "REPO"),
        (Column::Text, "LEASE_OWNER"),
        (Column::Figure, "TOKENS"),
        (Column::Figure, "COST_USD"),
        (Column::Word, "UPDATED_AT"),
    ])
    .dropping(&["REPO", "TOKENS", "LEASE_OWNER", "COST_USD", "CURRENT_PHASE", "UPDATED_AT", "TRIGGER_ID"]);
    for run in runs {
        table.row(vec![
            run.id.to_string(),
            run.workflow_name.clone(),
            if run.is_stale(now) { STALE.to_owned() } else { run.status.to_string() },
            run.current_phase.clone(),
            run.trigger_id.clone(),
            repository(run.owner.as_deref(), run.repo.as_deref(), run.issue_number),
            run.lease_owner.clone().unwrap_or_default(),
            run.tokens.map(figures::count).unwrap_or_default(),
            run.cost.map(figures::dollars).unwrap_or_default(),
            figures::age(run.updated_at, now),
        ]);
        table.tone(2, if run.is_stale(now) { Tone::Worth } else { tone(run.status) });
    }
    ["CURRENT_PHASE", "REPO", "LEASE_OWNER", "TOKENS", "COST_USD"].into_iter().fold(table, Table::without_empty)
}

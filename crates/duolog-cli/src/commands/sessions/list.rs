//! `duolog sessions list`.

use std::path::PathBuf;

use clap::Args;
use duolog::errors::Invalid;
use duolog::sessions::{SessionFilter, SessionList};
use duolog::{
    CaughtUp, Clock as _, Error, InvocationKind, Page, PageOrder, SessionStatus, SourceKind, SystemClock, Timestamp,
};
use duolog_wire as wire;

use super::super::completeness;
use super::Context;
use crate::args;
use crate::failure::{CommandResult, Ended};
use crate::figures;
use crate::out::{Column, Table, Tone};

const AFTER: &str = "\
Examples:
  duolog sessions list
  duolog sessions list --user-email ada@example.com --status running --limit 50
  duolog sessions list --agent coder --cwd . --since 7d
  duolog sessions list --json | jq -r '.sessions[].id'

JSON:
  {\"sessions\": [{\"id\", \"user_id\", \"name\", \"scope\", \"status\", \"started_at\", \"updated_at\",
                 \"events\", \"bytes\", \"title\"}], \"next\": token|null, \"complete\": true,
   \"missing\": {\"lagging_sessions\", \"lagging_bytes\", \"other_home_sessions\",
               \"lost_sessions\", \"lost_bytes\"}}
  complete is false if events, bytes and titles do not include all log lines. lagging_sessions is
  the number of sessions that lag; lagging_bytes is the number of bytes known to be missing";

/// List sessions
///
/// The session that was updated last comes first. The command waits up to 50 ms for the counts to catch up with the
/// logs; a warning tells you how many sessions lag.
///
/// With --order created, the pages list every session exactly once, even if sessions change. In the default order, a
/// session that changes between two pages may be missed or listed twice.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct List {
    #[command(flatten)]
    page: args::Paging,
    /// Sort order: last updated first, or last created first [default: updated]
    #[arg(long, value_parser = args::page_order("updated"))]
    order: Option<PageOrder>,
    /// Filter by user
    #[arg(long, value_name = "USER")]
    user_email: Option<String>,
    /// Filter by status
    #[arg(long, value_parser = args::status())]
    status: Option<SessionStatus>,
    /// Filter by agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Filter by playbook
    #[arg(long, value_name = "NAME")]
    playbook: Option<String>,
    /// Filter by invocation kind
    #[arg(long, value_parser = args::word(InvocationKind::ALL, InvocationKind::as_str))]
    kind: Option<InvocationKind>,
    /// Filter by source
    #[arg(long, value_parser = args::word(SourceKind::ALL, SourceKind::as_str))]
    source: Option<SourceKind>,
    /// Filter by working directory
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Start of the range of update times: an instant, a day, or an age like 12h
    #[arg(long, value_name = "TIME", value_parser = args::since)]
    since: Option<Timestamp>,
}

impl List {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let filter = SessionFilter {
            user_id: self.user_email,
            status: self.status,
            agent_name: self.agent,
            playbook_name: self.playbook,
            invocation_kind: self.kind,
            source_kind: self.source,
            // Sessions store the real path. For a directory that does not exist, use the path as given.
            cwd: self.cwd.map(|cwd| cwd.canonicalize().unwrap_or(cwd).to_string_lossy().into_owned()),
            since: self.since,
        };
        let is_filtered = filter != SessionFilter::default() || self.page.after.is_some();
        let page = match self.page.after {
            Some(after) if self.order.is_some_and(|order| order != after.order()) => {
                return Err(Error::Invalid(Invalid::OtherPage(after.to_string())).into());
            }
            Some(after) => Page::new(self.page.limit, Some(after)),
            None => Page::first(self.page.limit, self.order.unwrap_or_default()),
        };
        let list = match context.open_if_there()? {
            Some(store) => store.sessions().list(&filter, &page)?,
            // A home without a store has no sessions: an empty list, not an error.
            None => SessionList { sessions: Vec::new(), next: None, behind: CaughtUp::default() },
        };
        let answer = wire::SessionList::from(&list);
        context.out.answer(&answer, |text| {
            if !list.sessions.is_empty() {
                text.table(&table(&list, SystemClock.now()));
            }
        })?;
        if list.sessions.is_empty() {
            context.out.note(if is_filtered {
                "no sessions match the filter"
            } else {
                "there are no sessions yet; create one with: duolog sessions new --name NAME"
            });
        }
        completeness::alert(context.out, &list.behind);
        context.out.more(answer.next.as_ref());
        Ok(Ended::Done)
    }
}

fn table(list: &SessionList, now: Timestamp) -> Table {
    let mut table = Table::new(&[
        (Column::Id, "ID"),
        (Column::Word, "NAME"),
        (Column::Text, "TITLE"),
        (Column::Text, "USER_ID"),
        (Column::Word, "STATUS"),
        (Column::Figure, "EVENTS"),
        (Column::Figure, "BYTES"),
        (Column::Word, "UPDATED_AT"),
    ])
    .dropping(&["BYTES", "USER_ID", "TITLE", "EVENTS", "UPDATED_AT", "STATUS"]);
    for session in &list.sessions {
        table.row(vec![
            session.id.to_string(),
            session.name.clone().unwrap_or_default(),
            session.title.clone().unwrap_or_default(),
            session.user_id.clone().unwrap_or_default(),
            session.status.map(|status| status.to_string()).unwrap_or_default(),
            session.events.map_or_else(|| "-".to_owned(), figures::count),
            session.bytes.map_or_else(|| "-".to_owned(), figures::size),
            figures::age(session.updated_at, now),
        ]);
        if let Some(status) = session.status {
            table.tone(4, tone(status));
        }
    }
    table.without_empty("NAME").without_empty("TITLE").without_empty("USER_ID").without_empty("STATUS")
}

pub(super) fn tone(status: SessionStatus) -> Tone {
    match status {
        SessionStatus::Running => Tone::Good,
        SessionStatus::Completed | SessionStatus::CompletedEmpty => Tone::Faint,
        SessionStatus::Failed | SessionStatus::TimedOut => Tone::Bad,
        SessionStatus::Aborted | SessionStatus::Cancelled => Tone::Worth,
    }
}

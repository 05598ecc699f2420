//! `duolog sessions show`.

use clap::Args;
use duolog::sessions::{Liveness, Session, SessionFigures};
use duolog::{Clock as _, Cursor, SystemClock, Timestamp, limits};
use duolog_wire as wire;

use super::super::completeness;
use super::super::log::redraw;
use super::{Context, branches, list, run};
use crate::args::Which;
use crate::failure::{CommandResult, Ended, Failure};
use crate::figures;
use crate::out::{Text, Tone};

const AFTER: &str = "\
Examples:
  duolog sessions show demo
  duolog sessions show --user-email ada@example.com --session-name plan
  duolog sessions show --session-name plan --replay
  duolog sessions show 01936400 --json

JSON:
  {\"session\": {… as sessions new …}, \"position\": 1234, \"cursor\": \"0:1234\",
   \"events\": 12, \"bytes\": 1234, \"damaged_lines\": 0, \"first_event_at\": instant,
   \"last_event_at\": instant, \"title\", \"model\", \"dialect\",
   \"process\": {\"pid\", \"host\", \"started_at\", \"liveness\"}|null,
   \"branches\": [… as sessions branches …], \"branches_next\": id|null, \"complete\": true,
   \"missing\": {… as sessions list …}}
  position is the end of the log; null if the log cannot be read.
  complete is false if the counts do not include the whole log. first_event_at, last_event_at,
  title, model and dialect are read from the log lines. branches_next is the last branch shown
  if there are more; pass it to sessions branches --after.
  process runs the session; liveness is \"alive\", \"dead\", \"elsewhere\" or \"unknown\".
  With --replay, one object per item follows, as in log replay";

/// Show a session
///
/// Shows its fields, the process that runs it, the end of its log, the counts of its log and its branches.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Show {
    #[command(flatten)]
    which: Which,
    /// Replay the conversation from the log, as log replay does
    #[arg(long)]
    replay: bool,
}

impl Show {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let reference = self.which.reference(context.config()?)?;
        let store = context.open_to_read()?;
        let session = store.sessions().resolve(&reference)?;
        let end = match store.log(&session.id).end() {
            Ok(position) => Some(Cursor { epoch: session.log_epoch, position }),
            // Show the row even if the log cannot be read.
            Err(error) => {
                context.out.warn(Failure::from(error).message());
                None
            }
        };
        let figures = store.sessions().figures(&session.id)?;
        let owner = store.sessions().status(&session.id).owner()?;
        let found = store.sessions().branches(&session.id).list(None, limits::PAGE_MAX)?;
        let branch_count = store.sessions().conversations(&session.id)?.branches;
        let branches_next = found.last().filter(|_| branch_count > found.len() as u64).map(|last| last.id.to_string());
        let answer = wire::SessionDetail {
            session: (&session).into(),
            position: end.map(|cursor| cursor.position.0),
            cursor: end.map(|cursor| cursor.to_string()),
            events: figures.events,
            bytes: figures.bytes,
            damaged_lines: figures.damaged,
            first_event_at: figures.first_at.map(|at| at.to_string()),
            last_event_at: figures.last_at.map(|at| at.to_string()),
            title: figures.title.clone(),
            model: figures.model.clone(),
            dialect: figures.dialect.clone(),
            process: owner.as_ref().map(wire::SessionProcess::from),
            branches: found.iter().map(wire::Branch::from).collect(),
            branches_next: branches_next.clone(),
            completeness: (&figures.behind).into(),
        };
        let log = if session.home_id == store.home_id() {
            store.home().state.join(&session.log_path).display().to_string()
        } else {
            format!("{} in home {}", session.log_path, session.home_id)
        };
        context.out.answer(&answer, |text| {
            let now = SystemClock.now();
            show(text, &session, now);
            if let Some(owner) = &owner {
                let tone = if owner.liveness == Liveness::Dead { Tone::Bad } else { Tone::Good };
                let is = text.tone(tone, run::liveness_word(owner.liveness));
                text.field("process", format_args!("{}: {is}  ({})", owner.pid, figures::age(owner.since, now)));
            }
            text.field("log", &log);
            if let Some(cursor) = end {
                text.field("ends at", format_args!("{cursor}  ({})", figures::size(cursor.position.0)));
            }
            tell(text, &figures, now);
            if !found.is_empty() {
                text.line("");
                branches::draw(text, &found);
            }
        })?;
        if let Some(next) = &branches_next {
            let (shown, all) = (figures::count(found.len() as u64), figures::things(branch_count, "branch"));
            context.out.warn(format_args!(
                "{shown} of {all} are shown; run: duolog sessions branches {} --after {next}",
                session.id
            ));
        }
        completeness::alert(context.out, &figures.behind);
        if self.replay {
            context.out.part(|text| text.line(""))?;
            return redraw(context, &store.log(&session.id));
        }
        Ok(Ended::Done)
    }
}

/// Shows the counts and values read from the log. Values that are not known yet are left out.
fn tell(text: &mut Text, figures: &SessionFigures, now: Timestamp) {
    for (label, value) in [("title", &figures.title), ("model", &figures.model), ("dialect", &figures.dialect)] {
        if let Some(value) = value {
            text.field(label, value);
        }
    }
    if let Some(events) = figures.events {
        text.field("events", figures::count(events));
    }
    if let Some(damaged @ 1..) = figures.damaged {
        let lines = figures::things(damaged, "line");
        text.field("damaged", text.tone(Tone::Bad, &format!("{lines} cannot be read; duolog log verify shows where")));
    }
    for (label, at) in [("first event", figures.first_at), ("last event", figures.last_at)] {
        if let Some(at) = at {
            text.field(label, format_args!("{at}  ({})", figures::age(at, now)));
        }
    }
}

fn show(text: &mut Text, session: &Session, now: Timestamp) {
    text.field("id", text.tone(Tone::Strong, session.id.as_str()));
    let status = session.status.map(|status| text.tone(list::tone(status), status.as_str()));
    let invoked = session.invocation_kind.map(|kind| kind.to_string());
    let when = |at: Timestamp| format!("{at}  ({})", figures::age(at, now));
    let fields = [
        ("name", session.name.clone()),
        ("user", session.user_id.clone()),
        ("status", status),
        ("agent", session.agent_name.clone()),
        ("kind", invoked),
        ("playbook", session.playbook_name.clone()),
        ("show topic", session.show_topic.clone()),
        ("play", session.show_play_name.clone()),
        ("artifacts", session.artifacts_path.clone()),
        ("directory", session.cwd.clone()),
        ("source", Some(session.source_kind.to_string())),
        ("created", Some(when(session.created_at))),
        ("started", session.started_at.map(when)),
        ("updated", Some(when(session.updated_at))),
        ("ended", session.ended_at.map(when)),
        ("metadata", session.node_metadata.clone()),
    ];
    for (label, value) in fields {
        if let Some(value) = value {
            text.field(label, value);
        }
    }
}

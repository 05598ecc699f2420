//! `duolog sessions delete`.

use clap::Args;
use duolog::errors::NotFound;
use duolog::sessions::{Conversations, DeletedSession, RemovedLog, Session, SessionRef};
use duolog::{Error, SessionId, Store};
use duolog_wire::{SessionDeleted, SessionsDeleted};

use super::{Context, Operation, actor};
use crate::args::Which;
use crate::failure::{CommandResult, Ended, Failure};
use crate::figures;

const AFTER: &str = "\
Examples:
  duolog sessions delete demo
  duolog sessions delete 01936400-0000-7000-8000-000000000000 --yes
  duolog sessions delete demo --yes --operation-id job-17-clean
  duolog sessions delete --user-email ada@example.com --session-name plan --context --yes
  duolog sessions delete --all --user-email ada@example.com --yes

Exit code: 1 if the answer to the prompt is no

JSON:
  {\"session_id\", \"deleted\": true|false, \"log_bytes\": 1234, \"branch_count\": 1, \"message_count\": 12,
   \"parts\": [\"session\", \"context\", \"log\"]}
  parts lists the deleted parts. With --all: {\"session_count\": 12, \"log_bytes\": 1234}";

/// Delete a session and its log
///
/// --context deletes only the conversations, and --log deletes only the log; the session itself is kept. A prefix of an
/// id is not accepted: give the whole id, the thread name, or user and name.
///
/// The command shows what it will delete and asks for confirmation on a terminal; scripts must use --yes. The deletion
/// is recorded in the log if the log is kept, and otherwise in the home, where duolog doctor finds it.
///
/// --all deletes every session of this home, or of one user with --user-email, one by one. If the command is
/// interrupted, each session is either deleted or untouched.
#[derive(Args)]
#[command(after_help = AFTER)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Delete {
    #[command(flatten)]
    which: Which,
    /// Delete every session of this home, or of the user that --user-email names
    #[arg(long, group = "user_scope")]
    #[arg(conflicts_with_all = ["reference", "session", "session_name", "context", "log", "operation"])]
    all: bool,
    /// Delete only the conversations: branches, items, summaries
    #[arg(long)]
    context: bool,
    /// Delete only the log; --context and --log together delete the session
    #[arg(long)]
    log: bool,
    /// Skip the confirmation prompt
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    operation: Operation,
}

/// Parts of a session to delete.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    All,
    Context,
    Log,
}

impl Part {
    const fn words(self) -> &'static [&'static str] {
        match self {
            Self::All => &["session", "context", "log"],
            Self::Context => &["context"],
            Self::Log => &["log"],
        }
    }
}

/// Contents of a session in the state and in the log.
struct SessionContents {
    id: String,
    name: Option<String>,
    bytes: u64,
    conversations: Conversations,
}

impl Delete {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        if self.all {
            return delete_all(context, self.which.user(), self.yes);
        }
        let reference = self.which.reference(context.config()?)?;
        let part = match (self.context, self.log) {
            (true, false) => Part::Context,
            (false, true) => Part::Log,
            _ => Part::All,
        };
        let store = context.open_to_write()?;
        // A retry with the same operation id does not find the session that the first call deleted.
        let held = match store.sessions().resolve_exact(&reference) {
            Ok(session) => Some((session.id.clone(), SessionContents::of(&store, &session, part)?)),
            Err(Error::NotFound(NotFound::Session(_))) if self.yes => None,
            Err(error) => return Err(error.into()),
        };
        if let Some((_, held)) = held.as_ref().filter(|_| !self.yes)
            && !ask(context, held, part)?
        {
            context
                .out
                .answer(&held.answer(part, false), |text| text.line(format_args!("kept {}", held.describe(part))))?;
            context.close(store);
            return Ok(Ended::No);
        }
        let deleted = delete(&store, self.operation, reference, part, held.map(|(id, _)| id))?;
        context.out.answer(&deleted.answer(part, true), |text| {
            text.line(format_args!("deleted {}", deleted.describe(part)));
        })?;
        context.close(store);
        Ok(Ended::Done)
    }
}

fn delete_all(context: &mut Context<'_>, user: Option<&str>, yes: bool) -> CommandResult {
    let store = context.open_to_write()?;
    let count = store.sessions().count(user)?;
    let of_user = user.map(|user| format!(" of {user}")).unwrap_or_default();
    let what = format!("{}{of_user} with logs and conversations", figures::things(count, "session"));
    if !yes && count > 0 {
        let answer = context.out.ask(&format!("delete {what}?")).ok_or_else(|| Failure::Given {
            message: format!("cannot delete {what}: stdin is not a terminal, so nobody can confirm"),
            hint: Some("add --yes".to_owned()),
        })?;
        if !answer {
            let kept = SessionsDeleted { session_count: 0, log_bytes: 0 };
            context.out.answer(&kept, |text| text.line(format_args!("kept {what}")))?;
            context.close(store);
            return Ok(Ended::No);
        }
    }
    let mut gone = SessionsDeleted { session_count: 0, log_bytes: 0 };
    let deleted = store.sessions().delete_all(user, |one| {
        gone.session_count += 1;
        gone.log_bytes += one.bytes;
    });
    if deleted.is_err() {
        let done = figures::count(gone.session_count);
        context.out.alert(format_args!("{done} of {} were deleted", figures::things(count, "session")));
    } else {
        context.out.answer(&gone, |text| {
            let (sessions, log) = (figures::things(gone.session_count, "session"), figures::size(gone.log_bytes));
            text.line(format_args!("deleted {sessions}{of_user} and {log} of log"));
        })?;
    }
    context.close(store);
    deleted?;
    Ok(Ended::Done)
}

fn delete(
    store: &Store,
    operation: Operation,
    reference: SessionRef,
    part: Part,
    shown: Option<SessionId>,
) -> Result<SessionContents, Failure> {
    let (actor, mut sessions) = (actor(None), operation.sessions(store));
    if let Some(session) = shown {
        // Delete the session that was shown: the reference may name another session by now.
        sessions = sessions.resolved_to(&session);
    }
    Ok(match part {
        Part::All => SessionContents::from(sessions.delete(reference)?),
        Part::Context => SessionContents::from(sessions.delete_context(reference, actor.as_deref())?),
        Part::Log => {
            let RemovedLog { id, name, bytes, .. } = sessions.delete_log(reference, actor.as_deref())?;
            SessionContents { id: id.to_string(), name, bytes, conversations: Conversations::default() }
        }
    })
}

impl From<DeletedSession> for SessionContents {
    fn from(gone: DeletedSession) -> Self {
        let DeletedSession { id, name, bytes, conversations } = gone;
        Self { id: id.to_string(), name, bytes, conversations }
    }
}

impl SessionContents {
    fn of(store: &Store, session: &Session, part: Part) -> Result<Self, Failure> {
        let bytes = if part == Part::Context { 0 } else { store.log(&session.id).end()?.0 };
        let all = store.sessions().conversations(&session.id)?;
        let conversations = if part == Part::Log { Conversations::default() } else { all };
        Ok(Self { id: session.id.to_string(), name: session.name.clone(), bytes, conversations })
    }

    fn answer(&self, part: Part, deleted: bool) -> SessionDeleted {
        SessionDeleted {
            session_id: self.id.clone(),
            deleted,
            log_bytes: self.bytes,
            branch_count: self.conversations.branches,
            message_count: self.conversations.messages,
            parts: part.words().to_vec(),
        }
    }

    /// Describes the parts in the state and in the log.
    fn describe(&self, part: Part) -> String {
        let called = self.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        let Conversations { branches, messages } = self.conversations;
        let state = format!("{} and {}", figures::things(branches, "branch"), figures::things(messages, "message"));
        let (log, id) = (figures::size(self.bytes), &self.id);
        match part {
            Part::All if messages == 0 && branches == 0 => format!("session {id}{called} and {log} of log"),
            Part::All => format!("session {id}{called}, {state}, and {log} of log"),
            Part::Context => format!("{state} of session {id}{called}"),
            Part::Log => format!("{log} of log of session {id}{called}"),
        }
    }
}

/// Asks for confirmation. Returns an error if stdin is not a terminal.
fn ask(context: &Context<'_>, held: &SessionContents, part: Part) -> Result<bool, Failure> {
    let what = held.describe(part);
    context.out.ask(&format!("delete {what}?")).ok_or_else(|| Failure::Given {
        message: format!("cannot delete {what}: stdin is not a terminal, so nobody can confirm"),
        hint: Some("add --yes".to_owned()),
    })
}

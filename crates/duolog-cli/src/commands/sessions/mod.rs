//! `duolog sessions`: the list of its commands and the arguments that they share.

mod add;
mod branch;
mod branches;
mod clear;
mod close;
mod compact;
mod delete;
mod export;
mod fork;
mod history;
mod import;
mod inbox;
mod items;
mod list;
mod new;
mod pop;
mod rename;
mod reopen;
mod run;
mod send;
mod set;
mod show;
mod similar;
mod vector;

use clap::Args;
use duolog::errors::NotFound;
use duolog::sessions::{BranchRef, SessionRef};
use duolog::{Error, InvocationKind, OperationId, SessionId, SourceKind, Store, Timestamp};
use serde_json::value::RawValue;

use super::Context;
use crate::args;
use crate::failure::Failure;

commands! {
/// Subcommands of `duolog sessions`.
Sessions {
    List(list::List),
    Show(show::Show),
    New(new::New),
    Set(set::Set),
    Rename(rename::Rename),
    Delete(delete::Delete),
    Export(export::Export),
    Import(import::Import),
    Add(add::Add),
    Items(items::Items),
    Pop(pop::Pop),
    Clear(clear::Clear),
    Fork(fork::Fork),
    #[command(subcommand)]
    Branch(branch::Branch),
    Branches(branches::Branches),
    Compact(compact::Compact),
    Close(close::Close),
    Reopen(reopen::Reopen),
    History(history::History),
    Run(run::Run),
    Similar(similar::Similar),
    Send(send::Send),
    Inbox(inbox::Inbox),
}}

/// Provenance of a session: agent, invocation, source and times.
#[derive(Args)]
struct Provenance {
    /// Name of the agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Kind of the invocation that started the session
    #[arg(long, value_parser = args::word(InvocationKind::ALL, InvocationKind::as_str))]
    kind: Option<InvocationKind>,
    /// Name of the playbook
    #[arg(long, value_name = "NAME")]
    playbook: Option<String>,
    /// Topic of the show
    #[arg(long, value_name = "TOPIC")]
    show_topic: Option<String>,
    /// Name of the play in the show
    #[arg(long, value_name = "NAME")]
    play: Option<String>,
    /// Directory of the artifacts
    #[arg(long, value_name = "DIR")]
    artifacts: Option<String>,
    /// Source of the session
    #[arg(long, value_parser = args::word(SourceKind::ALL, SourceKind::as_str))]
    source: Option<SourceKind>,
    /// Start time: an instant, a day, or an age like 12h
    #[arg(long, value_name = "TIME", value_parser = args::since)]
    started_at: Option<Timestamp>,
    /// End time: an instant, a day, or an age like 12h
    #[arg(long, value_name = "TIME", value_parser = args::since)]
    ended_at: Option<Timestamp>,
}

/// Selects a branch of the session.
#[derive(Args)]
struct OnBranch {
    /// Branch id or name [default: default branch of the session]
    #[arg(long, value_name = "BRANCH")]
    branch: Option<String>,
}

impl OnBranch {
    fn reference(&self) -> BranchRef {
        BranchRef::named(self.branch.as_deref())
    }
}

/// Returns the name of the actor: the given name, or the login name from the environment.
pub(super) fn actor(named: Option<String>) -> Option<String> {
    let of = |name| std::env::var(name).ok().filter(|user| !user.is_empty());
    named.or_else(|| of("USER")).or_else(|| of("LOGNAME"))
}

/// Resolves the session of an agent by its id, its thread name or a unique prefix of its id. Returns a valid id
/// unchanged, with a note, if the session does not exist: the id may be that of the agent's program, whose log is
/// recorded later or elsewhere.
pub(super) fn of_agent(context: &Context<'_>, store: &Store, text: &str) -> Result<SessionId, Failure> {
    match store.sessions().resolve(&SessionRef::Text(text.to_owned())) {
        Ok(session) => Ok(session.id),
        Err(error @ Error::NotFound(NotFound::Session(_))) => {
            let id = SessionId::parse(text).map_err(|_| Failure::from(error))?;
            context.out.note(format_args!("no session {id} exists here; the id is stored as given"));
            Ok(id)
        }
        Err(error) => Err(error.into()),
    }
}

/// Operation id of a command that changes sessions.
#[derive(Args)]
struct Operation {
    /// Operation id: the change is made once per id, and a retry returns the first answer
    #[arg(long = "operation-id", value_name = "ID")]
    operation: Option<OperationId>,
}

impl Operation {
    /// Returns the sessions handle; its changes use the operation id if one is given.
    fn sessions(self, store: &Store) -> duolog::sessions::Sessions {
        match self.operation {
            Some(operation) => store.sessions().once(operation),
            None => store.sessions(),
        }
    }
}

/// Returns an item on one line. Line breaks become spaces: JSON strings contain no raw line breaks.
pub(super) fn one_line(item: &str) -> String {
    item.replace(['\n', '\r'], " ")
}

/// Checks that --metadata is a JSON object.
pub(super) fn check_metadata(text: &str) -> Result<(), Failure> {
    let is_object = serde_json::from_str::<&RawValue>(text).is_ok_and(|raw| raw.get().starts_with('{'));
    if is_object {
        return Ok(());
    }
    Err(Failure::Given {
        message: "cannot read --metadata: it is not a JSON object".to_owned(),
        hint: Some("example: --metadata '{\"team\":\"blue\"}'".to_owned()),
    })
}

//! `duolog sessions`, and the shape that its commands share.

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
/// What to do with sessions.
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

/// Where a session comes from and what it is for.
#[derive(Args)]
struct Provenance {
    /// Name of the agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Kind of the invocation that started it
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
    /// Time at which it began: an instant, a day, or an age like 12h
    #[arg(long, value_name = "TIME", value_parser = args::since)]
    started_at: Option<Timestamp>,
    /// Time at which it ended, likewise
    #[arg(long, value_name = "TIME", value_parser = args::since)]
    ended_at: Option<Timestamp>,
}

/// The branch that a command is about.
#[derive(Args)]
struct OnBranch {
    /// The branch: its id, or its name; the session's default where it is not given
    #[arg(long, value_name = "BRANCH")]
    branch: Option<String>,
}

impl OnBranch {
    fn reference(&self) -> BranchRef {
        BranchRef::named(self.branch.as_deref())
    }
}

/// Who does something, where that is kept.
pub(super) fn actor(named: Option<String>) -> Option<String> {
    let of = |name| std::env::var(name).ok().filter(|user| !user.is_empty());
    named.or_else(|| of("USER")).or_else(|| of("LOGNAME"))
}

/// Returns the session that is called so, by its id, its name or a unique prefix. An id of a session that is not kept here
/// stays as it is: a runtime may report its session before it is.
pub(super) fn named(store: &Store, text: &str) -> Result<SessionId, Failure> {
    match store.sessions().resolve(&SessionRef::Text(text.to_owned())) {
        Ok(session) => Ok(session.id),
        Err(error @ Error::NotFound(NotFound::Session(_))) => SessionId::parse(text).map_err(|_| error.into()),
        Err(error) => Err(error.into()),
    }
}

/// Under which operation id a command changes sessions, if any.
#[derive(Args)]
struct Operation {
    /// Do it only once under this id, however often it is asked
    #[arg(long = "operation-id", alias = "operation", value_name = "ID")]
    operation: Option<OperationId>,
}

impl Operation {
    /// The sessions, to be changed under this id.
    fn sessions(self, store: &Store) -> duolog::sessions::Sessions {
        match self.operation {
            Some(operation) => store.sessions().once(operation),
            None => store.sessions(),
        }
    }
}

/// An item on one line. A line break in JSON is a space: within a string it cannot stand as itself.
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
        message: "--metadata is not a JSON object".to_owned(),
        hint: Some("--metadata '{\"team\":\"blue\"}'".to_owned()),
    })
}

//! `duolog sessions`, and the shape that its commands share.

mod add;
mod branches;
mod clear;
mod close;
mod compact;
mod delete;
mod export;
mod fork;
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
mod show;
mod similar;
mod vector;

use clap::{Args, Subcommand};
use duolog::sessions::{BranchRef, Session};
use duolog::{OperationId, Store};
use serde::Serialize;
use serde_json::value::RawValue;

use super::Context;
use crate::failure::Outcome;

/// What to do with sessions.
#[derive(Subcommand)]
pub enum Sessions {
    List(list::List),
    Show(show::Show),
    New(new::New),
    Rename(rename::Rename),
    Delete(delete::Delete),
    Export(export::Export),
    Import(import::Import),
    Add(add::Add),
    Items(items::Items),
    Pop(pop::Pop),
    Clear(clear::Clear),
    Fork(fork::Fork),
    Branches(branches::Branches),
    Compact(compact::Compact),
    Close(close::Close),
    Reopen(reopen::Reopen),
    Run(run::Run),
    Similar(similar::Similar),
    Send(send::Send),
    Inbox(inbox::Inbox),
}

impl Sessions {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        match self {
            Self::List(command) => command.run(context),
            Self::Show(command) => command.run(context),
            Self::New(command) => command.run(context),
            Self::Rename(command) => command.run(context),
            Self::Delete(command) => command.run(context),
            Self::Export(command) => command.run(context),
            Self::Import(command) => command.run(context),
            Self::Add(command) => command.run(context),
            Self::Items(command) => command.run(context),
            Self::Pop(command) => command.run(context),
            Self::Clear(command) => command.run(context),
            Self::Fork(command) => command.run(context),
            Self::Branches(command) => command.run(context),
            Self::Compact(command) => command.run(context),
            Self::Close(command) => command.run(context),
            Self::Reopen(command) => command.run(context),
            Self::Run(command) => command.run(context),
            Self::Similar(command) => command.run(context),
            Self::Send(command) => command.run(context),
            Self::Inbox(command) => command.run(context),
        }
    }
}

/// A session, whole, as programs get it.
#[derive(Serialize)]
struct Shape {
    id: String,
    user_id: Option<String>,
    name: Option<String>,
    scope: String,
    status: Option<&'static str>,
    created_at: String,
    started_at: Option<String>,
    updated_at: String,
    ended_at: Option<String>,
    cwd: Option<String>,
    agent_name: Option<String>,
    invocation_kind: Option<&'static str>,
    source_kind: &'static str,
    home_id: String,
    log_path: String,
    log_epoch: u32,
    node_metadata: Option<Box<RawValue>>,
}

impl From<&Session> for Shape {
    fn from(session: &Session) -> Self {
        Self {
            id: session.id.to_string(),
            user_id: session.user_id.clone(),
            name: session.name.clone(),
            scope: session.scope.clone(),
            status: session.status.map(duolog::SessionStatus::as_str),
            created_at: session.created_at.to_string(),
            started_at: session.started_at.map(|at| at.to_string()),
            updated_at: session.updated_at.to_string(),
            ended_at: session.ended_at.map(|at| at.to_string()),
            cwd: session.cwd.clone(),
            agent_name: session.agent_name.clone(),
            invocation_kind: session.invocation_kind.map(duolog::InvocationKind::as_str),
            source_kind: session.source_kind.as_str(),
            home_id: session.home_id.to_string(),
            log_path: session.log_path.clone(),
            log_epoch: session.log_epoch.0,
            node_metadata: session.node_metadata.as_deref().map(as_json),
        }
    }
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

/// Under which operation id a command changes sessions, if any.
#[derive(Args)]
struct Operation {
    /// Do it only once under this id, however often it is asked
    #[arg(long = "operation-id", alias = "operation", value_name = "ID")]
    operation: Option<OperationId>,
}

impl Operation {
    /// The sessions, to be changed under this id.
    fn sessions(self, store: &Store) -> duolog::sessions::Sessions<'_> {
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

/// Metadata as its maker wrote it; what is not JSON is a string.
pub(super) fn as_json(text: &str) -> Box<RawValue> {
    let raw = RawValue::from_string(text.to_owned()).or_else(|_| serde_json::value::to_raw_value(text));
    raw.unwrap_or_else(|_| RawValue::NULL.to_owned())
}

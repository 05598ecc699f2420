//! `duolog sessions branch`: new, rename, set.

use clap::{Args, Subcommand};
use duolog::sessions::{BranchChange, BranchRef, NewBranch};
use duolog_wire::BranchAnswer;

use super::{Context, OnBranch, check_metadata};
use crate::args::Which;
use crate::failure::{CommandResult, Ended, Failure};

const NEW: &str = "\
Examples:
  duolog sessions branch new demo --name review
  duolog sessions branch new demo --name plan --metadata '{\"model\":\"large\"}'

JSON:
  {\"branch\": {… as sessions branches …}}";

const RENAME: &str = "\
Examples:
  duolog sessions branch rename demo --branch review --name final
  duolog sessions branch rename demo --name main

JSON:
  {\"branch\": {… as sessions branches …}}";

const SET: &str = "\
Examples:
  duolog sessions branch set demo --branch review --metadata '{\"model\":\"small\"}'
  duolog sessions branch set demo --branch review --metadata ''

JSON:
  {\"branch\": {… as sessions branches …}}";

/// Create, rename or update a branch
#[derive(Subcommand)]
pub enum Branch {
    New(New),
    Rename(Rename),
    Set(Set),
}

/// Create an empty branch and print its id
///
/// The first branch of a session is its default branch. To create a branch that sees the items of another, use sessions
/// fork. Branch names are unique within a session.
#[derive(Args)]
#[command(after_help = NEW)]
pub struct New {
    #[command(flatten)]
    which: Which,
    /// Name of the branch
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// User of the branch
    #[arg(long = "branch-user", value_name = "USER")]
    owner: Option<String>,
    /// Metadata, as a JSON object
    #[arg(long, value_name = "JSON")]
    metadata: Option<String>,
}

/// Rename a branch
///
/// An empty name removes the name. A name that another branch of the session has is refused. The change is written to
/// the session's log.
#[derive(Args)]
#[command(after_help = RENAME)]
pub struct Rename {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    branch: OnBranch,
    /// New name
    #[arg(long, value_name = "NAME")]
    name: String,
}

/// Set the metadata of a branch
///
/// Fields that are not given do not change. An empty text clears a field. sessions branches --json shows the fields.
#[derive(Args)]
#[command(after_help = SET)]
pub struct Set {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    branch: OnBranch,
    /// User of the branch
    #[arg(long = "branch-user", value_name = "USER", required_unless_present = "metadata")]
    owner: Option<String>,
    /// Metadata, as a JSON object
    #[arg(long, value_name = "JSON")]
    metadata: Option<String>,
}

impl Branch {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        match self {
            Self::New(new) => new.run(context),
            Self::Rename(rename) => {
                let change = BranchChange { name: Some(rename.name), ..BranchChange::default() };
                change_branch(context, &rename.which, &rename.branch.reference(), &change, "renamed")
            }
            Self::Set(set) => {
                check(set.metadata.as_deref())?;
                let change = BranchChange { name: None, user_id: set.owner, node_metadata: set.metadata };
                change_branch(context, &set.which, &set.branch.reference(), &change, "set")
            }
        }
    }
}

impl New {
    fn run(self, context: &mut Context<'_>) -> CommandResult {
        check(self.metadata.as_deref())?;
        let reference = self.which.reference(context.config()?)?;
        let durability = context.config()?.durability();
        let store = context.open_to_write()?;
        let session = store.sessions().resolve(&reference)?;
        let new = NewBranch { name: self.name, user_id: self.owner, node_metadata: self.metadata };
        let branch = store.sessions().branches(&session.id).create(new, durability)?;
        context.out.answer(&BranchAnswer::from(&branch), |text| text.line(&branch.id))?;
        context.close(store);
        Ok(Ended::Done)
    }
}

fn change_branch(
    context: &mut Context<'_>,
    which: &Which,
    branch: &BranchRef,
    change: &BranchChange,
    done: &str,
) -> CommandResult {
    let reference = which.reference(context.config()?)?;
    let durability = context.config()?.durability();
    let store = context.open_to_write()?;
    let session = store.sessions().resolve(&reference)?;
    let branch = store.sessions().branches(&session.id).set(branch, change, durability)?;
    context.out.confirm(&BranchAnswer::from(&branch), |text| {
        let name = branch.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        text.line(format_args!("{done} branch {}{name}", branch.id));
    })?;
    context.close(store);
    Ok(Ended::Done)
}

fn check(metadata: Option<&str>) -> Result<(), Failure> {
    metadata.filter(|text| !text.is_empty()).map_or(Ok(()), check_metadata)
}

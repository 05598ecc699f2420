//! `duolog runs phase`: the executions and the history entries of a run's phases.

mod begin;
mod check;
mod complete;
mod end;
mod enter;
mod session;
mod skip;

use duolog_wire::PhaseStatus;

use super::super::Context;
use crate::failure::Ended;

commands! {
/// Subcommands of `duolog runs phase`.
Phase {
    Begin(begin::Begin),
    Session(session::SetSession),
    End(Box<end::End>),
    Skip(skip::Skip),
    Check(check::Check),
    Enter(enter::Enter),
    Complete(complete::Complete),
}}

/// Prints why a phase must not be run, and returns the exit code.
fn not_to_be_run(context: &Context<'_>, phase: &PhaseStatus) -> Ended {
    let execution = phase.execution_id.as_deref().unwrap_or_default();
    if phase.status == "done" {
        context.out.note(format_args!("phase {} is done: execution {execution} succeeded", phase.phase));
        return Ended::AlreadyDone;
    }
    context.out.note(format_args!("phase {} is running: execution {execution} is in flight", phase.phase));
    Ended::Busy
}

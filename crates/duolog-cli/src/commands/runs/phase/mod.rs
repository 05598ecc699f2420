//! `duolog runs phase`: what the ledger of executions says of a run's phases, and what its history keeps.

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
/// What to do with the phases of a run.
Phase {
    Begin(begin::Begin),
    Session(session::SetSession),
    End(Box<end::End>),
    Skip(skip::Skip),
    Check(check::Check),
    Enter(enter::Enter),
    Complete(complete::Complete),
}}

/// How a command ends for a phase that is not to be run, and says so.
fn not_to_be_run(context: &Context<'_>, phase: &PhaseStatus) -> Ended {
    let execution = phase.execution_id.as_deref().unwrap_or_default();
    if phase.status == "done" {
        context.out.note(format_args!("phase {} is done: execution {execution} succeeded", phase.phase));
        return Ended::AlreadyDone;
    }
    context.out.note(format_args!("phase {} is being run: execution {execution} is in flight", phase.phase));
    Ended::Busy
}

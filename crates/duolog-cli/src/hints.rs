//! Hints: the table from an error to one command or action that helps.

use duolog::errors::{Conflict, Invalid, NotFound, Remedy, Stale};
use duolog::search::BadQuery;
use duolog::{ApprovalKind, Error};

/// Returns the hint for an error; `None` if there is none.
pub fn of(error: &Error) -> Option<String> {
    if let Some(fault) = error.fault() {
        return fault.remedy().map(|remedy| of_remedy(&remedy));
    }
    let hint = match error {
        Error::NotFound(error) => of_absent(error),
        Error::Conflict(error) => of_conflict(error),
        Error::Stale(Stale::ClaimEnded { run, .. }) => {
            Some(format!("stop; to claim the run again, run: duolog runs claim {run} --owner NAME"))
        }
        Error::Stale(Stale::GateChanged { gate }) => {
            Some(format!("to show the new content, run: duolog approvals show {gate}"))
        }
        Error::Invalid(error) => of_invalid(error),
        _ => None,
    };
    // Use the hint of the library if no command helps.
    hint.or_else(|| error.hint())
}

fn of_absent(error: &NotFound) -> Option<String> {
    let noun = match error {
        NotFound::Session(_) => "sessions",
        NotFound::Schedule { near: None, .. } => "schedules",
        NotFound::Chat(_) => "chats",
        NotFound::Run(_) => "runs",
        NotFound::Approval(_) => "approvals",
        NotFound::Branch { session, .. } => {
            return Some(format!("to list the branches, run: duolog sessions branches {session}"));
        }
        NotFound::Recipient(name) => {
            return Some(format!("to list the sessions, run: duolog sessions list; for a topic, use --topic {name:?}"));
        }
        NotFound::Summary => return Some("to show the summaries, run: duolog sessions compact --info".to_owned()),
        _ => return None,
    };
    Some(format!("to list the {noun}, run: duolog {noun} list"))
}

fn of_conflict(error: &Conflict) -> Option<String> {
    Some(match error {
        Conflict::RunStands { run, .. } | Conflict::RunCannot { run, .. } => {
            format!("to show the run, run: duolog runs show {run}")
        }
        Conflict::RunTaken { run, .. } => format!("use another id, or show the run: duolog runs show {run}"),
        Conflict::GateTaken { gate, .. } => {
            format!("use another id, or show the gate: duolog approvals show {gate}")
        }
        Conflict::GivenUp { run, .. } => format!("fix the cause of the crashes, then run: duolog runs retry {run}"),
        Conflict::WorkflowDisabled { workflow, .. } => {
            format!("to enable the workflow, run: duolog workflows enable {workflow}")
        }
        Conflict::GatePending { gate, .. } => format!("to show the gate, run: duolog approvals show {gate}"),
        Conflict::BranchNameTaken { branch, .. } => {
            format!("choose another name, or use the existing branch: --branch {branch}")
        }
        Conflict::Ended { session, .. } => {
            format!("to reopen the session, run: duolog sessions reopen {session} --reason WHY")
        }
        _ => return None,
    })
}

fn of_invalid(error: &Invalid) -> Option<String> {
    Some(match error {
        Invalid::OtherPage(_) => {
            "run the command that printed the token, with the same filters and order, and add --after".to_owned()
        }
        Invalid::GateHashMissing { gate } => {
            format!("to show the content and its hash, run: duolog approvals show {gate}; then add --hash")
        }
        Invalid::ExecutionOfRun { execution, run } => format!("run: duolog runs phase end {run} {execution}"),
        Invalid::GateKind { gate, kind: ApprovalKind::Reply } => format!("run: duolog approvals reply {gate} TEXT"),
        Invalid::GateKind { gate, .. } => {
            format!("run: duolog approvals approve {gate} or duolog approvals reject {gate}")
        }
        Invalid::Query(BadQuery::Empty | BadQuery::OnlyExcludes) => {
            "add a word to search for, for example: duolog log search 'deadlock -test'".to_owned()
        }
        Invalid::OtherSession { session, .. } => {
            format!("to list the branches, run: duolog sessions branches {session}")
        }
        Invalid::Document { .. } => {
            "nothing was changed; export the document again with duolog sessions export".to_owned()
        }
        _ => return None,
    })
}

/// Returns the hint for a remedy of the library.
pub fn of_remedy(remedy: &Remedy) -> String {
    let words = match remedy {
        Remedy::ListSessions => "to list the sessions, run: duolog sessions list",
        Remedy::LogChanged => {
            "the change is recorded; run duolog doctor to show it; the next append continues in the current log"
        }
        Remedy::RepairLost(session) => {
            return format!(
                "to show the lost bytes, run: duolog log verify {session}; to record them, run: duolog log repair {session}"
            );
        }
        Remedy::RepairLog => "to copy the readable lines to a new file, run: duolog log repair --session ID",
        Remedy::OtherHome => "run the command in that home",
        Remedy::NotALog => "move it away, then run: duolog doctor",
        Remedy::Position => "use a position that duolog printed",
        Remedy::Restore { on_server: true } => {
            "to show the damage, run: duolog doctor; restore the database from a backup (pg_dump)"
        }
        Remedy::Restore { .. } => "to show the damage, run: duolog doctor; restore state.db from a backup",
        Remedy::Migrate => "to update the schema, run: duolog state migrate",
        Remedy::Create { on_server: true } => {
            "check the address; to create the tables there, run: duolog state migrate"
        }
        Remedy::Create { .. } => "check the address; to create the database there, run: duolog state migrate",
        Remedy::AnotherHome => "set another directory with --home or DUOLOG_HOME",
        Remedy::ShorterHome => "set a home with a shorter path with --home or DUOLOG_HOME",
        Remedy::CreateHome => "to create the home, run: duolog init",
        Remedy::NoIndex => "to search the logs without the index, run: duolog log search --no-index QUERY",
        other => return other.to_string(),
    };
    words.to_owned()
}

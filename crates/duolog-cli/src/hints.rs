//! What to do about an error, as a command: the one table from what happened to a hint.

use duolog::errors::{Conflict, Invalid, NotFound, Remedy, Stale};
use duolog::search::BadQuery;
use duolog::{ApprovalKind, Error};

/// Returns one command or one action that helps; `None` if there is none.
pub fn of(error: &Error) -> Option<String> {
    if let Some(fault) = error.fault() {
        return fault.remedy().map(|remedy| of_remedy(&remedy));
    }
    let hint = match error {
        Error::NotFound(error) => of_absent(error),
        Error::Conflict(error) => of_conflict(error),
        Error::Stale(Stale::ClaimEnded { run, .. }) => {
            Some(format!("stop; once it is running: duolog runs claim {run} --owner NAME"))
        }
        Error::Stale(Stale::GateChanged { gate }) => Some(format!("look again: duolog approvals show {gate}")),
        Error::Invalid(error) => of_invalid(error),
        _ => None,
    };
    // The words of the library do where no command is to be named.
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
            return Some(format!("duolog sessions branches {session} shows what there is"));
        }
        NotFound::Recipient(name) => {
            let topic = format!("--topic {name:?} names a topic, which is no session");
            return Some(format!("duolog sessions list shows the sessions; {topic}"));
        }
        NotFound::Summary => return Some("duolog sessions compact --info shows what holds".to_owned()),
        _ => return None,
    };
    Some(format!("duolog {noun} list shows what there is"))
}

fn of_conflict(error: &Conflict) -> Option<String> {
    Some(match error {
        Conflict::RunStands { run, .. } | Conflict::RunCannot { run, .. } => {
            format!("duolog runs show {run} shows its status")
        }
        Conflict::RunTaken { run, .. } => format!("duolog runs show {run} shows it; start the other with another id"),
        Conflict::GateTaken { gate, .. } => {
            format!("duolog approvals show {gate} shows it; give the other another id")
        }
        Conflict::GivenUp { run, .. } => format!("find out why it died, then: duolog runs retry {run}"),
        Conflict::WorkflowDisabled { workflow, .. } => format!("duolog workflows enable {workflow}"),
        Conflict::GatePending { gate, .. } => format!("duolog approvals show {gate}"),
        Conflict::BranchNameTaken { branch, .. } => {
            format!("choose another name, or use the one there: --branch {branch}")
        }
        Conflict::Ended { session, .. } => format!("duolog sessions reopen {session} --reason WHY"),
        _ => return None,
    })
}

fn of_invalid(error: &Invalid) -> Option<String> {
    Some(match error {
        Invalid::OtherPage(_) => {
            "give the command that printed the token, with the same filters and order, and --after".to_owned()
        }
        Invalid::GateHashMissing { gate } => {
            format!("duolog approvals show {gate} shows what it is about; answer with --hash")
        }
        Invalid::ExecutionOfRun { execution, run } => format!("duolog runs phase end {run} {execution}"),
        Invalid::GateKind { gate, kind: ApprovalKind::Reply } => format!("duolog approvals reply {gate} TEXT"),
        Invalid::GateKind { gate, .. } => format!("duolog approvals approve {gate}, or reject"),
        Invalid::Query(BadQuery::Empty | BadQuery::OnlyExcludes) => {
            "give a word to look for, like: duolog log search 'deadlock -test'".to_owned()
        }
        Invalid::OtherSession { session, .. } => format!("duolog sessions branches {session} shows what there is"),
        Invalid::Document { .. } => {
            "nothing was changed; write the document anew with duolog sessions export".to_owned()
        }
        _ => return None,
    })
}

/// Returns the words for what the stores answered.
pub fn of_remedy(remedy: &Remedy) -> String {
    let words = match remedy {
        Remedy::ListSessions => "duolog sessions list shows what there is",
        Remedy::LogChanged => {
            "it is on record; `duolog doctor` tells, and the next append goes on in the log as it is now"
        }
        Remedy::RepairLost(session) => {
            return format!("duolog log verify {session} shows what is gone; duolog log repair {session} records it");
        }
        Remedy::RepairLog => "duolog log repair --session ID copies what can be read into a new file",
        Remedy::OtherHome => "run the command in that home",
        Remedy::NotALog => "move it away, then run duolog doctor",
        Remedy::Position => "use a position that duolog printed",
        Remedy::Restore { on_server: true } => {
            "duolog doctor says what is damaged; restore the database from a copy of it (pg_dump)"
        }
        Remedy::Restore { .. } => "duolog doctor says what is damaged; restore state.db from a backup",
        Remedy::Migrate => "duolog state migrate brings it up to date",
        Remedy::Create { on_server: true } => {
            "see that the address is right; duolog state migrate makes the tables there"
        }
        Remedy::Create { .. } => "see that the address is right; duolog state migrate makes it there",
        Remedy::AnotherHome => "name another directory with --home or DUOLOG_HOME",
        Remedy::ShorterHome => "name a home with a shorter path with --home or DUOLOG_HOME",
        Remedy::CreateHome => "duolog init makes one",
        Remedy::NoIndex => "duolog log search --no-index reads the logs instead",
        other => return other.to_string(),
    };
    words.to_owned()
}

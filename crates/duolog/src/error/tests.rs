use std::sync::Arc;

use duolog_state::Error as StateError;
use duolog_types::SessionId;

use super::*;

fn cause() -> duolog_state::Cause {
    Arc::new(std::io::Error::other("why"))
}

#[test]
fn errors_of_a_server_have_a_kind_and_a_hint() {
    let place = || "postgres://ada@h/d".to_owned();
    let detail = || "the detail".to_owned();
    let cases = [
        (StateError::BadAddress { detail: detail() }, ErrorKind::Invalid, "postgres://USER"),
        (StateError::NoPostgres, ErrorKind::Invalid, "feature postgres"),
        (StateError::Unreachable { place: place(), detail: detail() }, ErrorKind::Io, "host and port"),
        (StateError::Denied { place: place(), detail: detail() }, ErrorKind::Io, "PGPASSWORD"),
        (
            StateError::TooOld { place: place(), found: "9.6".to_owned(), needed: 15 },
            ErrorKind::Io,
            "upgrade the server",
        ),
        (StateError::Development { place: place(), found: 17 }, ErrorKind::Io, "an empty database"),
        (StateError::Development { place: "/srv/state.db".to_owned(), found: 17 }, ErrorKind::Io, "another directory"),
        (StateError::Foreign { place: place() }, ErrorKind::Io, "an empty database"),
        (StateError::Foreign { place: "/srv/state.db".to_owned() }, ErrorKind::Io, "another directory"),
        (StateError::Missing { place: place() }, ErrorKind::NotFound, "creates the state"),
        (StateError::Damaged { what: place(), detail: detail() }, ErrorKind::Damaged, "pg_dump"),
        (StateError::Damaged { what: "/srv/state.db".to_owned(), detail: detail() }, ErrorKind::Damaged, "state.db"),
        (StateError::Conflict { source: cause() }, ErrorKind::Busy, "try again"),
        (
            StateError::Busy { what: "every connection of this process", holder: None },
            ErrorKind::Busy,
            "max_connections",
        ),
        (StateError::Busy { what: "the state", holder: None }, ErrorKind::Busy, "try again"),
        (StateError::Unknown { source: cause() }, ErrorKind::Unknown, "the same operation id"),
        (StateError::SyncFailed { source: cause() }, ErrorKind::Io, "disk errors"),
        (StateError::PathTooLong { path: "/srv".into(), bytes: 505, max: 504 }, ErrorKind::Invalid, "a shorter path"),
        (StateError::NeedsMigration { found: 1, known: 2 }, ErrorKind::Io, "migrates the state"),
    ];
    for (error, kind, hint) in cases {
        let error = Error::from(error);
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.hint().is_some_and(|told| told.contains(hint)), "{error}: {:?}", error.hint());
    }
    assert_eq!(Error::from(StateError::Nul).kind(), ErrorKind::Invalid);
    let not_here = StateError::NotHere { what: "this", instead: "that" };
    assert_eq!(Error::from(not_here).kind(), ErrorKind::Unsupported);
    assert!(matches!(Error::from(StateError::Closed), Error::Closed));
}

/// Hints of the library name methods, never commands of the CLI.
#[test]
fn hints_name_methods_and_not_commands() {
    let session = || SessionId::parse("s").expect("an id");
    let remedies = [
        Remedy::ListSessions,
        Remedy::LogChanged,
        Remedy::RepairLost(session()),
        Remedy::RepairLog,
        Remedy::OtherHome,
        Remedy::NotALog,
        Remedy::Position,
        Remedy::Restore { on_server: true },
        Remedy::Restore { on_server: false },
        Remedy::Migrate,
        Remedy::Create { on_server: true },
        Remedy::Create { on_server: false },
        Remedy::AnotherHome,
        Remedy::ShorterHome,
        Remedy::CreateHome,
        Remedy::NoIndex,
    ];
    let errors = [
        Error::NotFound(NotFound::Session("s".to_owned())),
        Error::NotFound(NotFound::Recipient("s".to_owned())),
        Error::NotFound(NotFound::Summary),
        Error::Conflict(Conflict::WorkflowDisabled { workflow: "w".to_owned(), by: None }),
        Error::Invalid(Invalid::OtherPage("t".to_owned())),
        Error::Closed,
    ];
    let hints = errors.iter().map(|error| error.hint().unwrap_or_else(|| panic!("{error} has no hint")));
    for hint in remedies.iter().map(ToString::to_string).chain(hints) {
        assert!(!hint.contains("duolog ") && !hint.contains("--") && !hint.contains("DUOLOG_"), "{hint}");
    }
}

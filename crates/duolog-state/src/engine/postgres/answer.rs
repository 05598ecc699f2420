//! Maps the server's errors to [`Error`]s. No message contains a password.

use std::error::Error as StdError;
use std::sync::Arc;

use duolog_types::with_causes;
use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::address::Server;
use crate::error::{ConstraintKind, Error};

/// The detail of the error while a server is starting, stopping or recovering.
const STARTING: &str = "it is starting up or shutting down";

/// Maps the error of a statement.
pub(super) fn fault(server: &Server, error: tokio_postgres::Error) -> Error {
    if error.is_closed() || is_io(&error) {
        return unreachable(server, "the connection was lost".to_owned());
    }
    if let Some(ours) = error.source().and_then(|source| source.downcast_ref::<Error>()) {
        return ours.clone();
    }
    match error.as_db_error().map(|answer| known_error(server, answer)) {
        Some(Some(known)) => known,
        _ if error.code().is_some_and(is_conflict) => Error::Conflict { source: Arc::new(error) },
        _ if error.code() == Some(&SqlState::DISK_FULL) => Error::Full { source: Arc::new(error) },
        _ => Error::Engine { source: Arc::new(error) },
    }
}

/// Maps the error of a connection attempt.
pub(super) fn connecting(server: &Server, error: &tokio_postgres::Error) -> Error {
    match error.as_db_error() {
        Some(answer) => known_error(server, answer)
            .unwrap_or_else(|| Error::Denied { place: server.to_string(), detail: answer.message().to_owned() }),
        None if is_io(error) || error.is_closed() => unreachable(server, causes(server, error)),
        None => {
            let detail = causes(server, error);
            // Any error but a timeout is an answer: for example a missing password or an untrusted certificate.
            if detail.contains("timed out") || detail.contains("timeout") {
                unreachable(server, detail)
            } else {
                Error::Denied { place: server.to_string(), detail }
            }
        }
    }
}

/// Maps the error of a commit: rolled back if the server says so, otherwise [`Error::Unknown`].
pub(super) fn failed_commit(server: &Server, error: tokio_postgres::Error) -> Error {
    let certain = error.as_db_error().is_some_and(|answer| {
        answer.parsed_severity() == Some(Severity::Error) && *answer.code() != SqlState::TRANSACTION_RESOLUTION_UNKNOWN
    });
    if certain { fault(server, error) } else { Error::Unknown { source: Arc::new(error) } }
}

/// Returns true if the server was reached but is not ready.
pub(super) fn is_starting(error: &Error) -> bool {
    matches!(error, Error::Unreachable { detail, .. } if detail == STARTING)
}

fn is_conflict(code: &SqlState) -> bool {
    [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED].contains(code)
}

/// Maps a SQLSTATE that has its own [`Error`]. `None` for any other.
fn known_error(server: &Server, answer: &DbError) -> Option<Error> {
    let place = || server.to_string();
    let constraint = |kind| {
        // Not the server's detail: it repeats the row.
        let detail = answer.constraint().map_or_else(|| answer.message().to_owned(), str::to_owned);
        Some(Error::Constraint { kind, detail })
    };
    let detail = || answer.message().to_owned();
    match answer.code().code() {
        "23505" => constraint(ConstraintKind::Unique),
        "23514" => constraint(ConstraintKind::Check),
        "23503" => constraint(ConstraintKind::ForeignKey),
        "23502" => constraint(ConstraintKind::NotNull),
        // The key is too long for an index.
        "54000" => constraint(ConstraintKind::Other),
        code if code.starts_with("23") => constraint(ConstraintKind::Other),
        // lock_timeout or statement_timeout.
        "55P03" | "57014" => Some(Error::Busy { what: "the state", holder: None }),
        "53300" => Some(Error::Busy { what: "every connection that the server allows", holder: None }),
        "57P03" => Some(unreachable(server, STARTING.to_owned())),
        code if code.starts_with("57P") || code.starts_with("08") => Some(unreachable(server, detail())),
        "42501" => Some(Error::Denied { place: place(), detail: detail() }),
        code if code.starts_with("28") || code == "3D000" => Some(Error::Denied { place: place(), detail: detail() }),
        "25006" => Some(Error::ReadOnly),
        "XX001" | "XX002" => Some(Error::Damaged { what: place(), detail: detail() }),
        _ => None,
    }
}

fn unreachable(server: &Server, detail: String) -> Error {
    Error::Unreachable { place: server.to_string(), detail }
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    error.source().is_some_and(|source| source.is::<std::io::Error>() && !with_causes(error).contains("certificate"))
}

/// Returns the error and its causes in one line, with the password removed in case the driver repeats it.
fn causes(server: &Server, error: &tokio_postgres::Error) -> String {
    let text = with_causes(error);
    let password = server.config.get_password().map(String::from_utf8_lossy).filter(|password| !password.is_empty());
    password.map_or_else(|| text.clone(), |password| text.replace(&*password, "…"))
}

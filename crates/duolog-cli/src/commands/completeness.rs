//! How an answer from derived rows says whether it is complete.

use duolog::CaughtUp;
use serde::Serialize;

use crate::figures;
use crate::out::Out;

/// What an answer says of its completeness, in JSON.
#[derive(Serialize)]
pub struct Completeness {
    pub complete: bool,
    pub behind: Behind,
}

/// What is missing.
#[derive(Serialize)]
pub struct Behind {
    sessions: u64,
    bytes: u64,
    sessions_elsewhere: u64,
    sessions_lost: u64,
    bytes_lost: u64,
}

impl From<&CaughtUp> for Completeness {
    fn from(caught_up: &CaughtUp) -> Self {
        let CaughtUp { sessions_behind: sessions, bytes_behind: bytes, .. } = *caught_up;
        let CaughtUp { sessions_elsewhere, sessions_lost, bytes_lost, .. } = *caught_up;
        let behind = Behind { sessions, bytes, sessions_elsewhere, sessions_lost, bytes_lost };
        Self { complete: caught_up.is_complete(), behind }
    }
}

/// Says on stderr what is missing, even with --quiet.
pub fn alert(out: &Out, caught_up: &CaughtUp) {
    let CaughtUp { sessions_behind, bytes_behind, sessions_elsewhere, sessions_lost, bytes_lost } = *caught_up;
    if sessions_lost > 0 {
        let (sessions, bytes) = (figures::things(sessions_lost, "session"), figures::size(bytes_lost));
        out.alert(format_args!(
            "the logs are incomplete: {bytes} recorded of {sessions} are lost; run: duolog log verify --all"
        ));
    }
    if sessions_behind > 0 {
        let (sessions, bytes) = (figures::things(sessions_behind, "session"), figures::size(bytes_behind));
        out.alert(format_args!(
            "the counts are incomplete: {bytes} of log lines in {sessions} are not counted yet; run: duolog state rebuild"
        ));
    }
    if sessions_elsewhere > 0 {
        let sessions = figures::things(sessions_elsewhere, "session");
        out.alert(format_args!(
            "the counts may be incomplete: {sessions} of other homes may have lines that are not counted yet"
        ));
    }
}

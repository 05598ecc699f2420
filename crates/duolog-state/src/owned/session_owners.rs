//! `session_owners`: the processes that run sessions.

use duolog_types::{SessionId, Timestamp};

use crate::engine::Tx;
use crate::error::Result;
use crate::params;

/// The process that runs a session. The fields tell it from a later process with the same PID.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionOwnerRow {
    /// The session.
    pub session_id: SessionId,
    /// The PID.
    pub pid: u32,
    /// When the process started, in the system's own units.
    pub process_started: Option<String>,
    /// The host name.
    pub host: Option<String>,
    /// The id of the machine's boot.
    pub boot_id: Option<String>,
    /// When it started to run the session.
    pub since: Timestamp,
}

/// Sets the process that runs a session, instead of any other.
pub fn put(tx: &mut Tx<'_>, row: &SessionOwnerRow) -> Result<()> {
    let sql = "INSERT INTO session_owners (session_id, pid, process_started, host, boot_id, since) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (session_id) DO UPDATE SET pid = excluded.pid, \
               process_started = excluded.process_started, host = excluded.host, boot_id = excluded.boot_id, \
               since = excluded.since";
    let values = params![
        &row.session_id,
        row.pid,
        row.process_started.as_ref(),
        row.host.as_ref(),
        row.boot_id.as_ref(),
        row.since,
    ];
    tx.execute(sql, values).map(drop)
}

/// Returns the process that runs a session, if any.
pub fn find(tx: &mut Tx<'_>, session: &SessionId) -> Result<Option<SessionOwnerRow>> {
    let sql = "SELECT session_id, pid, process_started, host, boot_id, since FROM session_owners WHERE session_id = ?1";
    tx.find(sql, params![session], |row| {
        Ok(SessionOwnerRow {
            session_id: row.get(0)?,
            pid: row.get(1)?,
            process_started: row.get(2)?,
            host: row.get(3)?,
            boot_id: row.get(4)?,
            since: row.get(5)?,
        })
    })
}

/// Removes the process of a session. Returns false if there is none.
pub fn remove(tx: &mut Tx<'_>, session: &SessionId) -> Result<bool> {
    Ok(tx.execute("DELETE FROM session_owners WHERE session_id = ?1", params![session])? == 1)
}

//! `log_paths`: every path that a log ever had. A path never belongs to a second session.

use duolog_types::{HomeId, SessionId};

use crate::engine::Tx;
use crate::error::Result;
use crate::params;

/// Reserves a path for a session for ever. Returns false if a session has had it.
pub fn take(tx: &mut Tx<'_>, home: &HomeId, log_key: &str, session: &SessionId) -> Result<bool> {
    let sql = "INSERT INTO log_paths (home_id, log_key, session_id) VALUES (?1, ?2, ?3) \
               ON CONFLICT (home_id, log_key) DO NOTHING";
    Ok(tx.execute(sql, params![home, log_key, session])? == 1)
}

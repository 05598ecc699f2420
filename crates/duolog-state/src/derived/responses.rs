//! `responses`: which session counts a response that several logs may tell of.

use std::collections::HashMap;

use duolog_types::SessionId;

use crate::engine::{Tx, Value};
use crate::error::Result;
use crate::params;

/// The keys of one statement: as many as are asked for together, so that a server is not asked for each by itself.
const KEYS: usize = 64;

/// The sessions that count these responses, where one does.
pub fn owners(tx: &mut Tx<'_>, keys: &[u64]) -> Result<HashMap<u64, SessionId>> {
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let places: Vec<String> = (1..=KEYS).map(|place| format!("?{place}")).collect();
    let sql = format!("SELECT response, session_id FROM responses WHERE response IN ({})", places.join(", "));
    let mut found = HashMap::new();
    for some in keys.chunks(KEYS) {
        // One statement for any number: what is missing to it is asked for twice.
        let last = some.last().copied().unwrap_or_default();
        let values: Vec<Value<'_>> = (0..KEYS).map(|at| kept(*some.get(at).unwrap_or(&last)).into()).collect();
        found.extend(tx.all(&sql, &values, |row| Ok((row.get::<i64>(0)?.cast_unsigned(), row.get(1)?)))?);
    }
    Ok(found)
}

/// Has a session count these responses from now on, whoever did before. No key may stand there twice.
pub fn claim(tx: &mut Tx<'_>, session: &SessionId, keys: &[u64]) -> Result<()> {
    let (many, rest) = keys.as_chunks::<KEYS>();
    for some in many.iter().map(<[u64; KEYS]>::as_slice).chain(rest.chunks(1)) {
        let rows: Vec<String> = (0..some.len()).map(|at| format!("(?{}, ?1)", at + 2)).collect();
        let sql = format!(
            "INSERT INTO responses (response, session_id) VALUES {} \
             ON CONFLICT (response) DO UPDATE SET session_id = excluded.session_id",
            rows.join(", ")
        );
        let values: Vec<Value<'_>> =
            std::iter::once(session.into()).chain(some.iter().map(|key| kept(*key).into())).collect();
        tx.execute(&sql, &values)?;
    }
    Ok(())
}

/// Confirms that a session counts a response; false if it does not.
///
/// The row is written, not only read: on a server a transaction that changes who counts it, and began before this one ended,
/// must not miss that another relies on it.
pub fn confirm(tx: &mut Tx<'_>, session: &SessionId, key: u64) -> Result<bool> {
    let sql = "UPDATE responses SET session_id = session_id WHERE response = ?1 AND session_id = ?2";
    Ok(tx.execute(sql, params![kept(key), session])? == 1)
}

/// Forgets what a session counts.
pub fn forget(tx: &mut Tx<'_>, session: &SessionId) -> Result<()> {
    tx.execute("DELETE FROM responses WHERE session_id = ?1", params![session]).map(drop)
}

/// Every row, by its key: for comparing a rebuild with what was there.
pub fn dump(tx: &mut Tx<'_>) -> Result<Vec<(u64, SessionId)>> {
    tx.all("SELECT response, session_id FROM responses ORDER BY response", &[], |row| {
        Ok((row.get::<i64>(0)?.cast_unsigned(), row.get(1)?))
    })
}

/// Columns are signed.
const fn kept(key: u64) -> i64 {
    key.cast_signed()
}

//! `responses`: the session that counts a response, if several logs may have it.

use std::collections::HashMap;

use duolog_types::SessionId;

use crate::engine::{Row, Tx, Value};
use crate::error::Result;
use crate::params;

/// The number of keys per statement, so that a server gets one query for many keys.
const KEYS: usize = 64;

/// The session that counts a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The session.
    pub session_id: SessionId,
    /// The weight of its claim.
    pub weight: u64,
}

impl Owner {
    /// Returns true if another session's claim of this weight does not take over the response: the larger weight wins,
    /// then the smaller id.
    pub fn holds_against(&self, session: &SessionId, weight: u64) -> bool {
        self.session_id != *session && (self.weight > weight || (self.weight == weight && self.session_id < *session))
    }
}

/// A session's claim on a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseClaim {
    /// The key of the response.
    pub response: u64,
    /// The weight of the claim against other sessions' claims.
    pub weight: u64,
}

/// Returns the sessions that count these responses. A response without an owner is left out.
pub fn owners(tx: &mut Tx<'_>, keys: &[u64]) -> Result<HashMap<u64, Owner>> {
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let places: Vec<String> = (1..=KEYS).map(|place| format!("?{place}")).collect();
    let sql = format!("SELECT response, session_id, weight FROM responses WHERE response IN ({})", places.join(", "));
    let mut found = HashMap::new();
    for chunk in keys.chunks(KEYS) {
        // One statement for any number of keys: the last key fills the rest.
        let last = chunk.last().copied().unwrap_or_default();
        let values: Vec<Value<'_>> = (0..KEYS).map(|at| to_column(*chunk.get(at).unwrap_or(&last)).into()).collect();
        found.extend(tx.all(&sql, &values, read)?);
    }
    Ok(found)
}

/// Makes a session the owner of these responses, instead of any other. `claims` must not have a key twice.
///
/// If the session is the owner already, the larger weight is kept.
pub fn claim(tx: &mut Tx<'_>, session: &SessionId, claims: &[ResponseClaim]) -> Result<()> {
    let (many, rest) = claims.as_chunks::<KEYS>();
    for chunk in many.iter().map(<[ResponseClaim; KEYS]>::as_slice).chain(rest.chunks(1)) {
        let rows: Vec<String> = (0..chunk.len()).map(|at| format!("(?{}, ?1, ?{})", 2 * at + 2, 2 * at + 3)).collect();
        let sql = format!(
            "INSERT INTO responses (response, session_id, weight) VALUES {} \
             ON CONFLICT (response) DO UPDATE SET session_id = excluded.session_id, \
             weight = CASE WHEN responses.session_id = excluded.session_id AND responses.weight > excluded.weight \
             THEN responses.weight ELSE excluded.weight END",
            rows.join(", ")
        );
        let claims = chunk.iter().flat_map(|claim| [to_column(claim.response).into(), claim.weight.into()]);
        let values: Vec<Value<'_>> = std::iter::once(session.into()).chain(claims).collect();
        tx.execute(&sql, &values)?;
    }
    Ok(())
}

/// Confirms that a session counts a response. Returns false if it does not.
///
/// The row is written, not only read: on a server, a concurrent transaction that changes the owner must conflict with
/// this one.
pub fn confirm(tx: &mut Tx<'_>, session: &SessionId, key: u64) -> Result<bool> {
    let sql = "UPDATE responses SET session_id = session_id WHERE response = ?1 AND session_id = ?2";
    Ok(tx.execute(sql, params![to_column(key), session])? == 1)
}

/// Deletes the claims of a session.
pub fn forget(tx: &mut Tx<'_>, session: &SessionId) -> Result<()> {
    tx.execute("DELETE FROM responses WHERE session_id = ?1", params![session]).map(drop)
}

/// Returns every row, by key, to compare a rebuild with the rows before it.
pub fn dump(tx: &mut Tx<'_>) -> Result<Vec<(u64, Owner)>> {
    tx.all("SELECT response, session_id, weight FROM responses ORDER BY response", &[], read)
}

fn read(row: &Row<'_>) -> Result<(u64, Owner)> {
    Ok((row.get::<i64>(0)?.cast_unsigned(), Owner { session_id: row.get(1)?, weight: row.get(2)? }))
}

/// Converts a key to a column's signed integer.
const fn to_column(key: u64) -> i64 {
    key.cast_signed()
}

//! `responses`: which session counts a response that several logs may tell of.

use std::collections::HashMap;

use duolog_types::SessionId;

use crate::engine::{Row, Tx, Value};
use crate::error::Result;
use crate::params;

/// The keys of one statement: as many as are asked for together, so that a server is not asked for each by itself.
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
    /// Returns true if another session's claim of this weight does not change who counts the response: the larger weight
    /// holds, then the smaller id.
    pub fn holds_against(&self, session: &SessionId, weight: u64) -> bool {
        self.session_id != *session && (self.weight > weight || (self.weight == weight && self.session_id < *session))
    }
}

/// What a session claims of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseClaim {
    /// The key of the response.
    pub response: u64,
    /// How much the claim counts against another session's.
    pub weight: u64,
}

/// The sessions that count these responses, where one does.
pub fn owners(tx: &mut Tx<'_>, keys: &[u64]) -> Result<HashMap<u64, Owner>> {
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let places: Vec<String> = (1..=KEYS).map(|place| format!("?{place}")).collect();
    let sql = format!("SELECT response, session_id, weight FROM responses WHERE response IN ({})", places.join(", "));
    let mut found = HashMap::new();
    for some in keys.chunks(KEYS) {
        // One statement for any number: what is missing to it is asked for twice.
        let last = some.last().copied().unwrap_or_default();
        let values: Vec<Value<'_>> = (0..KEYS).map(|at| kept(*some.get(at).unwrap_or(&last)).into()).collect();
        found.extend(tx.all(&sql, &values, read)?);
    }
    Ok(found)
}

/// Has a session count these responses from now on, whoever did before. No key may stand there twice.
///
/// A claim that the session has already keeps the larger weight.
pub fn claim(tx: &mut Tx<'_>, session: &SessionId, claims: &[ResponseClaim]) -> Result<()> {
    let (many, rest) = claims.as_chunks::<KEYS>();
    for some in many.iter().map(<[ResponseClaim; KEYS]>::as_slice).chain(rest.chunks(1)) {
        let rows: Vec<String> = (0..some.len()).map(|at| format!("(?{}, ?1, ?{})", 2 * at + 2, 2 * at + 3)).collect();
        let sql = format!(
            "INSERT INTO responses (response, session_id, weight) VALUES {} \
             ON CONFLICT (response) DO UPDATE SET session_id = excluded.session_id, \
             weight = CASE WHEN responses.session_id = excluded.session_id AND responses.weight > excluded.weight \
             THEN responses.weight ELSE excluded.weight END",
            rows.join(", ")
        );
        let claims = some.iter().flat_map(|claim| [kept(claim.response).into(), claim.weight.into()]);
        let values: Vec<Value<'_>> = std::iter::once(session.into()).chain(claims).collect();
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
pub fn dump(tx: &mut Tx<'_>) -> Result<Vec<(u64, Owner)>> {
    tx.all("SELECT response, session_id, weight FROM responses ORDER BY response", &[], read)
}

fn read(row: &Row<'_>) -> Result<(u64, Owner)> {
    Ok((row.get::<i64>(0)?.cast_unsigned(), Owner { session_id: row.get(1)?, weight: row.get(2)? }))
}

/// Columns are signed.
const fn kept(key: u64) -> i64 {
    key.cast_signed()
}

//! The locations of the homes that share a state, in `schema_meta`.

use duolog_types::HomeId;

use crate::engine::Tx;
use crate::error::Result;
use crate::params;

fn key(home: &HomeId) -> String {
    format!("home/{home}")
}

/// Returns the recorded location of a home. `None` if there is none.
pub fn place(tx: &mut Tx<'_>, home: &HomeId) -> Result<Option<String>> {
    tx.find("SELECT value FROM schema_meta WHERE key = ?1", params![&key(home)], |row| row.get(0))
}

/// Records the location of a home, instead of any other.
pub fn put_place(tx: &mut Tx<'_>, home: &HomeId, place: &str) -> Result<()> {
    let sql = "INSERT INTO schema_meta (key, value) VALUES (?1, ?2) \
               ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    tx.execute(sql, params![&key(home), place]).map(drop)
}

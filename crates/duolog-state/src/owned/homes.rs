//! Where the homes of a state are, in `schema_meta`: for a state that several homes share.

use duolog_types::HomeId;

use crate::engine::Tx;
use crate::error::Result;
use crate::params;

fn key(home: &HomeId) -> String {
    format!("home/{home}")
}

/// The place that was recorded of a home; `None` if none was.
pub fn place(tx: &mut Tx<'_>, home: &HomeId) -> Result<Option<String>> {
    tx.find("SELECT value FROM schema_meta WHERE key = ?1", params![&key(home)], |row| row.get(0))
}

/// Records the place of a home, instead of the one before.
pub fn put_place(tx: &mut Tx<'_>, home: &HomeId, place: &str) -> Result<()> {
    let sql = "INSERT INTO schema_meta (key, value) VALUES (?1, ?2) \
               ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    tx.execute(sql, params![&key(home), place]).map(drop)
}

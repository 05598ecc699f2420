//! Whose database it is, which version it has, and how it becomes current (I8).
//!
//! Steps are numbered, only add, and each is one transaction under `state.lock`: of several processes that open a new
//! home at once, one migrates and the others find it done.

use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::engine::error;
use crate::error::{Error, Result};

/// `DuoL`, in the header of every database of ours.
pub(crate) const APPLICATION_ID: i32 = 0x4475_6f4c;
/// What `schema_meta` calls us.
const LINEAGE: &str = "duolog";
/// Step `n` of the list makes version `n + 1`.
const STEPS: &[&str] = &[include_str!("../sql/migrations/0001_foundation.sql")];

/// The version this program works with.
pub fn known_version() -> u32 {
    u32::try_from(STEPS.len()).unwrap_or(u32::MAX)
}

/// The version of a database: 0 when it is empty, an error when it is not ours.
pub(crate) fn identify(connection: &Connection, path: &Path) -> Result<u32> {
    let number = |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, i64>(0)).map_err(error);
    let application = number("PRAGMA application_id")?;
    if application != i64::from(APPLICATION_ID) {
        let empty = application == 0 && number("SELECT COUNT(*) FROM sqlite_schema")? == 0;
        return if empty { Ok(0) } else { Err(Error::Foreign { path: path.to_owned() }) };
    }
    let meta = |key: &str| {
        let sql = "SELECT value FROM schema_meta WHERE key = ?1";
        connection.query_row(sql, [key], |row| row.get::<_, String>(0)).map_err(|fault| match error(fault) {
            Error::Engine { .. } => Error::Foreign { path: path.to_owned() },
            other => other,
        })
    };
    if meta("lineage")? != LINEAGE {
        return Err(Error::Foreign { path: path.to_owned() });
    }
    let (version, header) = (meta("version")?, number("PRAGMA user_version")?);
    match version.parse::<u32>() {
        Ok(version) if i64::from(version) == header => Ok(version),
        _ => {
            let detail = format!("it says version {version:?} in schema_meta and {header} in its header");
            Err(Error::Damaged { what: path.display().to_string(), detail })
        }
    }
}

/// Whether a database of this version may be written, or migrated where that is allowed.
pub(crate) fn may_write(found: u32, may_migrate: bool) -> Result<()> {
    let known = known_version();
    match found {
        _ if found > known => Err(Error::Newer { found, known }),
        _ if found < known && !may_migrate => Err(Error::NeedsMigration { found, known }),
        _ => Ok(()),
    }
}

/// Whether a database of this version may be read. A newer one may: migrations only add.
pub(crate) fn may_read(found: u32) -> Result<()> {
    let known = known_version();
    if found < known { Err(Error::NeedsMigration { found, known }) } else { Ok(()) }
}

/// Applies the steps that a database of this version lacks.
pub(crate) fn migrate(connection: &Connection, found: u32) -> Result<u32> {
    let mut version = found;
    for step in STEPS.iter().skip(usize::try_from(found).unwrap_or(usize::MAX)) {
        version += 1;
        let open = Transaction::new_unchecked(connection, TransactionBehavior::Immediate).map_err(error)?;
        open.execute_batch(step).map_err(error)?;
        let put = "INSERT INTO schema_meta (key, value) VALUES (?1, ?2)
                   ON CONFLICT (key) DO UPDATE SET value = excluded.value";
        open.execute(put, ["lineage", LINEAGE]).map_err(error)?;
        open.execute(put, ["version", version.to_string().as_str()]).map_err(error)?;
        // Both are in the header page, and so in the transaction.
        open.execute_batch(&format!("PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={version}"))
            .map_err(error)?;
        open.commit().map_err(error)?;
    }
    Ok(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_only_add() {
        for step in STEPS {
            let words = step.to_ascii_uppercase();
            let plain: String = words.lines().map(|line| line.split("--").next().unwrap_or("")).collect();
            for word in ["DROP", "RENAME", "DELETE FROM", "UPDATE "] {
                assert!(!plain.contains(word), "{word}");
            }
        }
    }
}

//! The identity and version of a database file, and its migration.
//!
//! Each step is one transaction under `state.lock`. If several processes open a new home at once, one migrates and the
//! others find the current version.

use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::error;
use crate::error::{Error, Result};
use crate::migrate::{self, LINEAGE};

/// `DuoL`, in the header of every Duolog database.
const APPLICATION_ID: i32 = 0x4475_6f4c;

/// Returns the version of a database: 0 if it is empty, an error if it belongs to another program.
pub(super) fn identify(connection: &Connection, path: &Path) -> Result<u32> {
    let number = |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, i64>(0)).map_err(error);
    let application = number("PRAGMA application_id")?;
    if application != i64::from(APPLICATION_ID) {
        let empty = application == 0 && number("SELECT COUNT(*) FROM sqlite_schema")? == 0;
        return if empty { Ok(0) } else { Err(Error::Foreign { place: path.display().to_string() }) };
    }
    let meta = |key: &str| {
        let sql = "SELECT value FROM schema_meta WHERE key = ?1";
        connection.query_row(sql, [key], |row| row.get::<_, String>(0)).map_err(|fault| match error(fault) {
            Error::Engine { .. } => Error::Foreign { place: path.display().to_string() },
            other => other,
        })
    };
    if meta("lineage")? != LINEAGE {
        return Err(Error::Foreign { place: path.display().to_string() });
    }
    let (version, header) = (meta("version")?, number("PRAGMA user_version")?);
    match version.parse::<u32>() {
        Ok(version) if i64::from(version) == header => migrate::check_found(version, &path.display().to_string()),
        _ => {
            let detail = format!("it has version {version:?} in schema_meta and {header} in its header");
            Err(Error::Damaged { what: path.display().to_string(), detail })
        }
    }
}

/// Applies the missing steps to a database of this version.
pub(super) fn migrate(connection: &Connection, found: u32) -> Result<u32> {
    let mut current = found;
    for (version, step) in migrate::steps_after(found) {
        let open = Transaction::new_unchecked(connection, TransactionBehavior::Immediate).map_err(error)?;
        open.execute_batch(&migrate::compact(step.sqlite)).map_err(error)?;
        let put = "INSERT INTO schema_meta (key, value) VALUES (?1, ?2)
                   ON CONFLICT (key) DO UPDATE SET value = excluded.value";
        open.execute(put, ["lineage", LINEAGE]).map_err(error)?;
        open.execute(put, ["version", version.to_string().as_str()]).map_err(error)?;
        // Both are in the header page and so part of the transaction.
        open.execute_batch(&format!("PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={version}"))
            .map_err(error)?;
        open.commit().map_err(error)?;
        current = version;
    }
    Ok(current)
}

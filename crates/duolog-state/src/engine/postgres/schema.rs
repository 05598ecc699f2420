//! The identity and version of a database, and its migration.
//!
//! All missing steps run in one transaction behind an advisory lock. If several hosts open a new database at once, one
//! migrates and the others find the current version.

use super::session::Session;
use crate::engine::{Row, Value};
use crate::error::{Error, Result};
use crate::migrate::{self, LINEAGE};
use crate::params;

/// The oldest supported server version.
const SERVER_MIN: u32 = 15;
/// The key of the advisory lock for migrations: `DuoL`.
const LOCK: i64 = 0x4475_6f4c;

/// Returns the version of a database that will be written; migrates it if needed and allowed.
pub(super) fn prepare(session: &Session<'_>, may_migrate: bool) -> Result<u32> {
    check_server_version(session)?;
    let found = identify(session)?;
    migrate::may_write(found, may_migrate)?;
    if found == migrate::known_version() {
        return Ok(found);
    }
    // READ COMMITTED: after the lock is acquired, the migration of its previous holder must be visible.
    session.command("BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = 0")?;
    match migrate_locked(session, may_migrate) {
        Ok(version) => session.command("COMMIT").map(|()| version),
        Err(error) => {
            if !session.is_lost() {
                // The first error is the one to return.
                let _ = session.command("ROLLBACK");
            }
            Err(error)
        }
    }
}

/// Returns the version of a database that will only be read.
pub(super) fn look(session: &Session<'_>) -> Result<u32> {
    check_server_version(session)?;
    match identify(session)? {
        0 => Err(Error::Missing { place: session.server().to_string() }),
        found => migrate::may_read(found).map(|()| found),
    }
}

fn migrate_locked(session: &Session<'_>, may_migrate: bool) -> Result<u32> {
    first_row(session, "SELECT pg_advisory_xact_lock(?1)", params![LOCK], |_| Ok(()))?;
    // The previous holder of the lock may have migrated the database.
    let found = identify(session)?;
    migrate::may_write(found, may_migrate)?;
    for (_, step) in migrate::steps_after(found) {
        session.command(step.postgres)?;
    }
    let version = migrate::known_version();
    let put = "INSERT INTO schema_meta (key, value) VALUES (?1, ?2) \
               ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    session.execute(put, params!["lineage", LINEAGE])?;
    session.execute(put, params!["version", version.to_string()])?;
    Ok(version)
}

fn check_server_version(session: &Session<'_>) -> Result<()> {
    let sql = "SELECT current_setting('server_version'), current_setting('server_version_num')";
    let (found, number) =
        first_row(session, sql, &[], |row| Ok((row.get::<String>(0)?, row.get::<String>(1)?)))?.unwrap_or_default();
    let major = number.parse::<u32>().unwrap_or_default() / 10_000;
    if major < SERVER_MIN {
        return Err(Error::TooOld { place: session.server().to_string(), found, needed: SERVER_MIN });
    }
    Ok(())
}

/// Returns the version of the database: 0 if its schema is empty, an error if it belongs to another program.
fn identify(session: &Session<'_>) -> Result<u32> {
    // Tables of extensions do not count.
    let sql = "SELECT current_schema(), COUNT(*), COUNT(*) FILTER (WHERE c.relname = 'schema_meta') FROM pg_class c \
               WHERE c.relnamespace = to_regnamespace(quote_ident(current_schema())) \
               AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT EXISTS \
               (SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid \
               AND d.deptype = 'e')";
    let read = |row: &Row<'_>| Ok((row.get::<Option<String>>(0)?, row.get::<u64>(1)?, row.get::<u64>(2)?));
    let (schema, objects, meta) = first_row(session, sql, &[], read)?.unwrap_or_default();
    let place = || session.server().to_string();
    if schema.is_none() {
        let detail = "no schema of its search_path exists".to_owned();
        return Err(Error::Denied { place: place(), detail });
    }
    match (objects, meta) {
        (0, _) => return Ok(0),
        (_, 0) => return Err(Error::Foreign { place: place() }),
        _ => {}
    }
    let meta = |key: &str| {
        let found = first_row(session, "SELECT value FROM schema_meta WHERE key = ?1", params![key], |row| row.get(0));
        match found {
            // A table with that name and other columns.
            Err(Error::Engine { .. }) | Ok(None) => Err(Error::Foreign { place: place() }),
            Ok(Some(value)) => Ok::<String, _>(value),
            Err(error) => Err(error),
        }
    };
    if meta("lineage")? != LINEAGE {
        return Err(Error::Foreign { place: place() });
    }
    let version = meta("version")?;
    let Ok(number) = version.parse() else {
        let detail = format!("schema_meta has the version {version:?}");
        return Err(Error::Damaged { what: place(), detail });
    };
    migrate::check_found(number, &place())
}

/// Returns the first row of a result.
pub(super) fn first_row<T>(
    session: &Session<'_>,
    sql: &str,
    params: &[Value<'_>],
    map: impl FnOnce(&Row<'_>) -> Result<T>,
) -> Result<Option<T>> {
    let (mut map, mut found) = (Some(map), None);
    session.query(sql, params, &mut |row| {
        if let Some(map) = map.take() {
            found = Some(map(row)?);
        }
        Ok(())
    })?;
    Ok(found)
}

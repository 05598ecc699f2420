//! Maintenance of a database on a server: vacuum, checks, statistics.

use std::time::Duration;

use super::schema::first_row;
use super::session::Session;
use super::{Patience, Postgres, STATEMENT_MAX};
use crate::error::{Error, Result};
use crate::maintenance::{EngineStats, TABLES};

/// The limit for the vacuum of one table.
const VACUUM_MAX: Duration = Duration::from_hours(4);

/// The first server version with the `MAINTAIN` privilege, which allows roles other than the owner to vacuum a table.
const MAINTAIN_SINCE: u64 = 170_000;

/// The settings that [`Postgres::engine_stats`] returns.
const SETTINGS: &[&str] = &[
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "data_checksums",
    "lock_timeout",
    "statement_timeout",
    "idle_in_transaction_session_timeout",
    "max_connections",
    "TimeZone",
];

/// Settings that must be on so that an acknowledged commit survives a crash of the server's machine.
const NEEDED_ON: &[&str] = &["fsync", "synchronous_commit", "full_page_writes"];

impl Postgres {
    /// Vacuums and analyses Duolog's tables, one at a time. Readers and writers are not blocked.
    pub(crate) fn vacuum(&self) -> Result<()> {
        let object = self.connect(Patience::Long)?;
        let session = Session::new(&object, &self.server);
        self.check_may_vacuum(&session)?;
        session.command("SET statement_timeout = 0")?;
        let vacuumed = TABLES
            .iter()
            .try_for_each(|table| session.command_within(&format!("VACUUM (ANALYZE) {table}"), VACUUM_MAX));
        session.command(&format!("SET statement_timeout = {}", STATEMENT_MAX.as_millis()))?;
        vacuumed
    }

    /// Returns an error if the role may not vacuum one of the tables: the server would skip it with only a warning.
    fn check_may_vacuum(&self, session: &Session<'_>) -> Result<()> {
        let version = "SELECT CAST(current_setting('server_version_num') AS BIGINT)";
        let version: u64 = first_row(session, version, &[], |row| row.get(0))?.unwrap_or_default();
        let granted = if version >= MAINTAIN_SINCE { "OR has_table_privilege(c.oid, 'MAINTAIN')" } else { "" };
        let names = TABLES.iter().map(|table| format!("'{table}'")).collect::<Vec<_>>().join(", ");
        let sql = format!(
            "SELECT CAST(current_user AS TEXT), COUNT(*) FROM pg_class c WHERE c.relname IN ({names}) \
             AND c.relnamespace = to_regnamespace(quote_ident(current_schema())) \
             AND NOT (pg_has_role(c.relowner, 'USAGE') {granted} OR EXISTS (SELECT 1 FROM pg_database d \
             WHERE d.datname = current_database() AND pg_has_role(d.datdba, 'USAGE')))"
        );
        let skipped = first_row(session, &sql, &[], |row| Ok((row.get::<String>(0)?, row.get::<u64>(1)?)))?;
        match skipped {
            Some((role, tables)) if tables > 0 => Err(Error::Denied {
                place: self.server.to_string(),
                detail: format!(
                    "role {role:?} may not vacuum {tables} of {} tables: it does not own them",
                    TABLES.len()
                ),
            }),
            _ => Ok(()),
        }
    }

    /// Returns the problems that the server knows: invalid indexes and pages with wrong checksums.
    pub(crate) fn integrity(&self) -> Result<Vec<String>> {
        let invalid = "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
                       WHERE c.relnamespace = to_regnamespace(quote_ident(current_schema())) AND NOT i.indisvalid \
                       ORDER BY c.relname";
        let damaged = "SELECT COALESCE(checksum_failures, 0) FROM pg_stat_database WHERE datname = current_database()";
        self.read(|tx| {
            let mut found =
                tx.all(invalid, &[], |row| Ok(format!("the index {} is not valid", row.get::<String>(0)?)))?;
            let failures: u64 = tx.find(damaged, &[], |row| row.get(0))?.unwrap_or_default();
            if failures > 0 {
                found.push(format!("the server found {failures} pages with a wrong checksum"));
            }
            Ok::<_, Error>(found)
        })
    }

    /// Returns sizes and settings.
    pub(crate) fn engine_stats(&self) -> Result<EngineStats> {
        let object = self.connect(Patience::Long)?;
        let session = Session::new(&object, &self.server);
        let version = first_row(&session, "SELECT current_setting('server_version')", &[], |row| row.get::<String>(0))?
            .unwrap_or_default();
        let sizes = "SELECT CAST(COALESCE(SUM(pg_total_relation_size(c.oid)), 0) AS BIGINT) FROM pg_class c \
                     WHERE c.relkind = 'r' AND c.relnamespace = to_regnamespace(quote_ident(current_schema()))";
        let bytes = first_row(&session, sizes, &[], |row| row.get(0))?.unwrap_or_default();
        let (mut settings, mut unsafe_settings) = (Vec::new(), Vec::new());
        for name in SETTINGS {
            // `reset_val` is the value from the server, the database or the role, without this connection's SET.
            let sql = "SELECT current_setting(?1), reset_val FROM pg_settings WHERE name = ?1";
            let read = |row: &crate::engine::Row<'_>| Ok((row.get::<String>(0)?, row.get::<Option<String>>(1)?));
            let Some((value, configured)) = first_row(&session, sql, crate::params![*name], read)? else { continue };
            if NEEDED_ON.contains(name) && configured.as_deref() == Some("off") {
                unsafe_settings.push(((*name).to_owned(), "off".to_owned()));
            }
            settings.push(((*name).to_owned(), value));
        }
        settings.push(("schema_version".to_owned(), self.version.to_string()));
        let engine = format!("postgresql {}", version.split(' ').next().unwrap_or_default());
        Ok(EngineStats { engine, bytes, wal_bytes: None, settings, unsafe_settings })
    }
}

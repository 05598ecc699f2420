//! Care of a database on a server: what is ours to do there, and what it says of itself.

use std::time::Duration;

use super::schema::one;
use super::session::Session;
use super::{Patience, Postgres, STATEMENT_MAX};
use crate::error::{Error, Result};
use crate::maintenance::{EngineStats, TABLES};

/// How long the tables may take to be vacuumed.
const VACUUM_MAX: Duration = Duration::from_hours(4);

/// The first version of a server that grants the right to vacuum a table to others than its owner.
const MAINTAIN_SINCE: u64 = 170_000;

/// The settings that [`Postgres::engine_stats`] shows.
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

/// Settings without which an acknowledged commit may not survive a crash of the server's machine.
const NEEDED_ON: &[&str] = &["fsync", "synchronous_commit", "full_page_writes"];

impl Postgres {
    /// Vacuums and analyses our tables, one by one, beside everything else that goes on.
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

    /// Returns an error if the server would skip one of our tables: to a role without the right it only gives a
    /// warning.
    fn check_may_vacuum(&self, session: &Session<'_>) -> Result<()> {
        let version = "SELECT CAST(current_setting('server_version_num') AS BIGINT)";
        let version: u64 = one(session, version, &[], |row| row.get(0))?.unwrap_or_default();
        let granted = if version >= MAINTAIN_SINCE { "OR has_table_privilege(c.oid, 'MAINTAIN')" } else { "" };
        let names = TABLES.iter().map(|table| format!("'{table}'")).collect::<Vec<_>>().join(", ");
        let sql = format!(
            "SELECT CAST(current_user AS TEXT), COUNT(*) FROM pg_class c WHERE c.relname IN ({names}) \
             AND c.relnamespace = to_regnamespace(quote_ident(current_schema())) \
             AND NOT (pg_has_role(c.relowner, 'USAGE') {granted} OR EXISTS (SELECT 1 FROM pg_database d \
             WHERE d.datname = current_database() AND pg_has_role(d.datdba, 'USAGE')))"
        );
        let skipped = one(session, &sql, &[], |row| Ok((row.get::<String>(0)?, row.get::<u64>(1)?)))?;
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

    /// What the server itself knows to be wrong: indexes that cannot be used, pages that were not as written.
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
                found.push(format!("the server found {failures} pages that are not as they were written"));
            }
            Ok::<_, Error>(found)
        })
    }

    /// Sizes and settings.
    pub(crate) fn engine_stats(&self) -> Result<EngineStats> {
        let object = self.connect(Patience::Long)?;
        let session = Session::new(&object, &self.server);
        let version = one(&session, "SELECT current_setting('server_version')", &[], |row| row.get::<String>(0))?
            .unwrap_or_default();
        let sizes = "SELECT CAST(COALESCE(SUM(pg_total_relation_size(c.oid)), 0) AS BIGINT) FROM pg_class c \
                     WHERE c.relkind = 'r' AND c.relnamespace = to_regnamespace(quote_ident(current_schema()))";
        let bytes = one(&session, sizes, &[], |row| row.get(0))?.unwrap_or_default();
        let (mut settings, mut unsafe_settings) = (Vec::new(), Vec::new());
        for name in SETTINGS {
            // `reset_val` is what the server, the database or the role says, before we said anything.
            let sql = "SELECT current_setting(?1), reset_val FROM pg_settings WHERE name = ?1";
            let read = |row: &crate::engine::Row<'_>| Ok((row.get::<String>(0)?, row.get::<Option<String>>(1)?));
            let Some((value, configured)) = one(&session, sql, crate::params![*name], read)? else { continue };
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

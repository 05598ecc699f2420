//! A home that is created once with the real binary, and copied for each case together with its state.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

use super::home::{Binary, Home};
use crate::postgres::{self, Access, Database};

/// The home and its state; see the module.
pub(crate) struct Template {
    base: TempDir,
    /// The database on a server; none for SQLite.
    database: Option<Database>,
    /// Databases of finished cases, to be reused.
    used: Arc<Mutex<Vec<Database>>>,
}

/// Resets a database to the rows of the template. A reset is fast because rows are few; a new database takes a second.
const RESET: &str = "saved.reset()";

impl Template {
    /// Creates an empty template, with its state in SQLite or on a server.
    pub(crate) fn new(store: Option<&Access>) -> Result<Self, String> {
        let database =
            store.map(Access::create_database).transpose().map_err(|error| format!("creating a database: {error}"))?;
        Ok(Self { base: crate::crash::scratch(), database, used: Arc::default() })
    }

    /// Saves the rows in a second schema, so that a copy of the state can be reset to them.
    pub(crate) fn finish(&self) -> Result<(), String> {
        let Some(database) = &self.database else { return Ok(()) };
        let tables = database.run_sql(
            "SELECT table_name FROM information_schema.tables \
             WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'",
        );
        let tables = tables.map_err(|error| error.to_string())?;
        let (mut keep, mut clear, mut fill) = (String::from("CREATE SCHEMA saved;"), String::new(), String::new());
        for table in tables.lines() {
            let _ = writeln!(keep, "CREATE TABLE saved.{table} AS TABLE {table};");
            let _ = writeln!(clear, "DELETE FROM {table};");
            let _ = writeln!(fill, "INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT * FROM saved.{table};");
        }
        // Rows are inserted in any order, so foreign keys and triggers are off.
        let reset = format!("SET LOCAL session_replication_role = replica; {clear}{fill}");
        let reset = format!("CREATE PROCEDURE {RESET} LANGUAGE plpgsql AS $$ BEGIN {reset} END $$;");
        database.run_sql(&(keep + &reset)).map(drop).map_err(|error| error.to_string())
    }

    /// Returns the home of the template.
    pub(crate) fn home(&self, binary: &Binary) -> Home {
        home(binary, self.base.path(), self.database.as_ref())
    }

    /// Returns the path of a file next to the home, which is not copied.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    /// Returns the database on a server; `None` for SQLite.
    pub(crate) fn database(&self) -> Option<&Database> {
        self.database.as_ref()
    }

    /// Copies the home and its state.
    pub(crate) fn copy(&self, binary: &Binary) -> Result<Copied, String> {
        let scratch = crate::crash::scratch();
        let status = Command::new("cp").arg("-a").arg(self.base.path().join("home")).arg(scratch.path()).status();
        if !status.is_ok_and(|status| status.success()) {
            return Err("cannot copy the home".to_owned());
        }
        let database = self.database.as_ref().map(|database| self.state(database)).transpose();
        let database = database.map_err(|error| format!("cannot copy the state: {error}"))?;
        let home = home(binary, scratch.path(), database.as_ref());
        Ok(Copied { scratch, home, database, used: Arc::clone(&self.used) })
    }

    /// Returns a database with the rows of the template, new or reused.
    fn state(&self, original: &Database) -> postgres::Result<Database> {
        let used = self.used.lock().expect("no thread panicked").pop();
        let Some(used) = used else { return original.copy() };
        used.run_sql(&format!("CALL {RESET}"))?;
        Ok(used)
    }
}

/// A copy of a home and its state, removed when dropped. Its commands can be stopped and killed.
pub(crate) struct Copied {
    pub(crate) scratch: TempDir,
    pub(crate) home: Home,
    database: Option<Database>,
    used: Arc<Mutex<Vec<Database>>>,
}

impl Drop for Copied {
    fn drop(&mut self) {
        self.used.lock().expect("no thread panicked").extend(self.database.take());
    }
}

impl Copied {
    /// Waits until the server has noticed that all clients are gone, and rolled back their transactions.
    pub(crate) fn wait_for_server(&self) -> Result<(), String> {
        let Some(database) = &self.database else { return Ok(()) };
        let others =
            "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
        while database.run_sql(others).map_err(|error| error.to_string())?.trim() != "0" {}
        Ok(())
    }

    /// Returns the database on a server; `None` for SQLite.
    pub(crate) fn database(&self) -> Option<&Database> {
        self.database.as_ref()
    }
}

fn home(binary: &Binary, base: &Path, database: Option<&Database>) -> Home {
    let mut home = Home::new(binary, &base.join("home"), "first");
    home.watched = Some((home.at.clone(), None));
    home.store = database.map(Database::url);
    home
}

//! Connections: the only module that opens them, sets pragmas and maps SQLite's errors.
//!
//! Nothing else in this process opens `state.db` and `-shm`: closing another descriptor would drop SQLite's locks.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use duolog_types::contention::Wait;
use duolog_types::names::beside;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::config::DbConfig;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, ToSql, ffi, params_from_iter};

use super::schema;
use crate::engine::{Column, Row, Tx, Value, without_nul};
use crate::error::{ConstraintKind, Error, Result};
use crate::migrate;

/// Earlier versions can corrupt a write-ahead log that two connections reset at the same time.
const VERSION_MIN: i32 = 3_051_003;
const _: () = assert!(ffi::SQLITE_VERSION_NUMBER >= VERSION_MIN, "the bundled SQLite is too old");

/// The number of prepared statements that a connection caches: more than any hot path has.
const STATEMENTS_MAX: usize = 96;
/// The size to which the write-ahead log is truncated when it is reused, in bytes.
const JOURNAL_BYTES_MAX: i64 = 64 << 20;

/// The maximum length of a database path: SQLite's limit is 512 bytes, and 8 are for a suffix.
const PATH_BYTES_MAX: usize = 504;

/// Returns an error if SQLite cannot open the path because of its length. Called before anything is created.
pub(super) fn check_length(path: &Path) -> Result<()> {
    let (bytes, max) = (path.as_os_str().len(), PATH_BYTES_MAX);
    if bytes > max { Err(Error::PathTooLong { path: path.to_owned(), bytes, max }) } else { Ok(()) }
}

/// The path of a database and the busy timeout.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Absolute, so that SQLite never takes it for a URI.
    pub(super) path: PathBuf,
    pub(super) busy_timeout: Duration,
}

impl Place {
    /// Returns the path of the database's file with this suffix.
    pub(super) fn beside(&self, suffix: &str) -> PathBuf {
        beside(&self.path, suffix)
    }
}

/// How a reading connection opens the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readable {
    /// Through the write-ahead log, while writers run.
    Shared,
    /// As a file that does not change: on a read-only mount, where the index of the log cannot be created.
    Immutable,
}

/// Opens the writing connection. The caller holds `state.lock`.
///
/// The order matters: open, busy timeout, identity and version, journal mode, the other settings, migrations. A
/// database with the current version is only read here.
pub(super) fn open_writer(place: &Place, may_migrate: bool) -> Result<(Connection, u32)> {
    if rusqlite::version_number() < VERSION_MIN {
        let found = rusqlite::version().to_owned();
        return Err(Error::Setting { setting: "its version (3.51.3 or newer is required)", found });
    }
    let new_file = !place.path.exists();
    if new_file {
        // No connection has the file open yet, so this descriptor drops no lock. SQLite would use the umask's mode.
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        options.open(&place.path).map_err(|error| Error::io("create", &place.path, error))?;
    }
    let new_log = !place.beside("-wal").exists();
    let connection = connect(&place.path, OpenFlags::SQLITE_OPEN_READ_WRITE, place.busy_timeout)?;
    let found = schema::identify(&connection, &place.path)?;
    migrate::may_write(found, may_migrate)?;
    let mode: String = connection.query_row("PRAGMA journal_mode=WAL", [], |row| row.get(0)).map_err(error)?;
    if mode != "wal" {
        return Err(Error::Setting { setting: "journal_mode=WAL", found: mode });
    }
    set(&connection, "synchronous", "FULL")?;
    set(&connection, "foreign_keys", "ON")?;
    guard(&connection)?;
    // This pragma returns a row.
    connection.query_row(&format!("PRAGMA journal_size_limit={JOURNAL_BYTES_MAX}"), [], |_| Ok(())).map_err(error)?;
    // Short commands close often; without this, each would checkpoint and sync the whole log when it closes.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(error)?;
    let version = schema::migrate(&connection, found)?;
    if new_file || new_log {
        // SQLite syncs the directory only from the connection that created the log, and only when that one syncs.
        let dir = place.path.parent().unwrap_or(Path::new("/"));
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(|error| Error::io("sync", dir, error))?;
    }
    Ok((connection, version))
}

/// The size of a reading connection's page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CacheSize {
    /// SQLite's default: 2 MB.
    Small,
    /// 32 MiB: a conversation of about ten thousand items, so that reading it again needs no file access.
    Large,
}

/// Opens a read-only connection.
pub(super) fn open_reader(place: &Place, readable: Readable, cache: CacheSize) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = match readable {
        Readable::Shared => connect(&place.path, flags, place.busy_timeout)?,
        Readable::Immutable => {
            let uri = immutable_uri(&place.path);
            connect(Path::new(&uri), flags | OpenFlags::SQLITE_OPEN_URI, place.busy_timeout)?
        }
    };
    guard(&connection)?;
    set(&connection, "query_only", "ON")?;
    if cache == CacheSize::Large {
        set(&connection, "cache_size", "-32768")?;
    }
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(error)?;
    Ok(connection)
}

/// Opens a connection for checkpoints.
pub(super) fn open_checkpointer(place: &Place) -> Result<Connection> {
    let connection = connect(&place.path, OpenFlags::SQLITE_OPEN_READ_WRITE, place.busy_timeout)?;
    guard(&connection)?;
    // A checkpoint must sync the database before the log is reused.
    set(&connection, "synchronous", "FULL")?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(error)?;
    Ok(connection)
}

/// Begins a read transaction: one snapshot for all its reads.
pub(super) fn begin_read(connection: &Connection) -> Result<Tx<'_>> {
    connection.prepare_cached("BEGIN DEFERRED").and_then(|mut begin| begin.execute([])).map_err(error)?;
    Ok(Tx::sqlite(connection))
}

fn connect(path: &Path, flags: OpenFlags, busy_timeout: Duration) -> Result<Connection> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(error)?;
    connection.busy_timeout(busy_timeout).map_err(error)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Without this, SQLite prepares a statement again when a parameter of its condition, such as an epoch, was or
    // becomes 0 or 1.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(error)?;
    Ok(connection)
}

/// Sets pragmas that protect against a damaged or hostile file. With `mmap` a truncated file would raise a signal.
fn guard(connection: &Connection) -> Result<()> {
    set(connection, "trusted_schema", "OFF")?;
    set(connection, "cell_size_check", "ON")?;
    set(connection, "mmap_size", "0")
}

/// Sets a pragma and ignores the value that it returns.
pub(super) fn set(connection: &Connection, name: &str, value: &str) -> Result<()> {
    connection.execute_batch(&format!("PRAGMA {name}={value}")).map_err(error)
}

fn immutable_uri(path: &Path) -> String {
    let mut uri = String::from("file:");
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'_' | b'-') {
            uri.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri.push_str("?immutable=1");
    uri
}

/// Passes a value to the driver.
struct Bound<'v>(&'v Value<'v>);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Value::Null => ValueRef::Null,
            Value::Int(number) => ValueRef::Integer(*number),
            Value::Real(number) => ValueRef::Real(*number),
            Value::Text(text) => match without_nul(text) {
                Ok(text) => ValueRef::Text(text.as_bytes()),
                Err(error) => return Err(rusqlite::Error::ToSqlConversionFailure(Box::new(error))),
            },
            Value::Blob(bytes) => ValueRef::Blob(bytes),
            Value::TooLarge(value) => {
                let error = Error::OutOfRange { value: *value };
                return Err(rusqlite::Error::ToSqlConversionFailure(Box::new(error)));
            }
        }))
    }
}

pub(in crate::engine) fn execute(connection: &Connection, sql: &str, params: &[Value<'_>]) -> Result<usize> {
    let mut statement = connection.prepare_cached(sql).map_err(error)?;
    statement.execute(params_from_iter(params.iter().map(Bound))).map_err(error)
}

/// Calls `each` for every row.
pub(in crate::engine) fn query(
    connection: &Connection,
    sql: &str,
    params: &[Value<'_>],
    each: &mut dyn FnMut(&Row<'_>) -> Result<()>,
) -> Result<()> {
    let mut statement = connection.prepare_cached(sql).map_err(error)?;
    let mut rows = statement.query(params_from_iter(params.iter().map(Bound))).map_err(error)?;
    while let Some(row) = rows.next().map_err(error)? {
        each(&Row::sqlite(row))?;
    }
    Ok(())
}

/// Returns a value of a row. The inner error is a value that no column of Duolog can have.
pub(in crate::engine) fn column<'r>(row: &'r rusqlite::Row<'_>, index: usize) -> Result<Result<Column<'r>, String>> {
    Ok(match row.get_ref(index).map_err(error)? {
        ValueRef::Null => Ok(Column::Null),
        ValueRef::Integer(number) => Ok(Column::Int(number)),
        ValueRef::Real(number) => Ok(Column::Real(number)),
        ValueRef::Text(bytes) => str::from_utf8(bytes).map(Column::Text).map_err(|_| "it is not UTF-8 text".to_owned()),
        ValueRef::Blob(bytes) => Ok(Column::Blob(bytes)),
    })
}

/// Returns the bytes of a text. `None` for any other value.
pub(in crate::engine) fn text_bytes<'r>(row: &'r rusqlite::Row<'_>, index: usize) -> Result<Option<&'r [u8]>> {
    let value = row.get_ref(index).map_err(error)?;
    Ok(if let ValueRef::Text(bytes) = value { Some(bytes) } else { None })
}

/// Copies a snapshot of the database into an existing empty file.
///
/// The copy is one file without write-ahead log, and it is checked. The caller syncs it after the connection is closed.
pub(super) fn copy_database(from: &Connection, to: &Path, busy_timeout: Duration) -> Result<()> {
    let mut copy = connect(to, OpenFlags::SQLITE_OPEN_READ_WRITE, busy_timeout)?;
    copy.execute_batch("PRAGMA synchronous=OFF").map_err(error)?;
    let deadline = Instant::now() + busy_timeout;
    let mut wait = Wait::at_most(busy_timeout);
    {
        let backup = Backup::new(from, &mut copy).map_err(error)?;
        // All pages in one step are one read transaction: a commit of a writer does not restart it.
        while backup.step(-1).map_err(error)? != StepResult::Done {
            match wait.pause().filter(|_| Instant::now() < deadline) {
                Some(pause) => std::thread::sleep(pause),
                None => return Err(Error::Busy { what: "the state", holder: None }),
            }
        }
    }
    copy.query_row("PRAGMA journal_mode=DELETE", [], |_| Ok(())).map_err(error)?;
    let faults = faults(&copy)?;
    match faults.first() {
        None => Ok(()),
        Some(fault) => Err(Error::Damaged { what: to.display().to_string(), detail: fault.clone() }),
    }
}

/// Returns the problems of a database: damaged pages, damaged indexes, rows without their parent. Empty if none.
pub(super) fn faults(connection: &Connection) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut checks = || -> rusqlite::Result<()> {
        let mut statement = connection.prepare("PRAGMA integrity_check(100)")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let line: String = row.get(0)?;
            if line != "ok" {
                found.push(line);
            }
        }
        let mut statement = connection.prepare("PRAGMA foreign_key_check")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (table, parent): (String, String) = (row.get(0)?, row.get(2)?);
            found.push(format!("a row of {table} references a row of {parent} that does not exist"));
        }
        Ok(())
    };
    match checks().map_err(error) {
        Ok(()) => Ok(found),
        // A database that is too damaged for the check is a problem to return, not an error.
        Err(Error::Damaged { detail, .. }) => {
            found.push(detail);
            Ok(found)
        }
        Err(error) => Err(error),
    }
}

/// Returns true if SQLite could not write or sync a file: earlier writes may never reach the disk.
pub(super) fn is_failed_sync(error: &rusqlite::Error) -> bool {
    let rusqlite::Error::SqliteFailure(code, _) = error else { return false };
    [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_DIR_FSYNC, ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_IOERR_TRUNCATE]
        .contains(&code.extended_code)
}

/// Returns true if SQLite could not write or extend a file.
fn is_failed_write(code: i32) -> bool {
    [ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_IOERR_SHMSIZE, ffi::SQLITE_IOERR_SHMMAP, ffi::SQLITE_IOERR_TRUNCATE]
        .contains(&code)
}

/// Maps SQLite's error to an [`Error`].
pub(super) fn error(error: rusqlite::Error) -> Error {
    let error = match error {
        rusqlite::Error::ToSqlConversionFailure(inner) => match inner.downcast::<Error>() {
            Ok(ours) => return *ours,
            Err(inner) => rusqlite::Error::ToSqlConversionFailure(inner),
        },
        other => other,
    };
    let rusqlite::Error::SqliteFailure(code, message) = &error else {
        return Error::Engine { source: Arc::new(error) };
    };
    let detail = message.clone().unwrap_or_else(|| code.to_string());
    match code.code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Error::Busy { what: "the state", holder: None },
        ErrorCode::DiskFull => Error::Full { source: Arc::new(error) },
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Error::Damaged { what: "the database".into(), detail },
        ErrorCode::ReadOnly => Error::ReadOnly,
        ErrorCode::CannotOpen => Error::Unopenable { source: Arc::new(error) },
        ErrorCode::SystemIoFailure if is_failed_write(code.extended_code) => {
            Error::WriteFailed { source: Arc::new(error) }
        }
        ErrorCode::ConstraintViolation => {
            let kind = match code.extended_code {
                ffi::SQLITE_CONSTRAINT_UNIQUE | ffi::SQLITE_CONSTRAINT_PRIMARYKEY | ffi::SQLITE_CONSTRAINT_ROWID => {
                    ConstraintKind::Unique
                }
                ffi::SQLITE_CONSTRAINT_CHECK => ConstraintKind::Check,
                ffi::SQLITE_CONSTRAINT_FOREIGNKEY => ConstraintKind::ForeignKey,
                ffi::SQLITE_CONSTRAINT_NOTNULL => ConstraintKind::NotNull,
                _ => ConstraintKind::Other,
            };
            Error::Constraint { kind, detail }
        }
        _ => Error::Engine { source: Arc::new(error) },
    }
}

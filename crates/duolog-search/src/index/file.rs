//! The file of an index: how it is checked, opened, created, deleted and examined.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use duolog_types::HomeId;
use duolog_types::names::beside;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::{Error, Result};
use crate::lock::Lock;

/// The file name, in the state directory.
pub(super) const NAME: &str = "search.db";
/// The lock of the process that creates the index or writes to it.
const LOCK: &str = "search.lock";

/// `dlsx`: identifies a database as an index of Duolog.
const APPLICATION_ID: i32 = 0x646c_7378;
/// The format version. An index of an older version is rebuilt from the logs, so there are no migrations.
const FORMAT: u32 = 2;
/// How long a read waits while another process recovers the write-ahead log; nothing else blocks it.
const BUSY: Duration = Duration::from_millis(500);

/// Number of pages after which the write-ahead log is checkpointed: large, because each checkpoint is synced.
const CHECKPOINT_PAGES: u32 = 16_384;
/// Free pages are released if they are at least one in this number.
const FREE_SHARE: i64 = 32;
/// Size of the page cache.
const CACHE_KIB: i64 = 32 * 1024;

const SCHEMA: &str = "
    CREATE TABLE home (id TEXT NOT NULL) STRICT;
    -- The checkpoint of each session. `memory` is the state of the reader of its lines.
    CREATE TABLE sources (
        id INTEGER PRIMARY KEY,
        session TEXT NOT NULL UNIQUE,
        epoch INTEGER NOT NULL,
        position INTEGER NOT NULL,
        line_hash BLOB,
        damaged INTEGER NOT NULL,
        memory BLOB NOT NULL
    ) STRICT;
    -- Kinds, roles and tools, each once.
    CREATE TABLE names (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
    -- One text: its place, and the columns that a search can filter by.
    CREATE TABLE docs (
        id INTEGER PRIMARY KEY,
        source INTEGER NOT NULL,
        position INTEGER NOT NULL,
        part INTEGER NOT NULL,
        at INTEGER NOT NULL,
        kind INTEGER NOT NULL,
        role INTEGER,
        tool INTEGER
    ) STRICT;
    -- The rows of `docs` of each session, as ranges: these are smaller than an index with an entry per text.
    CREATE TABLE runs (source INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
        PRIMARY KEY (source, first)) STRICT, WITHOUT ROWID;
    -- The words of each text, by the id of its row. The text itself is in the log.
    CREATE VIRTUAL TABLE texts USING fts5 (
        body, content = '', contentless_delete = 1, tokenize = 'ascii', detail = 'full'
    );
";

/// Size of the in-memory buffer of the full-text table: a larger one needs fewer merges.
const HASH_BYTES: u32 = 16 << 20;

/// Takes the lock of the process that creates an index or writes to it, without waiting.
///
/// # Errors
///
/// [`Error::Busy`] if another process holds it.
pub(super) fn lock(state: &Path) -> Result<Lock> {
    Lock::take(&state.join(LOCK)).map_err(|error| match error {
        Error::Busy(_) => Error::Busy(state.join(NAME)),
        other => other,
    })
}

/// The identity of a file: device and inode.
pub(super) type Ident = (u64, u64);

/// Returns the identity of the file at a path.
pub(super) fn ident(path: &Path) -> Option<Ident> {
    path.symlink_metadata().ok().map(|found| (found.dev(), found.ino()))
}

/// Opens an existing index and checks its owner.
pub(super) fn open(path: &Path, home: HomeId) -> Result<(Connection, Ident)> {
    // Through a link Duolog would write to, and later delete, a file of another program.
    let found = match path.symlink_metadata() {
        Ok(found) if found.is_file() => (found.dev(), found.ino()),
        Ok(_) => return Err(Error::Foreign(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Error::Missing(path.to_owned())),
        Err(error) => return Err(Error::io("examine", path)(error)),
    };
    let connection = connect(path)?;
    check(&connection, path, home)?;
    // The check opened the companion files too: they belong to the file that was at the path all the time.
    if ident(path) != Some(found) {
        return Err(Error::Replaced(path.to_owned()));
    }
    Ok((connection, found))
}

fn connect(path: &Path) -> Result<Connection> {
    let failed = Error::sql(path);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags).map_err(&failed)?;
    connection.busy_timeout(BUSY).map_err(&failed)?;
    // Without this, a short command would checkpoint and sync the whole write-ahead log when it ends.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(&failed)?;
    // A checkpoint is synced before pages are reused: a power cut loses the last commits, but never a part of one. A
    // derived file needs no more.
    let settings = format!(
        "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA synchronous = NORMAL; \
         PRAGMA cache_size = -{CACHE_KIB}; PRAGMA temp_store = MEMORY; \
         PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}; PRAGMA mmap_size = 0;"
    );
    connection.execute_batch(&settings).map_err(&failed)?;
    Ok(connection)
}

/// Checks that it is an index of Duolog, of this format and this home.
fn check(connection: &Connection, path: &Path, home: HomeId) -> Result<()> {
    let failed = Error::sql(path);
    let unusable = |why: &str| Error::Unusable { path: path.to_owned(), why: why.to_owned() };
    let number = |name: &str| -> Result<i64> {
        connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0)).map_err(&failed)
    };
    let (application, format) = (number("application_id")?, number("user_version")?);
    if (application, format) == (0, 0) && number("schema_version")? == 0 {
        return Err(unusable("its creation was interrupted"));
    }
    if application != i64::from(APPLICATION_ID) {
        return Err(Error::Foreign(path.to_owned()));
    }
    let format = u32::try_from(format).unwrap_or(0);
    if format > FORMAT {
        return Err(Error::Newer { path: path.to_owned(), found: format, known: FORMAT });
    }
    if format < FORMAT {
        return Err(unusable("it has an older format"));
    }
    let owner: String = connection.query_row("SELECT id FROM home", [], |row| row.get(0)).map_err(&failed)?;
    if owner != home.to_string() {
        return Err(unusable("it belongs to another home"));
    }
    Ok(())
}

/// Creates an empty index in place of an unusable one. The caller holds the lock.
pub(super) fn create(path: &Path, home: HomeId) -> Result<()> {
    delete(path)?;
    let mut options = OpenOptions::new();
    // SQLite would create it with the mode of the umask; the companion files get the mode of this file.
    options.write(true).create_new(true).mode(0o600);
    options.open(path).map_err(Error::io("create", path))?;
    let connection = connect(path)?;
    let failed = Error::sql(path);
    // So that free pages can be released after merges.
    connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL").map_err(failed)?;
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).map_err(&failed)?;
    if mode != "wal" {
        return Err(Error::Unusable { path: path.to_owned(), why: format!("its journal mode stays {mode}") });
    }
    let tables = connection.execute_batch(&format!(
        "BEGIN IMMEDIATE; {SCHEMA} INSERT INTO home (id) VALUES ('{home}'); \
         INSERT INTO texts (texts, rank) VALUES ('hashsize', {HASH_BYTES}); \
         PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT}; COMMIT;"
    ));
    tables.map_err(failed)
}

/// Deletes the files of an index. The caller holds the lock.
///
/// The companion files are deleted too: otherwise a new database would share them with a process that still has the old
/// one open.
pub(super) fn delete(path: &Path) -> Result<()> {
    if path.symlink_metadata().is_ok_and(|found| !found.is_file()) || is_foreign(path) {
        return Err(Error::Foreign(path.to_owned()));
    }
    for suffix in ["", "-wal", "-shm"] {
        let file = beside(path, suffix);
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::io("delete", &file)(error)),
            _ => {}
        }
    }
    Ok(())
}

/// Returns true if the file is another program's database. An unreadable file is not.
fn is_foreign(path: &Path) -> bool {
    let read = || -> rusqlite::Result<bool> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        let number = |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0));
        Ok(number("application_id")? != i64::from(APPLICATION_ID) && number("schema_version")? != 0)
    };
    path.exists() && read().unwrap_or(false)
}

/// Releases free pages to the file system, if there are many.
pub(super) fn release_free_pages(connection: &Connection, path: &Path) -> Result<()> {
    let failed = Error::sql(path);
    let number = |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0));
    let (free, pages) = (number("freelist_count").map_err(failed)?, number("page_count").map_err(failed)?);
    if free * FREE_SHARE < pages {
        return Ok(());
    }
    // Each row of the result is a released page.
    let mut vacuum = connection.prepare("PRAGMA incremental_vacuum").map_err(failed)?;
    let mut released = vacuum.query([]).map_err(failed)?;
    while released.next().map_err(failed)?.is_some() {}
    Ok(())
}

/// Returns the size of the write-ahead log.
pub(super) fn log_bytes(path: &Path) -> u64 {
    beside(path, "-wal").metadata().map_or(0, |file| file.len())
}

/// The result of [`Index::examine`](super::Index::examine).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexReport {
    /// Number of sessions.
    pub sessions: u64,
    /// Number of texts.
    pub texts: u64,
    /// Size in bytes, the write-ahead log included.
    pub bytes: u64,
    /// The problems that were found.
    pub findings: Vec<String>,
}

/// Maximum number of reported findings.
const FINDINGS_MAX: usize = 10;

pub(super) fn examine(connection: &Connection, path: &Path) -> Result<IndexReport> {
    let failed = Error::sql(path);
    let mut check = connection.prepare("PRAGMA quick_check(10)").map_err(&failed)?;
    let found = check.query_map([], |row| row.get::<_, String>(0)).map_err(&failed)?;
    let mut findings: Vec<String> = found.collect::<rusqlite::Result<_>>().map_err(&failed)?;
    findings.retain(|finding| finding != "ok");
    findings.truncate(FINDINGS_MAX);
    if findings.is_empty() {
        match connection.execute("INSERT INTO texts (texts) VALUES ('integrity-check')", []).map_err(&failed) {
            // Another process is writing; the existing content was checked.
            Ok(_) | Err(Error::Busy(_)) => {}
            Err(Error::Unusable { why, .. }) => findings.push(why),
            Err(error) => return Err(error),
        }
    }
    let count = |table: &str| -> Result<u64> {
        let sql = format!("SELECT COUNT(*) FROM {table}");
        let rows: i64 = connection.query_row(&sql, [], |row| row.get(0)).map_err(&failed)?;
        Ok(u64::try_from(rows).unwrap_or(0))
    };
    let bytes = path.metadata().map_or(0, |file| file.len()) + log_bytes(path);
    Ok(IndexReport { sessions: count("sources")?, texts: count("docs")?, bytes, findings })
}

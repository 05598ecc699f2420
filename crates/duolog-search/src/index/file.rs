//! The file of an index: whose it is, how it is opened, made, thrown away and examined.

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

/// The file, beside the state.
pub(super) const NAME: &str = "search.db";
/// The lock of whoever makes it or adds to it.
const LOCK: &str = "search.lock";

/// `dlsx`: by it a database is known to be an index of ours.
const APPLICATION_ID: i32 = 0x646c_7378;
/// The format. Another one is made anew from the logs, so there are no migrations.
const FORMAT: u32 = 2;
/// How long a read waits for one who recovers the write-ahead log; nobody else makes it wait.
const BUSY: Duration = Duration::from_millis(500);

/// The pages after which the write-ahead log is copied into the database: seldom, as each copy is synced.
const CHECKPOINT_PAGES: u32 = 16_384;
/// The share of free pages from which on they are given back: one in so many.
const FREE_SHARE: i64 = 32;
/// The memory that pages are kept in.
const CACHE_KIB: i64 = 32 * 1024;

const SCHEMA: &str = "
    CREATE TABLE home (id TEXT NOT NULL) STRICT;
    -- How far each session was indexed. `memory` is what the reader of its lines has to remember.
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
    -- One text: where it is, and what a search can be narrowed by.
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
    -- Which rows of `docs` are a session's: its texts come in runs, and a run costs less than an index of each.
    CREATE TABLE runs (source INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
        PRIMARY KEY (source, first)) STRICT, WITHOUT ROWID;
    -- Its words, under the id of its row. The text itself stays in the log.
    CREATE VIRTUAL TABLE texts USING fts5 (
        body, content = '', contentless_delete = 1, tokenize = 'ascii', detail = 'full'
    );
";

/// What is collected in memory before it becomes a part of the full-text table: the larger, the less there is to merge.
const HASH_BYTES: u32 = 16 << 20;

/// Takes the lock of the one process that makes an index or adds to it, or says at once that another has it.
pub(super) fn lock(state: &Path) -> Result<Lock> {
    Lock::take(&state.join(LOCK)).map_err(|error| match error {
        Error::Busy(_) => Error::Busy(state.join(NAME)),
        other => other,
    })
}

/// Which file it is: its device and its number there.
pub(super) type Ident = (u64, u64);

/// The file that is at a path now.
pub(super) fn ident(path: &Path) -> Option<Ident> {
    path.symlink_metadata().ok().map(|found| (found.dev(), found.ino()))
}

/// Opens what is there and checks whose it is.
pub(super) fn open(path: &Path, home: HomeId) -> Result<(Connection, Ident)> {
    // Through a link we would write, and later delete, what is not ours.
    let found = match path.symlink_metadata() {
        Ok(found) if found.is_file() => (found.dev(), found.ino()),
        Ok(_) => return Err(Error::Foreign(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Error::Missing(path.to_owned())),
        Err(error) => return Err(Error::io("look at", path)(error)),
    };
    let connection = connect(path)?;
    check(&connection, path, home)?;
    // The companions were opened by that: they belong to the file that was at the path all the time.
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
    // A short command would otherwise move and sync the whole write-ahead log on its way out.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(&failed)?;
    // A synced checkpoint before pages are reused: a power cut takes the last commits, and never a part of one. What is
    // derived needs no more.
    let settings = format!(
        "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA synchronous = NORMAL; \
         PRAGMA cache_size = -{CACHE_KIB}; PRAGMA temp_store = MEMORY; \
         PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}; PRAGMA mmap_size = 0;"
    );
    connection.execute_batch(&settings).map_err(&failed)?;
    Ok(connection)
}

/// Whether it is an index of ours, of this format and this home.
fn check(connection: &Connection, path: &Path, home: HomeId) -> Result<()> {
    let failed = Error::sql(path);
    let unusable = |why: &str| Error::Unusable { path: path.to_owned(), why: why.to_owned() };
    let number = |name: &str| -> Result<i64> {
        connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0)).map_err(&failed)
    };
    let (application, format) = (number("application_id")?, number("user_version")?);
    if (application, format) == (0, 0) && number("schema_version")? == 0 {
        return Err(unusable("it was never finished"));
    }
    if application != i64::from(APPLICATION_ID) {
        return Err(Error::Foreign(path.to_owned()));
    }
    let format = u32::try_from(format).unwrap_or(0);
    if format > FORMAT {
        return Err(Error::Newer { path: path.to_owned(), found: format, known: FORMAT });
    }
    if format < FORMAT {
        return Err(unusable("it is of an older format"));
    }
    let whose: String = connection.query_row("SELECT id FROM home", [], |row| row.get(0)).map_err(&failed)?;
    if whose != home.to_string() {
        return Err(unusable("it was made for another home"));
    }
    Ok(())
}

/// Makes an empty index where nothing of use is. The caller holds the lock.
pub(super) fn make(path: &Path, home: HomeId) -> Result<()> {
    throw_away(path)?;
    let mut options = OpenOptions::new();
    // SQLite would make it with the mode of the umask, and its companions get the mode of the file.
    options.write(true).create_new(true).mode(0o600);
    options.open(path).map_err(Error::io("make", path))?;
    let connection = connect(path)?;
    let failed = Error::sql(path);
    // So that what merging leaves behind can be given back.
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
/// The companions go too: a new database would share them with whoever still has the old one open.
pub(super) fn throw_away(path: &Path) -> Result<()> {
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

/// Whether another program's database is there. What cannot be read is nobody's.
fn is_foreign(path: &Path) -> bool {
    let read = || -> rusqlite::Result<bool> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        let number = |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0));
        Ok(number("application_id")? != i64::from(APPLICATION_ID) && number("schema_version")? != 0)
    };
    path.exists() && read().unwrap_or(false)
}

/// Gives free pages back to the system, where they are many.
pub(super) fn give_back(connection: &Connection, path: &Path) -> Result<()> {
    let failed = Error::sql(path);
    let number = |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0));
    let (free, pages) = (number("freelist_count").map_err(failed)?, number("page_count").map_err(failed)?);
    if free * FREE_SHARE < pages {
        return Ok(());
    }
    // Each row that it answers with is a page that was given back.
    let mut vacuum = connection.prepare("PRAGMA incremental_vacuum").map_err(failed)?;
    let mut given_back = vacuum.query([]).map_err(failed)?;
    while given_back.next().map_err(failed)?.is_some() {}
    Ok(())
}

/// The bytes of the write-ahead log.
pub(super) fn log_bytes(path: &Path) -> u64 {
    beside(path, "-wal").metadata().map_or(0, |file| file.len())
}

/// How an index stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examined {
    /// How many sessions it knows.
    pub sessions: u64,
    /// How many texts.
    pub texts: u64,
    /// Its bytes, those on their way included.
    pub bytes: u64,
    /// What is wrong with it.
    pub findings: Vec<String>,
}

/// The findings that are told.
const FINDINGS_MAX: usize = 10;

pub(super) fn examine(connection: &Connection, path: &Path) -> Result<Examined> {
    let failed = Error::sql(path);
    let mut check = connection.prepare("PRAGMA quick_check(10)").map_err(&failed)?;
    let found = check.query_map([], |row| row.get::<_, String>(0)).map_err(&failed)?;
    let mut findings: Vec<String> = found.collect::<rusqlite::Result<_>>().map_err(&failed)?;
    findings.retain(|finding| finding != "ok");
    findings.truncate(FINDINGS_MAX);
    if findings.is_empty() {
        match connection.execute("INSERT INTO texts (texts) VALUES ('integrity-check')", []).map_err(&failed) {
            // Someone adds to it right now; what stands there was looked at.
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
    Ok(Examined { sessions: count("sources")?, texts: count("docs")?, bytes, findings })
}

//! A database file of another program, opened for reading. Neither the file nor its directory is changed.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use duolog_types::ProcessId;
use duolog_types::names::beside;
use rusqlite::{Connection, OpenFlags};

use super::error;
use crate::engine::Row;
use crate::error::{Error, Result};

/// The suffixes of files with pages of the database: the write-ahead log, and the rollback journal.
const COMPANIONS: [&str; 2] = ["-wal", "-journal"];

/// A database file of another program.
pub struct Foreign(Connection);

impl Foreign {
    /// Opens a file that no program is writing. If a write-ahead log or a rollback journal is next to it, the files are
    /// copied into a directory below `aside`, the copy is recovered, and the copy is read. The directory is removed
    /// before this returns.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] if the file changes while it is copied.
    pub fn open(path: &Path, aside: &Path) -> Result<Self> {
        let left: Vec<&str> = COMPANIONS
            .into_iter()
            .filter(|end| beside(path, end).metadata().is_ok_and(|file| is_not_empty(&file)))
            .collect();
        if left.is_empty() {
            return Self::immutable(path);
        }
        let folder = aside.join(format!("foreign-{}", ProcessId::new()));
        let created = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        created.map_err(|source| Error::io("create", &folder, source))?;
        let opened = Self::recovered_copy(path, &left, &folder);
        // The open descriptor stays valid. A directory that cannot be removed is left: `aside` may be emptied at any
        // time.
        let _ = fs::remove_dir_all(&folder);
        opened
    }

    fn recovered_copy(path: &Path, left: &[&str], folder: &Path) -> Result<Self> {
        let before = fingerprint(path)?;
        let copy = folder.join("copy.db");
        copy_file(path, &copy)?;
        for end in left {
            copy_file(&beside(path, end), &beside(&copy, end))?;
        }
        if fingerprint(path)? != before {
            return Err(Error::Busy { what: "the other program's database", holder: None });
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let recovering = Connection::open_with_flags(&copy, flags).map_err(error)?;
        // Leaving WAL mode checkpoints the log; reading rolls back the journal.
        recovering
            .execute_batch(
                "PRAGMA trusted_schema=OFF; PRAGMA locking_mode=EXCLUSIVE; PRAGMA synchronous=OFF; \
                 PRAGMA journal_mode=DELETE; SELECT COUNT(*) FROM sqlite_master",
            )
            .map_err(error)?;
        recovering.close().map_err(|(_, source)| error(source))?;
        let opened = Self::immutable(&copy)?;
        // SQLite opens the file at the first read, which must be before the directory is removed.
        opened.each("SELECT 1 FROM sqlite_master LIMIT 1", &[], &mut |_| Ok(()))?;
        Ok(opened)
    }

    fn immutable(path: &Path) -> Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let uri = format!("file:{}?mode=ro&immutable=1", escaped(&path.to_string_lossy()));
        let connection = Connection::open_with_flags(uri, flags).map_err(error)?;
        connection.execute_batch("PRAGMA trusted_schema=OFF; PRAGMA query_only=ON").map_err(error)?;
        Ok(Self(connection))
    }

    /// Calls `each` for every row of a query.
    pub fn each(&self, sql: &str, values: &[&str], each: &mut dyn FnMut(&Row<'_>) -> Result<()>) -> Result<()> {
        self.try_each(sql, values, each)
    }

    /// Calls `each` for every row of a query; `each` has its own error type.
    pub fn try_each<E: From<Error>>(
        &self,
        sql: &str,
        values: &[&str],
        each: &mut dyn FnMut(&Row<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut statement = self.0.prepare_cached(sql).map_err(error)?;
        let mut rows = statement.query(rusqlite::params_from_iter(values)).map_err(error)?;
        while let Some(row) = rows.next().map_err(error)? {
            each(&Row::sqlite(row))?;
        }
        Ok(())
    }
}

fn is_not_empty(file: &Metadata) -> bool {
    file.is_file() && file.len() > 0
}

/// Returns the inode, length and modification time of a database and its companion files.
fn fingerprint(path: &Path) -> Result<Vec<(u64, u64, i64, i64)>> {
    let paths = std::iter::once(path.to_owned()).chain(COMPANIONS.map(|end| beside(path, end)));
    let look = |path: PathBuf| match path.metadata() {
        Ok(file) => Ok((file.ino(), file.len(), file.mtime(), file.mtime_nsec())),
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok((0, 0, 0, 0)),
        Err(source) => Err(Error::io("examine", path, source)),
    };
    paths.map(look).collect()
}

fn copy_file(from: &Path, to: &Path) -> Result<()> {
    let mut source = File::open(from).map_err(|source| Error::io("open", from, source))?;
    let target = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to);
    let mut target = target.map_err(|source| Error::io("create", to, source))?;
    io::copy(&mut source, &mut target).map(drop).map_err(|source| Error::io("copy", from, source))
}

/// Returns a path with the escapes of a URI.
fn escaped(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'_' | b'.' | b'~');
    path.bytes().fold(String::new(), |all, byte| {
        if plain(byte) { all + char::from(byte).encode_utf8(&mut [0; 4]) } else { all + &format!("%{byte:02X}") }
    })
}

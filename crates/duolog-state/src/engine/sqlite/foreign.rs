//! A database file of another program, opened to be read: nothing of it is changed, nor anything beside it.

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

/// What stands beside a database and holds a part of it: what is not moved into the file yet, or is to be undone in it.
const BESIDE: [&str; 2] = ["-wal", "-journal"];

/// A database file of another program.
pub struct Foreign(Connection);

impl Foreign {
    /// Opens a file that nobody writes, with what a crash left beside it: a write-ahead log, or a transaction that is
    /// to be undone. Then it is a copy that is read, made and mended in a folder below `aside`, and gone with the
    /// process whatever becomes of it. A file that changes while it is copied is refused.
    pub fn open(path: &Path, aside: &Path) -> Result<Self> {
        let left: Vec<&str> =
            BESIDE.into_iter().filter(|end| beside(path, end).metadata().is_ok_and(|file| holds(&file))).collect();
        if left.is_empty() {
            return Self::immutable(path);
        }
        let folder = aside.join(format!("foreign-{}", ProcessId::new()));
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(|source| Error::io("make", &folder, source))?;
        let opened = Self::mended_copy(path, &left, &folder);
        // An open file outlives its name; what cannot be removed is in a place that may be emptied at any time.
        let _ = fs::remove_dir_all(&folder);
        opened
    }

    fn mended_copy(path: &Path, left: &[&str], folder: &Path) -> Result<Self> {
        let seen = looks(path)?;
        let copy = folder.join("copy.db");
        copied(path, &copy)?;
        for end in left {
            copied(&beside(path, end), &beside(&copy, end))?;
        }
        if looks(path)? != seen {
            return Err(Error::Busy { what: "the other program's database", holder: None });
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mending = Connection::open_with_flags(&copy, flags).map_err(error)?;
        // Leaving the write-ahead mode moves the log into the file; reading undoes what is to be undone.
        mending
            .execute_batch(
                "PRAGMA trusted_schema=OFF; PRAGMA locking_mode=EXCLUSIVE; PRAGMA synchronous=OFF; \
                 PRAGMA journal_mode=DELETE; SELECT COUNT(*) FROM sqlite_master",
            )
            .map_err(error)?;
        mending.close().map_err(|(_, source)| error(source))?;
        let opened = Self::immutable(&copy)?;
        // The file is opened by the first look into it, and that is before its name goes.
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

    /// Gives out the rows of a question, one by one.
    pub fn each(&self, sql: &str, values: &[&str], each: &mut dyn FnMut(&Row<'_>) -> Result<()>) -> Result<()> {
        self.try_each(sql, values, each)
    }

    /// The same for who has errors of its own.
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

fn holds(file: &Metadata) -> bool {
    file.is_file() && file.len() > 0
}

/// How a database and what is beside it look now: which files, how long, and when they were changed.
fn looks(path: &Path) -> Result<Vec<(u64, u64, i64, i64)>> {
    let paths = std::iter::once(path.to_owned()).chain(BESIDE.map(|end| beside(path, end)));
    let look = |path: PathBuf| match path.metadata() {
        Ok(file) => Ok((file.ino(), file.len(), file.mtime(), file.mtime_nsec())),
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok((0, 0, 0, 0)),
        Err(source) => Err(Error::io("look at", path, source)),
    };
    paths.map(look).collect()
}

fn copied(from: &Path, to: &Path) -> Result<()> {
    let mut source = File::open(from).map_err(|source| Error::io("open", from, source))?;
    let target = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to);
    let mut target = target.map_err(|source| Error::io("make", to, source))?;
    io::copy(&mut source, &mut target).map(drop).map_err(|source| Error::io("copy", from, source))
}

/// A path as it stands in a URI.
fn escaped(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'_' | b'.' | b'~');
    path.bytes().fold(String::new(), |all, byte| {
        if plain(byte) { all + char::from(byte).encode_utf8(&mut [0; 4]) } else { all + &format!("%{byte:02X}") }
    })
}

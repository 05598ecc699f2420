//! A database file of another program, opened to be read: nothing of it is changed, nor anything beside it.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::error;
use crate::engine::Row;
use crate::error::{Error, Result};

/// A database file of another program.
pub struct Foreign(Connection);

impl Foreign {
    /// Opens a file that nobody writes. One with a write-ahead log that was not moved into it is refused: to read that,
    /// files beside it would have to be made.
    pub fn open(path: &Path) -> Result<Self> {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        if Path::new(&log).metadata().is_ok_and(|log| log.len() > 0) {
            return Err(Error::Foreign { place: format!("{} (its write-ahead log holds rows)", path.display()) });
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let uri = format!("file:{}?mode=ro&immutable=1", escaped(&path.to_string_lossy()));
        let connection = Connection::open_with_flags(uri, flags).map_err(error)?;
        connection.execute_batch("PRAGMA trusted_schema=OFF; PRAGMA query_only=ON").map_err(error)?;
        Ok(Self(connection))
    }

    /// Gives out the rows of a question, one by one.
    pub fn each(&self, sql: &str, values: &[&str], each: &mut dyn FnMut(&Row<'_>) -> Result<()>) -> Result<()> {
        let mut statement = self.0.prepare(sql).map_err(error)?;
        let mut rows = statement.query(rusqlite::params_from_iter(values)).map_err(error)?;
        while let Some(row) = rows.next().map_err(error)? {
            each(&Row::sqlite(row))?;
        }
        Ok(())
    }
}

/// A path as it stands in a URI.
fn escaped(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'_' | b'.' | b'~');
    path.bytes().fold(String::new(), |all, byte| {
        if plain(byte) { all + char::from(byte).encode_utf8(&mut [0; 4]) } else { all + &format!("%{byte:02X}") }
    })
}

//! Adding to an index: batch by batch, each a transaction.

use std::collections::HashMap;

use duolog_types::{Epoch, Position, SessionId};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::Index;
use super::file;
use crate::error::{Error, Result};
use crate::lock::Lock;
use crate::words::{self, Room};

/// The bytes of a role or a tool's name that are kept.
const NAME_BYTES_MAX: usize = 512;

/// What the write-ahead log may hold when one stops adding.
const SETTLE_BYTES: u64 = 4 << 20;

/// How far a session was indexed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedTo {
    /// The epoch of its log.
    pub epoch: Epoch,
    /// Up to where.
    pub position: Position,
    /// The hash of the last line before that, by which one knows that it is still the same log.
    pub line_hash: Option<[u8; 32]>,
    /// How many lines before that could not be read.
    pub damaged: u64,
    /// What the reader of its lines has to remember.
    pub memory: Vec<u8>,
}

/// One text on its way into the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doc<'a> {
    /// The first byte of its line.
    pub position: Position,
    /// Which text of that line it is.
    pub part: u32,
    /// When, in microseconds since 1970; 0 where nobody tells.
    pub at: i64,
    /// What it is.
    pub kind: &'a str,
    /// The role that the line itself names.
    pub role: Option<&'a str>,
    /// The tool called or answering.
    pub tool: Option<&'a str>,
    /// The text.
    pub text: &'a str,
}

/// A session in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceId(i64);

/// The one who adds to an index.
pub struct Indexing<'i> {
    index: &'i mut Index,
    _lock: Lock,
}

impl<'i> Indexing<'i> {
    pub(super) fn new(index: &'i mut Index, lock: Lock) -> Self {
        Self { index, _lock: lock }
    }

    /// Begins a batch. Dropped without a commit, it leaves nothing.
    pub fn batch(&self) -> Result<Batch<'_>> {
        // The lock keeps others away unless somebody deleted it; then this does.
        self.index.connection.execute_batch("BEGIN IMMEDIATE").map_err(self.index.failed())?;
        Ok(Batch {
            index: self.index,
            names: HashMap::new(),
            runs: HashMap::new(),
            room: Room::default(),
            is_open: true,
        })
    }

    /// How far a session was indexed; nothing where it never was.
    pub fn checkpoint(&self, session: &SessionId) -> Result<Option<IndexedTo>> {
        Ok(find(&self.index.connection, session).map_err(self.index.failed())?.map(|(_, checkpoint)| checkpoint))
    }

    /// Tidies up after much was added: gives back what merging left behind, and moves what was added out of the
    /// write-ahead log, because the next process to come alone reads all of it.
    pub fn settle(&self) -> Result<()> {
        if file::log_bytes(&self.index.path) < SETTLE_BYTES {
            return Ok(());
        }
        file::give_back(&self.index.connection, &self.index.path)?;
        let moved = self.index.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        match moved.map_err(self.index.failed()) {
            // Someone reads: it is moved another time.
            Err(Error::Busy(_)) => Ok(()),
            other => other,
        }
    }
}

/// What is added in one piece.
pub struct Batch<'i> {
    index: &'i Index,
    names: HashMap<String, i64>,
    /// What was added to each session since its checkpoint was moved, as the ids of its rows.
    runs: HashMap<SourceId, Vec<(i64, i64)>>,
    room: Room,
    is_open: bool,
}

impl Batch<'_> {
    /// The session that is to be added to, if its checkpoint is where the caller found it; else nothing, because another
    /// process was faster. A session that was never indexed is made.
    pub fn source(&mut self, session: &SessionId, expected: Option<&IndexedTo>) -> Result<Option<SourceId>> {
        let connection = &self.index.connection;
        let found = find(connection, session).map_err(self.index.failed())?;
        let at = |checkpoint: &IndexedTo| (checkpoint.epoch, checkpoint.position);
        if found.as_ref().map(|(_, there)| at(there)) != expected.map(at) {
            return Ok(None);
        }
        if let Some((id, _)) = found {
            return Ok(Some(id));
        }
        let sql = "INSERT INTO sources (session, epoch, position, damaged, memory) VALUES (?1, 0, 0, 0, x'')";
        self.run(sql, params![session.as_str()])?;
        Ok(Some(SourceId(connection.last_insert_rowid())))
    }

    /// Adds a text. Its session's checkpoint is to be moved before the batch is committed.
    pub fn add(&mut self, source: SourceId, doc: &Doc<'_>) -> Result<()> {
        let kind = self.name(doc.kind)?;
        let role = doc.role.map(|role| self.name(role)).transpose()?;
        let tool = doc.tool.map(|tool| self.name(tool)).transpose()?;
        let sql = "INSERT INTO docs (source, position, part, at, kind, role, tool) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        self.run(sql, params![source.0, number(doc.position.0), doc.part, doc.at, kind, role, tool])?;
        let id = self.index.connection.last_insert_rowid();
        let runs = self.runs.entry(source).or_default();
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == id => *last = id,
            _ => runs.push((id, id)),
        }
        let failed = self.index.failed();
        let sql = "INSERT INTO texts (rowid, body) VALUES (?1, ?2)";
        let mut insert = self.index.connection.prepare_cached(sql).map_err(&failed)?;
        insert.execute(params![id, words::prepare(doc.text, &mut self.room)]).map_err(failed).map(drop)
    }

    /// Moves a session's checkpoint to behind what was added.
    pub fn advance(&mut self, source: SourceId, to: &IndexedTo) -> Result<()> {
        for (first, last) in self.runs.remove(&source).unwrap_or_default() {
            let sql = "UPDATE runs SET last = ?3 WHERE source = ?1 AND last = ?2 - 1";
            if self.run(sql, params![source.0, first, last])? == 0 {
                let sql = "INSERT INTO runs (source, first, last) VALUES (?1, ?2, ?3)";
                self.run(sql, params![source.0, first, last])?;
            }
        }
        let sql = "UPDATE sources SET epoch = ?2, position = ?3, line_hash = ?4, damaged = ?5, memory = ?6 \
                   WHERE id = ?1";
        let (position, damaged) = (number(to.position.0), number(to.damaged));
        self.run(sql, params![source.0, to.epoch.0, position, to.line_hash, damaged, to.memory]).map(drop)
    }

    /// Forgets a session and all of its texts.
    pub fn forget(&mut self, session: &SessionId) -> Result<()> {
        let Some((id, _)) = find(&self.index.connection, session).map_err(self.index.failed())? else { return Ok(()) };
        let failed = self.index.failed();
        let mut of_source =
            self.index.connection.prepare_cached("SELECT first, last FROM runs WHERE source = ?1").map_err(failed)?;
        let runs = of_source.query_map([id.0], |row| Ok((row.get(0)?, row.get(1)?))).map_err(failed)?;
        let runs: Vec<(i64, i64)> = runs.collect::<rusqlite::Result<_>>().map_err(failed)?;
        for (first, last) in runs {
            let mine = "SELECT id FROM docs WHERE id BETWEEN ?1 AND ?2 AND source = ?3";
            self.run(&format!("DELETE FROM texts WHERE rowid IN ({mine})"), params![first, last, id.0])?;
            self.run("DELETE FROM docs WHERE id BETWEEN ?1 AND ?2 AND source = ?3", params![first, last, id.0])?;
        }
        self.run("DELETE FROM runs WHERE source = ?1", params![id.0])?;
        self.run("DELETE FROM sources WHERE id = ?1", params![id.0]).map(drop)
    }

    /// Makes all of it count.
    pub fn commit(mut self) -> Result<()> {
        self.end()
    }

    /// Makes all of it count so far, and begins the next batch.
    pub fn go_on(&mut self) -> Result<()> {
        self.end()?;
        self.index.connection.execute_batch("BEGIN IMMEDIATE").map_err(self.index.failed())?;
        self.is_open = true;
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        self.index.connection.execute_batch("COMMIT").map_err(self.index.failed())?;
        self.is_open = false;
        Ok(())
    }

    /// The number of a name, which gets one where it has none.
    fn name(&mut self, name: &str) -> Result<i64> {
        let name = cut(name);
        if let Some(id) = self.names.get(name) {
            return Ok(*id);
        }
        self.run("INSERT INTO names (name) VALUES (?1) ON CONFLICT DO NOTHING", params![name])?;
        let connection = &self.index.connection;
        let sql = "SELECT id FROM names WHERE name = ?1";
        let id = connection.query_row(sql, [name], |row| row.get(0)).map_err(self.index.failed())?;
        self.names.insert(name.to_owned(), id);
        Ok(id)
    }

    /// Runs a statement; says how many rows it changed.
    fn run(&self, sql: &str, params: impl rusqlite::Params) -> Result<usize> {
        let failed = self.index.failed();
        let mut statement = self.index.connection.prepare_cached(sql).map_err(failed)?;
        statement.execute(params).map_err(failed)
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        if self.is_open {
            // A failed commit may have ended it already.
            let _ = self.index.connection.execute_batch("ROLLBACK");
        }
    }
}

/// The part of a name that is kept, and compared.
pub(crate) fn cut(name: &str) -> &str {
    &name[..name.floor_char_boundary(NAME_BYTES_MAX.min(name.len()))]
}

/// Positions are below what SQLite's integers hold.
fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn find(connection: &Connection, session: &SessionId) -> rusqlite::Result<Option<(SourceId, IndexedTo)>> {
    let sql = "SELECT id, epoch, position, line_hash, damaged, memory FROM sources WHERE session = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row([session.as_str()], |row| {
        let position: i64 = row.get(2)?;
        let damaged: i64 = row.get(4)?;
        let checkpoint = IndexedTo {
            epoch: Epoch(row.get(1)?),
            position: Position(u64::try_from(position).unwrap_or(0)),
            line_hash: row.get(3)?,
            damaged: u64::try_from(damaged).unwrap_or(0),
            memory: row.get(5)?,
        };
        Ok((SourceId(row.get(0)?), checkpoint))
    });
    found.optional()
}

impl Index {
    /// How far a session was indexed, by name.
    pub(super) fn find_checkpoint(&self, session: &SessionId) -> Result<Option<IndexedTo>> {
        Ok(find(&self.connection, session).map_err(self.failed())?.map(|(_, checkpoint)| checkpoint))
    }
}

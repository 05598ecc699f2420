//! Writes to an index in batches; each batch is a transaction.

use std::collections::HashMap;

use duolog_types::{Epoch, Position, SessionId};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::Index;
use super::file;
use crate::error::{Error, Result};
use crate::lock::Lock;
use crate::words::{self, Buffers};

/// Maximum number of stored bytes of a role or a tool's name.
const NAME_BYTES_MAX: usize = 512;

/// Size of the write-ahead log from which on [`Indexing::settle`] checkpoints it.
const SETTLE_BYTES: u64 = 4 << 20;

/// The checkpoint of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedTo {
    /// The epoch of its log.
    pub epoch: Epoch,
    /// The end of the indexed lines.
    pub position: Position,
    /// The hash of the last line before that, which identifies the log.
    pub line_hash: Option<[u8; 32]>,
    /// Number of unreadable lines before that.
    pub damaged: u64,
    /// The state of the reader of its lines.
    pub memory: Vec<u8>,
}

/// A text to index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doc<'a> {
    /// The position of its line.
    pub position: Position,
    /// The index of the text in that line.
    pub part: u32,
    /// The time in microseconds since 1970; 0 if it is unknown.
    pub at: i64,
    /// Its kind.
    pub kind: &'a str,
    /// The role in its line.
    pub role: Option<&'a str>,
    /// The tool that was called or gave the result.
    pub tool: Option<&'a str>,
    /// The text.
    pub text: &'a str,
}

/// The id of a session in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceId(i64);

/// The right to write to an index.
pub struct Indexing<'i> {
    index: &'i mut Index,
    _lock: Lock,
}

impl<'i> Indexing<'i> {
    pub(super) fn new(index: &'i mut Index, lock: Lock) -> Self {
        Self { index, _lock: lock }
    }

    /// Begins a batch. A batch that is dropped without a commit is rolled back.
    pub fn batch(&self) -> Result<Batch<'_>> {
        // The lock excludes other processes, unless its file was deleted; then the transaction does.
        self.index.connection.execute_batch("BEGIN IMMEDIATE").map_err(self.index.failed())?;
        Ok(Batch {
            index: self.index,
            names: HashMap::new(),
            runs: HashMap::new(),
            buffers: Buffers::default(),
            is_open: true,
        })
    }

    /// Returns the checkpoint of a session; `None` if it was never indexed.
    pub fn checkpoint(&self, session: &SessionId) -> Result<Option<IndexedTo>> {
        Ok(find(&self.index.connection, session).map_err(self.index.failed())?.map(|(_, checkpoint)| checkpoint))
    }

    /// Cleans up after many additions: releases free pages and checkpoints the write-ahead log, because the next
    /// process that opens the index alone reads all of it.
    pub fn settle(&self) -> Result<()> {
        if file::log_bytes(&self.index.path) < SETTLE_BYTES {
            return Ok(());
        }
        file::release_free_pages(&self.index.connection, &self.index.path)?;
        let moved = self.index.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        match moved.map_err(self.index.failed()) {
            // A reader is active: a later call does it.
            Err(Error::Busy(_)) => Ok(()),
            other => other,
        }
    }
}

/// A transaction that adds texts.
pub struct Batch<'i> {
    index: &'i Index,
    names: HashMap<String, i64>,
    /// The row ids added to each session since its checkpoint was advanced, as ranges.
    runs: HashMap<SourceId, Vec<(i64, i64)>>,
    buffers: Buffers,
    is_open: bool,
}

impl Batch<'_> {
    /// Returns the session to add to; `None` if its checkpoint is not `expected`, because another process was faster. A
    /// session that was never indexed is created.
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

    /// Adds a text. The caller must advance the session's checkpoint before it commits the batch.
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
        insert.execute(params![id, words::prepare(doc.text, &mut self.buffers)]).map_err(failed).map(drop)
    }

    /// Advances a session's checkpoint past the added texts.
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

    /// Deletes a session and its texts.
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

    /// Commits the batch.
    pub fn commit(mut self) -> Result<()> {
        self.commit_open()
    }

    /// Commits the batch and begins the next one.
    pub fn commit_and_continue(&mut self) -> Result<()> {
        self.commit_open()?;
        self.index.connection.execute_batch("BEGIN IMMEDIATE").map_err(self.index.failed())?;
        self.is_open = true;
        Ok(())
    }

    fn commit_open(&mut self) -> Result<()> {
        self.index.connection.execute_batch("COMMIT").map_err(self.index.failed())?;
        self.is_open = false;
        Ok(())
    }

    /// Returns the id of a name, and creates it if needed.
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

    /// Runs a statement; returns the number of changed rows.
    fn run(&self, sql: &str, params: impl rusqlite::Params) -> Result<usize> {
        let failed = self.index.failed();
        let mut statement = self.index.connection.prepare_cached(sql).map_err(failed)?;
        statement.execute(params).map_err(failed)
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        if self.is_open {
            // A failed commit may have ended the transaction already.
            let _ = self.index.connection.execute_batch("ROLLBACK");
        }
    }
}

/// Returns the part of a name that is stored and compared.
pub(crate) fn cut(name: &str) -> &str {
    &name[..name.floor_char_boundary(NAME_BYTES_MAX.min(name.len()))]
}

/// Converts to an SQLite integer; positions are always smaller.
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
    /// Returns the checkpoint of a session.
    pub(super) fn find_checkpoint(&self, session: &SessionId) -> Result<Option<IndexedTo>> {
        Ok(find(&self.connection, session).map_err(self.failed())?.map(|(_, checkpoint)| checkpoint))
    }
}

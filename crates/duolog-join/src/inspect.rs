//! Queries about a home that change nothing.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use duolog_log::{Error as LogError, FileKind, LogIdentity};
use duolog_state::derived::catalog::CatalogRow;
use duolog_state::owned::{behind, sessions};
use duolog_types::{Epoch, Position, ProcessId, SessionId};

use crate::error::{Error, Result};
use crate::process::ProcessState;
use crate::store::Join;

/// The time to wait for a lock: longer than any append holds it.
const LOCK_WAIT: Duration = Duration::from_millis(100);

/// The number of rows per query.
const PAGE: u32 = 1024;

/// What the state has recorded of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogStanding {
    /// The session.
    pub session: SessionId,
    /// The log's epoch.
    pub epoch: Epoch,
    /// The end of the folded bytes, which are synced. `None` if it was never folded in this epoch.
    pub folded_to: Option<Position>,
    /// True if bytes may have been appended after that.
    pub is_marked: bool,
    /// Its path, relative to the state directory.
    pub(crate) path: String,
    /// The position of the first byte of its file.
    pub(crate) base: Position,
}

impl Join {
    /// Compares a session's log with the recorded state.
    pub fn standing_of(&self, session: &SessionId) -> Result<LogIdentity> {
        Ok(self.read_log(session)?.loss.map_or(LogIdentity::Same, |loss| loss.standing))
    }

    /// Returns true if a session's log is closed to appends because a write or sync failed.
    pub fn is_poisoned(&self, session: &SessionId) -> Result<bool> {
        let stat = self.known(session)?.stat(&self.disk)?;
        Ok(stat.is_some_and(|stat| stat.is_poisoned()))
    }

    /// Returns the holder of a session's log lock: `None` if it is free, `Some(None)` if the holder is unknown. A lock
    /// that is held only for an append does not count.
    pub fn log_holder(&self, session: &SessionId) -> Result<Option<Option<u32>>> {
        let reader = match self.known(session)?.reader(&self.disk) {
            Ok(Some(reader)) => reader,
            Ok(None) | Err(Error::Log(LogError::NotALog { .. })) => return Ok(None),
            Err(error) => return Err(error),
        };
        match reader.stable_end(LOCK_WAIT) {
            Ok(_) => Ok(None),
            Err(LogError::Busy { holder, .. }) => Ok(Some(holder)),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the size of a session's log. `None` if it has no file yet.
    pub fn log_bytes(&self, session: &SessionId) -> Result<Option<u64>> {
        let stat = self.known(session)?.stat(&self.disk)?;
        Ok(stat.filter(|stat| stat.kind == FileKind::File).map(|stat| stat.len))
    }

    /// Returns the derived row of a session's log. `None` if it was never folded.
    pub fn catalog_row(&self, session: &SessionId) -> Result<Option<CatalogRow>> {
        Ok(self.known(session)?.catalog)
    }

    /// Returns what the state has recorded of each log of this home, in one snapshot and without opening a log.
    ///
    /// Everything that was acknowledged before this call is in the folded part, or its log is marked.
    pub fn log_standings(&self) -> Result<Vec<LogStanding>> {
        self.state.read(|tx| {
            let home = self.home;
            let (mut marked, mut last) = (HashSet::new(), None);
            loop {
                let from = last.as_ref().map(|(session, process)| (session, process));
                let marks = behind::of_home(tx, &home, from, PAGE)?;
                let is_last = marks.len() < PAGE as usize;
                last = marks.last().map(|mark| (mark.session_id.clone(), mark.process_id));
                marked.extend(marks.into_iter().map(|mark| mark.session_id));
                if is_last {
                    break;
                }
            }
            let mut logs: Vec<LogStanding> = Vec::new();
            loop {
                let rows = sessions::folded(tx, &home, logs.last().map(|log| &log.session), PAGE)?;
                let is_last = rows.len() < PAGE as usize;
                logs.extend(rows.into_iter().map(|row| LogStanding {
                    is_marked: marked.contains(&row.session_id),
                    // Rows of an older epoch describe bytes that are no longer there.
                    folded_to: row.folded.filter(|(epoch, _)| *epoch == row.epoch).map(|(_, position)| position),
                    epoch: row.epoch,
                    session: row.session_id,
                    path: row.path,
                    base: row.base,
                }));
                if is_last {
                    return Ok(logs);
                }
            }
        })
    }

    /// Returns the state of a process that set a mark.
    pub fn process_state(&self, process: ProcessId) -> Result<ProcessState> {
        self.process.look(process)
    }

    /// Returns true if a log without a session is the draft of an import that died.
    pub fn is_draft(&self, path: &str) -> Result<bool> {
        let path = Path::new(path);
        let stat = self.disk.stat(path).map_err(LogError::io("examine", path))?;
        Ok(stat.is_some_and(|stat| stat.is_draft()))
    }

    /// Returns every log file, with or without a session.
    pub fn log_files(&self) -> Result<Vec<String>> {
        let list = |at: &Path| self.disk.list(at).map_err(LogError::io("list", at));
        let root = Path::new("sessions");
        let mut files = Vec::new();
        for (scope, kind) in list(root)? {
            if kind != FileKind::Directory {
                continue;
            }
            let folder = root.join(scope);
            for (file, _) in list(&folder)? {
                if Path::new(&file).extension().is_some_and(|ending| ending == "jsonl") {
                    files.push(folder.join(file).to_string_lossy().into_owned());
                }
            }
        }
        files.sort();
        Ok(files)
    }
}

//! Questions about a home that change nothing.

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

/// Longer than any append holds its lock.
const HELD_FOR_LONG: Duration = Duration::from_millis(100);

/// The rows one look at the logs takes.
const PAGE: u32 = 1024;

/// How far the state knows a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogStanding {
    /// The session.
    pub session: SessionId,
    /// The log's epoch.
    pub epoch: Epoch,
    /// Up to where it is folded, and so synced; nothing where it never was in this epoch.
    pub folded_to: Option<Position>,
    /// Someone may have appended behind that.
    pub is_marked: bool,
    /// Its path, beneath the state directory.
    pub(crate) path: String,
    /// The position of the first byte of its file.
    pub(crate) base: Position,
}

impl Join {
    /// Whether a session's log is the one that the state knows.
    pub fn standing_of(&self, session: &SessionId) -> Result<LogIdentity> {
        Ok(self.read_log(session)?.loss.map_or(LogIdentity::Same, |loss| loss.standing))
    }

    /// Whether a session's log is closed to appends because the disk failed a writer.
    pub fn is_poisoned(&self, session: &SessionId) -> Result<bool> {
        let stat = self.known(session)?.stat(&self.disk)?;
        Ok(stat.is_some_and(|stat| stat.is_poisoned()))
    }

    /// Who holds a session's log for longer than an append takes: nobody, someone, or a process that can be named.
    pub fn log_holder(&self, session: &SessionId) -> Result<Option<Option<u32>>> {
        let reader = match self.known(session)?.reader(&self.disk) {
            Ok(Some(reader)) => reader,
            Ok(None) | Err(Error::Log(LogError::NotALog { .. })) => return Ok(None),
            Err(error) => return Err(error),
        };
        match reader.stable_end(HELD_FOR_LONG) {
            Ok(_) => Ok(None),
            Err(LogError::Busy { holder, .. }) => Ok(Some(holder)),
            Err(error) => Err(error.into()),
        }
    }

    /// The size of a session's log; nothing where it has no file yet.
    pub fn log_bytes(&self, session: &SessionId) -> Result<Option<u64>> {
        let stat = self.known(session)?.stat(&self.disk)?;
        Ok(stat.filter(|stat| stat.kind == FileKind::File).map(|stat| stat.len))
    }

    /// What derived rows say of a session's log; nothing where it was never folded.
    pub fn figures(&self, session: &SessionId) -> Result<Option<CatalogRow>> {
        Ok(self.known(session)?.catalog)
    }

    /// How far the state knows each log of this home, as of one moment and without opening any.
    ///
    /// What was acknowledged before this call is in the folded part, or its log is marked.
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
                    // Rows of an older epoch speak of bytes that are no longer there.
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

    /// Whether a process that set a mark is still there.
    pub fn process_state(&self, process: ProcessId) -> Result<ProcessState> {
        self.process.look(process)
    }

    /// Whether a log that no session names is one that an import left when it died.
    pub fn is_draft(&self, path: &str) -> Result<bool> {
        let path = Path::new(path);
        let stat = self.disk.stat(path).map_err(LogError::io("examine", path))?;
        Ok(stat.is_some_and(|stat| stat.is_draft()))
    }

    /// Every log file there is, whether or not a session names it.
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

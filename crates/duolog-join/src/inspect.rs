//! Questions about a home that change nothing.

use std::path::Path;
use std::time::Duration;

use duolog_log::{Error as LogError, Kind, Reader, Standing};
use duolog_state::derived::catalog::CatalogRow;
use duolog_types::{ProcessId, SessionId};

use crate::error::Result;
use crate::process::ProcessState;
use crate::store::Join;

/// Longer than any append holds its lock.
const HELD_FOR_LONG: Duration = Duration::from_millis(100);

impl Join {
    /// Whether a session's log is the one that the state knows.
    pub fn standing_of(&self, session: &SessionId) -> Result<Standing> {
        let known = self.known(session)?;
        self.own(&known.row)?;
        let Some(reader) = Reader::open(&self.disk, &known.place())? else {
            let missing = known.watermark.recorded_to > known.row.log_base;
            return Ok(if missing { Standing::Missing } else { Standing::Same });
        };
        let end = reader.stable_end(self.limits.busy_timeout)?;
        self.standing(&known, &reader, end)
    }

    /// Whether a session's log is closed to appends because the disk failed a writer.
    pub fn is_poisoned(&self, session: &SessionId) -> Result<bool> {
        let path = self.known(session)?.place().path;
        let stat = self.disk.stat(&path).map_err(LogError::io("look at", &path))?;
        Ok(stat.is_some_and(|stat| stat.is_poisoned()))
    }

    /// Who holds a session's log for longer than an append takes: nobody, someone, or a process that can be named.
    pub fn log_holder(&self, session: &SessionId) -> Result<Option<Option<u32>>> {
        let place = self.known(session)?.place();
        let reader = match Reader::open(&self.disk, &place) {
            Ok(Some(reader)) => reader,
            Ok(None) | Err(LogError::NotALog { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        match reader.stable_end(HELD_FOR_LONG) {
            Ok(_) => Ok(None),
            Err(LogError::Busy { holder, .. }) => Ok(Some(holder)),
            Err(error) => Err(error.into()),
        }
    }

    /// The size of a session's log; nothing where it has no file yet.
    pub fn log_bytes(&self, session: &SessionId) -> Result<Option<u64>> {
        let path = self.known(session)?.place().path;
        let stat = self.disk.stat(&path).map_err(LogError::io("look at", &path))?;
        Ok(stat.filter(|stat| stat.kind == Kind::File).map(|stat| stat.len))
    }

    /// What derived rows say of a session's log; nothing where it was never folded.
    pub fn figures(&self, session: &SessionId) -> Result<Option<CatalogRow>> {
        Ok(self.known(session)?.catalog)
    }

    /// Whether a process that set a mark is still there.
    pub fn process_state(&self, process: ProcessId) -> Result<ProcessState> {
        self.process.look(process)
    }

    /// Every log file there is, whether or not a session names it.
    pub fn log_files(&self) -> Result<Vec<String>> {
        let list = |at: &Path| self.disk.list(at).map_err(LogError::io("list", at));
        let root = Path::new("sessions");
        let mut files = Vec::new();
        for (scope, kind) in list(root)? {
            if kind != Kind::Directory {
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

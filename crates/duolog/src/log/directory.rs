//! The logs of another program under a directory: read as they are, never locked, repaired or written beside.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use duolog_log::{
    Disk, Error as LogError, Files, Hints, Place, Progress, Reader, RootEvent, RootFollower, RootOptions, Start,
};
use duolog_types::limits::{Limits, SESSION_ID_BYTES_MAX};
use duolog_types::{Position, SessionId};

use super::stream::reason;
use crate::error::Result;

/// The JSONL files under a directory, as far as they are written when it is opened.
pub struct Directory {
    disk: Arc<dyn Disk>,
    logs: Vec<DirectoryLog>,
    unread: Vec<(PathBuf, String)>,
    /// The ids of what cannot be read, in the same order.
    pub(crate) unread_ids: Vec<SessionId>,
    pub(crate) line_bytes_max: usize,
}

/// A log in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryLog {
    /// The id: the name of the file without its extension, made unique in the directory.
    pub id: SessionId,
    /// The file, relative to the directory.
    pub path: PathBuf,
    /// The end of the last whole line.
    pub end: Position,
}

impl Directory {
    /// Finds every `*.jsonl` file under a directory; `None` if there is no such directory.
    pub fn open(root: &Path, limits: &Limits) -> Result<Option<Self>> {
        let options = RootOptions { start: Start::New, ..RootOptions::default() };
        let mut follower = RootFollower::new(root, &Hints::new(), options)?;
        let mut unread = Vec::new();
        loop {
            let progress = follower.poll(&mut |event| {
                if let RootEvent::Skipped { path, why } = event {
                    unread.push((path.to_owned(), reason(why)));
                }
            })?;
            match progress {
                Progress::Delivered => {}
                Progress::Idle => break,
                Progress::Missing => return Ok(None),
            }
        }
        let mut taken = BTreeSet::new();
        let logs = follower.logs().filter(|(_, end)| *end > Position::ZERO).map(|(path, end)| {
            let id = unique(path, &mut taken);
            DirectoryLog { id, path: path.to_owned(), end }
        });
        let logs = logs.collect();
        let unread_ids = unread.iter().map(|(path, _)| unique(path, &mut taken)).collect();
        let disk = Files::beneath(root).map_err(LogError::io("open", root))?;
        Ok(Some(Self { disk: Arc::new(disk), logs, unread, unread_ids, line_bytes_max: limits.line_bytes_max }))
    }

    /// Returns the logs, by path. Files without a whole line are left out.
    pub fn logs(&self) -> &[DirectoryLog] {
        &self.logs
    }

    /// Returns the files and directories that cannot be read, and why.
    pub fn unread(&self) -> &[(PathBuf, String)] {
        &self.unread
    }

    /// Returns the number of bytes in all logs.
    pub fn bytes(&self) -> u64 {
        self.logs.iter().map(|log| log.end.0).sum()
    }

    /// Opens a log.
    pub(crate) fn reader(&self, log: &DirectoryLog) -> Result<Reader> {
        let gone = || LogError::io("open", &log.path)(std::io::ErrorKind::NotFound.into());
        Ok(Reader::open(&self.disk, &Place::file(&log.path))?.ok_or_else(gone)?)
    }
}

/// Makes an id of the name of a file: characters that an id cannot have are replaced, and a number makes it unique.
fn unique(path: &Path, taken: &mut BTreeSet<SessionId>) -> SessionId {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let kept = |letter: char| if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '_' };
    let stem: String = stem.chars().map(kept).collect();
    let stem = stem.trim_start_matches('.');
    let mut number = 1_u64;
    loop {
        let end = if number == 1 { String::new() } else { format!("-{number}") };
        let stem = &stem[..stem.len().min(SESSION_ID_BYTES_MAX - end.len())];
        if let Ok(id) = SessionId::parse(&format!("{stem}{end}"))
            && taken.insert(id.clone())
        {
            return id;
        }
        number += 1;
    }
}

//! A log that no store owns. It is only read: never locked, repaired or written.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use duolog_log::{Disk, Error as LogError, Files, Item, Line, Place, Reader};
use duolog_types::Position;
use duolog_types::limits::Limits;

use super::model::{Entry, ReadFrom};
use super::replay::Replayable;
use crate::error::Result;

/// A JSONL file of another program.
pub struct Foreign {
    reader: Reader,
    /// The position after the last newline.
    whole: Position,
    end: Position,
    line_bytes_max: usize,
}

impl Foreign {
    /// Opens a file. Bytes that are appended later are not read.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be opened.
    pub fn open(path: &Path, limits: &Limits) -> Result<Self> {
        let failed = |call| LogError::io(call, path);
        let real = path.canonicalize().map_err(failed("find"))?;
        let (folder, name) = (real.parent().unwrap_or(Path::new("/")), real.file_name().map(PathBuf::from));
        let name = name.ok_or_else(|| failed("open")(std::io::ErrorKind::IsADirectory.into()))?;
        let disk: Arc<dyn Disk> = Arc::new(Files::beneath(folder).map_err(failed("open the folder of"))?);
        let gone = || failed("open")(std::io::ErrorKind::NotFound.into());
        let reader = Reader::open(&disk, &Place::file(&name))?.ok_or_else(gone)?;
        let end = disk.stat(&name).map_err(failed("examine"))?.ok_or_else(gone)?.len;
        let end = Position(end);
        Ok(Self { whole: reader.last_line_end(end)?, reader, end, line_bytes_max: limits.line_bytes_max })
    }

    /// Returns the last line if it has no newline.
    fn unended(&self, start: Position) -> Result<Option<Vec<u8>>> {
        let length = self.end.0.saturating_sub(start.0);
        if length == 0 || length > self.line_bytes_max as u64 {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        self.reader.each_chunk(start, self.end, |chunk| {
            bytes.extend_from_slice(chunk);
            Ok(())
        })?;
        Ok(Some(bytes))
    }
}

impl Replayable for Foreign {
    fn entries(&self, from: ReadFrom, each: &mut dyn FnMut(Entry<'_>) -> ControlFlow<()>) -> Result<Position> {
        let start = match from {
            ReadFrom::Start => Position::ZERO,
            ReadFrom::Position(position) => position,
            ReadFrom::Last(count) => {
                let unended = u64::from(self.whole < self.end);
                self.reader.start_of_last(count.saturating_sub(unended), self.whole)?
            }
        };
        let mut lines = self.reader.lines(start, self.end.max(start), self.line_bytes_max)?;
        while let Some(item) = lines.next()? {
            // Lines that are not quite JSON are given to the reader too, so that no content is hidden.
            let entry = match item {
                Item::Line(line) => Entry::Line(line),
                long @ Item::TooLong { .. } => Entry::of(long, self.line_bytes_max),
            };
            if each(entry).is_break() {
                return Ok(lines.position());
            }
        }
        let start = lines.position();
        let Some(bytes) = self.unended(start)? else { return Ok(start) };
        let _ = each(Entry::Line(Line { start, end: self.end, bytes: &bytes }));
        Ok(self.end)
    }
}

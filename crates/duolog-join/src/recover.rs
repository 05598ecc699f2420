//! What opening a home puts right, and what a reboot may have taken (R6, R7).

use std::path::Path;
use std::sync::PoisonError;

use duolog_log::{Error as LogError, Open, Writer};
use duolog_state::owned::{behind, outbox};
use duolog_types::SessionId;

use crate::error::{Error, Result};
use crate::process::ProcessState;
use crate::store::Join;

/// How many sessions opening looks after; the rest are mended at their first append, or when they are folded.
const AT_OPEN: u32 = 256;
/// The boot of the machine during which every log was last compared with its checkpoint.
const BOOT: &str = "processes/boot";

impl Join {
    /// Mends the logs that dead processes were writing, and copies the lines that wait in the outbox.
    ///
    /// Idempotent, and bounded: it does not fold.
    pub(crate) fn recover(&self) -> Result<()> {
        let home = self.home;
        let (marks, waiting) = self.state.read(|tx| {
            Ok::<_, Error>((behind::of_home(tx, &home, None, AT_OPEN)?, outbox::waiting(tx, &home, AT_OPEN)?))
        })?;
        for mark in marks {
            if self.process.state_of(mark.process_id)? == ProcessState::Dead {
                tolerate(self.mend(&mark.session_id))?;
            }
        }
        for (session, _) in waiting {
            tolerate(self.drain(&session).map(drop))?;
        }
        Ok(())
    }

    /// Mends the tail of a log and records what was found, without appending.
    pub(crate) fn mend(&self, session: &SessionId) -> Result<()> {
        let known = self.known(session)?;
        self.own(&known.row)?;
        let (_, recovery) = Writer::open(&self.disk, &known.place(), &known.watermark, &self.limits)?;
        match self.note_recovery(session, known.row.log_epoch, &recovery) {
            // It is recorded; nobody is appending who would have to be told.
            Err(Error::LogChanged { .. }) => Ok(()),
            other => other,
        }
    }

    /// Whether every log was compared with its checkpoint since the machine booted.
    pub(crate) fn has_swept(&self) -> Result<bool> {
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = *swept {
            return Ok(known);
        }
        let mut boot = [0; 64];
        let read = match self.disk.open(Path::new(BOOT), Open::Read) {
            Ok(file) => file.read_at(&mut boot, 0).map_err(LogError::io("read", Path::new(BOOT)))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
            Err(error) => return Err(LogError::io("open", Path::new(BOOT))(error).into()),
        };
        let same = boot[..read] == *self.boot.as_bytes();
        *swept = Some(same);
        Ok(same)
    }

    pub(crate) fn remember_boot(&self) -> Result<()> {
        *self.swept.lock().unwrap_or_else(PoisonError::into_inner) = Some(true);
        let path = Path::new(BOOT);
        let io = |call| LogError::io(call, path);
        self.disk.create_dir(Path::new("processes")).map_err(io("make the directory of"))?;
        let file = match self.disk.open(path, Open::Create) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => self.disk.open(path, Open::Append),
            other => other,
        };
        let file = file.map_err(io("open"))?;
        // A crash in between leaves another text than any boot's, and the next one sweeps again.
        file.set_len(0).map_err(io("cut"))?;
        file.append(self.boot.as_bytes()).map_err(io("write"))?;
        Ok(())
    }
}

/// A log that cannot be mended now is told of when someone uses it; it does not keep the home from opening.
fn tolerate(outcome: Result<()>) -> Result<()> {
    match outcome {
        Err(
            Error::Log(_)
            | Error::NoSession(_)
            | Error::Deleted(_)
            | Error::LogChanged { .. }
            | Error::BadLine(_)
            | Error::OtherHome { .. },
        ) => Ok(()),
        other => other,
    }
}

//! Recovery when a home is opened, and after a reboot (R6, R7).

use std::path::Path;

use duolog_log::{Error as LogError, Mend, MendKind, Open, torn_records};
use duolog_state::Tx;
use duolog_state::owned::{self, behind, operations, outbox, sessions};
use duolog_types::limits::{OPERATION_KEPT, OPERATIONS_KEPT_MIN};
use duolog_types::{Durability, Position, ProcessId, SessionId, Timestamp};

use crate::error::{Error, Result};
use crate::process::ProcessState;
use crate::store::{Join, Known};

/// The number of sessions that are recovered at open. The others are repaired at their first append, or when they are
/// folded.
const SESSIONS_AT_OPEN: u32 = 256;
/// The number of operations that are deleted at open.
const EXPIRED_AT_OPEN: u32 = 1024;
/// The file with the id of the boot after which every log was last marked.
const BOOT: &str = "processes/boot";

impl Join {
    /// Finishes deletions, repairs the torn tails of logs of dead processes, and appends pending lines.
    ///
    /// Idempotent and bounded. It does not fold.
    pub(crate) fn recover(&self) -> Result<()> {
        let home = self.home;
        let (marks, waiting, deleted, stale) = self.state.read(|tx| {
            // Usually there is nothing: one query instead of four.
            if !owned::has_unfinished_work(tx, &home)? {
                return Ok::<_, Error>(Default::default());
            }
            let marks = behind::of_home(tx, &home, None, SESSIONS_AT_OPEN)?;
            let waiting = outbox::waiting(tx, &home, SESSIONS_AT_OPEN)?;
            let stale = sessions::with_unlink_due(tx, &home, SESSIONS_AT_OPEN)?;
            Ok((marks, waiting, sessions::tombstoned(tx, &home, SESSIONS_AT_OPEN)?, stale))
        })?;
        for session in deleted {
            tolerate(self.delete(&session).map(drop))?;
        }
        for session in stale {
            tolerate(self.current(&session).map(drop))?;
        }
        for mark in marks {
            // A process that exited normally left no torn tail; its lines are folded by the next reader.
            let has_owner = mark.process_id != ProcessId::NOBODY;
            if has_owner && self.process.state_of(mark.process_id)? == ProcessState::Dead {
                tolerate(self.mend(&mark.session_id))?;
            }
        }
        for (session, _) in waiting {
            tolerate(self.drain(&session).map(drop))?;
        }
        self.expire_operations()
    }

    /// Deletes operations that are too old to be retried. The newest are kept whatever the clock says: a wrong clock
    /// must not delete answers that are still needed.
    fn expire_operations(&self) -> Result<()> {
        let kept = i64::try_from(OPERATION_KEPT.as_micros()).unwrap_or(i64::MAX);
        let clock = self.tx_clock();
        let expired = self.state.read(|tx| {
            let before = Timestamp::from_micros(clock.now(tx)?.as_micros().saturating_sub(kept));
            Ok::<_, Error>(operations::any_before(tx, before)?.then_some(before))
        })?;
        let Some(before) = expired else { return Ok(()) };
        let expire = move |tx: &mut Tx<'_>| Ok(operations::expire(tx, before, OPERATIONS_KEPT_MIN, EXPIRED_AT_OPEN)?);
        match self.write(Durability::Process, expire) {
            // They stay until there is space to delete them.
            Ok(_) | Err(Error::State(duolog_state::Error::Full { .. } | duolog_state::Error::Busy { .. })) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Repairs the torn tail of a log and records it, without appending.
    pub(crate) fn mend(&self, session: &SessionId) -> Result<()> {
        self.mend_with_detail(session, None)
    }

    /// Repairs the torn tail of a log. `found` is added to the record of a change of the log.
    pub(crate) fn mend_with_detail(&self, session: &SessionId, found: Option<String>) -> Result<()> {
        let mut known = self.current(session)?;
        let epoch = known.row.log_epoch;
        known.watermark.claimed_to = self.state.read(|tx| operations::claimed_to(tx, session, epoch))?;
        let (_, recovery) = self.open_writer(&known)?;
        self.note_quarantined(session, &known)?;
        match self.note_recovery(&known, &recovery, found) {
            // The change is recorded, and there is no append that must fail.
            Err(Error::LogChanged { .. }) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Records torn bytes that a process set aside before it died.
    fn note_quarantined(&self, session: &SessionId, known: &Known) -> Result<()> {
        let records = torn_records(&self.disk, &known.place().path)?;
        if records.is_empty() {
            return Ok(());
        }
        let noted = self.repairs_of(session)?;
        for record in records {
            let Ok(hash) = blake3::Hash::from_hex(&record.blake3) else { continue };
            let mend = Mend {
                kind: MendKind::Quarantined,
                position: Position(record.position),
                bytes: record.len,
                hash: hash.into(),
            };
            let is_recorded = noted.iter().any(|row| row.repair.hash == Some(mend.hash));
            if !is_recorded {
                self.note_mend(session, known.row.log_epoch, mend)?;
            }
        }
        Ok(())
    }

    /// Returns true if every log was marked since the machine booted.
    pub(crate) fn was_marked_after_boot(&self) -> Result<bool> {
        let mut marked_after_boot = self.marked_after_boot.lock();
        if let Some(known) = *marked_after_boot {
            return Ok(known);
        }
        let mut boot = [0; 64];
        let read = match self.disk.open(Path::new(BOOT), Open::Read) {
            Ok(file) => file.read_at(&mut boot, 0).map_err(LogError::io("read", Path::new(BOOT)))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
            Err(error) => return Err(LogError::io("open", Path::new(BOOT))(error).into()),
        };
        // If the system does not tell the boot, it may be another one.
        let same = !self.boot.is_empty() && boot[..read] == *self.boot.as_bytes();
        *marked_after_boot = Some(same);
        Ok(same)
    }

    pub(crate) fn remember_boot(&self) -> Result<()> {
        *self.marked_after_boot.lock() = Some(true);
        let path = Path::new(BOOT);
        let io = |call| LogError::io(call, path);
        self.disk.create_dir(Path::new("processes")).map_err(io("create the directory of"))?;
        let file = match self.disk.open(path, Open::Create) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => self.disk.open(path, Open::Append),
            other => other,
        };
        let file = file.map_err(io("open"))?;
        // After a crash in between the text matches no boot, and the logs are marked again.
        file.set_len(0).map_err(io("cut"))?;
        file.append(self.boot.as_bytes()).map_err(io("write"))?;
        Ok(())
    }
}

/// Ignores the error of a log that cannot be repaired now: it is reported when the log is used, and must not prevent
/// opening the home.
pub(crate) fn tolerate(outcome: Result<()>) -> Result<()> {
    match outcome {
        Err(
            Error::Log(_)
            | Error::Unfinished { .. }
            | Error::NoSession(_)
            | Error::Deleted(_)
            | Error::LogChanged { .. }
            | Error::BadLine(_)
            | Error::OtherHome { .. },
        ) => Ok(()),
        // If the disk was full or the state busy, the next process that opens the home tries again.
        Err(error) if error.is_full() || error.is_busy() => Ok(()),
        other => other,
    }
}

//! What opening a home puts right, and what a reboot may have taken (R6, R7).

use std::path::Path;

use duolog_log::{Error as LogError, Mend, MendKind, Open, torn_records};
use duolog_state::Tx;
use duolog_state::owned::{self, behind, operations, outbox, sessions};
use duolog_types::limits::{OPERATION_KEPT, OPERATIONS_KEPT_MIN};
use duolog_types::{Durability, Position, ProcessId, SessionId, Timestamp};

use crate::error::{Error, Result};
use crate::process::ProcessState;
use crate::store::{Join, Known};

/// How many sessions opening looks after; the rest are mended at their first append, or when they are folded.
const AT_OPEN: u32 = 256;
/// How many operations opening forgets.
const EXPIRED_AT_OPEN: u32 = 1024;
/// The boot of the machine in which every log was last marked.
const BOOT: &str = "processes/boot";

impl Join {
    /// Finishes deletions, mends the logs that dead processes were writing, and copies the lines that wait.
    ///
    /// Idempotent, and bounded: it does not fold.
    pub(crate) fn recover(&self) -> Result<()> {
        let home = self.home;
        let (marks, waiting, deleted, stale) = self.state.read(|tx| {
            // Mostly nothing is: one question instead of three.
            if !owned::has_unfinished_work(tx, &home)? {
                return Ok::<_, Error>(Default::default());
            }
            let marks = behind::of_home(tx, &home, None, AT_OPEN)?;
            let waiting = outbox::waiting(tx, &home, AT_OPEN)?;
            let stale = sessions::with_unlink_due(tx, &home, AT_OPEN)?;
            Ok((marks, waiting, sessions::tombstoned(tx, &home, AT_OPEN)?, stale))
        })?;
        for session in deleted {
            tolerate(self.delete(&session).map(drop))?;
        }
        for session in stale {
            tolerate(self.current(&session).map(drop))?;
        }
        for mark in marks {
            // Who left in good order left no torn tail; its lines are folded when someone reads.
            let left = mark.process_id == ProcessId::NOBODY;
            if !left && self.process.state_of(mark.process_id)? == ProcessState::Dead {
                tolerate(self.mend(&mark.session_id))?;
            }
        }
        for (session, _) in waiting {
            tolerate(self.drain(&session).map(drop))?;
        }
        self.expire_operations()
    }

    /// Forgets operations that were first tried so long ago that nobody asks again. The newest stay whatever the clock
    /// says: one wrong clock must not take the answers that are still asked for.
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
            // They stay until there is room to forget them.
            Ok(_) | Err(Error::State(duolog_state::Error::Full { .. } | duolog_state::Error::Busy { .. })) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Mends the tail of a log and records what was found, without appending.
    pub(crate) fn mend(&self, session: &SessionId) -> Result<()> {
        self.mend_telling(session, None)
    }

    /// The same; the record of a change of the log says in addition what was found.
    pub(crate) fn mend_telling(&self, session: &SessionId, found: Option<String>) -> Result<()> {
        let mut known = self.current(session)?;
        let epoch = known.row.log_epoch;
        known.watermark.claimed_to = self.state.read(|tx| operations::claimed_to(tx, session, epoch))?;
        let (_, recovery) = self.open_writer(&known)?;
        self.note_quarantined(session, &known)?;
        match self.note_recovery(&known, &recovery, found) {
            // It is recorded; nobody is appending who would have to be told.
            Err(Error::LogChanged { .. }) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Records what a process set aside and did not live to record.
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
            let known_of = noted.iter().any(|row| row.repair.hash == Some(mend.hash));
            if !known_of {
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
        // Where the system does not tell which boot this is, it may be another one.
        let same = !self.boot.is_empty() && boot[..read] == *self.boot.as_bytes();
        *marked_after_boot = Some(same);
        Ok(same)
    }

    pub(crate) fn remember_boot(&self) -> Result<()> {
        *self.marked_after_boot.lock() = Some(true);
        let path = Path::new(BOOT);
        let io = |call| LogError::io(call, path);
        self.disk.create_dir(Path::new("processes")).map_err(io("make the directory of"))?;
        let file = match self.disk.open(path, Open::Create) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => self.disk.open(path, Open::Append),
            other => other,
        };
        let file = file.map_err(io("open"))?;
        // A crash in between leaves another text than any boot's, and the next one marks again.
        file.set_len(0).map_err(io("cut"))?;
        file.append(self.boot.as_bytes()).map_err(io("write"))?;
        Ok(())
    }
}

/// A log that cannot be mended now is told of when someone uses it; it does not keep the home from opening.
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
        // What could not be put right for want of room, or because another was in the way, is put right by whoever
        // opens the home next.
        Err(error) if error.is_full() || error.is_busy() => Ok(()),
        other => other,
    }
}

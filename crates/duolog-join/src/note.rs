//! Records in `repairs`: repaired torn tails, and lost bytes.

use duolog_log::{LogIdentity, Mend, MendKind, Recovery};
use duolog_state::owned::repairs::{self, NewRepair, RepairAction};
use duolog_types::{Durability, Epoch, Position, SessionId, mutant, mutant::Mutant};

use crate::error::{Error, Result};
use crate::life::EpochChange;
use crate::open_log::OpenLog;
use crate::store::{Join, Known};

/// An unexpected change of a log.
pub(crate) struct LogChange {
    pub(crate) standing: LogIdentity,
    /// The number of lost recorded bytes.
    pub(crate) bytes: u64,
    /// Further details.
    pub(crate) detail: Option<String>,
}

impl Join {
    /// Records what opening a log found. If bytes that a reader may have seen are lost, returns an error, once.
    ///
    /// Returns false if the log was deleted or repaired on purpose: then it must be opened again.
    pub(crate) fn note_recovery(&self, known: &Known, recovery: &Recovery, found: Option<String>) -> Result<bool> {
        let (session, epoch, standing) = (&known.row.id, known.row.log_epoch, recovery.identity);
        if let Some(mend) = recovery.mend {
            self.note_mend(session, epoch, mend)?;
        }
        if standing == LogIdentity::Same || mutant::is(Mutant::NoEpoch) {
            return Ok(true);
        }
        let change = LogChange { standing, bytes: known.bytes_lost(standing), detail: found };
        match self.note_change(session, epoch, change)? {
            EpochChange::Expected => Ok(false),
            EpochChange::Raised(epoch) => Err(Error::LogChanged { session: session.clone(), standing, epoch }),
        }
    }

    /// Records that a log has changed, and raises its epoch.
    pub(crate) fn note_change(&self, session: &SessionId, epoch: Epoch, change: LogChange) -> Result<EpochChange> {
        let LogChange { standing, bytes, detail } = change;
        let (action, position) = match standing {
            LogIdentity::Same => return Ok(EpochChange::Expected),
            LogIdentity::Missing => (RepairAction::Missing, Position::ZERO),
            LogIdentity::Shorter(end) => (RepairAction::Shorter, end),
            LogIdentity::Replaced => (RepairAction::Replaced, Position::ZERO),
        };
        let repair = NewRepair { bytes, detail, ..self.repair_row(session, epoch, action, position) };
        self.raise_epoch(session, epoch, repair)
    }

    /// Records that a fold found a changed log.
    pub(crate) fn note_loss(&self, known: &Known, standing: LogIdentity) -> Result<()> {
        let change = LogChange { standing, bytes: known.bytes_lost(standing), detail: None };
        self.note_change(&known.row.id, known.row.log_epoch, change).map(drop)
    }

    /// Records the repair of a torn tail.
    pub(crate) fn note_mend(&self, session: &SessionId, epoch: Epoch, mend: Mend) -> Result<bool> {
        let action = match mend.kind {
            MendKind::Completed => RepairAction::Completed,
            MendKind::Quarantined => RepairAction::Quarantined,
            MendKind::Terminated => RepairAction::Terminated,
        };
        let mut repair = self.repair_row(session, epoch, action, mend.position);
        repair.bytes = mend.bytes;
        repair.hash = Some(mend.hash);
        self.write(Durability::Power, move |tx| Ok(repairs::note(tx, &repair)?))
    }

    /// Records the repair of a torn tail that an append found. If that fails, the append is still valid: the failure
    /// must not look like one of the append, or a retry would duplicate its lines.
    pub(crate) fn note_or_keep(&self, open: &OpenLog, mend: Option<Mend>) {
        for mend in open.writer.take_deferred_mends().into_iter().chain(mend) {
            if self.note_mend(&open.session, open.epoch, mend).is_err() {
                open.writer.defer_mend(mend);
            }
        }
    }

    pub(crate) fn repair_row(
        &self,
        session: &SessionId,
        epoch: Epoch,
        action: RepairAction,
        position: Position,
    ) -> NewRepair {
        NewRepair {
            session_id: session.clone(),
            home_id: self.home,
            epoch,
            action,
            position,
            bytes: 0,
            hash: None,
            detail: None,
            repaired_at: self.clock.now(),
        }
    }
}

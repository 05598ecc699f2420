//! Imported sessions: the log is written and synced as a draft first, then all rows are inserted in one transaction.
//! Nothing is visible before the commit. A crash before it leaves a draft file, which is deleted later.

use std::sync::Arc;

use duolog_log::{Draft, sweep_drafts};
use duolog_state::Tx;
use duolog_state::owned::behind::{self, BehindRow};
use duolog_state::owned::sessions::SessionRow;
use duolog_types::{Durability, ProcessId, SessionId};
use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::life::{CreatedSession, NewLog, insert_at_free};
use crate::store::Join;
use crate::transact::{IdempotencyKey, Write};

impl Join {
    /// Creates a draft of a log for a session that does not exist yet. Drafts that other processes left are deleted
    /// first.
    pub fn draft(&self) -> Result<Draft> {
        if !self.is_writable() {
            return Err(Error::ReadOnly);
        }
        sweep_drafts(&*self.disk)?;
        Ok(Draft::new(&self.disk, SessionId::new().as_str(), self.limits.busy_timeout))
    }

    /// Returns the session that this request created, if it was carried out.
    pub fn adopted(&self, key: &IdempotencyKey) -> Result<Option<SessionRow>> {
        let created: Option<CreatedSession> = self.answer_to(key)?;
        created.map(|created| self.known(&created.id).map(|known| known.row)).transpose()
    }

    /// Creates a session with a drafted log and its rows, all or nothing.
    ///
    /// The log gets its name inside the transaction, after the row has it: then no other session can have chosen it. A
    /// crash before the commit leaves a file that no row names. Its mode shows that, and the next session with that
    /// path replaces it.
    ///
    /// If the key was used before, returns the session that was created then.
    pub fn adopt<E>(
        &self,
        key: Option<IdempotencyKey>,
        new: NewLog,
        mut draft: Draft,
        mut rows: impl FnMut(&mut Tx<'_>, &SessionRow) -> std::result::Result<(), E> + Send + 'static,
    ) -> std::result::Result<SessionRow, E>
    where
        E: From<Error> + Send + 'static,
    {
        draft.sync().map_err(Error::from)?;
        let NewLog { mut row, stem } = new;
        let free = self.free_paths(&stem, &row.id)?;
        row.home_id = self.home;
        row.scope = stem.scope;
        let mark = BehindRow {
            session_id: row.id.clone(),
            process_id: ProcessId::NOBODY,
            home_id: self.home,
            generation: 1,
            pid: std::process::id(),
            marked_at: self.clock.now(),
        };
        let draft = Arc::new(Mutex::new(draft));
        let draft_in_tx = Arc::clone(&draft);
        let disk = Arc::clone(&self.disk);
        let adopted = self.transact(Write::once(Durability::Power, key), move |tx| {
            let place = insert_at_free(tx, &mut row, &free)?;
            rows(tx, &row).map_err(AdoptError::Rows)?;
            let mut draft = draft_in_tx.lock();
            if draft.has_lines() {
                // No process appends to it, so the mark has no owner: the next reader folds it.
                behind::mark(tx, &mark)?;
                draft.rename_to(&place.path).map_err(Error::from)?;
            } else {
                place.clear(&*disk)?;
            }
            Ok((CreatedSession { id: row.id.clone(), row: Some(row.clone()) }, Vec::new()))
        });
        let mut draft = draft.lock();
        match adopted {
            Ok(CreatedSession { row: Some(row), .. }) => {
                draft.keep();
                Ok(row)
            }
            Ok(CreatedSession { id, row: None }) => Ok(self.known(&id)?.row),
            Err(AdoptError::Join(error)) => {
                // If the outcome of the commit is unknown, the log must stay. If the row does not exist, a retry
                // replaces the log.
                if error.is_unknown() {
                    draft.leave();
                }
                Err(error.into())
            }
            Err(AdoptError::Rows(error)) => Err(error),
        }
    }
}

/// The reason why a session was not created: an error of the join, or of the caller's rows.
enum AdoptError<E> {
    Join(Error),
    Rows(E),
}

impl<E> From<Error> for AdoptError<E> {
    fn from(error: Error) -> Self {
        Self::Join(error)
    }
}

impl<E> From<duolog_state::Error> for AdoptError<E> {
    fn from(error: duolog_state::Error) -> Self {
        Self::Join(error.into())
    }
}

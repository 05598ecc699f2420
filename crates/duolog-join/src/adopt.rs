//! A session that comes from elsewhere: its log is written and synced first, aside, then all of its rows are one
//! transaction. Until that is committed nobody sees anything of it, and what dies before leaves a file that is swept away.

use std::sync::Arc;

use duolog_log::{Draft, sweep_drafts};
use duolog_state::Tx;
use duolog_state::owned::behind::{self, BehindRow};
use duolog_state::owned::sessions::SessionRow;
use duolog_types::{Durability, ProcessId, SessionId};
use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::life::{Made, NewLog, insert_at_free};
use crate::store::Join;
use crate::transact::{IdempotencyKey, Write};

impl Join {
    /// A log to be written for a session that is not there yet. What others left behind is taken away first.
    pub fn draft(&self) -> Result<Draft> {
        if !self.is_writable() {
            return Err(Error::ReadOnly);
        }
        sweep_drafts(&*self.disk)?;
        Ok(Draft::new(&self.disk, SessionId::new().as_str(), self.limits.busy_timeout))
    }

    /// The session that a request made when it was carried out, if it was.
    pub fn adopted(&self, key: &IdempotencyKey) -> Result<Option<SessionRow>> {
        let made: Option<Made> = self.answer_to(key)?;
        made.map(|made| self.known(&made.id).map(|known| known.row)).transpose()
    }

    /// Makes a session with a log that was drafted and with whatever rows are its own: all of it, or nothing.
    ///
    /// The log gets its name within the transaction, once the row has it: no other session can have chosen it then. A
    /// crash before the commit leaves a file that no row names; its mode says so, and the next session of that path replaces it.
    ///
    /// Under a key, asked again, it answers with the session that it made.
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
        let ours = Arc::clone(&draft);
        let disk = Arc::clone(&self.disk);
        let adopted = self.transact(Write::once(Durability::Power, key), move |tx| {
            let place = insert_at_free(tx, &mut row, &free)?;
            rows(tx, &row).map_err(Failed::Rows)?;
            let mut draft = ours.lock();
            if draft.has_lines() {
                // Nobody appends to it: whoever reads next folds it.
                behind::mark(tx, &mark)?;
                draft.rename_to(&place.path).map_err(Error::from)?;
            } else {
                place.clear(&*disk)?;
            }
            Ok((Made { id: row.id.clone(), row: Some(row.clone()) }, Vec::new()))
        });
        let mut draft = draft.lock();
        match adopted {
            Ok(Made { row: Some(row), .. }) => {
                draft.keep();
                Ok(row)
            }
            Ok(Made { id, row: None }) => Ok(self.known(&id)?.row),
            Err(Failed::Join(error)) => {
                // Where it is not known whether the row stands, the log must. If it does not, the retry replaces the log.
                if error.is_unknown() {
                    draft.leave();
                }
                Err(error.into())
            }
            Err(Failed::Rows(error)) => Err(error),
        }
    }
}

/// Why a session was not made: what failed here, or what failed for the caller.
enum Failed<E> {
    Join(Error),
    Rows(E),
}

impl<E> From<Error> for Failed<E> {
    fn from(error: Error) -> Self {
        Self::Join(error)
    }
}

impl<E> From<duolog_state::Error> for Failed<E> {
    fn from(error: duolog_state::Error) -> Self {
        Self::Join(error.into())
    }
}

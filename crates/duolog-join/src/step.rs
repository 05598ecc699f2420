//! A commit of the fold: rows, seals, marks and outbox rows of one log, or of many together.

use std::sync::Arc;

use duolog_state::Tx;
use duolog_state::derived::catalog::FoldedTo;
use duolog_state::owned::behind::{self, BehindRow};
use duolog_state::owned::outbox::{self, OutboxKey};
use duolog_types::{Durability, Position, SessionId};

use crate::error::{Error, Result};
use crate::marks::{CopiedLine, LiftedMark, Mark};
use crate::project::Rows;
use crate::rows::{Wrote, write_rows};
use crate::seal::SealPlan;
use crate::store::Join;

/// One log's part of a commit.
pub(crate) struct Step {
    pub(crate) session: SessionId,
    /// The rows, and what the fold started from; `None` if there was nothing to fold.
    pub(crate) rows: Option<(Option<FoldedTo>, Rows)>,
    pub(crate) seals: Option<SealPlan>,
    /// The marks to delete, where nothing is left to fold.
    pub(crate) marks: Vec<BehindRow>,
    /// The lines about rows that this process wrote to the log, and that are synced by now.
    pub(crate) told: Vec<OutboxKey>,
}

/// What a commit did with one log's part.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stepped {
    /// It took effect; true if the seals did too.
    Done(bool),
    /// Another fold was faster: nothing was changed.
    Overtaken,
    /// The session was deleted.
    Gone,
}

impl Step {
    /// Takes effect only where the last step ended.
    fn commit(&self, tx: &mut Tx<'_>) -> Result<Stepped> {
        if let Some((expected, rows)) = &self.rows {
            match write_rows(tx, *expected, rows) {
                Ok(Wrote::All) => {}
                Ok(Wrote::Behind | Wrote::Contended) => return Ok(Stepped::Overtaken),
                // Nothing was written: the row is looked for first.
                Err(Error::NoSession(_)) => return Ok(Stepped::Gone),
                Err(error) => return Err(error),
            }
        }
        outbox::delete(tx, &self.told)?;
        for mark in &self.marks {
            behind::clear(tx, &self.session, &mark.process_id, mark.generation)?;
        }
        self.seals.as_ref().map_or(Ok(false), |seals| seals.put(tx)).map(Stepped::Done)
    }
}

/// A step, and what is to be put back should its commit fail.
pub(crate) struct Planned {
    pub(crate) to: Position,
    pub(crate) end: Position,
    pub(crate) sealed_to: Option<Position>,
    pub(crate) own: Option<LiftedMark>,
    /// The lines about rows that were taken out, and the mark that they belong to.
    pub(crate) copied: Option<(Arc<Mark>, Vec<CopiedLine>)>,
}

/// How far a step brought one log.
pub(crate) enum Advanced {
    /// Its rows reach this position, and the log had this end.
    To(Position, Position),
    /// Another process folded meanwhile, and what it did stands: look again.
    Overtaken,
    /// The session was deleted.
    Gone,
}

impl Join {
    /// Commits all parts at once, or each by itself if one of them spoils the commit of all.
    pub(crate) fn commit_steps(
        &self,
        steps: &Arc<Vec<Step>>,
        planned: &[Result<Planned>],
    ) -> Result<Vec<Result<Stepped>>> {
        if steps.is_empty() {
            return Ok(Vec::new());
        }
        let all = Arc::clone(steps);
        let committed = self.write(Durability::Process, move |tx| all.iter().map(|step| step.commit(tx)).collect());
        match committed {
            Ok(stepped) => Ok(Vec::into_iter(stepped).map(Ok).collect()),
            Err(error) if steps.len() == 1 || error.is_unknown() || error.leaves_behind() => {
                for plan in planned.iter().flatten() {
                    put_back(plan, error.is_unknown());
                }
                Err(error.of_session(&steps[0].session))
            }
            Err(_) => {
                let one = |at: usize| {
                    let all = Arc::clone(steps);
                    let stepped = self.write(Durability::Process, move |tx| all[at].commit(tx));
                    stepped.map_err(|error| error.of_session(&steps[at].session))
                };
                let stepped: Vec<Result<Stepped>> = (0..steps.len()).map(one).collect();
                for (plan, stepped) in planned.iter().flatten().zip(&stepped) {
                    if let Err(error) = stepped {
                        put_back(plan, error.is_unknown());
                    }
                }
                Ok(stepped)
            }
        }
    }

    /// Does what follows the commit of a step.
    pub(crate) fn conclude(&self, session: &SessionId, plan: &Planned, stepped: Stepped) -> Result<Advanced> {
        match stepped {
            Stepped::Overtaken => {
                put_back(plan, false);
                Ok(Advanced::Overtaken)
            }
            Stepped::Gone => {
                self.forget_mark(session);
                Ok(Advanced::Gone)
            }
            Stepped::Done(sealed) => {
                if let (true, Some(sealed_to)) = (sealed, plan.sealed_to) {
                    self.tell_sealed(session, sealed_to);
                }
                let is_sealed = sealed && plan.sealed_to >= Some(plan.to);
                // Another process sealed meanwhile, or there is more to seal than one commit takes.
                if plan.sealed_to.is_some() && !is_sealed {
                    self.seal(session)?;
                }
                if plan.own.is_some() {
                    self.marks.forget_unused(session);
                }
                Ok(Advanced::To(plan.to, plan.end))
            }
        }
    }
}

/// Takes back what was taken out for a commit that did not take effect.
fn put_back(plan: &Planned, is_unknown: bool) {
    if let Some((mark, copied)) = &plan.copied {
        // Deleting a row that is gone does nothing.
        mark.copied().extend(copied.iter().cloned());
    }
    // If nobody can tell, do not assume that the mark is still there: the next append would go unmarked.
    if let Some(own) = plan.own.as_ref().filter(|_| !is_unknown) {
        own.put_back();
    }
}

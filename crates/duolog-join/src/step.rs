//! A commit of the fold: rows, seals, marks and outbox rows of one log or of many.

use std::sync::Arc;

use duolog_state::Tx;
use duolog_state::derived::catalog::FoldedTo;
use duolog_state::owned::behind::{self, BehindRow};
use duolog_state::owned::outbox::{self, OutboxKey};
use duolog_types::{Durability, Position, SessionId};

use crate::error::{Error, Result};
use crate::marks::{CopiedLine, LiftedMark, Mark};
use crate::project::Rows;
use crate::rows::{WriteOutcome, write_rows};
use crate::seal::SealPlan;
use crate::store::Join;

/// The part of one log in a commit.
pub(crate) struct Step {
    pub(crate) session: SessionId,
    /// The rows and the start of the fold. `None` if there was nothing to fold.
    pub(crate) rows: Option<(Option<FoldedTo>, Rows)>,
    pub(crate) seals: Option<SealPlan>,
    /// The marks to delete, if nothing is left to fold.
    pub(crate) marks: Vec<BehindRow>,
    /// The lines about rows that this process wrote to the log and that are synced now.
    pub(crate) synced_lines: Vec<OutboxKey>,
}

/// The outcome of one log's part in a commit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitResult {
    /// It took effect; true if the seals did too.
    Done(bool),
    /// Another fold was faster; nothing was changed.
    Overtaken,
    /// The session was deleted.
    Gone,
}

impl Step {
    /// Writes this part. It takes effect only if the rows are at its start.
    fn commit(&self, tx: &mut Tx<'_>) -> Result<CommitResult> {
        if let Some((expected, rows)) = &self.rows {
            match write_rows(tx, *expected, rows) {
                Ok(WriteOutcome::All) => {}
                Ok(WriteOutcome::Behind | WriteOutcome::Contended) => return Ok(CommitResult::Overtaken),
                // Nothing was written: the session's row is read first.
                Err(Error::NoSession(_)) => return Ok(CommitResult::Gone),
                Err(error) => return Err(error),
            }
        }
        outbox::delete(tx, &self.synced_lines)?;
        for mark in &self.marks {
            behind::clear(tx, &self.session, &mark.process_id, mark.generation)?;
        }
        self.seals.as_ref().map_or(Ok(false), |seals| seals.put(tx)).map(CommitResult::Done)
    }
}

/// A planned step, and what to restore if its commit fails.
pub(crate) struct StepPlan {
    pub(crate) to: Position,
    pub(crate) end: Position,
    pub(crate) sealed_to: Option<Position>,
    pub(crate) own: Option<LiftedMark>,
    /// The lines about rows that were taken from the mark, and the mark.
    pub(crate) copied: Option<(Arc<Mark>, Vec<CopiedLine>)>,
}

/// The outcome of a step for one log.
pub(crate) enum StepResult {
    /// Its rows cover up to the first position; the second is the end of the log.
    To(Position, Position),
    /// Another process folded meanwhile; the caller must try again.
    Overtaken,
    /// The session was deleted.
    Gone,
}

impl Join {
    /// Commits all parts at once, or each alone if one of them makes the common commit fail.
    pub(crate) fn commit_steps(
        &self,
        steps: &Arc<Vec<Step>>,
        planned: &[Result<StepPlan>],
    ) -> Result<Vec<Result<CommitResult>>> {
        if steps.is_empty() {
            return Ok(Vec::new());
        }
        let all = Arc::clone(steps);
        let committed = self.write(Durability::Process, move |tx| all.iter().map(|step| step.commit(tx)).collect());
        match committed {
            Ok(stepped) => Ok(Vec::into_iter(stepped).map(Ok).collect()),
            Err(error) if steps.len() == 1 || error.is_unknown() || error.leaves_behind() => {
                for plan in planned.iter().flatten() {
                    restore(plan, error.is_unknown());
                }
                Err(error.of_session(&steps[0].session))
            }
            Err(_) => {
                let commit_alone = |at: usize| {
                    let all = Arc::clone(steps);
                    let stepped = self.write(Durability::Process, move |tx| all[at].commit(tx));
                    stepped.map_err(|error| error.of_session(&steps[at].session))
                };
                let stepped: Vec<Result<CommitResult>> = (0..steps.len()).map(commit_alone).collect();
                for (plan, stepped) in planned.iter().flatten().zip(&stepped) {
                    if let Err(error) = stepped {
                        restore(plan, error.is_unknown());
                    }
                }
                Ok(stepped)
            }
        }
    }

    /// Does what follows the commit of a step.
    pub(crate) fn conclude(&self, session: &SessionId, plan: &StepPlan, stepped: CommitResult) -> Result<StepResult> {
        match stepped {
            CommitResult::Overtaken => {
                restore(plan, false);
                Ok(StepResult::Overtaken)
            }
            CommitResult::Gone => {
                self.forget_mark(session);
                Ok(StepResult::Gone)
            }
            CommitResult::Done(sealed) => {
                if let (true, Some(sealed_to)) = (sealed, plan.sealed_to) {
                    self.set_sealed(session, sealed_to);
                }
                let is_sealed = sealed && plan.sealed_to >= Some(plan.to);
                // Another process sealed meanwhile, or there is more to seal than fits into one commit.
                if plan.sealed_to.is_some() && !is_sealed {
                    self.seal(session)?;
                }
                if plan.own.is_some() {
                    self.marks.forget_unused(session);
                }
                Ok(StepResult::To(plan.to, plan.end))
            }
        }
    }
}

/// Restores what was taken out for a commit that did not take effect.
fn restore(plan: &StepPlan, is_unknown: bool) {
    if let Some((mark, copied)) = &plan.copied {
        // Deleting an outbox row twice does no harm.
        mark.copied().extend(copied.iter().cloned());
    }
    // If the outcome is unknown, do not assume that the mark still exists: the next append would be unmarked.
    if let Some(own) = plan.own.as_ref().filter(|_| !is_unknown) {
        own.put_back();
    }
}

//! Approvals: gates at which runs wait for an answer. The answer and the change of its run are one transaction.

mod model;

use duolog_join::OutboxLine;
use duolog_state::PageToken;
use duolog_state::owned::workflow_approvals as table;
use duolog_types::limits::{METADATA_BYTES_MAX, PAGE_MAX, REASON_BYTES_MAX};
use duolog_types::mutant::{self, Mutant};
use duolog_types::{ApprovalId, ApprovalKind, ApprovalStatus, Durability, RunId, Timestamp};
use serde::{Deserialize, Serialize};

pub use duolog_state::owned::workflow_approvals::Approval;
pub use model::{Answer, Answered, ApprovalFilter, ApprovalList};

use crate::error::{Conflict, Error, Invalid, NotFound, Result, Stale};
use crate::runs::rules::{self, Event};
use crate::runs::{Attribution, Changing, Queue, RunPage, RunSummary};
use crate::store::Store;

/// The handle for approvals.
#[derive(Clone)]
pub struct Approvals {
    pub(crate) store: Store,
    pub(crate) durability: Durability,
}

/// The kind of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Yes,
    No,
    Reply,
}

impl Word {
    const fn kind(self) -> ApprovalKind {
        match self {
            Self::Yes | Self::No => ApprovalKind::Approve,
            Self::Reply => ApprovalKind::Reply,
        }
    }

    const fn status(self) -> ApprovalStatus {
        match self {
            Self::Yes => ApprovalStatus::Approved,
            Self::No => ApprovalStatus::Rejected,
            Self::Reply => ApprovalStatus::Answered,
        }
    }
}

/// The outcome of an answer.
#[derive(Serialize, Deserialize)]
enum AnswerOutcome {
    /// It was accepted.
    Taken(Box<Answered>),
    /// It was too late: the gate had expired, and its run has failed.
    TooLate(Box<RunSummary>, Timestamp),
}

impl Approvals {
    /// Returns the gate with this id.
    pub fn get(&self, id: &ApprovalId) -> Result<Approval> {
        let row = self.store.join.state().read(|tx| table::find(tx, id))?;
        row.ok_or_else(|| Error::NotFound(NotFound::Approval(id.to_string())))
    }

    /// Returns the gate with this id, or the only one whose id starts with it.
    pub fn resolve(&self, text: &str) -> Result<ApprovalId> {
        let found = self.store.join.state().read(|tx| {
            let exact = match ApprovalId::parse(text) {
                Ok(id) => table::find(tx, &id)?.map(|row| row.id),
                Err(_) => None,
            };
            crate::resolve::resolve(tx, "gate", text, exact, table::starting_with)
        })?;
        found.ok_or_else(|| Error::NotFound(NotFound::Approval(text.to_owned())))
    }

    /// A page of gates, newest first. A run waits at one gate at a time, the newest: of a run, a pending gate is the first.
    pub fn list(&self, filter: &ApprovalFilter, page: &RunPage) -> Result<ApprovalList> {
        let (limit, list) = (page.limit(), filter.list());
        let after = match page.after() {
            Some(token) => {
                Invalid::check_page(Some(token), list)?;
                let id = ApprovalId::parse(token.key())
                    .map_err(|_| Error::Invalid(Invalid::OtherPage(token.to_string())))?;
                Some((token.at(), id))
            }
            None => None,
        };
        let after = after.as_ref().map(|(at, id)| (*at, id));
        let status = filter.status.filter(|_| !mutant::is(Mutant::GatesFilteredAfterPage));
        let mut rows = self.store.join.state().read(|tx| match &filter.run {
            Some(run) => table::of_run(tx, run, status, after, limit + 1),
            None => table::list(tx, filter.status, after, limit + 1),
        })?;
        let more = rows.len() > limit as usize;
        rows.truncate(limit as usize);
        let token = |last: &Approval| PageToken::new(list, 0, last.created_at, &last.id);
        let next = rows.last().filter(|_| more).map(token);
        if mutant::is(Mutant::GatesFilteredAfterPage) {
            rows.retain(|row| filter.status.is_none_or(|status| status == row.status));
        }
        Ok(ApprovalList { approvals: rows, next })
    }

    /// Returns the gate at which a run waits.
    pub fn pending_of(&self, run: &RunId) -> Result<Option<Approval>> {
        Ok(self.store.join.state().read(|tx| table::pending_of(tx, run))?)
    }

    /// Returns the answers that no claim of a run has acknowledged.
    pub fn unconsumed_of(&self, run: &RunId) -> Result<Vec<ApprovalId>> {
        Ok(self.store.join.state().read(|tx| table::unconsumed_of(tx, run, PAGE_MAX))?)
    }

    /// Approves a gate: the run continues and can be claimed.
    pub fn approve(&self, id: &ApprovalId, answer: &Answer) -> Result<Answered> {
        self.answer(id, Word::Yes, answer)
    }

    /// Rejects a gate: the run fails, with the answer as the reason.
    pub fn reject(&self, id: &ApprovalId, answer: &Answer) -> Result<Answered> {
        self.answer(id, Word::No, answer)
    }

    /// Answers a gate with a text: the run continues and can be claimed.
    pub fn reply(&self, id: &ApprovalId, answer: &Answer) -> Result<Answered> {
        if answer.response.as_deref().is_none_or(|text| text.trim().is_empty()) {
            return Err(Error::Invalid(Invalid::Value { what: "response", why: "must not be empty".to_owned() }));
        }
        self.answer(id, Word::Reply, answer)
    }

    fn answer(&self, id: &ApprovalId, word: Word, answer: &Answer) -> Result<Answered> {
        rules::check_named("responded_by", answer.by.as_ref())?;
        if let Some(response) = &answer.response {
            match word {
                // The response becomes the error of the run.
                Word::No => rules::bounded::<{ REASON_BYTES_MAX - 64 }>("response", response)?,
                _ => rules::bounded::<METADATA_BYTES_MAX>("response", response)?,
            }
        }
        let join = &self.store.join;
        let (id, answer, queue) = (id.clone(), answer.clone(), Queue::of(&self.store));
        let (clock, lease) = (join.tx_clock(), join.limits().runs.lease);
        let asked = id.clone();
        let outcome = self.store.transact(self.durability, move |tx| {
            let now = clock.now(tx)?;
            let mut gate =
                table::find(tx, &asked)?.ok_or_else(|| Error::NotFound(NotFound::Approval(asked.to_string())))?;
            check(&gate, word, &answer)?;
            let run = Changing::open(tx, &gate.workflow_run_id, now, lease)?;
            resolve(run, &mut gate, word, &answer, &queue)
        })?;
        match outcome {
            AnswerOutcome::Taken(answered) => {
                if answered.run.status.is_terminal() {
                    self.store.core.observers.tell(&answered.run);
                }
                Ok(*answered)
            }
            AnswerOutcome::TooLate(run, at) => {
                self.store.core.observers.tell(&run);
                Err(Error::Stale(Stale::GateExpired { gate: id, at }))
            }
        }
    }
}

fn resolve(
    mut run: Changing<'_, '_>,
    gate: &mut Approval,
    word: Word,
    answer: &Answer,
    queue: &Queue,
) -> Result<(AnswerOutcome, Vec<OutboxLine>)> {
    let now = run.now();
    if let Some(at) = gate.expires_at.filter(|at| *at <= now) {
        run.fail_at_gate(gate)?;
        let (row, told) = run.done()?;
        return Ok((AnswerOutcome::TooLate(Box::new(RunSummary::from(&row)), at), told));
    }
    let (by, response) = (answer.by.as_deref(), answer.response.as_deref());
    run.answer(&gate.id, word.status(), by, response)?;
    run.tell_gate(gate, word.status(), by)?;
    let act = |reason| Attribution { actor: answer.by.clone(), reason };
    // The run is paused: any other end of it would have expired the gate in the same transaction.
    match word {
        Word::Yes | Word::Reply => queue.resume(&mut run, &act(None))?,
        Word::No => {
            let reason = format!("Rejected: {}", response.unwrap_or("no reason given"));
            run.turn(Event::Fail, &act(Some(reason)))?;
        }
    }
    let (row, told) = run.done()?;
    gate.status = word.status();
    gate.responded_by.clone_from(&answer.by);
    gate.response.clone_from(&answer.response);
    gate.responded_at = Some(now);
    let answered = Answered { approval: gate.clone(), run: RunSummary::from(&row) };
    Ok((AnswerOutcome::Taken(Box::new(answered)), told))
}

/// Returns an error if the gate does not accept this answer.
fn check(gate: &Approval, word: Word, answer: &Answer) -> Result<()> {
    if answer.run.as_ref().is_some_and(|run| *run != gate.workflow_run_id) {
        return Err(Error::Invalid(Invalid::GateOfOtherRun {
            gate: gate.id.clone(),
            run: gate.workflow_run_id.clone(),
        }));
    }
    if word.kind() != gate.kind {
        return Err(Error::Invalid(Invalid::GateKind { gate: gate.id.clone(), kind: gate.kind }));
    }
    if gate.status != ApprovalStatus::Pending {
        let by = gate.responded_by.clone();
        return Err(Error::Conflict(Conflict::GateResolved { gate: gate.id.clone(), status: gate.status, by }));
    }
    match (&answer.content_hash, &gate.content_hash) {
        (None, Some(_)) => Err(Error::Invalid(Invalid::GateHashMissing { gate: gate.id.clone() })),
        (Some(seen), asked) if Some(seen) != asked.as_ref() => {
            Err(Error::Stale(Stale::GateChanged { gate: gate.id.clone() }))
        }
        _ => Ok(()),
    }
}

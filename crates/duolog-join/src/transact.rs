//! The one way to change owned rows: a transaction, the lines that logs get to tell of it, and the answer by which a retry
//! is known, in one call.

use std::collections::BTreeMap;
use std::sync::Arc;

use duolog_log::Recent;
use duolog_state::Tx;
use duolog_state::owned::operations::{self, OperationRow};
use duolog_types::limits::METADATA_BYTES_MAX;
use duolog_types::{Bounded, Clock, Durability, OperationId, SessionId, Timestamp};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::open_log::OpenLog;
use crate::outbox::OutboxLine;
use crate::store::Join;
use crate::telling::Telling;

/// The longest answer that is kept: 64 rows.
const ANSWER_BYTES_MAX: usize = 64 * METADATA_BYTES_MAX;

/// A row of an answer with more bytes than this may be followed by another: a character has up to four.
const FULL_BYTES: usize = METADATA_BYTES_MAX - 4;

/// What a request is known by when it is asked for again.
#[derive(Clone, Debug)]
pub struct IdempotencyKey {
    scope: String,
    operation: OperationId,
    request_hash: [u8; 32],
    /// The ids that the references of the request mean, by reference. They are kept with the answer; clones share them.
    meant: Arc<Mutex<BTreeMap<String, String>>>,
}

impl IdempotencyKey {
    /// A request under an operation id, which is unique within its scope: the name of what is asked for.
    ///
    /// `request` is everything that makes it another request if it differs.
    pub fn new(scope: &str, operation: &OperationId, request: &impl Serialize) -> Result<Self> {
        let text = serde_json::to_vec(request).map_err(Error::NoJson)?;
        let request_hash = blake3::hash(&text).into();
        Ok(Self { scope: scope.to_owned(), operation: operation.clone(), request_hash, meant: Arc::default() })
    }

    /// The key of one part of the request, for a request that takes several transactions: asked again, each part that was
    /// done gives its answer, and the others are done.
    #[must_use]
    pub fn part(&self, name: &str) -> Self {
        Self { scope: format!("{}/{name}", self.scope), ..self.clone() }
    }

    /// The operation id of the request.
    pub fn operation(&self) -> &OperationId {
        &self.operation
    }

    /// Notes the id that a reference of the request means, to be kept with the answer: a retry means the same one, whatever
    /// is called so by then.
    pub fn mean(&self, reference: String, id: &str) {
        self.meant.lock().insert(reference, id.to_owned());
    }

    /// The key of the ids that the references of the request meant.
    fn of_meant(&self) -> Self {
        Self { meant: Arc::default(), ..self.part("meant") }
    }

    /// Forgets the answer to a request that is taken back.
    pub(crate) fn forget(&self, tx: &mut Tx<'_>) -> Result<()> {
        Ok(operations::forget(tx, &self.scope, &self.operation)?)
    }

    /// The rows that keep the answer to a request: one, unless the answer is too long for one.
    pub(crate) fn answered_with(&self, answer: &impl Serialize, at: Timestamp) -> Result<Vec<OperationRow>> {
        let text = serde_json::to_string(answer).map_err(Error::NoJson)?;
        Bounded::<ANSWER_BYTES_MAX>::new("the answer to a request", &text)?;
        let mut rows = Vec::new();
        let mut rest = text.as_str();
        while rows.is_empty() || !rest.is_empty() {
            let (part, after) = rest.split_at(rest.floor_char_boundary(METADATA_BYTES_MAX));
            rest = after;
            rows.push(OperationRow {
                scope: self.scope_of_part(rows.len()),
                operation_id: self.operation.clone(),
                request_hash: self.request_hash,
                answer: Some(part.to_owned()),
                created_at: at,
                session_id: None,
                lines_done: 0,
                place: None,
            });
        }
        let meant = self.meant.lock().clone();
        if !meant.is_empty() {
            rows.extend(self.of_meant().answered_with(&meant, at)?);
        }
        Ok(rows)
    }

    /// The scope of one row of the answer.
    fn scope_of_part(&self, part: usize) -> String {
        if part == 0 { self.scope.clone() } else { format!("{}/answer/{part}", self.scope) }
    }
}

/// How a change is written.
#[derive(Clone, Debug)]
pub struct Write {
    /// What it survives once it is acknowledged.
    pub durability: Durability,
    /// What it is known by when it is asked for again. Without one, asking again changes again.
    pub key: Option<IdempotencyKey>,
}

impl From<Durability> for Write {
    fn from(durability: Durability) -> Self {
        Self { durability, key: None }
    }
}

impl Write {
    /// A change that can be asked for again where there is a key.
    pub fn once(durability: Durability, key: Option<IdempotencyKey>) -> Self {
        Self { durability, key }
    }
}

/// The clock of a transaction, for what several machines compare: leases, and how long something may wait.
#[derive(Clone)]
pub struct TxClock(Arc<dyn Clock>);

impl TxClock {
    /// The present time: by the server's clock where the state is on one, else by the machine's. A clock that the caller
    /// supplied takes the place of both.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be asked.
    pub fn now(&self, tx: &mut Tx<'_>) -> duolog_state::Result<Timestamp> {
        let of_server = if self.0.is_machine() { tx.server_time()? } else { None };
        Ok(of_server.unwrap_or_else(|| self.0.now()))
    }
}

impl Join {
    /// The clock for use inside a transaction.
    pub fn tx_clock(&self) -> TxClock {
        TxClock(Arc::clone(&self.clock))
    }

    /// Runs a change of owned rows and has the logs tell of it.
    ///
    /// `f` returns the answer and the lines that [`crate::tell`] made. Its error, of whatever type, undoes all of it. It may
    /// run more than once, on any thread, and must have no effect but on its transaction. The change is acknowledged by its
    /// commit. Its lines are in their logs when this returns, written and not synced; a line that cannot be written now
    /// (disk full, a log that is locked or closed) waits in the outbox and undoes nothing.
    ///
    /// Under a key, a request that was answered before gets the same answer and changes nothing.
    pub fn transact<T, E>(
        &self,
        how: impl Into<Write>,
        mut f: impl FnMut(&mut Tx<'_>) -> std::result::Result<(T, Vec<OutboxLine>), E> + Send + 'static,
    ) -> std::result::Result<T, E>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        E: From<Error> + From<duolog_state::Error> + Send + 'static,
    {
        if !self.is_writable() {
            return Err(Error::ReadOnly.into());
        }
        let Write { durability, key } = how.into();
        let clock = self.tx_clock();
        let announced = Announced::new(&self.telling, &self.open);
        let announce = announced.clone();
        let (answer, told) = self.state.write(durability, move |tx| {
            if let Some(key) = &key
                && let Some(answer) = answered(tx, key)?
            {
                return Ok((answer, Vec::new()));
            }
            let (answer, mut told) = f(tx)?;
            if let Some(key) = &key {
                let at = clock.now(tx)?;
                for row in key.answered_with(&answer, at)? {
                    operations::insert(tx, &row)?;
                }
            }
            announce.add(&mut told);
            Ok::<_, E>((answer, told))
        })?;
        self.put_told(&told);
        drop(announced);
        Ok(answer)
    }

    /// The answer that a request got when it was carried out, if it was: for what must be known before it is asked again.
    pub fn answer_to<T: DeserializeOwned>(&self, key: &IdempotencyKey) -> Result<Option<T>> {
        self.state.read(|tx| answered(tx, key))
    }

    /// Returns the id that a reference meant when the request was carried out; `None` if it was not, or had no such
    /// reference.
    pub fn meant_by(&self, key: &IdempotencyKey, reference: &str) -> Result<Option<String>> {
        let meant: Option<BTreeMap<String, String>> = self.answer_to(&key.of_meant())?;
        Ok(meant.and_then(|mut meant| meant.remove(reference)))
    }
}

/// The answer that a request got when it was carried out, if it was.
fn answered<T: DeserializeOwned>(tx: &mut Tx<'_>, key: &IdempotencyKey) -> Result<Option<T>> {
    let Some(row) = operations::find(tx, &key.scope, &key.operation)? else { return Ok(None) };
    if row.request_hash != key.request_hash {
        return Err(Error::OperationReused { operation: key.operation.clone() });
    }
    let mut answer = row.answer.ok_or_else(|| damaged(&key.operation, "there is none".to_owned()))?;
    let mut is_full = answer.len() > FULL_BYTES;
    for part in 1.. {
        if !is_full {
            break;
        }
        let next = operations::find(tx, &key.scope_of_part(part), &key.operation)?;
        let Some(more) = next.and_then(|row| row.answer) else { break };
        is_full = more.len() > FULL_BYTES;
        answer.push_str(&more);
    }
    parse_answer(&key.operation, &answer).map(Some)
}

/// Reads an answer that was kept.
pub(crate) fn parse_answer<T: DeserializeOwned>(operation: &OperationId, answer: &str) -> Result<T> {
    serde_json::from_str(answer).map_err(|error| damaged(operation, error.to_string()))
}

fn damaged(operation: &OperationId, detail: String) -> Error {
    let what = format!("the answer to operation {operation}");
    Error::State(duolog_state::Error::Damaged { what, detail })
}

/// The sessions that a change is about to tell of: from before its commit until its lines are in the logs, appends to them
/// from this process wait, so that nothing comes before what led to it.
#[derive(Clone)]
struct Announced {
    telling: Arc<Telling>,
    open: Arc<Recent<SessionId, OpenLog>>,
    sessions: Arc<Mutex<Vec<SessionId>>>,
}

impl Announced {
    fn new(telling: &Arc<Telling>, open: &Arc<Recent<SessionId, OpenLog>>) -> Self {
        Self { telling: Arc::clone(telling), open: Arc::clone(open), sessions: Arc::default() }
    }

    /// Announces the lines, and notes for each where its log ends now: it cannot stand before that.
    fn add(&self, told: &mut [OutboxLine]) {
        let mut sessions = self.sessions.lock();
        for told in told {
            told.not_before = self.open.get(&told.session).map(|open| (open.epoch, open.writer.written()));
            if !sessions.contains(&told.session) {
                self.telling.begin(&told.session);
                sessions.push(told.session.clone());
            }
        }
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        // The last one goes after the call: the request's own copy goes with the request.
        if Arc::strong_count(&self.sessions) == 1 {
            for session in self.sessions.lock().drain(..) {
                self.telling.end(&session);
            }
        }
    }
}

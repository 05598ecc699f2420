//! The only way to change owned rows: one call runs the transaction, appends its lines to the logs, and stores the
//! answer for retries.

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
use crate::line_order::LineOrder;
use crate::open_log::OpenLog;
use crate::outbox::OutboxLine;
use crate::store::Join;

/// The maximum length of a stored answer: 64 rows.
const ANSWER_BYTES_MAX: usize = 64 * METADATA_BYTES_MAX;

/// A row with more bytes than this may be followed by another row of the answer: a character has up to four bytes.
const FULL_BYTES: usize = METADATA_BYTES_MAX - 4;

/// The key by which a retry of a request is recognised.
#[derive(Clone, Debug)]
pub struct IdempotencyKey {
    scope: String,
    operation: OperationId,
    request_hash: [u8; 32],
    /// The resolved id of each reference in the request. They are stored with the answer; clones share them.
    meant: Arc<Mutex<BTreeMap<String, String>>>,
}

impl IdempotencyKey {
    /// Returns the key of a request with an operation id, which is unique within its scope: the name of the operation.
    ///
    /// `request` is everything that makes a different request if it differs.
    pub fn new(scope: &str, operation: &OperationId, request: &impl Serialize) -> Result<Self> {
        let text = serde_json::to_vec(request).map_err(Error::NoJson)?;
        let request_hash = blake3::hash(&text).into();
        Ok(Self { scope: scope.to_owned(), operation: operation.clone(), request_hash, meant: Arc::default() })
    }

    /// Returns the key of one part of a request that takes several transactions. In a retry, finished parts return
    /// their answers, and the others are done.
    #[must_use]
    pub fn part(&self, name: &str) -> Self {
        Self { scope: format!("{}/{name}", self.scope), ..self.clone() }
    }

    /// Returns the operation id of the request.
    pub fn operation(&self) -> &OperationId {
        &self.operation
    }

    /// Records the id that a reference of the request resolved to. It is stored with the answer: a retry resolves to
    /// the same id, even if the name was given to another object.
    pub fn mean(&self, reference: String, id: &str) {
        self.meant.lock().insert(reference, id.to_owned());
    }

    /// Returns the key under which the resolved ids of the request are stored.
    fn of_meant(&self) -> Self {
        Self { meant: Arc::default(), ..self.part("meant") }
    }

    /// Deletes the answer to a request that is undone.
    pub(crate) fn forget(&self, tx: &mut Tx<'_>) -> Result<()> {
        Ok(operations::forget(tx, &self.scope, &self.operation)?)
    }

    /// Returns the rows with the answer to a request: one, unless the answer is too long.
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

    /// Returns the scope of one row of the answer.
    fn scope_of_part(&self, part: usize) -> String {
        if part == 0 { self.scope.clone() } else { format!("{}/answer/{part}", self.scope) }
    }
}

/// The options of a change.
#[derive(Clone, Debug)]
pub struct Write {
    /// The durability of the acknowledged change.
    pub durability: Durability,
    /// The key for retries. Without a key, a retry changes the rows again.
    pub key: Option<IdempotencyKey>,
}

impl From<Durability> for Write {
    fn from(durability: Durability) -> Self {
        Self { durability, key: None }
    }
}

impl Write {
    /// Returns the options of a change that can be retried if there is a key.
    pub fn once(durability: Durability, key: Option<IdempotencyKey>) -> Self {
        Self { durability, key }
    }
}

/// The clock inside a transaction, for timestamps that several machines compare: leases and time limits.
#[derive(Clone)]
pub struct TxClock(Arc<dyn Clock>);

impl TxClock {
    /// Returns the current time: of the server's clock if the state is on a server, otherwise of the machine's. A clock
    /// that the caller supplied replaces both.
    ///
    /// # Errors
    ///
    /// Returns an error if the server's time cannot be read.
    pub fn now(&self, tx: &mut Tx<'_>) -> duolog_state::Result<Timestamp> {
        let of_server = if self.0.is_machine() { tx.server_time()? } else { None };
        Ok(of_server.unwrap_or_else(|| self.0.now()))
    }
}

impl Join {
    /// Returns the clock for use inside a transaction.
    pub fn tx_clock(&self) -> TxClock {
        TxClock(Arc::clone(&self.clock))
    }

    /// Runs a change of owned rows and appends its lines to the logs.
    ///
    /// `f` returns the answer and the lines from [`crate::tell`]. Its error rolls back everything. It may run more than
    /// once, on any thread, and must have no effect outside its transaction. The commit acknowledges the change. When
    /// this returns, its lines are in their logs, not synced. A line that cannot be appended now (disk full, log locked
    /// or closed) stays in the outbox; the change is kept.
    ///
    /// With a key, a request that was answered before returns the same answer and changes nothing.
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
        let announced = AnnouncedSessions::new(&self.line_order, &self.open);
        let announce = announced.clone();
        let (answer, lines) = self.state.write(durability, move |tx| {
            if let Some(key) = &key
                && let Some(answer) = answered(tx, key)?
            {
                return Ok((answer, Vec::new()));
            }
            let (answer, mut lines) = f(tx)?;
            if let Some(key) = &key {
                let at = clock.now(tx)?;
                for row in key.answered_with(&answer, at)? {
                    operations::insert(tx, &row)?;
                }
            }
            announce.add(&mut lines);
            Ok::<_, E>((answer, lines))
        })?;
        self.append_lines(&lines);
        drop(announced);
        Ok(answer)
    }

    /// Returns the answer of a request that was carried out. `None` if it was not.
    pub fn answer_to<T: DeserializeOwned>(&self, key: &IdempotencyKey) -> Result<Option<T>> {
        self.state.read(|tx| answered(tx, key))
    }

    /// Returns the id that a reference resolved to when the request was carried out; `None` if it was not carried out,
    /// or had no such reference.
    pub fn meant_by(&self, key: &IdempotencyKey, reference: &str) -> Result<Option<String>> {
        let meant: Option<BTreeMap<String, String>> = self.answer_to(&key.of_meant())?;
        Ok(meant.and_then(|mut meant| meant.remove(reference)))
    }
}

/// Returns the answer of a request that was carried out. `None` if it was not.
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

/// Parses a stored answer.
pub(crate) fn parse_answer<T: DeserializeOwned>(operation: &OperationId, answer: &str) -> Result<T> {
    serde_json::from_str(answer).map_err(|error| damaged(operation, error.to_string()))
}

fn damaged(operation: &OperationId, detail: String) -> Error {
    let what = format!("the answer to operation {operation}");
    Error::State(duolog_state::Error::Damaged { what, detail })
}

/// The sessions whose logs get lines from a change. From before its commit until its lines are in the logs, appends to
/// them from this process wait, so that no event comes before its cause.
#[derive(Clone)]
struct AnnouncedSessions {
    line_order: Arc<LineOrder>,
    open: Arc<Recent<SessionId, OpenLog>>,
    sessions: Arc<Mutex<Vec<SessionId>>>,
}

impl AnnouncedSessions {
    fn new(line_order: &Arc<LineOrder>, open: &Arc<Recent<SessionId, OpenLog>>) -> Self {
        Self { line_order: Arc::clone(line_order), open: Arc::clone(open), sessions: Arc::default() }
    }

    /// Announces the lines, and records the current end of each log: the line cannot be before it.
    fn add(&self, lines: &mut [OutboxLine]) {
        let mut sessions = self.sessions.lock();
        for line in lines {
            line.not_before = self.open.get(&line.session).map(|open| (open.epoch, open.writer.written()));
            if !sessions.contains(&line.session) {
                self.line_order.begin(&line.session);
                sessions.push(line.session.clone());
            }
        }
    }
}

impl Drop for AnnouncedSessions {
    fn drop(&mut self) {
        // The last clone is dropped after the call; the clone in the request is dropped with the request.
        if Arc::strong_count(&self.sessions) == 1 {
            for session in self.sessions.lock().drain(..) {
                self.line_order.end(&session);
            }
        }
    }
}

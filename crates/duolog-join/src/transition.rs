//! Transitions that can be asked again: the same operation id does the same thing once, and answers the same.

use duolog_state::Tx;
use duolog_state::owned::transitions::{self, TransitionRow};
use duolog_types::limits::METADATA_BYTES_MAX;
use duolog_types::{Bounded, Durability, OperationId};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::outbox::Told;
use crate::store::Join;

/// What a transition is known by when it is asked for again.
#[derive(Clone, Debug)]
pub struct Once {
    /// Its operation id.
    pub operation: OperationId,
    /// The hash of what is asked for.
    pub content_hash: [u8; 32],
}

impl Once {
    /// A request under an operation id. `request` is everything that makes it another request if it differs.
    pub fn new(operation: &OperationId, request: &impl Serialize) -> Result<Self> {
        let text = serde_json::to_vec(request).map_err(Error::NoJson)?;
        Ok(Self { operation: operation.clone(), content_hash: blake3::hash(&text).into() })
    }
}

impl Join {
    /// Runs a transition as [`Join::transact`] does, or answers as it was answered when it ran before.
    pub fn transact_once<T>(
        &self,
        once: Option<Once>,
        durability: Durability,
        mut f: impl FnMut(&mut Tx<'_>) -> Result<(T, Vec<Told>)> + Send + 'static,
    ) -> Result<T>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        let Some(once) = once else { return self.transact(durability, f) };
        let at = self.clock.now();
        self.transact(durability, move |tx| {
            if let Some(answer) = answered(tx, &once)? {
                return Ok((answer, Vec::new()));
            }
            let (answer, told) = f(tx)?;
            let text = serde_json::to_string(&answer).map_err(Error::NoJson)?;
            Bounded::<METADATA_BYTES_MAX>::new("the answer to a transition", &text)?;
            let row = TransitionRow {
                operation_id: once.operation.clone(),
                content_hash: once.content_hash,
                answer: text,
                created_at: at,
            };
            transitions::insert(tx, &row)?;
            Ok((answer, told))
        })
    }

    /// The answer that a transition got when it happened, if it did: for what must be known before it is asked again.
    pub fn answer_to<T: DeserializeOwned>(&self, once: &Once) -> Result<Option<T>> {
        self.state.read(|tx| answered(tx, once))
    }
}

/// The answer that a transition got when it happened, if it did.
fn answered<T: DeserializeOwned>(tx: &mut Tx<'_>, once: &Once) -> Result<Option<T>> {
    let Some(row) = transitions::find(tx, &once.operation)? else { return Ok(None) };
    if row.content_hash != once.content_hash {
        return Err(Error::OperationReused { operation: once.operation.clone() });
    }
    serde_json::from_str(&row.answer).map(Some).map_err(|error| {
        let what = format!("the answer to operation {}", once.operation);
        duolog_state::Error::Damaged { what, detail: error.to_string() }.into()
    })
}

/// A session's id as it stands in an answer.
pub(crate) mod as_text {
    use duolog_types::SessionId;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(id: &SessionId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(id.as_str())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SessionId, D::Error> {
        SessionId::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

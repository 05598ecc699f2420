//! Messages by themselves: put, found again, put on branches by their ids.

use duolog_state::owned::message_embeddings as embeddings;
use duolog_state::owned::message_types;
use duolog_state::owned::messages::{self as table, MessageRow};
use duolog_types::limits::{EMBEDDING_BYTES_MAX, METADATA_BYTES_MAX, NAME_BYTES_MAX, WORD_BYTES_MAX};
use duolog_types::{Durability, MessageId, Moment};

use super::contents::Contents;
use super::rules::{self, bounded};
use crate::error::{Error, Result};
use crate::store::Store;

/// The messages of a store.
#[derive(Clone)]
pub struct Messages<'s> {
    pub(crate) store: &'s Store,
}

/// A message to be put.
#[derive(Clone, Debug, Default)]
pub struct NewMessage {
    /// Its id; one is minted where none is given.
    pub id: Option<MessageId>,
    /// Who speaks: not blank.
    pub role: String,
    /// What it says, as JSON.
    pub content: String,
    /// What it was in the program that made it.
    pub lion_class: Option<String>,
    /// Whatever its maker keeps with it, as JSON.
    pub node_metadata: Option<String>,
    /// What it means to a model.
    pub embedding: Option<Vec<f32>>,
    /// Who sends it.
    pub sender: Option<String>,
    /// Whom it is for.
    pub recipient: Option<String>,
    /// On which channel.
    pub channel: Option<String>,
}

/// A message, whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// When it was made.
    pub created_at: Moment,
    /// Who speaks.
    pub role: String,
    /// What it says, as JSON.
    pub content: String,
    /// What it was in the program that made it.
    pub lion_class: Option<String>,
    /// Whatever its maker keeps with it, as JSON.
    pub node_metadata: Option<String>,
    /// What it means to a model.
    pub embedding: Option<Vec<f32>>,
    /// Who sent it.
    pub sender: Option<String>,
    /// Whom it is for.
    pub recipient: Option<String>,
    /// On which channel.
    pub channel: Option<String>,
}

/// How near two embeddings are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// By the angle between them: 1 where they point the same way, -1 where they point apart.
    Cosine,
    /// By the distance between them: 0 where they are the same.
    L2,
}

/// A message that is near.
#[derive(Clone, Debug, PartialEq)]
pub struct Similar {
    /// The message.
    pub id: MessageId,
    /// Its nearness or distance, as the metric has it.
    pub score: f32,
}

/// The embeddings that are read at a time.
const EMBEDDINGS: u32 = 256;

impl Messages<'_> {
    /// The `k` messages whose embeddings are nearest to a vector, the nearest first: exactly, by looking at all.
    ///
    /// Memory does not grow with how many there are. An embedding of another length is an error: it was made by another
    /// model, and nothing can be said of it.
    pub fn similar(&self, vector: &[f32], k: usize, metric: Metric) -> Result<Vec<Similar>> {
        packed(vector)?;
        let mut nearest = Nearest::to(vector, metric, k);
        let found = self.store.join.state().read(|tx| {
            let mut after = Some(0);
            while let Some(last) = after.filter(|_| nearest.other.is_none()) {
                after = embeddings::each(tx, last, EMBEDDINGS, &mut |seq, bytes| nearest.look(seq, bytes))?;
            }
            let mut found = Vec::with_capacity(nearest.found.len());
            for (seq, score) in nearest.found.drain(..) {
                found.extend(embeddings::message_of(tx, seq)?.map(|id| Similar { id, score }));
            }
            let other = nearest.other.map(|(seq, len)| Ok::<_, Error>((embeddings::message_of(tx, seq)?, len)));
            Ok::<_, Error>((found, other.transpose()?))
        });
        match found? {
            (found, None) => Ok(found),
            (_, Some((id, len))) => {
                let id = id.map(|id| id.to_string()).unwrap_or_default();
                let why = format!("has {} numbers, and the embedding of message {id} has {len}", vector.len());
                Err(Error::BadValue { what: "vector", why })
            }
        }
    }

    /// Puts a message, or says anew what one with this id is; when it was made stays.
    pub fn put(&self, new: &NewMessage, durability: Durability) -> Result<MessageId> {
        let join = &self.store.join;
        let contents = Contents::of(join);
        let mut row = row_of(new, &contents, join.clock().now())?;
        let (id, class) = (row.id.clone(), new.lion_class.clone());
        join.write(durability, move |tx| {
            row.lion_class = message_types::resolve(tx, class.as_deref())?;
            Ok(table::put(tx, &row)?)
        })?;
        Ok(id)
    }

    /// The message with this id.
    pub fn get(&self, id: &MessageId) -> Result<Message> {
        let join = &self.store.join;
        let found = join.state().read(|tx| {
            let Some(row) = table::find(tx, id)? else { return Ok(None) };
            let class =
                message_types::class_of(tx, row.lion_class)?.filter(|_| row.lion_class != message_types::UNKNOWN);
            Ok::<_, Error>(Some((row, class)))
        });
        let (row, lion_class) = found?.ok_or_else(|| Error::NoMessage(id.clone()))?;
        let content = Contents::of(join)
            .text(Ok(row.content))
            .map_err(|detail| Error::BrokenItem { message: id.clone(), detail })?;
        Ok(Message {
            id: row.id,
            created_at: row.created_at,
            role: row.role,
            content,
            lion_class,
            node_metadata: row.node_metadata,
            embedding: row.embedding.map(|bytes| unpacked(&bytes)),
            sender: row.sender,
            recipient: row.recipient,
            channel: row.channel,
        })
    }
}

/// Checks a new message and makes its row, all but its class.
pub(super) fn row_of(new: &NewMessage, contents: &Contents, now: Moment) -> Result<MessageRow> {
    if new.role.trim().is_empty() {
        return Err(Error::BadValue { what: "role", why: "must say who speaks".to_owned() });
    }
    bounded::<WORD_BYTES_MAX>("role", &new.role)?;
    for (what, text) in [("sender", &new.sender), ("recipient", &new.recipient), ("channel", &new.channel)] {
        if let Some(text) = text {
            bounded::<NAME_BYTES_MAX>(what, text)?;
            if text.is_empty() {
                return Err(Error::BadValue { what, why: "must not be empty; leave it out".to_owned() });
            }
        }
    }
    if let Some(metadata) = &new.node_metadata {
        bounded::<METADATA_BYTES_MAX>("node_metadata", metadata)?;
    }
    if let Some(class) = &new.lion_class {
        bounded::<NAME_BYTES_MAX>("lion_class", class)?;
    }
    let embedding = new.embedding.as_deref().map(packed).transpose()?;
    let content = contents.keep(&new.content)?;
    let (_, compactable) = rules::seen_in(&new.content);
    Ok(MessageRow {
        node_metadata: new.node_metadata.clone(),
        embedding,
        sender: new.sender.clone(),
        recipient: new.recipient.clone(),
        channel: new.channel.clone(),
        compactable: compactable && new.role != "user",
        ..MessageRow::new(new.id.clone().unwrap_or_else(MessageId::new), &new.role, content, now)
    })
}

/// The nearest of those that were looked at, by the numbers of their embeddings.
struct Nearest<'v> {
    vector: &'v [f32],
    /// How long the vector is.
    length: f32,
    metric: Metric,
    k: usize,
    /// The nearest first, at most `k`.
    found: Vec<(i64, f32)>,
    /// One that cannot be compared, and its length.
    other: Option<(i64, usize)>,
}

impl<'v> Nearest<'v> {
    fn to(vector: &'v [f32], metric: Metric, k: usize) -> Self {
        let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
        Self { vector, length, metric, k, found: Vec::new(), other: None }
    }

    fn look(&mut self, seq: i64, bytes: &[u8]) {
        let numbers = bytes.as_chunks::<4>().0;
        if numbers.len() != self.vector.len() {
            self.other.get_or_insert((seq, numbers.len()));
            return;
        }
        let score = self.score(numbers);
        let is_nearer = |one: f32| match self.metric {
            Metric::Cosine => one >= score,
            Metric::L2 => one <= score,
        };
        // Most are farther than the last one that is kept.
        if self.found.len() == self.k && self.found.last().is_none_or(|last| is_nearer(last.1)) {
            return;
        }
        let at = self.found.partition_point(|one| is_nearer(one.1));
        self.found.truncate(self.k - 1);
        self.found.insert(at, (seq, score));
    }

    /// How near a packed embedding is.
    fn score(&self, packed: &[[u8; 4]]) -> f32 {
        match self.metric {
            Metric::L2 => sum(self.vector, packed, |a, b| (a - b) * (a - b)).sqrt(),
            Metric::Cosine => {
                // What is summed up first brings the bytes near; the second time they cost little.
                let squares = sum(self.vector, packed, |_, b| b * b);
                let lengths = squares.sqrt() * self.length;
                // Nothing points nowhere.
                if lengths > 0.0 { sum(self.vector, packed, |a, b| a * b) / lengths } else { 0.0 }
            }
        }
    }
}

/// The numbers that are added up side by side, so that the processor can do so.
const WIDE: usize = 16;

/// The sum over both, number by number, of what `of` makes of two.
fn sum(vector: &[f32], packed: &[[u8; 4]], of: impl Fn(f32, f32) -> f32) -> f32 {
    let mut sums = [0_f32; WIDE];
    let (ours, our_rest) = vector.as_chunks::<WIDE>();
    let (theirs, their_rest) = packed.as_chunks::<WIDE>();
    for (ours, theirs) in ours.iter().zip(theirs) {
        for at in 0..WIDE {
            sums[at] += of(ours[at], f32::from_le_bytes(theirs[at]));
        }
    }
    let rest = our_rest.iter().zip(their_rest).map(|(a, b)| of(*a, f32::from_le_bytes(*b)));
    sums.into_iter().chain(rest).sum()
}

/// Packs an embedding as little-endian 32-bit floats.
pub(super) fn packed(numbers: &[f32]) -> Result<Vec<u8>> {
    let bad = |why: String| Error::BadValue { what: "embedding", why };
    if numbers.is_empty() || numbers.len() * 4 > EMBEDDING_BYTES_MAX {
        return Err(bad(format!("has {} numbers; it may have 1 to {}", numbers.len(), EMBEDDING_BYTES_MAX / 4)));
    }
    if let Some(at) = numbers.iter().position(|number| !number.is_finite()) {
        return Err(bad(format!("is {} at {at}; every number must be finite", numbers[at])));
    }
    Ok(numbers.iter().flat_map(|number| number.to_le_bytes()).collect())
}

pub(super) fn unpacked(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
}

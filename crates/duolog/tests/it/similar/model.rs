//! A model of the search: every message in memory, compared with 64-bit numbers.

use std::collections::BTreeMap;
use std::ops::Range;

use duolog::sessions::{Metric, SimilarFilter};
use duolog::{Durability, MessageId, Store, Timestamp};
use duolog_state::owned::message_types;
use duolog_state::owned::messages::{self, Content, MessageRow};
use duolog_state::{Error, State};

/// The length of an embedding: not a multiple of the SIMD width.
pub const NUMBERS: usize = 390;
/// More embeddings than one page of a scan.
pub const MANY: u64 = 280;
/// The number of results.
const NEAREST: usize = 10;

/// Pseudo-random numbers, the same in every run.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Returns the embedding of a seed.
pub fn vector(seed: u64) -> Vec<f32> {
    vector_of(seed, NUMBERS)
}

pub fn vector_of(seed: u64, numbers: usize) -> Vec<f32> {
    let mut random = Random(seed.wrapping_mul(0x5851_f42d_4c95_7f2d));
    (0..numbers).map(|_| f32::from(u16::try_from(random.next() >> 48).expect("16 bits")) / 32_768.0 - 1.0).collect()
}

fn packed(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Returns the row of a message by its number.
pub fn row(number: u64, embedding: Option<&[f32]>) -> MessageRow {
    let named = |is: bool, name: &str| is.then(|| name.to_owned());
    let at = Timestamp::from_micros(1_700_000_000_000_000 + i64::try_from(number).expect("small") * 1_000_000);
    MessageRow {
        sender: named(number.is_multiple_of(2), "ada"),
        recipient: named(number.is_multiple_of(5), "bob"),
        channel: named(number.is_multiple_of(50), "rare"),
        embedding: embedding.map(packed),
        ..MessageRow::new(
            MessageId::parse(&Model::id(number)).expect("an id"),
            role(number),
            Content::Text("1".to_owned()),
            at,
        )
    }
}

fn role(number: u64) -> &'static str {
    if number.is_multiple_of(3) { "user" } else { "assistant" }
}

/// A message with an embedding.
#[derive(Clone)]
pub struct One {
    pub role: String,
    vector: Vec<f32>,
}

/// The messages with embeddings, by id.
#[derive(Clone, Default)]
pub struct Model {
    messages: BTreeMap<String, One>,
    next: u64,
}

impl Model {
    pub fn id(number: u64) -> String {
        format!("m-{number}")
    }

    /// Returns the number of the next message.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Adds messages to a state and to the model. Every seventh has a class.
    pub fn add(&mut self, state: &State, numbers: Range<u64>) {
        self.next = numbers.end;
        let rows: Vec<MessageRow> = numbers.clone().map(|number| row(number, Some(&vector(number)))).collect();
        let (first, mut rows) = (numbers.start, rows);
        state
            .write(Durability::Process, move |tx| {
                let class = message_types::resolve(tx, Some("made.Up"))?;
                for (row, number) in rows.iter_mut().zip(first..) {
                    row.lion_class = if number.is_multiple_of(7) { class } else { message_types::UNKNOWN };
                }
                messages::add(tx, &rows)?;
                Ok::<_, Error>(())
            })
            .expect("added");
        for number in numbers {
            self.set(&Self::id(number), role(number), Some(vector(number)));
        }
    }

    pub fn set(&mut self, id: &str, role: &str, vector: Option<Vec<f32>>) {
        match vector {
            Some(vector) => self.messages.insert(id.to_owned(), One { role: role.to_owned(), vector }),
            None => self.messages.remove(id),
        };
    }

    pub fn remove(&mut self, id: &str) {
        self.messages.remove(id);
    }

    pub fn remove_all<'i>(&mut self, ids: impl Iterator<Item = &'i str>) {
        for id in ids {
            self.remove(id);
        }
    }

    pub fn vector_of(&self, id: &str) -> Option<Vec<f32>> {
        self.messages.get(id).map(|one| one.vector.clone())
    }

    /// Returns any message that was added by its number, with or without an embedding.
    pub fn any(&self, random: &mut Random) -> String {
        Self::id(random.below(self.next))
    }

    /// Asserts that a store and the model give the same results.
    pub fn check(&self, store: &Store, what: &str) {
        self.check_among(store, &SimilarFilter::default(), &|_, _| true, what);
    }

    /// Asserts that a store and the model give the same results for a filter.
    pub fn check_among(&self, store: &Store, filter: &SimilarFilter, meant: &dyn Fn(&str, &One) -> bool, what: &str) {
        for metric in [Metric::Cosine, Metric::L2] {
            // A vector that is close to none, and one that is equal to one.
            for wanted in [vector(4_000_000), vector(3)] {
                let found = store.sessions().messages().similar(&wanted, NEAREST, metric, filter);
                let found = found.unwrap_or_else(|error| panic!("{what}: {error}"));
                let expected = self.nearest(&wanted, metric, meant);
                let ids: Vec<&str> = found.iter().map(|one| one.id.as_str()).collect();
                let names: Vec<&str> = expected.iter().map(|one| one.0.as_str()).collect();
                assert_eq!(ids, names, "{what}: {metric:?} {filter:?}");
                for (one, (id, score)) in found.iter().zip(&expected) {
                    let off = (f64::from(one.score) - score).abs();
                    assert!(off < 1e-4, "{what}: {id} is at {score}, not {}", one.score);
                }
            }
        }
    }

    fn nearest(&self, wanted: &[f32], metric: Metric, meant: &dyn Fn(&str, &One) -> bool) -> Vec<(String, f64)> {
        let meant = self.messages.iter().filter(|(id, one)| meant(id, one));
        let mut all: Vec<(String, f64)> =
            meant.map(|(id, one)| (id.clone(), score(wanted, &one.vector, metric))).collect();
        let far = |score: f64| if metric == Metric::Cosine { -score } else { score };
        all.sort_by(|a, b| far(a.1).total_cmp(&far(b.1)));
        all.truncate(NEAREST);
        all
    }
}

fn score(ours: &[f32], theirs: &[f32], metric: Metric) -> f64 {
    let sum = |of: fn(f64, f64) -> f64| -> f64 {
        ours.iter().zip(theirs).map(|(a, b)| of(f64::from(*a), f64::from(*b))).sum()
    };
    match metric {
        Metric::Cosine => sum(|a, b| a * b) / (sum(|a, _| a * a).sqrt() * sum(|_, b| b * b).sqrt()),
        Metric::L2 => sum(|a, b| (a - b) * (a - b)).sqrt(),
    }
}

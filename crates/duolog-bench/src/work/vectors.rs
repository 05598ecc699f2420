//! Embeddings: a search over all of them, against a bare loop over the same rows.

use std::rc::Rc;

use duolog::sessions::{AddOptions, Metric, SimilarFilter};
use duolog::{Durability, Store, StoreAddress};
use rusqlite::Connection;

use crate::bench::{Bench, database_in, options_in, store_in};
use crate::benchmark::Target;
use crate::database::Server;
use crate::measure::{Case, in_turns};

/// The dimensions of an embedding, as in small models.
const NUMBERS: usize = 384;
/// The number of results.
const NEAREST: usize = 10;
/// The number of messages in one transaction.
const CHUNK: usize = 100;
/// Reads all embeddings in the order of their rows.
const READ: &str = "SELECT embedding FROM message_embeddings ORDER BY seq";

/// All embeddings by cosine and by distance, those of one role, and on a server.
pub fn cases(bench: &Bench) -> Vec<Case> {
    let (count, rounds) = (bench.size(100_000, 500), bench.size(5, 1));
    let what =
        format!("the {NEAREST} nearest of {count} × {NUMBERS} dimensions / a bare loop over the rows, per embedding");
    let users = SimilarFilter { role: Some("user".to_owned()), ..SimilarFilter::default() };
    let all = Rc::new(Embeddings::new(bench, count));
    let case = |name: &str, metric: Metric, filter: SimilarFilter| {
        let all = Rc::clone(&all);
        Case::speed(name, &what, Target::AtLeast(0.5), move || {
            in_turns(
                rounds,
                (count, count),
                || all.search(metric, &filter),
                || assert_eq!(all.read_nearest(metric), all.wanted),
            )
        })
    };
    vec![
        case("vectors/cosine", Metric::Cosine, SimilarFilter::default()),
        case("vectors/l2", Metric::L2, SimilarFilter::default()),
        case("vectors/filtered", Metric::Cosine, users),
        on_server(bench),
    ]
}

/// The search with the state on a server: every embedding comes over the socket, on both sides.
fn on_server(bench: &Bench) -> Case {
    let (count, rounds) = (bench.size(20_000, 300), bench.size(5, 1));
    let what = format!("the {NEAREST} nearest of {count} on a server / a bare loop over the rows, per embedding");
    let started = Server::start();
    let prepared = started.as_ref().ok().map(|server| {
        let directory = bench.new_dir();
        let address: StoreAddress = server.url.parse().expect("an address");
        let store = Store::open(options_in(&directory).with_store(address).one_shot()).expect("a store");
        fill(&store, count);
        (store, server.driver())
    });
    let wanted = embedding(count / 2);
    Case::speed("vectors/postgres", &what, Target::AtLeast(0.5), move || {
        let (store, driver) = prepared.as_ref().expect("a server");
        let statement = driver.prepare(READ);
        let bare = || {
            let rows = driver.query(&statement, &[]);
            let scores = rows.iter().map(|row| score(row.get(0), &wanted, Metric::Cosine));
            assert_eq!(best(scores), count / 2);
        };
        in_turns(rounds, (count, count), || search(store, &wanted, Metric::Cosine, &SimilarFilter::default()), bare)
    })
    .needs(&started)
}

/// A store with embeddings, and its database with the bare driver.
struct Embeddings {
    store: Store,
    bare: Connection,
    wanted: usize,
    vector: Vec<f32>,
}

impl Embeddings {
    fn new(bench: &Bench, count: usize) -> Self {
        let directory = bench.new_dir();
        let store = store_in(&directory);
        fill(&store, count);
        store.state().checkpoint().expect("moved");
        let bare = Connection::open(database_in(&directory)).expect("opens");
        Self { store, bare, wanted: count / 2, vector: embedding(count / 2) }
    }

    fn search(&self, metric: Metric, filter: &SimilarFilter) {
        search(&self.store, &self.vector, metric, filter);
    }

    /// Returns the nearest row, found by a loop over the rows that the driver reads in place.
    fn read_nearest(&self, metric: Metric) -> usize {
        let mut statement = self.bare.prepare_cached(READ).expect("prepared");
        let mut rows = statement.query([]).expect("rows");
        best(std::iter::from_fn(|| {
            let row = rows.next().expect("a row")?;
            Some(score(row.get_ref(0).and_then(|value| Ok(value.as_blob()?)).expect("bytes"), &self.vector, metric))
        }))
    }
}

/// Finds the nearest embedding, which is the vector itself.
fn search(store: &Store, vector: &[f32], metric: Metric, filter: &SimilarFilter) {
    let found = store.sessions().messages().similar(vector, NEAREST, metric, filter).expect("found");
    let itself = if metric == Metric::L2 { 0.0 } else { 1.0 };
    assert!(found.len() == NEAREST && (found[0].score - itself).abs() < 1e-3, "{:?}", found[0]);
}

/// Adds `count` items with embeddings.
fn fill(store: &Store, count: usize) {
    let session = store.sessions().open_thread("bench").expect("a session").id;
    let items = store.sessions().items(&session);
    for from in (0..count).step_by(CHUNK) {
        let embeddings: Vec<_> = (from..count.min(from + CHUNK)).map(embedding).collect();
        let texts = vec![r#"{"role":"user","content":"What is the plan?"}"#; embeddings.len()];
        let options = AddOptions { durability: Durability::Process, embeddings, ..AddOptions::default() };
        items.add(&texts, &options).expect("added");
    }
}

/// Returns pseudo-random numbers, the same in every run.
fn embedding(message: usize) -> Vec<f32> {
    let number = |at: usize| {
        let mut mixed = (message as u64 * NUMBERS as u64 + at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed >> 40) as f32) / ((1_u64 << 23) as f32) - 1.0
    };
    (0..NUMBERS).map(number).collect()
}

/// Returns the similarity of two embeddings; higher is nearer. Partial sums let the compiler vectorise the loop.
fn score(bytes: &[u8], wanted: &[f32], metric: Metric) -> f32 {
    let (mut products, mut squares) = ([0_f32; 16], [0_f32; 16]);
    for (ours, theirs) in wanted.as_chunks::<16>().0.iter().zip(bytes.as_chunks::<64>().0) {
        for (at, four) in theirs.as_chunks::<4>().0.iter().enumerate() {
            let number = f32::from_le_bytes(*four);
            if metric == Metric::L2 {
                squares[at] += (ours[at] - number) * (ours[at] - number);
            } else {
                products[at] += ours[at] * number;
                squares[at] += number * number;
            }
        }
    }
    let (product, square) = (products.iter().sum::<f32>(), squares.iter().sum::<f32>());
    if metric == Metric::L2 { -square } else { product / square.sqrt() }
}

/// Returns the index of the highest score.
fn best(scores: impl Iterator<Item = f32>) -> usize {
    let highest = scores.enumerate().max_by(|one, other| one.1.total_cmp(&other.1));
    highest.map_or(usize::MAX, |(at, _)| at)
}

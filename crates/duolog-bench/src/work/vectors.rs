//! Embeddings: how fast all of them are looked at, against a bare loop over the same bytes.
//!
//! The limit of `memory` is the loop over bytes that are in memory already, all at once, which no search that is bounded
//! in memory has. The limit of `read` is the same loop over the same bytes where they are kept: read in the order they
//! stand in, by the bare driver, from the database of this run. The first search packs them into a file, which the others
//! read; it is told by itself. `filtered` has to look up whom each message that comes near is from; with `postgres` the
//! state is on a server, and the pack beside the logs.

use std::time::Instant;

use duolog::sessions::{Metric, PackStanding, SimilarFilter};
use duolog::{Durability, MessageId, Moment, Said, Store};
use duolog_state::owned::messages::{self, Content, MessageRow};
use duolog_state::{OpenState, State};
use rusqlite::Connection;

use super::engines::postgres;
use crate::bench::{Bench, options_in, store_in};
use crate::measure::{Figure, Pairs, Target, in_turns};

/// The numbers of an embedding, as the small models have them.
const NUMBERS: usize = 384;
/// How many of the nearest are asked for.
const NEAREST: usize = 10;
/// The messages of one transaction.
const CHUNK: usize = 1000;

/// All embeddings, by angle and by distance.
pub fn run(bench: &Bench) -> Vec<Figure> {
    let (count, rounds) = (bench.size(100_000, 500), bench.size(15, 3));
    let room = bench.room();
    let (store, _) = store_in(room.path());
    let directory = room.path().join("home/state");
    let state = State::open(OpenState::at(&directory)).expect("opens");
    let all = fill(&state, count);
    state.checkpoint().expect("moved");
    let wanted: Vec<f32> = (0..NUMBERS).map(|at| number(count / 2, at)).collect();
    let bare = Connection::open(directory.join("state.db")).expect("opens");
    let search = |metric, filter: &SimilarFilter| search(&store, &wanted, count / 2, metric, filter);
    let (everybody, of_users) =
        (SimilarFilter::default(), SimilarFilter { role: Some("user".to_owned()), ..SimilarFilter::default() });
    let first = timed(count, || search(Metric::Cosine, &everybody));
    let read = timed(count, || assert_eq!(read_nearest(&bare, &wanted), count / 2));
    assert!(bench.smoke || is_packed(&store));
    let what = |what: &str, of: &str| format!("{count} × {NUMBERS} numbers, {what} of each / a bare dot product {of}");
    let (in_memory, as_read) = ("over them in memory", "over them as the bare driver reads them");
    let mut figures =
        vec![Pairs::of(vec![first], vec![read]).cost("vectors/first", &what("packing", as_read), Target::Told)];
    let cases = [
        ("cosine", Metric::Cosine, &everybody),
        ("l2", Metric::L2, &everybody),
        ("filtered", Metric::Cosine, &of_users),
    ];
    let loop_in_memory = || assert_eq!(nearest(all.as_chunks::<{ NUMBERS * 4 }>().0.iter(), &wanted), count / 2);
    for (word, metric, filter) in cases {
        let ours = || search(metric, filter);
        let memory = in_turns(rounds, (count, count), ours, loop_in_memory);
        let (name, what_of) = (format!("vectors/{word}, memory"), what("a look", in_memory));
        figures.push(memory.speed(&name, &what_of, Target::AtLeast(0.5)));
        if filter == &everybody {
            let read = in_turns(rounds, (count, count), ours, || assert_eq!(read_nearest(&bare, &wanted), count / 2));
            let (name, what_of) = (format!("vectors/{word}, read"), what("a look", as_read));
            figures.push(read.speed(&name, &what_of, Target::AtLeast(0.5)));
        }
    }
    let on_server = postgres::in_database(|url| {
        let room = bench.room();
        let said: Said = url.parse().expect("an address");
        let store = Store::open(options_in(room.path()).with_store(said.clone()).one_shot()).expect("a store");
        fill(&State::open(OpenState::address(said.or_in(room.path()))).expect("opens"), count);
        let ours = || self::search(&store, &wanted, count / 2, Metric::Cosine, &everybody);
        ours();
        assert!(bench.smoke || is_packed(&store));
        in_turns(rounds, (count, count), ours, loop_in_memory)
    });
    match on_server {
        Some(memory) => {
            figures.push(memory.speed("vectors/postgres, memory", &what("a look", in_memory), Target::AtLeast(0.5)));
        }
        None => eprintln!("vectors: no PostgreSQL is named in {}: duolog-postgres run -- …", postgres::SERVER),
    }
    figures
}

/// Adds so many messages, and says what their embeddings are, one behind the other.
fn fill(state: &State, count: usize) -> Vec<u8> {
    let mut all = Vec::with_capacity(count * NUMBERS * 4);
    for from in (0..count).step_by(CHUNK) {
        let rows: Vec<MessageRow> = (from..count.min(from + CHUNK)).map(message).collect();
        all.extend(rows.iter().flat_map(|row| row.embedding.as_deref().expect("one")));
        state.write(Durability::Process, move |tx| messages::add(tx, &rows)).expect("added");
    }
    all
}

/// Finds the nearest, the first of which is known.
fn search(store: &Store, wanted: &[f32], first: usize, metric: Metric, filter: &SimilarFilter) {
    let found = store.sessions().messages().similar(wanted, NEAREST, metric, filter).expect("found");
    assert_eq!((found.len(), found[0].id.as_str()), (NEAREST, id_of(first).as_str()));
}

fn is_packed(store: &Store) -> bool {
    let packed = store.sessions().messages().packed_embeddings().expect("looks");
    matches!(packed, PackStanding::Whole { .. })
}

/// The nanoseconds of each of so many.
fn timed(count: usize, work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64 / count as f64
}

fn id_of(message: usize) -> MessageId {
    MessageId::parse(&format!("01900000-0000-7000-8000-{message:012}")).expect("an id")
}

/// Numbers that look like noise, and are the same every time.
fn number(message: usize, at: usize) -> f32 {
    let mut mixed = (message as u64 * NUMBERS as u64 + at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed >> 40) as f32) / ((1_u64 << 23) as f32) - 1.0
}

fn message(at: usize) -> MessageRow {
    let content = Content::Text(r#"{"role":"user","content":"What is the plan?"}"#.to_owned());
    let embedding = (0..NUMBERS).flat_map(|place| number(at, place).to_le_bytes()).collect();
    let now = Moment::from_micros(1_790_000_000_000_000);
    MessageRow { embedding: Some(embedding), ..MessageRow::new(id_of(at), "user", content, now) }
}

/// The bare loop: which of these has the largest product.
fn nearest<'a>(embeddings: impl Iterator<Item = &'a [u8; NUMBERS * 4]>, wanted: &[f32]) -> usize {
    let (mut best, mut largest) = (0, f32::MIN);
    for (at, bytes) in embeddings.enumerate() {
        let product = dot(bytes, wanted);
        if product > largest {
            (best, largest) = (at, product);
        }
    }
    best
}

/// Sums side by side, so that they can be made side by side.
fn dot(bytes: &[u8], wanted: &[f32]) -> f32 {
    let mut sums = [0_f32; 16];
    for (ours, theirs) in wanted.as_chunks::<16>().0.iter().zip(bytes.as_chunks::<64>().0) {
        for (at, four) in theirs.as_chunks::<4>().0.iter().enumerate() {
            sums[at] += ours[at] * f32::from_le_bytes(*four);
        }
    }
    sums.iter().sum()
}

/// The same loop over what the bare driver reads, in the order it stands in.
fn read_nearest(connection: &Connection, wanted: &[f32]) -> usize {
    let mut statement =
        connection.prepare_cached("SELECT embedding FROM message_embeddings ORDER BY seq").expect("a statement");
    let mut rows = statement.query([]).expect("reads");
    let (mut best, mut largest, mut at) = (0, f32::MIN, 0);
    while let Some(row) = rows.next().expect("reads") {
        let product = dot(row.get_ref(0).and_then(|value| Ok(value.as_blob()?)).expect("bytes"), wanted);
        if product > largest {
            (best, largest) = (at, product);
        }
        at += 1;
    }
    best
}

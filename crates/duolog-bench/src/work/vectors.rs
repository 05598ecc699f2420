//! Embeddings: how fast all of them are compared, against a bare loop over the same rows.
//!
//! The limit is a dot product over the same bytes as the bare driver reads them from the database of this run. `filtered`
//! looks up the role of each message that comes near. With `postgres` the state is on a server; its limit is the same bare
//! loop over the file, so it shows the cost of the socket.

use duolog::sessions::{Metric, SimilarFilter};
use duolog::{Durability, MessageId, Moment, Said, Store};
use duolog_state::owned::messages::{self, Content, MessageRow};
use duolog_state::{OpenState, State};
use rusqlite::Connection;

use super::engines::postgres;
use crate::bench::{Bench, options_in, store_in};
use crate::measure::{Figure, Target, in_turns};

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
    fill(&state, count);
    state.checkpoint().expect("moved");
    let wanted: Vec<f32> = (0..NUMBERS).map(|at| number(count / 2, at)).collect();
    let bare = Connection::open(directory.join("state.db")).expect("opens");
    let (everybody, of_users) =
        (SimilarFilter::default(), SimilarFilter { role: Some("user".to_owned()), ..SimilarFilter::default() });
    let what =
        format!("{count} × {NUMBERS} numbers, a look of each / a bare dot product over the rows of the bare driver");
    let cases = [
        ("cosine", Metric::Cosine, &everybody),
        ("l2", Metric::L2, &everybody),
        ("filtered", Metric::Cosine, &of_users),
    ];
    let loop_over_rows = || assert_eq!(read_nearest(&bare, &wanted), count / 2);
    let mut figures = Vec::new();
    for (word, metric, filter) in cases {
        let ours = || search(&store, &wanted, count / 2, metric, filter);
        let read = in_turns(rounds, (count, count), ours, loop_over_rows);
        figures.push(read.speed(&format!("vectors/{word}"), &what, Target::AtLeast(0.5)));
    }
    let on_server = postgres::in_database(|url| {
        let room = bench.room();
        let said: Said = url.parse().expect("an address");
        let store = Store::open(options_in(room.path()).with_store(said.clone()).one_shot()).expect("a store");
        fill(&State::open(OpenState::address(said.or_in(room.path()))).expect("opens"), count);
        let ours = || search(&store, &wanted, count / 2, Metric::Cosine, &everybody);
        in_turns(rounds, (count, count), ours, loop_over_rows)
    });
    match on_server {
        Some(read) => figures.push(read.speed("vectors/postgres", &what, Target::Told)),
        None => eprintln!("vectors: no PostgreSQL is named in {}: duolog-postgres run -- …", postgres::SERVER),
    }
    figures
}

/// Adds so many messages with embeddings.
fn fill(state: &State, count: usize) {
    for from in (0..count).step_by(CHUNK) {
        let rows: Vec<MessageRow> = (from..count.min(from + CHUNK)).map(message).collect();
        state.write(Durability::Process, move |tx| messages::add(tx, &rows)).expect("added");
    }
}

/// Finds the nearest, the first of which is known.
fn search(store: &Store, wanted: &[f32], first: usize, metric: Metric, filter: &SimilarFilter) {
    let found = store.sessions().messages().similar(wanted, NEAREST, metric, filter).expect("found");
    assert_eq!((found.len(), found[0].id.as_str()), (NEAREST, id_of(first).as_str()));
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

/// The bare loop over what the driver reads, in the order of the rows: which has the largest product.
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

//! Full text over all logs: making the index, its size, finding a rare word, and what it costs those who append.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use duolog::search::{Query, SearchRequest, UseIndex};
use duolog::{Batch, Durability, Store};
use rusqlite::{Connection, params};

use crate::bench::{Bench, options_in};
use crate::corpus::Corpus;
use crate::events;
use crate::measure::{Figure, Pairs, Target, in_turns};

/// A word that stands once in all logs: in two pieces here, because this file is among what they are made of.
const NEEDLE: &str = concat!("haystack", "needle");
const MIB: f64 = 1_048_576.0;
/// The bytes of one log.
const LOG_BYTES: usize = 8 << 20;
/// The text of one transaction of the bare table.
const BATCH_BYTES: usize = 32 << 20;
/// What recall is looked at by: words, rare ones, pieces of code, beginnings, phrases, and what shall not be there.
const QUERIES: [&str; 12] = [
    "durability",
    "kalomir",
    "selvor*",
    "Error::io",
    "log_epoch",
    "\"the log\"",
    "\"position after\"",
    "epoch -sync",
    "Reader::open",
    "0a*",
    "fdatasync",
    "checkpoint fold",
];

/// Every figure of the search, on one home that grows.
pub fn run(bench: &Bench) -> Vec<Figure> {
    let room = bench.room();
    let home = Growing::new(room.path());
    let (indexing, size, recall) = home.grow(bench);
    let mut figures = vec![indexing, size, recall];
    figures.extend(searches(bench, &home));
    figures.push(appends(bench));
    figures
}

/// A home, and the same text in a bare full-text table.
struct Growing {
    store: Store,
    bare: Connection,
}

impl Growing {
    fn new(room: &Path) -> Self {
        let store = Store::open(options_in(room).one_shot()).expect("a store");
        let bare = Connection::open(room.join("bare.db")).expect("a database");
        // The same table and settings as ours, and nothing around it.
        bare.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 16384;
             PRAGMA cache_size = -32768; PRAGMA temp_store = MEMORY;
             CREATE VIRTUAL TABLE texts USING fts5
                 (body, content = '', contentless_delete = 1, tokenize = 'ascii', detail = 'full');
             INSERT INTO texts (texts, rank) VALUES ('hashsize', 16777216);",
        )
        .expect("a table");
        Self { store, bare }
    }

    /// Adds to both sides round by round; gives the figures of indexing, size and recall.
    fn grow(&self, bench: &Bench) -> (Figure, Figure, Figure) {
        let (rounds, bytes) = bench.size((8, 128 << 20), (2, 300_000));
        let (mut corpus, mut text_bytes, mut recall) = (Corpus::new(), 0, None);
        let (mut ours, mut limit) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            let texts = self.append(round, bytes, &mut corpus);
            let sum: usize = texts.iter().map(String::len).sum();
            text_bytes += sum;
            for turn in 0..2 {
                let start = Instant::now();
                if round % 2 == turn {
                    assert_eq!(find(&self.store, NEEDLE, UseIndex::IfPossible), 1);
                    ours.push(start.elapsed().as_nanos() as f64 / sum as f64);
                } else {
                    self.insert(&texts);
                    limit.push(start.elapsed().as_nanos() as f64 / sum as f64);
                }
            }
            recall.get_or_insert_with(|| self.recall());
        }
        let size = |name: &str| self.store.home().state.join(name).metadata().map_or(0, |file| file.len());
        let index_bytes = size("search.db") + size("search.db-wal");
        let (found, expected) = recall.expect("a round");
        (
            Pairs::of(ours, limit).speed(
                "search/indexing",
                "bytes of text indexed from the logs / put into a bare FTS5 table, a byte each",
                Target::AtLeast(0.6),
            ),
            Figure::counted(
                "search/size",
                "MiB of the index / MiB of the text",
                index_bytes as f64 / MIB,
                text_bytes as f64 / MIB,
                Target::AtMost(0.4),
            ),
            Figure::counted(
                "search/recall",
                "texts found by the index / by reading every log, the newest 200 of each of twelve queries",
                found,
                expected,
                Target::AtLeast(1.0),
            ),
        )
    }

    /// Writes logs of so many bytes, and brings derived rows up to them; gives their texts.
    fn append(&self, round: usize, bytes: usize, corpus: &mut Corpus) -> Vec<String> {
        let (mut texts, mut left, mut log) = (Vec::new(), bytes, 0);
        if round == 0 {
            texts.push(format!("one {NEEDLE} in all of it"));
            self.log(&format!("needle-{round}"), &[corpus.line(&texts[0])]);
        }
        while left > 0 {
            let (mut lines, mut size) = (Vec::new(), 0);
            while size < LOG_BYTES.min(left) {
                let text = corpus.text();
                let line = corpus.line(&text);
                size += line.len() + 1;
                lines.push(line);
                texts.push(text);
            }
            self.log(&format!("log-{round}-{log}"), &lines);
            left = left.saturating_sub(size);
            log += 1;
        }
        // What a search folds first is bounded, and is not what is measured here.
        while self.store.state().stats().expect("figures").behind.bytes_behind > 0 {}
        texts
    }

    fn log(&self, name: &str, lines: &[Vec<u8>]) {
        let session = self.store.sessions().open_thread(name).expect("a session");
        for lines in lines.chunks(512) {
            let mut batch = Batch::default();
            for line in lines {
                batch.push(line).expect("a line");
            }
            self.store.log(&session.id).append(&batch, Durability::Process).expect("appended");
        }
    }

    fn insert(&self, texts: &[String]) {
        self.bare.execute_batch("BEGIN IMMEDIATE").expect("begins");
        let mut bytes = 0;
        for text in texts {
            let mut insert = self.bare.prepare_cached("INSERT INTO texts (body) VALUES (?1)").expect("prepared");
            insert.execute(params![text]).expect("inserted");
            bytes += text.len();
            if bytes >= BATCH_BYTES {
                self.bare.execute_batch("COMMIT; BEGIN IMMEDIATE").expect("commits");
                bytes = 0;
            }
        }
        self.bare.execute_batch("COMMIT").expect("commits");
        self.bare.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("moved");
    }

    /// How many texts the index finds, and how many there are. Each of them is held against the other.
    fn recall(&self) -> (f64, f64) {
        let (mut found, mut expected) = (0, 0);
        for query in QUERIES {
            let [with, without] = [UseIndex::IfPossible, UseIndex::Never].map(|index| every(&self.store, query, index));
            assert_eq!(with, without, "{query}");
            assert!(!without.is_empty() || self.is_small(), "{query} is somewhere");
            found += with.len();
            expected += without.len();
        }
        (found as f64, expected as f64)
    }

    fn is_small(&self) -> bool {
        self.store.state().stats().expect("figures").logs.bytes < 1 << 20
    }
}

fn request(query: &str, index: UseIndex) -> SearchRequest {
    SearchRequest { index, ..SearchRequest::new(Query::parse(query).expect("a query")) }
}

fn find(store: &Store, query: &str, index: UseIndex) -> usize {
    store.search().find(&request(query, index), |_| {}).expect("found").hits.len()
}

/// Every hit, page by page, as its place.
fn every(store: &Store, query: &str, index: UseIndex) -> Vec<String> {
    // A scan reads everything for each page: what is common is looked at only at its newest.
    let request = SearchRequest { limit: 200, ..request(query, index) };
    let found = store.search().find(&request, |_| {}).expect("found");
    found.hits.iter().map(|hit| format!("{} {} {}", hit.session, hit.cursor, hit.part)).collect()
}

/// A rare word and a common one, in this process and by the command, against ripgrep over the same files.
fn searches(bench: &Bench, home: &Growing) -> Vec<Figure> {
    let logs = home.store.home().state.join("sessions");
    let has_ripgrep =
        Command::new("rg").arg("--version").stdout(Stdio::null()).status().is_ok_and(|ended| ended.success());
    let against = if has_ripgrep { "ripgrep over the same files" } else { "reading every log: ripgrep is not there" };
    let target = |most: f64| if has_ripgrep { Target::AtMost(most) } else { Target::Told };
    let scan = |word: &str| {
        if has_ripgrep {
            let mut command = Command::new("rg");
            command.args(["--no-config", "--fixed-strings", "--ignore-case", word]).arg(&logs);
            let ended = command.stdin(Stdio::null()).stdout(Stdio::null()).status().expect("it starts");
            assert!(ended.success(), "{word} is there");
        } else {
            assert!(find(&home.store, word, UseIndex::Never) > 0);
        }
    };
    let (rounds, often) = bench.size((15, 20), (1, 1));
    let rare = in_turns(
        rounds,
        (often, 1),
        || (0..often).for_each(|_| assert_eq!(find(&home.store, NEEDLE, UseIndex::IfPossible), 1)),
        || scan(NEEDLE),
    );
    let common = in_turns(
        rounds,
        (1, 1),
        || assert_eq!(find(&home.store, "session", UseIndex::IfPossible), 20),
        || scan("session"),
    );
    let mut figures = vec![
        rare.cost("search/rare", &format!("a rare word, in process / {against}"), target(0.01)),
        common.cost("search/common", &format!("the newest 20 of a common word, in process / {against}"), Target::Told),
    ];
    if let Some(duolog) = bench.command() {
        let directory = home.store.home().state.parent().expect("a home").to_owned();
        let by_command = in_turns(
            rounds,
            (1, 1),
            || {
                let mut command = Command::new(&duolog);
                command.args(["log", "search", NEEDLE]).env("DUOLOG_HOME", &directory);
                let ended = command.stdin(Stdio::null()).stdout(Stdio::null()).status().expect("it starts");
                assert!(ended.success(), "{ended}");
            },
            || scan(NEEDLE),
        );
        let what = format!("duolog log search of a rare word / {against}");
        figures.push(by_command.cost("search/command", &what, target(0.2)));
    }
    figures
}

/// An append in a home with an index that is kept up to date, against one in a home that has none.
fn appends(bench: &Bench) -> Figure {
    let rooms = [bench.room(), bench.room()];
    let stores = [0, 1].map(|at| Store::open(options_in(rooms[at].path()).one_shot()).expect("a store"));
    let sessions = [0, 1].map(|at: usize| stores[at].sessions().open_thread("bench").expect("a session").id);
    let calls = bench.size(512, 16);
    let batches = events::batches(calls, 1);
    let append = |at: usize| {
        let log = stores[at].log(&sessions[at]);
        let start = Instant::now();
        for batch in &batches {
            log.append(batch, Durability::Process).expect("appended");
        }
        start.elapsed().as_nanos() as f64 / calls as f64
    };
    let (mut ours, mut limit) = (Vec::new(), Vec::new());
    for round in 0..bench.size(101, 2) {
        assert!(round == 0 || find(&stores[0], "agent", UseIndex::IfPossible) > 0);
        // The other home does the same work between its appends, but for the index.
        assert!(round == 0 || stores[1].state().stats().is_ok());
        for turn in 0..2 {
            let at = (round + turn) % 2;
            [&mut ours, &mut limit][at].push(append(at));
        }
    }
    let what = "append in a home whose index is kept up to date / in one without an index";
    Pairs::of(ours, limit).cost("search/append", what, Target::AtMost(1.1))
}

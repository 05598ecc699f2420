//! Full text over all logs: building the index, its size, finding words, and its cost for appends.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use duolog::search::{Query, SearchRequest, UseIndex};
use duolog::{Batch, Durability, Store};
use rusqlite::{Connection, params};

use crate::bench::{Bench, finish, store_in, tool};
use crate::benchmark::Target;
use crate::corpus::Corpus;
use crate::events;
use crate::measure::{Case, Rounds, in_turns, repeat, timed};

/// A word that is in only one text; written in two pieces, because this file is among the sources of the texts.
const NEEDLE: &str = concat!("haystack", "needle");
const MIB: f64 = 1_048_576.0;
/// The size of one log.
const LOG_BYTES: usize = 8 << 20;
/// The text of one transaction of the bare table.
const BATCH_BYTES: usize = 32 << 20;
/// Queries that must find the same with the index and with a scan: words, rare ones, code, prefixes, phrases,
/// exclusions.
const QUERIES: [&str; 8] =
    ["durability", "kalomir", "selvor*", "Error::io", "log_epoch", "\"the log\"", "epoch -sync", "checkpoint fold"];

/// Indexing, size, a rare word and a common one, the command, and appends with an index.
pub fn cases(bench: &Bench) -> Vec<Case> {
    let home = Rc::new(Home::new(bench));
    let mut growing = Growing::new(bench, &home);
    let what = "text indexed from the logs / the same text put into a bare FTS5 table, per byte";
    let indexing = Case::speed("search/indexing", what, Target::AtLeast(0.6), move || growing.grow());
    let of = Rc::clone(&home);
    let size =
        Case::count("search/size", "MiB of the index / MiB of the logs", Target::AtMost(0.4), move || of.sizes());
    let (rounds, often) = bench.size((11, 20), (1, 1));
    let (of, scan) = (Rc::clone(&home), home.scan(NEEDLE));
    let what = "a rare word, in process / ripgrep over the same files";
    let rare = Case::cost("search/rare", what, Target::AtMost(0.02), move || {
        let search = || assert_eq!(find(&of.store, NEEDLE, UseIndex::IfPossible), 1);
        in_turns(rounds, (often, 1), || repeat(often, search), &scan)
    });
    let (of, scan) = (Rc::clone(&home), home.scan("session"));
    let what = "the newest 20 of a common word, in process / ripgrep over the same files";
    let common = Case::cost("search/common", what, Target::Shown, move || {
        in_turns(rounds, (1, 1), || assert_eq!(find(&of.store, "session", UseIndex::IfPossible), 20), &scan)
    });
    let (scan, duolog, directory) = (home.scan(NEEDLE), bench.duolog(), home.directory.join("home"));
    let binary = duolog.clone().unwrap_or_default();
    let what = "duolog log search of a rare word / ripgrep over the same files";
    let command = Case::cost("search/command", what, Target::AtMost(0.4), move || {
        let search = || finish(Command::new(&binary).args(["log", "search", NEEDLE]).env("DUOLOG_HOME", &directory));
        in_turns(rounds, (1, 1), search, &scan)
    });
    let rg = tool("rg");
    vec![indexing, size, rare.needs(&rg), common.needs(&rg), command.needs(&rg).needs(&duolog), appends(bench)]
}

/// A home of logs with text.
struct Home {
    store: Store,
    directory: PathBuf,
}

impl Home {
    /// Creates a home with indexed logs, one of which has the needle.
    fn new(bench: &Bench) -> Self {
        let directory = bench.new_dir();
        let home = Self { store: store_in(&directory), directory };
        let mut corpus = Corpus::new();
        home.log("needle", &[corpus.line(&format!("one {NEEDLE} in all of it"))]);
        home.append(0, bench.size(16 << 20, 300_000), &mut corpus);
        for query in QUERIES {
            let [with, without] = [UseIndex::IfPossible, UseIndex::Never].map(|index| every(&home.store, query, index));
            assert_eq!(with, without, "index and scan find the same for {query}");
        }
        home
    }

    /// Writes logs of this size and folds them. Returns their texts.
    fn append(&self, round: usize, bytes: usize, corpus: &mut Corpus) -> Vec<String> {
        let (mut texts, mut left, mut log) = (Vec::new(), bytes, 0);
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
        // The fold is not measured here.
        self.store.catch_up(|_| {}).expect("caught up");
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

    /// Returns the MiB of the index and of the logs.
    fn sizes(&self) -> (f64, f64) {
        let size = |name: &str| self.store.home().state.join(name).metadata().map_or(0, |file| file.len());
        let logs = self.store.state().stats().expect("statistics").logs.bytes;
        ((size("search.db") + size("search.db-wal")) as f64 / MIB, logs as f64 / MIB)
    }

    /// Searches for a word with ripgrep.
    fn scan(&self, word: &'static str) -> impl Fn() + use<> {
        let logs: PathBuf = self.store.home().state.join("sessions");
        move || {
            let mut command = Command::new("rg");
            finish(command.args(["--no-config", "--fixed-strings", "--ignore-case", word]).arg(&logs));
        }
    }
}

/// A home that grows, and the same text in a bare full-text table.
struct Growing {
    home: Rc<Home>,
    bare: Connection,
    corpus: Corpus,
    round: usize,
    bytes: usize,
    rounds: usize,
}

impl Growing {
    fn new(bench: &Bench, home: &Rc<Home>) -> Self {
        let bare = bare_table(&home.directory.join("bare.db"));
        let (rounds, bytes) = bench.size((3, 32 << 20), (1, 300_000));
        Self { home: Rc::clone(home), bare, corpus: Corpus::new(), round: 0, bytes, rounds }
    }

    fn grow(&mut self) -> Rounds {
        let (mut ours, mut limit) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            self.round += 1;
            let texts = self.home.append(self.round, self.bytes, &mut self.corpus);
            let sum: usize = texts.iter().map(String::len).sum();
            for turn in 0..2 {
                if self.round % 2 == turn {
                    let (took, found) = timed(|| find(&self.home.store, NEEDLE, UseIndex::IfPossible));
                    assert_eq!(found, 1);
                    ours.push(took / sum as f64);
                } else {
                    limit.push(timed(|| insert(&self.bare, &texts)).0 / sum as f64);
                }
            }
        }
        Rounds::of(ours, limit)
    }
}

/// Creates a bare table with the same schema and settings as ours.
fn bare_table(path: &Path) -> Connection {
    let bare = Connection::open(path).expect("a database");
    bare.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 16384;
         PRAGMA cache_size = -32768; PRAGMA temp_store = MEMORY;
         CREATE VIRTUAL TABLE texts USING fts5
             (body, content = '', contentless_delete = 1, tokenize = 'ascii', detail = 'full');
         INSERT INTO texts (texts, rank) VALUES ('hashsize', 16777216);",
    )
    .expect("a table");
    bare
}

fn insert(bare: &Connection, texts: &[String]) {
    bare.execute_batch("BEGIN IMMEDIATE").expect("begins");
    let mut bytes = 0;
    for text in texts {
        let mut insert = bare.prepare_cached("INSERT INTO texts (body) VALUES (?1)").expect("prepared");
        insert.execute(params![text]).expect("inserted");
        bytes += text.len();
        if bytes >= BATCH_BYTES {
            bare.execute_batch("COMMIT; BEGIN IMMEDIATE").expect("commits");
            bytes = 0;
        }
    }
    bare.execute_batch("COMMIT").expect("commits");
    bare.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("moved");
}

fn request(query: &str, index: UseIndex) -> SearchRequest {
    SearchRequest { index, ..SearchRequest::new(Query::parse(query).expect("a query")) }
}

fn find(store: &Store, query: &str, index: UseIndex) -> usize {
    store.search().find(&request(query, index), |_| {}).expect("found").hits.len()
}

/// Returns the positions of the newest 200 hits.
fn every(store: &Store, query: &str, index: UseIndex) -> Vec<String> {
    let request = SearchRequest { limit: 200, ..request(query, index) };
    let found = store.search().find(&request, |_| {}).expect("found");
    found.hits.iter().map(|hit| format!("{} {} {}", hit.session, hit.cursor, hit.part)).collect()
}

/// An append in a home with an up-to-date index, against one in a home without an index.
fn appends(bench: &Bench) -> Case {
    let (directories, calls, rounds) = ([bench.new_dir(), bench.new_dir()], bench.size(512, 16), bench.size(41, 2));
    let stores = [0, 1].map(|at: usize| store_in(&directories[at]));
    let batches = events::batches(calls, 1);
    let what = "append in a home with an up-to-date index / in one without an index";
    Case::cost("search/append", what, Target::AtMost(1.1), move || {
        let logs = [0, 1].map(|at: usize| {
            let session = stores[at].sessions().open_thread("bench").expect("a session");
            stores[at].log(&session.id)
        });
        let (mut ours, mut limit) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            for turn in 0..2 {
                let at = (round + turn) % 2;
                let append = || batches.iter().for_each(|batch| _ = logs[at].append(batch, Durability::Process));
                [&mut ours, &mut limit][at].push(timed(append).0 / calls as f64);
            }
            // The other home does the same work between its appends, except for the index.
            assert!(find(&stores[0], "agent", UseIndex::IfPossible) > 0);
            assert!(stores[1].state().stats().is_ok());
        }
        Rounds::of(ours, limit)
    })
}

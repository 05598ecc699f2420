//! The index on real files: what passes the filter, and how unusual files are handled.

#![allow(clippy::expect_used, clippy::panic)]

/// Adding texts, advancing checkpoints and deleting sessions.
mod batches;
/// Every match passes the index.
mod filter;
/// Files that are absent, damaged, replaced, too new or of another program.
mod places;

use std::path::Path;

use duolog_search::{Candidate, Doc, Filter, Index, IndexedTo, Query};
use duolog_types::{Epoch, HomeId, Position, SessionId};

fn session(name: &str) -> SessionId {
    SessionId::parse(name).expect("an id")
}

fn checkpoint(position: u64) -> IndexedTo {
    IndexedTo { epoch: Epoch(0), position: Position(position), line_hash: None, damaged: 0, memory: Vec::new() }
}

fn doc(position: u64, text: &str) -> Doc<'_> {
    Doc { position: Position(position), part: 0, at: 1, kind: "user", role: None, tool: None, text }
}

/// Creates an index in a state directory.
fn index_in(directory: &Path) -> (Index, HomeId) {
    let home = HomeId::new();
    (Index::open_or_create(directory, home).expect("an index"), home)
}

/// Adds texts to a session, one at each position from its checkpoint on.
fn add(index: &mut Index, name: &str, texts: &[&str]) {
    let indexing = index.indexing().expect("opens").expect("no other process");
    let session = session(name);
    let found = indexing.checkpoint(&session).expect("reads");
    let from = found.as_ref().map_or(0, |found| found.position.0);
    let mut batch = indexing.batch().expect("begins");
    let source = batch.source(&session, found.as_ref()).expect("reads").expect("no other process was faster");
    for (at, text) in (from..).zip(texts) {
        batch.add(source, &doc(at, text)).expect("added");
    }
    batch.advance(source, &checkpoint(from + texts.len() as u64)).expect("advanced");
    batch.commit().expect("committed");
}

/// Returns the candidates of a query.
fn ask(index: &Index, query: &str, filter: &Filter) -> Vec<Candidate> {
    let query = Query::parse(query).expect("a query");
    index.snapshot().expect("reads").candidates(&query, filter, None, 1000).expect("reads").expect("it has words")
}

/// Returns the positions of a query's candidates.
fn positions(index: &Index, query: &str) -> Vec<u64> {
    ask(index, query, &Filter::default()).iter().map(|candidate| candidate.key.position.0).collect()
}

//! The two engines against their bare drivers: the same statements on the same rows, sent by hand.
//!
//! What ours adds is the line of writers, the check of the schema, the pool, and turning columns into words of ours.

pub mod postgres;
mod sqlite;

use duolog::{HomeId, Moment, Position};
use duolog_state::derived::catalog::{self, CatalogRow, Checkpoint};
use duolog_state::owned::behind::{self, BehindRow};
use duolog_state::owned::outbox::{self, NewOutbox};
use duolog_state::owned::seals::{self, Extended, SealRow};
use duolog_state::owned::sessions::{self, SessionFilter};
use duolog_state::{Error, Page, State};
use duolog_types::limits::SEAL_BLOCKS_BYTES_MAX;
use duolog_types::{Durability, Epoch, OutboxId, ProcessId};

use super::rows;
use crate::bench::Bench;
use crate::measure::{Figure, Target, in_turns};

const PAGE: u32 = 20;
const LINE: &str = r#"{"type":"system","subtype":"duolog.renamed","name":"the plan"}"#;

/// A driver without us.
trait Bare {
    /// A fold's statements: mark, move the checkpoint and the seal, clear the mark.
    fn fold(&mut self, step: u64);
    /// A transition's statements: read what it is about, change it, put the line that tells of it.
    fn transition(&mut self, step: u64);
    /// A page of sessions, in a transaction of its own; answers how many rows came.
    fn list(&mut self) -> usize;
}

/// Both engines: a fold, a transition, a page of many.
pub fn run(bench: &Bench) -> Vec<Figure> {
    let count = bench.size(1_000_000, 2_000);
    let home = HomeId::new();
    let mut figures = sqlite::with(bench, home, count, &mut |state, bare| compare(bench, "sqlite", home, state, bare));
    match postgres::with(home, count, &mut |state, bare| compare(bench, "postgres", home, state, bare)) {
        Some(more) => figures.extend(more),
        None => eprintln!("engines: no PostgreSQL is named in {}: duolog-postgres run -- …", postgres::SERVER),
    }
    figures
}

/// The session that ours folds and changes, and the one that is changed by hand.
const OURS: usize = 0;
const THEIRS: usize = 1;

fn compare(bench: &Bench, engine: &str, home: HomeId, state: &State, bare: &mut dyn Bare) -> Vec<Figure> {
    let (rounds, each) = (bench.size(301, 3), 10);
    for number in [OURS, THEIRS] {
        let seal = seal(home, number, 0);
        state.write(Durability::Process, move |tx| seals::insert(tx, &seal)).expect("a seal");
    }
    let (mut ours, mut theirs) = (0, 0);
    let process = ProcessId::new();
    let fold = in_turns(
        rounds,
        (each, each),
        || repeat(each, &mut ours, |step| fold(state, home, process, step)),
        || repeat(each, &mut theirs, |step| bare.fold(step)),
    );
    let (mut ours, mut theirs) = (0, 0);
    let transition = in_turns(
        rounds,
        (each, each),
        || repeat(each, &mut ours, |step| transition(state, step)),
        || repeat(each, &mut theirs, |step| bare.transition(step)),
    );
    let list = in_turns(
        rounds,
        (each, each),
        || repeat(each, &mut 0, |_| list(state)),
        || repeat(each, &mut 0, |_| assert_eq!(bare.list(), PAGE as usize + 1)),
    );
    let name = |what: &str| format!("engines/{engine}/{what}");
    let target = Target::AtMost(1.3);
    vec![
        fold.cost(&name("fold"), "the rows of a fold / the same statements by the bare driver", target),
        transition.cost(
            &name("transition"),
            "a transition and its line / the same statements by the bare driver",
            target,
        ),
        list.cost(&name("list"), "the first 20 of all sessions / the same statements by the bare driver", target),
    ]
}

fn repeat(times: usize, step: &mut u64, mut work: impl FnMut(u64)) {
    for _ in 0..times {
        work(*step);
        *step += 1;
    }
}

fn position(step: u64) -> Position {
    Position(rows::LINE.len() as u64 + 1 + step * 100)
}

fn hash(step: u64) -> [u8; 32] {
    let mut hash = [7; 32];
    hash[..8].copy_from_slice(&step.to_le_bytes());
    hash
}

fn at(step: u64) -> Moment {
    rows::updated_at(2_000_000 + step as usize)
}

fn seal(home_id: HomeId, number: usize, step: u64) -> SealRow {
    SealRow {
        session_id: rows::id_of(number),
        epoch: Epoch(0),
        ord: 0,
        home_id,
        from_position: Position(0),
        to_position: position(step),
        hash: hash(step),
        sealed_at: at(step),
        blocks: Some(blocks()),
    }
}

/// The hashes of the blocks of a seal that is half full.
fn blocks() -> Vec<u8> {
    vec![7; SEAL_BLOCKS_BYTES_MAX / 2]
}

fn fold(state: &State, home_id: HomeId, process_id: ProcessId, step: u64) {
    let mark = BehindRow {
        session_id: rows::id_of(OURS),
        process_id,
        home_id,
        generation: step + 1,
        pid: 1,
        marked_at: at(step),
    };
    let folded = CatalogRow {
        line_hash: Some(hash(step)),
        events: step,
        bytes: step * 100,
        first_at: Some(at(0)),
        last_at: Some(at(step)),
        ..CatalogRow::new(rows::id_of(OURS), home_id, Epoch(0), position(step + 1))
    };
    let done = state.write(Durability::Process, move |tx| {
        behind::mark(tx, &mark)?;
        let before = Checkpoint { epoch: Epoch(0), position: position(step), fold_version: 0, shared: 0 };
        let advanced = catalog::advance(tx, Some(before), &folded)?;
        let grown = Extended {
            to_position: position(step + 1),
            hash: hash(step + 1),
            blocks: blocks(),
            sealed_at: at(step + 1),
        };
        let sealed = seals::extend(tx, &seal(home_id, OURS, step), &grown)?;
        let cleared = behind::clear(tx, &mark.session_id, &mark.process_id, mark.generation)?;
        Ok::<_, Error>(advanced && sealed && cleared)
    });
    assert!(done.expect("folded"));
}

fn transition(state: &State, step: u64) {
    let done = state.write(Durability::Power, move |tx| {
        let id = rows::id_of(OURS);
        let renamed = sessions::rename(tx, &id, &format!("name {step}"), at(step))?;
        let line = NewOutbox { uuid: OutboxId::new(), session_id: &id, line: LINE, created_at: at(step) };
        Ok::<_, Error>(outbox::insert(tx, &line)? && renamed)
    });
    assert!(done.expect("changed"));
}

fn list(state: &State) {
    let (filter, page) = (SessionFilter::default(), Page::new(PAGE, None));
    let (found, next) = state.read(|tx| sessions::list_page(tx, &filter, &page)).expect("a page");
    assert!(found.len() == PAGE as usize && next.is_some());
}

/// The statements, as both drivers take them once their parameters are numbered.
const STATEMENTS: [&str; 7] = [
    "INSERT INTO behind (session_id, process_id, home_id, generation, pid, marked_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
     ON CONFLICT (session_id, process_id) DO UPDATE SET generation = excluded.generation, pid = excluded.pid, \
     marked_at = excluded.marked_at WHERE behind.generation < excluded.generation",
    "UPDATE catalog SET epoch = ?2, position = ?3, line_hash = ?4, events = ?5, bytes = ?6, damaged = ?7, \
     first_at = ?8, last_at = ?9, dialect = ?10, model = ?11, title = ?12 \
     WHERE session_id = ?1 AND epoch = ?13 AND position = ?14 AND fold_version = ?15",
    "UPDATE seals SET to_position = ?4, hash = ?5, sealed_at = ?6, blocks = ?9 \
     WHERE session_id = ?1 AND epoch = ?2 AND ord = ?3 AND to_position = ?7 AND hash = ?8",
    "DELETE FROM behind WHERE session_id = ?1 AND process_id = ?2 AND generation = ?3",
    "UPDATE sessions SET name = ?2, updated_at = ?3 WHERE id = ?1 AND deleted_at IS NULL",
    "INSERT INTO outbox_lines (home_id, session_id, seq, uuid, epoch, floor, created_at, line) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    "SELECT s.id, s.home_id, s.created_at, s.user_id, s.name, s.scope, s.log_path, s.log_epoch, s.cwd, s.agent_name, \
     s.invocation_kind, s.source_kind, s.status, s.started_at, s.updated_at, s.ended_at, c.events, c.bytes, c.last_at \
     FROM sessions s LEFT JOIN catalog c ON c.session_id = s.id WHERE s.deleted_at IS NULL \
     ORDER BY s.updated_at DESC, s.id DESC LIMIT ?1",
];
const MARK: usize = 0;
const ADVANCE: usize = 1;
const EXTEND: usize = 2;
const CLEAR: usize = 3;
const RENAME: usize = 4;
const TELL: usize = 5;
const LIST: usize = 6;

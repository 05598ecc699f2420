//! Many sessions at once, as rows.

use std::path::Path;

use duolog::{HomeId, Moment, Position, SessionId};
use duolog_state::derived::catalog::{self, CatalogRow};
use duolog_state::owned::sessions::{self, SessionRow};
use duolog_state::{Checkpoint, Error, State};
use duolog_types::{Durability, Epoch};

/// The sessions of one transaction.
const CHUNK: usize = 20_000;

/// The one line of every log.
pub const LINE: &[u8] = br#"{"type":"user","text":"What is the plan?"}"#;

/// The id of the session with this number.
pub fn id_of(number: usize) -> SessionId {
    SessionId::parse(&format!("s-{number:08}")).expect("an id")
}

/// When that session last changed: a higher number is a later instant.
pub fn updated_at(number: usize) -> Moment {
    Moment::from_micros(1_790_000_000_000_000 + i64::try_from(number).expect("a small number") * 1000)
}

/// Adds sessions `0..count` whose one line is folded, and moves them from the write-ahead log to the database.
pub fn fill(state: &State, home: HomeId, count: usize) {
    for from in (0..count).step_by(CHUNK) {
        let to = count.min(from + CHUNK);
        let insert = move |tx: &mut duolog_state::Tx<'_>| {
            for number in from..to {
                let at = updated_at(number);
                let row = SessionRow::new(id_of(number), home, "threads", &log_path(number), at);
                sessions::insert(tx, &row)?;
                catalog::replace(tx, &folded(home, number, at))?;
            }
            Ok::<_, Error>(())
        };
        state.write(Durability::Process, insert).expect("inserted");
    }
    let moved = state.checkpoint().expect("a checkpoint");
    assert!(matches!(moved, Checkpoint::Done(report) if !report.busy), "{moved:?}");
}

/// Makes the logs of those sessions beneath a state directory.
pub fn make_logs(state_dir: &Path, count: usize) {
    let line = [LINE, b"\n"].concat();
    std::fs::create_dir_all(state_dir.join("sessions/threads")).expect("a directory");
    for number in 0..count {
        std::fs::write(state_dir.join(log_path(number)), &line).expect("a log");
    }
}

fn log_path(number: usize) -> String {
    format!("sessions/threads/s-{number:08}.jsonl")
}

fn folded(home_id: HomeId, number: usize, at: Moment) -> CatalogRow {
    let bytes = LINE.len() as u64 + 1;
    CatalogRow {
        line_hash: Some(duolog_log::hash_line(LINE)),
        events: 1,
        bytes,
        first_at: Some(at),
        last_at: Some(at),
        ..CatalogRow::new(id_of(number), home_id, Epoch(0), Position(bytes))
    }
}

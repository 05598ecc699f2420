use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use duolog_join::{Error, IdempotencyKey, Join, NewLog, OpenJoin, Result, Stem, Write, prepare, tell};
use duolog_log::{Append, Disk, Item};
use duolog_state::owned::sessions::{self, SessionRow};
use duolog_state::{OpenState, Sql, params};
use duolog_testkit::SimDisk;
use duolog_testkit::engines::Place;
use duolog_types::limits::Limits;
use duolog_types::{Batch, Durability, HomeId, OperationId, SessionId, SystemClock};

pub const PROCESS: Append = Append { durability: Durability::Process, if_position: None };
pub const POWER: Append = Append { durability: Durability::Power, if_position: None };

pub fn limits() -> Limits {
    Limits { busy_timeout: Duration::from_secs(20), ..Limits::default() }
}

/// Opens a home as another process.
pub fn open(place: &Place) -> Arc<Join> {
    open_with(place, limits())
}

pub fn open_with(place: &Place, limits: Limits) -> Arc<Join> {
    let prepared = prepare(place.home()).expect("a home");
    join(place.options(), prepared.disk, prepared.id, limits).expect("opens")
}

/// Opens the home in a directory, with its state next to its logs.
pub fn open_at(dir: &Path) -> Arc<Join> {
    let prepared = prepare(dir).expect("a home");
    join(OpenState::at(dir), prepared.disk, prepared.id, limits()).expect("opens")
}

/// Opens a home whose logs are on a disk in memory.
pub fn open_on(place: &Place, disk: &SimDisk, home: HomeId) -> Arc<Join> {
    join(place.options(), disk.process().as_disk(), home, limits()).expect("opens")
}

pub fn join(state: OpenState, disk: Arc<dyn Disk>, home: HomeId, limits: Limits) -> Result<Arc<Join>> {
    Join::open(OpenJoin { state, disk, home, limits, clock: Arc::new(SystemClock), boot: "boot".to_owned() })
}

pub fn session(join: &Join, name: &str) -> SessionId {
    let id = SessionId::parse(name).expect("a safe id");
    let row = SessionRow::new(id.clone(), join.home(), "threads", "", join.clock().now());
    let stem = Stem { scope: "threads".to_owned(), file: name.to_owned(), name: name.to_owned() };
    join.create(NewLog { row, stem }, Durability::Process).expect("made");
    id
}

pub fn batch(lines: &[&str]) -> Batch {
    let mut batch = Batch::default();
    for line in lines {
        batch.push(line.as_bytes()).expect("a line");
    }
    batch
}

pub fn put(join: &Join, session: &SessionId, line: &str) {
    join.append(session, &batch(&[line]), &PROCESS).expect("appended");
}

/// Returns every line of a log.
pub fn lines(join: &Join, session: &SessionId) -> Vec<String> {
    let Some(reader) = join.reader(session).expect("opens") else { return Vec::new() };
    let end = reader.stable_end(Duration::from_secs(20)).expect("an end");
    let mut lines = reader.lines(reader.first(), end, usize::MAX).expect("lines");
    let mut all = Vec::new();
    while let Some(item) = lines.next().expect("reads") {
        if let Item::Line(line) = item {
            all.push(String::from_utf8_lossy(line.bytes).into_owned());
        }
    }
    all
}

pub fn rename(join: &Join, session: &SessionId, name: &str) -> Result<()> {
    let (session, name, at) = (session.clone(), name.to_owned(), join.clock().now());
    join.transact(Durability::Power, move |tx| {
        if !sessions::rename(tx, &session, &name, at)? {
            return Err(Error::NoSession(session.clone()));
        }
        let mut fields = serde_json::Map::new();
        fields.insert("name".to_owned(), name.clone().into());
        let line = tell(tx, &session, "renamed", at, &fields)?;
        Ok(((), vec![line]))
    })
}

/// Runs `f` while another process locks the table of repairs, or the whole state if it is a file.
pub fn while_repairs_are_held(place: &Place, f: impl FnOnce()) {
    while_held(place, "repairs", f);
}

/// Runs `f` while another process locks a table, or the whole state if it is a file.
pub fn while_held(place: &Place, table: &'static str, f: impl FnOnce()) {
    let (both, state) = (Arc::new(Barrier::new(2)), place.open());
    let holder = std::thread::spawn({
        let both = Arc::clone(&both);
        move || {
            state.write(Durability::Process, move |tx| {
                let hold = format!("LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE");
                tx.execute(Sql::each(&format!("DELETE FROM {table} WHERE FALSE"), &hold), &[])?;
                both.wait();
                both.wait();
                Ok::<_, Error>(())
            })
        }
    });
    both.wait();
    f();
    both.wait();
    holder.join().expect("ends").expect("holds");
}

/// Increments a number in a session's row and adds a line to its log, once per operation id.
pub fn raise(join: &Join, operation: &str, session: &str) -> Result<u64> {
    let key = IdempotencyKey::new("raise", &OperationId::parse(operation).expect("an id"), &session)?;
    let (id, at) = (SessionId::parse(session).expect("an id"), join.clock().now());
    join.transact(Write::once(Durability::Power, Some(key)), move |tx| {
        let row = sessions::find(tx, &id)?.ok_or_else(|| Error::NoSession(id.clone()))?;
        // A column that nothing reads.
        let raised = row.agent_name.and_then(|text| text.parse().ok()).unwrap_or(0) + 1;
        tx.execute("UPDATE sessions SET agent_name = ?2 WHERE id = ?1", params![&id, u64::to_string(&raised)])?;
        let mut fields = serde_json::Map::new();
        fields.insert("raised".to_owned(), raised.into());
        let line = tell(tx, &id, "raised", at, &fields)?;
        Ok((raised, vec![line]))
    })
}

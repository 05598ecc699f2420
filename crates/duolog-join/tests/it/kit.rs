use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duolog_join::{Error, Join, NewLog, OpenJoin, Result, Stem, prepare, tell};
use duolog_log::{Append, Disk, Item};
use duolog_state::OpenState;
use duolog_state::owned::sessions::{self, SessionRow};
use duolog_testkit::SimDisk;
use duolog_types::limits::Limits;
use duolog_types::{Batch, Durability, HomeId, SessionId, SystemClock};

pub const PROCESS: Append = Append { durability: Durability::Process, if_position: None };
pub const POWER: Append = Append { durability: Durability::Power, if_position: None };

pub fn limits() -> Limits {
    Limits { busy_timeout: Duration::from_secs(20), ..Limits::default() }
}

/// Opens the home in a directory, as one more process.
pub fn open(dir: &Path) -> Arc<Join> {
    open_with(dir, limits())
}

pub fn open_with(dir: &Path, limits: Limits) -> Arc<Join> {
    let prepared = prepare(dir).expect("a home");
    join(OpenState::at(dir), prepared.disk, prepared.id, limits).expect("opens")
}

/// Opens a home whose logs are on a disk in memory.
pub fn open_on(dir: &Path, disk: &SimDisk, home: HomeId) -> Arc<Join> {
    join(OpenState::at(dir), disk.process().as_disk(), home, limits()).expect("opens")
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

/// Every line of a log.
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
            return Err(Error::NoSession(session));
        }
        let mut fields = serde_json::Map::new();
        fields.insert("name".to_owned(), name.into());
        let told = tell(tx, &session, "renamed", at, fields)?;
        Ok(((), vec![told]))
    })
}

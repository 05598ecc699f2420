//! The workload of equal lines, which are counted. It deletes sessions and creates them again under the same id,
//! deletes logs, retries operations, stops writers between a claim and its line, and takes copies.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use duolog_join::{Join, NewLog, Stem};
use duolog_log::{Append, Disk};
use duolog_state::owned::sessions::{self, SessionRow};
use duolog_types::{Clock as _, Durability, OperationId, SessionId};

use super::check::{Broken, Crashed};
use super::script::{Player, batch_of, rename};
use super::world::{World, scratch};
use crate::disk::{CallKind, Fault, SimDisk};

/// The only line of this workload.
pub(crate) const SAME: &str = "{\"same\":1}";

type CheckResult<T = ()> = Result<T, Broken>;

/// One session whose lines are counted.
#[derive(Clone, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is set by its own step, in any combination")]
pub(crate) struct CountedSession {
    /// Its creation was acknowledged.
    created: bool,
    /// Its deletion was attempted; the acknowledgement sets `gone`.
    deleting: bool,
    gone: bool,
    /// The deletion of its log was attempted after the lines below were appended, and not acknowledged.
    emptying: bool,
    /// The plain lines, each with its acknowledged durability.
    lines: Vec<Option<Durability>>,
    /// The operations, which append one line each.
    operations: BTreeMap<OperationId, Option<Durability>>,
    /// The operations whose lines were deleted with a log: a retry is answered and appends nothing.
    answered: Vec<OperationId>,
}

impl CountedSession {
    /// Returns the smallest and the largest valid number of lines.
    fn bounds(&self, survived: Durability) -> (usize, usize) {
        let must = |acknowledged: &&Option<Durability>| acknowledged.is_some_and(|durability| durability >= survived);
        let all = self.lines.len() + self.operations.len();
        if self.emptying {
            return (0, all);
        }
        (self.lines.iter().filter(must).count() + self.operations.values().filter(must).count(), all)
    }

    /// Returns the bounds after a retry of every operation. A claim of durability `process` may be lost on power loss
    /// while its line is kept; the retry then appends the line again.
    fn bounds_after(&self, survived: Durability) -> (usize, usize) {
        let must = |acknowledged: &&Option<Durability>| acknowledged.is_some_and(|durability| durability >= survived);
        let weak = self.operations.values().filter(|acknowledged| **acknowledged != Some(Durability::Power)).count();
        let more = if survived == Durability::Power { weak } else { 0 };
        let (lines, operations) = (self.lines.iter().filter(must).count(), self.operations.len());
        if self.emptying {
            return (0, self.lines.len() + operations + more);
        }
        (lines + operations, self.lines.len() + operations + more)
    }
}

impl Player {
    pub(super) fn equal_lines(&mut self) -> duolog_join::Result<()> {
        use Durability::{Power, Process};
        let (a, b) = (self.open()?, self.open()?);
        let same = self.create_same(&a)?;
        self.append_same(&a, &same, Process);
        self.append_same(&b, &same, Power);
        self.append_same_once(&a, &same, "op-1", Power);
        self.append_same_once(&b, &same, "op-2", Power);
        self.stop_after_claim(&same, "op-3");
        self.append_same(&b, &same, Process);
        self.append_same_once(&b, &same, "op-3", Power);
        let _ = rename(&a, &same, "another", self.world.clock.now());
        self.take_and_check_copy(&b, &same);
        let _ = b.catch_up(u64::MAX);
        self.append_same_once(&a, &same, "op-4", Process);
        self.empty(&b, &same);
        self.append_same(&a, &same, Process);
        self.append_same_once(&b, &same, "op-5", Power);
        self.append_same_once(&a, &same, "op-1", Power);
        self.append_same(&a, &same, Power);
        self.delete(&a, &same);
        self.append_same(&b, &same, Process);
        let same = self.create_same(&b)?;
        self.append_same(&a, &same, Power);
        self.append_same_once(&b, &same, "op-1", Power);
        self.append_same(&b, &same, Process);
        self.take_and_check_copy(&a, &same);
        let _ = a.leave(u64::MAX);
        self.append_same(&b, &same, Process);
        let _ = b.leave(0);
        Ok(())
    }

    fn counted<T>(&self, session: &SessionId, f: impl FnOnce(&mut CountedSession) -> T) -> T {
        f(self.ledger.lock().expect("one thread").counted.entry(session.clone()).or_default())
    }

    fn create_same(&mut self, by: &Join) -> duolog_join::Result<SessionId> {
        let id = SessionId::parse("session-same").expect("a safe id");
        let row = SessionRow::new(id.clone(), self.world.home, "threads", "", self.world.clock.now());
        let stem = Stem { scope: "threads".to_owned(), file: "same".to_owned(), name: "same".to_owned() };
        // Until the creation is acknowledged, the session may exist or not; its log is empty either way.
        self.counted(&id, |counted| {
            *counted = CountedSession { deleting: counted.deleting, ..CountedSession::default() };
        });
        by.create(NewLog { row, stem }, Durability::Power)?;
        self.counted(&id, |counted| *counted = CountedSession { created: true, ..CountedSession::default() });
        Ok(id)
    }

    fn append_same(&mut self, by: &Join, session: &SessionId, durability: Durability) {
        let at = self.counted(session, |counted| {
            counted.lines.push(None);
            counted.lines.len() - 1
        });
        let done = by.append(session, &batch_of(&[SAME.to_owned()]), &Append { durability, if_position: None });
        self.counted(session, |counted| match done {
            Ok(_) => counted.lines[at] = Some(durability),
            // A deleted session takes no line, whatever the call returned.
            Err(_) if counted.gone => drop(counted.lines.pop()),
            Err(_) => {}
        });
    }

    fn append_same_once(&mut self, by: &Join, session: &SessionId, id: &str, durability: Durability) {
        let id = OperationId::parse(id).expect("a safe id");
        self.counted(session, |counted| {
            if !counted.answered.contains(&id) {
                counted.operations.entry(id.clone()).or_default();
            }
        });
        let how = Append { durability, if_position: None };
        if by.append_once(session, &id, &batch_of(&[SAME.to_owned()]), &how).is_ok() {
            self.counted(session, |counted| {
                if let Some(acknowledged) = counted.operations.get_mut(&id) {
                    *acknowledged = (*acknowledged).max(Some(durability));
                }
            });
        }
    }

    /// A third process claims the position of an operation's line and stops before it writes the line.
    fn stop_after_claim(&mut self, session: &SessionId, id: &str) {
        let Ok(c) = self.world.open(&self.disk.process()) else { return };
        self.disk.fail_kind_from(CallKind::Append, 0, Fault::Stop { after_bytes: None });
        self.append_same_once(&c, session, id, Durability::Power);
    }

    fn empty(&mut self, by: &Join, session: &SessionId) {
        self.counted(session, |counted| counted.emptying = true);
        if by.remove_log(session, None).is_ok() {
            self.counted(session, |counted| {
                let answered = counted.operations.iter().filter(|(_, acknowledged)| acknowledged.is_some());
                let answered: Vec<OperationId> = answered.map(|(id, _)| id.clone()).collect();
                counted.answered.extend(answered);
                (counted.lines, counted.operations, counted.emptying) = (Vec::new(), BTreeMap::new(), false);
            });
        }
    }

    fn delete(&mut self, by: &Join, session: &SessionId) {
        self.counted(session, |counted| counted.deleting = true);
        if by.delete(session).is_ok() {
            self.counted(session, |counted| *counted = CountedSession { gone: true, ..CountedSession::default() });
        }
    }

    /// Takes a copy and opens it: it must hold everything acknowledged so far, and a retry of an operation must not
    /// append its line twice.
    fn take_and_check_copy(&mut self, by: &Join, session: &SessionId) {
        let counted = self.counted(session, |counted| counted.clone());
        let (dir, disk) = (scratch(), SimDisk::new());
        let Ok(copied) = by.backup(dir.path(), &disk.as_disk(), |_| {}) else { return };
        let world = World { on_commit: None, ..self.world.clone() };
        let world = World { dir: dir.path().to_owned(), ..world };
        let held = check_copy(&world, disk.as_disk(), session, &counted, copied.failed.is_empty());
        if let Err(broken) = held {
            self.ledger.lock().expect("one thread").broken_copies.push(broken.0);
        }
    }
}

fn check_copy(
    world: &World,
    disk: Arc<dyn Disk>,
    session: &SessionId,
    counted: &CountedSession,
    is_complete: bool,
) -> CheckResult {
    let failed = |what: &'static str| move |error: duolog_join::Error| Broken(format!("{what} a copy failed: {error}"));
    if !is_complete {
        return Err(Broken("a copy of an undamaged home is incomplete".to_owned()));
    }
    let join = world.open_on(disk).map_err(failed("opening"))?;
    let count = |join: &Join| count(join, session).map_err(failed("reading"));
    let (must, may) = counted.bounds(Durability::Process);
    let there = count(&join)?;
    if !(must..=may).contains(&there) {
        return Err(Broken(format!("a copy has {there} lines, expected {must} to {may}")));
    }
    for id in counted.operations.keys() {
        ask(&join, session, id).map_err(failed("retrying in"))?;
    }
    let (must, may) = counted.bounds_after(Durability::Process);
    let there = count(&join)?;
    if (must..=may).contains(&there) {
        return Ok(());
    }
    Err(Broken(format!("after a retry of every operation a copy has {there} lines, expected {must} to {may}")))
}

fn ask(join: &Join, session: &SessionId, id: &OperationId) -> duolog_join::Result<()> {
    let how = Append { durability: Durability::Power, if_position: None };
    join.append_once(session, id, &batch_of(&[SAME.to_owned()]), &how).map(drop)
}

fn count(join: &Join, session: &SessionId) -> duolog_join::Result<usize> {
    let Some(reader) = join.reader(session)? else { return Ok(0) };
    let end = reader.stable_end(join.limits().busy_timeout)?;
    let mut lines = reader.lines(reader.first(), end, usize::MAX)?;
    let mut count = 0;
    while let Some(item) = lines.next()? {
        count += usize::from(matches!(item, duolog_log::Item::Line(line) if line.bytes == SAME.as_bytes()));
    }
    Ok(count)
}

/// Checks the counted sessions, retries every operation and checks them again.
pub(crate) fn check_counted(join: &Join, crashed: &Crashed<'_>) -> CheckResult {
    let failed = |what: &'static str| move |error: duolog_join::Error| Broken(format!("{what} failed: {error}"));
    if let Some(broken) = crashed.ledger.broken_copies.first() {
        return Err(Broken(broken.clone()));
    }
    for (session, counted) in &crashed.ledger.counted {
        let found = join.state().read(|tx| sessions::find(tx, session)).map_err(|error| Broken(error.to_string()))?;
        let Some(row) = found else {
            if counted.created && !counted.deleting {
                return Err(Broken(format!("session {session} is missing")));
            }
            continue;
        };
        if counted.gone {
            return Err(Broken(format!("session {session} exists but its deletion was acknowledged")));
        }
        // An unacknowledged deletion removes all or nothing; the log may not mention a new session of this id yet.
        if counted.deleting || !counted.created {
            continue;
        }
        let (must, may) = counted.bounds(crashed.survived);
        let there = count(join, session).map_err(failed("reading"))?;
        if !(must..=may).contains(&there) {
            return Err(Broken(format!("{session} has {there} equal lines, expected {must} to {may}")));
        }
        for id in counted.operations.keys().chain(&counted.answered) {
            ask(join, session, id).map_err(failed("retrying an operation"))?;
        }
        let (must, may) = counted.bounds_after(crashed.survived);
        let there = count(join, session).map_err(failed("reading"))?;
        if !(must..=may).contains(&there) {
            let counts = format!("{there} equal lines, expected {must} to {may}");
            return Err(Broken(format!("after a retry of every operation {session} has {counts}")));
        }
        let mode = crashed.disk.mode(Path::new(&row.log_path));
        if !matches!(mode, None | Some(0o600)) {
            return Err(Broken(format!("the log of {session} has mode {mode:?}")));
        }
    }
    Ok(())
}

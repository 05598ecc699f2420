//! The workload of equal lines: they cannot be told apart, so they are counted. Sessions are deleted and made again under the
//! same id, logs are deleted, operations are asked again, writers die between a claim and its line, and copies are taken.

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

/// The one line that is ever appended here.
pub(crate) const SAME: &str = "{\"same\":1}";

type Held<T = ()> = Result<T, Broken>;

/// One session whose lines are counted.
#[derive(Clone, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is set by a step of its own, in any combination")]
pub(crate) struct Counted {
    /// Whether making it was acknowledged.
    created: bool,
    /// Whether deleting it was tried; the acknowledgement makes it `gone`.
    deleting: bool,
    gone: bool,
    /// Whether deleting its log was tried since the lines below were appended, and not acknowledged.
    emptying: bool,
    /// The plain lines, each with what it was acknowledged with.
    lines: Vec<Option<Durability>>,
    /// The operations that appended, or were to append, one line each.
    operations: BTreeMap<OperationId, Option<Durability>>,
    /// Those whose lines went with a log that was deleted: asked again, they are answered and append nothing.
    answered: Vec<OperationId>,
}

impl Counted {
    /// How many lines there must be, and how many there may be.
    fn bounds(&self, survived: Durability) -> (usize, usize) {
        let must = |acknowledged: &&Option<Durability>| acknowledged.is_some_and(|durability| durability >= survived);
        let all = self.lines.len() + self.operations.len();
        if self.emptying {
            return (0, all);
        }
        (self.lines.iter().filter(must).count() + self.operations.values().filter(must).count(), all)
    }

    /// The same once every operation was asked again. A claim that was only as durable as the process may be lost with the
    /// power while its line is kept: then the line is appended again.
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
    pub(super) fn alike(&mut self) -> duolog_join::Result<()> {
        use Durability::{Power, Process};
        let (a, b) = (self.open()?, self.open()?);
        let same = self.create_same(&a)?;
        self.same(&a, &same, Process);
        self.same(&b, &same, Power);
        self.same_once(&a, &same, "op-1", Power);
        self.same_once(&b, &same, "op-2", Power);
        self.dies_with_a_claim(&same, "op-3");
        self.same(&b, &same, Process);
        self.same_once(&b, &same, "op-3", Power);
        let _ = rename(&a, &same, "another", self.world.clock.now());
        self.copy_is_whole(&b, &same);
        let _ = b.catch_up(u64::MAX);
        self.same_once(&a, &same, "op-4", Process);
        self.empty(&b, &same);
        self.same(&a, &same, Process);
        self.same_once(&b, &same, "op-5", Power);
        self.same_once(&a, &same, "op-1", Power);
        self.same(&a, &same, Power);
        self.delete(&a, &same);
        self.same(&b, &same, Process);
        let same = self.create_same(&b)?;
        self.same(&a, &same, Power);
        self.same_once(&b, &same, "op-1", Power);
        self.same(&b, &same, Process);
        self.copy_is_whole(&a, &same);
        let _ = a.leave(u64::MAX);
        self.same(&b, &same, Process);
        let _ = b.leave(0);
        Ok(())
    }

    fn counted<T>(&self, session: &SessionId, f: impl FnOnce(&mut Counted) -> T) -> T {
        f(self.ledger.lock().expect("one thread").counted.entry(session.clone()).or_default())
    }

    fn create_same(&mut self, by: &Join) -> duolog_join::Result<SessionId> {
        let id = SessionId::parse("session-same").expect("a safe id");
        let row = SessionRow::new(id.clone(), self.world.home, "threads", "", self.world.clock.now());
        let stem = Stem { scope: "threads".to_owned(), file: "same".to_owned(), name: "same".to_owned() };
        // Until this is acknowledged, the session may be there or not; its log is empty either way.
        self.counted(&id, |counted| *counted = Counted { deleting: counted.deleting, ..Counted::default() });
        by.create(NewLog { row, stem }, Durability::Power)?;
        self.counted(&id, |counted| *counted = Counted { created: true, ..Counted::default() });
        Ok(id)
    }

    fn same(&mut self, by: &Join, session: &SessionId, durability: Durability) {
        let at = self.counted(session, |counted| {
            counted.lines.push(None);
            counted.lines.len() - 1
        });
        let done = by.append(session, &batch_of(&[SAME.to_owned()]), &Append { durability, if_position: None });
        self.counted(session, |counted| match done {
            Ok(_) => counted.lines[at] = Some(durability),
            // A session that is not there takes no line, whatever became of the call.
            Err(_) if counted.gone => drop(counted.lines.pop()),
            Err(_) => {}
        });
    }

    fn same_once(&mut self, by: &Join, session: &SessionId, id: &str, durability: Durability) {
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

    /// A third process claims the place of an operation's line and is gone before it writes it.
    fn dies_with_a_claim(&mut self, session: &SessionId, id: &str) {
        let Ok(c) = self.world.open(&self.disk.process()) else { return };
        self.disk.fail_kind_from(CallKind::Append, 0, Fault::Stop { after_bytes: None });
        self.same_once(&c, session, id, Durability::Power);
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
            self.counted(session, |counted| *counted = Counted { gone: true, ..Counted::default() });
        }
    }

    /// Takes a copy and opens it: all that was acknowledged before is there, and an operation asked again there is not
    /// doubled.
    fn copy_is_whole(&mut self, by: &Join, session: &SessionId) {
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

fn check_copy(world: &World, disk: Arc<dyn Disk>, session: &SessionId, counted: &Counted, is_whole: bool) -> Held {
    let failed = |what: &'static str| move |error: duolog_join::Error| Broken(format!("{what} a copy failed: {error}"));
    if !is_whole {
        return Err(Broken("a copy of a home that nobody touched is not whole".to_owned()));
    }
    let join = world.open_on(disk).map_err(failed("opening"))?;
    let count = |join: &Join| count(join, session).map_err(failed("reading"));
    let (must, may) = counted.bounds(Durability::Process);
    let there = count(&join)?;
    if !(must..=may).contains(&there) {
        return Err(Broken(format!("a copy has {there} lines, and {must} to {may} were appended")));
    }
    for id in counted.operations.keys() {
        ask(&join, session, id).map_err(failed("retrying in"))?;
    }
    let (must, may) = counted.bounds_after(Durability::Process);
    let there = count(&join)?;
    if (must..=may).contains(&there) {
        return Ok(());
    }
    Err(Broken(format!("after every operation was asked again a copy has {there} lines, not {must} to {may}")))
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

/// Holds the counted sessions to what was told of them, and asks every operation again.
pub(crate) fn check_counted(join: &Join, crashed: &Crashed<'_>) -> Held {
    let failed = |what: &'static str| move |error: duolog_join::Error| Broken(format!("{what} failed: {error}"));
    if let Some(broken) = crashed.ledger.broken_copies.first() {
        return Err(Broken(broken.clone()));
    }
    for (session, counted) in &crashed.ledger.counted {
        let found = join.state().read(|tx| sessions::find(tx, session)).map_err(|error| Broken(error.to_string()))?;
        let Some(row) = found else {
            if counted.created && !counted.deleting {
                return Err(Broken(format!("session {session} is gone")));
            }
            continue;
        };
        if counted.gone {
            return Err(Broken(format!("session {session} is there, and its deletion was acknowledged")));
        }
        // A deletion that was not acknowledged takes all or nothing; a new session of this id may not be told of yet.
        if counted.deleting || !counted.created {
            continue;
        }
        let (must, may) = counted.bounds(crashed.survived);
        let there = count(join, session).map_err(failed("reading"))?;
        if !(must..=may).contains(&there) {
            return Err(Broken(format!("{session} has {there} equal lines, and {must} to {may} were appended")));
        }
        for id in counted.operations.keys().chain(&counted.answered) {
            ask(join, session, id).map_err(failed("asking an operation again"))?;
        }
        let (must, may) = counted.bounds_after(crashed.survived);
        let there = count(join, session).map_err(failed("reading"))?;
        if !(must..=may).contains(&there) {
            let told = "after every operation was asked again";
            return Err(Broken(format!("{told} {session} has {there} equal lines, not {must} to {may}")));
        }
        let mode = crashed.disk.mode(Path::new(&row.log_path));
        if !matches!(mode, None | Some(0o600)) {
            return Err(Broken(format!("the log of {session} has mode {mode:?}")));
        }
    }
    Ok(())
}

//! The workloads: the actions of several processes on one home, run by one thread.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use duolog_join::{Error, Join, NewLog, Result, Stem, tell};
use duolog_log::{Append, Follower, Item, Place, Polled};
use duolog_state::owned::sessions::{self, SessionRow};
use duolog_types::{Batch, Clock, Durability, Epoch, OperationId, Position, SessionId};
use serde_json::Map;

use super::ledger::{Ledger, Operation, Rename};
use super::world::World;
use crate::disk::{CallKind, Fault, SimDisk};

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// Appends of both durabilities by several processes, operations, renames, folds, a writer that dies inside a line.
    Plain,
    /// Logs that are deleted, cut and replaced by hand while writers and followers use them.
    Tampered,
    /// Equal lines, deletion and re-creation, retried operations, claims of dead writers, copies.
    EqualLines,
}

impl Script {
    /// All workloads.
    pub const ALL: [Self; 3] = [Self::Plain, Self::Tampered, Self::EqualLines];
}

pub(crate) type SharedLedger = Arc<Mutex<Ledger>>;

/// A reader of a log in another process, which looks before every disk call.
pub(crate) struct Watcher {
    session: SessionId,
    follower: Follower,
    epoch: Epoch,
    last: Option<Position>,
}

/// Runs a workload and records it.
pub(crate) struct Player {
    pub(crate) world: World,
    pub(crate) disk: SimDisk,
    pub(crate) ledger: SharedLedger,
    pub(crate) watchers: Arc<Mutex<Vec<Watcher>>>,
    next: u32,
}

/// An error ends the workload: a stopped process does nothing more.
type Step = Result<()>;

impl Player {
    pub(crate) fn new(world: World, disk: &SimDisk) -> Self {
        let (ledger, watchers) = (SharedLedger::default(), Arc::default());
        Self { world, disk: disk.clone(), ledger, watchers, next: 0 }
    }

    /// Runs the workload to its end, or until the main process stops.
    pub(crate) fn play(&mut self, script: Script) {
        // An error needs no report: the ledger has what was not acknowledged.
        let _ = match script {
            Script::Plain => self.plain(),
            Script::Tampered => self.tampered(),
            Script::EqualLines => self.equal_lines(),
        };
        self.watch();
    }

    fn plain(&mut self) -> Step {
        use Durability::{Power, Process};
        let (a, b) = (self.open()?, self.open()?);
        let alpha = self.create(&a, "alpha")?;
        self.follow(&a, &alpha);
        self.append(&a, &alpha, 2, Process);
        self.append(&a, &alpha, 1, Power);
        self.append(&b, &alpha, 2, Process);
        self.rename(&a, &alpha, "alpha-1");
        self.append_once(&a, &alpha, "op-1", 2, Power);
        let _ = b.catch_up(u64::MAX);
        self.append(&a, &alpha, 1, Process);
        self.rename(&a, &alpha, "alpha-2");
        let beta = self.create(&a, "beta")?;
        self.follow(&a, &beta);
        self.append(&b, &beta, 1, Power);
        // The disk takes the first of three lines, and then no more.
        self.disk.fail_kind_from(CallKind::Append, 0, Fault::Short(30));
        self.append(&b, &beta, 3, Process);
        self.append(&b, &beta, 1, Process);
        self.stop_inside_line(&alpha);
        self.watch();
        self.append(&b, &alpha, 1, Power);
        self.append(&a, &alpha, 1, Process);
        let _ = a.fold(&alpha, u64::MAX);
        self.append_once(&a, &beta, "op-2", 3, Process);
        self.append_once(&b, &beta, "op-2", 3, Process);
        self.rename(&a, &beta, "beta-1");
        self.append(&a, &beta, 1, Power);
        let _ = a.leave(u64::MAX);
        let _ = b.catch_up(u64::MAX);
        self.append(&b, &beta, 1, Process);
        // Nothing is folded, and the mark stays set.
        let _ = b.leave(0);
        Ok(())
    }

    fn tampered(&mut self) -> Step {
        use Durability::{Power, Process};
        let (a, b) = (self.open()?, self.open()?);
        for (name, fold_first) in [("deleted", false), ("cut", true), ("replaced", true), ("rewritten", true)] {
            let session = self.create(&a, name)?;
            self.follow(&a, &session);
            self.append(&a, &session, 2, Power);
            self.append(&b, &session, 2, Process);
            self.watch();
            if fold_first {
                let _ = b.catch_up(u64::MAX);
            }
            self.tamper(&session, name);
            self.watch();
            self.append(&a, &session, 1, Process);
            self.append(&b, &session, 1, Power);
            self.append(&a, &session, 2, Power);
            self.watch();
            let _ = b.catch_up(u64::MAX);
            self.rename(&b, &session, &format!("{name}-1"));
        }
        let _ = a.leave(0);
        Ok(())
    }

    pub(super) fn open(&self) -> Result<Arc<Join>> {
        self.world.open(&self.disk.process())
    }

    fn ledger<T>(&self, f: impl FnOnce(&mut Ledger) -> T) -> T {
        f(&mut self.ledger.lock().expect("one thread"))
    }

    fn create(&self, by: &Join, name: &str) -> Result<SessionId> {
        let id = SessionId::parse(&format!("session-{name}")).expect("a safe id");
        let mut row = SessionRow::new(id.clone(), self.world.home, "threads", "", self.world.clock.now());
        row.name = Some(name.to_owned());
        row.addressed = true;
        let stem = Stem { scope: "threads".to_owned(), file: name.to_owned(), name: name.to_owned() };
        let log_path = format!("sessions/threads/{name}.jsonl");
        self.ledger(|ledger| ledger.of(&id).log_path.clone_from(&log_path));
        by.create(NewLog { row, stem }, Durability::Power)?;
        self.ledger(|ledger| ledger.of(&id).created = true);
        Ok(id)
    }

    fn lines(&mut self, count: u32) -> Vec<String> {
        (0..count)
            .map(|_| {
                self.next += 1;
                // A character of several bytes, so that a cut can be inside it.
                let (n, text) = (self.next, format!("é{}", "x".repeat(self.next as usize % 7)));
                // Of every four lines, one has usage and the next corrects it, so that sums grow and shrink.
                let usage = match n % 4 {
                    0 | 1 => format!(
                        ",\"type\":\"assistant\",\"message\":{{\"id\":\"{}\",\"usage\":{{\"output_tokens\":{n}}}}}",
                        n / 4
                    ),
                    _ => String::new(),
                };
                format!("{{\"n\":{n},\"t\":\"{text}\"{usage}}}")
            })
            .collect()
    }

    fn append(&mut self, by: &Join, session: &SessionId, count: u32, durability: Durability) {
        let lines = self.lines(count);
        let first = self.ledger(|ledger| ledger.attempt(session, &lines));
        if by.append(session, &batch_of(&lines), &Append { durability, if_position: None }).is_ok() {
            self.ledger(|ledger| ledger.acknowledge(session, first, lines.len(), durability));
        }
        self.watch();
    }

    fn append_once(&mut self, by: &Join, session: &SessionId, id: &str, count: u32, durability: Durability) {
        let id = OperationId::parse(id).expect("a safe id");
        let known = self.ledger(|ledger| ledger.of(session).operations.iter().find(|op| op.id == id).cloned());
        let operation = known.unwrap_or_else(|| {
            let operation = Operation { id, lines: self.lines(count), acknowledged: None };
            self.ledger(|ledger| ledger.of(session).operations.push(operation.clone()));
            operation
        });
        let how = Append { durability, if_position: None };
        if let Ok(committed) = by.append_once(session, &operation.id, &batch_of(&operation.lines), &how) {
            self.ledger(|ledger| {
                let record = ledger.of(session);
                if let Some(op) = record.operations.iter_mut().find(|op| op.id == operation.id) {
                    op.acknowledged.get_or_insert((durability, committed.end));
                }
            });
        }
        self.watch();
    }

    fn rename(&mut self, by: &Join, session: &SessionId, name: &str) {
        let index = self.ledger(|ledger| {
            let renames = &mut ledger.of(session).renames;
            renames.push(Rename { name: name.to_owned(), acknowledged: false });
            renames.len() - 1
        });
        if rename(by, session, name, self.world.clock.now()).is_ok() {
            self.ledger(|ledger| ledger.of(session).renames[index].acknowledged = true);
        }
        self.watch();
    }

    /// A third process appends two lines and stops after one and a half.
    fn stop_inside_line(&mut self, session: &SessionId) {
        let disk = self.disk.process();
        let Ok(c) = self.world.open(&disk) else { return };
        let lines = self.lines(2);
        self.ledger(|ledger| ledger.attempt(session, &lines));
        // Its lock file is empty, so the next append goes to the log.
        let after_bytes = Some(lines[0].len() + 1 + lines[1].len() / 2);
        self.disk.fail_kind_from(CallKind::Append, 0, Fault::Stop { after_bytes });
        let _ = c.append(session, &batch_of(&lines), &Append::default());
        self.watch();
    }

    fn tamper(&mut self, session: &SessionId, how: &str) {
        let path = self.ledger(|ledger| ledger.of(session).log_path.clone());
        let Some(content) = self.disk.read(&path) else { return };
        let planted = self.lines(1).remove(0);
        self.ledger(|ledger| {
            let record = ledger.of(session);
            let text = String::from_utf8_lossy(&content).into_owned();
            record.tampered.extend(text.lines().map(str::to_owned));
            if how == "replaced" || how == "rewritten" {
                record.planted.insert(planted.clone());
            }
        });
        let mut other = planted.into_bytes();
        other.push(b'\n');
        match how {
            "deleted" => self.disk.remove(&path),
            "cut" => self.disk.write(&path, &content[..content.len() / 2]),
            "replaced" => self.disk.replace(&path, &other),
            _ => self.disk.write(&path, &other.repeat(1 + content.len() / other.len())),
        }
    }

    fn follow(&mut self, by: &Join, session: &SessionId) {
        let place = Place::file(self.ledger(|ledger| ledger.of(session).log_path.clone()));
        let disk = self.disk.process().as_disk();
        let max = by.limits().line_bytes_max;
        let follower = Follower::new(&disk, &place, Position::ZERO, Duration::ZERO, max);
        let watcher = Watcher { session: session.clone(), follower, epoch: Epoch(0), last: None };
        self.watchers.lock().expect("one thread").push(watcher);
    }

    fn watch(&self) {
        watch(&self.watchers, &self.ledger);
    }
}

/// Lets every watcher read, and records the lines.
pub(crate) fn watch(watchers: &Mutex<Vec<Watcher>>, ledger: &SharedLedger) {
    // A watcher's own disk calls come back here through the hook; it is already reading.
    let Ok(mut watchers) = watchers.try_lock() else { return };
    for watcher in watchers.iter_mut() {
        let Watcher { session, follower, epoch, last } = watcher;
        loop {
            let mut given = Vec::new();
            let polled = follower.poll(&mut |item| {
                if let Item::Line(line) = item {
                    given.push((line.start, line.end, String::from_utf8_lossy(line.bytes).into_owned()));
                }
            });
            let mut ledger = ledger.lock().expect("one thread");
            let record = ledger.of(session);
            for (start, end, line) in given {
                if last.is_some_and(|last| start < last) {
                    record.seen_twice.push(line.clone());
                }
                *last = Some(end);
                record.seen.insert((*epoch, start), line);
            }
            drop(ledger);
            match polled {
                Ok(Polled::Delivered) => {}
                Ok(Polled::Reset { to, .. }) => {
                    *epoch = epoch.next();
                    *last = Some(to);
                }
                Ok(Polled::Idle) | Err(_) => break,
            }
        }
    }
}

pub(crate) fn batch_of(lines: &[String]) -> Batch {
    let mut batch = Batch::default();
    for line in lines {
        batch.push(line.as_bytes()).expect("the harness makes good lines");
    }
    batch
}

/// The rename of the harness: a row changes, and the log gets a line about it.
pub(crate) fn rename(by: &Join, session: &SessionId, name: &str, at: duolog_types::Timestamp) -> Result<()> {
    let (session, name) = (session.clone(), name.to_owned());
    by.transact(Durability::Power, move |tx| {
        if !sessions::rename(tx, &session, &name, at)? {
            return Err(Error::NoSession(session.clone()));
        }
        let mut fields = Map::new();
        fields.insert("name".to_owned(), name.clone().into());
        let line = tell(tx, &session, "renamed", at, &fields)?;
        Ok(((), vec![line]))
    })
}

//! Threads that share a home through several `Join`s: appends, operations, transactions that panic, deletions, dropped
//! stores, lost connections and full disks at the same time. Every acknowledged write must be there exactly once, and
//! no refused one.
//!
//! Most lines are equal, so they are counted. The seed decides what each thread does, not how the threads interleave.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use duolog_join::{Error, Join, NewLog, OpenJoin, Stem, prepare, tell};
use duolog_log::{Append, Disk, Item};
use duolog_state::Error as StateError;
use duolog_state::derived::catalog;
use duolog_state::owned::sessions::{self, SessionRow};
use duolog_types::limits::Limits;
use duolog_types::{Batch, Durability, Epoch, HomeId, OperationId, SessionId, SystemClock};
use serde_json::Map;

use crate::disk::{CallKind, Fault, SimDisk};
use crate::engines::Place;
use crate::random::{Random, mix};

const SAME: &str = "{\"same\":1}";
const SLOTS: usize = 3;
const ENOSPC: i32 = 28;

/// The size of a run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The seed of the random steps.
    pub seed: u64,
    /// The number of threads; every two share a `Join`.
    pub threads: usize,
    /// The number of steps per thread.
    pub steps: usize,
    /// True if the disk of the logs is full from time to time; the disk is simulated then.
    pub faults: bool,
}

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Acknowledged lines.
    pub lines: usize,
    /// Acknowledged operations, each counted once.
    pub operations: usize,
    /// Transactions that panicked.
    pub panics: usize,
    /// Sessions that were created.
    pub sessions: usize,
    /// Calls that failed with an expected error.
    pub refused: usize,
}

/// What one session must contain.
#[derive(Default)]
struct SessionModel {
    deleting: bool,
    deleted: bool,
    /// Only the log was deleted.
    emptied: bool,
    /// Acknowledged lines, by the epoch of their log.
    lines: BTreeMap<Epoch, usize>,
    /// Lines of calls whose outcome is unknown.
    unknown: usize,
    /// Operations of one line each, by the epoch of their log; `None` if the outcome is unknown.
    operations: BTreeMap<OperationId, Option<Epoch>>,
    /// Names of the session, and whether the rename was acknowledged.
    names: BTreeMap<String, bool>,
}

/// The state that all threads share.
struct Scene<'p> {
    place: &'p Place,
    home: HomeId,
    disk: Arc<dyn Fn() -> Arc<dyn Disk> + Send + Sync>,
    sim: Option<SimDisk>,
    /// The current session of each slot.
    slots: [RwLock<SessionId>; SLOTS],
    known: Mutex<BTreeMap<SessionId, SessionModel>>,
    tally: Mutex<Tally>,
    broken: Mutex<Vec<String>>,
}

/// Runs threads against one home and checks the home at the end.
///
/// # Errors
///
/// Returns the violations, one per line.
pub fn run(place: &Place, options: Options) -> Result<Tally, String> {
    let prepared = prepare(place.home()).map_err(|error| error.to_string())?;
    let sim = options.faults.then(SimDisk::new);
    let disk: Arc<dyn Fn() -> Arc<dyn Disk> + Send + Sync> = match &sim {
        Some(sim) => {
            let sim = sim.clone();
            Arc::new(move || sim.process().as_disk())
        }
        None => Arc::new(move || Arc::clone(&prepared.disk)),
    };
    let slots = std::array::from_fn(|slot| RwLock::new(id_of(slot, 0)));
    let (known, tally, broken) = (Mutex::default(), Mutex::default(), Mutex::default());
    let scene = Scene { place, home: prepared.id, disk, sim, slots, known, tally, broken };
    let first = scene.open();
    (0..SLOTS).for_each(|slot| scene.create(&first, slot, 0));
    let shared: Vec<RwLock<Arc<Join>>> = (0..options.threads.div_ceil(2)).map(|_| RwLock::new(scene.open())).collect();
    std::thread::scope(|scope| {
        for number in 0..options.threads {
            let (scene, join) = (&scene, &shared[number / 2]);
            scope.spawn(move || {
                let mut random = Random::new(mix(options.seed ^ mix(number as u64 + 1)));
                for step in 0..options.steps {
                    scene.step(join, &mut random, number * options.steps + step + 1);
                }
            });
        }
    });
    drop((shared, first));
    if let Some(sim) = &scene.sim {
        sim.heal();
    }
    scene.check();
    let broken = std::mem::take(&mut *lock(&scene.broken));
    if broken.is_empty() { Ok(*lock(&scene.tally)) } else { Err(broken.join("\n")) }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn id_of(slot: usize, number: usize) -> SessionId {
    SessionId::parse(&format!("slot-{slot}-{number}")).expect("a safe id")
}

fn batch(lines: usize) -> Batch {
    let mut batch = Batch::default();
    (0..lines).for_each(|_| batch.push(SAME.as_bytes()).expect("a line"));
    batch
}

/// Returns true for the errors of a deleted session, a cut connection or a full disk.
fn is_allowed(error: &Error) -> bool {
    let is_trouble = |error: &StateError| {
        matches!(error, StateError::Unknown { .. } | StateError::Busy { .. } | StateError::Unreachable { .. })
    };
    match error {
        Error::NoSession(_)
        | Error::Deleted(_)
        | Error::BackupRunning { .. }
        | Error::Log(duolog_log::Error::Full(_) | duolog_log::Error::Busy { .. }) => true,
        Error::Log(duolog_log::Error::Record(cause)) => {
            cause.downcast_ref().is_some_and(is_trouble) || cause.downcast_ref().is_some_and(is_allowed)
        }
        Error::State(error) => is_trouble(error),
        Error::Unfinished { source, .. } => is_allowed(source),
        _ => false,
    }
}

impl Scene<'_> {
    fn open(&self) -> Arc<Join> {
        let limits = Limits { open_logs_max: 2, ..Limits::default() };
        let open = || {
            Join::open(OpenJoin {
                state: self.place.options(),
                disk: (self.disk)(),
                home: self.home,
                limits,
                clock: Arc::new(SystemClock),
                boot: "boot".to_owned(),
            })
        };
        loop {
            match open() {
                Ok(join) => return join,
                // The connection was cut while opening.
                Err(error) if is_allowed(&error) => {}
                Err(error) => panic!("opening: {error}: {error:?}"),
            }
        }
    }

    fn of<T>(&self, session: &SessionId, f: impl FnOnce(&mut SessionModel) -> T) -> T {
        f(lock(&self.known).entry(session.clone()).or_default())
    }

    /// Counts an expected error, or records an unexpected one as a violation.
    fn failed(&self, what: &str, error: &Error) {
        if is_allowed(error) {
            lock(&self.tally).refused += 1;
        } else {
            lock(&self.broken).push(format!("{what}: {error}: {error:?}"));
        }
    }

    fn step(&self, shared: &RwLock<Arc<Join>>, random: &mut Random, number: usize) {
        let slot = usize::try_from(random.below(SLOTS as u64)).unwrap_or_default();
        let session = self.slots[slot].read().unwrap_or_else(PoisonError::into_inner).clone();
        let join = Arc::clone(&shared.read().unwrap_or_else(PoisonError::into_inner));
        let durability = if random.below(4) == 0 { Durability::Power } else { Durability::Process };
        let how = Append { durability, if_position: None };
        match random.below(100) {
            0..40 => self.append(&join, &session, &how, 1 + usize::try_from(random.below(3)).unwrap_or_default()),
            40..62 => self.append_once(&join, &session, &how, random.below(30)),
            62..72 => self.rename(&join, &session, number),
            72..78 => self.panic(&join, &session, number),
            78..82 => self.replace(&join, slot, &session, number),
            82..84 => self.empty(&join, &session),
            84..90 => drop(join.catch_up(u64::MAX).map_err(|error| self.failed("catching up", &error))),
            90..94 => drop(lines_of(&join, &session).map_err(|error| self.failed("reading", &error))),
            94..97 => {
                drop(join);
                // The other thread may still use the `Join` that is replaced here.
                let opened = self.open();
                *shared.write().unwrap_or_else(PoisonError::into_inner) = opened;
            }
            _ => self.trouble(random),
        }
    }

    fn append(&self, join: &Join, session: &SessionId, how: &Append, lines: usize) {
        match join.append(session, &batch(lines), how) {
            Ok(committed) => {
                self.of(session, |known| *known.lines.entry(committed.epoch).or_default() += lines);
                lock(&self.tally).lines += lines;
            }
            Err(error) => {
                self.of(session, |known| known.unknown += lines);
                self.failed("appending", &error);
            }
        }
    }

    fn append_once(&self, join: &Join, session: &SessionId, how: &Append, number: u64) {
        let id = OperationId::parse(&format!("op-{number}")).expect("a safe id");
        self.of(session, |known| {
            known.operations.entry(id.clone()).or_default();
        });
        match join.append_once(session, &id, &batch(1), how) {
            Ok(committed) => {
                let before = self.of(session, |known| known.operations.insert(id.clone(), Some(committed.epoch)));
                if before.flatten().is_some_and(|before| before != committed.epoch) {
                    lock(&self.broken).push(format!("{id} of {session} was acknowledged in two epochs"));
                }
                lock(&self.tally).operations += usize::from(before.flatten().is_none());
            }
            Err(error) => self.failed("appending once", &error),
        }
    }

    fn rename(&self, join: &Join, session: &SessionId, number: usize) {
        let name = format!("name-{number}");
        self.of(session, |known| known.names.insert(name.clone(), false));
        let (id, new, at) = (session.clone(), name.clone(), duolog_types::Clock::now(&SystemClock));
        let done = join.transact::<_, Error>(Durability::Power, move |tx| {
            if !sessions::rename(tx, &id, &new, at)? {
                return Err(Error::NoSession(id.clone()));
            }
            let mut fields = Map::new();
            fields.insert("name".to_owned(), new.clone().into());
            Ok(((), vec![tell(tx, &id, "renamed", at, &fields)?]))
        });
        match done {
            Ok(()) => drop(self.of(session, |known| known.names.insert(name, true))),
            Err(error) => self.failed("renaming", &error),
        }
    }

    /// Panics inside two savepoints: the transaction must leave no change.
    fn panic(&self, join: &Join, session: &SessionId, number: usize) {
        let (id, at) = (session.clone(), duolog_types::Clock::now(&SystemClock));
        let done = join.transact::<(), Error>(Durability::Process, move |tx| {
            sessions::rename(tx, &id, &format!("panicked-{number}"), at)?;
            tx.savepoint(|tx| {
                tx.savepoint(|tx| {
                    sessions::rename(tx, &id, &format!("panicked-{number}-inside"), at)?;
                    std::panic::resume_unwind(Box::new("requested by the test"));
                })
            })?;
            Ok(((), Vec::new()))
        });
        match done {
            Err(Error::State(StateError::Panicked { .. })) => lock(&self.tally).panics += 1,
            Err(error) => self.failed("panicking", &error),
            Ok(()) => lock(&self.broken).push("a transaction that panicked was acknowledged".to_owned()),
        }
    }

    fn create(&self, join: &Join, slot: usize, number: usize) {
        let id = id_of(slot, number);
        let row = SessionRow::new(id.clone(), self.home, "threads", "", join.clock().now());
        let name = format!("slot-{slot}");
        let stem = Stem { scope: "threads".to_owned(), file: name.clone(), name };
        match join.create(NewLog { row, stem }, Durability::Power) {
            Ok(_) => {
                self.of(&id, |_| ());
                lock(&self.tally).sessions += 1;
                *self.slots[slot].write().unwrap_or_else(PoisonError::into_inner) = id;
            }
            Err(error) => self.failed("making", &error),
        }
    }

    /// Deletes the session of a slot while other threads append to it, and creates another of the same name.
    fn replace(&self, join: &Join, slot: usize, session: &SessionId, number: usize) {
        if self.of(session, |known| std::mem::replace(&mut known.deleting, true)) {
            return;
        }
        match join.delete(session) {
            Ok(_) => self.of(session, |known| known.deleted = true),
            Err(error) => {
                // The deletion is committed; only its row or its file remains.
                if matches!(error, Error::Unfinished { .. }) {
                    self.of(session, |known| known.deleted = true);
                }
                self.failed("deleting", &error);
            }
        }
        self.create(join, slot, number);
    }

    fn empty(&self, join: &Join, session: &SessionId) {
        self.of(session, |known| known.emptied = true);
        if let Err(error) = join.remove_log(session, None) {
            self.failed("deleting a log", &error);
        }
    }

    /// Cuts every connection, or fills the disk for one write.
    fn trouble(&self, random: &mut Random) {
        if let Some(database) = self.place.database() {
            let cut = "SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity \
                       WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name <> 'psql'";
            database.run_sql(cut).expect("the server");
        }
        if let Some(sim) = &self.sim {
            let fault = if random.below(2) == 0 { Fault::Error(ENOSPC) } else { Fault::Short(4) };
            let nth = usize::try_from(random.below(3)).unwrap_or_default();
            sim.fail_kind_from(CallKind::Append, nth, fault);
        }
    }

    fn check(&self) {
        let join = self.open();
        let mut broken = Vec::new();
        match join.catch_up(u64::MAX) {
            Ok(left) if left.sessions_behind == 0 => {}
            left => broken.push(format!("catching up at the end: {left:?}")),
        }
        for (session, known) in &*lock(&self.known) {
            let found = join.state().read(|tx| sessions::find(tx, session)).expect("reads");
            match found.filter(|row| row.deleted_at.is_none()) {
                Some(_) if known.deleted => broken.push(format!("{session} exists but was deleted")),
                None if !known.deleting => broken.push(format!("{session} is missing")),
                Some(row) => broken.extend(check_session(&join, &row, known)),
                None => {}
            }
        }
        lock(&self.broken).extend(broken);
    }
}

/// Checks a session against its acknowledgements.
fn check_session(join: &Join, row: &SessionRow, known: &SessionModel) -> Vec<String> {
    let (mut broken, session) = (Vec::new(), &row.id);
    let count = || lines_of(join, session).map(|lines| lines.iter().filter(|line| *line == SAME).count());
    let lines = known.lines.get(&row.log_epoch).copied().unwrap_or_default();
    let done = known.operations.values().filter(|epoch| **epoch == Some(row.log_epoch)).count();
    let unknown = known.operations.values().filter(|epoch| epoch.is_none()).count();
    let (must, may) = (lines + done, lines + done + known.unknown + unknown);
    let there = count().expect("reads");
    if !(must..=may).contains(&there) {
        let repairs = join.repairs_of(session);
        broken.push(format!("{session} has {there} equal lines, expected {must} to {may}; {repairs:?}"));
    }
    // After a retry, every operation has its line once.
    for id in known.operations.keys() {
        let how = Append { durability: Durability::Process, if_position: None };
        join.append_once(session, id, &batch(1), &how).expect("a retried operation");
    }
    let after = count().expect("reads");
    if after < there || after > there + unknown {
        broken.push(format!("retried operations turned {there} lines of {session} into {after}"));
    }
    let all = lines_of(join, session).expect("reads");
    let name = row.name.clone().unwrap_or_default();
    if name.starts_with("panicked") {
        broken.push(format!("{session} has a name from a transaction that panicked"));
    }
    for (name, acknowledged) in &known.names {
        let needle = format!("\"name\":\"{name}\"");
        let count = all.iter().filter(|line| line.contains(&needle)).count();
        if count > 1 || (*acknowledged && !known.emptied && count == 0) {
            broken.push(format!("the log of {session} has {count} lines for the rename to {name}"));
        }
    }
    let unique: BTreeSet<&String> = all.iter().filter(|line| *line != SAME).collect();
    if unique.len() != all.iter().filter(|line| *line != SAME).count() {
        broken.push(format!("the log of {session} has a line twice"));
    }
    join.catch_up(u64::MAX).expect("folds");
    let events = join.state().read(|tx| catalog::get(tx, session)).expect("reads").map_or(0, |row| row.events);
    if events != all.len() as u64 {
        broken.push(format!("the catalog counts {events} events of {session}, its log has {}", all.len()));
    }
    broken
}

fn lines_of(join: &Join, session: &SessionId) -> duolog_join::Result<Vec<String>> {
    let Some(reader) = join.reader(session)? else { return Ok(Vec::new()) };
    let end = reader.stable_end(join.limits().busy_timeout)?;
    let mut lines = reader.lines(reader.first(), end, usize::MAX)?;
    let mut all = Vec::new();
    while let Some(item) = lines.next()? {
        if let Item::Line(line) = item {
            all.push(String::from_utf8_lossy(line.bytes).into_owned());
        }
    }
    Ok(all)
}

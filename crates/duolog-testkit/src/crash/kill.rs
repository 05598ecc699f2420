//! Kills real processes on a real file system at random times.
//!
//! Children append, rename, fold, follow and repair at the same time on shared and separate sessions. Each reports to
//! the parent through a pipe what it is about to do and what was acknowledged. The parent kills them all with SIGKILL,
//! opens the home and checks it against the reports. The seed decides what each child does and when it dies.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use duolog_join::{Error, Folder, Join, NewLog, OpenJoin, Seen, Stem, prepare};
use duolog_log::{Append, Item};
use duolog_state::OpenState;
use duolog_state::owned::sessions::{self, SessionRow};
use duolog_state::owned::{outbox, repairs};
use duolog_types::limits::Limits;
use duolog_types::line::check_line;
use duolog_types::{Cursor, Durability, OperationId, SessionId, SystemClock};

use super::check::{Broken, dump};
use super::script::{batch_of, rename};
use crate::random::Random;

/// The subcommand of a child; internal.
pub const CHILD: &str = "child";

/// The size of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The number of times that all children are killed.
    pub rounds: u32,
    /// The number of writers; a folder, a repairer and two followers run besides.
    pub writers: u32,
    /// The seed of everything but the scheduling.
    pub seed: u64,
    /// The directory of the home, on a real file system or in memory.
    pub dir: PathBuf,
    /// The binary of the children: this one.
    pub binary: PathBuf,
}

/// The counts of a run.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Finished rounds.
    pub rounds: u32,
    /// Acknowledged lines.
    pub acknowledged: u64,
    /// Acknowledged renames.
    pub renames: u64,
    /// Lines that followers received.
    pub followed: u64,
    /// Torn tails that were repaired.
    pub repaired: u64,
}

const SHARED: &str = "shared";

fn open(dir: &Path) -> duolog_join::Result<Arc<Join>> {
    let prepared = prepare(dir).expect("a home");
    Join::open(OpenJoin {
        state: OpenState::at(dir).busy_timeout(Duration::from_secs(30)),
        disk: prepared.disk,
        home: prepared.id,
        limits: Limits { busy_timeout: Duration::from_secs(30), ..Limits::default() },
        clock: Arc::new(SystemClock),
        boot: prepared.boot,
    })
}

fn id(name: &str) -> SessionId {
    SessionId::parse(name).expect("a safe id")
}

fn create(join: &Join, name: &str) {
    let at = join.clock().now();
    let row = SessionRow::new(id(name), join.home(), "threads", "", at);
    let stem = Stem { scope: "threads".to_owned(), file: name.to_owned(), name: name.to_owned() };
    match join.create(NewLog { row, stem }, Durability::Power) {
        Ok(_) => {}
        Err(error) if error.is_taken() => {}
        Err(error) => panic!("cannot create {name}: {error}"),
    }
}

/// Runs one child until it is killed. Each report is one line, written with one call.
pub fn child(role: &str, number: u32, seed: u64, dir: &Path) {
    let join = open(dir).expect("the home opens");
    let _folder = number.is_multiple_of(2).then(|| Folder::start(&join).expect("a thread"));
    let mut random = Random::new(seed ^ u64::from(number).wrapping_mul(0x1234_5678_9abc_def1));
    match role {
        "writer" => writer(&join, number, seed, &mut random),
        "follower" => follower(&join, if number.is_multiple_of(2) { SHARED } else { "own-0" }),
        "folder" => loop {
            let _ = join.catch_up(u64::MAX);
            std::thread::sleep(Duration::from_micros(random.below(3_000)));
        },
        "repairer" => loop {
            let target = format!("own-{}", random.below(4));
            let _ = join.repair(&id(if random.below(2) == 0 { SHARED } else { &target }));
            let _ = join.rebuild(|_| {});
            std::thread::sleep(Duration::from_micros(random.below(5_000)));
        },
        _ => panic!("unknown role {role}"),
    }
}

fn report(words: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{words}\n").as_bytes()).and_then(|()| out.flush()).expect("the parent listens");
}

fn writer(join: &Join, number: u32, seed: u64, random: &mut Random) {
    let own = format!("own-{number}");
    for step in 0.. {
        let session = if random.below(3) == 0 { own.as_str() } else { SHARED };
        let durability = if random.below(8) == 0 { Durability::Power } else { Durability::Process };
        let tag = format!("{seed:x}-{number}-{step}");
        match random.below(16) {
            0 => {
                report(&format!("try-rename {session} {tag}"));
                if rename(join, &id(session), &tag, join.clock().now()).is_ok() {
                    report(&format!("renamed {session} {tag}"));
                }
            }
            choice => {
                let count = 1 + random.below(5);
                // The kernel writes a small buffer at once; only a long write can be killed in the middle.
                let longest = if random.below(48) == 0 { 1 << 20 } else { 400 };
                let lines: Vec<String> = (0..count)
                    .map(|line| {
                        let pad = "é".repeat(usize::try_from(random.below(longest)).unwrap_or(0));
                        format!(
                            "{{\"w\":{number},\"tag\":\"{tag}-{line}\",\"type\":\"assistant\",\"message\":{{\
                             \"id\":\"{tag}-{}\",\"model\":\"m\",\"usage\":{{\"output_tokens\":{line}}}}},\"pad\":\"{pad}\"}}",
                            line / 2
                        )
                    })
                    .collect();
                report(&format!("try {session} {tag} {count}"));
                let batch = batch_of(&lines);
                let how = Append { durability, if_position: None };
                let done = if choice == 1 {
                    let operation = OperationId::parse(&tag).expect("a safe id");
                    join.append_once(&id(session), &operation, &batch, &how)
                } else {
                    join.append(&id(session), &batch, &how)
                };
                match done {
                    Ok(_) => report(&format!("done {session} {tag} {count}")),
                    Err(error) => report(&format!("error {session} {tag} {error}")),
                }
            }
        }
    }
}

fn follower(join: &Arc<Join>, session: &str) {
    let mut follow = join.follow(&id(session), None).expect("follows");
    loop {
        let mut seen = Vec::new();
        let polled = follow.poll(&mut |item| {
            if let Item::Line(line) = item {
                seen.push((line.start, line.end, blake3::hash(line.bytes)));
            }
        });
        for (start, end, hash) in seen {
            report(&format!("saw {session} {} {start} {end} {}", follow.cursor().epoch, hash.to_hex()));
        }
        match polled {
            Ok(Seen::Delivered) => {}
            Ok(Seen::Reset(Cursor { epoch, position })) => report(&format!("reset {session} {epoch} {position}")),
            Ok(Seen::Idle) => follow.wait(Duration::from_micros(500)),
            Err(error) => report(&format!("error {session} follow {error}")),
        }
    }
}

/// Every report of the children, over all rounds.
#[derive(Default)]
struct Reports {
    /// Batches by tag: session, number of lines, acknowledged.
    batches: BTreeMap<String, (String, u64, bool)>,
    /// Renames by tag: session, acknowledged.
    renames: BTreeMap<String, (String, bool)>,
    /// What followers received: session, start, end, hash.
    seen: Vec<(String, u64, u64, String)>,
    errors: Vec<String>,
}

/// The number of rounds per home: a new home keeps the cost of a round constant.
const ROUNDS_PER_HOME: u32 = 10;

/// Kills all children, again and again, and checks the home against their reports.
pub fn run(options: &Options) -> Result<Tally, Broken> {
    let mut random = Random::new(options.seed);
    let mut sum = Tally::default();
    while sum.rounds < options.rounds {
        let dir = options.dir.join(format!("home-{}", sum.rounds / ROUNDS_PER_HOME));
        let rounds = ROUNDS_PER_HOME.min(options.rounds - sum.rounds);
        let tally = run_home(options, &dir, rounds, &mut random)
            .map_err(|broken| Broken(format!("seed {}, {}: {}", options.seed, dir.display(), broken.0)))?;
        sum.rounds += tally.rounds;
        sum.acknowledged += tally.acknowledged;
        sum.renames += tally.renames;
        sum.followed += tally.followed;
        sum.repaired += tally.repaired;
        std::fs::remove_dir_all(&dir).expect("removed");
    }
    Ok(sum)
}

fn run_home(options: &Options, dir: &Path, rounds: u32, random: &mut Random) -> Result<Tally, Broken> {
    let mut reports = Reports::default();
    let mut tally = Tally::default();
    let join = open(dir).map_err(|error| Broken(format!("opening failed: {error}")))?;
    create(&join, SHARED);
    (0..options.writers).for_each(|number| create(&join, &format!("own-{number}")));
    drop(join);
    for round in 0..rounds {
        let seed = random.next();
        let mut children: Vec<Child> = Vec::new();
        let (sender, receiver) = mpsc::channel();
        let roles = (0..options.writers).map(|n| ("writer", n)).chain([
            ("folder", 100),
            ("repairer", 101),
            ("follower", 102),
            ("follower", 103),
        ]);
        for (role, number) in roles {
            let mut child = Command::new(&options.binary)
                .args([CHILD, role, &number.to_string(), &seed.to_string()])
                .arg(dir)
                .stdout(Stdio::piped())
                .spawn()
                .expect("a child");
            let out = child.stdout.take().expect("a pipe");
            let sender = sender.clone();
            std::thread::spawn(move || {
                // A killed child may leave an incomplete last line, which is not a report.
                for line in BufReader::new(out).split(b'\n').map_while(Result::ok) {
                    let _ = sender.send(String::from_utf8_lossy(&line).into_owned());
                }
            });
            children.push(child);
        }
        drop(sender);
        std::thread::sleep(Duration::from_millis(20 + random.below(120)));
        // One writer may die before the others, which then work with the files that it left.
        let first = usize::try_from(random.below(u64::from(options.writers))).unwrap_or(0);
        children[first].kill().expect("killed");
        std::thread::sleep(Duration::from_millis(random.below(40)));
        for child in &mut children {
            child.kill().expect("killed");
        }
        for mut child in children {
            child.wait().expect("ended");
        }
        for line in receiver {
            reports.add(&line);
        }
        tally.rounds = round + 1;
        check(dir, &reports, &mut tally).map_err(|broken| Broken(format!("round {round}: {}", broken.0)))?;
    }
    Ok(tally)
}

impl Reports {
    fn add(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["try", session, tag, count] => {
                let count = count.parse().expect("a number");
                self.batches.insert((*tag).to_owned(), ((*session).to_owned(), count, false));
            }
            ["done", _, tag, _] => self.batches.get_mut(*tag).expect("tried first").2 = true,
            ["try-rename", session, tag] => {
                self.renames.insert((*tag).to_owned(), ((*session).to_owned(), false));
            }
            ["renamed", _, tag] => self.renames.get_mut(*tag).expect("tried first").1 = true,
            ["saw", session, _, start, end, hash] => self.seen.push((
                (*session).to_owned(),
                start.parse().expect("a position"),
                end.parse().expect("a position"),
                (*hash).to_owned(),
            )),
            _ => self.errors.push(line.to_owned()),
        }
    }
}

fn check(dir: &Path, reports: &Reports, tally: &mut Tally) -> Result<(), Broken> {
    let broken = |what: String| Err(Broken(what));
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: Error| Broken(format!("{what} failed: {error}"))
    };
    if let Some(error) = reports.errors.first() {
        return broken(format!("a child failed without an injected fault: {error}"));
    }
    let join = open(dir).map_err(failed("opening"))?;
    let caught_up = join.catch_up(u64::MAX).map_err(failed("catching up"))?;
    if caught_up.sessions_behind > 0 {
        return broken(format!("after catching up {caught_up:?}"));
    }
    let mut logs: HashMap<String, Vec<u8>> = HashMap::new();
    let rows = join.state().read(|tx| sessions::logs(tx, &join.home(), None, 1000)).map_err(Error::from);
    for row in rows.map_err(failed("listing"))? {
        let bytes = std::fs::read(dir.join(&row.path)).unwrap_or_default();
        logs.insert(row.session_id.to_string(), bytes);
    }
    // Every line is complete; a tag's lines are there once, adjacent and in order; so are each writer's batches.
    let mut places: HashMap<(String, String), usize> = HashMap::new();
    let mut rename_lines: HashMap<(String, String), u32> = HashMap::new();
    for (session, bytes) in &logs {
        let mut newest: HashMap<u64, (String, u64)> = HashMap::new();
        for (number, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            // Only the last line can lack its newline, and the next append repairs that.
            let Some(line) = line.strip_suffix(b"\n") else { continue };
            if check_line(line, usize::MAX).is_err() {
                return broken(format!("a torn or fused line in {session}: {}", String::from_utf8_lossy(line)));
            }
            let value: serde_json::Value = serde_json::from_slice(line).expect("checked");
            if let Some(tag) = value["tag"].as_str() {
                if places.insert((session.clone(), tag.to_owned()), number).is_some() {
                    return broken(format!("{tag} is twice in {session}"));
                }
                let (batch, _) = tag.rsplit_once('-').expect("a tag has a line number");
                let (run, step) = batch.rsplit_once('-').expect("a tag has a step");
                let step: u64 = step.parse().expect("a step");
                let writer = value["w"].as_u64().expect("a writer");
                if let Some((last_run, last_step)) = newest.get(&writer)
                    && last_run == run
                    && *last_step > step
                {
                    return broken(format!("{tag} is after step {last_step} of its writer in {session}"));
                }
                newest.insert(writer, (run.to_owned(), step));
                if !reports.batches.contains_key(batch) {
                    return broken(format!("{tag} in {session} was never appended"));
                }
            } else if value["subtype"] == "duolog.renamed" {
                let name = value["name"].as_str().unwrap_or_default().to_owned();
                *rename_lines.entry((session.clone(), name)).or_default() += 1;
            }
        }
    }
    for (tag, (session, count, acknowledged)) in &reports.batches {
        for line in 0..*count {
            let there = places.contains_key(&(session.clone(), format!("{tag}-{line}")));
            if *acknowledged && !there {
                return broken(format!("acknowledged {tag}-{line} is not in {session}"));
            }
        }
    }
    for (tag, (session, acknowledged)) in &reports.renames {
        let count = rename_lines.get(&(session.clone(), tag.clone())).copied().unwrap_or(0);
        if count > 1 || (*acknowledged && count == 0) {
            return broken(format!("the log of {session} has {count} lines for the rename to {tag}"));
        }
    }
    for (session, start, end, hash) in &reports.seen {
        let (start, end) = (usize::try_from(*start).unwrap_or(0), usize::try_from(*end).unwrap_or(0));
        let there = logs.get(session).and_then(|bytes| bytes.get(start..end - 1));
        if there.is_none_or(|bytes| blake3::hash(bytes).to_hex().as_str() != hash) {
            return broken(format!("a follower of {session} saw bytes at {start} that are missing now"));
        }
    }
    check_state(&join)?;
    tally.acknowledged = reports.batches.values().filter(|batch| batch.2).map(|batch| batch.1).sum();
    tally.renames = reports.renames.values().filter(|rename| rename.1).count() as u64;
    tally.followed = reports.seen.len() as u64;
    tally.repaired = join.state().read(repairs::count).map_err(|error| Broken(error.to_string()))?;
    Ok(())
}

fn check_state(join: &Join) -> Result<(), Broken> {
    let state = |error: duolog_state::Error| Broken(format!("cannot read the state: {error}"));
    let findings = join.state().integrity().map_err(state)?;
    if !findings.is_empty() {
        return Err(Broken(format!("the database is damaged: {findings:?}")));
    }
    let waiting = join.state().read(outbox::count).map_err(state)?;
    if waiting > 0 {
        return Err(Broken(format!("{waiting} lines are pending in the outbox after recovery")));
    }
    let lost = join.state().read(|tx| repairs::list(tx, None, 1000)).map_err(state)?;
    if let Some(loss) = lost.iter().find(|row| row.repair.action.is_loss()) {
        return Err(Broken(format!("a loss is recorded: {loss:?}")));
    }
    let before = join.state().read(dump).map_err(state)?;
    join.rebuild(|_| {}).map_err(|error| Broken(format!("rebuilding failed: {error}")))?;
    let after = join.state().read(dump).map_err(state)?;
    if before != after {
        return Err(Broken("derived rows differ from the fold of the log".to_owned()));
    }
    let mut damaged = None;
    join.each_log(|session| {
        let verified = join.verify(session, |_, _| {})?;
        if verified.damaged + verified.unsynced > 0 {
            damaged = Some(format!("{session} does not verify: {verified:?}"));
        }
        Ok(())
    })
    .map_err(|error| Broken(format!("verifying failed: {error}")))?;
    damaged.map_or(Ok(()), |what| Err(Broken(what)))
}

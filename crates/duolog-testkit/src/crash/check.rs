//! The invariants, held against what a crash left.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use duolog_join::Join;
use duolog_log::Append;
use duolog_state::Tx;
use duolog_state::derived::catalog::{self, CatalogRow};
use duolog_state::derived::digests::{self, DigestRow};
use duolog_state::derived::responses::{self, Owner};
use duolog_state::derived::usage_by_quarter::{self, UsageRow};
use duolog_state::owned::{outbox, repairs, sessions};
use duolog_types::line::check_line;
use duolog_types::{Durability, HomeId, SessionId};

use super::alike::check_counted;
use super::ledger::{Ledger, Told};
use super::script::{batch_of, rename};
use super::world::World;
use crate::disk::SimDisk;

/// An invariant that does not hold, in words.
#[derive(Clone, Debug)]
pub struct Broken(pub String);

macro_rules! hold {
    ($condition:expr, $($what:tt)+) => {
        if !$condition {
            return Err(Broken(format!($($what)+)));
        }
    };
}

type Held<T = ()> = Result<T, Broken>;

/// Whether everything that someone knew of a log could still be known when it was changed by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// The writers lived, and so does the state: what is taken away must be missed.
    Whole,
    /// A writer died before anyone folded, or the power took rows: only what is left can be missed.
    Partly,
}

/// What is looked at after a crash.
pub(crate) struct Crashed<'c> {
    pub(crate) disk: SimDisk,
    /// The same, as the crash left it: recovery works on the other.
    pub(crate) before: SimDisk,
    /// What could still be known.
    pub(crate) memory: Memory,
    /// The directory with the database that survived.
    pub(crate) dir: &'c Path,
    pub(crate) home: HomeId,
    /// What acknowledgements must have survived: all of them, or those made durable against power loss.
    pub(crate) survived: Durability,
    pub(crate) ledger: &'c Ledger,
}

/// Recovers and holds everything to the invariants.
pub(crate) fn check(crashed: &Crashed<'_>) -> Held {
    let mut world = World::at(crashed.dir, crashed.home);
    if crashed.survived == Durability::Power {
        world.boot.push_str("-and-another");
    }
    let join = open(&world, &crashed.disk)?;
    mend_poisoned(&join, crashed.ledger)?;
    join.catch_up(u64::MAX).map_err(failed("catching up"))?;
    let before = derived_rows(&join)?;
    for (session, told) in &crashed.ledger.sessions {
        check_session(&join, crashed, session, told)?;
    }
    // Derived rows are what the log says, no more and no less (I3).
    let rebuilding = join.rebuild(|_| {}).map_err(failed("rebuilding"))?;
    hold!(rebuilding.failed.is_empty(), "logs that cannot be rebuilt from: {:?}", rebuilding.failed);
    let rebuilt = derived_rows(&join)?;
    hold!(before == rebuilt, "derived rows differ from the fold of the log:\n{before:?}\n{rebuilt:?}");
    let findings = join.state().integrity().map_err(failed("checking integrity"))?;
    hold!(findings.is_empty(), "the database is damaged: {findings:?}");
    let waiting = join.state().read(outbox::count).map_err(failed("reading the outbox"))?;
    hold!(waiting == 0, "{waiting} lines wait in the outbox after recovery");
    drop(join);

    // Recovering twice changes no byte.
    let files = logs_of(&crashed.disk);
    let again = open(&world, &crashed.disk)?;
    again.catch_up(u64::MAX).map_err(failed("catching up again"))?;
    hold!(logs_of(&crashed.disk) == files, "recovering twice changed a file");
    let rows = derived_rows(&again)?;
    hold!(rows == rebuilt, "recovering twice changed derived rows");
    go_on(&again, crashed)?;
    check_counted(&again, crashed)
}

/// All that was derived from the logs.
pub(super) type DerivedRows = (Vec<CatalogRow>, Vec<DigestRow>, Vec<UsageRow>, Vec<(u64, Owner)>);

fn derived_rows(join: &Join) -> Held<DerivedRows> {
    join.state().read(dump).map_err(failed("reading derived rows"))
}

/// Every derived row there is.
pub(super) fn dump(tx: &mut Tx<'_>) -> duolog_state::Result<DerivedRows> {
    Ok((catalog::dump(tx)?, digests::dump(tx)?, usage_by_quarter::dump(tx)?, responses::dump(tx)?))
}

fn open(world: &World, disk: &SimDisk) -> Held<Arc<Join>> {
    world.open(&disk.process()).map_err(failed("opening"))
}

fn failed<E: std::fmt::Display>(what: &str) -> impl Fn(E) -> Broken {
    let what = what.to_owned();
    move |error| Broken(format!("{what} failed: {error}"))
}

/// Every file but those that come and go with processes.
fn logs_of(disk: &SimDisk) -> BTreeMap<std::path::PathBuf, Vec<u8>> {
    disk.snapshot().into_iter().filter(|(path, _)| !path.starts_with("processes")).collect()
}

/// A disk error closes a log on purpose; opening it again is the operator's step.
fn mend_poisoned(join: &Join, ledger: &Ledger) -> Held {
    for (session, told) in &ledger.sessions {
        if told.created && join.is_poisoned(session).map_err(failed("looking at a log"))? {
            join.repair(session).map_err(failed("repairing a closed log"))?;
        }
    }
    for session in ledger.counted.keys() {
        match join.is_poisoned(session) {
            Ok(true) => drop(join.repair(session).map_err(failed("repairing a closed log"))?),
            // It may not be there.
            Ok(false) | Err(duolog_join::Error::NoSession(_) | duolog_join::Error::Deleted(_)) => {}
            Err(error) => return Err(failed("looking at a log")(error)),
        }
    }
    Ok(())
}

fn check_session(join: &Join, crashed: &Crashed<'_>, session: &SessionId, told: &Told) -> Held {
    let found = join.state().read(|tx| sessions::find(tx, session)).map_err(failed("reading a session"))?;
    let Some(row) = found else {
        hold!(!told.created, "session {session} is gone");
        return Ok(());
    };
    // Its log is mended by now, or at its first append; the lines are what counts either way.
    let bytes = crashed.disk.read(&row.log_path).unwrap_or_default();
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let lines: Vec<String> = bytes[..whole]
        .split_inclusive(|b| *b == b'\n')
        .map(|l| String::from_utf8_lossy(&l[..l.len() - 1]).into_owned())
        .collect();
    let cut = !told.tampered.is_empty();
    for line in &lines {
        let good = check_line(line.as_bytes(), usize::MAX).is_ok();
        hold!(good || cut, "a torn or fused line in {session}: {line:?}");
    }
    check_events(crashed, session, told, &lines)?;
    check_renames(session, told, row.name.as_deref(), &lines)?;
    check_seen(crashed, session, told, &bytes)?;
    check_removed(crashed, session, &row.log_path)?;
    let losses = join.state().read(|tx| repairs::list(tx, Some(session), 100)).map_err(failed("reading repairs"))?;
    let losses: Vec<_> = losses.iter().filter(|row| row.repair.action.is_loss()).collect();
    if cut {
        let gone = told
            .events
            .iter()
            .any(|e| e.acknowledged.is_some() && told.tampered.contains(&e.line) && !lines.contains(&e.line));
        let known = crashed.memory == Memory::Whole && before_tampering_was_known(told);
        hold!(!gone || !losses.is_empty() || !known, "acknowledged lines of {session} vanished and nothing says so");
    } else {
        hold!(losses.is_empty(), "a loss is on record for {session}, which nobody touched: {losses:?}");
        let verified = join.verify(session, |_, _| {}).map_err(failed("verifying"))?;
        hold!(verified.damaged == 0 && verified.unsynced == 0, "{session} does not verify: {verified:?}");
    }
    Ok(())
}

/// Whether a process had reason to know the lines that were taken by hand: it was told of them afterwards.
fn before_tampering_was_known(told: &Told) -> bool {
    let after = told.events.iter().rposition(|event| told.tampered.contains(&event.line)).map_or(0, |at| at + 1);
    told.events[after..].iter().any(|event| event.acknowledged.is_some())
}

fn check_events(crashed: &Crashed<'_>, session: &SessionId, told: &Told, lines: &[String]) -> Held {
    let mut at = BTreeMap::new();
    for (number, line) in lines.iter().enumerate() {
        let ours = told.planted.contains(line);
        hold!(at.insert(line, number).is_none() || ours, "a line stands twice in {session}: {line}");
    }
    let mut last = None;
    for event in &told.events {
        let must = event.acknowledged.is_some_and(|durability| durability >= crashed.survived);
        match at.get(&event.line) {
            None => {
                let taken = told.tampered.contains(&event.line);
                hold!(!must || taken, "an acknowledged line of {session} is gone: {}", event.line);
            }
            Some(number) => {
                hold!(last < Some(*number), "lines of {session} are out of order at {}", event.line);
                last = Some(*number);
            }
        }
    }
    for operation in &told.operations {
        let must = operation.acknowledged.is_some_and(|(durability, _)| durability >= crashed.survived);
        let standing = operation.lines.iter().filter(|line| at.contains_key(line)).count();
        hold!(!must || standing == operation.lines.len(), "operation {} of {session} is gone", operation.id);
    }
    for line in lines {
        let known = told.events.iter().any(|event| event.line == *line)
            || told.operations.iter().any(|operation| operation.lines.contains(line))
            || told.planted.contains(line)
            || line.contains("\"duolog.renamed\"")
            || (!told.tampered.is_empty() && check_line(line.as_bytes(), usize::MAX).is_err());
        hold!(known, "an invented line in {session}: {line}");
    }
    Ok(())
}

/// The state names the last acknowledged transition or one later attempted one, and the log tells of each once.
fn check_renames(session: &SessionId, told: &Told, name: Option<&str>, lines: &[String]) -> Held {
    let acknowledged = told.renames.iter().rposition(|rename| rename.acknowledged);
    let current = told.renames.iter().position(|rename| Some(rename.name.as_str()) == name);
    hold!(current >= acknowledged, "{session} is called {name:?}, older than what was acknowledged");
    for (number, rename) in told.renames.iter().enumerate() {
        let needle = format!("\"name\":\"{}\"", rename.name);
        let count = lines.iter().filter(|line| line.contains("\"duolog.renamed\"") && line.contains(&needle)).count();
        // One that failed may have committed or not, where a later one followed it.
        let expected = match current {
            Some(current) if number == current => 1..=1,
            Some(current) if number < current => usize::from(rename.acknowledged)..=1,
            _ => 0..=0,
        };
        hold!(expected.contains(&count), "the log of {session} tells {count} times of {}", rename.name);
    }
    Ok(())
}

/// What a follower was given still stands where it stood, and it was given it once.
fn check_seen(crashed: &Crashed<'_>, session: &SessionId, told: &Told, bytes: &[u8]) -> Held {
    hold!(told.seen_twice.is_empty(), "a follower of {session} was given lines twice: {:?}", told.seen_twice);
    for ((epoch, start), line) in &told.seen {
        hold!(
            check_line(line.as_bytes(), usize::MAX).is_ok() || !told.tampered.is_empty(),
            "a follower of {session} was given a torn line: {line:?}"
        );
        // Lines that were not synced may go with the power; a file that was changed by hand has other epochs.
        if crashed.survived == Durability::Power || !told.tampered.is_empty() || epoch.0 > 0 {
            continue;
        }
        let from = usize::try_from(start.0).unwrap_or(usize::MAX);
        let there = bytes.get(from..from + line.len()).is_some_and(|there| there == line.as_bytes());
        hold!(there, "a follower of {session} was given bytes that are gone: {line:?} at {start}");
    }
    Ok(())
}

/// Whatever recovery took out of a log is in the file beside it.
fn check_removed(crashed: &Crashed<'_>, session: &SessionId, log_path: &str) -> Held {
    let Some(before) = crashed.before.read(log_path) else { return Ok(()) };
    let after = crashed.disk.read(log_path).unwrap_or_default();
    let whole = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    if after.starts_with(&before) {
        return Ok(());
    }
    hold!(after.starts_with(&before[..whole]), "recovery changed whole lines of {session}");
    let disk: Arc<dyn duolog_log::Disk> = crashed.disk.as_disk();
    let records = duolog_log::torn_records(&disk, Path::new(log_path)).map_err(failed("reading torn bytes"))?;
    let torn = &before[whole..];
    let hash = blake3::hash(torn).to_hex().to_string();
    let kept = records
        .iter()
        .any(|record| record.blake3 == hash && record.len == torn.len() as u64 && record.position == whole as u64);
    hold!(kept, "bytes that recovery took out of {session} are not beside it: {torn:?}");
    Ok(())
}

/// The next append, the next transition and every retried operation go through, once.
fn go_on(join: &Join, crashed: &Crashed<'_>) -> Held {
    for (session, told) in crashed.ledger.sessions.iter().filter(|(_, told)| told.created) {
        let how = Append { durability: Durability::Power, if_position: None };
        for operation in &told.operations {
            let batch = batch_of(&operation.lines);
            let again =
                join.append_once(session, &operation.id, &batch, &how).map_err(failed("retrying an operation"))?;
            if let Some((durability, end)) = operation.acknowledged
                && durability >= crashed.survived
            {
                hold!(again.end == end, "operation {} answers {} and said {end}", operation.id, again.end);
            }
        }
        let probe = vec!["{\"probe\":1}".to_owned()];
        let appended = join.append(session, &batch_of(&probe), &how);
        // A log that was changed by hand says so once, and then goes on.
        let appended = match appended {
            Err(duolog_join::Error::LogChanged { .. }) if !told.tampered.is_empty() => {
                join.append(session, &batch_of(&probe), &how)
            }
            other => other,
        };
        appended.map_err(failed("the next append"))?;
        rename(join, session, &format!("probe-{session}"), join.clock().now())
            .map_err(failed("the next transition"))?;
        let row = join.state().read(|tx| sessions::find(tx, session)).map_err(failed("reading a session"))?;
        let path = row.map(|row| row.log_path).unwrap_or_default();
        let text = String::from_utf8_lossy(&crashed.disk.read(&path).unwrap_or_default()).into_owned();
        for line in told.operations.iter().flat_map(|operation| &operation.lines).chain(&probe) {
            let count = text.lines().filter(|there| there == line).count();
            hold!(count == 1, "after going on, {line} stands {count} times in {session}");
        }
        let mode = crashed.disk.mode(&path);
        hold!(mode == Some(0o600), "the log of {session} has mode {mode:?}");
        let renamed = format!("\"name\":\"probe-{session}\"");
        let count = text.lines().filter(|there| there.contains(&renamed)).count();
        hold!(count == 1, "after going on, the line about the next transition stands {count} times in {session}");
        // The line is in the log when the call returns; its row goes with the next sync.
        join.drain(session).map_err(failed("draining the outbox"))?;
        let waiting = join.state().read(outbox::count).map_err(failed("reading the outbox"))?;
        hold!(waiting == 0, "{waiting} lines wait in the outbox");
    }
    Ok(())
}

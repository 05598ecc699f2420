//! The invariants that must hold after a crash.

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

use super::equal_lines::check_counted;
use super::ledger::{Ledger, SessionRecord};
use super::script::{batch_of, rename};
use super::world::World;
use crate::disk::SimDisk;

/// A violated invariant, as text.
#[derive(Clone, Debug)]
pub struct Broken(pub String);

macro_rules! hold {
    ($condition:expr, $($what:tt)+) => {
        if !$condition {
            return Err(Broken(format!($($what)+)));
        }
    };
}

type CheckResult<T = ()> = Result<T, Broken>;

/// What processes could still know of a log when it was changed by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// The writers lived and the state is complete: every loss must be detected.
    Complete,
    /// A writer died before its lines were folded, or rows were lost with the power: only the loss of a known line is.
    Partial,
}

/// A crash to check.
pub(crate) struct Crashed<'c> {
    pub(crate) disk: SimDisk,
    /// The disk as the crash left it; recovery changes the other.
    pub(crate) before: SimDisk,
    /// What processes could still know.
    pub(crate) memory: Memory,
    /// The directory of the database that survived.
    pub(crate) dir: &'c Path,
    pub(crate) home: HomeId,
    /// The acknowledgements that must have survived: all, or those that are durable against power loss.
    pub(crate) survived: Durability,
    pub(crate) ledger: &'c Ledger,
}

/// Recovers and checks all invariants.
pub(crate) fn check(crashed: &Crashed<'_>) -> CheckResult {
    let mut world = World::at(crashed.dir, crashed.home);
    if crashed.survived == Durability::Power {
        world.boot.push_str("-and-another");
    }
    let join = open(&world, &crashed.disk)?;
    repair_closed_logs(&join, crashed.ledger)?;
    join.catch_up(u64::MAX).map_err(failed("catching up"))?;
    let before = derived_rows(&join)?;
    for (session, record) in &crashed.ledger.sessions {
        check_session(&join, crashed, session, record)?;
    }
    // Derived rows are equal to the fold of the log (I3).
    let rebuilding = join.rebuild(|_| {}).map_err(failed("rebuilding"))?;
    hold!(rebuilding.failed.is_empty(), "logs that cannot be folded: {:?}", rebuilding.failed);
    let rebuilt = derived_rows(&join)?;
    hold!(before == rebuilt, "derived rows differ from the fold of the log:\n{before:?}\n{rebuilt:?}");
    let findings = join.state().integrity().map_err(failed("checking integrity"))?;
    hold!(findings.is_empty(), "the database is damaged: {findings:?}");
    let waiting = join.state().read(outbox::count).map_err(failed("reading the outbox"))?;
    hold!(waiting == 0, "{waiting} lines are pending in the outbox after recovery");
    drop(join);

    // A second recovery changes no byte.
    let files = logs_of(&crashed.disk);
    let again = open(&world, &crashed.disk)?;
    again.catch_up(u64::MAX).map_err(failed("catching up again"))?;
    hold!(logs_of(&crashed.disk) == files, "a second recovery changed a file");
    let rows = derived_rows(&again)?;
    hold!(rows == rebuilt, "a second recovery changed derived rows");
    check_next_writes(&again, crashed)?;
    check_counted(&again, crashed)
}

/// Every derived row.
pub(super) type DerivedRows = (Vec<CatalogRow>, Vec<DigestRow>, Vec<UsageRow>, Vec<(u64, Owner)>);

fn derived_rows(join: &Join) -> CheckResult<DerivedRows> {
    join.state().read(dump).map_err(failed("reading derived rows"))
}

/// Reads every derived row.
pub(super) fn dump(tx: &mut Tx<'_>) -> duolog_state::Result<DerivedRows> {
    Ok((catalog::dump(tx)?, digests::dump(tx)?, usage_by_quarter::dump(tx)?, responses::dump(tx)?))
}

fn open(world: &World, disk: &SimDisk) -> CheckResult<Arc<Join>> {
    world.open(&disk.process()).map_err(failed("opening"))
}

fn failed<E: std::fmt::Display>(what: &str) -> impl Fn(E) -> Broken {
    let what = what.to_owned();
    move |error| Broken(format!("{what} failed: {error}"))
}

/// Returns every file except those that exist only while a process runs.
fn logs_of(disk: &SimDisk) -> BTreeMap<std::path::PathBuf, Vec<u8>> {
    disk.snapshot().into_iter().filter(|(path, _)| !path.starts_with("processes")).collect()
}

/// A disk error closes a log on purpose; the operator opens it again with a repair.
fn repair_closed_logs(join: &Join, ledger: &Ledger) -> CheckResult {
    for (session, record) in &ledger.sessions {
        if record.created && join.is_poisoned(session).map_err(failed("looking at a log"))? {
            join.repair(session).map_err(failed("repairing a closed log"))?;
        }
    }
    for session in ledger.counted.keys() {
        match join.is_poisoned(session) {
            Ok(true) => drop(join.repair(session).map_err(failed("repairing a closed log"))?),
            // The session may not exist.
            Ok(false) | Err(duolog_join::Error::NoSession(_) | duolog_join::Error::Deleted(_)) => {}
            Err(error) => return Err(failed("looking at a log")(error)),
        }
    }
    Ok(())
}

fn check_session(join: &Join, crashed: &Crashed<'_>, session: &SessionId, record: &SessionRecord) -> CheckResult {
    let found = join.state().read(|tx| sessions::find(tx, session)).map_err(failed("reading a session"))?;
    let Some(row) = found else {
        hold!(!record.created, "session {session} is missing");
        return Ok(());
    };
    // The log is recovered by now, or at its first append; only complete lines are checked.
    let bytes = crashed.disk.read(&row.log_path).unwrap_or_default();
    let complete_len = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let lines: Vec<String> = bytes[..complete_len]
        .split_inclusive(|b| *b == b'\n')
        .map(|l| String::from_utf8_lossy(&l[..l.len() - 1]).into_owned())
        .collect();
    let cut = !record.tampered.is_empty();
    for line in &lines {
        let good = check_line(line.as_bytes(), usize::MAX).is_ok();
        hold!(good || cut, "a torn or fused line in {session}: {line:?}");
    }
    check_events(crashed, session, record, &lines)?;
    check_renames(session, record, row.name.as_deref(), &lines)?;
    check_seen(crashed, session, record, &bytes)?;
    check_removed(crashed, session, &row.log_path)?;
    let losses = join.state().read(|tx| repairs::list(tx, Some(session), 100)).map_err(failed("reading repairs"))?;
    let losses: Vec<_> = losses.iter().filter(|row| row.repair.action.is_loss()).collect();
    if cut {
        let gone = record
            .events
            .iter()
            .any(|e| e.acknowledged.is_some() && record.tampered.contains(&e.line) && !lines.contains(&e.line));
        let known = crashed.memory == Memory::Complete && before_tampering_was_known(record);
        hold!(!gone || !losses.is_empty() || !known, "lost lines of {session} are not recorded as a loss");
    } else {
        hold!(losses.is_empty(), "a loss is recorded for {session}, whose log was not changed: {losses:?}");
        let verified = join.verify(session, |_, _| {}).map_err(failed("verifying"))?;
        hold!(verified.damaged == 0 && verified.unsynced == 0, "{session} does not verify: {verified:?}");
    }
    Ok(())
}

/// Returns true if a line was acknowledged after those that were removed by hand: a process knew their end then.
fn before_tampering_was_known(record: &SessionRecord) -> bool {
    let after = record.events.iter().rposition(|event| record.tampered.contains(&event.line)).map_or(0, |at| at + 1);
    record.events[after..].iter().any(|event| event.acknowledged.is_some())
}

fn check_events(crashed: &Crashed<'_>, session: &SessionId, record: &SessionRecord, lines: &[String]) -> CheckResult {
    let mut at = BTreeMap::new();
    for (number, line) in lines.iter().enumerate() {
        let ours = record.planted.contains(line);
        hold!(at.insert(line, number).is_none() || ours, "a line is twice in {session}: {line}");
    }
    let mut last = None;
    for event in &record.events {
        let must = event.acknowledged.is_some_and(|durability| durability >= crashed.survived);
        match at.get(&event.line) {
            None => {
                let taken = record.tampered.contains(&event.line);
                hold!(!must || taken, "an acknowledged line of {session} is missing: {}", event.line);
            }
            Some(number) => {
                hold!(last < Some(*number), "lines of {session} are out of order at {}", event.line);
                last = Some(*number);
            }
        }
    }
    for operation in &record.operations {
        let must = operation.acknowledged.is_some_and(|(durability, _)| durability >= crashed.survived);
        let found = operation.lines.iter().filter(|line| at.contains_key(line)).count();
        hold!(!must || found == operation.lines.len(), "operation {} of {session} is missing", operation.id);
    }
    for line in lines {
        let known = record.events.iter().any(|event| event.line == *line)
            || record.operations.iter().any(|operation| operation.lines.contains(line))
            || record.planted.contains(line)
            || line.contains("\"duolog.renamed\"")
            || (!record.tampered.is_empty() && check_line(line.as_bytes(), usize::MAX).is_err());
        hold!(known, "a line of {session} was never appended: {line}");
    }
    Ok(())
}

/// The state holds the last acknowledged name or one attempted later, and the log has one line for each rename.
fn check_renames(session: &SessionId, record: &SessionRecord, name: Option<&str>, lines: &[String]) -> CheckResult {
    let acknowledged = record.renames.iter().rposition(|rename| rename.acknowledged);
    let current = record.renames.iter().position(|rename| Some(rename.name.as_str()) == name);
    hold!(current >= acknowledged, "the name of {session} is {name:?}, older than the last acknowledged one");
    for (number, rename) in record.renames.iter().enumerate() {
        let needle = format!("\"name\":\"{}\"", rename.name);
        let count = lines.iter().filter(|line| line.contains("\"duolog.renamed\"") && line.contains(&needle)).count();
        // A failed rename that a later one followed may have committed or not.
        let expected = match current {
            Some(current) if number == current => 1..=1,
            Some(current) if number < current => usize::from(rename.acknowledged)..=1,
            _ => 0..=0,
        };
        hold!(expected.contains(&count), "the log of {session} has {count} lines for the rename to {}", rename.name);
    }
    Ok(())
}

/// Every line that a follower received is still at its position, and was received once.
fn check_seen(crashed: &Crashed<'_>, session: &SessionId, record: &SessionRecord, bytes: &[u8]) -> CheckResult {
    hold!(record.seen_twice.is_empty(), "a follower of {session} received lines twice: {:?}", record.seen_twice);
    for ((epoch, start), line) in &record.seen {
        hold!(
            check_line(line.as_bytes(), usize::MAX).is_ok() || !record.tampered.is_empty(),
            "a follower of {session} received a torn line: {line:?}"
        );
        // Unsynced lines may be lost with the power; a file that was changed by hand has other epochs.
        if crashed.survived == Durability::Power || !record.tampered.is_empty() || epoch.0 > 0 {
            continue;
        }
        let from = usize::try_from(start.0).unwrap_or(usize::MAX);
        let there = bytes.get(from..from + line.len()).is_some_and(|there| there == line.as_bytes());
        hold!(there, "a follower of {session} received bytes that are missing now: {line:?} at {start}");
    }
    Ok(())
}

/// Every byte that recovery removed from a log is in the file of torn bytes.
fn check_removed(crashed: &Crashed<'_>, session: &SessionId, log_path: &str) -> CheckResult {
    let Some(before) = crashed.before.read(log_path) else { return Ok(()) };
    let after = crashed.disk.read(log_path).unwrap_or_default();
    let complete_len = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    if after.starts_with(&before) {
        return Ok(());
    }
    hold!(after.starts_with(&before[..complete_len]), "recovery changed complete lines of {session}");
    let disk: Arc<dyn duolog_log::Disk> = crashed.disk.as_disk();
    let records = duolog_log::torn_records(&disk, Path::new(log_path)).map_err(failed("reading torn bytes"))?;
    let torn = &before[complete_len..];
    let hash = blake3::hash(torn).to_hex().to_string();
    let kept = records.iter().any(|record| {
        record.blake3 == hash && record.len == torn.len() as u64 && record.position == complete_len as u64
    });
    hold!(kept, "bytes that recovery removed from {session} were not kept: {torn:?}");
    Ok(())
}

/// The next append, the next rename and the retry of every operation succeed, once.
fn check_next_writes(join: &Join, crashed: &Crashed<'_>) -> CheckResult {
    for (session, record) in crashed.ledger.sessions.iter().filter(|(_, record)| record.created) {
        let how = Append { durability: Durability::Power, if_position: None };
        for operation in &record.operations {
            let batch = batch_of(&operation.lines);
            let again =
                join.append_once(session, &operation.id, &batch, &how).map_err(failed("retrying an operation"))?;
            if let Some((durability, end)) = operation.acknowledged
                && durability >= crashed.survived
            {
                hold!(again.end == end, "operation {} ends at {}, acknowledged at {end}", operation.id, again.end);
            }
        }
        let probe = vec!["{\"probe\":1}".to_owned()];
        let appended = join.append(session, &batch_of(&probe), &how);
        // A log that was changed by hand reports it once; the next append succeeds.
        let appended = match appended {
            Err(duolog_join::Error::LogChanged { .. }) if !record.tampered.is_empty() => {
                join.append(session, &batch_of(&probe), &how)
            }
            other => other,
        };
        appended.map_err(failed("the next append"))?;
        rename(join, session, &format!("probe-{session}"), join.clock().now()).map_err(failed("the next rename"))?;
        let row = join.state().read(|tx| sessions::find(tx, session)).map_err(failed("reading a session"))?;
        let path = row.map(|row| row.log_path).unwrap_or_default();
        let text = String::from_utf8_lossy(&crashed.disk.read(&path).unwrap_or_default()).into_owned();
        for line in record.operations.iter().flat_map(|operation| &operation.lines).chain(&probe) {
            let count = text.lines().filter(|there| there == line).count();
            hold!(count == 1, "after the next append, {line} is {count} times in {session}");
        }
        let mode = crashed.disk.mode(&path);
        hold!(mode == Some(0o600), "the log of {session} has mode {mode:?}");
        let renamed = format!("\"name\":\"probe-{session}\"");
        let count = text.lines().filter(|there| there.contains(&renamed)).count();
        hold!(count == 1, "after the next rename, its line is {count} times in {session}");
        // The line is in the log when the call returns; its outbox row is removed with the next sync.
        join.drain(session).map_err(failed("draining the outbox"))?;
        let waiting = join.state().read(outbox::count).map_err(failed("reading the outbox"))?;
        hold!(waiting == 0, "{waiting} lines are pending in the outbox");
    }
    Ok(())
}

//! The checks, one function each.

use std::collections::BTreeSet;

use duolog_join::ProcessState;
use duolog_log::LogIdentity;
use duolog_state::Address;
use duolog_state::owned::repairs::RepairAction;
use duolog_state::owned::sessions::{self, SessionFilter, SessionSummaryRow};
use duolog_state::owned::{behind, outbox, repairs};
use duolog_state::{Page, PageOrder};
use duolog_types::SessionId;

use super::model::{Check, Depth, Status};
use crate::Wait;
use crate::error::{Error, NotFound, Result};
use crate::schedules::Schedule;
use crate::search::IndexStatus;
use crate::state::risk_of;
use crate::store::Store;

type CheckFn = fn(&Look<'_>) -> Result<Check>;

/// The store to examine, and the depth.
pub(super) struct Look<'s> {
    pub(super) store: &'s Store,
    pub(super) depth: Depth,
}

/// The logs that a quick examination reads: the most recently changed, up to this number and this many bytes.
const SAMPLE_LOGS: u32 = 50;
const SAMPLE_BYTES: u64 = 32 << 20;
/// The largest database file whose pages a quick examination checks.
const DATABASE_BYTES: u64 = 32 << 20;

/// The number of sessions, marks or rows that a finding lists by name.
const NAMED_MAX: usize = 3;
const ROWS_MAX: u32 = 10_000;
/// The number of consecutive failures of a schedule that is reported.
const FAILURES_REPORTED: u32 = 3;
/// The number of bytes of the reason that are shown.
const WHY_BYTES: usize = 200;

/// Every check, with the least depth that runs it.
pub(super) const ALL: &[(&str, Depth, CheckFn)] = &[
    ("file system", Depth::Quick, file_system),
    ("engine", Depth::Quick, engine),
    ("schema", Depth::Quick, schema),
    ("database", Depth::Quick, database),
    // The catalog check folds first, which repairs what dead writers left, so that the log checks report only what
    // needs attention.
    ("catalog", Depth::Quick, catalog),
    ("logs", Depth::Quick, logs),
    ("files", Depth::Deep, files),
    ("repairs", Depth::Quick, repairs_on_record),
    ("outbox", Depth::Quick, outbox_waiting),
    ("marks", Depth::Quick, marks),
    ("locks", Depth::Quick, locks),
    ("index", Depth::Deep, index),
    ("schedules", Depth::Quick, schedules),
];

fn ok(name: &'static str, detail: impl Into<String>) -> Check {
    Check { name, status: Status::Ok, detail: detail.into(), hint: None }
}

fn warning(name: &'static str, detail: String, hint: &str) -> Check {
    Check { name, status: Status::Warning, detail, hint: Some(hint.to_owned()) }
}

fn damaged(name: &'static str, detail: String, hint: &str) -> Check {
    Check { name, status: Status::Damaged, detail, hint: Some(hint.to_owned()) }
}

/// Returns a count with its noun: `1 log`, `2 logs`.
fn things(number: impl Into<u64>, thing: &str) -> String {
    let number = number.into();
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

fn naming(ids: &[String]) -> String {
    let named = ids[..ids.len().min(NAMED_MAX)].join(", ");
    if ids.len() > NAMED_MAX { format!("{named} and {} more", ids.len() - NAMED_MAX) } else { named }
}

/// Checks the file system of the logs, and that of the database if it is a file elsewhere.
fn file_system(look: &Look<'_>) -> Result<Check> {
    let store = look.store;
    let mut places = vec![store.core.home.state.as_path()];
    if let Address::Directory(directory) = store.join.state().address()
        && *directory != store.core.home.state
    {
        places.push(directory);
    }
    let (mut seen, mut dangers) = (Vec::new(), Vec::new());
    for place in places {
        let kind = duolog_state::file_system_of(place)?;
        seen.push(format!("{} is on {}", place.display(), kind.name));
        dangers.extend(kind.danger.map(|danger| format!("{} is on {danger}", place.display())));
    }
    Ok(if dangers.is_empty() {
        ok("file system", seen.join(", "))
    } else if is_on_server(store) {
        let detail = format!("{}, where locks between machines are not reliable", dangers.join(", "));
        warning("file system", detail, "use the home from one machine only, or put it on a local disk")
    } else {
        warning("file system", dangers.join(", "), "put the home on a local disk")
    })
}

/// Checks the database engine and its settings for durability.
fn engine(look: &Look<'_>) -> Result<Check> {
    let store = look.store;
    let figures = store.join.state().engine_stats()?;
    let detail = format!("{} at {}", figures.engine, store.place());
    if figures.unsafe_settings.is_empty() {
        return Ok(ok("engine", detail));
    }
    let told = figures.unsafe_settings.iter().map(|(name, value)| format!("{name} is {value}: {}", risk_of(name)));
    let detail = format!("{detail}; {}", told.collect::<Vec<_>>().join("; "));
    Ok(warning("engine", detail, "set it to on (ALTER SYSTEM, ALTER DATABASE or ALTER ROLE) and reload the server"))
}

#[allow(clippy::unnecessary_wraps, reason = "every check has the same signature")]
fn schema(look: &Look<'_>) -> Result<Check> {
    let store = look.store;
    let version = store.state().version();
    let detail = format!("version {} of {}", version.version, version.known);
    Ok(if version.version == version.known {
        ok("schema", detail)
    } else {
        warning("schema", detail, "duolog state migrate")
    })
}

fn database(look: &Look<'_>) -> Result<Check> {
    let store = look.store;
    let bytes = store.join.state().engine_stats()?.bytes;
    if look.depth == Depth::Quick && bytes > DATABASE_BYTES && !is_on_server(store) {
        return Ok(ok("database", format!("opens; use --deep to check its {} MiB", bytes >> 20)));
    }
    let findings = store.join.state().integrity()?;
    Ok(match (findings.as_slice(), is_on_server(store)) {
        ([], false) => ok("database", "integrity and foreign keys hold"),
        ([], true) if has_checksums(store)? => ok("database", "every index is valid, and no page failed its checksum"),
        ([], true) => {
            ok("database", "every index is valid; pages are not checked because the server's data_checksums is off")
        }
        (findings, false) => {
            damaged("database", naming(findings), "restore state.db from a backup (duolog state backup)")
        }
        (findings, true) => {
            let hint = "REINDEX repairs an index; for damaged pages, restore the database from a copy (pg_dump)";
            damaged("database", naming(findings), hint)
        }
    })
}

/// Checks every line and every seal of the logs.
fn logs(look: &Look<'_>) -> Result<Check> {
    let store = look.store;
    let (mut count, mut events, mut torn) = (0_u64, 0_u64, 0_u64);
    let (mut bad, mut lost, mut busy) = (Vec::new(), Vec::new(), Vec::new());
    look.each_session(|session| {
        // Opening a busy log would wait for its lock; it is reported as busy instead.
        if let Some(holder) = store.join.log_holder(session)? {
            busy.push(format!("{session} ({})", by(holder)));
            return Ok(());
        }
        let verified = match store.join.verify(session, |_, _| {}) {
            Ok(verified) => verified,
            Err(error) => {
                bad.push(format!("{session} ({error})"));
                return Ok(());
            }
        };
        count += 1;
        events += verified.events;
        torn += u64::from(verified.torn_bytes > 0);
        if verified.damaged > 0 {
            bad.push(format!("{session} ({})", things(verified.damaged, "place")));
        }
        if verified.blobs_lost > 0 {
            bad.push(format!("{session} ({} missing or damaged)", things(verified.blobs_lost, "blob")));
        }
        if verified.unsynced > 0 {
            lost.push(format!("{session} ({})", things(verified.unsynced, "line")));
        }
        if store.join.is_poisoned(session)? {
            bad.push(format!("{session} (closed to appends)"));
        }
        Ok(())
    })?;
    let read = match look.depth {
        Depth::Deep => things(count, "log"),
        Depth::Quick => format!("{} that changed last", things(count, "log")),
    };
    let detail = format!("{read}, {}, {torn} with a torn tail", things(events, "event"));
    Ok(if !bad.is_empty() {
        damaged("logs", format!("{detail}; damaged: {}", naming(&bad)), "run: duolog log verify --all")
    } else if !lost.is_empty() {
        let detail = format!("{detail}; lines that a power loss removed before they were synced: {}", naming(&lost));
        warning("logs", detail, "run: duolog log verify --all; readers skip these lines")
    } else if !busy.is_empty() {
        warning("logs", format!("{detail}; in use and not checked: {}", naming(&busy)), "run doctor again")
    } else if torn > 0 {
        warning("logs", detail, "the next append repairs a torn tail, as does duolog log repair --session ID")
    } else {
        ok("logs", detail)
    })
}

/// Checks that derived rows match the logs.
fn catalog(look: &Look<'_>) -> Result<Check> {
    let store = look.store;
    let behind = match look.depth {
        Depth::Quick => store.catch_up_within(Wait::Briefly)?,
        Depth::Deep => store.join.catch_up(store.join.limits().fold_before_read_bytes)?,
    };
    let mut other = Vec::new();
    look.each_session(|session| {
        if store.join.standing_of(session)? != LogIdentity::Same {
            other.push(session.to_string());
        }
        Ok(())
    })?;
    Ok(if !other.is_empty() {
        damaged("catalog", format!("logs that differ from their rows: {}", naming(&other)), "duolog state rebuild")
    } else if behind.sessions_behind > 0 {
        let detail = format!(
            "{} behind by {} or more",
            things(behind.sessions_behind, "session"),
            things(behind.bytes_behind, "byte")
        );
        warning("catalog", detail, "duolog state rebuild brings all of them up to date")
    } else {
        ok(
            "catalog",
            if look.depth == Depth::Deep { "up to date with every log" } else { "up to date with every marked log" },
        )
    })
}

/// Checks for logs without a session.
fn files(look: &Look<'_>) -> Result<Check> {
    let store = look.store;
    let mut known = BTreeSet::new();
    look.each_session(|session| {
        known.insert(store.sessions().get(session)?.log_path);
        Ok(())
    })?;
    let stray: Vec<String> = store.join.log_files()?.into_iter().filter(|path| !known.contains(path)).collect();
    let mut drafts = Vec::new();
    for path in &stray {
        if store.join.is_draft(path)? {
            drafts.push(path.clone());
        }
    }
    Ok(if stray.is_empty() {
        ok("files", "every log belongs to a session")
    } else if drafts.len() == stray.len() {
        warning(
            "files",
            format!("logs that an interrupted import left: {}", naming(&drafts)),
            "run the import again, or remove the files: no session uses their lines",
        )
    } else {
        warning(
            "files",
            format!("logs without a session: {}", naming(&stray)),
            "append their lines to a session, or move them away",
        )
    })
}

fn repairs_on_record(look: &Look<'_>) -> Result<Check> {
    let store = look.store;
    let home = store.join.home();
    let (mut rows, lost) = store.join.state().read(|tx| {
        let rows = (repairs::list(tx, None, ROWS_MAX)?, repairs::losses_of_home(tx, &home, ROWS_MAX)?);
        Ok::<_, crate::Error>(rows)
    })?;
    // Repairs of other homes are reported there. A deleted log has no loss.
    rows.retain(|row| row.repair.home_id == home && !row.repair.action.is_loss());
    let mended = rows.iter().filter(|row| row.repair.action.is_torn_tail()).count() as u64;
    let rewritten = rows.iter().filter(|row| row.repair.action == RepairAction::Rewritten).count() as u64;
    let deleted = rows.iter().filter(|row| row.repair.action == RepairAction::Deleted).count() as u64;
    Ok(if !lost.is_empty() {
        let told: Vec<String> =
            lost.iter().map(|row| format!("{} {}", row.repair.session_id, row.repair.action.as_str())).collect();
        warning(
            "repairs",
            format!("recorded bytes were lost: {}", naming(&told)),
            "restore the log from a backup if you need them",
        )
    } else if rows.is_empty() {
        ok("repairs", "none on record")
    } else {
        let told = [
            (mended, "torn tail", "repaired (the removed bytes are in .torn files)"),
            (rewritten, "log", "copied into a new file after a disk error"),
            (deleted, "log", "deleted"),
        ];
        let told = told.into_iter().filter(|(count, _, _)| *count > 0);
        let told: Vec<String> = told.map(|(count, what, done)| format!("{} {done}", things(count, what))).collect();
        ok("repairs", told.join(", "))
    })
}

fn outbox_waiting(look: &Look<'_>) -> Result<Check> {
    let store = look.store;
    let home = store.join.home();
    let waiting = store.join.state().read(|tx| outbox::waiting(tx, &home, ROWS_MAX))?;
    if waiting.is_empty() {
        return Ok(ok("outbox", "no line is waiting for its log"));
    }
    let told: Vec<String> =
        waiting.iter().map(|(session, lines)| format!("{session} ({})", things(*lines, "line"))).collect();
    Ok(warning("outbox", format!("lines are waiting for: {}", naming(&told)), "duolog log repair --session ID"))
}

fn marks(look: &Look<'_>) -> Result<Check> {
    let store = look.store;
    let home = store.join.home();
    let rows = store.join.state().read(|tx| behind::of_home(tx, &home, None, ROWS_MAX))?;
    let mut dead = Vec::new();
    for row in &rows {
        if store.join.process_state(row.process_id)? == ProcessState::Dead {
            dead.push(format!("{} (process {})", row.session_id, row.pid));
        }
    }
    Ok(if dead.is_empty() {
        ok(
            "marks",
            match rows.len() {
                1 => "1 session is being written".to_owned(),
                number => format!("{number} sessions are being written"),
            },
        )
    } else {
        warning(
            "marks",
            format!("left by processes that ended: {}", naming(&dead)),
            "duolog log repair --session ID shows what is wrong",
        )
    })
}

/// Checks for locks on the state or a log that are held longer than a write takes.
fn locks(look: &Look<'_>) -> Result<Check> {
    let store = look.store;
    let mut held = Vec::new();
    if let Some(pid) = store.join.state().lock_holder()?.filter(|pid| *pid != std::process::id()) {
        held.push(format!("the state ({})", by(Some(pid))));
    }
    look.each_session(|session| {
        if let Some(holder) = store.join.log_holder(session)? {
            held.push(format!("{session} ({})", by(holder)));
        }
        Ok(())
    })?;
    Ok(if held.is_empty() {
        // A server does not report writers, and several may write at the same time.
        ok("locks", if is_on_server(store) { "no log is locked" } else { "the state and the logs are not locked" })
    } else {
        warning("locks", format!("held: {}", naming(&held)), "if this persists, check what that process is doing")
    })
}

/// Checks the search index. It is derived data, so no content is lost with it.
#[allow(clippy::unnecessary_wraps, reason = "every check has the same signature")]
fn index(look: &Look<'_>) -> Result<Check> {
    let store = look.store;
    if !store.is_writable() {
        return Ok(ok("index", "not checked: this home is read-only and is searched without an index"));
    }
    Ok(match store.search().index_status() {
        IndexStatus::Absent => ok("index", "there is none yet; duolog log search creates it"),
        IndexStatus::Complete { sessions, texts, .. } => {
            ok("index", format!("whole, {} of {}", things(texts, "text"), things(sessions, "session")))
        }
        IndexStatus::Unusable(why) => warning("index", why, "duolog log search --rebuild rebuilds it"),
    })
}

/// Checks for enabled schedules that keep failing.
fn schedules(look: &Look<'_>) -> Result<Check> {
    let store = look.store;
    let list = store.schedules().list(store.join.clock().now())?.schedules;
    let failing: Vec<_> = list.iter().filter(|one| one.enabled.value && one.failures >= FAILURES_REPORTED).collect();
    let Some(first) = failing.first() else {
        let count = things(list.len() as u64, "schedule");
        let none = if list.is_empty() { "there are none".to_owned() } else { format!("{count}, none fails each time") };
        return Ok(ok("schedules", none));
    };
    let told = |one: &&Schedule| {
        let since = one.failing_since.map(|since| format!(", since {since}")).unwrap_or_default();
        let why = one.latest.as_ref().and_then(|latest| latest.error.as_deref());
        let why = why.map(|why| format!(": {}", &why[..why.floor_char_boundary(WHY_BYTES)])).unwrap_or_default();
        format!("{} failed {} times in a row{since}{why}", one.base.name, one.failures)
    };
    let detail = naming(&failing.iter().map(told).collect::<Vec<_>>());
    Ok(warning("schedules", detail, &format!("duolog schedules runs {:?} shows its history", first.base.name)))
}

fn has_checksums(store: &Store) -> Result<bool> {
    let settings = store.join.state().engine_stats()?.settings;
    Ok(settings.iter().any(|(name, value)| name == "data_checksums" && value == "on"))
}

fn is_on_server(store: &Store) -> bool {
    matches!(store.join.state().address(), Address::Server(_))
}

fn by(holder: Option<u32>) -> String {
    holder.map_or_else(|| "by another process".to_owned(), |pid| format!("by process {pid}"))
}

impl Look<'_> {
    /// Visits the sessions whose logs are in this home: all of them, or the most recently changed. A session that is
    /// deleted in the meantime is not a finding.
    fn each_session(&self, mut each: impl FnMut(&SessionId) -> Result<()>) -> Result<()> {
        let mut failed = None;
        let mut visit = |session: &SessionId| {
            if failed.is_none() {
                match each(session) {
                    Ok(()) | Err(Error::NotFound(NotFound::Session(_))) => {}
                    Err(error) => failed = Some(error),
                }
            }
            Ok(())
        };
        match self.depth {
            Depth::Deep => self.store.join.each_log(visit)?,
            Depth::Quick => self.sample()?.iter().try_for_each(&mut visit)?,
        }
        failed.map_or(Ok(()), Err)
    }

    fn sample(&self) -> Result<Vec<SessionId>> {
        let (home, state) = (self.store.join.home(), self.store.join.state());
        let page = Page::first(SAMPLE_LOGS, PageOrder::Updated);
        let mut rows = state.read(|tx| sessions::list(tx, &SessionFilter::default(), &page))?;
        rows.retain(|row| row.home_id == home);
        let mut bytes = 0;
        // The most recently changed log is read whatever its size.
        let within = |row: &&SessionSummaryRow| {
            let is_within = bytes < SAMPLE_BYTES;
            bytes += row.bytes.unwrap_or_default();
            is_within
        };
        Ok(rows.iter().take_while(within).map(|row| row.id.clone()).collect())
    }
}

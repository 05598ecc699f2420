//! The checks, one function each.

use std::collections::BTreeSet;

use duolog_join::ProcessState;
use duolog_log::Standing;
use duolog_state::Address;
use duolog_state::owned::repairs::RepairAction;
use duolog_state::owned::{behind, outbox, repairs};
use duolog_types::SessionId;

use super::model::{Check, Status};
use crate::error::{Error, Result};
use crate::schedules::Schedule;
use crate::search::IndexStanding;
use crate::sessions::PackStanding;
use crate::state::risk_of;
use crate::store::Store;

type CheckFn = fn(&Store) -> Result<Check>;

/// The sessions, marks or rows that a check names before it only counts.
const NAMED: usize = 3;
const LOOKED_AT: u32 = 10_000;
/// The failures one after another of a schedule that are told of.
const FAILURES_TOLD: u32 = 3;
/// The bytes of why that are told with it.
const WHY_BYTES: usize = 200;

pub(super) const ALL: &[(&str, CheckFn)] = &[
    ("file system", file_system),
    ("engine", engine),
    ("schema", schema),
    ("database", database),
    // Folding mends what dead writers left; what the logs look like after that is what a person can act on.
    ("catalog", catalog),
    ("logs", logs),
    ("files", files),
    ("repairs", repairs_on_record),
    ("outbox", outbox_waiting),
    ("marks", marks),
    ("locks", locks),
    ("index", index),
    ("schedules", schedules),
    ("vectors", vectors),
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

/// A number of things: `1 log`, `2 logs`.
fn things(number: impl Into<u64>, thing: &str) -> String {
    let number = number.into();
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

fn naming(ids: &[String]) -> String {
    let named = ids[..ids.len().min(NAMED)].join(", ");
    if ids.len() > NAMED { format!("{named} and {} more", ids.len() - NAMED) } else { named }
}

/// The file system under the logs, and under the database where that is a file of its own elsewhere.
fn file_system(store: &Store) -> Result<Check> {
    let mut places = vec![store.home.state.as_path()];
    if let Address::Directory(directory) = store.join.state().address()
        && *directory != store.home.state
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
        let detail = format!("{}, where locks between machines may not hold", dangers.join(", "));
        warning("file system", detail, "let one machine alone use the home, or put it on a local disk")
    } else {
        warning("file system", dangers.join(", "), "put the home on a local disk")
    })
}

/// What keeps the rows, and whether it keeps its word when its machine loses power.
fn engine(store: &Store) -> Result<Check> {
    let figures = store.join.state().stats()?.figures;
    let detail = format!("{} at {}", figures.engine, store.place());
    if figures.unsafe_settings.is_empty() {
        return Ok(ok("engine", detail));
    }
    let told = figures.unsafe_settings.iter().map(|(name, value)| format!("{name} is {value}: {}", risk_of(name)));
    let detail = format!("{detail}; {}", told.collect::<Vec<_>>().join("; "));
    Ok(warning("engine", detail, "set it to on (ALTER SYSTEM, ALTER DATABASE or ALTER ROLE), and reload the server"))
}

#[allow(clippy::unnecessary_wraps, reason = "every check has the same shape")]
fn schema(store: &Store) -> Result<Check> {
    let version = store.state().version();
    let detail = format!("version {} of {}", version.version, version.known);
    Ok(if version.version == version.known {
        ok("schema", detail)
    } else {
        warning("schema", detail, "duolog state migrate")
    })
}

fn database(store: &Store) -> Result<Check> {
    let findings = store.join.state().integrity()?;
    Ok(match (findings.as_slice(), is_on_server(store)) {
        ([], false) => ok("database", "integrity and foreign keys hold"),
        ([], true) if has_checksums(store)? => ok("database", "every index is valid, and no page failed its checksum"),
        ([], true) => {
            ok("database", "every index is valid; pages are not checked, as the server's data_checksums is off")
        }
        (findings, false) => {
            damaged("database", naming(findings), "restore state.db from a backup (duolog state backup)")
        }
        (findings, true) => {
            let hint = "REINDEX mends an index; for pages restore the database from a copy of it (pg_dump)";
            damaged("database", naming(findings), hint)
        }
    })
}

/// Every line and every seal of every log.
fn logs(store: &Store) -> Result<Check> {
    let (mut count, mut events, mut torn) = (0_u64, 0_u64, 0_u64);
    let (mut bad, mut lost, mut busy) = (Vec::new(), Vec::new(), Vec::new());
    each_session(store, |session| {
        // Whoever holds a log is asked about once more under locks; here nobody waits for long.
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
    let detail = format!("{}, {}, {torn} with a torn tail", things(count, "log"), things(events, "event"));
    Ok(if !bad.is_empty() {
        damaged("logs", format!("{detail}; damaged: {}", naming(&bad)), "duolog log verify --session ID shows where")
    } else if !lost.is_empty() {
        let detail = format!("{detail}; lines that power loss took before they were synced: {}", naming(&lost));
        warning("logs", detail, "duolog log verify --session ID shows where; readers skip these lines")
    } else if !busy.is_empty() {
        warning("logs", format!("{detail}; in use and not looked at: {}", naming(&busy)), "run doctor again")
    } else if torn > 0 {
        warning("logs", detail, "the next append mends a torn tail; so does duolog log repair --session ID")
    } else {
        ok("logs", detail)
    })
}

/// Whether derived rows tell of the logs that are there.
fn catalog(store: &Store) -> Result<Check> {
    let behind = store.join.catch_up(store.join.limits().fold_before_read_bytes)?;
    let mut other = Vec::new();
    each_session(store, |session| {
        if store.join.standing_of(session)? != Standing::Same {
            other.push(session.to_string());
        }
        Ok(())
    })?;
    Ok(if !other.is_empty() {
        damaged("catalog", format!("logs that are not what was folded: {}", naming(&other)), "duolog state rebuild")
    } else if behind.sessions_behind > 0 {
        let detail =
            format!("{} behind by {}", things(behind.sessions_behind, "session"), things(behind.bytes_behind, "byte"));
        warning("catalog", detail, "duolog state rebuild brings all of them up to date")
    } else {
        ok("catalog", "up to date with every log")
    })
}

/// Whether there are logs that no row names.
fn files(store: &Store) -> Result<Check> {
    let mut known = BTreeSet::new();
    each_session(store, |session| {
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
            format!("logs that an import left when it died: {}", naming(&drafts)),
            "run the import again, or remove them: no session has their lines",
        )
    } else {
        warning(
            "files",
            format!("logs that no session names: {}", naming(&stray)),
            "append their lines to a session, or move them away",
        )
    })
}

fn repairs_on_record(store: &Store) -> Result<Check> {
    let mut rows = store.join.state().read(|tx| repairs::list(tx, None, LOOKED_AT))?;
    // Those of other homes on the same state are theirs to look at.
    rows.retain(|row| row.repair.home_id == store.join.home());
    let lost: Vec<_> = rows.iter().filter(|row| row.repair.action.is_loss()).collect();
    let mended = rows.iter().filter(|row| row.repair.action.is_mend()).count() as u64;
    let rewritten = rows.iter().filter(|row| row.repair.action == RepairAction::Rewritten).count() as u64;
    let deleted = rows.iter().filter(|row| row.repair.action == RepairAction::Deleted).count() as u64;
    Ok(if !lost.is_empty() {
        let told: Vec<String> =
            lost.iter().map(|row| format!("{} {}", row.repair.session_id, row.repair.action.as_str())).collect();
        warning(
            "repairs",
            format!("bytes that were seen are gone: {}", naming(&told)),
            "restore the log from a backup if you need them",
        )
    } else if rows.is_empty() {
        ok("repairs", "none on record")
    } else {
        let told = [
            (mended, "torn tail", "mended (what was cut is in .torn files)"),
            (rewritten, "log", "copied into a new file after a disk error"),
            (deleted, "session", "deleted"),
        ];
        let told = told.into_iter().filter(|(count, _, _)| *count > 0);
        let told: Vec<String> = told.map(|(count, what, done)| format!("{} {done}", things(count, what))).collect();
        ok("repairs", told.join(", "))
    })
}

fn outbox_waiting(store: &Store) -> Result<Check> {
    let home = store.join.home();
    let waiting = store.join.state().read(|tx| outbox::waiting(tx, &home, LOOKED_AT))?;
    if waiting.is_empty() {
        return Ok(ok("outbox", "no line waits to be copied to a log"));
    }
    let told: Vec<String> =
        waiting.iter().map(|(session, lines)| format!("{session} ({})", things(*lines, "line"))).collect();
    Ok(warning("outbox", format!("lines wait for: {}", naming(&told)), "duolog log repair --session ID"))
}

fn marks(store: &Store) -> Result<Check> {
    let home = store.join.home();
    let rows = store.join.state().read(|tx| behind::of_home(tx, &home, None, LOOKED_AT))?;
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
            "duolog log repair --session ID says what is wrong with them",
        )
    })
}

/// Who holds the state or a log for longer than a write takes.
fn locks(store: &Store) -> Result<Check> {
    let mut held = Vec::new();
    if let Some(pid) = store.join.state().lock_holder()?.filter(|pid| *pid != std::process::id()) {
        held.push(format!("the state ({})", by(Some(pid))));
    }
    each_session(store, |session| {
        if let Some(holder) = store.join.log_holder(session)? {
            held.push(format!("{session} ({})", by(holder)));
        }
        Ok(())
    })?;
    Ok(if held.is_empty() {
        // A server does not tell who writes, and lets several do so at once.
        ok("locks", if is_on_server(store) { "nobody holds a log" } else { "nobody holds the state or a log" })
    } else {
        warning("locks", format!("held: {}", naming(&held)), "if it does not move on, see what that process is doing")
    })
}

/// Whether the search index is whole. It is derived, so that nothing is lost with it.
#[allow(clippy::unnecessary_wraps, reason = "every check has the same shape")]
fn index(store: &Store) -> Result<Check> {
    if !store.is_writable() {
        return Ok(ok("index", "not looked at: this home cannot be written, and is searched without one"));
    }
    Ok(match store.search().standing() {
        IndexStanding::Absent => ok("index", "there is none yet; duolog log search makes it"),
        IndexStanding::Whole { sessions, texts, .. } => {
            ok("index", format!("whole, {} of {}", things(texts, "text"), things(sessions, "session")))
        }
        IndexStanding::Unusable(why) => warning("index", why, "duolog log search --rebuild makes it anew"),
    })
}

/// Whether a schedule that is to fire fails each time.
fn schedules(store: &Store) -> Result<Check> {
    let list = store.schedules().list(store.join.clock().now())?.schedules;
    let failing: Vec<_> = list.iter().filter(|one| one.enabled.value && one.failures >= FAILURES_TOLD).collect();
    let Some(first) = failing.first() else {
        let count = things(list.len() as u64, "schedule");
        let none = if list.is_empty() { "there are none".to_owned() } else { format!("{count}, none fails each time") };
        return Ok(ok("schedules", none));
    };
    let told = |one: &&Schedule| {
        let since = one.failing_since.map(|since| format!(", since {since}")).unwrap_or_default();
        let why = one.latest.as_ref().and_then(|latest| latest.error.as_deref());
        let why = why.map(|why| format!(": {}", &why[..why.floor_char_boundary(WHY_BYTES)])).unwrap_or_default();
        format!("{} failed {} times one after another{since}{why}", one.base.name, one.failures)
    };
    let detail = naming(&failing.iter().map(told).collect::<Vec<_>>());
    Ok(warning(
        "schedules",
        detail,
        &format!("duolog schedules runs {:?} shows what came of each time", first.base.name),
    ))
}

/// Whether the packed embeddings are whole. They are derived, so that nothing is lost with them.
fn vectors(store: &Store) -> Result<Check> {
    Ok(match store.sessions().messages().packed_embeddings()? {
        PackStanding::Absent => ok("vectors", "none are packed; duolog sessions similar does so where there are many"),
        PackStanding::Whole { records, .. } => ok("vectors", format!("whole, {} packed", things(records, "embedding"))),
        PackStanding::Unusable(why) => warning("vectors", why, "the next duolog sessions similar makes it anew"),
    })
}

fn has_checksums(store: &Store) -> Result<bool> {
    let settings = store.join.state().stats()?.figures.settings;
    Ok(settings.iter().any(|(name, value)| name == "data_checksums" && value == "on"))
}

fn is_on_server(store: &Store) -> bool {
    matches!(store.join.state().address(), Address::Server(_))
}

fn by(holder: Option<u32>) -> String {
    holder.map_or_else(|| "by another process".to_owned(), |pid| format!("by process {pid}"))
}

/// Visits the sessions whose logs live here; one that goes meanwhile is no finding.
fn each_session(store: &Store, mut each: impl FnMut(&SessionId) -> Result<()>) -> Result<()> {
    let mut failed = None;
    store.join.each_log(|session| {
        if failed.is_none() {
            match each(session) {
                Ok(()) | Err(Error::NoSession(_)) => {}
                Err(error) => failed = Some(error),
            }
        }
        Ok(())
    })?;
    failed.map_or(Ok(()), Err)
}

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
use crate::search::IndexStanding;
use crate::state::risk_of;
use crate::store::Store;

type CheckFn = fn(&Look<'_>) -> Result<Check>;

/// What is looked at, and how closely.
pub(super) struct Look<'s> {
    pub(super) store: &'s Store,
    pub(super) depth: Depth,
}

/// The logs that a quick look reads: those that changed last, so many and so many bytes.
const SAMPLE_LOGS: u32 = 50;
const SAMPLE_BYTES: u64 = 32 << 20;
/// The largest database file that a quick look checks page by page.
const DATABASE_BYTES: u64 = 32 << 20;

/// The sessions, marks or rows that a check names before it only counts.
const NAMED: usize = 3;
const LOOKED_AT: u32 = 10_000;
/// The failures one after another of a schedule that are told of.
const FAILURES_TOLD: u32 = 3;
/// The bytes of why that are told with it.
const WHY_BYTES: usize = 200;

/// Every check, with the depth from which on it is made.
pub(super) const ALL: &[(&str, Depth, CheckFn)] = &[
    ("file system", Depth::Quick, file_system),
    ("engine", Depth::Quick, engine),
    ("schema", Depth::Quick, schema),
    ("database", Depth::Quick, database),
    // Folding mends what dead writers left; what the logs look like after that is what a person can act on.
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
        let detail = format!("{}, where locks between machines may not hold", dangers.join(", "));
        warning("file system", detail, "let one machine alone use the home, or put it on a local disk")
    } else {
        warning("file system", dangers.join(", "), "put the home on a local disk")
    })
}

/// What keeps the rows, and whether it keeps its word when its machine loses power.
fn engine(look: &Look<'_>) -> Result<Check> {
    let store = look.store;
    let figures = store.join.state().figures()?;
    let detail = format!("{} at {}", figures.engine, store.place());
    if figures.unsafe_settings.is_empty() {
        return Ok(ok("engine", detail));
    }
    let told = figures.unsafe_settings.iter().map(|(name, value)| format!("{name} is {value}: {}", risk_of(name)));
    let detail = format!("{detail}; {}", told.collect::<Vec<_>>().join("; "));
    Ok(warning("engine", detail, "set it to on (ALTER SYSTEM, ALTER DATABASE or ALTER ROLE), and reload the server"))
}

#[allow(clippy::unnecessary_wraps, reason = "every check has the same shape")]
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
    let bytes = store.join.state().figures()?.bytes;
    if look.depth == Depth::Quick && bytes > DATABASE_BYTES && !is_on_server(store) {
        return Ok(ok("database", format!("opens; its {} MiB are checked with --deep", bytes >> 20)));
    }
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

/// Every line and every seal of the logs.
fn logs(look: &Look<'_>) -> Result<Check> {
    let store = look.store;
    let (mut count, mut events, mut torn) = (0_u64, 0_u64, 0_u64);
    let (mut bad, mut lost, mut busy) = (Vec::new(), Vec::new(), Vec::new());
    look.each_session(|session| {
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
    let read = match look.depth {
        Depth::Deep => things(count, "log"),
        Depth::Quick => format!("{} that changed last", things(count, "log")),
    };
    let detail = format!("{read}, {}, {torn} with a torn tail", things(events, "event"));
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
        damaged("catalog", format!("logs that are not what was folded: {}", naming(&other)), "duolog state rebuild")
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

/// Whether there are logs that no row names.
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

fn repairs_on_record(look: &Look<'_>) -> Result<Check> {
    let store = look.store;
    let home = store.join.home();
    let (mut rows, lost) = store.join.state().read(|tx| {
        let rows = (repairs::list(tx, None, LOOKED_AT)?, repairs::losses_of_home(tx, &home, LOOKED_AT)?);
        Ok::<_, crate::Error>(rows)
    })?;
    // Those of other homes on the same state are theirs to look at, and a loss is over once the log is deleted.
    rows.retain(|row| row.repair.home_id == home && !row.repair.action.is_loss());
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
    let waiting = store.join.state().read(|tx| outbox::waiting(tx, &home, LOOKED_AT))?;
    if waiting.is_empty() {
        return Ok(ok("outbox", "no line waits to be copied to a log"));
    }
    let told: Vec<String> =
        waiting.iter().map(|(session, lines)| format!("{session} ({})", things(*lines, "line"))).collect();
    Ok(warning("outbox", format!("lines wait for: {}", naming(&told)), "duolog log repair --session ID"))
}

fn marks(look: &Look<'_>) -> Result<Check> {
    let store = look.store;
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
        // A server does not tell who writes, and lets several do so at once.
        ok("locks", if is_on_server(store) { "nobody holds a log" } else { "nobody holds the state or a log" })
    } else {
        warning("locks", format!("held: {}", naming(&held)), "if it does not move on, see what that process is doing")
    })
}

/// Whether the search index is whole. It is derived, so that nothing is lost with it.
#[allow(clippy::unnecessary_wraps, reason = "every check has the same shape")]
fn index(look: &Look<'_>) -> Result<Check> {
    let store = look.store;
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
fn schedules(look: &Look<'_>) -> Result<Check> {
    let store = look.store;
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

fn has_checksums(store: &Store) -> Result<bool> {
    let settings = store.join.state().figures()?.settings;
    Ok(settings.iter().any(|(name, value)| name == "data_checksums" && value == "on"))
}

fn is_on_server(store: &Store) -> bool {
    matches!(store.join.state().address(), Address::Server(_))
}

fn by(holder: Option<u32>) -> String {
    holder.map_or_else(|| "by another process".to_owned(), |pid| format!("by process {pid}"))
}

impl Look<'_> {
    /// Visits the sessions whose logs live here, all or those that changed last; one that goes meanwhile is no finding.
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
        // The newest one is read whatever its size.
        let within = |row: &&SessionSummaryRow| {
            let is_within = bytes < SAMPLE_BYTES;
            bytes += row.bytes.unwrap_or_default();
            is_within
        };
        Ok(rows.iter().take_while(within).map(|row| row.id.clone()).collect())
    }
}

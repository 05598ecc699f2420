use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use duolog_join::{Called, Committed, Join, NewLog, Passing, Stem, prepare};
use duolog_log::Append;
use duolog_state::owned::behind;
use duolog_state::owned::repairs::{self, RepairAction};
use duolog_state::owned::sessions::{self, SessionRow};
use duolog_types::{Durability, Epoch, Position, SessionId, SystemClock};

use crate::kit::{POWER, PROCESS, batch, limits, lines, open_at, put};

/// A home with a thread that has one line, folded, and a pass for it.
struct Home {
    dir: tempfile::TempDir,
    id: SessionId,
}

fn thread(name: &str) -> Called {
    Called { user: None, name: name.to_owned() }
}

fn make(join: &Join, id: &str, name: &str) -> SessionId {
    let id = SessionId::parse(id).unwrap();
    let mut row = SessionRow::new(id.clone(), join.home(), "threads", "", join.clock().now());
    row.name = Some(name.to_owned());
    row.addressed = true;
    let stem = Stem { scope: "threads".to_owned(), file: name.to_owned(), name: name.to_owned() };
    join.create(NewLog { row, stem }, Durability::Process).unwrap();
    id
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let join = open_at(dir.path());
        let id = make(&join, "s-1", "plan");
        put(&join, &id, r#"{"n":0}"#);
        join.leave(u64::MAX).unwrap();
        assert!(join.grant_pass(&id).unwrap());
        Self { dir, id }
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("sessions/threads/plan.jsonl")
    }

    fn notes(&self) -> PathBuf {
        self.dir.path().join("passes/notes.jsonl")
    }

    fn open(&self) -> Arc<Join> {
        open_at(self.dir.path())
    }

    fn pass(&self, line: &str) -> Option<Committed> {
        self.pass_as(&thread("plan"), line, &PROCESS, "boot")
    }

    fn pass_as(&self, called: &Called, line: &str, how: &Append, boot: &str) -> Option<Committed> {
        let prepared = prepare(self.dir.path()).unwrap();
        let (disk, limits) = (prepared.disk, limits());
        let passing = Passing { disk, home: prepared.id, limits: &limits, clock: &SystemClock, boot };
        passing.append(called, &batch(&[line]), how).unwrap().map(|(id, committed)| {
            assert_eq!(id, self.id);
            committed
        })
    }

    /// What the log says now, and that nobody may append to it without the state.
    fn is_refused(&self, why: &str) {
        let before = std::fs::read(self.log()).ok();
        assert_eq!(self.pass(r#"{"n":9}"#), None, "{why}");
        assert_eq!(std::fs::read(self.log()).ok(), before, "{why}");
    }
}

fn is_marked(join: &Join, id: &SessionId) -> bool {
    !join.state().read(|tx| behind::of_session(tx, id)).unwrap().is_empty()
}

fn losses(join: &Join, id: &SessionId) -> Vec<RepairAction> {
    let rows = join.state().read(|tx| repairs::list(tx, Some(id), 10)).unwrap();
    rows.iter().map(|row| row.repair.action).filter(|action| action.is_loss()).collect()
}

#[test]
fn what_is_appended_with_a_pass_stands_and_is_folded_by_the_next_reader() {
    let home = Home::new();
    let first = home.pass(r#"{"n":1}"#).expect("a pass");
    assert_eq!((first.start, first.end, first.epoch), (Position(8), Position(16), Epoch(0)));
    let second = home.pass_as(&thread("plan"), r#"{"n":2}"#, &POWER, "boot").expect("a pass");
    assert_eq!(second.start, first.end);
    let third = Append { if_position: Some(second.end), ..PROCESS };
    assert!(home.pass_as(&thread("plan"), r#"{"n":3}"#, &third, "boot").is_some());

    let join = home.open();
    let row = join.state().read(|tx| sessions::find(tx, &home.id)).unwrap().unwrap();
    assert!(is_marked(&join, &home.id) && row.updated_at > row.created_at);
    assert_eq!(join.catch_up(u64::MAX).unwrap().sessions_behind, 0);
    assert_eq!(join.figures(&home.id).unwrap().unwrap().events, 4);
    assert!(!is_marked(&join, &home.id));
    // The notes are gone, and what they said stands in the pass.
    assert!(home.pass(r#"{"n":4}"#).is_some());
    // This process was open before, and sees it all the same.
    assert_eq!(join.catch_up(u64::MAX).unwrap().sessions_behind, 0);
    assert_eq!(join.figures(&home.id).unwrap().unwrap().events, 5);
    assert_eq!(lines(&join, &home.id), (0..5).map(|n| format!("{{\"n\":{n}}}")).collect::<Vec<_>>());
    assert!(losses(&join, &home.id).is_empty());
}

#[test]
fn a_pass_is_for_one_name_one_boot_and_one_home() {
    let home = Home::new();
    let line = r#"{"n":1}"#;
    assert_eq!(home.pass_as(&thread("pla"), line, &PROCESS, "boot"), None);
    assert_eq!(home.pass_as(&thread("plan "), line, &PROCESS, "boot"), None, "it makes another path");
    let of_user = Called { user: Some("threads".to_owned()), name: "plan".to_owned() };
    assert_eq!(home.pass_as(&of_user, line, &PROCESS, "boot"), None, "it makes the same path");
    assert_eq!(home.pass_as(&thread("plan"), line, &PROCESS, "another boot"), None);
    let elsewhere = Append { if_position: Some(Position(7)), ..PROCESS };
    assert_eq!(home.pass_as(&thread("plan"), line, &elsewhere, "boot"), None);
    std::fs::write(home.dir.path().join("home_id"), duolog_types::HomeId::new().to_string()).unwrap();
    home.is_refused("another home");
}

#[test]
fn a_log_that_is_not_as_it_was_left_is_left_to_who_can_tell() {
    type Touch = fn(&Path);
    let touches: [(&str, Touch); 6] = [
        ("cut", |log| std::fs::write(log, b"").unwrap()),
        ("longer", |log| std::fs::write(log, b"{\"n\":0}\n{\"n\":7}\n").unwrap()),
        ("torn", |log| std::fs::write(log, b"{\"n\":0}\n{\"n\"").unwrap()),
        ("other bytes", |log| std::fs::write(log, b"{\"n\":5}\n").unwrap()),
        ("another file", |log| {
            std::fs::copy(log, log.with_extension("copy")).unwrap();
            std::fs::rename(log.with_extension("copy"), log).unwrap();
        }),
        ("closed", |log| std::fs::set_permissions(log, std::fs::Permissions::from_mode(0o400)).unwrap()),
    ];
    for (why, touch) in touches {
        let home = Home::new();
        touch(&home.log());
        home.is_refused(why);
    }
    let home = Home::new();
    std::fs::remove_file(home.log()).unwrap();
    home.is_refused("gone");
    assert!(!home.log().exists());
}

#[test]
fn what_was_appended_with_a_pass_and_taken_away_by_hand_is_missed() {
    for (bytes, action) in
        [(&b"{\"n\":0}\n"[..], RepairAction::Shorter), (b"{\"n\":0}\n{\"n\":8}\n", RepairAction::Replaced)]
    {
        let home = Home::new();
        assert!(home.pass(r#"{"n":1}"#).is_some());
        std::fs::write(home.log(), bytes).unwrap();
        home.is_refused("what was noted is not there");
        let join = home.open();
        assert_eq!(losses(&join, &home.id), [action]);
        home.is_refused("the epoch is another");
        put(&join, &home.id, r#"{"n":2}"#);
    }
    let home = Home::new();
    assert!(home.pass(r#"{"n":1}"#).is_some());
    std::fs::remove_file(home.log()).unwrap();
    assert_eq!(losses(&home.open(), &home.id), [RepairAction::Missing]);
}

#[test]
fn another_writer_or_another_name_ends_a_pass() {
    let home = Home::new();
    let join = home.open();
    put(&join, &home.id, r#"{"n":1}"#);
    home.is_refused("another wrote");
    join.catch_up(u64::MAX).unwrap();
    assert!(join.grant_pass(&home.id).unwrap());
    assert!(home.pass(r#"{"n":2}"#).is_some());

    let revoked = join.revoke_pass(&home.id).unwrap();
    drop(revoked);
    home.is_refused("it is about to be renamed");
    join.catch_up(u64::MAX).unwrap();
    assert!(join.grant_pass(&home.id).unwrap());
    drop(join.revoke_pass_to(&SessionId::parse("plan").unwrap()).unwrap());
    home.is_refused("a session is about to have that id");
    make(&join, "plan", "other");
    assert!(!join.grant_pass(&home.id).unwrap(), "the id goes before the name");
}

#[test]
fn a_deleted_session_has_no_pass() {
    let home = Home::new();
    assert!(home.pass(r#"{"n":1}"#).is_some());
    let join = home.open();
    join.delete(&home.id).unwrap();
    assert_eq!(home.pass(r#"{"n":2}"#), None);
    assert!(!home.log().exists());
    // A note of what is gone is no trouble.
    let again = make(&join, "s-2", "plan");
    put(&join, &again, r#"{"n":0}"#);
    assert_eq!(join.catch_up(u64::MAX).unwrap().sessions_behind, 0);
}

#[test]
fn while_someone_holds_the_notes_nobody_is_granted_a_pass_or_appends_with_one() {
    let home = Home::new();
    let join = home.open();
    let revoked = join.revoke_pass_to(&SessionId::parse("unrelated").unwrap()).unwrap();
    let prepared = prepare(home.dir.path()).unwrap();
    let limits = limits();
    let passing =
        Passing { disk: prepared.disk, home: prepared.id, limits: &limits, clock: &SystemClock, boot: "boot" };
    let refused = passing.append(&thread("plan"), &batch(&["{}"]), &PROCESS);
    assert!(matches!(refused, Err(duolog_join::Error::Log(duolog_log::Error::Busy { .. }))), "{refused:?}");
    assert!(join.grant_pass(&home.id).is_err());
    drop(revoked);
    assert!(home.pass(r#"{"n":1}"#).is_some());
}

#[test]
fn notes_that_are_torn_full_strange_or_of_another_schema_lose_nothing() {
    let home = Home::new();
    assert!(home.pass(r#"{"n":1}"#).is_some());
    let noted = std::fs::read(home.notes()).unwrap();
    // Half a note of one who died, and the next goes on behind it.
    std::fs::write(home.notes(), [&noted[..], b"\n{\"session\":\"s-1\",\"ep"].concat()).unwrap();
    assert!(home.pass(r#"{"n":2}"#).is_some());
    assert!(home.open().catch_up(u64::MAX).is_ok_and(|left| left.sessions_behind == 0));

    // Of another schema: nobody appends, and what is noted counts.
    assert!(home.pass(r#"{"n":3}"#).is_some());
    let text = String::from_utf8(std::fs::read(home.notes()).unwrap()).unwrap();
    let (_, rest) = text.trim_start().split_once('\n').unwrap();
    std::fs::write(home.notes(), format!("\n{{\"schema\":99999,\"boot\":\"boot\"}}\n{rest}")).unwrap();
    home.is_refused("another schema");
    let join = home.open();
    assert!(is_marked(&join, &home.id));

    // Full: a store takes them in, and then there is room.
    let note = "\n{\"session\":\"s-1\",\"epoch\":0,\"at\":\"2026-11-16T07:11:23.192080Z\"}\n";
    let mut file = std::fs::OpenOptions::new().append(true).open(home.notes()).unwrap();
    std::io::Write::write_all(&mut file, note.repeat(400).as_bytes()).unwrap();
    home.is_refused("full");
    join.catch_up(u64::MAX).unwrap();
    assert!(home.pass(r#"{"n":4}"#).is_some());

    // More than there can be, and nothing that is a note.
    std::fs::write(home.notes(), vec![b'x'; 3 << 20]).unwrap();
    home.is_refused("too much");
    assert_eq!(join.catch_up(u64::MAX).unwrap().sessions_behind, 0);
    assert_eq!(join.figures(&home.id).unwrap().unwrap().events, 5);
}

#[test]
fn who_may_only_read_counts_what_is_noted_as_behind() {
    let home = Home::new();
    assert!(home.pass(r#"{"n":1}"#).is_some());
    let prepared = prepare(home.dir.path()).unwrap();
    let state = duolog_state::OpenState::at(home.dir.path()).read_only();
    let join = crate::kit::join(state, prepared.disk, prepared.id, limits()).unwrap();
    let behind = join.catch_up(u64::MAX).unwrap();
    assert_eq!((behind.sessions_behind, behind.bytes_behind), (1, 8));
    assert!(join.log_standings().unwrap()[0].is_marked);
}

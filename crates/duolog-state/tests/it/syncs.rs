use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use duolog_state::owned::sessions;
use duolog_state::{Error, State};
use duolog_types::Durability::{self, Power, Process};
use duolog_types::mutant::{self, Mutant};
use tempfile::TempDir;

use super::{count, open, path, run, session};

/// A home on a lossy disk, and the processes that use it.
struct Lossy(TempDir);

impl Lossy {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/lossy_disk.c");
        run("cc", &["-shared", "-fPIC", "-O1", "-o", path(&dir.path().join("lossy.so")), path(&source), "-ldl"]);
        Self(dir)
    }

    /// Runs one of the roles below in its own process.
    fn play(&self, role: &str, mutant: Option<Mutant>) -> Output {
        let mut child = Command::new(std::env::current_exe().expect("this binary"));
        child
            .args(["--exact", "syncs::role", "--nocapture", "--test-threads=1"])
            .env("LD_PRELOAD", self.0.path().join("lossy.so"))
            .env("LOSSY_FAIL", self.0.path().join("fail"))
            .env("DUOLOG_TEST_DIR", self.0.path())
            .env("DUOLOG_TEST_NAME", role);
        if mutant.is_some() {
            child.env("DUOLOG_TEST_MUTANT", "1");
        }
        child.output().expect("starts")
    }

    /// Runs a role that must succeed.
    fn must(&self, role: &str) {
        let output = self.play(role, None);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{role}: {}{}", text(&output.stdout), text(&output.stderr));
    }
}

#[test]
fn a_power_commit_after_a_failed_sync_survives_a_power_loss() {
    Lossy::new().must("one_process");
}

#[test]
fn a_later_process_knows_of_a_failed_sync() {
    let lossy = Lossy::new();
    lossy.must("fails_and_dies");
    lossy.must("comes_later");
}

#[test]
fn while_syncs_fail_power_is_refused_and_process_is_not() {
    let lossy = Lossy::new();
    lossy.must("keeps_failing");
    lossy.must("finds_it_failing");
    lossy.must("finds_it_working");
}

#[test]
fn a_reader_does_not_block_writes_after_a_failed_sync() {
    Lossy::new().must("beside_a_reader");
}

#[test]
fn a_checkpoint_that_fails_to_sync_is_known_to_writers() {
    Lossy::new().must("checkpoint_fails");
}

#[test]
fn a_new_lock_file_does_not_forget_a_failed_sync() {
    let lossy = Lossy::new();
    lossy.must("fails_and_dies");
    fs::remove_file(lossy.0.path().join("home/state.lock")).expect("removes");
    lossy.must("comes_later");
}

#[test]
fn a_removed_lock_file_is_created_again() {
    Lossy::new().must("loses_its_lock_file");
}

#[test]
fn acknowledged_power_commits_survive_any_failed_sync() {
    for seed in 0..8 {
        Lossy::new().must(&format!("random {seed}"));
    }
}

#[test]
fn without_the_rule_a_power_commit_is_lost() {
    let lost = Lossy::new().play("one_process", Some(Mutant::PowerAfterFailedSync));
    let said = String::from_utf8_lossy(&lost.stderr).into_owned();
    assert!(!lost.status.success() && said.contains("acknowledged and lost"), "{said}");
}

/// The entry point of a child process.
#[test]
fn role() {
    let Some(dir) = std::env::var_os("LOSSY_FAIL").and(std::env::var_os("DUOLOG_TEST_DIR")) else { return };
    if std::env::var_os("DUOLOG_TEST_MUTANT").is_some() {
        mutant::set(Some(Mutant::PowerAfterFailedSync));
    }
    let disk = Disk { dir: dir.into() };
    let name = std::env::var("DUOLOG_TEST_NAME").expect("a role");
    match name.as_str() {
        "one_process" => one_process(&disk),
        "fails_and_dies" => fails_and_dies(&disk),
        "comes_later" => comes_later(&disk),
        "keeps_failing" => keeps_failing(&disk),
        "finds_it_failing" => finds_it_failing(&disk),
        "finds_it_working" => finds_it_working(&disk),
        "beside_a_reader" => beside_a_reader(&disk),
        "checkpoint_fails" => checkpoint_fails(&disk),
        "loses_its_lock_file" => loses_its_lock_file(&disk),
        other => random(&disk, other.strip_prefix("random ").and_then(|seed| seed.parse().ok()).expect("a seed")),
    }
}

struct Disk {
    dir: PathBuf,
}

impl Disk {
    fn home(&self) -> PathBuf {
        self.dir.join("home")
    }

    fn open(&self) -> State {
        open(&self.home())
    }

    /// Makes the nth sync of a file with this suffix fail, or every sync if the number is negative.
    fn fail(&self, nth: i32, suffix: &str) {
        fs::write(self.dir.join("fail"), format!("{nth} {suffix}\n")).expect("writes");
    }

    fn work(&self) {
        fs::write(self.dir.join("fail"), "0 -\n").expect("writes");
    }

    fn is_marked(&self) -> bool {
        self.home().join("state.lock").metadata().expect("is there").permissions().mode() & 0o111 != 0
    }

    /// Compares the contents after a power loss with the acknowledged rows.
    fn check(&self, acknowledged: &BTreeSet<String>) {
        let image = tempfile::tempdir().expect("a directory");
        for name in ["state.db", "state.db-wal"] {
            let disk = self.home().join(format!("{name}.disk"));
            if disk.exists() {
                fs::copy(disk, image.path().join(name)).expect("copies");
            }
        }
        let state = open(image.path());
        assert_eq!(state.integrity().expect("checks"), Vec::<String>::new());
        let found = state.read(|tx| sessions::starting_with(tx, "", 9999)).expect("reads");
        let found: BTreeSet<String> = found.iter().map(|id| id.as_str().to_owned()).collect();
        let lost: Vec<_> = acknowledged.difference(&found).collect();
        assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    }

    fn holds(&self, names: &[&str]) {
        self.check(&names.iter().map(|name| (*name).to_owned()).collect());
    }
}

fn put(state: &State, durability: Durability, name: &str) -> Result<(), Error> {
    let row = session(name);
    state.write(durability, move |tx| sessions::insert(tx, &row))
}

/// Makes a commit that is not synced, and one whose sync fails.
fn fail_a_sync(disk: &Disk, state: &State, nth: i32) {
    put(state, Power, "synced").expect("writes");
    for number in 0..9 {
        put(state, Process, &format!("unsynced{number}")).expect("writes");
    }
    disk.fail(nth, "-wal");
    let answer = put(state, Power, "failed");
    assert!(matches!(answer, Err(Error::Unknown { .. })), "{answer:?}");
    disk.holds(&["synced"]);
}

fn one_process(disk: &Disk) {
    let state = disk.open();
    fail_a_sync(disk, &state, 1);
    put(&state, Power, "next").expect("the disk works again");
    disk.holds(&["synced", "unsynced0", "unsynced8", "next"]);
    assert!(!disk.is_marked());
    put(&state, Power, "last").expect("writes");
    disk.holds(&["next", "last"]);
}

fn fails_and_dies(disk: &Disk) {
    let state = disk.open();
    fail_a_sync(disk, &state, 1);
    assert!(disk.is_marked());
    // Exits without closing anything.
    std::process::exit(0);
}

fn comes_later(disk: &Disk) {
    let state = disk.open();
    put(&state, Power, "next").expect("the disk works again");
    disk.holds(&["synced", "unsynced0", "unsynced8", "next"]);
    assert!(!disk.is_marked());
}

fn refused(state: &State) {
    let answer = put(state, Power, "refused");
    assert!(matches!(answer, Err(Error::SyncFailed { .. })), "{answer:?}");
    let answer = state.checkpoint();
    assert!(matches!(answer, Err(Error::SyncFailed { .. })), "{answer:?}");
    let answer = state.vacuum();
    assert!(matches!(answer, Err(Error::SyncFailed { .. })), "{answer:?}");
}

fn keeps_failing(disk: &Disk) {
    let state = disk.open();
    fail_a_sync(disk, &state, -1);
    let rows = count(&state);
    refused(&state);
    assert_eq!(count(&state), rows, "a refused write is not written");
    put(&state, Process, "process").expect("needs no sync");
    assert_eq!(count(&state), rows + 1);
    assert!(disk.is_marked());
}

fn finds_it_failing(disk: &Disk) {
    let state = disk.open();
    refused(&state);
    put(&state, Process, "another").expect("needs no sync");
}

fn finds_it_working(disk: &Disk) {
    disk.work();
    let state = disk.open();
    put(&state, Power, "next").expect("writes");
    disk.holds(&["synced", "unsynced0", "unsynced8", "process", "another", "next"]);
    assert!(state.checkpoint().is_ok());
    disk.holds(&["synced", "unsynced0", "unsynced8", "process", "another", "next"]);
}

fn beside_a_reader(disk: &Disk) {
    let state = disk.open();
    put(&state, Power, "before").expect("writes");
    let read = state.read(|tx| {
        tx.find("SELECT COUNT(*) FROM sessions", &[], |row| row.get::<u64>(0))?;
        fail_a_sync(disk, &state, 1);
        put(&state, Power, "next")
    });
    read.expect("writes");
    disk.holds(&["before", "synced", "unsynced0", "unsynced8", "next"]);
}

/// The checkpointer thread fails to sync the log, and no other thread has tried.
fn checkpoint_fails(disk: &Disk) {
    let state = disk.open();
    put(&state, Power, "synced").expect("writes");
    disk.fail(-1, "-wal");
    let mut names = BTreeSet::new();
    while !disk.is_marked() {
        assert!(names.len() < 2000, "{:?}", state.counters());
        let mut row = session(&format!("s{}", names.len()));
        row.node_metadata = Some("x".repeat(60_000));
        names.insert(row.id.as_str().to_owned());
        state.write(Process, move |tx| sessions::insert(tx, &row)).expect("needs no sync");
    }
    disk.holds(&["synced"]);
    refused(&state);
    disk.work();
    put(&state, Power, "next").expect("writes");
    names.extend(["synced", "next"].map(str::to_owned));
    disk.check(&names);
}

fn loses_its_lock_file(disk: &Disk) {
    let (one, two) = (disk.open(), disk.open());
    put(&one, Power, "one").expect("writes");
    fs::remove_file(disk.home().join("state.lock")).expect("removes");
    put(&two, Power, "two").expect("writes");
    fail_a_sync(disk, &one, 1);
    assert!(disk.is_marked(), "in the file that other processes see");
    put(&two, Power, "next").expect("writes");
    disk.holds(&["one", "two", "synced", "unsynced0", "unsynced8", "next"]);
}

/// Two handles write, checkpoint and are opened again while syncs of both files fail.
fn random(disk: &Disk, seed: u64) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % below
    };
    let mut acknowledged = BTreeSet::new();
    let mut handles = [disk.open(), disk.open()];
    let (mut answered, mut refused) = (0, 0);
    for number in 0..300 {
        if next(6) == 0 {
            let suffix = if next(3) == 0 { "state.db" } else { "-wal" };
            disk.fail(i32::try_from(next(3) + 1).expect("small"), suffix);
        }
        let which = usize::from(next(2) == 1);
        let handle = &handles[which];
        match next(20) {
            0 => drop(handle.checkpoint()),
            1 => {
                // Both, so that the next open reads the log from its beginning.
                disk.work();
                drop(handles);
                handles = [disk.open(), disk.open()];
            }
            2 => drop(handle.vacuum()),
            3..=10 => drop(put(handle, Process, &format!("s{number}"))),
            _ => match put(handle, Power, &format!("s{number}")) {
                Ok(()) => {
                    answered += 1;
                    acknowledged.insert(format!("s{number}"));
                }
                Err(_) => refused += 1,
            },
        }
        if number % 10 == 9 {
            disk.work();
            disk.check(&acknowledged);
        }
    }
    assert!(answered > 50 && refused > 3, "{answered} and {refused}");
}

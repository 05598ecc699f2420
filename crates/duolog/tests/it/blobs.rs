use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use duolog::limits::Limits;
use duolog::log::{RecordOptions, Recording};
use duolog::runs::NewExecution;
use duolog::sessions::AddOptions;
use duolog::{Durability, ErrorKind, Home, Store, StoreAddress, StoreOptions, TriggerType};
use duolog_testkit::engines::Place;
use tempfile::TempDir;

/// A store with a short lock timeout.
fn open(directory: &TempDir) -> Store {
    let limits = Limits { busy_timeout: Duration::from_millis(20), ..Limits::default() };
    let options = StoreOptions { limits, ..StoreOptions::at(Home::beneath(directory.path())) };
    Store::open(options.one_shot()).expect("opens")
}

fn recording(store: &Store, thread: &str) -> Recording {
    let session = store.sessions().open_thread(thread).expect("made").id;
    let options = RecordOptions { durability: Durability::Process, ..RecordOptions::default() };
    store.log(&session).record(options).expect("begins")
}

/// A tool's answer that is stored in full as a blob.
fn answer(word: &str) -> Vec<u8> {
    let whole = format!("{word}\\n").repeat(20_000);
    format!("{{\"type\":\"tool_execution_end\",\"toolCallId\":\"d0\",\"result\":\"{whole}\"}}").into_bytes()
}

fn record(store: &Store, thread: &str, word: &str) {
    let mut recording = recording(store, thread);
    recording.event(&answer(word)).expect("taken");
    recording.flush().expect("appended");
}

fn files(directory: &TempDir) -> Vec<PathBuf> {
    let Ok(folders) = fs::read_dir(directory.path().join("state/blobs")) else { return Vec::new() };
    let in_folder = |folder: fs::DirEntry| fs::read_dir(folder.path()).expect("a folder").flatten();
    folders.flatten().flat_map(in_folder).map(|entry| entry.path()).collect()
}

/// Makes every blob old, so that its age does not protect it.
fn let_age(directory: &TempDir) {
    for file in files(directory) {
        let long_ago = SystemTime::now() - Duration::from_hours(48);
        File::options().write(true).open(file).expect("a blob").set_modified(long_ago).expect("dated");
    }
}

fn prune(store: &Store) -> usize {
    store.state().count_blobs(|_| ()).expect("counts").prune().expect("prunes").removed.len()
}

#[test]
fn a_blob_is_kept_until_its_line_is_appended() {
    let directory = tempfile::tempdir().expect("a directory");
    let (writer, keeper) = (open(&directory), open(&directory));
    let mut recording = recording(&writer, "one");
    recording.event(&answer("whole")).expect("taken");
    let_age(&directory);
    let counted = keeper.state().count_blobs(|_| ()).expect("counts");
    assert_eq!(counted.blobs().map(|blob| blob.named).collect::<Vec<_>>(), [0], "its line is waiting for the flush");
    let busy = counted.prune().expect_err("a recording is between a blob and its line");
    assert_eq!(busy.kind(), ErrorKind::Busy);
    assert_eq!(files(&directory).len(), 1);
    recording.flush().expect("appended");
    assert_eq!(prune(&keeper), 0, "now a line refers to it");
    recording.finish().expect("ends");
    assert_eq!(files(&directory).len(), 1);
}

/// An item of a conversation is referred to by a row, not by a line.
#[test]
fn the_blob_of_an_item_is_kept_until_the_item_is_deleted() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(&directory);
    let session = store.sessions().open_thread("one").expect("made").id;
    let item = format!("{{\"role\":\"user\",\"content\":\"{}\"}}", "x".repeat(300_000));
    let items = store.sessions().items(&session);
    items.add(&[&item], &AddOptions::default()).expect("added");
    let_age(&directory);
    let counted = store.state().count_blobs(|_| ()).expect("counts");
    assert_eq!(counted.blobs().map(|blob| blob.named).collect::<Vec<_>>(), [1]);
    assert_eq!(counted.prune().expect("prunes").removed, []);
    assert_eq!(items.pop(Durability::Power).expect("reads").map(|item| item.content), Some(item));
    assert_eq!((prune(&store), files(&directory).len()), (1, 0));
}

/// Between the count and the removal, a line is appended that refers to a blob without references, through a put that
/// found it.
#[test]
fn a_late_line_keeps_its_blob() {
    let directory = tempfile::tempdir().expect("a directory");
    let (writer, keeper) = (open(&directory), open(&directory));
    for (late, expected) in [(None, 0), (Some("two"), 1), (Some("three"), 1)] {
        record(&writer, "one", "whole");
        writer.sessions().delete(duolog::sessions::SessionRef::Text("one".to_owned())).expect("deleted");
        let counted = keeper.state().count_blobs(|_| ()).expect("counts");
        if let Some(thread) = late {
            record(&writer, thread, "whole");
        }
        let_age(&directory);
        let removed = counted.prune().expect("prunes").removed.len();
        assert_eq!(files(&directory).len(), expected, "{late:?}, {removed} removed");
        // The writer synced the blob before, but must not assume that it still exists.
        record(&writer, "again", "whole");
        assert_eq!(files(&directory).len(), 1, "{late:?}");
        for thread in ["again", "two", "three"] {
            let _ = writer.sessions().delete(duolog::sessions::SessionRef::Text(thread.to_owned()));
        }
        let_age(&directory);
        assert_eq!((prune(&keeper), files(&directory).len()), (1, 0));
    }
}

#[test]
fn a_blob_in_a_torn_tail_or_a_stray_log_is_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(&directory);
    for word in ["torn", "stray", "nothing"] {
        record(&store, word, word);
    }
    let logs = directory.path().join("state/sessions/threads");
    let line = fs::read(logs.join("torn.jsonl")).expect("a log");
    let stray = fs::read(logs.join("stray.jsonl")).expect("a log");
    for word in ["torn", "stray", "nothing"] {
        store.sessions().delete(duolog::sessions::SessionRef::Text(word.to_owned())).expect("deleted");
    }
    // A writer died before its newline: a repair may turn the bytes into a line.
    store.sessions().open_thread("tail").expect("made");
    fs::write(logs.join("tail.jsonl"), &line[..line.len() - 1]).expect("written");
    fs::write(logs.join("nobody.jsonl"), stray).expect("written");
    let_age(&directory);
    assert_eq!((prune(&store), files(&directory).len()), (1, 2));
}

#[test]
fn recent_and_partial_blobs_are_handled() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(&directory);
    record(&store, "one", "whole");
    store.sessions().delete(duolog::sessions::SessionRef::Text("one".to_owned())).expect("deleted");
    fs::write(directory.path().join("state/blobs/.put-1-0"), "half").expect("written");
    let pruned = store.state().count_blobs(|_| ()).expect("counts").prune().expect("prunes");
    assert_eq!((pruned.removed.len(), pruned.leftovers, files(&directory).len()), (0, 1, 1));
}

/// One home, first with its state beside the logs and then with another: each state may refer to blobs that the other
/// does not.
#[test]
fn blobs_of_another_state_are_kept() {
    for place in [Place::sqlite(), Place::postgres()] {
        let directory = tempfile::tempdir().expect("a directory");
        let home = Home::beneath(directory.path());
        let open = |apart: bool| {
            let options = StoreOptions::at(home.clone()).one_shot();
            let options = if apart { options.with_store(StoreAddress::At(place.address())) } else { options };
            Store::open(options).expect("opens")
        };
        let output = |store: &Store, word: &str| {
            let new = NewExecution {
                id: None,
                trigger_type: TriggerType::Chat,
                trigger_id: word.to_owned(),
                skill: "chat".to_owned(),
                session_id: None,
                owner: None,
                repo: None,
                issue_number: None,
                triggered_by: None,
            };
            let ledger = store.runs().executions();
            let execution = ledger.start(&new).expect("starts").id;
            ledger.set_output(&execution, &word.repeat(1 << 20), None).expect("kept");
        };
        output(&open(false), "one");
        output(&open(true), "two");
        let_age(&directory);
        assert_eq!(files(&directory).len(), 2);
        for (apart, other) in [(false, place.address().to_string()), (true, "state.db".to_owned())] {
            let store = open(apart);
            let refused = store.state().count_blobs(|_| ()).expect("counts").prune().expect_err("another state");
            assert!(refused.to_string().contains(&other), "{refused}");
            assert_eq!(refused.kind(), ErrorKind::Conflict);
        }
        assert_eq!(files(&directory).len(), 2, "nothing was removed");
        // Without the record of the other state, no state refers to its blobs.
        fs::remove_dir_all(directory.path().join("state/states")).expect("removed");
        assert_eq!(prune(&open(false)), 1);
    }
}

use duolog_search::{Doc, Filter};
use duolog_types::Position;

use crate::{add, ask, checkpoint, doc, index_in, positions, session};

#[test]
fn added_texts_are_found_and_deleted_ones_are_not() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut index, _) = index_in(directory.path());
    add(&mut index, "one", &["alpha", "beta"]);
    add(&mut index, "two", &["alpha"]);
    add(&mut index, "one", &["gamma alpha"]);
    assert_eq!(positions(&index, "alpha"), [2, 0, 0]);
    let indexing = index.indexing().expect("opens").expect("no other process");
    let mut batch = indexing.batch().expect("begins");
    batch.forget(&session("one")).expect("deleted");
    batch.forget(&session("never")).expect("nothing to delete");
    batch.commit().expect("committed");
    assert_eq!(indexing.checkpoint(&session("one")).expect("reads"), None);
    drop(indexing);
    assert_eq!(positions(&index, "alpha"), [0]);
    assert!(positions(&index, "beta").is_empty());
    add(&mut index, "one", &["beta again"]);
    assert_eq!(positions(&index, "beta"), [0]);
    assert!(index.examine().expect("reads").findings.is_empty());
}

#[test]
fn interleaved_sessions_are_deleted_one_by_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut index, _) = index_in(directory.path());
    for round in 0..5 {
        for name in ["one", "two", "two"] {
            add(&mut index, name, &[&format!("alpha {name} round{round}"), "more"]);
        }
    }
    for (name, left) in [("one", 10), ("two", 0)] {
        let indexing = index.indexing().expect("opens").expect("no other process");
        let mut batch = indexing.batch().expect("begins");
        batch.forget(&session(name)).expect("deleted");
        batch.commit().expect("committed");
        drop(indexing);
        assert_eq!(positions(&index, "alpha").len(), left);
        assert_eq!(positions(&index, "more").len(), left);
    }
    let examined = index.examine().expect("reads");
    assert!(examined.findings.is_empty() && examined.texts == 0 && examined.sessions == 0, "{examined:?}");
}

#[test]
fn a_batch_without_commit_leaves_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut index, _) = index_in(directory.path());
    {
        let indexing = index.indexing().expect("opens").expect("no other process");
        let mut batch = indexing.batch().expect("begins");
        let source = batch.source(&session("s"), None).expect("reads").expect("new");
        batch.add(source, &doc(0, "lost")).expect("added");
    }
    assert!(positions(&index, "lost").is_empty());
    add(&mut index, "s", &["kept"]);
    assert_eq!(positions(&index, "kept"), [0]);
}

#[test]
fn a_checkpoint_advances_only_from_its_expected_position() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut index, _) = index_in(directory.path());
    add(&mut index, "s", &["one"]);
    let indexing = index.indexing().expect("opens").expect("no other process");
    let mut batch = indexing.batch().expect("begins");
    assert_eq!(batch.source(&session("s"), None).expect("reads"), None, "another process was faster");
    assert_eq!(batch.source(&session("s"), Some(&checkpoint(9))).expect("reads"), None);
    assert!(batch.source(&session("s"), Some(&checkpoint(1))).expect("reads").is_some());
}

#[test]
fn one_process_writes_at_a_time_and_others_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut index, home) = index_in(directory.path());
    add(&mut index, "s", &["seen"]);
    let mut other = duolog_search::Index::open(directory.path(), home).expect("opens");
    let indexing = index.indexing().expect("opens").expect("no other process");
    let mut batch = indexing.batch().expect("begins");
    let source = batch.source(&session("s"), Some(&checkpoint(1))).expect("reads").expect("as found");
    batch.add(source, &doc(1, "unseen")).expect("added");
    assert!(other.indexing().expect("opens").is_none());
    assert_eq!((positions(&other, "seen"), positions(&other, "unseen")), (vec![0], vec![]));
    batch.commit().expect("committed");
    drop(indexing);
    assert_eq!(positions(&other, "unseen"), [1]);
    assert!(other.indexing().expect("opens").is_some());
}

#[test]
fn texts_are_filtered_by_kind_role_tool_and_time() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut index, _) = index_in(directory.path());
    let indexing = index.indexing().expect("opens").expect("no other process");
    let mut batch = indexing.batch().expect("begins");
    let long = "T".repeat(600);
    let docs = [
        Doc { at: 5, kind: "tool_call", tool: Some("Bash"), ..doc(0, "word") },
        Doc { at: 6, kind: "tool_result", tool: Some("Bash"), ..doc(1, "word") },
        Doc { at: 0, kind: "assistant", role: Some("moderator"), ..doc(2, "word") },
        Doc { at: 7, kind: "tool_call", tool: Some(&long), ..doc(3, "word") },
    ];
    for name in ["a", "b"] {
        let source = batch.source(&session(name), None).expect("reads").expect("new");
        for doc in &docs {
            batch.add(source, doc).expect("added");
        }
        batch.advance(source, &checkpoint(4)).expect("advanced");
    }
    batch.commit().expect("committed");
    drop(indexing);
    let found = |filter: Filter| -> Vec<u64> {
        let found = ask(&index, "word", &filter);
        found.iter().filter(|hit| hit.key.session == session("a")).map(|hit| hit.key.position.0).collect()
    };
    let role = |role: &str| Filter { role: Some(role.to_owned()), ..Filter::default() };
    let tool = |tool: &str| Filter { tool: Some(tool.to_owned()), ..Filter::default() };
    assert_eq!(found(Filter::default()), [3, 1, 0, 2], "newest first, texts without a time last");
    assert_eq!(found(role("Moderator")), [2]);
    assert_eq!(found(role("tool_call")), [3, 0]);
    assert_eq!(found(tool("bash")), [1, 0]);
    assert_eq!(found(tool(&long)), [3]);
    assert!(found(tool("nobody's")).is_empty());
    let since = |micros| Filter { since: Some(duolog_types::Timestamp::from_micros(micros)), ..Filter::default() };
    assert_eq!((found(since(6)), found(since(0))), (vec![3, 1], vec![3, 1, 0]));
    assert!(found(Filter { session: Some(session("b")), ..Filter::default() }).is_empty());
    assert_eq!(ask(&index, "word", &Filter { session: Some(session("b")), ..Filter::default() }).len(), 4);
    let first = &ask(&index, "word", &tool("bash"))[0];
    assert_eq!((first.kind.as_str(), first.tool.as_deref()), ("tool_result", Some("Bash")));
    assert_eq!(first.key.position, Position(1));
}

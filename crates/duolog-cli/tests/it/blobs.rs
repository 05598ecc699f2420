use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::kit::{Kit, Transcript};

/// Records a tool result that is stored as a blob.
fn record(kit: &Kit, session: &str, word: &str) {
    let whole = format!("{word}\\n").repeat(20_000);
    let event = format!("{{\"type\":\"tool_execution_end\",\"toolCallId\":\"d0\",\"result\":\"{whole}\"}}\n");
    let args = ["log", "record", "--session", session, "--prompt", "p", "--json"];
    assert_eq!(kit.feed(&args, event.as_bytes()).is(0).field("/blob_count"), 1);
}

fn files(kit: &Kit) -> Vec<PathBuf> {
    let folders = fs::read_dir(kit.home().join("state/blobs")).expect("blobs").flatten();
    let mut files: Vec<PathBuf> = folders
        .flat_map(|folder| fs::read_dir(folder.path()).expect("a folder").flatten())
        .map(|entry| entry.path())
        .collect();
    files.sort();
    files
}

/// Sets the time of every blob to long ago.
fn let_age(kit: &Kit) {
    for file in files(kit) {
        let long_ago = SystemTime::now() - Duration::from_hours(48);
        File::options().write(true).open(file).expect("a blob").set_modified(long_ago).expect("dated");
    }
}

#[test]
fn blobs_are_counted_and_unreferenced_ones_removed() {
    let kit = Kit::new();
    record(&kit, "one", "kept");
    record(&kit, "two", "kept");
    record(&kit, "two", "forgotten");
    let mut transcript = Transcript::default();
    transcript.run(&kit, &["state", "blobs"]).is(0);
    kit.run(&["sessions", "delete", "two", "--yes"]).is(0);
    let prune = ["state", "blobs", "--prune", "--yes", "--json"];
    let young = kit.run(&prune).is(0);
    assert_eq!(
        (young.field("/unreferenced_count"), young.field("/pruned/blob_ids")),
        (1.into(), serde_json::json!([]))
    );
    let_age(&kit);
    transcript.run(&kit, &["state", "blobs", "--json"]).is(0);
    kit.run(&["state", "blobs", "--prune"]).is(2).says("hint: add --yes");
    assert_eq!(files(&kit).len(), 2, "there is no terminal to ask on");
    transcript.run(&kit, &["state", "blobs", "--prune", "--yes"]).is(0);
    transcript.run(&kit, &["state", "blobs", "--prune"]).is(0);
    assert_eq!(files(&kit).len(), 1);
    kit.run(&["log", "verify", "--all"]).is(0);
    kit.snapshot("blobs", &transcript.0);
}

#[test]
fn verify_reports_a_referenced_blob_that_is_missing() {
    let kit = Kit::new();
    record(&kit, "one", "whole");
    kit.run(&["log", "verify", "one"]).is(0);
    kit.run(&["state", "backup", "copy"]).is(0);
    let blob = files(&kit).remove(0);
    fs::write(&blob, "forged").expect("written");
    kit.run(&["log", "verify", "one"]).is(4).says("the blob that line 2 names is damaged");
    fs::remove_file(&blob).expect("removed");
    let ran = kit.run(&["log", "verify", "one", "--json"]).is(4);
    assert_eq!((ran.field("/results/0/status"), ran.field("/results/0/lost_blobs")), ("damaged".into(), 1.into()));
    assert_eq!(ran.field("/results/0/places/0/kind"), "blob");
    kit.run(&["doctor"]).is(4);
    let missing = kit.run(&["state", "backup", "missing", "--json"]).is(4).says("could not be copied: it is missing");
    assert_eq!(missing.field("/blob_failures/0/reason"), "it is missing");
    fs::write(&blob, "forged").expect("written");
    let damaged = kit.run(&["state", "backup", "damaged", "--json"]).is(4).says("could not be copied: blob");
    assert_eq!((damaged.field("/log_count"), damaged.field("/blob_count")), (1.into(), 0.into()), "the rest is copied");
    let named = blob.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
    assert_eq!(damaged.field("/blob_failures/0/blob_id"), named);
    assert_eq!(damaged.field("/blob_failures").as_array().map(Vec::len), Some(1));
    kit.run(&["state", "backup", "told"]).is(4).says(&format!("blob {named} could not be copied"));
    fs::remove_file(&blob).expect("removed");
    kit.run(&["--home", "copy", "log", "verify", "one"]).is(0);
    kit.run(&["--home", "copy", "doctor"]).is(0);
    // A text that looks like a reference needs no blob.
    let digits = "0".repeat(64);
    kit.append(
        "two",
        &format!("{{\"type\":\"user\",\"text\":\"see blob:{digits} \\\"fullOutput\\\":\\\"blob:{digits}\\\"\"}}\n"),
    );
    kit.run(&["log", "verify", "two"]).is(0);
}

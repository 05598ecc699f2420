//! Homes of earlier versions: `fixtures/homes` has one per schema version.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::kit::{Kit, lines_of};

/// Unpacks a home of a schema version.
fn home_of(version: u32) -> Kit {
    let kit = Kit::new();
    let archives = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/homes");
    let archive = archives.join(format!("schema-{version}.tar.gz"));
    let status = Command::new("tar").arg("-xzpf").arg(&archive).arg("-C").arg(kit.dir.path()).status();
    assert!(status.expect("tar runs").success(), "{}", archive.display());
    kit
}

fn json(kit: &Kit, args: &[&str]) -> Value {
    let ran = kit.run(&[args, &["--json"]].concat()).is(0);
    serde_json::from_slice(&ran.stdout).expect("JSON")
}

/// Returns the texts at a pointer of each element, without those that have none.
fn texts(list: &Value, pointer: &str) -> Vec<String> {
    let list = list.as_array().expect("a list").iter();
    list.filter_map(|one| one.pointer(pointer)?.as_str().map(str::to_owned)).collect()
}

#[test]
fn a_home_of_the_first_schema_opens_and_takes_appends() {
    let kit = home_of(100);
    let sessions = json(&kit, &["sessions", "list", "--order", "created"]);
    assert_eq!(texts(&sessions["sessions"], "/name"), ["plain", "demo"]);
    let items = json(&kit, &["sessions", "items", "demo"]);
    assert_eq!(texts(&items["items"], "/content"), ["one", "two"]);
    let items = json(&kit, &["sessions", "items", "demo", "--branch", "other"]);
    assert_eq!(texts(&items["items"], "/content"), ["one", "three"]);
    let near = json(&kit, &["sessions", "similar", "--vector", "[0,1]", "--k", "1"]);
    assert_eq!(texts(&near["messages"], "/content/content"), ["two"]);
    let inbox = json(&kit, &["sessions", "inbox", "demo"]);
    assert_eq!(texts(&inbox["messages"], "/content"), ["to the session"]);
    let inbox = json(&kit, &["sessions", "inbox", "--topic", "demo"]);
    assert_eq!(texts(&inbox["messages"], "/content"), ["to the topic"]);
    let runs = json(&kit, &["runs", "list"]);
    assert_eq!(texts(&runs["runs"], "/status"), ["paused"]);
    let gates = json(&kit, &["approvals", "list"]);
    assert_eq!(texts(&gates["approvals"], "/gate"), ["review"]);

    let before = lines_of(&kit.log_of("plain"));
    assert_eq!(before[0], "{\"n\":1}");
    kit.run(&["log", "append", "--session", "plain", "--operation-id", "first", "--line", "{\"n\":1}"]).is(0);
    assert_eq!(lines_of(&kit.log_of("plain")), before, "the operation is known");
    kit.append("plain", "{\"n\":2}\n");
    assert_eq!(lines_of(&kit.log_of("plain")), [&before[..], &["{\"n\":2}".to_owned()]].concat());
    kit.run(&["sessions", "add", "--session", "demo", "--item", "{\"content\":\"four\"}"]).is(0);
    let items = json(&kit, &["sessions", "items", "demo"]);
    assert_eq!(texts(&items["items"], "/content"), ["one", "two", "four"]);
    kit.run(&["approvals", "approve", gates["approvals"][0]["id"].as_str().expect("an id")]).is(0);
    kit.run(&["doctor"]).is(0);
}

use std::process::Stdio;

use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use crate::kit::{Kit, Transcript};

on_both_engines!(
    a_conversation_branches_and_is_summarised,
    eight_commands_add_to_one_session,
    a_refused_command_leaves_no_session,
    a_command_that_is_repeated_creates_one_session
);

/// The names of all sessions.
fn sessions(kit: &Kit) -> Vec<String> {
    let list = kit.run(&["sessions", "list", "--json"]).is(0).text();
    let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
    let all = list["sessions"].as_array().expect("a list");
    all.iter().map(|session| session["name"].as_str().unwrap_or_default().to_owned()).collect()
}

fn a_refused_command_leaves_no_session(place: &Place) {
    let kit = Kit::on(place);
    kit.run(&["sessions", "add", "--session", "first", "--item", "1", "--id", "m"]).is(0);
    let refused: [(&[&str], &[u8], i32); 13] = [
        (&["sessions", "add", "--item", "NaN"], b"", 2),
        (&["sessions", "add"], b"{} {", 2),
        (&["sessions", "add", "--item", "1", "--embedding", "[]"], b"", 2),
        (&["sessions", "add", "--item", "1", "--embedding", "[1]", "--embedding", "[2]"], b"", 2),
        (&["sessions", "add", "--item", "2", "--id", "m"], b"", 1),
        (&["sessions", "add", "--item", "1", "--id", "a", "--id", "b"], b"", 2),
        (&["sessions", "add", "--item", "1", "--metadata", "1"], b"", 2),
        (&["sessions", "add", "--item", "1", "--branch", "nowhere"], b"", 1),
        (&["log", "append", "--line", "NaN"], b"", 2),
        (&["log", "append", "--line", "{}", "--if-position", "7"], b"", 7),
        (&["log", "append", "--line", "{}", "--if-position", "7", "--operation-id", "op"], b"", 7),
        (&["log", "append", "--each"], b"NaN\n", 2),
        (&["log", "append", "--each", "--if-position", "7"], b"{}\n", 7),
    ];
    for (command, input, code) in refused {
        for target in [["--session", "new"], ["--user-email", "ada"], ["--session-name", "plan"]] {
            let ran = kit.feed(&[command, &target[..]].concat(), input);
            assert!(ran.code == Some(code) || (code == 7 && ran.code == Some(1)), "{command:?}: {}", ran.stderr);
            assert_eq!(sessions(&kit), ["first"], "{command:?} {target:?}");
        }
    }
    kit.run(&["sessions", "new", "--name", "new", "--pid", "999999999"]).is(2);
    kit.run(&["sessions", "new", "--name", "new", "--started-at", "2026-01-02", "--ended-at", "2026-01-01"]).is(2);
    assert_eq!(sessions(&kit), ["first"]);
}

fn a_command_that_is_repeated_creates_one_session(place: &Place) {
    let kit = Kit::on(place);
    for command in [&["sessions", "add", "--item", "1"][..], &["log", "append", "--line", "{}"]] {
        let command = [command, &["--user-email", "ada", "--operation-id", "op", "--json"]].concat();
        let first = kit.run(&command).is(0).text();
        for _ in 0..2 {
            assert_eq!(kit.run(&command).is(0).text(), first);
        }
    }
    assert_eq!(sessions(&kit).len(), 2);
}

/// What sessions, branches and items say about themselves.
#[test]
fn what_is_known_is_set_and_shown() {
    let kit = Kit::new();
    let mut said = Transcript::default();
    let new = ["sessions", "new", "--name", "demo", "--agent", "coder", "--kind", "play", "--playbook", "review"];
    kit.run(&[&new[..], &["--source", "imported_fs", "--started-at", "2026-01-31T09:30:00Z"]].concat()).is(0);
    kit.run(&["sessions", "new", "--name", "other"]).is(0);
    let set = ["sessions", "set", "demo", "--show-topic", "tests", "--play", "act 1", "--artifacts", "/srv/a"];
    said.run(&kit, &set).is(0);
    said.run(&kit, &["sessions", "set", "demo", "--playbook", ""]).is(0);
    said.run(&kit, &["sessions", "set", "demo"]).is(2);
    said.run(&kit, &["sessions", "set", "demo", "--ended-at", "2026-01-30"]).is(2);
    said.run(&kit, &["sessions", "show", "demo"]).is(0);
    said.run(&kit, &["sessions", "show", "demo", "--json"]).is(0);
    for filter in [["--agent", "coder"], ["--kind", "play"], ["--source", "imported_fs"], ["--since", "1h"]] {
        let text = kit.run(&[&["sessions", "list"], &filter[..]].concat()).is(0).text();
        assert!(text.contains("demo"), "{filter:?}: {text}");
    }
    said.run(&kit, &["sessions", "list", "--playbook", "review"]).is(0);
    said.run(&kit, &["sessions", "branch", "new", "demo", "--name", "first", "--metadata", "{\"model\":1}"]).is(0);
    said.run(&kit, &["sessions", "branch", "rename", "demo", "--branch", "first", "--name", "main"]).is(0);
    said.run(&kit, &["sessions", "branch", "set", "demo", "--metadata", "{\"model\":2}"]).is(0);
    said.run(&kit, &["sessions", "branches", "demo", "--json"]).is(0);
    let about = ["--id", "m-1", "--role", "tool", "--sender", "ada", "--lion-class", "a.B", "--metadata", "{\"a\":1}"];
    let add = ["sessions", "add", "--session", "demo", "--item", "{\"text\":\"hi\"}", "--embedding", "[0.5]"];
    said.run(&kit, &[&add[..], &about].concat()).is(0);
    said.run(&kit, &[&add[..], &about].concat()).is(0);
    said.run(&kit, &["sessions", "add", "--session", "demo", "--item", "2", "--id", "m-1"]).is(1);
    said.run(&kit, &["sessions", "items", "demo", "--detail"]).is(0);
    said.run(&kit, &["sessions", "items", "demo", "--detail", "--json"]).is(0);
    said.run(&kit, &["sessions", "items", "demo", "--pool"]).is(0);
    said.run(&kit, &["sessions", "close", "demo", "--reason", "done", "--by", "ada"]).is(0);
    said.run(&kit, &["sessions", "history", "demo"]).is(0);
    said.run(&kit, &["sessions", "history", "demo", "--json"]).is(0);
    said.run(&kit, &["sessions", "send", "--to", "demo", "--content", "1", "--id", "note"]).is(0);
    said.run(&kit, &["sessions", "rename", "demo", "renamed", "--quiet"]).is(0);
    said.run(&kit, &["sessions", "inbox", "renamed"]).is(0);
    said.run(&kit, &["sessions", "send", "--to", "demo", "--content", "1"]).is(1);
    said.run(&kit, &["sessions", "send", "--to", "renamed", "--content", "2", "--id", "note"]).is(1);
    said.run(&kit, &["sessions", "delete", "--all"]).is(2);
    said.run(&kit, &["sessions", "delete", "--all", "--user-email", "nobody", "--yes"]).is(0);
    said.run(&kit, &["sessions", "delete", "--all", "--yes"]).is(0);
    said.run(&kit, &["sessions", "delete", "--all", "renamed"]).is(2);
    assert_eq!(sessions(&kit), Vec::<String>::new());
    kit.snapshot("described", &said.0);
}

#[test]
fn what_the_commands_say() {
    let kit = Kit::new();
    let mut said = Transcript::default();
    let items = b"{\"role\":\"user\",\"content\":\"hello\"}\n{\"role\":\"assistant\",\"content\":\"hi\"}\n[1,\n 2]\n";
    said.feed(&kit, &["sessions", "add", "--session", "demo", "--system", "\"be brief\""], items).is(0);
    said.run(&kit, &["sessions", "items", "demo"]).is(0);
    said.run(&kit, &["sessions", "items", "demo", "--limit", "1", "--json"]).is(0);
    said.run(&kit, &["sessions", "fork", "demo", "--at", "1", "--name", "again"]).is(0);
    said.run(&kit, &["sessions", "add", "--session", "demo", "--branch", "again", "--item", "{}", "--json"]).is(0);
    said.run(&kit, &["sessions", "fork", "demo", "--branch", "again", "--name", "deeper", "--json"]).is(0);
    said.run(&kit, &["sessions", "fork", "demo", "--name", "late"]).is(0);
    said.run(&kit, &["sessions", "branches", "demo"]).is(0);
    said.run(&kit, &["sessions", "branches", "demo", "--json"]).is(0);
    said.run(&kit, &["sessions", "show", "demo"]).is(0);
    std::fs::write(kit.dir.path().join("summary.json"), "{\"type\":\"compaction\"}\n").expect("written");
    let compact = ["sessions", "compact", "demo", "--summary-file", "summary.json", "--to", "2"];
    said.run(&kit, &compact).is(0);
    said.run(&kit, &["sessions", "compact", "demo", "--info"]).is(0);
    said.run(&kit, &["sessions", "compact", "demo", "--info", "--json"]).is(0);
    said.run(&kit, &["sessions", "items", "demo"]).is(0);
    said.run(&kit, &["sessions", "compact", "demo", "--undo", "--json"]).is(0);
    said.run(&kit, &["sessions", "compact", "demo", "--undo"]).is(1);
    said.run(&kit, &["sessions", "pop", "demo"]).is(0);
    said.run(&kit, &["sessions", "pop", "demo", "--json"]).is(0);
    said.run(&kit, &["sessions", "clear", "demo"]).is(2);
    said.run(&kit, &["sessions", "clear", "demo", "--yes", "--json"]).is(0);
    said.run(&kit, &["sessions", "pop", "demo", "--json"]).is(1);
    said.run(&kit, &["sessions", "close", "demo", "--status", "failed", "--reason", "it broke", "--by", "ada"]).is(0);
    said.run(&kit, &["sessions", "close", "demo", "--json"]).is(1);
    said.run(&kit, &["sessions", "reopen", "demo", "--reason", "again", "--by", "ada", "--json"]).is(0);
    said.run(&kit, &["sessions", "send", "--topic", "ada", "--from", "demo", "--content", "\"done\""]).is(0);
    said.run(&kit, &["sessions", "send", "--topic", "ada", "--id", "m", "--content", "{}", "--json"]).is(0);
    said.run(&kit, &["sessions", "inbox", "--topic", "ada", "--json"]).is(0);
    said.run(&kit, &["sessions", "inbox", "--topic", "ada", "--limit", "1", "--ack"]).is(0);
    said.run(&kit, &["sessions", "inbox", "--topic", "ada", "--ack"]).is(0);
    said.run(&kit, &["sessions", "inbox", "--topic", "ada"]).is(0);
    kit.snapshot("conversations", &said.0);
}

#[test]
fn what_is_wrong_is_said_with_a_way_out() {
    let kit = Kit::new();
    let mut said = Transcript::default();
    said.run(&kit, &["sessions", "add", "--session", "demo", "--item", "NaN"]).is(2);
    said.feed(&kit, &["sessions", "add", "--session", "demo"], b"{} {").is(2);
    kit.run(&["sessions", "add", "--session", "demo", "--item", "1", "--item", "2"]).is(0);
    said.run(&kit, &["sessions", "fork", "demo", "--at", "3", "--json"]).is(2);
    said.run(&kit, &["sessions", "items", "demo", "--branch", "none"]).is(1);
    said.run(&kit, &["sessions", "pop", "nobody"]).is(1);
    let add = ["sessions", "add", "--session", "demo", "--operation-id", "op", "--quiet", "--item"];
    said.run(&kit, &[&add[..], &["3"]].concat()).is(0);
    said.run(&kit, &[&add[..], &["3"]].concat()).is(0);
    said.run(&kit, &[&add[..], &["4"]].concat()).is(1);
    said.run(&kit, &["sessions", "items", "demo"]).is(0);
    said.run(&kit, &["sessions", "reopen", "demo", "--reason", "x", "--by", "ada"]).is(1);
    said.run(&kit, &["sessions", "reopen", "demo", "--reason", " ", "--by", "ada"]).is(2);
    said.run(&kit, &["sessions", "close", "demo", "--status", "done"]).is(2);
    said.run(&kit, &["sessions", "compact", "demo"]).is(2);
    kit.snapshot("conversations_wrong", &said.0);
}

fn a_conversation_branches_and_is_summarised(place: &Place) {
    let kit = Kit::on(place);
    kit.feed(&["sessions", "add", "--user-email", "ada@example.com", "--session-name", "plan"], b"1 2 3").is(0);
    let plan = ["--user-email", "ada@example.com", "--session-name", "plan"];
    let with = |args: &[&'static str]| [&["sessions"], args, &plan].concat();
    let branch = kit.run(&with(&["fork", "--at", "2"])).is(0).text();
    let branch = branch.trim();
    kit.run(&[&with(&["add", "--item", "4"])[..], &["--branch", branch]].concat()).is(0);
    kit.run(&with(&["pop"])).is(0);
    assert_eq!(kit.run(&with(&["items"])).is(0).text(), "1\n2\n");
    assert_eq!(kit.run(&[&with(&["items"])[..], &["--branch", branch]].concat()).is(0).text(), "1\n2\n4\n");
    let summary = kit.feed(&with(&["compact", "--summary-file", "-"]), b"\"all\"");
    summary.is(0);
    assert_eq!(kit.run(&with(&["items"])).is(0).text(), "\"all\"\n");
    assert_eq!(kit.run(&with(&["items", "--full"])).is(0).text(), "1\n2\n");
}

fn eight_commands_add_to_one_session(place: &Place) {
    let kit = Kit::on(place);
    kit.run(&["sessions", "add", "--session", "demo", "--item", "\"first\""]).is(0);
    let start = |number: usize| {
        let items: Vec<String> = (0..4).map(|part| format!("[{number},{part}]")).collect();
        let mut args = vec!["sessions", "add", "--session", "demo"];
        args.extend(items.iter().flat_map(|item| ["--item", item.as_str()]));
        kit.command(&args).stdout(Stdio::null()).spawn().expect("starts")
    };
    let commands: Vec<_> = (0..8).map(start).collect();
    for mut command in commands {
        assert!(command.wait().expect("ends").success());
    }
    let text = kit.run(&["sessions", "items", "demo"]).is(0).text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[0]), (33, "\"first\""));
    for batch in lines[1..].chunks(4) {
        let start = batch[0].strip_suffix("0]").expect("the first of a batch");
        assert_eq!(batch, [0, 1, 2, 3].map(|part| format!("{start}{part}]")), "batches are whole");
    }
}

#[test]
fn a_session_with_many_branches_says_that_not_all_are_shown() {
    let kit = Kit::new();
    kit.run(&["sessions", "add", "--session", "s", "--item", "1"]).is(0);
    for number in 1..200 {
        kit.run(&["sessions", "branch", "new", "s", "--name", &format!("b{number}")]).is(0);
    }
    let shown = kit.run(&["sessions", "show", "s", "--json"]).is(0);
    assert_eq!(shown.field("/branches").as_array().map(Vec::len), Some(200));
    assert_eq!(shown.field("/branches_next"), serde_json::Value::Null);
    kit.run(&["sessions", "branch", "new", "s", "--name", "last"]).is(0);
    let shown = kit.run(&["sessions", "show", "s", "--json"]).is(0).says("200 of 201 branches are shown");
    let next = shown.field("/branches_next");
    let rest = kit.run(&["sessions", "branches", "s", "--json", "--after", next.as_str().expect("an id")]).is(0);
    assert_eq!(rest.field("/branches").as_array().map(Vec::len), Some(1));
}

#[test]
fn an_export_removes_what_a_killed_one_left() {
    let kit = Kit::new();
    kit.run(&["sessions", "add", "--session", "s", "--item", "1"]).is(0);
    let place = |name: &str| kit.dir.path().join(name);
    // No process has such a number; the other is this one.
    let (dead, live) = (place("s.json.part-4294967295"), place(&format!("s.json.part-{}", std::process::id())));
    let others = [place("t.json.part-4294967295"), place("s.json.part-x"), place("s.json.part"), live];
    for path in others.iter().chain([&dead]) {
        std::fs::write(path, "{").expect("written");
    }
    kit.run(&["sessions", "export", "s", "--output", "s.json"]).is(0);
    assert!(!dead.exists());
    assert!(others.iter().all(|path| path.exists()), "what is somebody else's stays");
    kit.run(&["--home", "other", "sessions", "import", "s.json"]).is(0);
}

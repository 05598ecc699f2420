use std::process::Stdio;

use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use crate::kit::{Kit, Transcript};

on_both_engines!(a_conversation_branches_and_is_summarised, eight_commands_add_to_one_session);

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
    said.run(&kit, &["sessions", "close", "demo", "--status", "failed", "--reason", "it broke", "--actor", "ada"])
        .is(0);
    said.run(&kit, &["sessions", "close", "demo", "--json"]).is(1);
    said.run(&kit, &["sessions", "reopen", "demo", "--reason", "again", "--actor", "ada", "--json"]).is(0);
    said.run(&kit, &["sessions", "send", "--to", "ada", "--from", "demo", "--content", "\"done\""]).is(0);
    said.run(&kit, &["sessions", "send", "--to", "ada", "--id", "m", "--content", "{}", "--json"]).is(0);
    said.run(&kit, &["sessions", "inbox", "ada", "--json"]).is(0);
    said.run(&kit, &["sessions", "inbox", "ada", "--limit", "1", "--ack"]).is(0);
    said.run(&kit, &["sessions", "inbox", "ada", "--ack"]).is(0);
    said.run(&kit, &["sessions", "inbox", "ada"]).is(0);
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
    let add = ["sessions", "add", "--session", "demo", "--operation", "op", "--quiet", "--item"];
    said.run(&kit, &[&add[..], &["3"]].concat()).is(0);
    said.run(&kit, &[&add[..], &["3"]].concat()).is(0);
    said.run(&kit, &[&add[..], &["4"]].concat()).is(1);
    said.run(&kit, &["sessions", "items", "demo"]).is(0);
    said.run(&kit, &["sessions", "reopen", "demo", "--reason", "x", "--actor", "ada"]).is(1);
    said.run(&kit, &["sessions", "reopen", "demo", "--reason", " ", "--actor", "ada"]).is(2);
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

use std::process::Stdio;

use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use crate::kit::{Kit, Ran, Transcript};

on_both_engines!(eight_processes_have_one_chat);

const AT: [&str; 6] = ["--platform", "slack", "--channel", "C1", "--user", "U1"];

fn at<'a>(verb: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    [&["chats", verb], &AT[..], rest].concat()
}

#[test]
fn output_of_the_commands() {
    let kit = Kit::new();
    let mut said = Transcript::default();
    said.run(&kit, &["chats", "list"]).is(0);
    let first = said.run(&kit, &at("add", &["--platform-message-id", "m1", "hello", "--json"])).is(0);
    let chat = first.field("/chat_id").as_str().expect("an id").to_owned();
    said.run(&kit, &at("add", &["--platform-message-id", "m1", "hello"])).is(0);
    said.feed(&kit, &at("add", &["--thread", "17.5"]), b"two\nlines\n").is(0);
    kit.append("demo", "{\"type\":\"user\",\"text\":\"hello\"}\n");
    let session = kit.run(&["sessions", "show", "demo", "--json"]).is(0).field("/session/id");
    let session = session.as_str().expect("an id");
    let answer = ["chats", "add", "--chat", &chat, "--role", "assistant", "--agent-session", session, "hi \u{1b}[31m"];
    said.run(&kit, &answer).is(0);
    said.run(&kit, &["chats", "list", "--active"]).is(0);
    said.run(&kit, &["chats", "list", "--limit", "1", "--json"]).is(0);
    said.run(&kit, &["chats", "show", &chat]).is(0);
    said.run(&kit, &["chats", "show", &chat, "--json"]).is(0);
    said.run(&kit, &["chats", "history", &chat]).is(0);
    said.run(&kit, &["chats", "history", &chat, "--limit", "1", "--json"]).is(0);
    said.run(&kit, &at("reset", &[])).is(0);
    said.run(&kit, &at("reset", &["--json"])).is(1);
    said.run(&kit, &["chats", "show", &chat]).is(0);
    // A message that the platform delivers again is known, and starts no chat.
    said.run(&kit, &at("add", &["--platform-message-id", "m1", "hello"])).is(0);
    said.run(&kit, &at("add", &["--platform-message-id", "m1", "hello", "--json"])).is(0);
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"1\.[0-9a-f]{10,}\.", "1.[micros].");
    settings.bind(|| kit.snapshot("chats", &said.0.replace('\u{1b}', "\\e")));
}

#[test]
fn errors_have_hints() {
    let kit = Kit::new();
    let mut said = Transcript::default();
    said.run(&kit, &["chats", "add", "hello"]).is(2);
    said.run(&kit, &["chats", "add", "--platform", "slack", "hello"]).is(2);
    said.run(&kit, &at("add", &["--role", "system", "hello"])).is(2);
    said.run(&kit, &at("add", &["--thread", "", "hello"])).is(2);
    kit.run(&at("add", &["hello"])).is(0);
    said.run(&kit, &["chats", "show", "none"]).is(1);
    said.run(&kit, &["chats", "add", "--chat", "none", "hello", "--json"]).is(1);
    said.run(&kit, &["chats", "list", "--after", "x"]).is(2);
    said.feed(&kit, &at("add", &[]), "x".repeat((1 << 20) + 1).as_bytes()).is(2);
    kit.snapshot("chats_wrong", &said.0);
    assert_eq!(kit.run(&["chats", "list", "--json"]).is(0).field("/chats/0/message_count"), 1);
}

#[test]
fn a_chat_ends_after_the_configured_idle_time() {
    let kit = Kit::new();
    let add = || kit.run(&at("add", &["hello", "--json"])).is(0).field("/chat_created");
    assert_eq!((add(), add()), (true.into(), false.into()));
    let database = rusqlite::Connection::open(kit.home().join("state/state.db")).expect("opens");
    let past = "UPDATE messaging_sessions SET last_activity_at = '2020-01-01T00:00:00.000000Z'";
    assert_eq!(database.execute(past, []).expect("changed"), 1);
    drop(database);
    assert_eq!(add(), true);
    assert_eq!(
        kit.run(&["chats", "list", "--active", "--json"]).is(0).field("/chats").as_array().map(Vec::len),
        Some(1)
    );
    assert_eq!(kit.run(&["chats", "list", "--json"]).is(0).field("/chats").as_array().map(Vec::len), Some(2));
}

fn eight_processes_have_one_chat(place: &Place) {
    // On a server each process has its own home; with SQLite they share one.
    let kits: Vec<Kit> = (0..if place.database().is_some() { 8 } else { 1 }).map(|_| Kit::on(place)).collect();
    kits[0].run(&["state", "migrate"]).is(0);
    let start = |number: usize| {
        let text = number.to_string();
        let args = at("add", &["--json", "--platform-message-id", if number < 2 { "same" } else { &text }, &text]);
        let mut command = kits[number % kits.len()].command(&args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts")
    };
    let processes: Vec<_> = (0..8).map(start).collect();
    let answers: Vec<Ran> =
        processes.into_iter().map(|process| Ran::of(process.wait_with_output().expect("ends")).is(0)).collect();
    let chat = answers[0].field("/chat_id");
    assert!(answers.iter().all(|ran| ran.field("/chat_id") == chat));
    let count = |pointer: &str| answers.iter().filter(|ran| ran.field(pointer) == true).count();
    assert_eq!(
        (count("/chat_created"), count("/existed")),
        (1, 1),
        "one process starts it, and a repeated message is stored once"
    );
    let history = kits[0].run(&["chats", "history", chat.as_str().expect("an id"), "--json"]).is(0);
    assert_eq!(history.field("/messages").as_array().map(Vec::len), Some(7));
}

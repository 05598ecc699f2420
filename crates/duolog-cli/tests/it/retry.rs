use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use crate::kit::Kit;

on_both_engines!(every_command_that_changes_rows_answers_a_retry_as_it_did_at_first,);

/// Runs a command twice under one operation id: both times it answers the same, and with another argument it is refused.
fn twice(kit: &Kit, id: &str, args: &[&str], other: &[&str]) -> String {
    let with = |args: &[&str]| {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let more = ["--operation-id".to_owned(), id.to_owned(), "--json".to_owned()];
        args.into_iter().chain(more).collect::<Vec<_>>()
    };
    let run = |args: &[&str]| {
        let args = with(args);
        kit.run(&args.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let first = run(args).is(0).text();
    let again = run(args).is(0).text();
    assert_eq!(first, again, "{args:?}");
    if !other.is_empty() {
        let refused = run(&[args, other].concat()).is(1);
        let message = refused.field("/error/message");
        assert!(message.as_str().is_some_and(|text| text.contains("was used with other content before")), "{message}");
    }
    first
}

fn every_command_that_changes_rows_answers_a_retry_as_it_did_at_first(place: &Place) {
    let kit = Kit::on(place);
    let by = ["--actor", "somebody"];
    let field = |text: &str, pointer: &str| {
        let value: serde_json::Value = serde_json::from_str(text).expect("JSON");
        let found = value.pointer(pointer).unwrap_or_else(|| panic!("no {pointer} in {text}"));
        found.as_str().map_or_else(|| found.to_string(), str::to_owned)
    };
    // Sessions and their conversations.
    twice(&kit, "o1", &["sessions", "new", "--name", "s"], &["--agent", "other"]);
    twice(&kit, "o2", &["log", "append", "--session", "s", "--line", "{\"n\":1}"], &["--line", "{}"]);
    twice(&kit, "o3", &["sessions", "close", "s"], &by);
    twice(&kit, "o4", &["sessions", "reopen", "s", "--reason", "more", "--actor", "ada"], &[]);
    let items = b"[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"b\"}]";
    kit.feed(&["sessions", "add", "--session", "s"], items).is(0);
    twice(&kit, "o5", &["sessions", "fork", "s", "--at", "1"], &["--name", "other"]);
    twice(&kit, "o6", &["sessions", "send", "--mailbox", "r", "--content", "\"hello\""], &["--channel", "c"]);
    twice(&kit, "o7", &["sessions", "pop", "s"], &["--branch", "other"]);
    twice(&kit, "o8", &["sessions", "delete", "s", "--log", "--yes"], &[]);
    // Runs and gates.
    let started = twice(&kit, "r1", &["runs", "start", "build", "--trigger", "t"], &["--repo", "a/b"]);
    let run = field(&started, "/run/id");
    let claim = twice(&kit, "r2", &["runs", "claim", &run, "--owner", "w"], &["--lease", "5m"]);
    let fence = field(&claim, "/fence");
    let under = ["--fence", &fence];
    twice(&kit, "r3", &[&["runs", "renew", &run][..], &under].concat(), &["--lease", "5m"]);
    twice(&kit, "r4", &[&["runs", "phase", "enter", &run, "plan"][..], &under].concat(), &[]);
    let asked = twice(
        &kit,
        "r5",
        &[&["runs", "gate", &run, "ship", "--summary", "may it?"][..], &under].concat(),
        &["--hash", "x"],
    );
    let gate = field(&asked, "/approval/id");
    twice(&kit, "r6", &["approvals", "approve", &gate, "--by", "ada"], &["--response", "yes"]);
    let claim = twice(&kit, "r7", &["runs", "claim", &run, "--owner", "w"], &["--lease", "5m"]);
    let fence = field(&claim, "/fence");
    let under = ["--fence", &fence];
    twice(&kit, "r8", &[&["runs", "acknowledge", &run, &gate][..], &under].concat(), &[]);
    twice(&kit, "r9", &["runs", "cancel", &run, "--reason", "no"], &by);
    twice(&kit, "r10", &["runs", "retry", &run], &["--reason", "again"]);
    // Schedules, workflows, chats.
    twice(&kit, "w1", &["workflows", "disable", "build"], &["--by", "somebody"]);
    twice(&kit, "w2", &["workflows", "enable", "build"], &["--by", "somebody"]);
    twice(&kit, "w3", &["workflows", "clear", "build"], &[]);
    let chat = ["chats", "add", "--platform", "p", "--channel", "c", "--user", "u", "hello"];
    twice(&kit, "c1", &chat, &["--role", "assistant"]);
    assert_eq!(kit.run(&["chats", "list", "--json"]).is(0).field("/chats/0/message_count").as_u64(), Some(1));
}

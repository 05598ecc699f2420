use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use duolog_testkit::replay::WITHOUT_OWNED_ROWS;

use crate::kit::{Kit, lines_of};
use crate::schedules::configure;

on_both_engines!(
    every_command_that_changes_rows_answers_a_retry_as_it_did_at_first,
    each_event_is_recorded_once_under_its_operation,
    each_line_is_appended_once_under_its_operation,
    a_retried_repair_returns_its_first_answer,
    a_retried_inbox_shows_the_acknowledged_messages,
    a_tick_under_an_operation_id_fires_once,
    a_retry_after_its_session_was_deleted_creates_nothing,
    a_retry_whose_session_was_created_again_appends_nothing,
    a_retry_after_a_deletion_gets_its_answer_or_is_told,
    the_operation_of_an_append_is_of_one_session_whether_it_exists_or_not,
    items_are_added_once_whatever_the_session_is_called,
);

/// Every command that changes owned rows takes an operation id, and no other does.
#[test]
fn every_command_that_changes_owned_rows_takes_an_operation_id() {
    let docs = Kit::new().run(&["docs"]).is(0).text();
    let sections: Vec<(&str, &str)> =
        docs.split("\n## duolog").skip(1).filter_map(|section| section.split_once('\n')).collect();
    let is_noun = |name: &str| sections.iter().any(|(other, _)| other.starts_with(&format!("{name} ")));
    let commands: Vec<_> = sections.iter().filter(|(name, _)| !is_noun(name)).collect();
    for (name, text) in &commands {
        let is_exempt = WITHOUT_OWNED_ROWS.contains(&name.trim());
        assert_eq!(text.contains("--operation-id <ID>"), !is_exempt, "{name}");
    }
    assert!(commands.len() > WITHOUT_OWNED_ROWS.len(), "only {} commands were found", commands.len());
}

/// A recording that was interrupted is repeated with more input: recorded events are not written again, although their
/// lines would get other timestamps and ids.
fn each_event_is_recorded_once_under_its_operation(place: &Place) {
    let kit = Kit::on(place);
    let events = [
        r#"{"type":"message_end","message":{"role":"user","content":"count"}}"#,
        r#"{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"one"}]}}"#,
        r#"{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"one"}]}}"#,
        "no event",
        r#"{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"two"}]}}"#,
    ];
    let input = |count: usize| events[..count].join("\n") + "\n";
    let record = |count| kit.feed(&["log", "record", "--session", "s", "--operation-id", "r"], input(count).as_bytes());
    let lines = || lines_of(&kit.log_of("s"));
    record(3).is(0);
    let cut_off = lines();
    record(3).is(0);
    assert_eq!(lines(), cut_off, "the same input adds nothing");
    record(5).is(0);
    let whole = lines();
    assert_eq!(whole[..cut_off.len()], cut_off[..], "recorded lines are kept");
    let said = |text: &str| whole.iter().filter(|line| line.contains(&format!("\"{text}\""))).count();
    assert_eq!((said("count"), said("one"), said("two"), said("no event")), (1, 2, 1, 1), "{whole:#?}");
    record(5).is(0);
    assert_eq!(lines(), whole, "the same input adds nothing");
    let other = input(5).replace("\"one\"", "\"eins\"");
    kit.feed(&["log", "record", "--session", "s", "--operation-id", "r"], other.as_bytes()).is(1);
    assert_eq!(lines(), whole, "another input under the id is a conflict");
}

fn each_line_is_appended_once_under_its_operation(place: &Place) {
    let kit = Kit::on(place);
    let args = ["log", "append", "--session", "s", "--each", "--operation-id", "e", "--json"];
    let first = kit.feed(&args, b"{}\n{}\n").is(0).text();
    let again = kit.feed(&args, b"{}\n{}\n{}\n").is(0).text();
    assert!(again.starts_with(&first), "{first}{again}");
    assert_eq!(kit.run(&["log", "cat", "s"]).is(0).text(), "{}\n{}\n{}\n");
    kit.feed(&args[..args.len() - 1], b"{}\n{\"n\":1}\n").is(1).says("was used with other content before");
    let long = "x".repeat(127);
    let too_long = ["log", "append", "--session", "s", "--each", "--operation-id", &long];
    kit.feed(&too_long, b"{}\n").is(2).says("use a shorter --operation-id");
    assert_eq!(kit.run(&["log", "cat", "s"]).is(0).text(), "{}\n{}\n{}\n");
}

/// Appends to sessions that existed before, and to sessions that the append created, by name and by user and name.
fn a_retry_after_its_session_was_deleted_creates_nothing(place: &Place) {
    let kit = Kit::on(place);
    let event = br#"{"type":"message_end","message":{"role":"user","content":"count"}}"#;
    let item = br#"[{"role":"user","content":"a"}]"#;
    let commands: [(&[&str], &[u8]); 4] = [
        (&["log", "append"], b"{\"n\":1}\n"),
        (&["log", "append", "--each"], b"{\"n\":1}\n{\"n\":2}\n"),
        (&["log", "record"], event),
        (&["sessions", "add"], item),
    ];
    let targets: [&[&str]; 2] = [&["--session", "s"], &["--user-email", "ada@example.com", "--session-name", "s"]];
    let mut number = 0;
    for ((command, input), target) in commands.iter().flat_map(|one| targets.iter().map(move |target| (one, target))) {
        for is_there in [false, true] {
            number += 1;
            let operation = format!("o{number}");
            if is_there {
                kit.feed(&[&["log", "append"], *target].concat(), b"{}\n").is(0);
            }
            let once = [*command, *target, &["--operation-id", &operation]].concat();
            kit.feed(&once, input).is(0);
            kit.feed(&once, input).is(0);
            let listed = kit.run(&["sessions", "list", "--json"]).is(0);
            let id = listed.field("/sessions/0/id");
            let id = id.as_str().expect("a session");
            kit.run(&["sessions", "delete", id, "--yes"]).is(0);
            let again = kit.feed(&once, input);
            // Items were added in a transaction, whose answer is kept.
            if command[1] == "add" {
                again.is(0);
            } else {
                again.is(1).says("was deleted since");
            }
            let listed = kit.run(&["sessions", "list", "--json"]).is(0);
            assert_eq!(listed.field("/sessions"), serde_json::json!([]), "{once:?}");
        }
    }
}

fn a_retry_whose_session_was_created_again_appends_nothing(place: &Place) {
    let kit = Kit::on(place);
    let append = ["log", "append", "--session", "s", "--operation-id", "o", "--line", "{\"n\":1}"];
    kit.append("s", "{}\n");
    kit.run(&append).is(0);
    let id = kit.run(&["sessions", "show", "s", "--json"]).is(0).field("/session/id");
    let id = id.as_str().expect("an id").to_owned();
    kit.run(&["sessions", "delete", "s", "--yes"]).is(0);
    kit.append("s", "{}\n");
    kit.run(&append).is(1).says("was deleted since");
    kit.run(&["log", "append", "--session", &id, "--operation-id", "o", "--line", "{\"n\":1}"]).is(1);
    let other = ["log", "append", "--session", "s", "--operation-id", "o", "--line", "{\"n\":2}"];
    kit.run(&other).is(1).says("was used with other content before");
    assert_eq!(kit.run(&["log", "cat", "s"]).is(0).text(), "{}\n");
    kit.run(&["log", "append", "--session", "t", "--operation-id", "o", "--line", "{\"n\":1}"]).is(0);
}

/// Changes of a session, a new session and appends to one without a name, each retried after the session was deleted.
fn a_retry_after_a_deletion_gets_its_answer_or_is_told(place: &Place) {
    let kit = Kit::on(place);
    let delete_all = || {
        kit.run(&["sessions", "delete", "--all", "--yes"]).is(0);
    };
    let is_empty = |command: &[&str]| {
        let listed = kit.run(&["sessions", "list", "--json"]).is(0);
        assert_eq!(listed.field("/sessions"), serde_json::json!([]), "{command:?}");
    };
    let on_session: [&[&str]; 8] = [
        &["sessions", "pop", "s"],
        &["sessions", "clear", "s", "--yes"],
        &["sessions", "fork", "s"],
        &["sessions", "close", "s"],
        &["sessions", "set", "s", "--agent", "a"],
        &["sessions", "branch", "new", "s", "--name", "b"],
        &["sessions", "delete", "s", "--context", "--yes"],
        &["sessions", "delete", "s", "--log", "--yes"],
    ];
    let made: [&[&str]; 3] = [
        &["sessions", "new", "--name", "s"],
        &["log", "append", "--user-email", "u", "--line", "{\"n\":1}"],
        &["sessions", "delete", "s", "--yes"],
    ];
    for (number, command) in on_session.iter().chain(&made).enumerate() {
        let operation = format!("d{number}");
        let once = [command, &["--operation-id", &operation, "--json"][..]].concat();
        if command.contains(&"s") && !command.contains(&"new") || command.contains(&"branch") {
            kit.feed(&["sessions", "add", "--session", "s"], b"[{\"role\":\"user\",\"content\":\"a\"}]").is(0);
        }
        let first = kit.run(&once).is(0).text();
        assert_eq!(kit.run(&once).is(0).text(), first, "{command:?}");
        delete_all();
        let again = kit.run(&once);
        if command[1] == "delete" {
            assert_eq!(again.is(0).text(), first, "{command:?}");
        } else {
            let message = again.is(1).field("/error/message");
            assert!(message.as_str().is_some_and(|text| text.contains("was deleted since")), "{command:?}: {message}");
        }
        is_empty(command);
    }
    let event = br#"{"type":"message_end","message":{"role":"user","content":"count"}}"#;
    let record = ["log", "record", "--user-email", "u", "--operation-id", "r", "--json"];
    let first = kit.feed(&record, event).is(0).field("/session_id");
    assert_eq!(kit.feed(&record, event).is(0).field("/session_id"), first, "one session is created");
    delete_all();
    kit.feed(&record[..record.len() - 1], event).is(1).says("was deleted since");
    is_empty(&record);
}

fn the_operation_of_an_append_is_of_one_session_whether_it_exists_or_not(place: &Place) {
    let kit = Kit::on(place);
    kit.append("old", "{}\n");
    for session in ["new", "old", "newer"] {
        let append = ["log", "append", "--session", session, "--operation-id", "o", "--json", "--line"];
        let with = |line| kit.run(&[&append[..], &[line]].concat());
        let first = with("{\"n\":1}").is(0).text();
        assert_eq!(with("{\"n\":1}").is(0).text(), first, "{session}");
        let refused = with("{\"n\":2}").is(1).field("/error/message");
        assert!(refused.as_str().is_some_and(|text| text.contains("used with other content")), "{session}: {refused}");
    }
    let lines = |name: &str| kit.run(&["log", "cat", name]).is(0).text();
    assert_eq!(lines("new"), "{\"n\":1}\n");
    assert_eq!(lines("old"), "{}\n{\"n\":1}\n");
    assert_eq!(lines("newer"), "{\"n\":1}\n");
}

fn items_are_added_once_whatever_the_session_is_called(place: &Place) {
    let kit = Kit::on(place);
    let add = |session: &str| {
        kit.feed(&["sessions", "add", "--session", session, "--operation-id", "o", "--json"], b"{\"role\":\"user\"}")
    };
    let first = add("s").is(0);
    let id = first.field("/session_id").as_str().expect("an id").to_owned();
    kit.run(&["sessions", "rename", "s", "t"]).is(0);
    for called in ["s", "t", &id] {
        assert_eq!(add(called).is(0).text(), first.text(), "{called}");
    }
    let refused = add("other").is(1).field("/error/message");
    assert!(refused.as_str().is_some_and(|text| text.contains("used with other content")), "{refused}");
    let listed = kit.run(&["sessions", "list", "--json"]).is(0).field("/sessions");
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    let items = kit.run(&["sessions", "items", "t", "--json"]).is(0).field("/items");
    assert_eq!(items.as_array().map(Vec::len), Some(1), "{items}");
}

fn a_retried_repair_returns_its_first_answer(place: &Place) {
    let kit = Kit::on(place);
    kit.run(&["log", "append", "--session", "s", "--line", "{}"]).is(0);
    let path = kit.run(&["sessions", "show", "s", "--json"]).is(0).field("/session/log_path");
    let path = kit.home().join("state").join(path.as_str().expect("a path"));
    let tear = |bytes: &[u8]| {
        let mut log = std::fs::OpenOptions::new().append(true).open(&path).expect("a log");
        std::io::Write::write_all(&mut log, bytes).expect("torn");
    };
    tear(b"{\"torn");
    let done = twice(&kit, "m", &["log", "repair", "s"], &[]);
    assert!(done.contains("quarantined"), "{done}");
    tear(b"{\"torn again");
    let again = kit.run(&["log", "repair", "s", "--operation-id", "m", "--json"]).is(0);
    assert_eq!(again.field("/repairs").as_array().map(Vec::len), Some(1), "nothing is repaired again");
    let other = kit.run(&["log", "repair", "s", "--operation-id", "n"]).is(0).text();
    assert!(other.contains("quarantined"), "{other}");
}

fn a_retried_inbox_shows_the_acknowledged_messages(place: &Place) {
    let kit = Kit::on(place);
    let send = |text: &str| {
        kit.run(&["sessions", "send", "--topic", "m", "--content", text]).is(0);
    };
    (1..=3).for_each(|n| send(&n.to_string()));
    let inbox = ["sessions", "inbox", "--topic", "m", "--ack", "--limit", "2"];
    let first = twice(&kit, "i", &inbox, &["--channel", "c"]);
    send("4");
    let again = kit.run(&[&inbox[..], &["--operation-id", "i", "--json"]].concat()).is(0).text();
    assert_eq!(first, again);
    let rest = kit.run(&[&inbox[..], &["--operation-id", "j", "--json"]].concat()).is(0);
    assert_eq!((rest.field("/messages/0/content"), rest.field("/messages/1/content")), (3.into(), 4.into()));
    kit.run(&["sessions", "inbox", "--topic", "m", "--operation-id", "k"]).is(2).says("--ack");
}

fn a_tick_under_an_operation_id_fires_once(place: &Place) {
    let kit = Kit::on(place);
    configure(&kit, "[schedules.often]\ncron = \"* * * * *\"\nworkflow = \"build\"\n");
    kit.run(&["schedules", "tick", "--until", "2026-01-01T00:00:30Z"]).is(0);
    let tick = ["schedules", "tick", "--until", "2026-01-01T00:01:30Z"];
    let fired = twice(&kit, "t", &tick, &[]);
    let other = [&tick[..], &["--by", "other", "--operation-id", "t"]].concat();
    kit.run(&other).is(1).says("was used with other content before");
    assert!(fired.contains("\"workflow_run_id\":\""), "{fired}");
    assert_eq!(kit.run(&["runs", "list", "--json"]).is(0).field("/runs").as_array().map(Vec::len), Some(1));
    let later = kit.run(&["schedules", "tick", "--until", "2026-01-01T00:02:30Z", "--json"]).is(0);
    assert_eq!(later.field("/fired/0/status"), "skipped", "the run of the earlier time is still running");
}

/// Runs a command twice with one operation id: both answers are equal, and with another argument it is refused.
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
    let by = ["--by", "somebody"];
    let field = |text: &str, pointer: &str| {
        let value: serde_json::Value = serde_json::from_str(text).expect("JSON");
        let found = value.pointer(pointer).unwrap_or_else(|| panic!("no {pointer} in {text}"));
        found.as_str().map_or_else(|| found.to_string(), str::to_owned)
    };
    // Sessions and their conversations.
    twice(&kit, "o1", &["sessions", "new", "--name", "s"], &["--agent", "other"]);
    twice(&kit, "o2", &["log", "append", "--session", "s", "--line", "{\"n\":1}"], &["--line", "{}"]);
    twice(&kit, "o3", &["sessions", "close", "s"], &by);
    twice(&kit, "o4", &["sessions", "reopen", "s", "--reason", "more", "--by", "ada"], &[]);
    let items = b"[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"b\"}]";
    kit.feed(&["sessions", "add", "--session", "s"], items).is(0);
    twice(&kit, "o5", &["sessions", "fork", "s", "--at", "1"], &["--name", "other"]);
    twice(&kit, "o6", &["sessions", "send", "--topic", "r", "--content", "\"hello\""], &["--channel", "c"]);
    twice(&kit, "o7", &["sessions", "pop", "s"], &["--branch", "other"]);
    twice(&kit, "o9", &["sessions", "set", "s", "--agent", "a"], &["--playbook", "p"]);
    twice(&kit, "o10", &["sessions", "branch", "new", "s", "--name", "b"], &["--branch-user", "u"]);
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
    twice(&kit, "r6", &["approvals", "approve", &gate, "--by", "ada"], &["--reason", "yes"]);
    let claim = twice(&kit, "r7", &["runs", "claim", &run, "--owner", "w"], &["--lease", "5m"]);
    let fence = field(&claim, "/fence");
    let under = ["--fence", &fence];
    twice(&kit, "r8", &[&["runs", "acknowledge", &run, &gate][..], &under].concat(), &[]);
    twice(&kit, "r9", &["runs", "cancel", &run, "--reason", "no"], &by);
    twice(&kit, "r10", &["runs", "retry", &run], &["--reason", "again"]);
    twice(&kit, "r11", &["runs", "recover", "--owner", "w"], &[]);
    twice(&kit, "r12", &["runs", "expire"], &[]);
    // Schedules, workflows, chats.
    twice(&kit, "w1", &["workflows", "disable", "build"], &["--by", "somebody"]);
    twice(&kit, "w2", &["workflows", "enable", "build"], &["--by", "somebody"]);
    twice(&kit, "w3", &["workflows", "clear", "build"], &[]);
    let chat = ["chats", "add", "--platform", "p", "--channel", "c", "--user", "u", "hello"];
    twice(&kit, "c1", &chat, &["--role", "assistant"]);
    assert_eq!(kit.run(&["chats", "list", "--json"]).is(0).field("/chats/0/message_count").as_u64(), Some(1));
}

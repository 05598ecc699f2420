use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use crate::kit::{Kit, Ran};

on_both_engines!(a_retry_means_the_session_that_it_meant_at_first, a_deleted_session_is_not_deleted_by_its_name_again);

/// A command that takes a session by name and an operation id. `{s}` is the name of the session.
struct Case {
    words: &'static str,
    input: &'static str,
    /// Commands before it.
    before: &'static [&'static str],
    /// The part of the answer that is the first one; all of it if empty.
    answer: &'static str,
    /// The session is created by the command.
    creates: bool,
}

const fn case(words: &'static str) -> Case {
    Case { words, input: "", before: &[], answer: "", creates: false }
}

const fn reading(words: &'static str, input: &'static str) -> Case {
    Case { input, ..case(words) }
}

const fn creating(words: &'static str, input: &'static str) -> Case {
    Case { creates: true, ..reading(words, input) }
}

const fn after(before: &'static [&'static str], words: &'static str) -> Case {
    Case { before, ..case(words) }
}

const LINES: &str = "{\"n\":1}\n{\"n\":2}\n";
const EVENT: &str = "{\"type\":\"message_end\",\"message\":{\"role\":\"user\",\"content\":\"count\"}}\n";
const ITEM: &str = "{\"role\":\"user\",\"content\":\"c\"}";

const CASES: &[Case] = &[
    reading("log append --session {s}", LINES),
    reading("log append --session {s} --each", LINES),
    reading("log record --session {s}", EVENT),
    reading("log record --session {s} --dialect raw", LINES),
    creating("log append --session {s}", LINES),
    creating("log append --session {s} --each", LINES),
    creating("log append --user-email ada@example.com --session-name {s}", LINES),
    creating("log record --session {s}", EVENT),
    creating("log record --user-email ada@example.com --session-name {s} --dialect raw", LINES),
    reading("sessions add --session {s}", ITEM),
    creating("sessions add --session {s}", ITEM),
    case("sessions set {s} --agent a"),
    case("sessions pop {s}"),
    case("sessions clear {s} --yes"),
    case("sessions fork {s} --at 1 --name f"),
    case("sessions branch new {s} --name b"),
    case("sessions branch rename {s} --name c"),
    case("sessions branch set {s} --metadata {\"a\":1}"),
    reading("sessions compact {s} --to 2 --summary-file -", "{\"role\":\"system\",\"content\":\"all\"}"),
    case("sessions close {s}"),
    after(&["sessions close {s}"], "sessions reopen {s} --reason more --by ada"),
    case("sessions run {s} --pid 1"),
    case("sessions rename {s} named-{s}"),
    case("sessions delete {s} --context --yes"),
    case("sessions delete {s} --log --yes"),
    case("sessions send --to {s} --from {s} --content \"hello\""),
    after(&["sessions send --to {s} --content \"hello\""], "sessions inbox {s} --ack"),
    Case {
        answer: "/session/id",
        ..after(&["sessions export {s} --output {s}.json", "sessions delete {s} --yes"], "sessions import {s}.json")
    },
    Case { answer: "/repairs", ..case("log repair {s}") },
    case("runs start build --trigger {s} --session {s}"),
    after(&["runs start build --trigger of-{s} --id run-{s}"], "runs phase begin run-{s} plan --session {s}"),
    case("runs execution begin chat --trigger {s} --session {s}"),
    case("chats add --platform p --channel {s} --user u --agent-session {s} hello"),
];

fn words(text: &str, session: &str) -> Vec<String> {
    text.split(' ').map(|word| word.replace("{s}", session)).collect()
}

/// Every command that takes a session by name is given again after the session got another name, and once more after its
/// first name was given to another session: it answers as at first, and changes neither session.
fn a_retry_means_the_session_that_it_meant_at_first(place: &Place) {
    let kit = Kit::on(place);
    for (number, case) in CASES.iter().enumerate() {
        let name = format!("s{number}");
        let make = |name: &str| {
            let new = kit.run(&["sessions", "new", "--name", name, "--status", "running", "--json"]).is(0);
            let id = new.field("/session/id").as_str().expect("an id").to_owned();
            kit.feed(&["log", "append", "--session", &id], b"{\"first\":1}\n").is(0);
            let items =
                ["sessions", "add", "--session", &id, "--item", "{\"role\":\"a\"}", "--item", "{\"role\":\"b\"}"];
            kit.run(&items).is(0);
            id
        };
        let existing = (!case.creates).then(|| make(&name));
        for before in case.before {
            kit.run(&words(before, &name)).is(0);
        }
        let mut once = words(case.words, &name);
        once.extend(["--operation-id".to_owned(), format!("k{number}"), "--json".to_owned()]);
        let run = || {
            let ran = kit.feed(&once, case.input.as_bytes()).is(0);
            if case.answer.is_empty() { ran.text() } else { ran.field(case.answer).to_string() }
        };
        let first = run();
        let id = existing.unwrap_or_else(|| {
            let answer: serde_json::Value =
                serde_json::from_str(first.lines().next().expect("an answer")).expect("JSON");
            let id = answer.get("session_id").or_else(|| answer.get("session")).expect("a session");
            id.as_str().expect("an id").to_owned()
        });
        let renamed = format!("renamed-{number}");
        kit.run(&["sessions", "rename", &id, &renamed]).is(0);
        let held = |id: &str| kit.run(&["sessions", "export", id]).is(0).text();
        let count = || kit.run(&["sessions", "list", "--limit", "200", "--json"]).is(0).field("/sessions");
        let count = || count().as_array().map(Vec::len);
        let (before, sessions) = (held(&id), count());
        assert_eq!(run(), first, "{once:?}, after the session was renamed");
        assert_eq!((held(&id), count()), (before.clone(), sessions), "{once:?}, after the session was renamed");
        let other = make(&name);
        let (of_other, sessions) = (held(&other), count());
        assert_eq!(run(), first, "{once:?}, with another session of its name");
        assert_eq!((held(&id), count()), (before, sessions), "{once:?}, with another session of its name");
        assert_eq!(held(&other), of_other, "{once:?} changes the other session");
        // Another request under the id is refused, and changes neither.
        if case.input == LINES {
            let refused: Ran = kit.feed(&once, case.input.replace('1', "9").as_bytes()).is(1);
            assert!(refused.text().contains("was used with other content before"), "{}", refused.text());
            assert_eq!(held(&other), of_other, "{once:?} changes the other session");
        }
    }
}

fn a_deleted_session_is_not_deleted_by_its_name_again(place: &Place) {
    let kit = Kit::on(place);
    kit.append("s", "{}\n");
    let delete = ["sessions", "delete", "s", "--yes", "--operation-id", "d", "--json"];
    let first = kit.run(&delete).is(0).text();
    kit.append("s", "{\"n\":1}\n");
    assert_eq!(kit.run(&delete).is(0).text(), first);
    assert_eq!(kit.run(&["log", "cat", "s"]).is(0).text(), "{\"n\":1}\n");
    kit.run(&["sessions", "rename", "s", "t"]).is(0);
    assert_eq!(kit.run(&delete).is(0).text(), first);
    kit.run(&["sessions", "show", "t"]).is(0);
}

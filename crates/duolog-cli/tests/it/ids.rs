use std::collections::BTreeMap;

use crate::kit::Kit;

/// Commands that take the id of something that exists. A name in braces is replaced by a prefix; NAME is a thread name.
const EXISTING: &[&str] = &[
    "sessions show {session}",
    "sessions show NAME",
    "sessions items {session}",
    "sessions items NAME",
    "sessions items {session} --branch {branch}",
    "sessions items NAME --branch side",
    "sessions branches {session}",
    "sessions history {session}",
    "sessions export {session} --output exported",
    "sessions compact {session} --info",
    "sessions set {session} --show-topic t",
    "sessions set NAME --show-topic u",
    "sessions fork {session} --branch {branch} --name third",
    "sessions branch new {session} --name fourth",
    "sessions branch rename {session} --branch {branch} --name other",
    "sessions branch set {session} --branch {branch} --metadata {}",
    "sessions send --to {session} --content \"one\"",
    "sessions send --to {branch} --content \"one\"",
    "sessions send --to NAME --from {session} --content \"one\"",
    "sessions inbox {session} --reader r",
    "sessions pop {session}",
    "sessions run {session} --pid 1",
    "sessions close {session}",
    "sessions reopen {session} --reason more",
    "sessions similar --session {session} --vector [1]",
    "log cat {session}",
    "log tail {session}",
    "log replay {session}",
    "log verify {session}",
    "log repair {session}",
    "log search one --session {session}",
    "runs show {run}",
    "runs history {run}",
    "runs wait {run} --for running",
    "runs scratch {run}",
    "runs phase check {run} other",
    "runs renew {run} --fence 1",
    "runs phase enter {run} code --fence 1",
    "runs phase session {run} {execution} NAME --fence 1",
    "runs phase end {run} {execution} --fence 1 --output said --session {session}",
    "runs output {execution}",
    "runs execution session {turn} {session}",
    "runs execution end {turn}",
    "runs execution begin chat --trigger x --session NAME",
    "runs phase begin {run} test --session {session} --fence 1",
    "runs start build --trigger u --session {session}",
    "approvals show {approval}",
    "approvals list --run {gated}",
    "approvals approve {approval} --run {gated}",
    "runs claim {gated} --owner w",
    "runs acknowledge {gated} {approval} --fence 4",
    "runs release {run} --fence 1",
    "runs pause {run}",
    "runs resume {run}",
    "runs requeue {run}",
    "runs cancel {run}",
    "runs retry {run}",
    "runs exec {run} -- true",
    "chats show {chat}",
    "chats history {chat}",
    "chats add --chat {chat} --agent-session NAME hello",
    "chats add --chat {chat} --agent-session {session} hello",
    "sessions rename {session} renamed",
];

/// Commands that create what they name, or delete it: a prefix is a new name there, or is refused.
const EXACT: &[(&str, i32)] =
    &[("sessions delete {session} --yes", 2), ("sessions clear {session} --yes", 2), ("sessions delete NAM --yes", 1)];

/// Returns a unique prefix.
fn prefix(id: &str) -> &str {
    &id[..30]
}

fn id(kit: &Kit, command: &str, pointer: &str) -> String {
    let args: Vec<&str> = command.split(' ').chain(["--json"]).collect();
    kit.feed(&args, b"{\"role\":\"user\",\"content\":\"one\"}\n")
        .is(0)
        .field(pointer)
        .as_str()
        .expect("an id")
        .to_owned()
}

/// Creates a home with one object of each kind, and returns their ids.
fn home() -> (Kit, BTreeMap<&'static str, String>) {
    let kit = Kit::new();
    let mut ids = BTreeMap::new();
    ids.insert("session", id(&kit, "sessions new --name NAME", "/session/id"));
    kit.append("NAME", "{\"type\":\"user\",\"text\":\"one\"}\n");
    id(&kit, "sessions add --session NAME", "/session_id");
    ids.insert("branch", id(&kit, "sessions branch new NAME --name side", "/branch/id"));
    ids.insert("run", id(&kit, "runs start build --trigger t --owner w", "/run/id"));
    let begin = format!("runs phase begin {} plan --fence 1", ids["run"]);
    ids.insert("execution", id(&kit, &begin, "/execution_id"));
    ids.insert("turn", id(&kit, "runs execution begin chat --trigger thread", "/execution/id"));
    ids.insert("gated", id(&kit, "runs start ship --trigger t --owner w", "/run/id"));
    let gate = format!("runs gate {} ship --fence 1 --summary ship?", ids["gated"]);
    ids.insert("approval", id(&kit, &gate, "/approval/id"));
    ids.insert("chat", id(&kit, "chats add --platform p --channel c --user u hello", "/chat_id"));
    (kit, ids)
}

fn filled(command: &str, ids: &BTreeMap<&'static str, String>) -> Vec<String> {
    let fill = |word: &str| {
        let noun = word.strip_prefix('{').and_then(|word| word.strip_suffix('}'));
        noun.and_then(|noun| ids.get(noun)).map_or_else(|| word.to_owned(), |id| prefix(id).to_owned())
    };
    command.split(' ').map(fill).collect()
}

#[test]
fn every_command_takes_a_unique_id_prefix() {
    let (kit, ids) = home();
    for command in EXISTING {
        let args = filled(command, &ids);
        let ran = kit.run(&args);
        assert_eq!(ran.code, Some(0), "{command}: {args:?}: {}", ran.stderr);
    }
}

#[test]
fn commands_that_create_or_delete_take_no_prefix() {
    let (kit, ids) = home();
    for (command, code) in EXACT {
        let args = filled(command, &ids);
        let ran = kit.run(&args);
        assert_eq!(ran.code, Some(*code), "{command}: {args:?}: {}", ran.stderr);
    }
    let text = prefix(&ids["session"]);
    kit.append(text, "{\"n\":1}\n");
    let made = kit.run(&["sessions", "show", text, "--json"]).is(0).field("/session/id");
    assert_ne!(made, ids["session"].as_str(), "an append to an unknown name creates a session");
}

#[test]
fn an_ambiguous_prefix_lists_the_candidates() {
    let kit = Kit::new();
    for name in ["one", "two"] {
        kit.run(&["sessions", "new", "--id", &format!("same-{name}")]).is(0);
        kit.run(&["runs", "start", "build", "--trigger", name, "--id", &format!("same-run-{name}")]).is(0);
        let gate = ["ask", "--summary", "?", "--id", &format!("same-gate-{name}")];
        kit.run(&[&["runs", "gate", &format!("same-run-{name}")][..], &gate].concat()).is(0);
        let begin = ["chat", "--trigger", name, "--id", &format!("same-turn-{name}")];
        kit.run(&[&["runs", "execution", "begin"][..], &begin].concat()).is(0);
    }
    for (command, noun, found) in [
        ("sessions close same-", "session", "same-one, "),
        ("runs cancel same-", "run", "same-run-one, same-run-two"),
        ("approvals approve same-", "gate", "same-gate-one, same-gate-two"),
        ("runs output same-", "execution", "same-turn-one, same-turn-two"),
    ] {
        let args: Vec<&str> = command.split(' ').collect();
        let ran = kit.run(&args).is(2).says(&format!("prefix of more than one {noun}"));
        assert!(ran.stderr.contains(found), "{command}: {}", ran.stderr);
    }
    kit.run(&["runs", "show", ""]).is(1);
}

/// The session that logs a run must be there; that of an agent may be another program's.
#[test]
fn the_session_of_an_agent_may_be_unknown_and_that_is_said() {
    let kit = Kit::new();
    kit.append("s", "{}\n");
    let unknown = kit.run(&["runs", "start", "build", "--trigger", "t", "--session", "nosuch"]).is(1);
    assert!(unknown.says("there is no session \"nosuch\"").stderr.contains("duolog sessions list"));
    assert_eq!(kit.run(&["runs", "list", "--json"]).is(0).field("/runs"), serde_json::json!([]));
    let said = "no session nosuch exists here; the id is stored as given";
    let agent = ["--agent-session", "nosuch", "hello"];
    kit.run(&[&["chats", "add", "--platform", "p", "--channel", "c", "--user", "u"][..], &agent].concat())
        .is(0)
        .says(said);
    kit.run(&["runs", "execution", "begin", "chat", "--trigger", "t", "--session", "nosuch"]).is(0).says(said);
    let known = kit.run(&["runs", "execution", "begin", "chat", "--trigger", "u", "--session", "s"]).is(0);
    assert!(!known.stderr.contains("stored as given"), "{}", known.stderr);
    kit.run(&["runs", "execution", "begin", "chat", "--trigger", "v", "--session", "no/such"])
        .is(1)
        .says("there is no session");
    for command in ["runs phase end", "runs execution begin", "chats add"] {
        let help = kit.run(&[&command.split(' ').collect::<Vec<_>>()[..], &["--help"]].concat()).is(0).text();
        assert!(help.contains("of another program, such as Claude Code"), "{command}: {help}");
    }
}

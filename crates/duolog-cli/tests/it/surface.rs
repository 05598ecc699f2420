use std::process::Stdio;

use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use crate::kit::{Kit, Ran, Transcript};

on_both_engines!(a_session_moves_to_another_home, parts_of_a_session_are_deleted);

#[test]
fn output_of_the_commands() {
    let kit = Kit::new();
    let mut said = Transcript::default();
    let me = |args: &[&'static str]| [args, &["--user-email", "me@example.com"]].concat();
    let plan = |args: &[&'static str]| me(&[args, &["--session-name", "plan"]].concat());
    let items = ["sessions", "add", "--item", "{\"role\":\"user\",\"content\":\"hello\"}", "--embedding", "[1,0]"];
    said.run(&kit, &plan(&items)).is(0);
    said.run(&kit, &["sessions", "similar", "--vector", "[0.5,0.5]"]).is(0);
    said.run(&kit, &["sessions", "similar", "--vector", "[1,0]", "--metric", "l2", "--json"]).is(0);
    said.feed(&kit, &["sessions", "similar", "--vector-file", "-", "--raw", "--k", "1"], &[0, 0, 128, 63, 0, 0, 0, 0])
        .is(0);
    said.run(&kit, &["sessions", "similar", "--vector", "[1]"]).is(2);
    said.run(&kit, &["sessions", "similar", "--vector", "one"]).is(2);
    said.run(&kit, &["sessions", "similar"]).is(2);
    said.run(&kit, &plan(&["log", "append", "--line", "{\"type\":\"user\",\"text\":\"hello\"}"])).is(0);
    said.run(&kit, &plan(&["sessions", "show", "--replay"])).is(0);
    said.run(&kit, &plan(&["sessions", "show", "--replay", "--json"])).is(0);
    said.run(&kit, &plan(&["sessions", "export", "--output", "plan.json"])).is(0);
    said.run(&kit, &plan(&["sessions", "export", "--output", "plan.json"])).is(2);
    said.run(&kit, &plan(&["sessions", "export", "--output", "plan.json", "--force", "--json"])).is(0);
    said.run(&kit, &["sessions", "import", "plan.json"]).is(1);
    said.run(&kit, &["sessions", "import", "nowhere.json"]).is(5);
    said.feed(&kit, &["sessions", "import", "-"], b"{\"duolog_export\":2}").is(2);
    said.run(&kit, &plan(&["sessions", "delete"])).is(2);
    said.run(&kit, &plan(&["sessions", "delete", "--context"])).is(2);
    said.run(&kit, &plan(&["sessions", "delete", "--context", "--yes"])).is(0);
    said.run(&kit, &plan(&["sessions", "delete", "--log", "--yes", "--json"])).is(0);
    said.run(&kit, &plan(&["sessions", "delete", "--log", "--context", "--yes", "--json"])).is(0);
    said.run(&kit, &["sessions", "import", "plan.json"]).is(0);
    said.run(&kit, &plan(&["sessions", "items"])).is(0);
    kit.snapshot("surface", &said.0);
}

fn a_session_moves_to_another_home(place: &Place) {
    let (kit, other) = (Kit::on(place), Kit::new());
    let me = ["--user-email", "me@example.com", "--session-name", "plan"];
    let with = |args: &[&'static str]| [args, &me].concat();
    let large = format!("\"{}\"", "x".repeat(2 << 20));
    kit.feed(&with(&["sessions", "add"]), format!("1 2 {large}").as_bytes()).is(0);
    kit.run(&with(&["sessions", "fork", "--at", "2", "--name", "again"])).is(0);
    kit.run(&with(&["sessions", "add", "--branch", "again", "--item", "4"])).is(0);
    kit.run(&with(&["log", "append", "--line", "{\"n\":1}"])).is(0);
    let document = kit.run(&with(&["sessions", "export"])).is(0).stdout;
    other.feed(&["sessions", "import", "-"], &document).is(0);
    assert!(other.run(&with(&["sessions", "export"])).is(0).stdout == document);
    assert_eq!(
        other.run(&with(&["log", "cat"])).is(0).stdout,
        kit.run(&with(&["log", "cat"])).is(0).stdout,
        "the log is equal"
    );
    let items = with(&["sessions", "items", "--branch", "again"]);
    assert_eq!(other.run(&items).is(0).text(), "1\n2\n4\n");
    assert!(other.run(&["doctor", "--json"]).is(0).field("/verdict") == "ok");
}

fn parts_of_a_session_are_deleted(place: &Place) {
    let kit = Kit::on(place);
    kit.run(&["sessions", "add", "--session", "demo", "--item", "1"]).is(0);
    kit.append("demo", "{\"n\":1}\n{\"n\":2}");
    let gone = kit.run(&["sessions", "delete", "demo", "--log", "--yes", "--json"]).is(0);
    assert_eq!((gone.field("/log_bytes"), gone.field("/message_count")), (16.into(), 0.into()));
    assert_eq!(kit.run(&["log", "cat", "demo"]).is(0).text(), "");
    assert_eq!(kit.run(&["sessions", "items", "demo"]).is(0).text(), "1\n");
    kit.append("demo", "{\"n\":3}");
    let gone = kit.run(&["sessions", "delete", "demo", "--context", "--yes", "--json"]).is(0);
    assert_eq!((gone.field("/branch_count"), gone.field("/message_count")), (1.into(), 1.into()));
    assert_eq!(kit.run(&["sessions", "items", "demo"]).is(0).text(), "");
    let text = kit.run(&["log", "cat", "demo"]).is(0).text();
    assert!(text.starts_with("{\"n\":3}\n") && text.contains("duolog.context_deleted"), "{text}");
    kit.run(&["doctor"]).is(0);
}

/// A session name without a user is that of the configured user.
#[test]
fn a_name_without_a_user_belongs_to_the_default_user() {
    let kit = Kit::new();
    let nobody = |args: &[&str]| {
        let mut command = kit.command(args);
        command.env_remove("DUOLOG_USER_EMAIL");
        Ran::of(command.output().expect("runs"))
    };
    // Without a configuration it is the login name.
    nobody(&["log", "append", "--session-name", "plan", "--line", "{\"n\":1}"]).is(0);
    let user = nobody(&["sessions", "show", "--session-name", "plan", "--json"]).is(0).field("/session/user_id");
    assert!(user.as_str().is_some_and(|user| user.ends_with("@localhost") && user.len() > 10), "{user}");
    let shown = nobody(&["config", "show", "--json"]).is(0);
    assert!(shown.text().contains(&format!("\"user.email\",\"value\":{user}")), "{}", shown.text());
    // Another configured user has separate sessions.
    let with = |args: &[&str]| {
        let mut command = kit.command(args);
        command.env("DUOLOG_USER_EMAIL", "ada@example.com");
        Ran::of(command.output().expect("runs"))
    };
    with(&["sessions", "show", "--session-name", "plan"]).is(1);
    with(&["sessions", "new", "--session-name", "plan"]).is(0);
    let ada = ["--user-email", "ada@example.com", "--session-name", "plan"];
    kit.run(&[&["sessions", "rename"], &ada[..], &["the plan"]].concat()).is(0);
    let renamed = with(&["sessions", "show", "--session-name", "the plan", "--json"]).is(0);
    assert_eq!(renamed.field("/session/user_id"), "ada@example.com");
    kit.run(&[&["sessions", "rename"], &ada[..], &["a", "b"]].concat()).is(2);
    kit.run(&["sessions", "rename", "demo"]).is(2);
    std::fs::create_dir_all(kit.home().join("config")).expect("made");
    std::fs::write(kit.home().join("config/duolog.toml"), "[user]\nemail = \"eve@example.com\"\n").expect("written");
    nobody(&["sessions", "show", "--session-name", "plan"]).is(1).says("plan of eve@example.com");
    std::fs::write(kit.home().join("config/duolog.toml"), "[user]\nemail = \" \"\n").expect("written");
    kit.run(&["config", "check"]).is(2);
    std::fs::write(kit.home().join("config/duolog.toml"), "[user]\nemail = 7\n").expect("written");
    kit.run(&["config", "check"]).is(2);
}

/// A user without a session name gets a new session, in every command that creates one.
#[test]
fn a_user_alone_gets_a_new_session() {
    let kit = Kit::new();
    let ada = ["--user-email", "ada@example.com"];
    kit.run(&[&["sessions", "new"], &ada[..]].concat()).is(0);
    kit.run(&[&["log", "append", "--line", "{}"], &ada[..]].concat()).is(0);
    kit.run(&[&["sessions", "add", "--item", "1"], &ada[..]].concat()).is(0);
    let listed = kit.run(&[&["sessions", "list", "--json"], &ada[..]].concat()).is(0);
    let sessions = listed.field("/sessions");
    let names: Vec<&str> = sessions.as_array().expect("a list").iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names.len(), 3);
    assert!(names.iter().all(|name| name.starts_with("session_20")), "{names:?}");
    // A command that reads needs the session name.
    kit.run(&[&["sessions", "show"], &ada[..]].concat()).is(2);
    kit.run(&["log", "append", "--line", "{}"]).is(2);
}

#[test]
fn a_session_shows_its_process() {
    let kit = Kit::new();
    let mut child =
        std::process::Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("starts");
    let pid = child.id().to_string();
    kit.run(&["sessions", "new", "--name", "demo", "--pid", &pid]).is(0);
    let shown = kit.run(&["sessions", "show", "demo", "--json"]).is(0);
    assert_eq!((shown.field("/process/liveness"), shown.field("/process/pid")), ("alive".into(), child.id().into()));
    assert_eq!(shown.field("/session/status"), "running");
    assert!(kit.run(&["sessions", "show", "demo"]).is(0).text().contains(": alive"));
    drop(child.stdin.take());
    child.wait().expect("ends");
    assert_eq!(kit.run(&["sessions", "show", "demo", "--json"]).is(0).field("/process/liveness"), "dead");
    kit.run(&["sessions", "run", "demo", "--pid", &pid]).is(2).says("does not exist");
    let mine = std::process::id().to_string();
    kit.run(&["sessions", "run", "demo", "--pid", &mine]).is(0);
    assert_eq!(kit.run(&["sessions", "show", "demo", "--json"]).is(0).field("/process/liveness"), "alive");
    kit.run(&["sessions", "close", "demo"]).is(0);
    assert!(kit.run(&["sessions", "show", "demo", "--json"]).is(0).field("/process").is_null());
    kit.run(&["sessions", "run", "demo", "--pid", &mine]).is(1);
    let reopen = ["sessions", "reopen", "demo", "--reason", "again", "--by", "ada", "--pid", mine.as_str()];
    kit.run(&reopen).is(0);
    assert_eq!(kit.run(&["sessions", "show", "demo", "--json"]).is(0).field("/process/liveness"), "alive");
}

#[test]
fn an_inbox_is_found_by_session_name() {
    let kit = Kit::new();
    let plan = ["--user-email", "ada@example.com", "--session-name", "plan"];
    let made = kit.run(&[&["sessions", "new"], &plan[..]].concat()).is(0).text();
    let id = made.trim();
    let send = ["sessions", "send", "--to", id, "--content", "\"from itself\""];
    kit.run(&[&send[..], &plan[..]].concat()).is(0);
    let text = kit.run(&[&["sessions", "inbox"], &plan[..]].concat()).is(0).text();
    assert!(text.contains(id) && text.contains("from itself"), "{text}");
    assert_eq!(kit.run(&[&["sessions", "items"], &plan[..]].concat()).is(0).text(), "\"from itself\"\n");
    kit.run(&["sessions", "inbox"]).is(2);
}

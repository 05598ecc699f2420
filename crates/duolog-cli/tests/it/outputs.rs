use duolog_testkit::transcripts;

use crate::kit::{Kit, Transcript};

const THREE: &str = "{\"type\":\"user\",\"text\":\"hello\"}\n{\"n\":1}\n{\"n\":2}\n";

/// Creates a home with a thread, a user's session and a failed session.
fn some_sessions() -> Kit {
    let kit = Kit::new();
    kit.append("demo", THREE);
    let ada = ["--user-email", "ada@example.com", "--session-name", "plan"];
    kit.run(&[&["sessions", "new", "--status", "running", "--agent", "coder"][..], &ada].concat()).is(0);
    kit.run(&["sessions", "new", "--id", "old-one", "--status", "failed", "--metadata", "{\"z\":1,\"a\":[2]}"]).is(0);
    kit
}

#[test]
fn an_empty_home_says_what_to_do_next() {
    let kit = Kit::new();
    let mut transcript = Transcript::default();
    transcript.run(&kit, &["sessions", "list"]).is(0);
    transcript.run(&kit, &["sessions", "list", "--json"]).is(0);
    transcript.run(&kit, &["sessions", "list", "--status", "failed"]).is(0);
    transcript.run(&kit, &["sessions", "list", "--quiet"]).is(0);
    transcript.run(&kit, &["log", "verify", "--all"]).is(1);
    transcript.feed(&kit, &["log", "append", "--session", "demo"], b"").is(0);
    assert!(!kit.home().exists(), "reading creates nothing");
    kit.run(&["init"]).is(0);
    let output = kit.command(&["sessions", "list"]).env_remove("DUOLOG_HOME").output().expect("runs");
    assert_eq!(output.status.code(), Some(0), "a new home is empty too");
    kit.snapshot("empty", &transcript.0);
}

#[test]
fn a_missing_home_is_reported() {
    let kit = Kit::new();
    let commands: [&[&str]; 8] = [
        &["sessions", "show", "demo"],
        &["log", "cat", "demo"],
        &["log", "tail", "demo", "--follow"],
        &["log", "verify", "demo"],
        &["log", "verify", "--all"],
        &["state", "stats"],
        &["state", "backup", "copy"],
        &["doctor"],
    ];
    for args in commands {
        kit.run(args)
            .is(1)
            .says("error: there is no home at")
            .says("hint: check the path, or create the home: duolog --home");
        assert_eq!(kit.run(&[args, &["--json"]].concat()).is(1).field("/error/kind"), "not_found");
    }
    assert_eq!(std::fs::read_dir(kit.dir.path()).expect("a directory").count(), 0, "nothing was created");
}

#[test]
fn a_mistyped_command_gets_a_suggestion() {
    let kit = Kit::new();
    kit.run(&["sesions"]).is(2).says("'sessions'");
    kit.run(&["sessions", "lst"]).is(2).says("similar subcommand exists: 'list'");
    kit.run(&["log", "append", "--sesion", "x"]).is(2).says("'--session'");
}

#[test]
fn sessions_are_listed_and_shown() {
    let kit = some_sessions();
    let mut transcript = Transcript::default();
    transcript.run(&kit, &["sessions", "list"]).is(0);
    transcript.run(&kit, &["sessions", "list", "--json"]).is(0);
    transcript.run(&kit, &["sessions", "list", "--user-email", "ada@example.com"]).is(0);
    transcript.run(&kit, &["sessions", "show", "demo"]).is(0);
    transcript.run(&kit, &["sessions", "show", "old"]).is(0);
    transcript.run(&kit, &["sessions", "show", "old-one", "--json"]).is(0);
    transcript.run(&kit, &["sessions", "show", "--user-email", "ada@example.com", "--session-name", "plan"]).is(0);
    kit.snapshot("sessions", &transcript.0);
}

#[test]
fn pages_follow_each_other() {
    let kit = some_sessions();
    let first = kit.run(&["sessions", "list", "--limit", "2", "--json"]).is(0);
    let next = first.field("/next").as_str().expect("a token").to_owned();
    let second = kit.run(&["sessions", "list", "--limit", "2", "--after", &next, "--json"]).is(0);
    assert_eq!(second.field("/sessions/0/name"), "demo");
    assert!(second.field("/next").is_null());
    kit.run(&["sessions", "list", "--limit", "2"]).is(0).says(&format!("--after {next}"));
}

#[test]
fn a_narrow_table_keeps_its_numbers() {
    let kit = some_sessions();
    // The sizes are dropped first, the number of events stays.
    for (columns, figure) in [("60", "     3  now"), ("80", "47 B")] {
        let output = kit.command(&["sessions", "list"]).env("COLUMNS", columns).output().expect("runs");
        let text = String::from_utf8(output.stdout).expect("text");
        let width: usize = columns.parse().expect("a number");
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        assert!(text.contains(figure), "{text}");
    }
}

#[test]
fn a_list_that_is_behind_says_so() {
    let kit = Kit::new();
    kit.append("large", "{}\n");
    kit.run(&["sessions", "list"]).is(0);
    let line = format!("{{\"x\":\"{}\"}}\n", "x".repeat(1 << 20));
    kit.feed(&["log", "append", "--session", "large"], line.repeat(80).as_bytes()).is(0);
    kit.run(&["sessions", "list", "--json"]).is(0).says("the counts are incomplete: ");
    kit.run(&["state", "rebuild"]).is(0);
    let ran = kit.run(&["sessions", "list", "--json"]).is(0);
    assert_eq!(ran.stderr, "");
    assert_eq!(ran.field("/sessions/0/events"), 81);
}

#[test]
fn an_answer_that_cannot_be_written_is_an_error() {
    let kit = some_sessions();
    for args in [&["sessions", "list"][..], &["log", "cat", "demo"], &["doctor", "--json"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("a full device");
        let output = kit.command(args).stdout(full).output().expect("runs");
        assert_eq!(output.status.code(), Some(5), "{args:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("cannot write the answer"), "{args:?}: {said}");
    }
}

#[test]
fn a_popped_item_that_cannot_be_printed_is_an_error() {
    let kit = Kit::new();
    for args in [&["sessions", "pop", "demo"][..], &["sessions", "pop", "demo", "--json"]] {
        kit.run(&["sessions", "add", "--session", "demo", "--item", "1"]).is(0);
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = kit.command(args).stdout(writer).output().expect("runs");
        assert_eq!(output.status.code(), Some(5), "{args:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("the item was removed"), "{args:?}: {said}");
    }
}

#[test]
fn lines_are_appended_and_read() {
    let kit = Kit::new();
    let mut transcript = Transcript::default();
    transcript.feed(&kit, &["log", "append", "--session", "demo"], THREE.as_bytes()).is(0);
    transcript.feed(&kit, &["log", "append", "--session", "demo", "--json"], b"{\"n\":3}\n{\"n\":4}").is(0);
    transcript.feed(&kit, &["log", "append", "--session", "demo", "--each"], b"{\"n\":5}\n{\"n\":6}\n").is(0);
    transcript.feed(&kit, &["log", "append", "--session", "demo", "--each", "--json"], b"{\"n\":7}\n").is(0);
    transcript.run(&kit, &["log", "append", "--session", "demo", "--line", "{\"n\":8}", "--durability", "power"]).is(0);
    transcript.run(&kit, &["log", "append", "--session", "demo", "{\"n\":9}"]).is(0);
    transcript.feed(&kit, &["log", "append", "--session", "demo"], b"").is(0);
    transcript.feed(&kit, &["log", "append", "--session", "other", "--json"], b"").is(0);
    transcript.run(&kit, &["log", "cat", "demo"]).is(0);
    transcript.run(&kit, &["log", "cat", "demo", "--from", "47", "--limit", "1", "--json"]).is(0);
    transcript.run(&kit, &["log", "cat", "demo", "--last", "1"]).is(0);
    transcript.run(&kit, &["log", "tail", "demo", "-n", "2", "--show-cursor"]).is(0);
    transcript.run(&kit, &["log", "tail", "demo", "--from", "0:87", "--show-cursor"]).is(0);
    // A list of sessions brings the state up to date and seals the logs.
    kit.run(&["sessions", "list"]).is(0);
    transcript.run(&kit, &["log", "verify", "--session", "demo"]).is(0);
    transcript.run(&kit, &["log", "verify", "demo", "--json"]).is(0);
    transcript.run(&kit, &["log", "repair", "demo"]).is(0);
    transcript.run(&kit, &["log", "repair", "demo", "--json"]).is(0);
    kit.snapshot("lines", &transcript.0);
    kit.run(&["sessions", "show", "other"]).is(1);
}

#[test]
fn sessions_are_created_renamed_and_deleted() {
    let kit = Kit::new();
    let mut transcript = Transcript::default();
    transcript.run(&kit, &["sessions", "new", "--id", "one", "--name", "first"]).is(0);
    transcript.run(&kit, &["sessions", "new", "--id", "two", "--cwd", ".", "--json"]).is(0);
    transcript.run(&kit, &["sessions", "new", "--name", "first"]).is(1);
    transcript.run(&kit, &["sessions", "rename", "first", "second"]).is(0);
    transcript.run(&kit, &["sessions", "rename", "tw", "third"]).is(0);
    transcript.run(&kit, &["log", "cat", "second"]).is(0);
    transcript.run(&kit, &["sessions", "delete", "second"]).is(2);
    transcript.run(&kit, &["sessions", "delete", "on", "--yes"]).is(2);
    transcript.run(&kit, &["sessions", "delete", "second", "--yes"]).is(0);
    transcript.run(&kit, &["sessions", "delete", "two", "--yes", "--json"]).is(0);
    transcript.run(&kit, &["sessions", "delete", "two", "--yes"]).is(1);
    // The slug of the directory is as random as the directory.
    let slug = kit.dir.path().canonicalize().expect("real").to_string_lossy().replace(['/', '.'], "-");
    kit.snapshot("making", &transcript.0.replace(&slug, "[slug]"));
}

#[test]
fn the_state_reports_its_statistics() {
    let kit = some_sessions();
    let mut transcript = Transcript::default();
    transcript.run(&kit, &["state", "stats", "--json"]).is(0);
    transcript.run(&kit, &["state", "migrate", "--json"]).is(0);
    transcript.run(&kit, &["state", "rebuild", "--json"]).is(0);
    transcript.run(&kit, &["state", "rebuild"]).is(0);
    transcript.run(&kit, &["state", "backup", "copy"]).is(0);
    transcript.run(&kit, &["state", "backup", "copy", "--json"]).is(1);
    transcript.run(&kit, &["doctor"]).is(0);
    transcript.run(&kit, &["doctor", "--deep"]).is(0);
    transcript.run(&kit, &["doctor", "--json"]).is(0);
    kit.snapshot("state", &transcript.0);
    let checkpoint = kit.run(&["state", "checkpoint", "--json"]).is(0);
    assert_eq!(checkpoint.field("/busy"), false);
    let people = kit.run(&["state", "stats"]).is(0).text();
    assert!(people.contains("1 failed") && people.contains("journal_mode=wal"), "{people}");
}

#[test]
fn a_home_is_created_once() {
    let kit = Kit::new();
    let mut transcript = Transcript::default();
    transcript.run(&kit, &["init"]).is(0);
    transcript.run(&kit, &["init", "--json"]).is(0);
    transcript.run(&kit, &["init", "below", "--quiet"]).is(0);
    transcript.run(&kit, &["--home", "named", "init"]).is(0);
    transcript.run(&kit, &["--home", "named", "init", "below"]).is(2);
    kit.snapshot("init", &transcript.0);
    let mode = |path: &str| {
        use std::os::unix::fs::PermissionsExt as _;
        kit.dir.path().join(path).metadata().expect(path).permissions().mode() & 0o777
    };
    for role in ["", "/state", "/cache", "/config"] {
        assert_eq!(mode(&format!(".duolog{role}")), 0o700);
        assert_eq!(mode(&format!("named{role}")), 0o700);
    }
    // Without DUOLOG_HOME, the folder is found from a subdirectory.
    std::fs::create_dir_all(kit.dir.path().join("below/deep")).expect("made");
    let append = ["log", "append", "--session", "x", "--line", "{}"];
    let mut command = kit.command(&append);
    let ran = command.env_remove("DUOLOG_HOME").current_dir(kit.dir.path().join("below/deep")).output().expect("runs");
    assert!(ran.status.success());
    assert!(kit.dir.path().join("below/.duolog/state/sessions/threads/x.jsonl").exists());
}

#[test]
fn each_exit_code_has_its_error() {
    let kit = Kit::new();
    kit.append("demo", THREE);
    let mut transcript = Transcript::default();
    // 1: the answer is no.
    transcript.run(&kit, &["sessions", "show", "nope"]).is(1);
    transcript.run(&kit, &["sessions", "show", "nope", "--json"]).is(1);
    transcript.run(&kit, &["log", "append", "--session", "demo", "--if-position", "3", "--line", "{}"]).is(7);
    transcript.run(&kit, &["log", "append", "--session", "demo", "--operation-id", "a", "--line", "{}"]).is(0);
    transcript.run(&kit, &["log", "append", "--session", "demo", "--operation-id", "a", "--line", "{}"]).is(0);
    transcript.run(&kit, &["log", "append", "--session", "demo", "--operation-id", "a", "--line", "{\"b\":1}"]).is(1);
    // 2: wrong usage.
    transcript.run(&kit, &["sessions", "list", "--limit", "0"]).is(2);
    transcript.run(&kit, &["sessions", "list", "--status", "fine", "--json"]).is(2);
    transcript.run(&kit, &["sessions", "list", "--after", "x"]).is(2);
    transcript.run(&kit, &["sessions", "new", "--metadata", "[]"]).is(2);
    transcript.run(&kit, &["log", "append"]).is(2);
    transcript.run(&kit, &["log", "cat"]).is(2);
    transcript.run(&kit, &["log", "cat", "demo", "--from", "5"]).is(2);
    transcript.run(&kit, &["log", "cat", "demo", "--from", "5000"]).is(2);
    transcript.run(&kit, &["log", "append", "--session", "demo", "--line", "[1]"]).is(2);
    transcript.run(&kit, &["log", "tail", "demo", "--from", "x:y"]).is(2);
    // 5: everything else.
    transcript.run(&kit, &["log", "append", "--session", "demo", "no-such-file.jsonl"]).is(5);
    transcript.run(&kit, &["sessions", "new", "--cwd", "no-such-directory", "--json"]).is(5);
    kit.snapshot("errors", &transcript.0);
    let output = kit.command(&["doctor"]).env("DUOLOG_BUSY_TIMEOUT_MS", "soon").output().expect("runs");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn color_is_only_for_terminals_unless_requested() {
    let kit = some_sessions();
    let escape = |args: &[&str]| kit.run(args).is(0).text().contains('\u{1b}');
    assert!(!escape(&["sessions", "list"]));
    assert!(escape(&["sessions", "list", "--color", "always"]));
    assert!(!escape(&["sessions", "list", "--color", "always", "--json"]));
    assert!(escape(&["doctor", "--color", "always"]));
    assert!(!escape(&["log", "cat", "demo", "--color", "always"]));
}

/// Creates sessions of two users in two dialects, with a model without a known price.
fn some_usage() -> Kit {
    let kit = Kit::new();
    for (id, user, agent, lines) in [
        ("one", "ada@example.com", "coder", transcripts::claude(1, 3).text()),
        ("two", "bob@example.com", "planner", transcripts::codex(2, 2, false).text()),
        ("three", "bob@example.com", "planner", UNPRICED.to_owned()),
    ] {
        let whose = ["--user-email", user, "--session-name", id];
        kit.run(&[&["sessions", "new", "--id", id, "--agent", agent][..], &whose].concat()).is(0);
        kit.feed(&["log", "append", "--session", id], lines.as_bytes()).is(0);
    }
    kit
}

const UNPRICED: &str = "{\"type\":\"assistant\",\"timestamp\":\"2026-05-01T10:00:00Z\",\"message\":{\"model\":\"my-model\",\
    \"usage\":{\"input_tokens\":1000,\"output_tokens\":200}}}\n";

#[test]
fn usage_is_reported_by_day_session_model_and_workflow() {
    let kit = some_usage();
    let mut transcript = Transcript::default();
    for verb in ["daily", "session", "model", "workflow"] {
        transcript.run(&kit, &["usage", verb]).is(0);
    }
    transcript.run(&kit, &["usage", "daily", "--json"]).is(0);
    transcript.run(&kit, &["usage", "model", "--user-email", "bob@example.com", "--json"]).is(0);
    transcript.run(&kit, &["usage", "daily", "--limit", "1"]).is(0);
    transcript.run(&kit, &["usage", "daily", "--since", "2030-01-01"]).is(0);
    transcript.run(&kit, &["usage", "daily", "--since", "today"]).is(2);
    transcript.run(&kit, &["usage", "model", "--after", "d61"]).is(2);
    transcript.run(&kit, &["sessions", "list", "--user-email", "ada@example.com"]).is(0);
    transcript.run(&kit, &["sessions", "show", "two"]).is(0);
    kit.snapshot("usage", &transcript.0);
    assert_eq!(kit.run(&["sessions", "list", "--json"]).field("/sessions/2/title"), "Session 1");
}

#[test]
fn a_configured_price_is_used() {
    let kit = some_usage();
    let config = kit.home().join("config");
    std::fs::create_dir_all(&config).expect("made");
    std::fs::write(config.join("duolog.toml"), "[prices.my-model]\ninput = 1.25\noutput = 10\n").expect("written");
    let ran = kit.run(&["usage", "model", "--json"]).is(0);
    assert!(ran.text().contains("\"model\":\"my-model\""), "{}", ran.text());
    assert!(ran.text().contains("\"cost_usd\":0.00325,\"unpriced_models\":[]"), "{}", ran.text());
    assert_eq!(ran.field("/totals/unpriced_models"), serde_json::json!([]));
    assert!(kit.run(&["config", "show"]).is(0).text().contains("prices.\"my-model\""));
}

#[test]
fn reports_without_usage_have_a_note() {
    let kit = Kit::new();
    for verb in ["daily", "session", "model", "workflow"] {
        let ran = kit.run(&["usage", verb]).is(0).says("there is no usage yet");
        assert_eq!(ran.text(), "");
        assert!(kit.run(&["usage", verb, "--json"]).is(0).field("/totals/responses") == 0);
    }
    assert!(!kit.home().exists(), "reading creates nothing");
    kit.append("demo", THREE);
    kit.run(&["usage", "daily", "--user-email", "ada"]).is(0).says("no usage matches the filter");
}

/// A value that the argument parser repeats is complete and escaped.
#[test]
fn an_argument_error_is_complete_and_escaped() {
    let kit = Kit::new();
    let hostile = "a\u{202e}\u{9b}\u{200b}\u{feff}\u{e0041}b";
    let ran = kit.run(&["sessions", "new", "--json", "--id", hostile]).is(2);
    assert!(ran.text().is_ascii(), "{:?}", ran.text());
    assert!(ran.field("/error/message").as_str().expect("text").contains(hostile));
    let ran = kit.run(&["sessions", "new", "--json", "--id", "a\nb c"]).is(2);
    let message = ran.field("/error/message");
    let message = message.as_str().expect("text");
    assert!(message.contains("a\nb c") && message.contains("is not a session id"), "{message}");
    assert!(!message.contains("For more information"), "{message}");
    let message = kit.run(&["runs", "recover", "--json"]).is(2).field("/error/message");
    assert_eq!(message, "the following required arguments were not provided --owner <NAME>");
}

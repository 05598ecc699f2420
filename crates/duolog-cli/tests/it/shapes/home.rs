use std::fs;

use super::Walk;

pub fn sessions(walk: &mut Walk) {
    let home = walk.kit.home().display().to_string();
    walk.ok("init", &["--home", &home]);
    walk.ok("sessions new", &["--id", "s1", "--name", "plan", "--metadata", "{\"a\":\n1}", "--agent", "ada"]);
    walk.ok("sessions set", &["s1", "--show-topic", "tests"]);
    walk.ok("sessions rename", &["s1", "route"]);
    walk.run("sessions add", &["--session", "s1"], "{\"role\":\"user\",\"content\":\"one\"} \"two\" 3 {\"a\":4}").is(0);
    walk.ok("sessions add", &["--session", "s1", "--item", "5", "--embedding", "[1,0]"]);
    walk.ok("sessions items", &["s1"]);
    walk.ok("sessions items", &["s1", "--full", "--after", "0", "--limit", "1"]);
    walk.ok("sessions items", &["s1", "--detail"]);
    let branch = walk.get("sessions fork", &["s1", "--at", "2", "--name", "other"], "/branch_id");
    walk.ok("sessions branch new", &["s1", "--name", "third"]);
    walk.ok("sessions branch rename", &["s1", "--name", "fourth", "--branch", &branch]);
    walk.ok("sessions branch set", &["s1", "--branch", &branch, "--metadata", "{\"b\":1}"]);
    walk.ok("sessions branches", &["s1", "--limit", "1"]);
    walk.run("sessions compact", &["s1", "--from", "0", "--to", "2", "--summary-file", "-"], "\"all\"").is(0);
    walk.ok("sessions compact", &["s1", "--info"]);
    walk.ok("sessions items", &["s1", "--detail"]);
    walk.ok("sessions pop", &["s1"]);
    walk.ok("sessions add", &["--session", "s1", "--item", "6", "--embedding", "[0,1]"]);
    walk.ok("sessions similar", &["--vector", "[0,1]"]);
    walk.ok("sessions send", &["--to", "s1", "--content", "\"hello\""]);
    walk.ok("sessions inbox", &["s1"]);
    walk.ok("sessions run", &["s1", "--pid", &std::process::id().to_string()]);
    walk.ok("sessions show", &["s1"]);
    walk.ok("sessions close", &["s1", "--reason", "done"]);
    walk.ok("sessions reopen", &["s1", "--reason", "more to do"]);
    walk.ok("sessions history", &["s1"]);
    walk.ok("sessions list", &["--limit", "1"]);
    walk.ok("sessions export", &["s1", "--output", "s1.json"]);
    walk.ok("sessions clear", &["s1", "--yes"]);
    walk.ok("sessions delete", &["s1", "--yes"]);
    walk.ok("sessions import", &["s1.json"]);
}

pub fn logs(walk: &mut Walk) {
    let said = "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"find the needle\"},\
                \"timestamp\":\"2026-05-27T09:00:00Z\"}\n\
                {\"type\":\"assistant\",\"message\":{\"role\":\"assistant\",\"model\":\"my-model\",\"id\":\"m1\",\
                \"content\":[{\"type\":\"text\",\"text\":\"a needle\"}],\"usage\":{\"input_tokens\":7,\"output_tokens\":1}},\
                \"timestamp\":\"2026-05-27T09:00:01Z\"}\n\
                {\"type\":\"result\",\"subtype\":\"success\",\"num_turns\":1,\"duration_ms\":5,\"total_cost_usd\":0.25,\
                \"usage\":{\"input_tokens\":7,\"output_tokens\":1},\"result\":\"a needle\"}\n";
    walk.run("log append", &["--session", "demo"], said).is(0);
    walk.run("log append", &["--session", "demo"], "").is(0);
    walk.run("log append", &["--session", "demo", "--each"], "{\"n\":1}\n{\"n\":2}\n").is(0);
    let told = format!(
        "{{\"type\":\"tool_execution_end\",\"toolCallId\":\"t\",\"result\":\"{}\"}}\nno JSON\n",
        "x".repeat(70_000)
    );
    walk.run("log record", &["--session", "told"], &told).is(0);
    walk.run("log record", &["--session", "turns", "--dialect", "turns"], "x\n{\"n\":1}\n").is(2);
    walk.ok("log replay", &["demo", "--verbose", "--full"]);
    walk.ok("log replay", &["told", "--verbose", "--full"]);
    walk.ok("log stream", &["--no-follow"]);
    walk.ok("log search", &["needle"]);
    walk.ok("log search", &["--rebuild"]);
    for usage in ["usage daily", "usage session", "usage model", "usage workflow"] {
        walk.ok(usage, &[]);
    }
    walk.ok("log verify", &["--all"]);
    walk.ok("state rebuild", &[]);
    let log = walk.kit.log_of("demo");
    let mut text = fs::read(&log).expect("a log");
    text[3] = b'\n';
    fs::write(&log, &text).expect("damaged");
    walk.run("log verify", &["demo"], "").is(4);
    walk.run("log stream", &["--no-follow"], "");
    walk.run("log search", &["needle", "--no-index"], "");
    walk.run("log repair", &["demo"], "").is(4);
    walk.run("sessions show", &["demo"], "").is(0);
}

pub fn runs(walk: &mut Walk) {
    let start = ["build", "--trigger", "t", "--repo", "acme/web", "--issue", "4", "--context", "{\"a\":1}"];
    let run = walk.get("runs start", &start, "/run/id");
    let fence = walk.get("runs claim", &[&run, "--owner", "w"], "/fence");
    let with = |args: &[&'static str]| -> Vec<String> {
        [&[&*run, "--fence", &fence][..], args].concat().into_iter().map(str::to_owned).collect()
    };
    let go = |walk: &mut Walk, command: &str, args: &[&'static str]| {
        let args = with(args);
        walk.run(command, &args.iter().map(String::as_str).collect::<Vec<_>>(), "").is(0)
    };
    go(walk, "runs renew", &[]);
    let begun = go(walk, "runs phase begin", &["plan"]).field("/execution_id");
    let execution = begun.as_str().expect("an id").to_owned();
    walk.ok("runs phase session", &[&run, &execution, "demo", "--fence", &fence]);
    let used = ["--cost-usd", "0.1", "--output-tokens", "7", "--output", "what it said", "--turns", "1"];
    walk.ok("runs phase end", &[&[&run, &execution, "--fence", &fence][..], &used].concat());
    go(walk, "runs phase skip", &["lint"]);
    walk.run("runs phase check", &[&run, "plan"], "").is(6);
    go(walk, "runs phase enter", &["test"]);
    go(walk, "runs phase complete", &["test"]);
    go(walk, "runs scratch", &["--merge", "{\"k\":[1]}"]);
    go(walk, "runs nodes", &["{\"n\":\"done\"}"]);
    walk.ok("runs output", &[&execution]);
    let gate = go(walk, "runs gate", &["ship", "--summary", "Ship?"]).field("/approval/id");
    let gate = gate.as_str().expect("an id").to_owned();
    walk.ok("approvals list", &[]);
    walk.ok("runs show", &[&run]);
    walk.ok("approvals approve", &[&gate]);
    walk.ok("approvals show", &[&gate]);
    let fence = walk.get("runs claim", &[&run, "--owner", "w"], "/fence");
    walk.ok("runs acknowledge", &[&run, &gate, "--fence", &fence]);
    walk.ok("runs release", &[&run, "--fence", &fence]);
    walk.ok("runs pause", &[&run, "--reason", "frozen"]);
    walk.ok("runs resume", &[&run]);
    walk.ok("runs requeue", &[&run]);
    walk.ok("runs admit", &["--owner", "w"]);
    walk.ok("runs fail", &[&run, "--reason", "gone"]);
    walk.ok("runs retry", &[&run]);
    walk.ok("runs finish", &[&run]);
    walk.ok("runs wait", &[&run]);
    walk.ok("runs show", &[&run]);
    walk.ok("runs history", &[&run]);
    walk.ok("runs exec", &["--json", "--workflow", "build", "--trigger", "w", "--", "true"]);
    let other = walk.get("runs start", &["build", "--trigger", "u"], "/run/id");
    walk.ok("runs cancel", &[&other]);
    for (answer, trigger) in [("approvals reject", "v"), ("approvals reply", "x")] {
        let run = walk.get("runs start", &["build", "--trigger", trigger], "/run/id");
        let kind = if answer == "approvals reply" { "reply" } else { "approve" };
        let gate = walk.get("runs gate", &[&run, "ask", "--summary", "?", "--kind", kind], "/approval/id");
        let said: &[&str] = if kind == "reply" { &["blue"] } else { &[] };
        walk.ok(answer, &[&[gate.as_str()][..], said].concat());
    }
    let turn = walk.get("runs execution begin", &["chat", "--trigger", "thread"], "/execution/id");
    walk.ok("runs execution session", &[&turn, "demo"]);
    walk.ok("runs execution end", &[&turn, "--error", "it broke"]);
    walk.ok("runs execution list", &["--trigger", "thread"]);
    walk.ok("runs errors", &["broke"]);
    walk.ok("runs recover", &["--owner", "w"]);
    walk.ok("runs expire", &[]);
    walk.ok("runs list", &["--limit", "1", "--total"]);
    walk.ok("runs stats", &["--last", "2"]);
}

pub fn others(walk: &mut Walk) {
    walk.ok("workflows disable", &["build"]);
    walk.ok("workflows enable", &["build"]);
    walk.ok("workflows list", &["--limit", "1"]);
    walk.ok("workflows clear", &["build"]);
    walk.ok("schedules list", &[]);
    walk.ok("schedules tick", &["--until", "2026-03-01T00:00:30Z"]);
    walk.ok("schedules tick", &["--until", "2026-03-01T00:02:30Z"]);
    walk.ok("schedules list", &[]);
    walk.ok("schedules runs", &["--limit", "1"]);
    walk.ok("schedules set", &["often", "--disable"]);
    walk.ok("schedules show", &["often"]);
    walk.ok("schedules clear", &["often"]);
    let at = ["--platform", "p", "--channel", "c", "--user", "u"];
    let chat = walk.get("chats add", &[&at[..], &["hello"]].concat(), "/chat_id");
    walk.ok("chats add", &["--chat", &chat, "--role", "assistant", "--agent-session", "s1", "hi"]);
    walk.ok("chats list", &["--limit", "1"]);
    walk.ok("chats show", &[&chat]);
    walk.ok("chats history", &[&chat, "--limit", "1"]);
    walk.ok("chats reset", &at);
    walk.ok("state stats", &[]);
    walk.ok("state migrate", &[]);
    walk.ok("state checkpoint", &[]);
    walk.ok("state vacuum", &[]);
    walk.ok("state blobs", &["--prune", "--yes"]);
    walk.run("state backup", &["copy"], "");
    walk.run("doctor", &[], "");
    walk.ok("config show", &[]);
    walk.ok("config check", &[]);
    walk.ok("config init", &["--stdout"]);
    walk.ok("demo", &["--fast", "--half"]);
    walk.ok("sessions delete", &["--all", "--yes"]);
}

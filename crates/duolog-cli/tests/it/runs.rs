use std::process::{Command, Stdio};

use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use serde_json::{Value, json};

use crate::kit::{DUOLOG, Kit, Ran, Transcript};

on_both_engines!(
    a_shell_drives_a_workflow_through_a_death_and_a_gate,
    of_many_answers_only_the_first_counts,
    a_wait_is_woken_by_another_process,
    a_history_leaves_out_what_repeats_a_change,
    a_history_leaves_out_what_contradicts_the_state,
);

/// What a command prints, for the next.
fn printed(ran: Ran) -> String {
    ran.is(0).text().trim().to_owned()
}

fn start(kit: &Kit, workflow: &str, trigger: &str) -> String {
    printed(kit.run(&["runs", "start", workflow, "--trigger", trigger]))
}

fn status_of(kit: &Kit, run: &str) -> Value {
    kit.run(&["runs", "show", run, "--json"]).is(0).field("/run/status")
}

#[test]
fn what_the_commands_say() {
    let kit = Kit::new();
    let mut said = Transcript::default();
    said.run(&kit, &["runs", "list"]).is(0);
    said.run(&kit, &["approvals", "list"]).is(0);
    said.run(&kit, &["workflows", "list"]).is(0);
    let begin = ["runs", "start", "build", "--trigger", "acme/web#42", "--repo", "acme/web", "--issue", "42"];
    let begin = [&begin[..], &["--by", "ada", "--context", "{\"branch\": \"main\"}"]].concat();
    let run = printed(said.run(&kit, &begin));
    said.run(&kit, &[&begin[..], &["--json"]].concat()).is(0);
    let fence = printed(said.run(&kit, &["runs", "claim", &run, "--owner", "worker-1"]));
    let plan = printed(said.run(&kit, &["runs", "phase", "begin", &run, "plan", "--fence", &fence]));
    let used = ["--turns", "3", "--cost-usd", "0.42", "--input-tokens", "1200", "--output-tokens", "90"];
    let ended = ["runs", "phase", "end", &run, &plan, "--fence", &fence, "--duration-ms", "900"];
    let ended = [&ended[..], &used, &["--output", "the plan", "--summary", "three steps"]].concat();
    said.run(&kit, &ended).is(0);
    said.run(&kit, &["runs", "output", &plan]).is(0);
    said.run(&kit, &["runs", "phase", "begin", &run, "plan", "--fence", &fence]).is(6);
    said.run(&kit, &["runs", "phase", "check", &run, "plan", "--json"]).is(6);
    let build = printed(said.run(&kit, &["runs", "phase", "begin", &run, "build", "--fence", &fence]));
    said.run(&kit, &["runs", "phase", "check", &run, "build"]).is(3);
    let failed = ["runs", "phase", "end", &run, &build, "--fence", &fence, "--duration-ms", "1500"];
    let failed = [&failed[..], &["--error", "3 tests failed", "--stop-reason", "error_tool"]].concat();
    said.run(&kit, &failed).is(0);
    said.run(&kit, &["runs", "phase", "skip", &run, "lint", "--fence", &fence, "--reason", "no changes"]).is(0);
    let build = printed(said.run(&kit, &["runs", "phase", "begin", &run, "build", "--fence", &fence]));
    said.run(&kit, &["runs", "scratch", &run, "--merge", "{\"branch\":\"fix\",\"n\":[1,\n2]}", "--fence", &fence])
        .is(0);
    said.run(&kit, &["runs", "nodes", &run, "{\"a\":\"done\"}", "--fence", &fence]).is(0);
    said.run(&kit, &["runs", "show", &run]).is(0);
    let well = ["runs", "phase", "end", &run, &build, "--fence", &fence, "--duration-ms", "1200", "--json"];
    said.run(&kit, &well).is(0);
    let ask =
        ["runs", "gate", &run, "ship", "--summary", "Ship it?\nTo everybody?", "--fence", &fence, "--by", "worker-1"];
    let gate = printed(said.run(&kit, &ask));
    said.run(&kit, &["approvals", "list"]).is(0);
    said.run(&kit, &["approvals", "list", "--json"]).is(0);
    said.run(&kit, &["approvals", "show", &gate]).is(0);
    said.run(&kit, &["runs", "show", &run]).is(0);
    said.run(&kit, &["runs", "list"]).is(0);
    said.run(&kit, &["runs", "list", "--status", "active", "--total", "--json"]).is(0);
    said.run(&kit, &["approvals", "approve", &gate, "--by", "ada", "--reason", "go"]).is(0);
    said.run(&kit, &["runs", "show", &run]).is(0);
    let claim = said.run(&kit, &["runs", "claim", &run, "--owner", "worker-2", "--json"]).is(0);
    let fence = claim.field("/fence").to_string();
    said.run(&kit, &["runs", "acknowledge", &run, &gate, "--fence", &fence]).is(0);
    said.run(&kit, &["runs", "acknowledge", &run, &gate, "--fence", &fence, "--json"]).is(6);
    said.run(&kit, &["runs", "renew", &run, "--fence", &fence, "--lease", "5m"]).is(0);
    said.run(&kit, &["runs", "finish", &run, "--fence", &fence, "--marker", "complete"]).is(0);
    said.run(&kit, &["runs", "finish", &run, "--fence", &fence]).is(6);
    said.run(&kit, &["runs", "show", &run]).is(0);
    said.run(&kit, &["runs", "show", &run, "--json"]).is(0);
    said.run(&kit, &["runs", "errors", "TESTS"]).is(0);
    said.run(&kit, &["runs", "errors", "nobody"]).is(0);
    said.run(&kit, &["runs", "wait", &run]).is(0);
    said.run(&kit, &["runs", "wait", &run, "--for", "failed", "--json"]).is(1);
    said.run(&kit, &["workflows", "disable", "build", "--by", "ada"]).is(0);
    said.run(&kit, &["workflows", "disable", "build"]).is(6);
    said.run(&kit, &["workflows", "list"]).is(0);
    said.run(&kit, &["workflows", "list", "--json"]).is(0);
    said.run(&kit, &["workflows", "clear", "build", "--json"]).is(0);
    kit.snapshot("runs", &said.0);
}

#[test]
fn a_place_is_waited_for_in_turn() {
    let kit = Kit::new();
    let mut said = Transcript::default();
    let queued: Vec<String> = (0..3)
        .map(|number: u32| printed(kit.run(&["runs", "start", "build", "--trigger", &number.to_string(), "--queue"])))
        .collect();
    said.run(&kit, &["runs", "show", &queued[2]]).is(0);
    let admitted = printed(said.run(&kit, &["runs", "admit", "--owner", "worker-1", "--limit", "1"]));
    let (first, fence) = admitted.split_once(' ').expect("a run and a fence");
    assert_eq!(first, queued[0]);
    said.run(&kit, &["runs", "requeue", first, "--fence", fence, "--reason", "quota"]).is(0);
    let next = kit.run(&["runs", "show", &queued[0], "--json"]).is(0);
    assert!(next.field("/next_steps/0/text").to_string().contains("2 before it"), "it went to the end of the queue");
    said.run(&kit, &["workflows", "disable", "build"]).is(0);
    said.run(&kit, &["runs", "admit"]).is(0);
    said.run(&kit, &["runs", "show", &queued[1]]).is(0);
    said.run(&kit, &["workflows", "enable", "build"]).is(0);
    said.run(&kit, &["runs", "admit", "--json", "--limit", "2"]).is(0);
    said.run(&kit, &["runs", "pause", &queued[1], "--reason", "frozen", "--by", "ada"]).is(0);
    said.run(&kit, &["runs", "show", &queued[1]]).is(0);
    said.run(&kit, &["runs", "resume", &queued[1]]).is(0);
    said.run(&kit, &["runs", "resume", &queued[1]]).is(6);
    said.run(&kit, &["runs", "cancel", &queued[1], "--reason", "not needed", "--by", "ada"]).is(0);
    said.run(&kit, &["runs", "fail", &queued[2], "--reason", "its sandbox is gone"]).is(0);
    said.run(&kit, &["runs", "show", &queued[2]]).is(0);
    said.run(&kit, &["runs", "retry", &queued[2], "--json"]).is(0);
    said.run(&kit, &["runs", "retry", &queued[1], "--queue"]).is(0);
    said.run(&kit, &["runs", "recover", "--owner", "worker-1"]).is(0);
    said.run(&kit, &["runs", "expire"]).is(0);
    kit.snapshot("runs_queue", &said.0);
}

/// A run at a gate.
struct Waiting {
    run: String,
    gate: String,
}

fn at_a_gate(kit: &Kit, trigger: &str, args: &[&str]) -> Waiting {
    let run = start(kit, "build", trigger);
    let gate = printed(kit.run(&[&["runs", "gate", &run, "ship", "--summary", "Ship it?"], args].concat()));
    Waiting { run, gate }
}

#[test]
fn what_is_wrong_is_said_with_a_way_out() {
    let kit = Kit::new();
    let mut said = Transcript::default();
    let run = start(&kit, "build", "one");
    let other = start(&kit, "build", "two");

    // Words that are none.
    said.run(&kit, &["runs", "list", "--status", "done"]).is(2);
    said.run(&kit, &["runs", "list", "--status", "done", "--json"]).is(2);
    said.run(&kit, &["runs", "start", "build", "--trigger", "x", "--trigger-type", "mail"]).is(2);
    said.run(&kit, &["runs", "gate", &run, "ship", "--summary", "x", "--kind", "vote"]).is(2);
    said.run(&kit, &["approvals", "list", "--status", "open"]).is(2);
    said.run(&kit, &["runs", "wait", &run, "--for", "done"]).is(2);
    said.run(&kit, &["runs", "wait", &run, "--timeout", "soon"]).is(2);
    said.run(&kit, &["runs", "list", "--after", "1.x"]).is(2);
    said.run(&kit, &["runs", "stats", "--zone", "Mars/Base"]).is(2);
    said.run(&kit, &["runs", "stats", "--last", "367"]).is(2);
    said.run(&kit, &["runs", "stats", "--hourly", "--last", "0"]).is(2);
    said.run(&kit, &["runs", "start", "a:b", "--trigger", "x"]).is(2);
    said.run(&kit, &["runs", "start", "build", "--trigger", ""]).is(2);
    said.run(&kit, &["runs", "phase", "begin", &run, "two words"]).is(2);
    said.run(&kit, &["runs", "renew", &run]).is(2);
    said.run(&kit, &["runs", "renew", &run, "--fence", "mine"]).is(2);
    said.run(&kit, &["runs", "claim", &run, "--owner", "w", "--lease", "0s"]).is(2);
    said.run(&kit, &["runs", "claim", &run, "--owner", ""]).is(2);

    // What is not there.
    said.run(&kit, &["runs", "show", "nobody"]).is(1);
    said.run(&kit, &["runs", "cancel", "nobody", "--json"]).is(1);
    said.run(&kit, &["approvals", "approve", "nobody"]).is(1);
    said.run(&kit, &["approvals", "approve", "--run", &run, "--gate", "ship"]).is(1);
    said.run(&kit, &["runs", "output", "nobody"]).is(1);

    // Claims.
    let fence = printed(kit.run(&["runs", "claim", &run, "--owner", "worker-1"]));
    said.run(&kit, &["runs", "phase", "begin", &run, "plan", "--quiet"]).is(3);
    let claimed = kit.run(&["runs", "claim", &run, "--owner", "worker-2"]).is(3).says("is claimed by worker-1 until");
    assert!(claimed.stderr.contains("hint: "), "{}", claimed.stderr);
    let plan = printed(kit.run(&["runs", "phase", "begin", &run, "plan", "--fence", &fence]));
    said.run(&kit, &["runs", "phase", "end", &other, &plan]).is(1);
    kit.run(&["runs", "release", &run, "--fence", &fence]).is(0);
    said.run(&kit, &["runs", "phase", "end", &run, &plan, "--fence", &fence]).is(7);
    said.run(&kit, &["runs", "finish", &run, "--fence", &fence, "--json"]).is(7);

    // Figures.
    let end = |figures: &[&'static str]| [&["runs", "phase", "end", &run, &plan][..], figures].concat();
    said.run(&kit, &end(&["--cost-usd", "-0.5"])).is(2);
    said.run(&kit, &end(&["--cost-usd", "NaN"])).is(2);
    said.run(&kit, &end(&["--cost-usd", "inf"])).is(2);
    said.run(&kit, &end(&["--cost-usd", "1e30"])).is(2);
    said.run(&kit, &end(&["--turns", "-1"])).is(2);
    said.run(&kit, &end(&["--input-tokens", "18446744073709551615"])).is(2);
    kit.run(&end(&["--error", "no"])).is(0);
    said.run(&kit, &end(&[])).is(1);

    // What is too large, or no JSON.
    let mebibyte = "x".repeat(1 << 20);
    let context = format!("{{\"a\":\"{mebibyte}\"}}");
    said.feed(&kit, &["runs", "start", "big", "--trigger", "x", "--context", "-"], context.as_bytes()).is(2);
    said.run(&kit, &["runs", "start", "big", "--trigger", "x", "--context", "{"]).is(2);
    said.feed(&kit, &["runs", "gate", &run, "ship", "--summary", "-"], mebibyte.as_bytes()).is(2);
    said.feed(&kit, &["runs", "phase", "complete", &run, "plan", "--summary", "-"], mebibyte.as_bytes()).is(2);
    let value = format!("{{\"key\":\"{}\"}}", "x".repeat(65_537));
    said.feed(&kit, &["runs", "scratch", &run, "--merge", "-"], value.as_bytes()).is(2);
    let many: Vec<String> = (0..20).map(|number| format!("\"k{number}\":\"{}\"", "x".repeat(60_000))).collect();
    let many = format!("{{{}}}", many.join(","));
    said.feed(&kit, &["runs", "scratch", &run, "--merge", "-"], many.as_bytes()).is(2);
    said.run(&kit, &["runs", "scratch", &run, "--merge", "[1]"]).is(2);
    said.run(&kit, &["runs", "scratch", &run, "--merge", "{\"a\":NaN}"]).is(2);
    said.run(&kit, &["runs", "scratch", &run]).is(0);

    // What may not happen.
    let queued = printed(kit.run(&["runs", "start", "build", "--trigger", "three", "--queue"]));
    said.run(&kit, &["runs", "pause", &queued]).is(1);
    said.run(&kit, &["runs", "finish", &queued, "--json"]).is(1);
    said.run(&kit, &["runs", "claim", &queued, "--owner", "w"]).is(1);
    kit.run(&["runs", "finish", &other]).is(0);
    said.run(&kit, &["runs", "cancel", &other]).is(1);
    said.run(&kit, &["runs", "retry", &other]).is(1);
    said.run(&kit, &["runs", "phase", "begin", &other, "plan"]).is(1);
    kit.run(&["runs", "cancel", &run]).is(0);
    kit.run(&["workflows", "disable", "build", "--by", "ada"]).is(0);
    said.run(&kit, &["runs", "start", "build", "--trigger", "four"]).is(1);
    said.run(&kit, &["runs", "retry", &run]).is(1);
    kit.snapshot("runs_wrong", &said.0);
    assert_eq!(status_of(&kit, &run), "cancelled");
}

#[test]
fn a_gate_takes_one_answer_of_its_kind() {
    let kit = Kit::new();
    let mut said = Transcript::default();
    let yes = at_a_gate(&kit, "one", &["--hash", "h1"]);
    let words = at_a_gate(&kit, "two", &["--kind", "reply"]);
    let late = printed(kit.run(&["runs", "start", "build", "--trigger", "three"]));
    said.run(&kit, &["runs", "gate", &late, "ship", "--summary", "Ship it?", "--expires", "2020-01-01"]).is(2);
    said.run(&kit, &["runs", "resume", &yes.run]).is(1);
    said.run(&kit, &["approvals", "reply", &yes.gate, "well"]).is(2);
    said.run(&kit, &["approvals", "reply", &words.gate]).is(2);
    said.run(&kit, &["approvals", "approve", &words.gate]).is(2);
    said.run(&kit, &["approvals", "approve", &yes.gate, "--run", &words.run]).is(2);
    said.run(&kit, &["approvals", "approve", &yes.gate, "--hash", "h2"]).is(7);
    said.run(&kit, &["runs", "acknowledge", &yes.run, &yes.gate]).is(1);
    kit.run(&["approvals", "reject", &yes.gate, "--reason", &"x".repeat(20_000)]).is(2).says("response");
    said.feed(&kit, &["approvals", "reply", &words.gate, "--response", "-"], b"  \n").is(2);
    said.run(&kit, &["approvals", "approve", "--run", &yes.run, "--gate", "ship", "--hash", "h1", "--by", "ada"]).is(0);
    said.run(&kit, &["approvals", "approve", &yes.gate, "--by", "bob"]).is(1);
    said.run(&kit, &["approvals", "reject", &yes.gate, "--by", "bob", "--json"]).is(1);
    said.feed(&kit, &["approvals", "reply", &words.gate, "--response", "-", "--by", "ada"], "blue\nand ä\n".as_bytes())
        .is(0);
    said.run(&kit, &["approvals", "show", &words.gate]).is(0);
    said.run(&kit, &["runs", "acknowledge", &words.run, &yes.gate]).is(2);
    said.run(&kit, &["approvals", "reply", &words.gate, "red", "--by", "bob"]).is(1);
    said.run(&kit, &["runs", "show", &late]).is(0);
    let no = at_a_gate(&kit, "four", &[]);
    said.run(&kit, &["approvals", "reject", &no.gate, "--by", "ada", "--reason", "not on a Friday"]).is(0);
    said.run(&kit, &["runs", "show", &no.run]).is(0);
    said.run(&kit, &["runs", "expire"]).is(0);
    kit.snapshot("runs_gates", &said.0);
    assert_eq!(status_of(&kit, &yes.run), "running");
}

#[test]
fn pages_and_filters_follow_each_other() {
    let kit = Kit::new();
    let repos = ["acme/web", "acme/api"];
    for number in 0..7_usize {
        let (trigger, repo) = (number.to_string(), repos[number % 2]);
        kit.run(&["runs", "start", "build", "--trigger", &trigger, "--repo", repo, "--queue"]).is(0);
    }
    let (mut seen, mut after) = (Vec::new(), None::<String>);
    loop {
        let mut args = vec!["runs", "list", "--limit", "3", "--json", "--status", "queued"];
        args.extend(after.iter().flat_map(|token| ["--after", token.as_str()]));
        let page = kit.run(&args).is(0);
        assert!(page.field("/total").is_null(), "counted only when asked");
        seen.extend(page.field("/runs").as_array().expect("runs").iter().map(|run| run["trigger_id"].clone()));
        match page.field("/next").as_str() {
            Some(token) => after = Some(token.to_owned()),
            None => break,
        }
    }
    assert_eq!(seen, ["6", "5", "4", "3", "2", "1", "0"], "each once, the newest first");
    let count = |args: &[&str]| kit.run(&[&["runs", "list", "--total", "--json"], args].concat()).is(0).field("/total");
    assert_eq!(count(&["--repo", "acme/web"]), 4);
    assert_eq!(count(&["--repo", "acme/web", "--trigger", "2"]), 1);
    assert_eq!((count(&["--status", "active"]), count(&["--status", "failed"])), (7.into(), 0.into()));
    assert_eq!((count(&["--since", "1h"]), count(&["--since", "2100-01-01"])), (7.into(), 0.into()));
    assert_eq!((count(&["--workflow", "build"]), count(&["--workflow", "other"])), (7.into(), 0.into()));
    assert_eq!(count(&["--status", "failed", "--status", "queued"]), 7);
}

#[test]
fn stretches_with_nothing_in_them_are_shown() {
    let kit = Kit::new();
    let run = start(&kit, "build", "one");
    let plan = printed(kit.run(&["runs", "phase", "begin", &run, "plan"]));
    let end =
        ["runs", "phase", "end", &run, &plan, "--cost-usd", "0.1", "--output-tokens", "7", "--duration-ms", "1500"];
    kit.run(&end).is(0);
    kit.run(&["runs", "phase", "skip", &run, "lint"]).is(0);
    kit.run(&["runs", "phase", "begin", &run, "build"]).is(0);
    let days = kit.run(&["runs", "stats", "--json"]).is(0);
    assert_eq!(days.field("/rollups").as_array().map(Vec::len), Some(7));
    assert_eq!(days.field("/rollups/0/started"), 0);
    let counts = ["started", "succeeded", "failed", "skipped", "deferred", "in_flight"];
    let counts = counts.map(|name| days.field(&format!("/totals/{name}")));
    assert_eq!(json!(counts), json!([3, 1, 0, 1, 0, 1]));
    assert_eq!((days.field("/totals/cost_usd"), days.field("/totals/duration_ms")), (json!(0.1), json!(1500)));
    let hours = kit.run(&["runs", "stats", "--hourly", "--last", "30", "--zone", "Asia/Kathmandu", "--json"]).is(0);
    assert_eq!(hours.field("/rollups").as_array().map(Vec::len), Some(30));
    assert_eq!((hours.field("/totals/started"), hours.field("/zone")), (json!(3), json!("Asia/Kathmandu")));
    let text = kit.run(&["runs", "stats", "--last", "2", "--workflow", "build"]).is(0).text();
    assert_eq!(text.lines().count(), 4, "a head, two days and a total: {text}");
    assert!(text.contains("IN_FLIGHT") && text.contains("$0.1000"), "{text}");
    let none = kit.run(&["runs", "stats", "--workflow", "other", "--json"]).is(0);
    assert_eq!(none.field("/totals/started"), 0);
}

#[test]
fn what_an_execution_said_last_is_kept_whole() {
    let kit = Kit::new();
    let run = start(&kit, "build", "one");
    let plan = printed(kit.run(&["runs", "phase", "begin", &run, "plan"]));
    kit.run(&["runs", "output", &plan]).is(1).says("the execution has no output");
    let text = "äx\n".repeat(500_000);
    kit.feed(&["runs", "phase", "end", &run, &plan, "--output", "-"], text.as_bytes()).is(0);
    let end = kit.run(&["runs", "output", &plan]).is(0).says("--full prints the full output").text();
    assert!(end.len() <= 1 << 20 && end.ends_with("äx\näx\n"), "{} bytes", end.len());
    assert!(kit.run(&["runs", "output", &plan, "--full"]).is(0).text() == text, "all of it");
    assert_eq!(kit.run(&["runs", "output", &plan, "--json"]).is(0).field("/bytes"), 2_000_000);
}

#[test]
fn the_question_of_a_loop_is_shown_where_it_is_answered() {
    let kit = Kit::new();
    let run = start(&kit, "design", "one");
    let turn = printed(kit.run(&["runs", "phase", "begin", &run, "talk_iter_2"]));
    kit.run(&["runs", "phase", "end", &run, &turn, "--output", "Which colors?"]).is(0);
    let ask =
        ["runs", "gate", &run, "talk_iter_2", "--kind", "reply", "--summary", "a question", "--scratch", "{\"n\":1}"];
    let gate = printed(kit.run(&[&ask[..], &["--loop-key", "talk", "--iteration", "2", "--output", &turn]].concat()));
    let shown = kit.run(&["approvals", "show", &gate[..13], "--json"]).is(0);
    assert_eq!(shown.field("/question"), "Which colors?");
    let scratch = kit.run(&["runs", "scratch", &run, "--json"]).is(0);
    assert_eq!(scratch.field("/scratch/talk/lastOutputExecutionId"), turn);
    assert_eq!((scratch.field("/scratch/talk/iteration"), scratch.field("/scratch/n")), (json!(2), json!(1)));
}

/// What stands in a gate comes from whoever wrote the issue, and decides what a person says at it.
#[test]
fn what_others_wrote_does_nothing_to_the_terminal() {
    let kit = Kit::new();
    let hostile = "\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}31m\u{8}\u{202e}abc\rover";
    let args = ["--by", hostile, "--repo", hostile, "--context", "{\"a\":\"\u{202e}\"}", "--owner", hostile];
    let started = kit.run(&[&["runs", "start", "build", "--trigger", hostile, "--json"], &args[..]].concat()).is(0);
    assert_eq!(started.field("/run/trigger_id"), hostile, "programs get it as it is");
    let run = started.field("/run/id").as_str().expect("an id").to_owned();
    let shown = |kit: &Kit, args: &[&str]| {
        let text = kit.run(args).text();
        let bad = |letter: char| letter != '\n' && (letter.is_control() || ('\u{2028}'..='\u{202e}').contains(&letter));
        assert!(!text.contains(bad), "{args:?}: {text:?}");
        assert!(text.contains("abc"), "{args:?}: what was written is shown: {text:?}");
    };
    shown(&kit, &["runs", "list"]);
    shown(&kit, &["runs", "show", &run]);
    let refused = kit.run(&["runs", "claim", &run, "--owner", "x"]).is(3);
    assert!(!refused.stderr.contains('\u{1b}'), "{:?}", refused.stderr);
    let plan = printed(kit.run(&["runs", "phase", "begin", &run, "plan", "--fence", "1"]));
    kit.run(&["runs", "phase", "end", &run, &plan, "--fence", "1", "--error", hostile, "--output", hostile]).is(0);
    shown(&kit, &["runs", "errors", "abc"]);
    let patch = json!({ hostile: { "last": hostile } }).to_string();
    kit.run(&["runs", "scratch", &run, "--merge", &patch, "--fence", "1"]).is(0);
    let ask = ["runs", "gate", &run, hostile, "--summary", hostile, "--kind", "reply", "--by", hostile, "--fence", "1"];
    let ask = [&ask[..], &["--hash", hostile, "--loop-key", hostile, "--iteration", "1", "--output", &plan]].concat();
    let gate = printed(kit.run(&ask));
    shown(&kit, &["approvals", "list"]);
    shown(&kit, &["approvals", "show", &gate]);
    shown(&kit, &["approvals", "reply", &gate, hostile, "--by", hostile, "--hash", hostile]);
    shown(&kit, &["approvals", "show", &gate]);
    shown(&kit, &["runs", "show", &run]);
}

#[test]
fn a_run_whose_owners_keep_dying_is_given_up() {
    let kit = Kit::new();
    let runs: Vec<String> = ["one", "two"]
        .map(|trigger| printed(kit.run(&["runs", "start", "build", "--trigger", trigger, "--restart-cap", "0"])))
        .into();
    for run in &runs {
        kit.run(&["runs", "claim", run, "--owner", "w", "--lease", "1s"]).is(0);
    }
    // Each owner is dead as soon as its lease has ended.
    while !kit.run(&["runs", "show", &runs[1]]).is(0).text().contains("would fail the run: 0 of 0 restarts are used") {}
    kit.run(&["runs", "claim", &runs[0], "--owner", "x"])
        .is(1)
        .says(&format!("then run: duolog runs retry {}", runs[0]));
    let recovered = kit.run(&["runs", "recover", "--owner", "x"]).is(0).says("failed: it was already taken over");
    assert_eq!(recovered.text(), "", "none is resumed");
    for run in &runs {
        let shown = kit.run(&["runs", "show", run, "--json"]).is(0);
        assert_eq!((shown.field("/run/status"), shown.field("/run/restart_count")), (json!("failed"), json!(0)));
        assert!(shown.field("/run/error_message").to_string().contains("owners that died"));
        kit.run(&["runs", "retry", run]).is(0);
        assert_eq!(status_of(&kit, run), "running", "a person may have it run again");
    }
}

/// The script of a runner that a person would write: everything that it knows it reads from what commands print.
const RUNNER: &str = r#"
set -eu
phase() {
    if execution=$("$D" --quiet runs phase begin "$run" "$1" --fence "$fence"); then
        echo "$1" >> done.txt
        if [ "$1" = "${DIES_IN:-}" ]; then kill -9 $$; fi
        "$D" --quiet runs phase end "$run" "$execution" --fence "$fence" --turns 1
    fi
}
phase plan
phase build
gate=$("$D" approvals list --all --run "$run" --json | sed 's/.*"approvals":\[{"id":"\([^"]*\)".*/\1/')
case $gate in
*approvals*) "$D" --quiet runs gate "$run" ship --summary 'Ship it?' --fence "$fence"; exit ;;
esac
"$D" --quiet runs acknowledge "$run" "$gate" --fence "$fence"
phase ship
"$D" --quiet runs finish "$run" --fence "$fence"
"#;

fn runner(kit: &Kit, run: &str, fence: &str, dies_in: &str) -> Option<i32> {
    // The environment of the kit's own command, for the shell.
    let around = kit.command::<&str>(&[]);
    let mut shell = Command::new("sh");
    shell.env_clear().envs(around.get_envs().filter_map(|(key, value)| Some((key, value?))));
    shell.current_dir(kit.dir.path()).args(["-c", RUNNER]).stdin(Stdio::null()).stdout(Stdio::null());
    shell.env("D", DUOLOG).env("run", run).env("fence", fence).env("DIES_IN", dies_in);
    shell.status().expect("a shell").code()
}

fn a_shell_drives_a_workflow_through_a_death_and_a_gate(place: &Place) {
    let kit = Kit::on(place);
    let run = start(&kit, "release", "nightly");
    let fence = printed(kit.run(&["runs", "claim", &run, "--owner", "shell-1", "--lease", "1s"]));
    assert_eq!(runner(&kit, &run, &fence, "build"), None, "killed");
    let told = loop {
        let shown = kit.run(&["runs", "show", &run]).is(0).text();
        if shown.contains("lease expired") {
            break shown;
        }
    };
    assert!(told.contains("duolog runs recover would resume the run, restart 1 of 3"), "{told}");
    assert!(told.contains("▶ running  build") && told.contains("✓ done     plan"), "{told}");
    let claim = kit.run(&["runs", "recover", "--owner", "shell-2", "--json"]).is(0).field("/claims/0");
    assert_eq!((&claim["run"]["id"], &claim["taken_over"]), (&json!(run), &json!(true)));
    assert_eq!(claim["closed_execution_ids"].as_array().map(Vec::len), Some(1), "what was in flight is closed");
    let stale = kit.run(&["runs", "phase", "begin", &run, "build", "--fence", &fence]).is(7);
    let fence = claim["fence"].to_string();
    assert!(stale.stderr.contains(&format!("was overtaken by claim {fence} of shell-2")), "{}", stale.stderr);
    assert_eq!(runner(&kit, &run, &fence, ""), Some(0));
    assert_eq!(status_of(&kit, &run), "paused");
    let gates = kit.run(&["approvals", "list", "--json"]).is(0);
    let gate = gates.field("/approvals/0/id").as_str().expect("a gate").to_owned();
    kit.run(&["approvals", "approve", &gate, "--by", "ada"]).is(0);
    let fence = printed(kit.run(&["runs", "claim", &run, "--owner", "shell-3"]));
    assert_eq!(runner(&kit, &run, &fence, ""), Some(0));
    let shown = kit.run(&["runs", "show", &run, "--json"]).is(0);
    assert_eq!((shown.field("/run/status"), shown.field("/run/restart_count")), (json!("succeeded"), json!(1)));
    assert!(!shown.field("/approvals/0/consumed_at").is_null());
    let ran = std::fs::read_to_string(kit.dir.path().join("done.txt")).expect("what ran");
    assert_eq!(ran, "plan\nbuild\nbuild\nship\n", "only what was cut short ran again");
    let told = kit.run(&["log", "cat", &run]).is(0).text();
    let count = |word: &str| told.lines().filter(|line| line.contains(word)).count();
    assert_eq!((count("\"event\":\"takeover\""), count("\"event\":\"succeed\"")), (1, 1), "{told}");
}

fn of_many_answers_only_the_first_counts(place: &Place) {
    let kit = Kit::on(place);
    let Waiting { run, gate } = at_a_gate(&kit, "one", &[]);
    let answer = |number: usize| {
        let (verb, by) = (if number.is_multiple_of(2) { "approve" } else { "reject" }, format!("person-{number}"));
        let mut command = kit.command(&["approvals", verb, &gate, "--by", &by]);
        (by, command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts"))
    };
    let answers: Vec<_> = (0..6).map(answer).collect();
    let mut first = Vec::new();
    for (by, mut child) in answers {
        match child.wait().expect("ends").code() {
            Some(0) => first.push(by),
            other => assert_eq!(other, Some(1), "{by} is told that it is answered"),
        }
    }
    assert_eq!(first.len(), 1, "{first:?}");
    let shown = kit.run(&["runs", "show", &run, "--json"]).is(0);
    assert_eq!(shown.field("/approvals/0/responded_by"), first[0]);
    let stands = if shown.field("/approvals/0/status") == "approved" { "running" } else { "failed" };
    assert_eq!(shown.field("/run/status"), stands, "the run is as the answer says");
}

fn a_wait_is_woken_by_another_process(place: &Place) {
    let kit = Kit::on(place);
    let run = start(&kit, "build", "one");
    kit.run(&["runs", "wait", &run, "--timeout", "0s"]).is(3).says("timed out after 0 s; the run is still running");
    let mut waiting = kit.command(&["runs", "wait", &run, "--for", "succeeded", "--timeout", "5m", "--quiet"]);
    let mut waiting = waiting.spawn().expect("starts");
    kit.run(&["runs", "finish", &run]).is(0);
    assert!(waiting.wait().expect("ends").success());
    let other = start(&kit, "build", "two");
    let mut waiting = kit.command(&["runs", "wait", &other, "--for", "succeeded", "--quiet"]).spawn().expect("starts");
    kit.run(&["runs", "cancel", &other]).is(0);
    assert_eq!(waiting.wait().expect("ends").code(), Some(1), "another end is an answer, too");
}

/// Executions outside of runs: begun, given a session, ended, listed and counted.
#[test]
fn a_chat_turn_is_recorded_from_a_shell() {
    let kit = Kit::new();
    let mut said = Transcript::default();
    let begin = ["runs", "execution", "begin", "chat", "--trigger", "thread-7", "--id", "turn-1"];
    said.run(&kit, &begin).is(0);
    said.run(&kit, &begin).is(0);
    said.run(&kit, &["runs", "execution", "begin", "chat", "--trigger", "thread-8", "--id", "turn-1"]).is(1);
    said.run(&kit, &["runs", "execution", "session", "turn-1", "session-1"]).is(0);
    let used = ["--turns", "1", "--cost-usd", "0.02", "--duration-ms", "700", "--output", "hello"];
    said.run(&kit, &[&["runs", "execution", "end", "turn-1"][..], &used].concat()).is(0);
    said.run(&kit, &[&["runs", "execution", "end", "turn-1"][..], &used].concat()).is(1);
    said.run(&kit, &["runs", "output", "turn-1"]).is(0);
    said.run(&kit, &["runs", "execution", "list", "--trigger", "thread-7", "--json"]).is(0);
    kit.snapshot("runs_execution", &said.0);
    let run = start(&kit, "build", "t");
    let execution = printed(kit.run(&["runs", "phase", "begin", &run, "plan"]));
    kit.run(&["runs", "execution", "end", &execution]).is(2).says("belongs to run");
    kit.run(&["runs", "phase", "session", &run, &execution, "later"]).is(0);
    let shown = kit.run(&["runs", "show", &run, "--json"]).is(0);
    assert_eq!(shown.field("/executions/0/session_id"), "later");
}

/// The same id with the same content changes nothing; with other content it is refused in words.
#[test]
fn an_id_that_is_taken_is_refused_in_words() {
    let kit = Kit::new();
    let mut said = Transcript::default();
    let begin = ["runs", "start", "build", "--trigger", "t", "--id", "r"];
    said.run(&kit, &begin).is(0);
    said.run(&kit, &begin).is(0);
    said.run(&kit, &["runs", "start", "other", "--trigger", "t", "--id", "r"]).is(1);
    let gate = ["runs", "gate", "r", "ship", "--id", "g", "--summary", "Ship?"];
    said.run(&kit, &gate).is(0);
    said.run(&kit, &gate).is(0);
    said.run(&kit, &["runs", "gate", "r", "ship", "--id", "g", "--summary", "Really?"]).is(1);
    said.run(&kit, &["runs", "retry", "r"]).is(1);
    said.run(&kit, &["runs", "finish", "r"]).is(1);
    kit.append("taken", "{}\n");
    let session = kit.run(&["sessions", "show", "taken", "--json"]).is(0).field("/session/id");
    let session = session.as_str().expect("an id");
    kit.run(&["runs", "start", "build", "--trigger", "u", "--id", session]).is(2).says("is that of a session");
    kit.run(&["approvals", "approve", "g", "--by", "ada"]).is(0);
    said.run(&kit, &["runs", "history", "r"]).is(0);
    said.run(&kit, &["runs", "history", "r", "--limit", "1", "--json"]).is(0);
    kit.snapshot("runs_ids", &said.0);
}

/// Anybody can append a line that looks like one about a run; it is not believed.
fn a_history_leaves_out_what_contradicts_the_state(place: &Place) {
    let kit = Kit::on(place);
    let session = printed(kit.run(&["sessions", "new", "--name", "told"]));
    let run = printed(kit.run(&["runs", "start", "build", "--trigger", "t", "--session", &session]));
    let forged = |event: &str, previous: &str, status: &str| {
        let line = json!({
            "type": "system", "subtype": "duolog.run", "run": run, "event": event,
            "previousStatus": previous, "status": status,
        });
        kit.run(&["log", "append", "--session", &session, "--line", &line.to_string()]).is(0);
    };
    let history = || {
        let told = kit.run(&["runs", "history", &run, "--json"]).is(0);
        let events: Vec<Value> =
            told.field("/history").as_array().into_iter().flatten().map(|one| one["event"].clone()).collect();
        (events, told.field("/rejected_lines"), told.field("/complete"))
    };
    assert_eq!(history(), (vec![json!("start")], json!(0), json!(true)));
    forged("succeed", "running", "succeeded");
    assert_eq!(history(), (vec![json!("start")], json!(1), json!(false)));
    kit.run(&["runs", "pause", &run]).is(0);
    assert_eq!(history(), (vec![json!("start"), json!("pause")], json!(1), json!(false)));
    forged("start", "", "paused");
    assert_eq!(history(), (vec![json!("start"), json!("pause")], json!(2), json!(false)));
    kit.run(&["runs", "history", &run]).is(0).says("2 lines rejected because of a conflict");
}

/// A line that repeats a change that was, under another uuid, is not a change.
fn a_history_leaves_out_what_repeats_a_change(place: &Place) {
    let kit = Kit::on(place);
    let session = printed(kit.run(&["sessions", "new", "--name", "told"]));
    let run = printed(kit.run(&["runs", "start", "build", "--trigger", "t", "--session", &session]));
    kit.run(&["runs", "claim", &run, "--owner", "w"]).is(0);
    kit.run(&["runs", "pause", &run, "--reason", "lunch"]).is(0);
    let told = kit.run(&["log", "cat", &session]).is(0).text();
    let changes: Vec<&str> = told.lines().filter(|line| line.contains("duolog.run\"")).collect();
    assert_eq!(changes.len(), 3, "{told}");
    for (at, line) in changes.iter().enumerate() {
        let mut copy: Value = serde_json::from_str(line).expect("JSON");
        copy["uuid"] = json!(format!("copy-{at}"));
        kit.run(&["log", "append", "--session", &session, "--line", &copy.to_string()]).is(0);
    }
    let mut later: Value = serde_json::from_str(changes[1]).expect("JSON");
    later["timestamp"] = json!("2036-01-01T00:00:00.000000Z");
    kit.run(&["log", "append", "--session", &session, "--line", &later.to_string()]).is(0);
    let history = kit.run(&["runs", "history", &run, "--json"]).is(0);
    let events: Vec<Value> =
        history.field("/history").as_array().into_iter().flatten().map(|one| one["event"].clone()).collect();
    assert_eq!(
        (events, history.field("/rejected_lines")),
        (vec![json!("start"), json!("claim"), json!("pause")], json!(4))
    );
}

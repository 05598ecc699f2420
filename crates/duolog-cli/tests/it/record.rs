use std::io::{BufReader, Write as _};
use std::process::{ChildStdin, Stdio};

use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;
use rustix::process::Signal;

use crate::follow::Following;
use crate::kit::{Kit, Ran, lines_of};

on_both_engines!(a_killed_recorder_keeps_acknowledged_events, ctrl_c_ends_a_recording_well);

const RECORD: [&str; 6] = ["log", "record", "--session", "demo", "--prompt", "do it"];
const END: &str = "{\"type\":\"agent_end\",\"messages\":[]}\n";

fn said(text: &str) -> String {
    format!(
        "{{\"type\":\"message_end\",\"message\":{{\"role\":\"assistant\",\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}]}}}}\n"
    )
}

fn prompts(kit: &Kit) -> usize {
    lines_of(&kit.log_of("demo")).iter().filter(|line| line.starts_with("{\"type\":\"user\"")).count()
}

/// Starts a recorder whose input the test writes, and a follower of its log.
fn recording(kit: &Kit, more: &[&str]) -> (Following, ChildStdin, Following) {
    kit.run(&["sessions", "new", "--name", "demo"]).is(0);
    let tail = Following::start(kit, &["log", "tail", "demo", "-n", "100", "-f"]);
    let mut command = kit.command(&[&RECORD[..], more].concat());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let (stdin, lines) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
    (Following { child, lines: BufReader::new(lines) }, stdin, tail)
}

fn a_killed_recorder_keeps_acknowledged_events(place: &Place) {
    let kit = Kit::on(place);
    let (recorder, mut agent, mut tail) = recording(&kit, &["--durability", "power"]);
    for n in 0..5 {
        agent.write_all(said(&format!("step {n}")).as_bytes()).expect("said");
        if n == 0 {
            assert!(tail.next().contains("do it"));
        }
        assert!(tail.next().contains(&format!("step {n}")), "each line is in the log before the next event");
    }
    agent.write_all(b"{\"type\":\"message_e").expect("said");
    recorder.signal(Signal::KILL);
    assert_eq!(recorder.end().code, None);
    assert_eq!(lines_of(&kit.log_of("demo")).len(), 6);
    let input = said("went on") + END;
    let again = kit.feed(&[&RECORD[..], &["--json"]].concat(), input.as_bytes()).is(0);
    assert_eq!((again.field("/appended"), again.field("/input_lines")), (3.into(), 2.into()));
    assert_eq!((prompts(&kit), lines_of(&kit.log_of("demo")).len()), (1, 9));
    let replayed = kit.run(&["log", "replay", "demo"]).is(0).text();
    assert!(replayed.contains("went on") && !replayed.contains("incomplete"), "{replayed}");
    kit.feed(&RECORD, input.as_bytes()).is(0);
    assert_eq!(prompts(&kit), 2, "the turn had ended");
    tail.signal(Signal::INT);
    tail.end().is(0);
    assert_eq!(kit.run(&["doctor", "--json"]).is(0).field("/verdict"), "ok");
}

fn ctrl_c_ends_a_recording_well(place: &Place) {
    let kit = Kit::on(place);
    let (recorder, mut agent, mut tail) = recording(&kit, &["--json"]);
    agent.write_all((said("one") + &said("two") + "{\"type\":\"cut").as_bytes()).expect("said");
    for text in ["do it", "one", "two"] {
        assert!(tail.next().contains(text), "{text}");
    }
    recorder.signal(Signal::INT);
    let ran = recorder.end().is(0);
    // The agent's end of the pipe was open all the time.
    drop(agent);
    assert_eq!((ran.field("/interrupted"), ran.field("/dialect")), (true.into(), "envelope".into()));
    assert_eq!((ran.field("/appended"), ran.field("/input_lines")), (4.into(), 3.into()));
    let lines = lines_of(&kit.log_of("demo"));
    assert_eq!(lines.len(), 4);
    assert!(lines[3].contains("cut"), "an incomplete event is kept as a remark: {}", lines[3]);
    tail.signal(Signal::INT);
    tail.end().is(0);
    assert_eq!(ran.field("/position"), kit.log_of("demo").metadata().expect("a log").len());
    assert_eq!(kit.run(&["log", "verify", "demo", "--json"]).is(0).field("/damaged_logs"), 0);
}

#[test]
fn a_closed_stdout_does_not_stop_a_recording() {
    let kit = Kit::new();
    let mut child = kit.command(&RECORD).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    drop(child.stdout.take());
    child.stdin.take().expect("a pipe").write_all((said("one") + END).as_bytes()).expect("said");
    Ran::of(child.wait_with_output().expect("ended")).is(0);
    assert_eq!(lines_of(&kit.log_of("demo")).len(), 3);
}

#[test]
fn ten_thousand_events_are_recorded_in_order() {
    let kit = Kit::new();
    let input: String = (0..10_000).map(|n| said(&format!("step {n}"))).chain([END.to_owned()]).collect();
    let ran = kit.feed(&[&RECORD[..], &["--json"]].concat(), input.as_bytes()).is(0);
    assert_eq!((ran.field("/input_lines"), ran.field("/appended")), (10_001.into(), 10_002.into()));
    let lines = lines_of(&kit.log_of("demo"));
    assert_eq!(lines.len(), 10_002);
    for (n, line) in lines[1..10_001].iter().enumerate() {
        assert!(line.contains(&format!("\"step {n}\"")), "{line}");
    }
    assert_eq!(kit.run(&["log", "verify", "demo", "--json"]).is(0).field("/results/0/events"), 10_002);
    let last = kit.run(&["log", "replay", "demo", "--last", "1", "--json"]).is(0).text();
    assert!(last.contains("step 9999") && last.contains("\"hidden_item_count\":9999"), "{last}");
}

#[test]
fn lines_of_other_dialects_are_kept_or_refused_by_number() {
    let kit = Kit::new();
    let raw = ["log", "record", "--session", "demo", "--dialect", "raw"];
    kit.feed(&raw, b"{\"n\" : 1}\n{\"n\":3}\n").is(0);
    let turns = ["log", "record", "--session", "demo", "--dialect", "turns"];
    kit.feed(&turns, b"{\"kind\":\"step\"}\n{\"n\":2}").is(0).says("1 line not in the turns dialect");
    assert_eq!(lines_of(&kit.log_of("demo"))[1..], ["{\"n\":3}", "{\"kind\":\"step\"}", "{\"n\":2}"]);
    let nothing = kit.feed(&[&raw[..], &["--json"]].concat(), b"").is(0);
    assert_eq!((nothing.field("/appended"), nothing.field("/position")), (0.into(), 42.into()));
}

#[test]
fn a_bad_line_is_kept_as_a_remark_and_the_recording_continues() {
    let kit = Kit::new();
    for dialect in ["turns", "transcript", "raw"] {
        let args = ["log", "record", "--session", dialect, "--dialect", dialect];
        let input = b"{\"kind\":\"step\"}\nnot \xff JSON\n[1]\n{\"kind\":\"step\",\"n\":4}\n";
        let ran = kit.feed(&args, input).is(2);
        ran.says("cannot append line 2 as it is: it is not UTF-8").says("cannot append line 3 as it is");
        let lines = lines_of(&kit.log_of(dialect));
        assert_eq!((lines.len(), lines[3].as_str()), (4, "{\"kind\":\"step\",\"n\":4}"), "{lines:?}");
        assert!(lines[1].contains(r#""content":"not \\xff JSON""#) && lines[2].contains(r#""content":"[1]""#));
    }
    let json = kit.feed(&["log", "record", "--session", "j", "--dialect", "turns", "--json"], b"x\n{\"n\":1}\n").is(2);
    assert_eq!(
        (json.field("/remark_lines"), json.field("/refused_lines"), json.field("/appended")),
        (1.into(), 0.into(), 2.into())
    );
    assert_eq!((json.field("/bad_lines/0/line"), json.field("/bad_lines/0/is_kept")), (1.into(), true.into()));
}

#[test]
fn a_line_over_the_limit_is_skipped_and_the_recording_continues() {
    let kit = Kit::new();
    std::fs::create_dir_all(kit.home().join("config")).expect("made");
    std::fs::write(kit.home().join("config/duolog.toml"), "[limits]\nline_bytes_max = \"64 KiB\"\n").expect("written");
    for dialect in ["turns", "envelope"] {
        let long = format!("{{\"kind\":\"step\",\"x\":\"{}\"}}", "x".repeat(200_000));
        let input = format!("{{\"kind\":\"step\"}}\n{long}\n{{\"kind\":\"step\",\"n\":3}}\n{long}");
        let args = ["log", "record", "--session", dialect, "--dialect", dialect, "--json"];
        let ran = kit.feed(&args, input.as_bytes()).is(2);
        assert_eq!(
            (ran.field("/input_lines"), ran.field("/appended"), ran.field("/refused_lines")),
            (4.into(), 2.into(), 2.into())
        );
        ran.says("cannot append line 2 as it is: it is 200022 bytes long").says("not recorded");
    }
}

#[test]
fn thinking_is_kept_only_on_request() {
    let kit = Kit::new();
    let event = "{\"type\":\"message_end\",\"message\":{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"hm\"},{\"type\":\"text\",\"text\":\"x\"}]}}\n";
    let kept = |session: &str, more: &[&str]| {
        kit.feed(&[&["log", "record", "--session", session][..], more].concat(), event.as_bytes()).is(0);
        lines_of(&kit.log_of(session))[0].contains("\"thinking\"")
    };
    assert!(!kept("without", &[]) && kept("with", &["--thinking"]));
}

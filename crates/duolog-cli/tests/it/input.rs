use std::os::unix::ffi::OsStrExt as _;

use crate::kit::{Kit, lines_of};

const APPEND: [&str; 4] = ["log", "append", "--session", "demo"];

/// Returns lines that a log refuses, and their errors.
fn bad_lines() -> Vec<(Vec<u8>, &'static str)> {
    let deep = [vec![b'['; 200], vec![b']'; 200]].concat();
    vec![
        (b"[1,2]".to_vec(), "cannot append line 2: it is JSON but not an object"),
        (b"\"text\"".to_vec(), "not an object"),
        (b"plain text".to_vec(), "it is not JSON"),
        (b"{\"a\":1} {\"b\":2}".to_vec(), "it is not JSON"),
        (b"{\"a\":\"\xff\"}".to_vec(), "it is not UTF-8"),
        (b"{\"a\":\"\0\"}".to_vec(), "raw NUL"),
        ([b"{\"a\":".to_vec(), deep, b"}".to_vec()].concat(), "nests deeper than 128"),
        (b"".to_vec(), "it is empty"),
        (b"{\n  \"pretty\": true\n}".to_vec(), "it is not JSON"),
    ]
}

#[test]
fn a_bad_line_refuses_the_whole_batch_and_creates_nothing() {
    for (bad, reason) in bad_lines() {
        let kit = Kit::new();
        let input = [b"{\"good\":1}\n", &bad[..], b"\n{\"good\":2}\n"].concat();
        let ran = kit.feed(&APPEND, &input).is(2).says(reason).says("jq -c .");
        assert!(ran.stdout.is_empty());
        assert!(!kit.home().exists(), "{reason}: not even the home is created");
        kit.append("demo", "{\"before\":1}\n");
        kit.feed(&APPEND, &input).is(2);
        assert_eq!(lines_of(&kit.log_of("demo")), ["{\"before\":1}"], "{reason}");
    }
}

#[test]
fn each_keeps_the_lines_before_a_bad_one_and_reports_its_number() {
    let kit = Kit::new();
    let args = [&APPEND[..], &["--each"]].concat();
    kit.feed(&args, b"{\"n\":1}\n{\"n\":2}\nnope\n{\"n\":4}\n").is(2).says("cannot append line 3");
    assert_eq!(lines_of(&kit.log_of("demo")), ["{\"n\":1}", "{\"n\":2}"]);
}

#[test]
fn odd_lines_are_taken_byte_for_byte() {
    let kit = Kit::new();
    let odd: Vec<u8> = [
        &b"{\"b\":1,\"a\":2,\"b\":3}\n"[..],
        b"  { \"spaces\" :\t[ ] }  \n",
        b"{\"lone\":\"\\ud83d\"}\n",
        b"{\"nul\":\"\\u0000\"}\n",
        b"{\"big\":123456789012345678901234567890.10e-400}\n",
        "{\"é\":\"日本 🎉 \u{2028}\"}\r\n".as_bytes(),
        b"{}\n",
        b"{\"\":\"\"}",
    ]
    .concat();
    kit.feed(&APPEND, &odd).is(0);
    let whole = [&odd[..], b"\n"].concat();
    assert_eq!(std::fs::read(kit.log_of("demo")).expect("a log"), whole);
    assert_eq!(kit.run(&["log", "cat", "demo"]).is(0).stdout, whole);
    assert_eq!(kit.run(&["log", "cat", "demo", "--json"]).is(0).stdout, whole);
    assert_eq!(kit.run(&["log", "tail", "demo", "-n", "100"]).is(0).stdout, whole);
}

#[test]
fn inputs_are_read_in_their_order() {
    let kit = Kit::new();
    std::fs::write(kit.dir.path().join("one.jsonl"), "{\"n\":1}\n{\"n\":2}").expect("written");
    let args = [&APPEND[..], &["one.jsonl", "-", "{\"n\":4}"]].concat();
    kit.feed(&args, b"{\"n\":3}\n").is(0);
    assert_eq!(lines_of(&kit.log_of("demo")), ["{\"n\":1}", "{\"n\":2}", "{\"n\":3}", "{\"n\":4}"]);
    kit.run(&[&APPEND[..], &["one.jsonl", "absent.jsonl"]].concat()).is(5);
    assert_eq!(lines_of(&kit.log_of("demo")).len(), 4, "a missing input refuses all of them");
}

#[test]
fn a_retry_under_an_operation_id_does_nothing_twice() {
    let kit = Kit::new();
    let args = [&APPEND[..], &["--operation-id", "step-1", "--json", "--line", "{\"n\":1}"]].concat();
    let first = kit.run(&args).is(0);
    kit.append("demo", "{\"n\":2}\n");
    assert_eq!(kit.run(&args).is(0).field("/session"), first.field("/session"));
    assert_eq!(lines_of(&kit.log_of("demo")), ["{\"n\":1}", "{\"n\":2}"]);
}

#[test]
fn no_name_leads_out_of_the_home() {
    let kit = Kit::new();
    let long = "x".repeat(300);
    let names = [
        "../x",
        "a/b",
        "a_b",
        "..",
        ".",
        "/etc/passwd",
        "CON",
        "Foo",
        "foo",
        "日本語",
        "エージェント",
        &long,
        "-dash",
        "a\\b",
    ];
    for (at, name) in names.iter().enumerate() {
        let line = format!("{{\"n\":{at}}}");
        kit.run(&["log", "append", &format!("--session={name}"), "--line", &line]).is(0);
    }
    for (at, name) in names.iter().enumerate() {
        let ran = kit.run(&["log", "cat", &format!("--session={name}")]).is(0);
        assert_eq!(ran.text(), format!("{{\"n\":{at}}}\n"), "{name}: each name has its own log");
    }
    let logs = std::fs::read_dir(kit.home().join("state/sessions/threads")).expect("a folder");
    let files: Vec<String> =
        logs.map(|entry| entry.expect("an entry").file_name().into_string().expect("ASCII")).collect();
    assert_eq!(files.len(), names.len(), "{files:?}");
    let in_dir = std::fs::read_dir(kit.dir.path()).expect("a folder").count();
    assert_eq!(in_dir, 1, "nothing but the home");
    for user in ["../up", "a@b", "a_b"] {
        kit.run(&["log", "append", "--user-email", user, "--session-name", "../../n", "--line", "{}"]).is(0);
        kit.run(&["log", "cat", "--user-email", user, "--session-name", "../../n"]).is(0);
    }
    assert_eq!(std::fs::read_dir(kit.dir.path()).expect("a folder").count(), 1, "nothing but the home");
    kit.run(&["doctor"]).is(0);
}

#[test]
fn names_that_cannot_be_shown_or_kept_are_refused() {
    let kit = Kit::new();
    let too_long = "x".repeat(1025);
    for (name, reason) in
        [("", "cannot be empty"), ("   ", "cannot be empty"), ("a\nb", "control"), (&too_long[..], "1024 bytes")]
    {
        kit.run(&["log", "append", &format!("--session={name}"), "--line", "{}"]).is(2).says(reason);
    }
    let not_text = std::ffi::OsStr::from_bytes(b"--session=\xff\xfe");
    kit.run(&["log".as_ref(), "append".as_ref(), not_text]).is(2).says("UTF-8");
    kit.run(&["sessions", "new", "--id", "../x"]).is(2).says("not a session id");
    kit.run(&["sessions", "new", "--metadata", &format!("{{\"a\":\"{}\"}}", "x".repeat(70_000))]).is(2).says("65536");
}

#[test]
fn a_write_never_accepts_an_id_prefix() {
    let kit = Kit::new();
    kit.run(&["sessions", "new", "--id", "abcdef"]).is(0);
    kit.append("abc", "{\"n\":1}\n");
    assert_eq!(kit.run(&["log", "cat", "abcdef"]).is(0).text(), "", "the line went to a thread called abc");
    assert_eq!(kit.run(&["log", "cat", "abcd"]).is(0).text(), "", "but reading takes the beginning");
    kit.run(&["sessions", "new", "--id", "abcdeg"]).is(0);
    kit.run(&["log", "cat", "abcd"]).is(2).says("more than one");
}

#[test]
fn the_next_append_can_ask_to_be_right_behind_the_last() {
    let kit = Kit::new();
    kit.append("demo", "{\"n\":1}\n");
    let at = |position: &str| [&APPEND[..], &["--each", "--if-position", position]].concat().join(" ");
    let args: Vec<String> = at("8").split(' ').map(str::to_owned).collect();
    kit.feed(&args, b"{\"n\":2}\n{\"n\":3}\n").is(0);
    kit.feed(&args, b"{\"n\":4}\n").is(7).says("the log ends at 24, not at 8");
}

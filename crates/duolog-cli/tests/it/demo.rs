use crate::kit::{Kit, Ran, Transcript};

/// Runs the demo in a temporary directory of the kit, so that leftover files are seen.
fn demo(kit: &Kit, args: &[&str]) -> Ran {
    let temporary = kit.dir.path().join("tmp");
    std::fs::create_dir_all(&temporary).expect("made");
    Ran::of(kit.command(&[&["demo", "--fast"][..], args].concat()).env("TMPDIR", &temporary).output().expect("runs"))
}

fn left(kit: &Kit) -> usize {
    std::fs::read_dir(kit.dir.path().join("tmp")).expect("a directory").count()
}

/// The torn line is written directly here: how often the kill comes too late depends on the machine.
#[test]
fn output_of_the_demo() {
    let kit = Kit::new();
    let ran = demo(&kit, &["--half"]).is(0);
    assert_eq!(ran.stderr, "");
    let text = ran.text();
    assert!(text.lines().all(|line| line.chars().count() <= 80 || line.contains("duolog-demo-")), "{text}");
    assert!(!text.contains('\u{1b}'), "no color without a terminal");
    let mut transcript = Transcript::default();
    transcript.add(&["demo", "--fast"], &ran);
    kit.snapshot("demo", &transcript.0);
    assert_eq!(left(&kit), 0, "its home is removed");
    assert!(!kit.home().exists(), "the home of the user is left alone");
}

#[test]
fn a_kill_loses_no_acknowledged_event() {
    let kit = Kit::new();
    for _ in 0..3 {
        let ran = demo(&kit, &["--json"]).is(0);
        assert_eq!(ran.field("/holds"), true);
        for moment in ["after_kill", "at_end"] {
            let figure = |name: &str| ran.field(&format!("/{moment}/{name}"));
            assert_eq!(figure("acknowledged"), figure("found"), "{moment}");
            assert_eq!((figure("lost"), figure("repeated")), (0.into(), 0.into()), "{moment}");
        }
        assert!(ran.field("/after_kill/acknowledged").as_u64() >= Some(8));
        assert!(ran.field("/torn_bytes").as_u64() > Some(0));
        assert!(ran.field("/torn_bytes").as_u64() < ran.field("/line_bytes").as_u64());
        assert_eq!((ran.field("/repair_count"), ran.field("/damaged_places")), (1.into(), 0.into()));
        assert_eq!((ran.field("/workflow/holds"), ran.field("/workflow/restart_count")), (true.into(), 1.into()));
        assert_eq!(ran.field("/workflow/not_repeated"), serde_json::json!(["plan", "build"]));
        let in_log = ran.field("/at_end/found").as_u64().zip(ran.field("/at_end/unacknowledged").as_u64());
        assert_eq!(ran.field("/events").as_u64(), in_log.map(|(told, untold)| told + untold));
    }
    assert_eq!(left(&kit), 0);
}

#[test]
fn a_given_or_kept_home_stays() {
    let kit = Kit::new();
    let kept = demo(&kit, &["--keep", "--json"]).is(0);
    assert_eq!((kept.field("/is_home_kept"), left(&kit)), (true.into(), 1));
    let home = kept.field("/home").as_str().expect("a path").to_owned();
    assert_eq!(kit.run(&["--home", &home, "doctor", "--json"]).is(0).field("/verdict"), "ok");
    kit.append("demo", "{\"mine\":true}\n");
    for name in ["demo-2", "demo-3"] {
        let home = kit.home();
        let named = demo(&kit, &["--half", "--json", "--home", home.to_str().expect("a plain path")]).is(0);
        assert_eq!((named.field("/is_home_kept"), named.field("/repair_count")), (true.into(), 1.into()));
        let shown = kit.run(&["sessions", "show", name, "--json"]).is(0);
        assert_eq!(shown.field("/events"), named.field("/events"), "a new session");
        let torn = kit.log_of(name).with_extension("jsonl.torn");
        assert!(torn.metadata().expect("the torn line").len() >= named.field("/torn_bytes").as_u64().expect("bytes"));
    }
    assert_eq!(kit.run(&["log", "cat", "demo"]).is(0).text(), "{\"mine\":true}\n", "other sessions are not changed");
}

#[test]
fn runs_of_others_are_left_alone() {
    let kit = Kit::new();
    let home = kit.home();
    let home = home.to_str().expect("a plain path");
    for number in 0..4 {
        kit.run(&["runs", "start", "mine", "--trigger", &number.to_string()]).is(0);
    }
    let full = demo(&kit, &["--half", "--json", "--home", home]).is(0);
    assert_eq!((full.field("/holds"), full.field("/workflow").is_null()), (true.into(), true), "no place is left");
    kit.run(&["workflows", "disable", "demo"]).is(0);
    assert!(demo(&kit, &["--half", "--json", "--home", home]).is(0).field("/workflow").is_null());
    let mine = kit.run(&["runs", "list", "--workflow", "mine", "--status", "running", "--total", "--json"]).is(0);
    assert_eq!(mine.field("/total"), 4);
    for run in mine.field("/runs").as_array().expect("runs") {
        assert_eq!((&run["restart_count"], &run["lease_owner"]), (&0.into(), &serde_json::Value::Null));
    }
}

#[test]
fn a_demo_with_a_closed_pipe_leaves_no_files() {
    let kit = Kit::new();
    std::fs::create_dir_all(kit.dir.path().join("tmp")).expect("made");
    let mut command = kit.command(&["demo", "--fast"]);
    command.env("TMPDIR", kit.dir.path().join("tmp")).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().expect("starts");
    drop(child.stdout.take());
    assert!(child.wait().expect("ended").success());
    assert_eq!(left(&kit), 0);
}

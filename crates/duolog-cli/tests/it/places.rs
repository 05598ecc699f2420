use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::kit::{Kit, Ran, lines_of};

#[test]
fn a_home_that_is_a_file_is_refused() {
    let kit = Kit::new();
    fs::write(kit.home(), "not a directory").expect("written");
    for args in [&["sessions", "list"][..], &["log", "append", "--session", "x", "--line", "{}"], &["doctor"]] {
        kit.run(args).is(5).says("is not a directory").says("--home");
    }
    assert_eq!(fs::read(kit.home()).expect("still there"), b"not a directory");
    kit.run(&["--home", "home", "init"]).is(5).says("directory");
}

#[test]
fn a_home_that_others_can_write_is_refused() {
    let kit = Kit::new();
    kit.append("demo", "{}");
    let state = kit.home().join("state");
    fs::set_permissions(&state, fs::Permissions::from_mode(0o777)).expect("opened");
    for args in [&["sessions", "list"][..], &["log", "append", "--session", "demo", "--line", "{}"]] {
        kit.run(args).is(5).says("can be written by other users (mode 777)").says("hint: chmod go-w");
    }
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).expect("closed");
    assert_eq!(lines_of(&kit.log_of("demo")), ["{}"]);
}

/// Runs one command with the home on a read-only mount.
fn read_only(kit: &Kit, command: &str) -> Ran {
    Ran::of(kit.mounting(&format!("mount --bind $H $H && mount -o remount,ro,bind $H && exec $D {command}")))
}

#[test]
fn a_read_only_home_can_be_read() {
    let kit = Kit::new();
    kit.append("demo", "{\"n\":1}\n{\"n\":2}\n");
    let listed = kit.run(&["sessions", "list", "--json"]).is(0).text();
    assert_eq!(read_only(&kit, "sessions list --json").is(0).text(), listed);
    assert_eq!(read_only(&kit, "log cat demo").is(0).text(), "{\"n\":1}\n{\"n\":2}\n");
    assert_eq!(read_only(&kit, "log tail demo -n 1").is(0).text(), "{\"n\":2}\n");
    read_only(&kit, "log verify demo").is(0);
    read_only(&kit, "doctor").is(0);
    for command in [
        "log append --session demo --line '{}'",
        "log append --session new --line '{}'",
        "sessions new",
        "state rebuild",
    ] {
        let ran = read_only(&kit, command).is(5);
        assert!(ran.stderr.contains("ead-only") || ran.stderr.contains("reading only"), "{command}: {}", ran.stderr);
    }
    assert_eq!(lines_of(&kit.log_of("demo")).len(), 2);
}

#[test]
fn a_full_disk_takes_nothing_back_and_works_again_with_room() {
    let kit = Kit::new();
    fs::create_dir(kit.home()).expect("made");
    let output = kit.mounting(
        r#"set -u
        T=${H%/*}
        mount -t tmpfs -o size=3m,mode=700 tmpfs $H || exit 99
        echo '{"n":1}' | $D log append --session demo --quiet >/dev/null || exit 98
        head -c 10m /dev/zero > $H/filler 2>/dev/null
        head -c 200000 /dev/zero | tr '\0' x > $T/x
        (printf '{"big":"'; cat $T/x; printf '"}\n') > $T/big
        $D log append --session demo $T/big; echo "append: $?"
        $D log append --session demo $T/big --json; echo "json: $?"
        rm -f $H/filler
        echo '{"n":2}' | $D log append --session demo --quiet >/dev/null; echo "again: $?"
        $D log cat demo
        $D doctor >/dev/null; echo "doctor: $?"
        "#,
    );
    let ran = Ran::of(output).is(0).says("hint: ");
    let text = ran.text();
    for expected in ["append: 5\n", "json: 5\n", "again: 0\n{\"n\":1}\n{\"n\":2}\n", "doctor: 0\n", "\"kind\":\"full\""]
    {
        assert!(text.contains(expected), "{expected:?} is not in {text}\n{}", ran.stderr);
    }
    assert!(ran.stderr.contains("make room on the disk"), "{}", ran.stderr);
}

/// Every command that reads works on a full disk, and `append --each` reports how many lines were appended.
#[test]
fn a_full_disk_is_reported_and_readable() {
    let kit = Kit::new();
    fs::create_dir(kit.home()).expect("made");
    let output = kit.mounting(
        r#"set -u
        T=${H%/*}
        mount -t tmpfs -o size=4m,mode=700 tmpfs $H || exit 99
        echo '{"n":0}' | $D log append --session demo --quiet >/dev/null || exit 98
        head -c 60000 /dev/zero | tr '\0' x > $T/x
        for n in $(seq 200); do printf '{"n":%d,"big":"' $n; cat $T/x; printf '"}\n'; done > $T/lines
        $D log append --session demo --each $T/lines > $T/acknowledged 2> $T/refused; echo "each: $?"
        echo "acknowledged: $(wc -l < $T/acknowledged)"
        cat $T/refused
        head -c 10m /dev/zero > $H/filler 2>/dev/null
        echo "lines: $($D log cat demo | wc -l)"
        for command in "sessions list" "sessions show demo" "log verify demo" "runs list" "log tail demo" "state stats"; do
            $D $command >/dev/null; echo "$command: $?"
        done
        $D doctor --json > $T/doctor; echo "doctor: $?"
        grep -o '"verdict": *"[a-z]*"' $T/doctor
        rm -f $H/filler
        "#,
    );
    let ran = Ran::of(output).is(0);
    let text = ran.text();
    let number = |name: &str| {
        let rest = text.split(&format!("{name}: ")).nth(1).unwrap_or_else(|| panic!("no {name} in {text}"));
        rest.lines().next().unwrap_or_default().trim().parse::<u64>().expect("a number")
    };
    let appended = number("acknowledged");
    assert!(appended > 0, "{text}");
    assert_eq!((number("each"), number("lines")), (5, appended + 1), "{text}\n{}", ran.stderr);
    assert!(text.contains(&format!("cannot append line {}", appended + 1)), "{text}");
    assert!(
        text.contains("lines were appended") && text.contains(&format!("starting at line {}", appended + 1)),
        "{text}"
    );
    for command in
        ["sessions list", "sessions show demo", "log verify demo", "runs list", "log tail demo", "state stats"]
    {
        assert_eq!(number(command), 0, "{command}: {text}\n{}", ran.stderr);
    }
    assert_eq!(number("doctor"), 0, "{text}\n{}", ran.stderr);
    assert!(!text.contains("damaged"), "{text}");
}

/// The signal about the file size limit ends no process: the write fails, and the command reports it.
#[test]
fn a_limit_of_the_file_size_is_an_error_and_no_signal() {
    let kit = Kit::new();
    kit.append("demo", "{\"n\":1}\n");
    let home = kit.home();
    let big = home.with_file_name("big");
    fs::write(&big, format!("{{\"big\":\"{}\"}}\n", "x".repeat(800_000))).expect("written");
    let program = kit.command::<&str>(&[]).get_program().to_owned();
    let output = std::process::Command::new("sh")
        .args(["-c", "ulimit -f 1000; exec \"$@\"", "sh"])
        .arg(program)
        .args(["log", "append", "--session", "demo", "--home"])
        .args([home.as_os_str(), big.as_os_str()])
        .output()
        .expect("runs");
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert_eq!(lines_of(&kit.log_of("demo")).len(), 1);
    kit.append("demo", "{\"n\":2}\n");
    assert_eq!(lines_of(&kit.log_of("demo")).len(), 2);
}

#[test]
fn a_missing_home_location_is_an_error() {
    let kit = Kit::new();
    let output =
        kit.command(&["sessions", "list"]).env_remove("DUOLOG_HOME").env_remove("HOME").output().expect("runs");
    Ran::of(output).is(2).says("there is no home").says("--home");
}

/// A misspelled name must not look like an empty home, and no read creates a home.
#[test]
fn a_home_that_does_not_exist_is_told_by_readers_and_created_by_writers() {
    let kit = Kit::new();
    let nowhere = kit.dir.path().join("nowhere");
    let named = nowhere.display().to_string();
    let lists = ["sessions list", "runs list", "usage daily", "log search x", "approvals list", "chats list"];
    for list in lists {
        let args: Vec<&str> = list.split(' ').chain(["--home", &named]).collect();
        let ran = kit.run(&args).says(&format!("warning: there is no home at {named} (--home)"));
        assert!(matches!(ran.code, Some(0 | 1)), "{list}: {:?}", ran.code);
        assert!(!nowhere.exists(), "{list}");
    }
    kit.run(&["sessions", "list"]).is(0).says("(DUOLOG_HOME)");
    let quiet = kit.run(&["sessions", "list", "--home", &named, "--quiet"]).is(0);
    assert_eq!(quiet.stderr, "");
    let shown = kit.run(&["sessions", "show", "x", "--home", &named]).is(1);
    let shown = shown.says(&format!("there is no home at {named}\n"));
    shown.says(&format!("duolog --home {named} init"));
    assert!(!nowhere.exists());
    let new = ["sessions", "new", "--name", "x", "--home", &named];
    let made = kit.run(&new).is(0);
    assert!(made.stderr.starts_with(&format!("created home {named}\n")), "{}", made.stderr);
    let next = kit.run(&["sessions", "new", "--name", "y", "--home", &named]).is(0);
    assert!(!next.stderr.contains("created"), "{}", next.stderr);
    let other = kit.dir.path().join("other").display().to_string();
    let quiet = kit.run(&["sessions", "new", "--name", "x", "--home", &other, "--quiet"]).is(0);
    assert_eq!(quiet.stderr, "");
}

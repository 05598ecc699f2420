use std::fs;
use std::path::PathBuf;

use crate::kit::{Kit, Ran, Transcript};

/// Creates a kit whose home has this configuration.
fn configured(text: &str) -> (Kit, PathBuf) {
    let kit = Kit::new();
    let file = kit.home().join("config/duolog.toml");
    fs::create_dir_all(kit.home().join("config")).expect("made");
    fs::write(&file, text).expect("written");
    (kit, file)
}

fn with(kit: &Kit, args: &[&str], name: &str, value: &str) -> Ran {
    Ran::of(kit.command(args).env(name, value).output().expect("runs"))
}

const WRONG: &str = "[limits]\nline_byte_max = 1\nopen_logs_max = \"many\"\n\n[durabilty]\nlog = \"power\"\n";

#[test]
fn the_effective_configuration_is_shown_with_its_sources() {
    let (kit, _) = configured("[limits]\nline_bytes_max = \"1 MiB\"\n\n[durability]\nlog = \"power\"\n");
    let mut transcript = Transcript::default();
    transcript.run(&kit, &["config", "show"]).is(0);
    transcript.run(&kit, &["config", "show", "--json"]).is(0);
    transcript.run(&kit, &["config", "check"]).is(0);
    transcript.run(&kit, &["config", "check", "--json"]).is(0);
    kit.snapshot("config", &transcript.0);
    let shown = with(&kit, &["config", "show", "--json"], "DUOLOG_LINE_BYTES_MAX", "2 MiB").is(0);
    assert_eq!(
        (shown.field("/settings/0/value"), shown.field("/settings/0/source")),
        (2_097_152.into(), "environment".into())
    );
    let shown = with(&kit, &["config", "show"], "DUOLOG_LINE_BYTES_MAX", "2 MiB").is(0).text();
    assert!(shown.contains("DUOLOG_LINE_BYTES_MAX"), "{shown}");
    let none = Kit::new();
    none.run(&["config", "show"]).is(0).says("does not exist");
    none.run(&["config", "check"]).is(0);
    assert!(!none.home().exists(), "looking makes nothing");
}

#[test]
fn every_key_is_in_the_help_with_its_default() {
    let kit = Kit::new();
    let help = kit.run(&["config", "show", "--help"]).is(0).text();
    let shown = kit.run(&["config", "show"]).is(0).text();
    let settings = kit.run(&["config", "show", "--json"]).is(0).field("/settings");
    assert!(help.contains("  email = \"LOGIN@localhost\" ") && help.contains("DUOLOG_USER_EMAIL"));
    for (line, setting) in shown.lines().skip(1).zip(settings.as_array().expect("settings")) {
        if setting["key"] == "user.email" {
            continue;
        }
        let (key, rest) = line.split_once(' ').expect("a key");
        let value = rest.trim().trim_end_matches("default").trim();
        let name = key.rsplit('.').next().expect("a name");
        let (quoted, plain) = (format!("  {name} = \"{value}\" "), format!("  {name} = {value} "));
        assert!(help.contains(&quoted) || help.contains(&plain), "{line}");
        assert!(help.contains(setting["variable"].as_str().expect("a variable")), "{line}");
        assert_eq!(setting["key"], key);
    }
}

#[test]
fn all_errors_are_reported_together() {
    let (kit, file) = configured(WRONG);
    let mut transcript = Transcript::default();
    transcript.run(&kit, &["config", "check"]).is(2);
    transcript.run(&kit, &["config", "check", "--json"]).is(2);
    transcript.run(&kit, &["config", "show"]).is(2);
    transcript.run(&kit, &["sessions", "list"]).is(2);
    transcript.run(&kit, &["sessions", "list", "--json"]).is(2);
    kit.snapshot("config-wrong", &transcript.0);
    let right = kit.dir.path().join("right.toml");
    fs::write(&right, "limits.open_logs_max = 64\n").expect("written");
    kit.run(&["config", "check", "right.toml"]).is(0);
    kit.run(&["config", "check", "absent.toml"]).is(1).says("absent.toml");
    kit.run(&["config", "check", "."]).is(2).says("is not a file");
    fs::write(&file, "limits = {\n").expect("written");
    kit.run(&["config", "check"]).is(2);
    kit.run(&["doctor"]).is(2).says(&format!("{}:", file.display())).says("it is not TOML");
    let checked = with(&kit, &["config", "check", "right.toml"], "DUOLOG_DURABILITY", "disk");
    checked.is(0);
    fs::write(&file, "").expect("written");
    let checked = with(&kit, &["config", "check"], "DUOLOG_DURABILITY", "disk").is(2).text();
    assert!(checked.contains("DUOLOG_DURABILITY is \"disk\"; expected \"process\" or \"power\""), "{checked}");
}

#[test]
fn a_wrong_file_stops_only_commands_that_open_a_store() {
    let (kit, file) = configured(WRONG);
    let commands: [&[&str]; 6] = [
        &["sessions", "list"],
        &["sessions", "new"],
        &["log", "append", "--session", "demo", "--line", "{}"],
        &["log", "cat", "demo"],
        &["state", "migrate"],
        &["doctor"],
    ];
    for args in commands {
        kit.run(args).is(2).says(&format!("{}:2: unknown key line_byte_max", file.display())).says("open_logs_max");
    }
    assert!(!kit.home().join("state").exists(), "nothing was created");
    for args in [&["completions", "bash"][..], &["--help"], &["log", "append", "--help"], &["init"], &["man", "pages"]]
    {
        kit.run(args).is(0);
    }
    fs::remove_file(&file).expect("removed");
    fs::create_dir(&file).expect("made");
    kit.run(&["sessions", "list"]).is(2).says("duolog.toml is not a file");
    fs::remove_dir(&file).expect("removed");
    fs::write(&file, vec![b'#'; (1 << 20) + 1]).expect("written");
    kit.run(&["sessions", "list"]).is(2).says("over the limit of a configuration file, 1 MiB");
}

#[test]
fn limits_and_durability_are_those_of_the_configuration() {
    let (kit, _) = configured("[limits]\nline_bytes_max = \"1 KiB\"\nbusy_timeout_ms = 123\n");
    let long = format!("{{\"x\":\"{}\"}}", "x".repeat(1024));
    let append = ["log", "append", "--session", "demo", "--line", &long];
    kit.run(&append).is(2).says("1024");
    with(&kit, &append, "DUOLOG_LINE_BYTES_MAX", "2KiB").is(0);
    assert_eq!(kit.run(&["state", "stats", "--json"]).is(0).field("/pragmas/busy_timeout"), "123");
    // The limit applies to appends only: existing lines are read whatever the limit is.
    assert_eq!(kit.run(&["log", "tail", "demo"]).is(0).text().trim_end(), long);
    assert_eq!(kit.run(&["sessions", "show", "demo", "--json"]).is(0).field("/damaged_lines"), 0);
}

/// strace shows the sync, without which a power cut could lose the line.
#[test]
fn an_append_is_as_durable_as_the_configuration_says() {
    let (kit, _) = configured("[durability]\nlog = \"power\"\n");
    kit.append("demo", "{\"n\":0}\n");
    let log_syncs = |args: &[&str]| {
        let trace = kit.dir.path().join("trace");
        let mut command = std::process::Command::new("strace");
        command.args(["-f", "-y", "-e", "trace=fsync,fdatasync", "-o"]).arg(&trace).arg(crate::kit::DUOLOG);
        command.args(["log", "append", "--session", "demo", "--line", "{}"]).args(args).env("DUOLOG_HOME", kit.home());
        assert!(command.output().expect("strace runs").status.success());
        fs::read_to_string(&trace).expect("a trace").lines().filter(|line| line.contains("demo.jsonl>")).count()
    };
    let (configured, asked) = (log_syncs(&[]), log_syncs(&["--durability", "power"]));
    let flag = log_syncs(&["--durability", "process"]);
    assert_eq!(configured, asked);
    assert!(flag < configured, "the flag goes before the file: {flag} and {configured} syncs");
}

#[test]
fn limits_of_runs_are_those_of_the_file() {
    let (kit, file) = configured("[runs]\nmax_running = 1\nlease = \"5s\"\nrestart_cap = 0\n");
    let start = |trigger: &str| kit.run(&["runs", "start", "build", "--trigger", trigger, "--json"]).is(0);
    let (first, second) = (start("one"), start("two"));
    assert_eq!((first.field("/run/status"), second.field("/run/status")), ("running".into(), "queued".into()));
    let shown = |ran: &Ran| {
        let id = ran.field("/run/id").as_str().expect("an id").to_owned();
        kit.run(&["runs", "show", &id, "--json"]).is(0)
    };
    assert_eq!(shown(&second).field("/run/restart_cap"), 0);
    // The environment overrides the file: with two slots the queued run starts.
    let admitted = with(&kit, &["runs", "admit", "--json"], "DUOLOG_RUNS_MAX_RUNNING", "2").is(0);
    assert_eq!(admitted.field("/admitted").as_array().map(Vec::len), Some(1));
    assert_eq!(shown(&second).field("/run/status"), "running");
    fs::write(&file, "[runs]\nmax_runing = 1\nqueue_wait = 5\n").expect("written");
    let refused = kit.run(&["runs", "start", "build", "--trigger", "three"]).is(2);
    let refused = refused.says("unknown key max_runing in [runs]; did you mean max_running?");
    refused.says("queue_wait is 5; expected a time from \"1s\" to \"365d\", like \"30m\"");
    fs::write(&file, "[runs]\nlease = \"5s\"\n").expect("written");
    let wrong = with(&kit, &["runs", "list"], "DUOLOG_RUNS_LEASE", "1s").is(2);
    wrong.says("DUOLOG_RUNS_LEASE is \"1s\"; expected a time from \"3s\" to \"1d\"");
}

#[test]
fn the_template_sets_every_key_to_its_default() {
    let kit = Kit::new();
    let run = |args: &[&str]| Ran::of(kit.command(args).env_remove("DUOLOG_USER_EMAIL").output().expect("runs"));
    let defaults = run(&["config", "show", "--json"]).is(0).field("/settings");
    let printed = run(&["config", "init", "--stdout"]).is(0).text();
    assert!(!kit.home().exists(), "printing makes nothing");
    run(&["config", "init"]).is(0);
    let file = kit.home().join("config/duolog.toml");
    let template = fs::read_to_string(&file).expect("a file");
    assert_eq!(template, printed);
    assert!(template.lines().all(|line| line.is_empty() || line.starts_with('#')), "{template}");
    assert_eq!(run(&["config", "show", "--json"]).is(0).field("/settings"), defaults, "all lines are comments");
    let again = run(&["config", "init"]).is(1).says("the file exists").stderr;
    assert!(again.contains("duolog config init --stdout"), "{again}");
    let uncommented: Vec<&str> = template.lines().map(|line| line.strip_prefix('#').unwrap_or(line)).collect();
    fs::write(&file, uncommented.join("\n")).expect("written");
    run(&["config", "check"]).is(0);
    let set = run(&["config", "show", "--json"]).is(0);
    let (set, defaults) = (set.field("/settings"), defaults.as_array().expect("settings").clone());
    for (set, default) in set.as_array().expect("settings").iter().zip(&defaults) {
        assert_eq!((&set["key"], &set["value"]), (&default["key"], &default["value"]));
        assert_eq!(set["source"], "file", "{set}");
    }
    assert_eq!(set.as_array().map(Vec::len), Some(defaults.len()));
}

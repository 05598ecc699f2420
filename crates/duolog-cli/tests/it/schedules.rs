use std::fs;

use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use crate::kit::{Kit, Ran, Transcript};

on_both_engines!(eight_processes_fire_a_time_once, a_schedule_is_switched_without_touching_the_configuration);

const CONFIG: &str = "\
[schedules.nightly]
cron = \"30 2 * * *\"
zone = \"Europe/Berlin\"
workflow = \"review\"
context = { repo = \"a/b\" }
description = \"reads what came in\"

[schedules.tidy]
cron = \"@hourly\"
catch_up = \"all\"

[schedules.off]
cron = \"0 0 1 1 *\"
enabled = false

[workflows.review]
description = \"reads\"
";

fn configure(kit: &Kit, text: &str) {
    fs::create_dir_all(kit.home().join("config")).expect("made");
    fs::write(kit.home().join("config/duolog.toml"), text).expect("written");
}

#[test]
fn what_the_commands_say() {
    let kit = Kit::new();
    let mut said = Transcript::default();
    said.run(&kit, &["schedules", "list"]).is(0);
    configure(&kit, CONFIG);
    // Nothing is made by looking.
    kit.run(&["schedules", "list"]).is(0);
    assert!(!kit.home().join("state").exists());
    said.run(&kit, &["config", "show"]).is(0);
    said.run(&kit, &["schedules", "tick", "--until", "2026-03-28T22:30:00Z"]).is(0);
    said.run(&kit, &["schedules", "tick", "--until", "2026-03-29T01:15:00Z", "--actor", "ada"]).is(0);
    said.run(&kit, &["schedules", "tick", "--until", "2026-03-29T01:15:00Z"]).is(0);
    said.run(&kit, &["schedules", "tick", "--until", "2026-03-29T02:15:00Z", "--json"]).is(0);
    said.run(&kit, &["schedules", "runs"]).is(0);
    said.run(&kit, &["schedules", "runs", "tidy", "--limit", "1", "--json"]).is(0);
    said.run(&kit, &["schedules", "list"]).is(0);
    said.run(&kit, &["schedules", "list", "--json"]).is(0);
    said.run(&kit, &["schedules", "show", "nightly"]).is(0);
    said.run(&kit, &["schedules", "set", "nightly", "--disable", "--cron", "0 4 * * *", "--actor", "ada"]).is(0);
    said.run(&kit, &["schedules", "set", "nightly", "--enable", "--unset", "cron", "--actor", "ada", "--json"]).is(0);
    said.run(&kit, &["schedules", "list"]).is(0);
    said.run(&kit, &["schedules", "clear", "nightly"]).is(0);
    said.run(&kit, &["schedules", "clear", "nightly", "--json"]).is(1);
    // What comes next depends on when that is.
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d", "[local]");
    settings.bind(|| kit.snapshot("schedules", &said.0));
}

#[test]
fn what_is_wrong_is_said_with_a_way_out() {
    let kit = Kit::new();
    configure(&kit, CONFIG);
    let mut said = Transcript::default();
    said.run(&kit, &["schedules", "show", "nightl"]).is(1);
    kit.run(&["schedules", "tick"]).is(0);
    said.run(&kit, &["schedules", "show", "nightl", "--json"]).is(1);
    said.run(&kit, &["schedules", "set", "nightly", "--cron", "61 * * * *"]).is(2);
    said.run(&kit, &["schedules", "set", "nightly", "--cron", "0 0 30 2 *"]).is(2);
    said.run(&kit, &["schedules", "set", "nightly", "--zone", "Berlin", "--json"]).is(2);
    said.run(&kit, &["schedules", "set", "nightly", "--enable", "--disable"]).is(2);
    said.run(&kit, &["schedules", "tick", "--until", "2999-01-01T00:00:00Z"]).is(2);
    said.run(&kit, &["schedules", "runs", "--after", "x"]).is(2);
    let wrong = "[schedules.a]\ncron = \"0 25 * * *\"\nzones = \"UTC\"\n[schedules.b]\ncron = \"@daily\"\nzone = \"Mars\"\n\
                 [schedules.c]\n[workflows.d]\nenabled = 1\n[chats]\nidle = 30\n";
    configure(&kit, wrong);
    said.run(&kit, &["config", "check"]).is(2);
    said.run(&kit, &["schedules", "list"]).is(2);
    kit.snapshot("schedules_wrong", &said.0);
}

fn eight_processes_fire_a_time_once(place: &Place) {
    // On a server each has a home of its own; in a file they share one.
    let kits: Vec<Kit> = (0..if place.database().is_some() { 8 } else { 1 }).map(|_| Kit::on(place)).collect();
    for kit in &kits {
        configure(kit, "[schedules.often]\ncron = \"* * * * *\"\ncatch_up = \"all\"\nworkflow = \"review\"\n");
        kit.run(&["schedules", "tick", "--until", "2026-01-01T00:00:30Z"]).is(0);
    }
    let (mut fired, mut rounds) = (Vec::new(), 0);
    for minute in [5, 6, 11] {
        let until = format!("2026-01-01T00:{minute:02}:30Z");
        let start = |number: usize| {
            let mut command = kits[number % kits.len()].command(&["schedules", "tick", "--json", "--until", &until]);
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().expect("starts")
        };
        let processes: Vec<_> = (0..8).map(start).collect();
        for process in processes {
            let ran = Ran::of(process.wait_with_output().expect("ends")).is(0);
            let told = ran.field("/fired").as_array().expect("a list").clone();
            rounds += usize::from(!told.is_empty());
            fired.extend(told.iter().map(|one| one["due_at"].as_str().expect("an instant")[14..16].to_owned()));
        }
    }
    fired.sort();
    assert_eq!(fired, ["01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11"]);
    assert!((3..=11).contains(&rounds), "{rounds}");
    let runs = kits[0].run(&["schedules", "runs", "--json"]).is(0).field("/runs");
    let runs = runs.as_array().expect("a list");
    assert_eq!(runs.len(), 11);
    // The first starts a run, and while that goes on the others start none.
    let standing: Vec<_> = runs.iter().map(|run| run["standing"].as_str().expect("a word")).collect();
    assert_eq!(standing.iter().filter(|standing| **standing == "ok").count(), 1, "{runs:?}");
    assert!(standing.iter().all(|standing| ["ok", "skipped"].contains(standing)), "{runs:?}");
    let started = kits[0].run(&["runs", "list", "--json"]).is(0).field("/runs");
    assert_eq!(started.as_array().expect("a list").len(), 1);
}

fn a_schedule_is_switched_without_touching_the_configuration(place: &Place) {
    let kit = Kit::on(place);
    configure(&kit, "[schedules.often]\ncron = \"* * * * *\"\n");
    let enabled = || {
        let shown = kit.run(&["schedules", "show", "often", "--json"]).is(0);
        (shown.field("/schedule/enabled/value"), shown.field("/schedule/enabled/from"))
    };
    kit.run(&["schedules", "tick"]).is(0);
    assert_eq!(enabled(), (true.into(), "base".into()));
    kit.run(&["schedules", "set", "often", "--disable"]).is(0);
    assert_eq!(enabled(), (false.into(), "override".into()));
    assert_eq!(kit.run(&["schedules", "tick", "--json"]).is(0).field("/fired"), serde_json::json!([]));
    kit.run(&["schedules", "clear", "often"]).is(0);
    assert_eq!(enabled(), (true.into(), "base".into()));
}

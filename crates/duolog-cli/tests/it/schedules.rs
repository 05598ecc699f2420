use std::fs;

use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use crate::kit::{Kit, Ran, Transcript};

on_both_engines!(
    eight_processes_fire_a_time_once,
    each_missed_time_starts_a_run_and_no_change_loses_one,
    a_schedule_is_overridden_without_changing_the_configuration
);

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

pub(crate) fn configure(kit: &Kit, text: &str) {
    fs::create_dir_all(kit.home().join("config")).expect("made");
    fs::write(kit.home().join("config/duolog.toml"), text).expect("written");
}

#[test]
fn output_of_the_commands() {
    let kit = Kit::new();
    let mut said = Transcript::default();
    said.run(&kit, &["schedules", "list"]).is(0);
    configure(&kit, CONFIG);
    // Reading creates nothing.
    kit.run(&["schedules", "list"]).is(0);
    assert!(!kit.home().join("state").exists());
    said.run(&kit, &["config", "show"]).is(0);
    said.run(&kit, &["schedules", "tick", "--until", "2026-03-28T22:30:00Z"]).is(0);
    said.run(&kit, &["schedules", "tick", "--until", "2026-03-29T01:15:00Z", "--by", "ada"]).is(0);
    said.run(&kit, &["schedules", "tick", "--until", "2026-03-29T01:15:00Z"]).is(0);
    said.run(&kit, &["schedules", "tick", "--until", "2026-03-29T02:15:00Z", "--json"]).is(0);
    said.run(&kit, &["schedules", "runs"]).is(0);
    said.run(&kit, &["schedules", "runs", "tidy", "--limit", "1", "--json"]).is(0);
    said.run(&kit, &["schedules", "list"]).is(0);
    said.run(&kit, &["schedules", "list", "--json"]).is(0);
    said.run(&kit, &["schedules", "show", "nightly"]).is(0);
    said.run(&kit, &["schedules", "set", "nightly", "--disable", "--cron", "0 4 * * *", "--by", "ada"]).is(0);
    said.run(&kit, &["schedules", "set", "nightly", "--enable", "--unset", "cron", "--by", "ada", "--json"]).is(0);
    said.run(&kit, &["schedules", "list"]).is(0);
    said.run(&kit, &["schedules", "clear", "nightly"]).is(0);
    said.run(&kit, &["schedules", "clear", "nightly", "--json"]).is(6);
    // The next time depends on the clock.
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d", "[local]");
    settings.bind(|| kit.snapshot("schedules", &said.0));
}

#[test]
fn errors_have_hints() {
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
    // On a server each process has its own home; with SQLite they share one.
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
    let runs = kits[0].run(&["schedules", "runs", "--json"]).is(0).field("/schedule_runs");
    let runs = runs.as_array().expect("a list");
    assert_eq!(runs.len(), 11);
    // Each time starts its own run.
    assert!(runs.iter().all(|run| run["status"] == "ok"), "{runs:?}");
    let started = kits[0].run(&["runs", "list", "--json"]).is(0).field("/runs");
    assert_eq!(started.as_array().expect("a list").len(), 11);
}

fn each_missed_time_starts_a_run_and_no_change_loses_one(place: &Place) {
    let kit = Kit::on(place);
    let all = "[schedules.report]\ncron = \"0 * * * *\"\ncatch_up = \"all\"\nworkflow = \"review\"\n";
    configure(&kit, &format!("{all}[schedules.sweep]\ncron = \"0 * * * *\"\nworkflow = \"sweep\"\n"));
    let tick = |until: &str| kit.run(&["schedules", "tick", "--until", until, "--json"]).is(0).field("/fired");
    assert_eq!(tick("2026-01-01T00:30:00Z"), serde_json::json!([]));
    // It is enabled already: no due time is lost.
    kit.run(&["schedules", "set", "report", "--enable"]).is(0);
    let fired = tick("2026-01-01T04:30:00Z");
    let told: Vec<String> = fired
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| {
            format!(
                "{} {} {}",
                one["schedule_name"],
                &one["due_at"].as_str().expect("an instant")[11..16],
                one["status"]
            )
        })
        .collect();
    let hours = ["01:00", "02:00", "03:00", "04:00"].map(|hour| format!("\"report\" {hour} \"ok\""));
    assert_eq!(told[..4], hours);
    assert_eq!(told[4..], ["\"sweep\" 04:00 \"ok\""]);
    let runs = kit.run(&["runs", "list", "--json"]).is(0).field("/runs");
    let mut triggers: Vec<_> =
        runs.as_array().expect("a list").iter().map(|run| run["trigger_id"].to_string()).collect();
    triggers.sort();
    assert_eq!((triggers.len(), triggers[0].as_str()), (5, "\"report@2026-01-01T01:00:00.000000Z\""));
    // A change of the times records the skipped ones.
    kit.run(&["schedules", "set", "sweep", "--disable"]).is(0);
    let latest = kit.run(&["schedules", "runs", "sweep", "--limit", "1", "--json"]).is(0);
    assert_eq!(latest.field("/schedule_runs/0/status"), "skipped");
    let why = latest.field("/schedule_runs/0/detail");
    assert!(why.as_str().is_some_and(|why| why.starts_with("the schedule was changed before")), "{why}");
}

/// A schedule that can never start a run is an error; a workflow that the file disables is one for `config check` only.
#[test]
fn a_schedule_that_can_start_no_run_is_wrong() {
    let kit = Kit::new();
    let check = |code, why: &str| {
        let ran = kit.run(&["config", "check"]).is(code);
        assert!(
            ran.text().contains(why) || ran.stderr.contains(why),
            "{why:?} is not in: {}{}",
            ran.text(),
            ran.stderr
        );
    };
    let cases = [
        ("cron = \"@daily\"\nworkflow = \"a:b\"\n", "cannot start a run: workflow \"a:b\" contains a colon"),
        ("cron = \"@daily\"\nworkflow = \" \"\n", "cannot start a run"),
        ("cron = \"0 0 31 4,6 *\"\n", "no such day exists"),
        ("cron = \"@daily\"\nzone = \"Mars/Olympus\"\n", "which is not a time zone"),
        ("cron = \"@daily\"\ncontext = { x = nan }\n", "a number that JSON has not"),
    ];
    for (text, why) in cases {
        configure(&kit, &format!("[schedules.a]\n{text}"));
        check(2, why);
        kit.run(&["schedules", "tick"]).is(2).says(why);
    }
    configure(&kit, &format!("[schedules.a]\ncron = \"@daily\"\nworkflow = \"{}\"\n", "w".repeat(300)));
    check(2, "cannot start a run");
    configure(&kit, "[schedules.a]\ncron = \"@daily\"\nworkflow = \"off\"\n[workflows.off]\nenabled = false\n");
    check(2, "skips every time: workflow \"off\" is disabled on line 4");
    kit.run(&["schedules", "tick"]).is(0);
    configure(&kit, "[schedules.a]\ncron = \"@daily\"\nworkflow = \"reveiw\"\n[workflows.review]\n");
    check(0, "did you mean \"review\"?");
}

fn a_schedule_is_overridden_without_changing_the_configuration(place: &Place) {
    let kit = Kit::on(place);
    configure(&kit, "[schedules.often]\ncron = \"* * * * *\"\n");
    let enabled = || {
        let shown = kit.run(&["schedules", "show", "often", "--json"]).is(0);
        (shown.field("/schedule/enabled"), shown.field("/schedule/enabled_source"))
    };
    kit.run(&["schedules", "tick"]).is(0);
    assert_eq!(enabled(), (true.into(), "config".into()));
    kit.run(&["schedules", "set", "often", "--disable"]).is(0);
    assert_eq!(enabled(), (false.into(), "override".into()));
    assert_eq!(kit.run(&["schedules", "tick", "--json"]).is(0).field("/fired"), serde_json::json!([]));
    kit.run(&["schedules", "clear", "often"]).is(0);
    assert_eq!(enabled(), (true.into(), "config".into()));
}

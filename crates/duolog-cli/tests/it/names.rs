use crate::kit::{Kit, Ran};

/// The commands that take a run and a name that belongs to it.
const COMMANDS: [(&str, &[&str]); 8] = [
    ("runs nodes", &[]),
    ("runs acknowledge", &[]),
    ("runs gate", &["--summary", "Ship?"]),
    ("runs phase end", &["--error", "it broke"]),
    ("runs phase complete", &["--failed"]),
    ("runs phase enter", &[]),
    ("runs phase begin", &[]),
    ("runs phase skip", &["--reason", "not needed"]),
];

/// A claimed run, and the name that a command takes beside it.
struct Claimed {
    run: String,
    fence: String,
    name: String,
}

impl Claimed {
    /// Starts and claims a run for a command.
    fn of(kit: &Kit, command: &str, trigger: &str) -> Self {
        let run = ok(kit, &["runs", "start", "build", "--trigger", trigger, "--json"]).get("/run/id");
        let claim = || ok(kit, &["runs", "claim", &run, "--owner", "w", "--json"]).get("/fence");
        let fence = claim();
        match command {
            "runs nodes" => Self { run, fence, name: "{\"build\":\"running\"}".to_owned() },
            "runs phase end" => {
                let begun = ok(kit, &["runs", "phase", "begin", &run, "build", "--fence", &fence, "--json"]);
                Self { run, fence, name: begun.get("/execution_id") }
            }
            "runs acknowledge" => {
                let gate = ["runs", "gate", &run, "ship", "--summary", "Ship?", "--fence", &fence, "--json"];
                let name = ok(kit, &gate).get("/approval/id");
                ok(kit, &["approvals", "approve", &name]);
                let fence = claim();
                Self { run, fence, name }
            }
            _ => Self { run, fence, name: "build".to_owned() },
        }
    }
}

fn ok(kit: &Kit, args: &[&str]) -> Ran {
    kit.run(args).is(0)
}

/// The values of JSON answers as text.
trait Get {
    fn get(&self, pointer: &str) -> String;
}

impl Get for Ran {
    fn get(&self, pointer: &str) -> String {
        match self.field(pointer) {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        }
    }
}

#[test]
fn flags_stand_before_between_and_after_two_names() {
    for (command, flags) in COMMANDS {
        let words: Vec<&str> = command.split(' ').collect();
        for (place, in_environment) in [(0, false), (1, false), (2, false), (0, true), (1, true)] {
            // A new home has a free slot for the run.
            let kit = Kit::new();
            let Claimed { run, fence, name } =
                Claimed::of(&kit, command, &format!("{command} {place} {in_environment}"));
            let mut names = if in_environment { vec![&*name] } else { vec![&*run, &*name] };
            let flags = [&["--fence", &*fence][..], flags].concat();
            names.splice(place..place, flags);
            let args = [&words[..], &names].concat();
            let mut asked = kit.command(&args);
            if in_environment {
                asked.env("DUOLOG_RUN_ID", &run);
            }
            let ran = Ran::of(asked.output().expect("runs"));
            assert_eq!(ran.code, Some(0), "{args:?} {in_environment}: {}{}", ran.text(), ran.stderr);
        }
    }
}

#[test]
fn a_name_that_is_missing_is_told() {
    let kit = Kit::new();
    ok(&kit, &["init", "--home", &kit.home().display().to_string()]);
    for (command, flags) in COMMANDS {
        let words: Vec<&str> = command.split(' ').collect();
        let none = kit.run(&[&words[..], flags].concat());
        assert_eq!(none.code, Some(2), "{command}");
        assert!(none.stderr.contains(" is given\n"), "{command}: {}", none.stderr);
        let alone = kit.run(&[&words[..], &["{}"], flags].concat());
        assert_eq!(alone.code, Some(2), "{command}");
        assert!(alone.stderr.contains("no run is given, only the"), "{command}: {}", alone.stderr);
        assert!(alone.stderr.contains("DUOLOG_RUN_ID"), "{command}: {}", alone.stderr);
        let help = ok(&kit, &[&words[..], &["--help"]].concat()).text();
        let usage = help.lines().find(|line| line.starts_with("Usage:")).expect("a usage line").to_owned();
        assert!(usage.contains(&format!("duolog {command} [OPTIONS]")) && usage.contains(" [RUN] <"), "{usage}");
    }
}

#[test]
fn an_operation_id_covers_the_run_of_the_environment() {
    let kit = Kit::new();
    let [first, second] = ["a", "b"].map(|trigger| Claimed::of(&kit, "runs phase enter", trigger));
    let enter = |claimed: &Claimed, names: &[&str]| {
        let mut command = kit.command(&[&["runs", "phase", "enter"][..], names].concat());
        command.args(["--operation-id", "enter", "--fence", &claimed.fence]).env("DUOLOG_RUN_ID", &claimed.run);
        Ran::of(command.output().expect("runs"))
    };
    let ran = enter(&first, &["build"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(enter(&first, &[&first.run, "build"]).code, Some(0), "the same request");
    let other = enter(&second, &["build"]);
    assert_eq!(other.code, Some(1), "of another run: {}{}", other.text(), other.stderr);
}

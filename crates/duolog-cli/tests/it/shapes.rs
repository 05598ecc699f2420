/// The commands that create a home with one object of each kind, and read it.
mod home;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::kit::{Kit, Ran};

/// Fields that keep their names although they mean something else there than in other shapes.
const PROMISED: &[(&str, &str)] = &[("Appended", "session"), ("Forked", "branch")];

/// Words in quotes in help texts that are neither field names nor values of fields.
const EXAMPLES: &[&str] =
    &["plan", "envelope", "key", "phase", "timestamp", "session", "context", "log", "off", "wal", "fsync"];

fn schemas() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas")
}

fn files(directory: &Path) -> BTreeMap<String, String> {
    let entries = directory.read_dir().into_iter().flatten().flatten();
    entries
        .map(|entry| {
            let name = entry.file_name().into_string().expect("a name");
            (name, fs::read_to_string(entry.path()).expect("a file"))
        })
        .collect()
}

/// Returns the documented shapes by name, and the shapes of each command.
fn kept() -> (BTreeMap<String, Value>, BTreeMap<String, Vec<String>>) {
    let mut shapes: BTreeMap<String, Value> = files(&schemas())
        .into_iter()
        .filter_map(|(name, text)| Some((name.strip_suffix(".json")?.to_owned(), text)))
        .map(|(name, text)| (name, serde_json::from_str(&text).expect("JSON")))
        .collect();
    let commands = shapes.remove("commands").expect("an index");
    let commands: BTreeMap<String, Vec<String>> = serde_json::from_value(commands).expect("an index");
    let names = |files: Vec<String>| files.iter().map(|file| file.trim_end_matches(".json").to_owned()).collect();
    (shapes, commands.into_iter().map(|(command, files)| (command, names(files))).collect())
}

/// With UPDATE_DOCS=1 the files are written again.
#[test]
fn the_schemas_are_what_the_command_writes() {
    let kit = Kit::new();
    kit.run(&["docs", "--schemas", "made"]).is(0);
    let made = files(&kit.dir.path().join("made"));
    assert!(made.len() > 100 && made.contains_key("RunList.json"), "{:?}", made.keys());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        kit.run(&["docs", "--schemas", schemas().to_str().expect("a plain path")]).is(0);
    }
    let kept = files(&schemas());
    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&made), names(&kept), "run this test with UPDATE_DOCS=1");
    for (name, text) in &made {
        assert!(
            kept[name] == *text,
            "docs/schemas/{name} differs from the generated schema: run this test with UPDATE_DOCS=1"
        );
    }
}

/// Returns the types that a field may have, except null.
fn types(shapes: &BTreeMap<String, Value>, schema: &Value) -> BTreeSet<String> {
    if let Some(file) = schema["$ref"].as_str() {
        return types(shapes, &shapes[file.trim_end_matches(".json")]);
    }
    if let Some(all) = schema["anyOf"].as_array() {
        return all.iter().flat_map(|one| types(shapes, one)).collect();
    }
    let names = match &schema["type"] {
        Value::String(name) => vec![name.as_str()],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    names.into_iter().filter(|name| *name != "null").map(str::to_owned).collect()
}

/// A value that is returned as it was stored has no fixed type.
#[test]
fn a_field_name_has_one_type_and_a_meaning() {
    let (shapes, _) = kept();
    let mut seen: BTreeMap<&str, (BTreeSet<String>, &str)> = BTreeMap::new();
    for (shape, schema) in &shapes {
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            assert!(field["description"].is_string(), "{shape}.{name} has no description");
            assert!(
                name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'),
                "{name}"
            );
            let types = types(&shapes, field);
            if types.is_empty() || PROMISED.contains(&(shape.as_str(), name.as_str())) {
                continue;
            }
            let (known, first) = seen.entry(name).or_insert_with(|| (types.clone(), shape));
            assert_eq!(*known, types, "{name} is {types:?} in {shape} and something else in {first}");
            let instant = name.ends_with("_at") && name != "forked_at";
            assert!(!instant || types.contains("string"), "{shape}.{name} ends like an instant");
            assert!(!name.ends_with("_id") || types.contains("string"), "{shape}.{name} ends like an id");
        }
    }
    for (shape, name) in PROMISED {
        let types = types(&shapes, &shapes[*shape]["properties"][*name]);
        assert_ne!(seen[name].0, types, "{shape}.{name} is no exception any more");
    }
}

/// Collects the shapes that a shape consists of, including itself.
fn parts(shapes: &BTreeMap<String, Value>, name: &str, found: &mut BTreeSet<String>) {
    if !found.insert(name.to_owned()) {
        return;
    }
    let text = shapes[name].to_string();
    for other in text.split("\"$ref\":\"").skip(1).filter_map(|rest| rest.split_once(".json")) {
        parts(shapes, other.0, found);
    }
}

/// Collects the names of fields and their possible values.
fn words(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(members) => {
            found.extend(schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()));
            let held = schema["enum"].as_array().into_iter().flatten();
            found.extend(held.filter_map(|word| word.as_str().map(str::to_owned)));
            members.values().for_each(|value| words(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| words(value, found)),
        _ => {}
    }
}

#[test]
fn help_names_only_existing_fields() {
    let (shapes, commands) = kept();
    let kit = Kit::new();
    for (command, answers) in &commands {
        let args: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let help = kit.run(&args).is(0).text();
        let (mut made_of, mut known) = (BTreeSet::new(), BTreeSet::new());
        for answer in answers {
            parts(&shapes, answer, &mut made_of);
        }
        for shape in &made_of {
            words(&shapes[shape], &mut known);
        }
        // The statuses of tables are keys of an object, not fields.
        if command == "state stats" {
            known
                .extend(["sessions", "workflow_runs", "running", "unset", "paused", "journal_mode"].map(str::to_owned));
        }
        let (_, section) = help.split_once("\nJSON:").unwrap_or_else(|| panic!("{command} does not describe its JSON"));
        for word in section.split('"').skip(1).step_by(2) {
            let is_name = word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
            let is_known = known.contains(word) || EXAMPLES.contains(&word) || command == "state vacuum";
            assert!(!is_name || is_known, "the help of {command} names {word:?}, which is in none of its answers");
        }
    }
}

/// Validates answers against the schemas of their commands; a field that the schema does not name is an error.
struct Walk {
    kit: Kit,
    definitions: Value,
    commands: BTreeMap<String, Vec<String>>,
    /// The shapes of successful answers so far.
    answered: BTreeSet<(String, String)>,
}

impl Walk {
    fn new() -> Self {
        let (shapes, commands) = kept();
        let mut definitions = json!(shapes);
        close(&mut definitions);
        Self { kit: Kit::new(), definitions, commands, answered: BTreeSet::new() }
    }

    fn complaints(&self, shape: &str, answer: &Value) -> Vec<String> {
        let schema = json!({ "$ref": format!("#/$defs/{shape}"), "$defs": self.definitions });
        let validator = jsonschema::validator_for(&schema).expect("a schema");
        validator.iter_errors(answer).map(|error| format!("{}: {error}", error.instance_path())).collect()
    }

    /// Runs a command and validates every line of its answer.
    fn run(&mut self, command: &str, args: &[&str], input: &str) -> Ran {
        let words: Vec<&str> = command.split(' ').chain(args.iter().copied()).chain(["--json"]).collect();
        let ran = self.kit.feed(&words, input.as_bytes());
        let text = ran.text();
        assert!(!text.is_empty(), "{words:?} answers nothing: {}", ran.stderr);
        for line in text.lines() {
            let answer: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{words:?}: {line}"));
            let is_error = answer.as_object().is_some_and(|members| members.len() == 1 && answer["error"].is_object());
            if is_error {
                let complaints = self.complaints("ErrorAnswer", &answer);
                assert!(complaints.is_empty(), "{words:?}: {complaints:#?}");
                continue;
            }
            let shapes = self.commands.get(command).unwrap_or_else(|| panic!("{command} has no schema")).clone();
            let found: Vec<(String, Vec<String>)> =
                shapes.iter().map(|shape| (shape.clone(), self.complaints(shape, &answer))).collect();
            let fits: Vec<_> = found.iter().filter(|(_, complaints)| complaints.is_empty()).collect();
            assert!(!fits.is_empty(), "{words:?} answers {line}\n{found:#?}");
            self.answered.extend(fits.iter().map(|(shape, _)| (command.to_owned(), shape.clone())));
        }
        ran
    }

    /// Runs a command that must succeed, and returns one field of its answer.
    fn get(&mut self, command: &str, args: &[&str], pointer: &str) -> String {
        let value = self.run(command, args, "").is(0).field(pointer);
        value.as_str().map_or_else(|| value.to_string(), str::to_owned)
    }

    fn ok(&mut self, command: &str, args: &[&str]) {
        self.run(command, args, "").is(0);
    }
}

/// Makes references local to the document, and refuses fields that a shape does not name.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get_mut("$ref") {
                *reference = format!("#/$defs/{}", reference.trim_end_matches(".json"));
            }
            // A reference into a document has its own scope.
            members.remove("$schema");
            if members.get("properties").is_some_and(Value::is_object) && members.contains_key("required") {
                members.insert("additionalProperties".to_owned(), false.into());
            }
            members.values_mut().for_each(close);
        }
        Value::Array(values) => values.iter_mut().for_each(close),
        _ => {}
    }
}

/// In a home with one object of each kind, every command answers as its schema says: no field is missing, and none is
/// undocumented.
#[test]
fn every_answer_matches_its_schema() {
    let mut walk = Walk::new();
    let config = "[runs]\nmax_running = 50\n\n[prices.\"my-model\"]\ninput = 2.5\noutput = 10\n\n\
                  [schedules.often]\ncron = \"* * * * *\"\nworkflow = \"review\"\ncontext = { a = 1 }\n\n\
                  [workflows.build]\ndescription = \"builds\"\n";
    fs::create_dir_all(walk.kit.home().join("config")).expect("made");
    fs::write(walk.kit.home().join("config/duolog.toml"), config).expect("written");
    home::sessions(&mut walk);
    home::logs(&mut walk);
    home::runs(&mut walk);
    home::others(&mut walk);
    // An unknown session name is refused in the shape of an error.
    walk.run("sessions show", &["nobody"], "").is(1);
    walk.run("sessions show", &["--no-such-flag"], "").is(2);
    let expected: BTreeSet<(String, String)> = walk
        .commands
        .iter()
        .flat_map(|(command, shapes)| shapes.iter().map(|shape| (command.clone(), shape.clone())))
        .collect();
    let missing: Vec<_> = expected.difference(&walk.answered).collect();
    assert!(missing.is_empty(), "never answered: {missing:?}");
}

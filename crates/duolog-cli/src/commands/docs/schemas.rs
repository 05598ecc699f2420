//! The JSON Schemas in `docs/schemas`, and the index from commands to the schemas of their answers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use duolog_wire::schema::{JsonSchema, Schemas};
use duolog_wire::{
    Admitted, Appended, Approval, ApprovalAcknowledged, ApprovalAnswered, ApprovalDetail, Backup, Blobs, Branch,
    BranchAnswer, Chat, ChatDetail, ChatEnded, ChatHistory, ChatMessageAdded, Checkpointed, Claim, Compacted,
    CompactionInfo, ConfigCheck, ConfigShown, ConfigTemplate, Demo, Doctor, ErrorAnswer, Execution, ExecutionAnswer,
    ExecutionOutput, Expired, Forked, GateOpened, HomeCreated, InboxMessage, ItemCleared, ItemDetailList, ItemList,
    ItemPopped, ItemsAdded, Lease, LogRepaired, LogsVerified, MessageSent, Migrated, Page, PhaseStatus, Rebuilt,
    Recorded, Recovered, ReplayEntry, Rollups, RunAnswer, RunDetail, RunExecuted, RunHistory, RunList, RunStarted,
    RunTransition, RunWait, ScheduleAnswer, ScheduleCleared, ScheduleList, ScheduleRun, ScheduleTicked, Scratch,
    SearchRebuilt, SearchResult, SessionAnswer, SessionDeleted, SessionDetail, SessionExported, SessionImported,
    SessionList, SessionStatusChanged, SessionsDeleted, SimilarMessages, Stats, StatusHistory, StreamEntry, UsageByDay,
    UsageByModel, UsageBySession, UsageByWorkflow, UsageList, Vacuumed, Workflow, WorkflowSwitched,
};
use serde_json::Value;

use crate::failure::Failure;

/// The index from commands to schemas.
const INDEX: &str = "commands.json";

/// The reference of all fields.
const FIELDS: &str = "fields.md";

/// Adds the schema of a type and returns its name.
type Add = fn(&mut Schemas) -> String;

const fn of<T: JsonSchema>() -> Add {
    |schemas| schemas.add::<T>()
}

/// The answer types of each command. A command that streams has the type of a line.
const ANSWERS: &[(&str, &[Add])] = &[
    ("demo", &[of::<Demo>()]),
    ("init", &[of::<HomeCreated>()]),
    ("sessions list", &[of::<SessionList>()]),
    ("sessions show", &[of::<SessionDetail>()]),
    ("sessions new", &[of::<SessionAnswer>()]),
    ("sessions set", &[of::<SessionAnswer>()]),
    ("sessions rename", &[of::<SessionAnswer>()]),
    ("sessions delete", &[of::<SessionDeleted>(), of::<SessionsDeleted>()]),
    ("sessions export", &[of::<SessionExported>()]),
    ("sessions import", &[of::<SessionImported>()]),
    ("sessions add", &[of::<ItemsAdded>()]),
    ("sessions items", &[of::<ItemList>(), of::<ItemDetailList>()]),
    ("sessions pop", &[of::<ItemPopped>()]),
    ("sessions clear", &[of::<ItemCleared>()]),
    ("sessions fork", &[of::<Forked>()]),
    ("sessions branch new", &[of::<BranchAnswer>()]),
    ("sessions branch rename", &[of::<BranchAnswer>()]),
    ("sessions branch set", &[of::<BranchAnswer>()]),
    ("sessions branches", &[of::<Page<Branch>>()]),
    ("sessions compact", &[of::<Compacted>(), of::<CompactionInfo>()]),
    ("sessions close", &[of::<SessionStatusChanged>()]),
    ("sessions reopen", &[of::<SessionStatusChanged>()]),
    ("sessions run", &[of::<SessionStatusChanged>()]),
    ("sessions history", &[of::<StatusHistory>()]),
    ("sessions similar", &[of::<SimilarMessages>()]),
    ("sessions send", &[of::<MessageSent>()]),
    ("sessions inbox", &[of::<Page<InboxMessage>>()]),
    ("log append", &[of::<Appended>()]),
    ("log record", &[of::<Recorded>()]),
    ("log stream", &[of::<StreamEntry>()]),
    ("log replay", &[of::<ReplayEntry>()]),
    ("log search", &[of::<SearchResult>(), of::<SearchRebuilt>()]),
    ("log verify", &[of::<LogsVerified>()]),
    ("log repair", &[of::<LogRepaired>()]),
    ("runs list", &[of::<RunList>()]),
    ("runs show", &[of::<RunDetail>()]),
    ("runs history", &[of::<RunHistory>()]),
    ("runs start", &[of::<RunStarted>()]),
    ("runs exec", &[of::<RunExecuted>()]),
    ("runs claim", &[of::<Claim>()]),
    ("runs renew", &[of::<Lease>()]),
    ("runs release", &[of::<RunAnswer>()]),
    ("runs phase begin", &[of::<PhaseStatus>()]),
    ("runs phase session", &[of::<ExecutionAnswer>()]),
    ("runs phase end", &[of::<ExecutionAnswer>()]),
    ("runs phase skip", &[of::<ExecutionAnswer>()]),
    ("runs phase check", &[of::<PhaseStatus>()]),
    ("runs phase enter", &[of::<RunAnswer>()]),
    ("runs phase complete", &[of::<RunAnswer>()]),
    ("runs execution begin", &[of::<ExecutionAnswer>()]),
    ("runs execution session", &[of::<ExecutionAnswer>()]),
    ("runs execution end", &[of::<ExecutionAnswer>()]),
    ("runs execution list", &[of::<Page<Execution>>()]),
    ("runs scratch", &[of::<Scratch>()]),
    ("runs nodes", &[of::<RunAnswer>()]),
    ("runs output", &[of::<ExecutionOutput>()]),
    ("runs gate", &[of::<GateOpened>()]),
    ("runs acknowledge", &[of::<ApprovalAcknowledged>()]),
    ("runs pause", &[of::<RunTransition>()]),
    ("runs resume", &[of::<RunTransition>()]),
    ("runs finish", &[of::<RunTransition>()]),
    ("runs fail", &[of::<RunTransition>()]),
    ("runs cancel", &[of::<RunTransition>()]),
    ("runs retry", &[of::<RunTransition>()]),
    ("runs requeue", &[of::<RunTransition>()]),
    ("runs admit", &[of::<Admitted>()]),
    ("runs recover", &[of::<Recovered>()]),
    ("runs expire", &[of::<Expired>()]),
    ("runs wait", &[of::<RunWait>()]),
    ("runs stats", &[of::<Rollups>()]),
    ("runs errors", &[of::<Page<Execution>>()]),
    ("approvals list", &[of::<Page<Approval>>()]),
    ("approvals show", &[of::<ApprovalDetail>()]),
    ("approvals approve", &[of::<ApprovalAnswered>()]),
    ("approvals reject", &[of::<ApprovalAnswered>()]),
    ("approvals reply", &[of::<ApprovalAnswered>()]),
    ("workflows list", &[of::<Page<Workflow>>()]),
    ("workflows enable", &[of::<WorkflowSwitched>()]),
    ("workflows disable", &[of::<WorkflowSwitched>()]),
    ("workflows clear", &[of::<WorkflowSwitched>()]),
    ("schedules list", &[of::<ScheduleList>()]),
    ("schedules show", &[of::<ScheduleAnswer>()]),
    ("schedules set", &[of::<ScheduleAnswer>()]),
    ("schedules clear", &[of::<ScheduleCleared>()]),
    ("schedules runs", &[of::<Page<ScheduleRun>>()]),
    ("schedules tick", &[of::<ScheduleTicked>()]),
    ("chats list", &[of::<Page<Chat>>()]),
    ("chats show", &[of::<ChatDetail>()]),
    ("chats history", &[of::<ChatHistory>()]),
    ("chats add", &[of::<ChatMessageAdded>()]),
    ("chats reset", &[of::<ChatEnded>()]),
    ("state stats", &[of::<Stats>()]),
    ("state rebuild", &[of::<Rebuilt>()]),
    ("state migrate", &[of::<Migrated>()]),
    ("state checkpoint", &[of::<Checkpointed>()]),
    ("state vacuum", &[of::<Vacuumed>()]),
    ("state blobs", &[of::<Blobs>()]),
    ("state backup", &[of::<Backup>()]),
    ("usage daily", &[of::<UsageList<UsageByDay>>()]),
    ("usage session", &[of::<UsageList<UsageBySession>>()]),
    ("usage model", &[of::<UsageList<UsageByModel>>()]),
    ("usage workflow", &[of::<UsageList<UsageByWorkflow>>()]),
    ("doctor", &[of::<Doctor>()]),
    ("config show", &[of::<ConfigShown>()]),
    ("config check", &[of::<ConfigCheck>()]),
    ("config init", &[of::<ConfigTemplate>()]),
];

/// Writes one file per schema and the index, and removes the files of schemas that no longer exist.
pub fn write(directory: &Path) -> Result<(), Failure> {
    let mut schemas = Schemas::default();
    let index: BTreeMap<&str, Vec<String>> = ANSWERS
        .iter()
        .map(|(command, shapes)| (*command, shapes.iter().map(|add| add(&mut schemas) + ".json").collect()))
        .collect();
    // Every command may return an error.
    schemas.add::<ErrorAnswer>();
    let mut files: BTreeMap<String, Value> =
        schemas.finish().into_iter().map(|(name, schema)| (format!("{name}.json"), schema)).collect();
    let fields = fields(files.values());
    files.insert(INDEX.to_owned(), serde_json::json!(index));
    fs::create_dir_all(directory).map_err(Failure::file("create", directory))?;
    for entry in fs::read_dir(directory).map_err(Failure::file("read", directory))? {
        let path = entry.map_err(Failure::file("read", directory))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_some_and(|extension| extension == "json") && !files.contains_key(&name) {
            fs::remove_file(&path).map_err(Failure::file("remove", &path))?;
        }
    }
    for (name, schema) in files {
        let path = directory.join(name);
        fs::write(&path, format!("{schema:#}\n")).map_err(Failure::file("write", &path))?;
    }
    let path = directory.join(FIELDS);
    fs::write(&path, fields).map_err(Failure::file("write", &path))
}

/// Returns the reference of all fields as Markdown.
fn fields<'s>(schemas: impl Iterator<Item = &'s Value>) -> String {
    let mut fields: BTreeMap<&str, (BTreeSet<String>, BTreeSet<&str>)> = BTreeMap::new();
    for (name, schema) in schemas.filter_map(|schema| schema["properties"].as_object()).flatten() {
        let (types, meanings) = fields.entry(name).or_default();
        types.extend(types_of(schema));
        meanings.extend(schema["description"].as_str());
    }
    let mut text = "\
<!-- Generated by `duolog docs --schemas`; a test checks that it is up to date. -->

# Fields of the JSON answers

| field | type | meaning |
|---|---|---|
"
    .to_owned();
    for (name, (types, meanings)) in fields {
        let types: Vec<String> = types.into_iter().collect();
        let meanings: Vec<String> = meanings.into_iter().map(|meaning| meaning.replace('\n', " ")).collect();
        let (types, meanings) = (types.join(" or "), meanings.join(" · ").replace('|', "\\|"));
        text.extend(["| `", name, "` | ", &types, " | ", &meanings, " |\n"]);
    }
    text
}

/// Returns the JSON types of a field; a reference to another schema becomes a link.
fn types_of(schema: &Value) -> Vec<String> {
    let shape = schema["$ref"].as_str().map(|file| format!("[{}]({file})", file.trim_end_matches(".json")));
    let other = || schema["anyOf"].as_array().map(|all| all.iter().flat_map(types_of).collect());
    let named = |types: &Value| match types {
        Value::String(name) => vec![name.clone()],
        Value::Array(names) => names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect(),
        _ => vec!["any".to_owned()],
    };
    shape.map(|shape| vec![shape]).or_else(other).unwrap_or_else(|| named(&schema["type"]))
}

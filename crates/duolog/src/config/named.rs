//! Tables whose keys are names: `[schedules.NAME]` and `[workflows.NAME]`.

use duolog_types::json::check_value;
use duolog_types::limits::{METADATA_BYTES_MAX, NAME_BYTES_MAX, REASON_BYTES_MAX};
use duolog_types::with_causes;
use serde_json::{Map, Number, Value as Json};
use toml_edit::{Item, TableLike, Value};

use super::model::Finding;
use super::rules;
use crate::runs::check_workflow;
use crate::schedules::{BaseSchedule, CRON_FORM, CatchUp, Timetable, ZONE_FORM, check_firing};

/// The table of all schedules.
pub(super) const SCHEDULES: &str = "schedules";
/// The table of all workflows.
pub(super) const WORKFLOWS: &str = "workflows";
/// The keys of a schedule.
const SCHEDULE_KEYS: [&str; 7] = ["cron", "zone", "workflow", "enabled", "context", "catch_up", "description"];
/// The keys of a workflow.
const WORKFLOW_KEYS: [&str; 2] = ["enabled", "description"];
/// The default time zone of a schedule.
const ZONE_DEFAULT: &str = "UTC";
/// The maximum nesting of a context.
const DEPTH_MAX: u32 = 32;

/// A workflow in the configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowSetting {
    /// The name.
    pub name: String,
    /// True if runs of it may be started, unless an override says otherwise.
    pub enabled: bool,
    /// The description.
    pub description: Option<String>,
    /// The line of the file, counted from 1.
    pub line: usize,
}

/// One table of the file while its values are read.
struct Entry<'t> {
    table: &'static str,
    name: &'t str,
    keys: &'t dyn TableLike,
    line: &'t dyn Fn(usize) -> usize,
    findings: Vec<Finding>,
}

/// Returns every schedule of the table, or all findings.
pub(super) fn schedules<'t>(
    table: &'t dyn TableLike,
    line: &'t dyn Fn(usize) -> usize,
) -> impl Iterator<Item = Result<BaseSchedule, Vec<Finding>>> + 't {
    rules::entries(table).map(move |(name, item, at)| {
        let at = at.map(line);
        let mut entry = Entry::of(SCHEDULES, name, item, (at, line), &SCHEDULE_KEYS)?;
        let cron = entry.text("cron", CRON_FORM);
        if !entry.keys.contains_key("cron") {
            entry.missing("cron", at);
        }
        let zone = entry.text("zone", ZONE_FORM).unwrap_or_else(|| ZONE_DEFAULT.to_owned());
        if let Some(Err(bad)) = cron.as_deref().map(|cron| Timetable::check(cron, &zone)) {
            entry.wrong(bad.key, &bad.why);
        }
        let schedule = BaseSchedule {
            name: name.to_owned(),
            cron: cron.unwrap_or_default(),
            zone,
            enabled: entry.yes("enabled"),
            workflow: entry.text("workflow", "the name of a workflow"),
            context: entry.context("context"),
            catch_up: entry.catch_up("catch_up"),
            description: entry.text("description", "text"),
            line: at.unwrap_or(1),
        };
        if let Err(error) = check_firing(&schedule) {
            entry.wrong_at("workflow", at, format!("[{SCHEDULES}.{name}] cannot start a run: {}", with_causes(&error)));
        }
        entry.end(schedule)
    })
}

/// Returns every workflow of the table, or all findings.
pub(super) fn workflows<'t>(
    table: &'t dyn TableLike,
    line: &'t dyn Fn(usize) -> usize,
) -> impl Iterator<Item = Result<WorkflowSetting, Vec<Finding>>> + 't {
    rules::entries(table).map(move |(name, item, at)| {
        let at = at.map(line);
        let mut entry = Entry::of(WORKFLOWS, name, item, (at, line), &WORKFLOW_KEYS)?;
        let workflow = WorkflowSetting {
            name: name.to_owned(),
            enabled: entry.yes("enabled"),
            description: entry.text("description", "text"),
            line: at.unwrap_or(1),
        };
        if let Err(error) = check_workflow(name) {
            entry.wrong_at("", at, format!("[{WORKFLOWS}.{name}] cannot be started: {}", with_causes(&error)));
        }
        entry.end(workflow)
    })
}

impl<'t> Entry<'t> {
    fn of(
        table: &'static str,
        name: &'t str,
        item: &'t Item,
        (at, line): (Option<usize>, &'t dyn Fn(usize) -> usize),
        known: &[&str],
    ) -> Result<Self, Vec<Finding>> {
        let key = Some(format!("{table}.{name:?}"));
        let finding = |message: String| vec![Finding { line: at, key: key.clone(), message, hint: None }];
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains('\0') {
            return Err(finding(format!("a name in [{table}] has 1 to {NAME_BYTES_MAX} bytes, and no NUL")));
        }
        let Some(keys) = item.as_table_like() else {
            return Err(finding(format!("{name} is {}; expected a table, [{table}.{name}]", rules::kind_of(item))));
        };
        let mut entry = Self { table, name, keys, line, findings: Vec::new() };
        for (key, _, at) in rules::entries(keys) {
            if !known.contains(&key) {
                let finding = rules::unknown_among(&format!("{table}.{name}"), key, known, at.map(line));
                entry.findings.push(finding);
            }
        }
        Ok(entry)
    }

    fn end<T>(self, value: T) -> Result<T, Vec<Finding>> {
        if self.findings.is_empty() { Ok(value) } else { Err(self.findings) }
    }

    /// Adds a finding about a key.
    fn wrong(&mut self, key: &str, why: &str) {
        let found = rules::entries(self.keys).find(|(name, _, _)| *name == key);
        let line = found.and_then(|(_, _, at)| at).map(self.line);
        let (message, name) = (format!("{key} {why}"), format!("{}.{:?}.{key}", self.table, self.name));
        self.findings.push(Finding { line, key: Some(name), message, hint: None });
    }

    /// Adds a finding about the table, at the line of one of its keys.
    fn wrong_at(&mut self, key: &str, table: Option<usize>, message: String) {
        let found = rules::entries(self.keys).find(|(name, _, _)| *name == key);
        let line = found.and_then(|(_, _, at)| at).map(self.line).or(table);
        self.findings.push(Finding { line, key: Some(format!("{}.{:?}", self.table, self.name)), message, hint: None });
    }

    fn missing(&mut self, key: &str, line: Option<usize>) {
        let message = format!("[{}.{}] does not say {key}", self.table, self.name);
        let hint = Some(format!("{key} is {CRON_FORM}"));
        let name = format!("{}.{:?}.{key}", self.table, self.name);
        self.findings.push(Finding { line, key: Some(name), message, hint });
    }

    fn text(&mut self, key: &str, expected: &str) -> Option<String> {
        let item = self.keys.get(key)?;
        let max = if key == "description" { REASON_BYTES_MAX } else { NAME_BYTES_MAX };
        match item.as_str() {
            Some(text) if !text.is_empty() && text.len() <= max && !text.contains('\0') => Some(text.to_owned()),
            Some("") => {
                self.wrong(key, &format!("is empty; expected {expected}"));
                None
            }
            Some(text) => {
                let bytes = text.len();
                self.wrong(key, &format!("is {bytes} bytes; expected {expected}, {max} bytes at most and no NUL"));
                None
            }
            None => {
                self.wrong(key, &format!("is {}; expected {expected}", rules::kind_of(item)));
                None
            }
        }
    }

    /// Returns a boolean; true if the key is absent.
    fn yes(&mut self, key: &str) -> bool {
        let Some(item) = self.keys.get(key) else { return true };
        item.as_bool().unwrap_or_else(|| {
            self.wrong(key, &format!("is {}; expected true or false", rules::kind_of(item)));
            true
        })
    }

    fn catch_up(&mut self, key: &str) -> CatchUp {
        let Some(item) = self.keys.get(key) else { return CatchUp::default() };
        let found = CatchUp::ALL.iter().copied().find(|known| item.as_str() == Some(known.as_str()));
        found.unwrap_or_else(|| {
            let said = item.as_str().map_or_else(|| rules::kind_of(item), |text| format!("{text:?}"));
            self.wrong(key, &format!("is {said}; expected \"latest\", \"all\" or \"none\""));
            CatchUp::default()
        })
    }

    fn context(&mut self, key: &str) -> Option<String> {
        let item = self.keys.get(key)?;
        let parsed = match item.as_table_like() {
            None => Err(format!("is {}; expected a table, like {{ repo = \"a/b\" }}", rules::kind_of(item))),
            Some(table) => object(table, 0).map(|json| Json::Object(json).to_string()),
        };
        let parsed = parsed.and_then(|text| match text.len() {
            ..=METADATA_BYTES_MAX => check_value(&text).map(|()| text).map_err(|_| "cannot be JSON".to_owned()),
            bytes => Err(format!("is {bytes} bytes as JSON; expected {METADATA_BYTES_MAX} at most")),
        });
        parsed.map_err(|why| self.wrong(key, &why)).ok()
    }
}

/// Returns a table as JSON.
fn object(table: &dyn TableLike, depth: u32) -> Result<Map<String, Json>, String> {
    if depth > DEPTH_MAX {
        return Err(format!("nests deeper than {DEPTH_MAX}"));
    }
    table.iter().map(|(key, item)| Ok((key.to_owned(), json_of(item, depth + 1)?))).collect()
}

fn json_of(item: &Item, depth: u32) -> Result<Json, String> {
    match item {
        Item::Value(value) => json(value, depth),
        Item::ArrayOfTables(tables) => {
            tables.iter().map(|table| object(table, depth).map(Json::Object)).collect::<Result<_, _>>().map(Json::Array)
        }
        Item::Table(table) => object(table, depth).map(Json::Object),
        Item::None => Ok(Json::Null),
    }
}

fn json(value: &Value, depth: u32) -> Result<Json, String> {
    if depth > DEPTH_MAX {
        return Err(format!("nests deeper than {DEPTH_MAX}"));
    }
    match value {
        Value::String(text) => Ok(Json::String(text.value().clone())),
        Value::Integer(number) => Ok(Json::from(*number.value())),
        Value::Boolean(yes) => Ok(Json::Bool(*yes.value())),
        Value::Datetime(at) => Ok(Json::String(at.value().to_string())),
        Value::Float(number) => {
            Number::from_f64(*number.value()).map(Json::Number).ok_or_else(|| "holds a number that JSON has not".into())
        }
        Value::Array(values) => {
            values.iter().map(|value| json(value, depth + 1)).collect::<Result<_, _>>().map(Json::Array)
        }
        Value::InlineTable(table) => object(table, depth).map(Json::Object),
    }
}

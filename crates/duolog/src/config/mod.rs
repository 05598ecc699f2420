//! The configuration: limits, durability, where the state is, whose sessions are meant, what models cost and what fires when,
//! from a file, the environment and the caller.
//!
//! The caller goes before the environment, that before the file, and that before the defaults; each value knows where
//! it came from. What nobody understands is refused with all of its mistakes at once: a limit that was mistyped is a
//! limit that is not in force. Nothing here looks at the environment by itself.

mod model;
mod named;
mod prices;
mod rules;

#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use duolog_log::dialect::prices::Prices;
use duolog_state::{Address, StoreAddress};
use duolog_types::Durability;
use duolog_types::limits::{CHAT_IDLE, Limits};
use duolog_types::names::check_name;
use toml_edit::Document;

pub(crate) use model::ADDRESS_FORMS;
pub use model::{ConfigError, FILE_BYTES_MAX, Finding, Key, Setting, Shape, Source, Value};
pub use named::WorkflowSetting;
pub use prices::PriceSetting;
pub(crate) use rules::near;

use crate::home::Home;
use crate::schedules::BaseSchedule;

/// The file in a home's directory for configuration.
const FILE: &str = "duolog.toml";
/// The flag that goes before the file and the environment, as it is called where it cannot be understood.
const STORE_FLAG: &str = "--store";
/// The login of one of whom none is known.
const NOBODY: &str = "nobody";
/// The permission bits of others than the owner.
const OTHERS: u32 = 0o077;

/// What is in force.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    limits: Limits,
    durability: Durability,
    store: StoreAddress,
    /// Whose sessions are meant where nobody says.
    user: String,
    prices: Prices,
    /// The prices that the file sets, in its order.
    priced: Vec<PriceSetting>,
    /// The schedules that the file has, in its order.
    schedules: Vec<BaseSchedule>,
    /// The workflows that the file has, in its order.
    workflows: Vec<WorkflowSetting>,
    chat_idle: Duration,
    /// Where each value came from, as far as it is not the default.
    said: Vec<(Key, Source)>,
    warnings: Vec<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            durability: Durability::default(),
            store: StoreAddress::Home,
            user: at_localhost(NOBODY),
            prices: Prices::builtin(),
            priced: Vec::new(),
            schedules: Vec::new(),
            workflows: Vec::new(),
            chat_idle: CHAT_IDLE,
            said: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

impl Config {
    /// Where the configuration of a home is, if it has one.
    pub fn path(home: &Home) -> PathBuf {
        home.config.join(FILE)
    }

    /// Reads the configuration of a home. Where there is no file the defaults are in force; that costs one look.
    pub fn load(home: &Home) -> Result<Self, ConfigError> {
        match Self::read(&Self::path(home)) {
            // A home that is a file has no configuration either; opening it says what is wrong.
            Err(ConfigError::Unreadable { source, .. })
                if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                Ok(Self::default())
            }
            other => other,
        }
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let unreadable = |source| ConfigError::Unreadable { path: path.to_owned(), source };
        // Looked at before it is opened: opening a pipe would wait for a writer.
        let found = fs::metadata(path).map_err(unreadable)?;
        if !found.is_file() {
            return Err(ConfigError::NotAFile(path.to_owned()));
        }
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(unreadable)?;
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(ConfigError::TooLarge(path.to_owned()));
        }
        let parsed = match std::str::from_utf8(&bytes) {
            Ok(text) => Self::parse(text),
            Err(error) => {
                let line = Some(line_at(&bytes, error.valid_up_to()));
                Err(refused(vec![Finding { line, key: None, message: "it is not UTF-8".to_owned(), hint: None }]))
            }
        };
        let mut config = parsed.map_err(|error| error.of(path.to_owned()))?;
        let mode = found.mode() & 0o777;
        if has_password(&config.store) && mode & OTHERS != 0 {
            let path = path.display();
            config
                .warnings
                .push(format!("{path} holds a password, and others may open it (mode {mode:o}): chmod 600 {path}"));
        }
        Ok(config)
    }

    /// Understands the text of a file, or says everything that is wrong with it.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let line = |at: usize| line_at(text.as_bytes(), at);
        let document = Document::parse(text).map_err(|error| {
            let at = error.span().map(|span| line(span.start));
            let message = format!("it is not TOML: {}", error.message().trim().replace('\n', ", "));
            refused(vec![Finding { line: at, key: None, message, hint: None }])
        })?;
        let mut config = Self::default();
        let mut findings = Vec::new();
        for (table, item, at) in rules::entries(document.as_table()) {
            let at = at.map(line);
            if !rules::is_table(table) {
                findings.push(rules::unknown(None, table, at));
                continue;
            }
            let Some(keys) = item.as_table_like() else {
                let message = format!("{table} is {}; expected a table, [{table}]", rules::kind_of(item));
                findings.push(Finding { line: at, key: Some(table.to_owned()), message, hint: None });
                continue;
            };
            if table == prices::TABLE {
                for set in prices::all(keys, prices::File { text, line: &line }) {
                    match set {
                        Ok(set) => config.set_price(set),
                        Err(wrong) => findings.extend(wrong),
                    }
                }
                continue;
            }
            if table == named::SCHEDULES {
                for schedule in named::schedules(keys, &line) {
                    match schedule {
                        Ok(schedule) => config.schedules.push(schedule),
                        Err(wrong) => findings.extend(wrong),
                    }
                }
                continue;
            }
            if table == named::WORKFLOWS {
                for workflow in named::workflows(keys, &line) {
                    match workflow {
                        Ok(workflow) => config.workflows.push(workflow),
                        Err(wrong) => findings.extend(wrong),
                    }
                }
                continue;
            }
            for (name, item, at) in rules::entries(keys) {
                let at = at.map(line);
                let Some(key) = rules::key_of(table, name) else {
                    findings.push(rules::unknown(Some(table), name, at));
                    continue;
                };
                match rules::from_item(key, item) {
                    Ok(value) => config.set(key, value, Source::File { line: at.unwrap_or(1) }),
                    Err(wrong) => findings.push(Finding {
                        line: at,
                        key: Some(key.to_string()),
                        message: format!("{name} {wrong}"),
                        hint: None,
                    }),
                }
            }
        }
        findings.sort_by_key(|finding| finding.line);
        if findings.is_empty() { Ok(config) } else { Err(refused(findings)) }
    }

    /// The same with what the environment says, which goes before the file. `variable` is asked for each key's.
    pub fn with_environment(mut self, variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, ConfigError> {
        let mut findings = Vec::new();
        for key in Key::ALL {
            // As elsewhere, what is empty counts as unset.
            let Some(said) = variable(key.variable()).filter(|said| !said.is_empty()) else { continue };
            match taken(*key, key.variable(), &said) {
                Ok(value) => self.set(*key, value, Source::Environment),
                Err(finding) => findings.push(finding),
            }
        }
        if findings.is_empty() { Ok(self) } else { Err(refused(findings)) }
    }

    /// The same with the address that the caller says for this one time, which goes before everything.
    pub fn with_store(mut self, address: Option<&OsStr>) -> Result<Self, ConfigError> {
        if let Some(address) = address {
            let value = taken(Key::StoreAddress, STORE_FLAG, address).map_err(|finding| refused(vec![finding]))?;
            self.set(Key::StoreAddress, value, Source::Flag);
        }
        Ok(self)
    }

    /// The same, a relative path of the state meant from this directory.
    #[must_use]
    pub fn from_directory(mut self, directory: &Path) -> Self {
        if let StoreAddress::At(Address::Directory(path)) = &mut self.store {
            *path = directory.join(&path);
        }
        self
    }

    /// The same with the password that the caller knows, for a server whose address names none.
    #[must_use]
    pub fn with_password(mut self, password: Option<&OsStr>) -> Self {
        if let (StoreAddress::At(Address::Server(server)), Some(password)) = (&mut self.store, password) {
            *server = server.clone().or_password(password.as_encoded_bytes());
        }
        self
    }

    /// The same with what the caller says for this one time, which goes before everything.
    #[must_use]
    pub fn with_durability(mut self, durability: Option<Durability>) -> Self {
        if let Some(durability) = durability {
            self.set(Key::DurabilityLog, Value::Durability(durability), Source::Flag);
        }
        self
    }

    /// The same for one who is logged in by this name, unless someone said another user.
    #[must_use]
    pub fn for_login(mut self, login: Option<&str>) -> Self {
        if let Some(login) = login.filter(|login| self.source(Key::UserEmail) == Source::Default && is_login(login)) {
            self.user = at_localhost(login);
        }
        self
    }

    /// The limits in force.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// What an append to the log survives where it does not say.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// Where the state is.
    pub fn store(&self) -> &StoreAddress {
        &self.store
    }

    /// Whose sessions are meant where nobody says.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// What models cost.
    pub fn prices(&self) -> &Prices {
        &self.prices
    }

    /// The prices that the file sets, in its order; all others are built in.
    pub fn price_settings(&self) -> &[PriceSetting] {
        &self.priced
    }

    /// The schedules that the file has, in its order.
    pub fn schedules(&self) -> &[BaseSchedule] {
        &self.schedules
    }

    /// Returns what keeps enabled schedules from ever starting a run: workflows that the file disables. It is no reason to
    /// refuse the file: an override may enable the workflow.
    pub fn schedule_findings(&self) -> Vec<Finding> {
        let disabled = |schedule: &BaseSchedule| {
            let of = |workflow: &&WorkflowSetting| Some(&workflow.name) == schedule.workflow.as_ref();
            let workflow = self.workflows.iter().find(of).filter(|workflow| schedule.enabled && !workflow.enabled)?;
            let message = format!(
                "[schedules.{}] skips every time: workflow {:?} is disabled on line {}",
                schedule.name, workflow.name, workflow.line
            );
            let hint = Some(format!("enable the workflow, or set enabled = false in [schedules.{}]", schedule.name));
            let key = Some(format!("schedules.{:?}.workflow", schedule.name));
            Some(Finding { line: Some(schedule.line), key, message, hint })
        };
        self.schedules.iter().filter_map(disabled).collect()
    }

    /// Returns notes on schedules whose workflow the file does not have, while it has one with nearly the same name.
    pub fn schedule_warnings(&self) -> Vec<String> {
        let unknown = |schedule: &BaseSchedule| {
            let name = schedule.workflow.as_deref()?;
            let names = || self.workflows.iter().map(|workflow| workflow.name.as_str());
            let meant = names().filter_map(|known| Some((near(name, known)?, known))).min();
            let (_, meant) = meant.filter(|_| names().all(|known| known != name))?;
            let (line, schedule) = (schedule.line, &schedule.name);
            Some(format!(
                "line {line}: [schedules.{schedule}] starts {name:?}, which the file does not have; did you mean {meant:?}?"
            ))
        };
        self.schedules.iter().filter_map(unknown).collect()
    }

    /// The workflows that the file speaks of, in its order. One that it does not mention is enabled.
    pub fn workflows(&self) -> &[WorkflowSetting] {
        &self.workflows
    }

    /// How long a chat may be silent and still be the same one.
    pub fn chat_idle(&self) -> Duration {
        self.chat_idle
    }

    /// What a person should know about the file.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Every key with what is in force, and why.
    pub fn settings(&self) -> impl Iterator<Item = Setting> {
        Key::ALL.iter().map(|key| Setting { key: *key, value: self.value(*key), source: self.source(*key) })
    }

    fn value(&self, key: Key) -> Value {
        let Limits {
            line_bytes_max,
            batch_bytes_max,
            busy_timeout,
            open_logs_max,
            fold_batch_bytes,
            fold_before_read_bytes,
            runs,
        } = self.limits;
        match key {
            Key::LineBytesMax => Value::Size(line_bytes_max as u64),
            Key::BatchBytesMax => Value::Size(batch_bytes_max as u64),
            Key::BusyTimeoutMs => Value::Number(u64::try_from(busy_timeout.as_millis()).unwrap_or(u64::MAX)),
            Key::OpenLogsMax => Value::Number(open_logs_max as u64),
            Key::FoldBatchBytes => Value::Size(fold_batch_bytes),
            Key::FoldBeforeReadBytes => Value::Size(fold_before_read_bytes),
            Key::DurabilityLog => Value::Durability(self.durability),
            Key::StoreAddress => Value::Address(self.store.clone()),
            Key::RunsMaxRunning => Value::Number(runs.max_running.into()),
            Key::RunsQueueWait => Value::Time(runs.queue_wait),
            Key::RunsLease => Value::Time(runs.lease),
            Key::RunsRestartCap => Value::Number(runs.restart_cap.into()),
            Key::ChatsIdle => Value::Time(self.chat_idle),
            Key::UserEmail => Value::Name(self.user.clone()),
        }
    }

    fn set_price(&mut self, set: PriceSetting) {
        self.prices.set(&set.model, set.price);
        self.priced.push(set);
    }

    fn source(&self, key: Key) -> Source {
        self.said.iter().rev().find(|(said, _)| *said == key).map_or(Source::Default, |(_, source)| *source)
    }

    fn set(&mut self, key: Key, value: Value, source: Source) {
        let number = value.number().unwrap_or_default();
        let size = usize::try_from(number).unwrap_or(usize::MAX);
        let few = u32::try_from(number).unwrap_or(u32::MAX);
        match (key, value) {
            (Key::LineBytesMax, _) => self.limits.line_bytes_max = size,
            (Key::BatchBytesMax, _) => self.limits.batch_bytes_max = size,
            (Key::BusyTimeoutMs, _) => self.limits.busy_timeout = Duration::from_millis(number),
            (Key::OpenLogsMax, _) => self.limits.open_logs_max = size,
            (Key::FoldBatchBytes, _) => self.limits.fold_batch_bytes = number,
            (Key::FoldBeforeReadBytes, _) => self.limits.fold_before_read_bytes = number,
            (Key::DurabilityLog, Value::Durability(durability)) => self.durability = durability,
            (Key::StoreAddress, Value::Address(said)) => self.store = said,
            (Key::RunsMaxRunning, _) => self.limits.runs.max_running = few,
            (Key::RunsQueueWait, Value::Time(wait)) => self.limits.runs.queue_wait = wait,
            (Key::RunsLease, Value::Time(lease)) => self.limits.runs.lease = lease,
            (Key::RunsRestartCap, _) => self.limits.runs.restart_cap = few,
            (Key::ChatsIdle, Value::Time(idle)) => self.chat_idle = idle,
            (Key::UserEmail, Value::Name(name)) => self.user = name,
            (
                Key::DurabilityLog
                | Key::StoreAddress
                | Key::RunsQueueWait
                | Key::RunsLease
                | Key::ChatsIdle
                | Key::UserEmail,
                _,
            ) => return,
        }
        self.said.push((key, source));
    }
}

/// What the environment or the caller says of a key, under the name by which they said it.
fn taken(key: Key, name: &'static str, said: &OsStr) -> Result<Value, Finding> {
    let text = said.to_str().ok_or_else(|| "is not UTF-8".to_owned());
    text.and_then(|text| rules::from_text(key, text)).map_err(|wrong| Finding {
        line: None,
        key: Some(name.to_owned()),
        message: format!("{name} {wrong}"),
        hint: None,
    })
}

/// The user that a login is, where nobody said another.
fn at_localhost(login: &str) -> String {
    format!("{login}@localhost")
}

/// Whether a login can be part of a user.
fn is_login(login: &str) -> bool {
    check_name("user", &at_localhost(login)).is_ok() && !login.trim().is_empty()
}

fn has_password(said: &StoreAddress) -> bool {
    matches!(said, StoreAddress::At(Address::Server(server)) if server.has_password())
}

fn refused(findings: Vec<Finding>) -> ConfigError {
    ConfigError::Findings { path: None, findings }
}

/// The line of a byte, counted from one.
fn line_at(bytes: &[u8], at: usize) -> usize {
    1 + bytes.iter().take(at).filter(|byte| **byte == b'\n').count()
}

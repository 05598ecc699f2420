//! The configuration: limits, durability, the address of the state, the default user, prices and schedules, from a
//! file, the environment and the caller.
//!
//! The caller overrides the environment, the environment overrides the file, and the file overrides the defaults. Each
//! value knows its source. An invalid file is refused with all of its errors at once: a mistyped limit would not be in
//! force. This module never reads the environment by itself.

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

/// The name of the configuration file.
const FILE: &str = "duolog.toml";
/// The name of the address argument in error messages. It overrides the file and the environment.
const STORE_FLAG: &str = "--store";
/// The login if none is known.
const NOBODY: &str = "nobody";
/// The permission bits of the group and of others.
const OTHERS: u32 = 0o077;

/// The settings in force.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    limits: Limits,
    durability: Durability,
    store: StoreAddress,
    /// The default user of sessions.
    user: String,
    prices: Prices,
    /// The prices that the file sets, in its order.
    priced: Vec<PriceSetting>,
    /// The schedules of the file, in its order.
    schedules: Vec<BaseSchedule>,
    /// The workflows of the file, in its order.
    workflows: Vec<WorkflowSetting>,
    chat_idle: Duration,
    /// The source of each value that is not the default.
    sources: Vec<(Key, Source)>,
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
            sources: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

impl Config {
    /// Returns the path of a home's configuration file. The file need not exist.
    pub fn path(home: &Home) -> PathBuf {
        home.config.join(FILE)
    }

    /// Reads the configuration of a home; the defaults if there is no file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read or is not valid.
    pub fn load(home: &Home) -> Result<Self, ConfigError> {
        match Self::read(&Self::path(home)) {
            // A home that is a file has no configuration; opening the store reports the error.
            Err(ConfigError::Unreadable { source, .. })
                if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                Ok(Self::default())
            }
            other => other,
        }
    }

    /// Reads a configuration file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file does not exist, cannot be read, or is not valid.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let unreadable = |source| ConfigError::Unreadable { path: path.to_owned(), source };
        // Checked before opening: opening a pipe would wait for a writer.
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
                .push(format!("{path} holds a password and is readable by others (mode {mode:o}): chmod 600 {path}"));
        }
        Ok(config)
    }

    /// Parses the text of a configuration file.
    ///
    /// # Errors
    ///
    /// Returns an error that lists every finding.
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

    /// Applies the environment, which overrides the file. `variable` returns the value of an environment variable.
    ///
    /// # Errors
    ///
    /// Returns an error if a value is not valid.
    pub fn with_environment(mut self, variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, ConfigError> {
        let mut findings = Vec::new();
        for key in Key::ALL {
            // An empty variable counts as unset.
            let Some(value) = variable(key.variable()).filter(|value| !value.is_empty()) else { continue };
            match parse_value(*key, key.variable(), &value) {
                Ok(value) => self.set(*key, value, Source::Environment),
                Err(finding) => findings.push(finding),
            }
        }
        if findings.is_empty() { Ok(self) } else { Err(refused(findings)) }
    }

    /// Sets the address that the caller gives, which overrides everything else.
    ///
    /// # Errors
    ///
    /// Returns an error if the address is not valid.
    pub fn with_store(mut self, address: Option<&OsStr>) -> Result<Self, ConfigError> {
        if let Some(address) = address {
            let value =
                parse_value(Key::StoreAddress, STORE_FLAG, address).map_err(|finding| refused(vec![finding]))?;
            self.set(Key::StoreAddress, value, Source::Flag);
        }
        Ok(self)
    }

    /// Resolves a relative path of the state against `directory`.
    #[must_use]
    pub fn from_directory(mut self, directory: &Path) -> Self {
        if let StoreAddress::At(Address::Directory(path)) = &mut self.store {
            *path = directory.join(&path);
        }
        self
    }

    /// Sets the password for a server whose address has none.
    #[must_use]
    pub fn with_password(mut self, password: Option<&OsStr>) -> Self {
        if let (StoreAddress::At(Address::Server(server)), Some(password)) = (&mut self.store, password) {
            *server = server.clone().or_password(password.as_encoded_bytes());
        }
        self
    }

    /// Sets the durability that the caller gives, which overrides everything else.
    #[must_use]
    pub fn with_durability(mut self, durability: Option<Durability>) -> Self {
        if let Some(durability) = durability {
            self.set(Key::DurabilityLog, Value::Durability(durability), Source::Flag);
        }
        self
    }

    /// Sets the default user from the name of a login, unless a user is configured.
    #[must_use]
    pub fn for_login(mut self, login: Option<&str>) -> Self {
        if let Some(login) = login.filter(|login| self.source(Key::UserEmail) == Source::Default && is_login(login)) {
            self.user = at_localhost(login);
        }
        self
    }

    /// Returns the limits in force.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Returns the default durability of an append.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// Returns the address of the state.
    pub fn store(&self) -> &StoreAddress {
        &self.store
    }

    /// Returns the default user of sessions.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Returns the prices of models.
    pub fn prices(&self) -> &Prices {
        &self.prices
    }

    /// Returns the prices that the file sets, in its order. All other prices are built in.
    pub fn price_settings(&self) -> &[PriceSetting] {
        &self.priced
    }

    /// Returns the schedules of the file, in its order.
    pub fn schedules(&self) -> &[BaseSchedule] {
        &self.schedules
    }

    /// Returns findings about enabled schedules that can never start a run because the file disables their workflow.
    /// The file is still valid: an override may enable the workflow.
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

    /// Returns warnings about schedules whose workflow is not in the file, if the file has a workflow with a similar
    /// name.
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

    /// Returns the workflows of the file, in its order. A workflow that is not in the file is enabled.
    pub fn workflows(&self) -> &[WorkflowSetting] {
        &self.workflows
    }

    /// Returns the longest silence after which a message still belongs to the same chat.
    pub fn chat_idle(&self) -> Duration {
        self.chat_idle
    }

    /// Returns the warnings about the file, for the user.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns every key with its value and its source.
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
        self.sources.iter().rev().find(|(set, _)| *set == key).map_or(Source::Default, |(_, source)| *source)
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
            (Key::StoreAddress, Value::Address(address)) => self.store = address,
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
        self.sources.push((key, source));
    }
}

/// Parses a value of the environment or the caller, under the name that they use for it.
fn parse_value(key: Key, name: &'static str, value: &OsStr) -> Result<Value, Finding> {
    let text = value.to_str().ok_or_else(|| "is not UTF-8".to_owned());
    text.and_then(|text| rules::from_text(key, text)).map_err(|wrong| Finding {
        line: None,
        key: Some(name.to_owned()),
        message: format!("{name} {wrong}"),
        hint: None,
    })
}

/// Returns the default user for a login.
fn at_localhost(login: &str) -> String {
    format!("{login}@localhost")
}

/// Returns true if a login can be part of a user.
fn is_login(login: &str) -> bool {
    check_name("user", &at_localhost(login)).is_ok() && !login.trim().is_empty()
}

fn has_password(value: &StoreAddress) -> bool {
    matches!(value, StoreAddress::At(Address::Server(server)) if server.has_password())
}

fn refused(findings: Vec<Finding>) -> ConfigError {
    ConfigError::Findings { path: None, findings }
}

/// Returns the line of a byte, counted from 1.
fn line_at(bytes: &[u8], at: usize) -> usize {
    1 + bytes.iter().take(at).filter(|byte| **byte == b'\n').count()
}

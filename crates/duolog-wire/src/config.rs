//! The configuration: what is in force, and what is wrong with a file.

use duolog::config::{Finding, PriceSetting, Setting, Source, Value, WorkflowSetting};
use duolog::schedules::{BaseSchedule, CatchUp};
use duolog::{Money, Rates};
use schemars::JsonSchema;
use serde::Serialize;

use crate::schema::words;
use crate::{Json, Usd};

/// What is in force.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ConfigShown {
    /// The file.
    pub path: String,
    /// False if there is no file.
    pub exists: bool,
    /// Every setting.
    pub settings: Vec<ConfigSetting>,
    /// The prices that the file sets; all others are built in.
    pub prices: Vec<ConfigPrice>,
    /// The schedules of the file.
    pub schedules: Vec<ConfigSchedule>,
    /// The workflows of the file.
    pub workflows: Vec<ConfigWorkflow>,
}

/// A setting.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ConfigSetting {
    /// Its key.
    pub key: String,
    /// Its value: a number, or a text.
    pub value: Json,
    /// Where the value comes from.
    #[schemars(extend("enum" = ["default", "file", "environment", "flag"]))]
    pub source: &'static str,
    /// Its line in the file; null if the value comes from elsewhere.
    pub line: Option<u64>,
    /// The environment variable that overrides the file.
    pub variable: String,
}

impl From<&Setting> for ConfigSetting {
    fn from(setting: &Setting) -> Self {
        let Setting { key, value, source } = setting;
        let value = match value {
            Value::Size(number) | Value::Number(number) => number.to_string(),
            Value::Durability(_) | Value::Time(_) | Value::Address(_) | Value::Name(_) => {
                serde_json::Value::from(value.to_string()).to_string()
            }
        };
        Self {
            key: key.to_string(),
            value: Json::of(&value),
            source: source.as_str(),
            line: if let Source::File { line } = source { Some(*line as u64) } else { None },
            variable: key.variable().to_owned(),
        }
    }
}

/// The price of a model.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ConfigPrice {
    /// The model.
    pub model: String,
    /// What a million tokens cost, by the keys of the file.
    pub usd_per_million_tokens: ConfigRates,
    /// Its line in the file.
    pub line: u64,
}

/// What a million tokens cost.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ConfigRates {
    /// Tokens read.
    pub input: Usd,
    /// Tokens written.
    pub output: Usd,
    /// Tokens read from a cache.
    pub cache_read: Usd,
    /// Tokens written to a cache that keeps them for 5 minutes.
    pub cache_write_5m: Usd,
    /// Tokens written to a cache that keeps them for an hour.
    pub cache_write_1h: Usd,
}

impl From<&PriceSetting> for ConfigPrice {
    fn from(set: &PriceSetting) -> Self {
        // A picodollar per token is a micro-dollar per million of them.
        let usd = |rate: u64| Usd(Money::from_picos(u128::from(rate) * 1_000_000));
        let Rates { input, output, cache_read, cache_write_5m, cache_write_1h } = set.price.rates;
        Self {
            model: set.model.clone(),
            usd_per_million_tokens: ConfigRates {
                input: usd(input),
                output: usd(output),
                cache_read: usd(cache_read),
                cache_write_5m: usd(cache_write_5m),
                cache_write_1h: usd(cache_write_1h),
            },
            line: set.line as u64,
        }
    }
}

/// A schedule of the file.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ConfigSchedule {
    /// Its name.
    pub name: String,
    /// When it fires.
    pub cron: String,
    /// The time zone of the cron expression.
    pub zone: String,
    /// The workflow that it starts.
    pub workflow_name: Option<String>,
    /// What the workflow is given.
    pub context: Option<Json>,
    /// True if it fires.
    pub enabled: bool,
    /// What is done about times that were missed.
    #[schemars(extend("enum" = words(CatchUp::ALL, CatchUp::as_str)))]
    pub catch_up: &'static str,
    /// What it is for.
    pub description: Option<String>,
    /// Its line in the file.
    pub line: u64,
}

impl From<&BaseSchedule> for ConfigSchedule {
    fn from(schedule: &BaseSchedule) -> Self {
        Self {
            name: schedule.name.clone(),
            cron: schedule.cron.clone(),
            zone: schedule.zone.clone(),
            workflow_name: schedule.workflow.clone(),
            context: schedule.context.as_deref().map(Json::of),
            enabled: schedule.enabled,
            catch_up: schedule.catch_up.as_str(),
            description: schedule.description.clone(),
            line: schedule.line as u64,
        }
    }
}

/// A workflow of the file.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ConfigWorkflow {
    /// Its name.
    pub name: String,
    /// True if runs of it may be started.
    pub enabled: bool,
    /// What it is for.
    pub description: Option<String>,
    /// Its line in the file.
    pub line: u64,
}

impl From<&WorkflowSetting> for ConfigWorkflow {
    fn from(set: &WorkflowSetting) -> Self {
        Self {
            name: set.name.clone(),
            enabled: set.enabled,
            description: set.description.clone(),
            line: set.line as u64,
        }
    }
}

/// If a configuration is right.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ConfigCheck {
    /// The file.
    pub path: String,
    /// False if there is no file.
    pub exists: bool,
    /// True if nothing is wrong.
    pub valid: bool,
    /// What is wrong.
    pub findings: Vec<ConfigFinding>,
    /// What is worth knowing, and is not wrong.
    pub warnings: Vec<String>,
}

/// Something that is wrong with a configuration.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ConfigFinding {
    /// The line of the file; null for the environment and flags.
    pub line: Option<u64>,
    /// The key, variable or flag.
    pub key: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
}

impl From<&Finding> for ConfigFinding {
    fn from(finding: &Finding) -> Self {
        Self {
            line: finding.line.map(|line| line as u64),
            key: finding.key.clone(),
            message: finding.message.clone(),
            hint: finding.hint.clone(),
        }
    }
}

//! The effective configuration and the errors in a file.

use duolog::config::{Finding, PriceSetting, Setting, Source, Value, WorkflowSetting};
use duolog::schedules::{BaseSchedule, CatchUp};
use duolog::{Money, Rates};
use schemars::JsonSchema;
use serde::Serialize;

use crate::schema::words;
use crate::{Json, Usd};

/// The effective configuration.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ConfigShown {
    /// The file.
    pub path: String,
    /// False if the file does not exist.
    pub exists: bool,
    /// Every setting.
    pub settings: Vec<ConfigSetting>,
    /// The prices in the file; built-in prices are not listed.
    pub prices: Vec<ConfigPrice>,
    /// The schedules of the file.
    pub schedules: Vec<ConfigSchedule>,
    /// The workflows of the file.
    pub workflows: Vec<ConfigWorkflow>,
}

/// The template of a configuration file.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ConfigTemplate {
    /// The file that was written; null if the template was only printed.
    pub path: Option<String>,
    /// The template: every key with its default or an example, as comments.
    pub template: String,
}

/// A setting.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ConfigSetting {
    /// Key.
    pub key: String,
    /// Value: a number or a string.
    pub value: Json,
    /// Source of the value.
    #[schemars(extend("enum" = ["default", "file", "environment", "flag"]))]
    pub source: &'static str,
    /// Line in the file; null if the value is not from the file.
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
    /// Price per million tokens, by configuration key.
    pub usd_per_million_tokens: ConfigRates,
    /// Line in the file.
    pub line: u64,
}

/// Price per million tokens.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ConfigRates {
    /// Input tokens.
    pub input: Usd,
    /// Output tokens.
    pub output: Usd,
    /// Input tokens read from a cache.
    pub cache_read: Usd,
    /// Input tokens written to a 5-minute cache.
    pub cache_write_5m: Usd,
    /// Input tokens written to a 1-hour cache.
    pub cache_write_1h: Usd,
}

impl From<&PriceSetting> for ConfigPrice {
    fn from(set: &PriceSetting) -> Self {
        // One picodollar per token is one microdollar per million tokens.
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
    /// Name.
    pub name: String,
    /// Cron expression.
    pub cron: String,
    /// The time zone of the cron expression.
    pub zone: String,
    /// The workflow to start.
    pub workflow_name: Option<String>,
    /// Context of the run.
    pub context: Option<Json>,
    /// True if the schedule is enabled.
    pub enabled: bool,
    /// Policy for missed times.
    #[schemars(extend("enum" = words(CatchUp::ALL, CatchUp::as_str)))]
    pub catch_up: &'static str,
    /// Description.
    pub description: Option<String>,
    /// Line in the file.
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
    /// Name.
    pub name: String,
    /// True if the workflow is enabled.
    pub enabled: bool,
    /// Description.
    pub description: Option<String>,
    /// Line in the file.
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

/// The result of a configuration check.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ConfigCheck {
    /// The file.
    pub path: String,
    /// False if the file does not exist.
    pub exists: bool,
    /// True if there are no findings.
    pub valid: bool,
    /// Errors in the configuration.
    pub findings: Vec<ConfigFinding>,
    /// Warnings, which do not make the configuration invalid.
    pub warnings: Vec<String>,
}

/// An error in a configuration.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ConfigFinding {
    /// Line in the file; null for the environment and flags.
    pub line: Option<u64>,
    /// Key, environment variable or flag.
    pub key: Option<String>,
    /// Error message.
    pub message: String,
    /// Hint.
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

//! Token usage and cost.

use duolog::Money;
use duolog::usage::{self, UsageLine, UsageReport};
use schemars::JsonSchema;
use serde::Serialize;

use crate::page::{Listed, Page};
use crate::{Completeness, Usd};

/// Usage.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct UsageTotals {
    /// Responses of models.
    pub responses: u64,
    /// Input tokens, without cache reads and writes.
    pub input_tokens: u64,
    /// Output tokens, including reasoning tokens.
    pub output_tokens: u64,
    /// Input tokens read from a cache.
    pub cache_read_input_tokens: u64,
    /// Input tokens written to a 5-minute cache.
    pub cache_creation_5m_input_tokens: u64,
    /// Input tokens written to a 1-hour cache.
    pub cache_creation_1h_input_tokens: u64,
    /// Reasoning tokens.
    pub reasoning_tokens: u64,
    /// Total tokens.
    pub tokens: u64,
    /// Cost stated in the logs, or else computed from the effective prices; null if nothing has a price.
    pub cost_usd: Option<Usd>,
    /// Models without a price, whose tokens are not in the cost; null for tokens without a model.
    pub unpriced_models: Vec<Option<String>>,
}

impl From<&usage::UsageTotal> for UsageTotals {
    fn from(used: &usage::UsageTotal) -> Self {
        let usage::UsageTotal { responses, tokens, cost, unpriced } = used;
        Self {
            responses: *responses,
            input_tokens: tokens.input,
            output_tokens: tokens.output,
            cache_read_input_tokens: tokens.cache_read,
            cache_creation_5m_input_tokens: tokens.cache_write_5m,
            cache_creation_1h_input_tokens: tokens.cache_write_1h,
            reasoning_tokens: tokens.reasoning,
            tokens: tokens.total(),
            cost_usd: cost.or_else(|| unpriced.is_empty().then_some(Money::ZERO)).map(Usd),
            unpriced_models: unpriced.clone(),
        }
    }
}

/// A page of a report, and the totals of all pages.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "{T}List")]
pub struct UsageList<T: Listed> {
    /// The lines.
    #[serde(flatten)]
    pub page: Page<T>,
    /// Totals of all pages.
    pub totals: UsageTotals,
    /// Completeness of the report.
    #[serde(flatten)]
    pub completeness: Completeness,
}

impl<T: Listed + for<'a> From<&'a UsageLine>> From<&UsageReport> for UsageList<T> {
    fn from(report: &UsageReport) -> Self {
        Self {
            page: Page::of(&report.lines, report.next.as_ref()),
            totals: (&report.total).into(),
            completeness: (&report.behind).into(),
        }
    }
}

/// The usage of a day.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct UsageByDay {
    /// Day in the time zone of the report; null for usage without a timestamp.
    pub day: Option<String>,
    /// Usage.
    #[serde(flatten)]
    pub used: UsageTotals,
}

impl Listed for UsageByDay {
    const PLURAL: &'static str = "days";
}

impl From<&UsageLine> for UsageByDay {
    fn from(line: &UsageLine) -> Self {
        Self { day: line.key.clone(), used: (&line.used).into() }
    }
}

/// The usage of a session.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct UsageBySession {
    /// The session; null for executions without one.
    pub session_id: Option<String>,
    /// The name of the session.
    pub session_name: Option<String>,
    /// Usage.
    #[serde(flatten)]
    pub used: UsageTotals,
}

impl Listed for UsageBySession {
    const PLURAL: &'static str = "sessions";
}

impl From<&UsageLine> for UsageBySession {
    fn from(line: &UsageLine) -> Self {
        Self { session_id: line.key.clone(), session_name: line.name.clone(), used: (&line.used).into() }
    }
}

/// The usage of a model.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct UsageByModel {
    /// Model; null if the log has none.
    pub model: Option<String>,
    /// Usage.
    #[serde(flatten)]
    pub used: UsageTotals,
}

impl Listed for UsageByModel {
    const PLURAL: &'static str = "models";
}

impl From<&UsageLine> for UsageByModel {
    fn from(line: &UsageLine) -> Self {
        Self { model: line.key.clone(), used: (&line.used).into() }
    }
}

/// The usage of a workflow.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct UsageByWorkflow {
    /// Workflow; null for sessions without a workflow, playbook or agent.
    pub workflow_name: Option<String>,
    /// Usage.
    #[serde(flatten)]
    pub used: UsageTotals,
}

impl Listed for UsageByWorkflow {
    const PLURAL: &'static str = "workflows";
}

impl From<&UsageLine> for UsageByWorkflow {
    fn from(line: &UsageLine) -> Self {
        Self { workflow_name: line.key.clone(), used: (&line.used).into() }
    }
}

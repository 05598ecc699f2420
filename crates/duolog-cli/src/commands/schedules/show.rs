//! `duolog schedules show`, and how a schedule is shown.

use clap::Args;
use duolog::schedules::{InForce, Schedule, as_configured, find_base};
use duolog::{Clock as _, SystemClock};
use serde::Serialize;

use super::{Context, JsonText, RunShape, tone};
use crate::failure::{Ended, Failure, Outcome};
use crate::figures;
use crate::out::{Text, Tone};

const AFTER: &str = "\
Examples:
  duolog schedules show nightly
  duolog schedules show nightly --json | jq -r '.schedule.next[].local'

JSON:
  {\"schedule\": {\"name\", \"description\", \"workflow\", \"context\": {…}|null, \"catch_up\", \"line\",
                \"enabled\": {\"value\": true|false, \"from\"}, \"cron\": {\"value\", \"from\"},
                \"zone\": {\"value\", \"from\"}, \"updated_at\", \"updated_by\",
                \"next\": [{\"at\": instant, \"local\": time}], \"problem\": text|null,
                \"failures\": 0, \"latest\": {… as schedules runs …}|null}}
  from is \"base\", the configuration, or \"override\", what was said over it at updated_at";

/// Show a schedule: what is in force and why, and its next times
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Show {
    /// Which
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Serialize)]
struct Answer<'a> {
    schedule: Shape<'a>,
}

#[derive(Serialize)]
struct Shape<'a> {
    name: &'a str,
    description: Option<&'a str>,
    workflow: Option<&'a str>,
    context: Option<JsonText<'a>>,
    catch_up: &'static str,
    line: usize,
    enabled: Value<bool>,
    cron: Value<&'a str>,
    zone: Value<&'a str>,
    updated_at: Option<String>,
    updated_by: Option<&'a str>,
    next: Vec<Time<'a>>,
    problem: Option<&'a str>,
    failures: u32,
    latest: Option<RunShape>,
}

#[derive(Serialize)]
struct Value<T> {
    value: T,
    from: &'static str,
}

#[derive(Serialize)]
struct Time<'a> {
    at: String,
    local: &'a str,
}

impl Show {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        let now = SystemClock.now();
        let schedule = match context.open_if_there()? {
            Some(store) => store.schedules().get(&self.name, now)?,
            None => as_configured(find_base(context.config()?.schedules(), &self.name)?, now),
        };
        answer(context, &schedule)?;
        Ok(Ended::Done)
    }
}

/// Shows a schedule as it is in force.
pub(super) fn answer(context: &mut Context<'_>, schedule: &Schedule) -> Result<(), Failure> {
    context.out.answer(&Answer { schedule: shape(schedule) }, |text| draw(text, schedule))
}

fn shape(schedule: &Schedule) -> Shape<'_> {
    let base = &schedule.base;
    let text = |value: &InForce<String>| value.from.as_str();
    Shape {
        name: &base.name,
        description: base.description.as_deref(),
        workflow: base.workflow.as_deref(),
        context: base.context.as_deref().map(JsonText),
        catch_up: base.catch_up.as_str(),
        line: base.line,
        enabled: Value { value: schedule.enabled.value, from: schedule.enabled.from.as_str() },
        cron: Value { value: &schedule.cron.value, from: text(&schedule.cron) },
        zone: Value { value: &schedule.zone.value, from: text(&schedule.zone) },
        updated_at: schedule.overridden.as_ref().map(|(at, _)| at.to_string()),
        updated_by: schedule.overridden.as_ref().and_then(|(_, by)| by.as_deref()),
        next: schedule.next.iter().map(|time| Time { at: time.at.to_string(), local: &time.local }).collect(),
        problem: schedule.problem.as_deref(),
        failures: schedule.failures,
        latest: schedule.latest.as_ref().map(RunShape::from),
    }
}

fn draw(text: &mut Text, schedule: &Schedule) {
    let (base, now) = (&schedule.base, SystemClock.now());
    let why = |from: duolog::schedules::Origin| format!("  ({})", from.as_str());
    text.field("name", text.tone(Tone::Strong, &base.name));
    for (label, value) in [("what for", &base.description), ("workflow", &base.workflow), ("context", &base.context)] {
        if let Some(value) = value {
            text.field(label, value);
        }
    }
    let enabled = if schedule.enabled.value { "yes" } else { "no" };
    text.field("enabled", format_args!("{enabled}{}", why(schedule.enabled.from)));
    text.field("cron", format_args!("{}{}", schedule.cron.value, why(schedule.cron.from)));
    text.field("zone", format_args!("{}{}", schedule.zone.value, why(schedule.zone.from)));
    text.field("catch up", base.catch_up.as_str());
    if let Some((at, by)) = &schedule.overridden {
        let by = by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
        text.field("overridden", format_args!("{at}{by}  ({})", figures::age(*at, now)));
    }
    if let Some(problem) = &schedule.problem {
        text.field("wrong", text.tone(Tone::Bad, problem));
    }
    if let Some(run) = &schedule.latest {
        let standing = text.tone(tone(run.standing), run.standing.as_str());
        let told = run.error.as_ref().or(run.detail.as_ref()).map(|told| format!(": {told}")).unwrap_or_default();
        text.field("latest", format_args!("{} {standing}{told}", run.due_at));
    }
    if schedule.failures > 0 {
        let failures = figures::things(u64::from(schedule.failures), "firing");
        text.field("failures", text.tone(Tone::Bad, &format!("{failures} one after another")));
    }
    for (at, time) in schedule.next.iter().enumerate() {
        text.field(if at == 0 { "next" } else { "" }, &time.local);
    }
}

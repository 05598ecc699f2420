//! `duolog schedules show`, and the view of a schedule that other commands print.

use clap::Args;
use duolog::schedules::{Schedule, as_configured, find_base};
use duolog::{Clock as _, SystemClock};
use duolog_wire as wire;

use super::{Context, tone};
use crate::failure::{CommandResult, Ended, Failure};
use crate::figures;
use crate::out::{Text, Tone};

const AFTER: &str = "\
Examples:
  duolog schedules show nightly
  duolog schedules show nightly --json | jq -r '.schedule.next_times[].due_local'

JSON:
  {\"schedule\": {\"name\", \"description\", \"workflow_name\", \"context\": {…}|null, \"catch_up\", \"line\",
                \"enabled\": true|false, \"enabled_source\", \"cron\", \"cron_source\", \"zone\",
                \"zone_source\", \"updated_at\", \"updated_by\", \"next_times\": [{\"due_at\": instant, \"due_local\": time}],
                \"problem\": text|null, \"consecutive_failures\": 0,
                \"latest_run\": {… as schedules runs …}|null}}
  a source is \"config\" (the configuration) or \"override\" (set at updated_at)";

/// Show a schedule and its next times
///
/// Each value in force is shown with its source: the configuration or an override.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct Show {
    /// Schedule name
    #[arg(value_name = "NAME")]
    name: String,
}

impl Show {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let now = SystemClock.now();
        let schedule = match context.open_if_there()? {
            Some(store) => store.schedules().get(&self.name, now)?,
            None => as_configured(find_base(context.config()?.schedules(), &self.name)?, now),
        };
        answer(context, &schedule)?;
        Ok(Ended::Done)
    }
}

/// Prints a schedule with the values in force.
pub(super) fn answer(context: &mut Context<'_>, schedule: &Schedule) -> Result<(), Failure> {
    context.out.answer(&wire::ScheduleAnswer::from(schedule), |text| draw(text, schedule))
}

fn draw(text: &mut Text, schedule: &Schedule) {
    let (base, now) = (&schedule.base, SystemClock.now());
    let why = |from: duolog::schedules::Origin| format!("  ({})", from.as_str());
    text.field("name", text.tone(Tone::Strong, &base.name));
    for (label, value) in [("description", &base.description), ("workflow", &base.workflow), ("context", &base.context)]
    {
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
        text.field("problem", text.tone(Tone::Bad, problem));
    }
    if let Some(run) = &schedule.latest {
        let standing = text.tone(tone(run.standing), run.standing.as_str());
        let detail = run.error.as_ref().or(run.detail.as_ref()).map(|detail| format!(": {detail}")).unwrap_or_default();
        text.field("latest", format_args!("{} {standing}{detail}", run.due_at));
    }
    if schedule.failures > 0 {
        let failures = figures::things(u64::from(schedule.failures), "firing");
        text.field("failures", text.tone(Tone::Bad, &format!("{failures} in a row")));
    }
    for (at, time) in schedule.next.iter().enumerate() {
        text.field(if at == 0 { "next" } else { "" }, &time.local);
    }
}

//! `duolog schedules list`.

use clap::Args;
use duolog::schedules::{Origin, ScheduleList, as_configured};
use duolog::{Clock as _, SystemClock, Timestamp};
use duolog_wire as wire;

use super::{Context, tone};
use crate::failure::{CommandResult, Ended};
use crate::figures;
use crate::out::{Column, Table, Tone};

const AFTER: &str = "\
Examples:
  duolog schedules list
  duolog schedules list --json | jq -r '.schedules[] | select(.consecutive_failures > 0) | .name'

JSON:
  {\"schedules\": [{\"name\", \"enabled\", \"cron\", \"zone\", \"workflow_name\", \"overridden\": true|false,
                  \"next_due_at\": instant|null, \"next_due_local\": time|null, \"problem\": text|null,
                  \"consecutive_failures\": 0, \"latest_run\": {… as schedules runs …}|null}],
   \"next\": null, \"unknown_overrides\": [name]}
  unknown_overrides are names that have an override but are not in this configuration";

/// List the schedules of the configuration
///
/// The values in force are shown. A value that comes from an override is marked with *.
#[derive(Args)]
#[command(after_help = AFTER)]
pub struct List {}

impl List {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let Self {} = self;
        let now = SystemClock.now();
        let list = if let Some(store) = context.open_if_there()? {
            store.schedules().list(now)?
        } else {
            // Without a store there are no overrides.
            let schedules = context.config()?.schedules().iter().map(|base| as_configured(base, now));
            ScheduleList { schedules: schedules.collect(), elsewhere: Vec::new() }
        };
        context.out.answer(&wire::ScheduleList::from(&list), |text| {
            if !list.schedules.is_empty() {
                text.table(&table(&list, now));
            }
        })?;
        if list.schedules.is_empty() {
            context.out.note("the configuration has no schedules; duolog config show --help shows how to write one");
        }
        for (name, problem) in list.schedules.iter().filter_map(|one| Some((&one.base.name, one.problem.as_ref()?))) {
            context.out.warn(format_args!("schedule {name} cannot fire: {problem}"));
        }
        for name in &list.elsewhere {
            context.out.note(format_args!("schedule {name} has an override but is not in this configuration"));
        }
        Ok(Ended::Done)
    }
}

fn table(list: &ScheduleList, now: Timestamp) -> Table {
    let mut table = Table::new(&[
        (Column::Word, "NAME"),
        (Column::Word, "CRON"),
        (Column::Word, "ZONE"),
        (Column::Text, "WORKFLOW_NAME"),
        (Column::Word, "NEXT_DUE_LOCAL"),
        (Column::Word, "LATEST_RUN"),
        (Column::Figure, "CONSECUTIVE_FAILURES"),
        (Column::Word, "STARTED_AT"),
    ])
    .dropping(&["STARTED_AT", "CONSECUTIVE_FAILURES", "WORKFLOW_NAME", "ZONE", "LATEST_RUN", "CRON"]);
    for schedule in &list.schedules {
        // A value from an override is marked.
        let marked = |text: &str, from| format!("{text}{}", if from == Origin::Override { "*" } else { "" });
        let next = match schedule.next.first() {
            Some(time) => time.local.clone(),
            None if schedule.problem.is_some() => "never: invalid".to_owned(),
            None => marked("disabled", schedule.enabled.from),
        };
        let latest = schedule.latest.as_ref();
        table.row(vec![
            schedule.base.name.clone(),
            marked(&schedule.cron.value, schedule.cron.from),
            marked(&schedule.zone.value, schedule.zone.from),
            schedule.base.workflow.clone().unwrap_or_default(),
            next,
            latest.map(|run| run.standing.to_string()).unwrap_or_default(),
            if schedule.failures == 0 { String::new() } else { schedule.failures.to_string() },
            latest.map(|run| figures::age(run.started_at, now)).unwrap_or_default(),
        ]);
        if schedule.next.is_empty() {
            table.tone(4, if schedule.problem.is_some() { Tone::Bad } else { Tone::Faint });
        }
        if let Some(run) = latest {
            table.tone(5, tone(run.standing));
        }
        if schedule.failures > 0 {
            table.tone(6, Tone::Bad);
        }
    }
    ["WORKFLOW_NAME", "LATEST_RUN", "CONSECUTIVE_FAILURES", "STARTED_AT"].into_iter().fold(table, Table::without_empty)
}

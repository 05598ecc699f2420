//! Roll-ups of executions by day and by hour in any time zone: sums over quarter hours, including empty intervals.

use duolog_log::dialect::money::Money;
use duolog_state::owned::execution_rollups::{self as table, RollupRow};
use duolog_types::Timestamp;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp as JiffTimestamp, Zoned};

use super::Runs;
use super::model::{Rollup, RollupInterval, RollupQuery};
use crate::error::{Error, Invalid, Result};

/// The maximum number of days.
const DAYS_MAX: u32 = 366;
/// The maximum number of hours.
const HOURS_MAX: u32 = 744;

impl Runs {
    /// Returns the executions of the last days or hours, including the current one, oldest first. Empty intervals are
    /// included.
    pub fn rollups(&self, query: &RollupQuery) -> Result<Vec<Rollup>> {
        let join = &self.store.join;
        let zone = zone(query.zone.as_deref())?;
        let now = timestamp(join.clock().now())?.to_zoned(zone);
        let starts = starts(&now, query.every, query.last)?;
        let end = match query.every {
            RollupInterval::Day => next_day(&now)?,
            RollupInterval::Hour => {
                hour_of(&now)?.checked_add(Span::new().hours(1)).map_err(|error| out_of_range(&error))?
            }
        };
        let mut rollups: Vec<Rollup> =
            starts.iter().map(|at| Rollup { label: label(at, query.every), ..Rollup::default() }).collect();
        let bounds: Vec<Timestamp> = starts.iter().map(moment).collect();
        let Some(first) = bounds.first().copied() else { return Ok(rollups) };
        join.state().read(|tx| {
            table::between(tx, first, moment(&end), query.workflow.as_deref(), &mut |bucket, row| {
                let at = bounds.partition_point(|start| *start <= bucket);
                if let Some(rollup) = at.checked_sub(1).and_then(|at| rollups.get_mut(at)) {
                    add(rollup, &row);
                }
            })
        })?;
        Ok(rollups)
    }
}

fn zone(name: Option<&str>) -> Result<TimeZone> {
    let Some(name) = name else { return Ok(TimeZone::UTC) };
    let unknown = |_| {
        Error::Invalid(Invalid::Value { what: "zone", why: format!("{name:?} is unknown; example: Europe/Berlin") })
    };
    TimeZone::get(name).map_err(unknown)
}

fn out_of_range(error: &jiff::Error) -> Error {
    Error::Invalid(Invalid::Value { what: "time", why: format!("is out of range: {error}") })
}

fn timestamp(at: Timestamp) -> Result<JiffTimestamp> {
    JiffTimestamp::from_microsecond(at.as_micros()).map_err(|error| out_of_range(&error))
}

fn moment(at: &Zoned) -> Timestamp {
    Timestamp::from_micros(at.timestamp().as_microsecond())
}

fn hour_of(at: &Zoned) -> Result<Zoned> {
    let into = i64::from(at.minute()) * 60 + i64::from(at.second());
    let span = Span::new().seconds(into).nanoseconds(i64::from(at.subsec_nanosecond()));
    at.checked_sub(span).map_err(|error| out_of_range(&error))
}

fn next_day(at: &Zoned) -> Result<Zoned> {
    let day = at.tomorrow().and_then(|day| day.start_of_day());
    day.map_err(|error| out_of_range(&error))
}

/// Returns the starts of the intervals, oldest first. Days are those of the time zone, of any length; hours all have
/// the same length.
fn starts(now: &Zoned, every: RollupInterval, last: u32) -> Result<Vec<Zoned>> {
    let mut starts = Vec::new();
    match every {
        RollupInterval::Day => {
            for back in (0..i64::from(last.clamp(1, DAYS_MAX))).rev() {
                let day = now.checked_sub(Span::new().days(back)).and_then(|day| day.start_of_day());
                starts.push(day.map_err(|error| out_of_range(&error))?);
            }
        }
        RollupInterval::Hour => {
            let hour = hour_of(now)?;
            for back in (0..i64::from(last.clamp(1, HOURS_MAX))).rev() {
                starts.push(hour.checked_sub(Span::new().hours(back)).map_err(|error| out_of_range(&error))?);
            }
        }
    }
    Ok(starts)
}

fn label(at: &Zoned, every: RollupInterval) -> String {
    match every {
        RollupInterval::Day => at.date().to_string(),
        RollupInterval::Hour => format!("{}T{:02}:{:02}", at.date(), at.hour(), at.minute()),
    }
}

fn add(rollup: &mut Rollup, row: &RollupRow) {
    let ended = row.succeeded + row.failed + row.skipped + row.deferred;
    rollup.started += row.started;
    rollup.succeeded += row.succeeded;
    rollup.failed += row.failed;
    rollup.skipped += row.skipped;
    rollup.deferred += row.deferred;
    rollup.in_flight += row.started.saturating_sub(ended);
    rollup.turns += row.turns;
    rollup.duration_ms += row.duration_ms;
    rollup.cost += Money::from_picos(row.cost_picos.into());
    rollup.input_tokens += row.input_tokens;
    rollup.cache_creation_input_tokens += row.cache_creation_input_tokens;
    rollup.cache_read_input_tokens += row.cache_read_input_tokens;
    rollup.output_tokens += row.output_tokens;
}

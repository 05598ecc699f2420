//! Pure decisions: days of a time zone as timestamps in UTC.

use duolog_types::Timestamp;
use jiff::Timestamp as JiffTimestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::model::Day;
use crate::error::{Error, Invalid, Result};

/// The time zone of a report.
pub(super) struct Zone(TimeZone);

/// A day and its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DayOf {
    /// The day in the time zone; empty for usage without a timestamp.
    pub(super) day: String,
    /// Its start in UTC; empty for usage without a timestamp.
    pub(super) start: String,
}

impl Zone {
    /// Finds a time zone by its name [default: UTC].
    pub(super) fn find(name: Option<&str>) -> Result<Self> {
        let Some(name) = name else { return Ok(Self(TimeZone::UTC)) };
        let unknown = |_| {
            let why = format!("{:?} is unknown; example: Europe/Berlin", name.chars().take(80).collect::<String>());
            Error::Invalid(Invalid::Value { what: "zone", why })
        };
        TimeZone::get(name).map(Self).map_err(unknown)
    }

    /// Returns the timestamp at which a day begins.
    pub(super) fn start_of(&self, day: &Day) -> Result<String> {
        self.start(date(day)?)
    }

    /// Returns the timestamp at which the next day begins.
    pub(super) fn end_of(&self, day: &Day) -> Result<String> {
        self.start(date(day)?.tomorrow().map_err(|error| out_of_range(&error))?)
    }

    /// Returns the day of a quarter hour.
    pub(super) fn day_of(&self, quarter: &str) -> Result<DayOf> {
        let Ok(at) = quarter.parse::<Timestamp>() else {
            return Ok(DayOf { day: String::new(), start: String::new() });
        };
        let at = JiffTimestamp::from_microsecond(at.as_micros()).map_err(|error| out_of_range(&error))?;
        let date = at.to_zoned(self.0.clone()).date();
        Ok(DayOf { day: date.to_string(), start: self.start(date)? })
    }

    fn start(&self, date: Date) -> Result<String> {
        let start = date.to_zoned(self.0.clone()).map_err(|error| out_of_range(&error))?;
        Ok(Timestamp::from_micros(start.timestamp().as_microsecond()).to_string())
    }
}

fn date(day: &Day) -> Result<Date> {
    day.as_str().parse().map_err(|error| out_of_range(&error))
}

fn out_of_range(error: &jiff::Error) -> Error {
    Error::Invalid(Invalid::Value { what: "day", why: format!("is out of range: {error}") })
}

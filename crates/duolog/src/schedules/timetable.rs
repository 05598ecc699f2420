//! The times of a schedule: a cron expression in a time zone, including clock changes.
//!
//! If the hours are restricted (`0 2 * * *`, `*/10 8-18 * * *`), the expression is for local times: a time that is
//! skipped when clocks are put forward fires once, at the first moment after the gap, and a time that occurs twice
//! fires the first time only. If the hours begin with `*`, it is an interval (`*/15 * * * *`): skipped times do not
//! fire, and times that occur twice fire twice.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use duolog_types::Timestamp;
use duolog_types::limits::{NAME_BYTES_MAX, WORD_BYTES_MAX};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp as JiffTimestamp, Zoned};

/// The forms of an expression, for messages.
pub(crate) const CRON_FORM: &str =
    "minute hour day month weekday, like \"30 3 * * MON-FRI\"; seconds may stand before; or @daily";
/// The forms of a time zone, for messages.
pub(crate) const ZONE_FORM: &str = "a name like \"Europe/Berlin\", or \"UTC\"";
/// The fields in order, with the values of which lists, ranges and steps may be given.
const FIELDS: [(&str, &str); 6] = [
    ("second", "0-59"),
    ("minute", "0-59"),
    ("hour", "0-23"),
    ("day of the month", "1-31"),
    ("month", "1-12 or JAN-DEC"),
    ("weekday", "0-7 or SUN-SAT"),
];
/// The most by which a clock is put back: a local time that is further ahead is also later in time.
const PUT_BACK_MAX: SignedDuration = SignedDuration::from_hours(3);
/// The number of times after which a search stops. A period that occurs twice has fewer.
const SEARCH_MAX: usize = 20_000;

/// The times of a schedule.
#[derive(Clone, Debug)]
pub struct Timetable {
    cron: Cron,
    zone: TimeZone,
    is_rhythm: bool,
}

/// An expression or a time zone that is not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadTimetable {
    /// The key in the configuration.
    pub(crate) key: &'static str,
    /// The reason, as the end of a sentence.
    pub(crate) why: String,
}

impl Timetable {
    /// Parses an expression and its time zone.
    pub(crate) fn parse(cron: &str, zone: &str) -> Result<Self, BadTimetable> {
        let timetable = Self { cron: expression(cron)?, zone: find_zone(zone)?, is_rhythm: is_rhythm(cron) };
        if timetable.next(Timestamp::from_micros(0)).is_none() {
            let why = format!("is {cron:?}, and no such day exists; expected {CRON_FORM}");
            return Err(BadTimetable { key: "cron", why });
        }
        Ok(timetable)
    }

    /// Checks an expression and its time zone without loading the zone from disk: that takes longer than everything
    /// else in a short command, and most commands only read the configuration.
    pub(crate) fn check(cron: &str, zone: &str) -> Result<(), BadTimetable> {
        Self::parse(cron, "UTC")?;
        if TimeZoneDatabase::bundled().get(zone).is_err() {
            find_zone(zone)?;
        }
        Ok(())
    }

    /// Returns the first time after a timestamp.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let after = whole_second(after);
        if self.is_rhythm {
            let found = self.cron.find_next_occurrence(&after.to_zoned(self.zone.clone()), false).ok()?;
            return Some(moment(&found.timestamp()));
        }
        let mut civil = self.zone.to_datetime(after);
        let mut is_inclusive = true;
        for _ in 0..SEARCH_MAX {
            civil = self.cron.find_next_occurrence(&civil, is_inclusive).ok()?;
            is_inclusive = false;
            let at = self.instant(civil)?;
            if at > after {
                return Some(moment(&at));
            }
        }
        None
    }

    /// Returns the last time up to a timestamp.
    pub fn latest(&self, until: Timestamp) -> Option<Timestamp> {
        let until = whole_second(until);
        if self.is_rhythm {
            let found = self.cron.find_previous_occurrence(&until.to_zoned(self.zone.clone()), true).ok()?;
            return in_range(found.timestamp());
        }
        let mut civil = self.zone.to_datetime(until).checked_add(PUT_BACK_MAX).ok()?;
        let mut is_inclusive = true;
        for _ in 0..SEARCH_MAX {
            civil = self.cron.find_previous_occurrence(&civil, is_inclusive).ok()?;
            is_inclusive = false;
            let at = self.instant(civil)?;
            if at <= until {
                return in_range(at);
            }
        }
        None
    }

    /// Returns the local time of a timestamp.
    pub fn on_the_wall(&self, at: Timestamp) -> String {
        let zoned = whole_second(at).to_zoned(self.zone.clone());
        zoned.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
    }

    /// Returns the timestamp of a local time.
    fn instant(&self, civil: DateTime) -> Option<JiffTimestamp> {
        let ambiguous = self.zone.to_ambiguous_zoned(civil);
        match ambiguous.offset() {
            AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => {
                ambiguous.earlier().ok().map(|zoned| zoned.timestamp())
            }
            AmbiguousOffset::Gap { .. } => {
                // As far after the gap as the time is in it, and so at its end or later.
                let after: Zoned = ambiguous.later().ok()?;
                let beyond = after.timestamp().checked_add(SignedDuration::from_secs(1)).ok()?;
                after.time_zone().preceding(beyond).next().map(|transition| transition.timestamp())
            }
        }
    }
}

/// Returns true if the hours begin with `*`: then the expression is an interval and not for local times.
fn is_rhythm(cron: &str) -> bool {
    let fields: Vec<&str> = cron.split_whitespace().collect();
    match fields.as_slice() {
        [nickname] => nickname.eq_ignore_ascii_case("@hourly"),
        [_, hour, _, _, _] | [_, _, hour, _, _, _] => hour.starts_with('*'),
        _ => false,
    }
}

fn parser() -> CronParser {
    CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build()
}

/// Parses an expression. The error names the field that is wrong.
fn expression(text: &str) -> Result<Cron, BadTimetable> {
    let wrong = |why: String| BadTimetable { key: "cron", why };
    let shown: String = text.chars().take(80).collect();
    if text.len() > NAME_BYTES_MAX || !text.is_ascii() {
        return Err(wrong(format!("is {shown:?}; expected {CRON_FORM}")));
    }
    let Err(error) = parser().parse(text) else { return parser().parse(text).map_err(|error| wrong(told(&error))) };
    let fields: Vec<&str> = text.split_whitespace().collect();
    let Some(first) = FIELDS.len().checked_sub(fields.len()).filter(|first| *first < 2) else {
        let count = fields.len();
        return Err(wrong(format!("is {shown:?}, which has {count} of 5 or 6 fields; expected {CRON_FORM}")));
    };
    // A field that is wrong by itself is the one to name.
    let alone = |at: usize| {
        let mut others = vec!["*"; fields.len()];
        others[at] = fields[at];
        parser().parse(&others.join(" "))
    };
    let culprit = (0..fields.len()).find_map(|at| alone(at).err().map(|error| (at, error)));
    let why = culprit.map_or_else(
        || told(&error),
        |(at, error)| {
            let (name, values) = FIELDS[first + at];
            format!("{name} {:?} is not one of {values} ({})", fields[at], told(&error))
        },
    );
    Err(wrong(format!("is {shown:?}, which is not valid: {why}; expected {CRON_FORM}")))
}

/// Returns the message of the parser without its prefix.
fn told(error: &croner::errors::CronError) -> String {
    use croner::errors::CronError::{ComponentError, IllegalCharacters, InvalidPattern};
    match error {
        ComponentError(text) | IllegalCharacters(text) | InvalidPattern(text) => text.trim_end_matches('.').to_owned(),
        other => other.to_string().trim_end_matches('.').to_owned(),
    }
}

fn find_zone(name: &str) -> Result<TimeZone, BadTimetable> {
    let unknown = || {
        let shown: String = name.chars().take(80).collect();
        let meant = nearest_zone(name).map(|meant| format!("; did you mean {meant:?}?")).unwrap_or_default();
        BadTimetable {
            key: "zone",
            why: format!("is {shown:?}, which is not a time zone; expected {ZONE_FORM}{meant}"),
        }
    };
    if name.is_empty() || name.len() > WORD_BYTES_MAX || !name.is_ascii() {
        return Err(unknown());
    }
    // The system's data is newer than the built-in data, which is the fallback.
    let zone = if name == "UTC" { Ok(TimeZone::UTC) } else { TimeZone::get(name) };
    zone.or_else(|_| TimeZoneDatabase::bundled().get(name)).map_err(|_| unknown())
}

/// Returns the most similar time zone.
fn nearest_zone(name: &str) -> Option<String> {
    let said = name.chars().take(WORD_BYTES_MAX).collect::<String>().to_ascii_lowercase();
    let known = jiff::tz::db().available().map(|zone| zone.to_string());
    let scored = known.filter_map(|zone| {
        let known = zone.to_ascii_lowercase();
        let city = known.rsplit('/').next().unwrap_or(&known);
        let near = if said == city { Some(0) } else { crate::config::near(&said, &known) };
        near.map(|wrong| (wrong, zone))
    });
    scored.min().map(|(_, zone)| zone)
}

/// Returns the second of a timestamp: times have no fractions.
fn whole_second(at: Timestamp) -> JiffTimestamp {
    JiffTimestamp::from_second(at.as_micros().div_euclid(1_000_000)).unwrap_or(JiffTimestamp::UNIX_EPOCH)
}

fn moment(at: &JiffTimestamp) -> Timestamp {
    Timestamp::from_micros(at.as_microsecond())
}

/// Returns the timestamp, if it is within the supported range.
fn in_range(at: JiffTimestamp) -> Option<Timestamp> {
    (at >= JiffTimestamp::UNIX_EPOCH).then(|| moment(&at))
}

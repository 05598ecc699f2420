//! Instants as every store writes them.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;

use crate::text::serde_as_text;

/// An instant in UTC with microseconds, written at a fixed width so that text order is time order.
///
/// It tells people when something happened; order comes from positions and ordinals, never from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Timestamp);

impl Moment {
    /// The instant that many microseconds after 1970; out of range, the nearest that can be written.
    pub fn from_micros(micros: i64) -> Self {
        let clamped = micros.clamp(0, 253_402_207_199_999_999);
        Self(Timestamp::from_microsecond(clamped).unwrap_or(Timestamp::UNIX_EPOCH))
    }

    /// Microseconds since 1970.
    pub fn as_micros(self) -> i64 {
        self.0.as_microsecond()
    }
}

/// The text of every instant is like this. Each row has several, so what is just so is read and written without the
/// library, which reads and writes much more.
const PATTERN: &[u8; 27] = b"0000-00-00T00:00:00.000000Z";
const DAY: i64 = 24 * 60 * 60 * 1_000_000;

/// The days from 1970-01-01 to a day of the calendar. A year begins in March, so that a leap day is its last.
fn days_to(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = (153 * month + 2) / 5 + day - 1;
    365 * year + year / 4 - year / 100 + year / 400 + days - 719_468
}

/// The day of the calendar that comes so many days after 1970-01-01.
fn day_after(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    // 400 years are always as long; within them the length of a year is known by its number.
    let (era, within) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (within - within / 1460 + within / 36_524 - within / 146_096) / 365;
    let of_year = within - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
    (era * 400 + year, month, day)
}

/// The microseconds of an instant in the usual form; nothing for any other text, be it an instant or not.
fn usual(text: &str) -> Option<i64> {
    let bytes: &[u8; 27] = text.as_bytes().try_into().ok()?;
    let fits = |(byte, pattern): (&u8, &u8)| if *pattern == b'0' { byte.is_ascii_digit() } else { byte == pattern };
    if !bytes.iter().zip(PATTERN).all(fits) {
        return None;
    }
    let number = |from: usize, to: usize| bytes[from..to].iter().fold(0, |sum, byte| sum * 10 + i64::from(byte - b'0'));
    let (year, month, day) = (number(0, 4), number(5, 7), number(8, 10));
    let (hour, minute, second) = (number(11, 13), number(14, 16), number(17, 19));
    let is_day = (1970..=9998).contains(&year) && day_after(days_to(year, month, day)) == (year, month, day);
    let seconds = (hour * 60 + minute) * 60 + second;
    (is_day && hour < 24 && minute < 60 && second < 60)
        .then(|| days_to(year, month, day) * DAY + seconds * 1_000_000 + number(20, 26))
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.as_micros();
        let (year, month, day) = day_after(micros.div_euclid(DAY));
        let within = micros.rem_euclid(DAY);
        let seconds = within / 1_000_000;
        let mut text = *PATTERN;
        let mut put = |from: usize, to: usize, number: i64| {
            let mut left = number;
            for digit in text[from..to].iter_mut().rev() {
                *digit += u8::try_from(left % 10).unwrap_or_default();
                left /= 10;
            }
        };
        put(0, 4, year);
        put(5, 7, month);
        put(8, 10, day);
        put(11, 13, seconds / 3600);
        put(14, 16, seconds / 60 % 60);
        put(17, 19, seconds % 60);
        put(20, 26, within % 1_000_000);
        f.write_str(str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

serde_as_text!(Moment);

/// The text is not an instant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an instant; one looks like 2026-01-31T09:30:00.000000Z")]
pub struct BadMoment(String);

impl FromStr for Moment {
    type Err = BadMoment;

    fn from_str(text: &str) -> Result<Self, BadMoment> {
        if let Some(micros) = usual(text) {
            return Ok(Self::from_micros(micros));
        }
        match text.parse::<Timestamp>() {
            Ok(at) if at.as_microsecond() >= 0 => Ok(Self::from_micros(at.as_microsecond())),
            _ => Err(BadMoment(text.chars().take(64).collect())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_order_is_time_order() {
        let texts: Vec<String> =
            [0, 1, 999_999, 1_000_000, 1_794_000_000_000_000].map(|us| Moment::from_micros(us).to_string()).into();
        assert_eq!(texts[0], "1970-01-01T00:00:00.000000Z");
        assert!(texts.windows(2).all(|pair| pair[0] < pair[1] && pair[0].len() == pair[1].len()), "{texts:?}");
        assert_eq!(texts[4].parse(), Ok(Moment::from_micros(1_794_000_000_000_000)));
    }

    /// What the library makes of the same.
    fn by_jiff(micros: i64) -> String {
        format!("{:.6}", Timestamp::from_microsecond(micros).expect("in range"))
    }

    #[test]
    fn every_day_is_written_and_read_as_the_library_does() {
        // From 1970 on, past the leap days of 2000 and 2100 and the end of 400 years, and each with another time of day.
        for day in (0..160_000).chain(2_900_000..2_932_500) {
            let micros = day * DAY + (day * 7_919_000_001) % DAY;
            let text = Moment::from_micros(micros).to_string();
            assert_eq!(text, by_jiff(micros));
            assert_eq!(text.parse(), Ok(Moment::from_micros(micros)));
            assert!(day > 2_932_400 || usual(&text) == Some(micros), "{text}");
        }
    }

    #[test]
    fn what_is_no_day_or_time_is_left_to_the_library() {
        for text in [
            "2026-02-29T00:00:00.000000Z",
            "2026-13-01T00:00:00.000000Z",
            "2026-00-10T00:00:00.000000Z",
            "2026-04-31T00:00:00.000000Z",
            "2026-01-00T00:00:00.000000Z",
            "2026-01-01T24:00:00.000000Z",
            "2026-01-01T00:60:00.000000Z",
            "2026-01-01T00:00:60.000000Z",
            "1969-12-31T23:59:59.999999Z",
            "2026-01-01 00:00:00.000000Z",
            "2026-01-01T00:00:00.000000z",
            "2026-01-01T00:00:00.00000Z",
        ] {
            assert_eq!(usual(text), None, "{text}");
        }
        assert_eq!("2026-01-31T10:30:00+01:00".parse(), "2026-01-31T09:30:00.000000Z".parse::<Moment>());
        assert!("2026-02-29T00:00:00.000000Z".parse::<Moment>().is_err());
    }

    #[test]
    fn no_number_panics() {
        for us in [i64::MIN, -1, i64::MAX] {
            assert_eq!(Moment::from_micros(us).to_string().len(), 27);
        }
    }
}

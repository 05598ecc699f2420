//! Timestamps.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp as JiffTimestamp;

use crate::serde_as_text;

/// A UTC timestamp with microseconds, written at a fixed width so that text order is time order.
///
/// It is informative: order comes from positions and ordinals, never from timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(JiffTimestamp);

impl Timestamp {
    /// Creates a timestamp from microseconds since 1970; a value out of range becomes the nearest valid one.
    pub fn from_micros(micros: i64) -> Self {
        let clamped = micros.clamp(0, 253_402_207_199_999_999);
        Self(JiffTimestamp::from_microsecond(clamped).unwrap_or(JiffTimestamp::UNIX_EPOCH))
    }

    /// Returns the microseconds since 1970.
    pub fn as_micros(self) -> i64 {
        self.0.as_microsecond()
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}", self.0)
    }
}

serde_as_text!(Timestamp);

/// The error of a text that is not a timestamp.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an instant; expected the form 2026-01-31T09:30:00.000000Z")]
pub struct BadMoment(String);

impl FromStr for Timestamp {
    type Err = BadMoment;

    fn from_str(text: &str) -> Result<Self, BadMoment> {
        match text.parse::<JiffTimestamp>() {
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
            [0, 1, 999_999, 1_000_000, 1_794_000_000_000_000].map(|us| Timestamp::from_micros(us).to_string()).into();
        assert_eq!(texts[0], "1970-01-01T00:00:00.000000Z");
        assert!(texts.windows(2).all(|pair| pair[0] < pair[1] && pair[0].len() == pair[1].len()), "{texts:?}");
        assert_eq!(texts[4].parse(), Ok(Timestamp::from_micros(1_794_000_000_000_000)));
    }

    #[test]
    fn an_offset_is_converted_and_an_impossible_day_is_an_error() {
        assert_eq!("2026-01-31T10:30:00+01:00".parse(), "2026-01-31T09:30:00.000000Z".parse::<Timestamp>());
        for text in ["2026-02-29T00:00:00.000000Z", "2026-01-01T24:00:00.000000Z", "1969-12-31T23:59:59.999999Z"] {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
    }

    #[test]
    fn no_number_panics() {
        for us in [i64::MIN, -1, i64::MAX] {
            assert_eq!(Timestamp::from_micros(us).to_string().len(), 27);
        }
    }
}

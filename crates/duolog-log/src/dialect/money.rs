//! Exact amounts of money: a sum of a million small prices has no rounding error.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An amount of US dollars in picodollars (10⁻¹²): the price of a token is an integer in this unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Money(u128);

const PICOS: u128 = 1_000_000_000_000;
const DECIMALS: i64 = 12;

impl Money {
    /// Zero dollars.
    pub const ZERO: Self = Self(0);

    /// Creates an amount from picodollars.
    pub const fn from_picos(picos: u128) -> Self {
        Self(picos)
    }

    /// Creates an amount from dollars.
    pub const fn from_dollars(dollars: u128) -> Self {
        Self(dollars.saturating_mul(PICOS))
    }

    /// Returns the amount in picodollars.
    pub const fn picos(self) -> u128 {
        self.0
    }

    /// Returns the amount in nanodollars, rounded half up.
    pub const fn nanos(self) -> u128 {
        self.0.saturating_add(500) / 1000
    }

    /// Returns the amount in cents, rounded half up.
    pub const fn cents(self) -> u128 {
        self.0.saturating_add(PICOS / 200) / (PICOS / 100)
    }

    /// Parses dollars as a JSON number (`0.13`, `1e-05`); `None` if it is not a non-negative number.
    ///
    /// Digits after the twelfth decimal are rounded half up: they come from binary fractions, not from prices.
    pub fn parse(number: &str) -> Option<Self> {
        let (mantissa, exponent) = match number.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
            None => (number, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
            return None;
        }
        // The decimal place after the last digit.
        let mut shift = DECIMALS.checked_add(exponent)?.checked_sub(i64::try_from(fraction.len()).ok()?)?;
        let mut picos: u128 = 0;
        let mut digits = whole.bytes().chain(fraction.bytes()).map(|b| u128::from(b - b'0')).collect::<Vec<_>>();
        while shift < 0 && !digits.is_empty() {
            let dropped = digits.pop().unwrap_or_default();
            shift += 1;
            if shift == 0 && dropped >= 5 {
                picos = 1;
            }
        }
        let mut kept: u128 = 0;
        for digit in digits {
            kept = kept.checked_mul(10)?.checked_add(digit)?;
        }
        if kept != 0 {
            kept = kept.checked_mul(10_u128.checked_pow(u32::try_from(shift.max(0)).ok()?)?)?;
        }
        picos = picos.checked_add(kept)?;
        Some(Self(picos))
    }

    /// Subtracts an amount; never below zero.
    #[must_use]
    pub const fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Returns the cost of `tokens` at `picos_each` picodollars.
    pub fn of(tokens: u64, picos_each: u64) -> Self {
        // The product of two 64-bit integers always fits.
        Self(u128::from(tokens) * u128::from(picos_each))
    }
}

impl std::ops::Add for Money {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl std::ops::AddAssign for Money {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Money {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::ZERO, std::ops::Add::add)
    }
}

/// Dollars, exact, as a JSON number.
impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (dollars, picos) = (self.0 / PICOS, self.0 % PICOS);
        if picos == 0 {
            return write!(f, "{dollars}");
        }
        let decimals = format!("{picos:012}");
        write!(f, "{dollars}.{}", decimals.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn amounts_are_parsed_exactly() {
        let cases = [
            ("0", "0"),
            ("0.13", "0.13"),
            ("12", "12"),
            ("1e-05", "0.00001"),
            ("1.5E2", "150"),
            ("0.0000000000004", "0"),
            ("0.0000000000005", "0.000000000001"),
            ("0.30000000000000004", "0.3"),
            ("0e999999", "0"),
            ("1e-400", "0"),
        ];
        for (text, shown) in cases {
            assert_eq!(Money::parse(text).map(|money| money.to_string()).as_deref(), Some(shown), "{text}");
        }
        for bad in ["", "-1", "x", ".5", "1e", "1e999", "NaN", "null", "\"1\"", "1.2.3"] {
            assert_eq!(Money::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_the_result_is_rounded() {
        let price = Money::of(3, 1_666_667);
        assert_eq!((price.picos(), price.nanos(), price.cents()), (5_000_001, 5000, 0));
        assert_eq!(Money::parse("0.125").map(Money::cents), Some(13));
    }

    proptest! {
        #[test]
        fn displayed_amounts_parse_back(picos in any::<u64>()) {
            let money = Money::from_picos(u128::from(picos));
            prop_assert_eq!(Money::parse(&money.to_string()), Some(money));
        }

        #[test]
        fn no_text_panics(text in "[0-9eE.+-]{0,40}|\\PC*") {
            let _ = Money::parse(&text);
        }
    }
}

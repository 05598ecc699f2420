//! Text that fits the row it is for (I2).

use std::fmt;

/// The text is too long for its row.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is {bytes} bytes, and a row takes {max}: {belongs}")]
pub struct TooLong {
    /// What was too long.
    pub what: &'static str,
    /// How long it was.
    pub bytes: usize,
    /// How long it may be.
    pub max: usize,
    /// Where such text belongs.
    pub belongs: &'static str,
}

/// UTF-8 text of at most `MAX` bytes. The SQL column repeats the bound as a `CHECK`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bounded<const MAX: usize>(Box<str>);

impl<const MAX: usize> Bounded<MAX> {
    /// Checks the length and takes the text. `what` names the field in the error.
    pub fn new(what: &'static str, text: &str) -> Result<Self, TooLong> {
        if text.len() > MAX {
            let belongs = "text that can grow belongs in the session's log (duolog log append)";
            return Err(TooLong { what, bytes: text.len(), max: MAX, belongs });
        }
        Ok(Self(text.into()))
    }

    /// The text itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<const MAX: usize> fmt::Debug for Bounded<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<const MAX: usize> fmt::Display for Bounded<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_in_bytes_and_the_error_says_where_the_text_belongs() {
        assert!(Bounded::<4>::new("title", "abcd").is_ok());
        let error = Bounded::<4>::new("title", "aéé").expect_err("five bytes");
        assert_eq!((error.bytes, error.max), (5, 4));
        assert!(error.to_string().contains("log"), "{error}");
    }
}

//! Text with a maximum length (I2).

use std::fmt;

/// The error of a text that is too long for its column.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is {bytes} bytes, and a row takes {max}: {belongs}")]
pub struct TooLong {
    /// The name of the field.
    pub what: &'static str,
    /// The length in bytes.
    pub bytes: usize,
    /// The maximum length in bytes.
    pub max: usize,
    /// Where longer text belongs.
    pub belongs: &'static str,
}

/// UTF-8 text of up to `MAX` bytes. The SQL column repeats the limit as a `CHECK`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bounded<const MAX: usize>(Box<str>);

impl<const MAX: usize> Bounded<MAX> {
    /// Creates a bounded text. Returns an error if it is too long; `what` names the field in the error.
    pub fn new(what: &'static str, text: &str) -> Result<Self, TooLong> {
        if text.len() > MAX {
            let belongs = "text that can grow belongs in the session's log (duolog log append)";
            return Err(TooLong { what, bytes: text.len(), max: MAX, belongs });
        }
        Ok(Self(text.into()))
    }

    /// Returns the text.
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

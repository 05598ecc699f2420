//! Keyset pages: a page starts after a row, never at a number of rows, so that it costs the same however deep it is.

use std::fmt;
use std::str::FromStr;

use duolog_types::limits::{PAGE_DEFAULT, PAGE_MAX};
use duolog_types::{Moment, SessionId};

/// Where a page ends and the next begins. Its text is for handing back, not for reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageToken {
    /// When the last row of the page was updated.
    pub(crate) updated_at: Moment,
    /// Which row it was: instants may be equal.
    pub(crate) id: SessionId,
}

impl PageToken {
    /// The token of the page that starts after this row.
    pub fn after(updated_at: Moment, id: &SessionId) -> Self {
        Self { updated_at, id: id.clone() }
    }
}

impl fmt::Display for PageToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{:x}.{}", self.updated_at.as_micros(), self.id)
    }
}

/// The text is not a page token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a page token; take it from the previous page, unchanged")]
pub struct BadPageToken(String);

impl FromStr for PageToken {
    type Err = BadPageToken;

    fn from_str(text: &str) -> Result<Self, BadPageToken> {
        let parse = || {
            // The id may hold dots, the parts before it cannot.
            let (micros, id) = text.strip_prefix("1.")?.split_once('.')?;
            let micros = i64::from_str_radix(micros, 16).ok()?;
            Some(Self { updated_at: Moment::from_micros(micros), id: SessionId::parse(id).ok()? })
        };
        // Only what prints back as given was ever handed out: no signs, no leading zeros, no clamped instants.
        parse().filter(|token| token.to_string() == text).ok_or_else(|| BadPageToken(text.chars().take(64).collect()))
    }
}

/// Which page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    limit: u32,
    after: Option<PageToken>,
}

impl Page {
    /// A page of `limit` items, clamped to what a page may hold (I9), after the token or from the start.
    pub fn new(limit: u32, after: Option<PageToken>) -> Self {
        Self { limit: limit.clamp(1, PAGE_MAX), after }
    }

    /// The items at most.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// The same with one item more, by which a list knows whether another page follows.
    pub(crate) fn with_one_more(&self) -> Self {
        Self { limit: self.limit + 1, after: self.after.clone() }
    }

    /// The row after which it starts.
    pub fn after(&self) -> Option<&PageToken> {
        self.after.as_ref()
    }
}

impl Default for Page {
    fn default() -> Self {
        Self::new(PAGE_DEFAULT, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_page_is_never_empty_nor_endless() {
        assert_eq!(Page::new(0, None).limit(), 1);
        assert_eq!(Page::new(u32::MAX, None).limit(), PAGE_MAX);
        assert_eq!(Page::default().limit(), PAGE_DEFAULT);
    }

    #[test]
    fn what_is_no_token_is_refused_by_name() {
        for bad in ["", "1.", "1.5", "2.5.a", "1.-5.a", "1.+5.a", "1.05.a", "1.zz.a", "1.5..a", "1.7fffffffffffffff.a"]
        {
            let error = bad.parse::<PageToken>().expect_err(bad);
            assert!(error.to_string().contains("page token"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_token_reads_back(micros in 0_i64..250_000_000_000_000_000, id in "[A-Za-z0-9_][A-Za-z0-9._-]{0,60}") {
            let token = PageToken::after(Moment::from_micros(micros), &SessionId::parse(&id).expect("safe"));
            prop_assert_eq!(token.to_string().parse(), Ok(token));
        }
    }
}

//! Keyset pagination: a page starts after a row, not at an offset, so every page costs the same.

use std::fmt;
use std::str::FromStr;

use duolog_types::Timestamp;
use duolog_types::limits::{PAGE_DEFAULT, PAGE_MAX};

/// The order of a list of sessions or chats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageOrder {
    /// Last changed first. A row that changes between two pages may be missed or listed twice; every other row is
    /// listed once.
    #[default]
    Updated,
    /// Last created first. The key never changes: every row that existed when the first page was read, and is not
    /// deleted, is listed exactly once.
    Created,
}

impl PageOrder {
    /// Returns the rank in the page tokens of a list in this order.
    pub const fn rank(self) -> u32 {
        match self {
            Self::Updated => 1,
            Self::Created => 2,
        }
    }
}

/// The list that a page token belongs to: a hash of the list's name, filters and order.
///
/// A token is valid in its own list only: in another list, its row has no position. A filter by time is left out of the
/// hash if the time may be relative to now, because it differs from page to page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListId(u32);

impl ListId {
    /// Returns the id of the list with this name and these filters, in a fixed order.
    pub fn of(list: &str, filters: &[Option<&str>]) -> Self {
        // FNV-1a. UTF-8 never contains the bytes that end a part.
        let part = |filter: Option<&str>| match filter {
            Some(text) => [text.as_bytes(), &[0xff]].concat(),
            None => vec![0xfe],
        };
        let bytes =
            filters.iter().fold([list.as_bytes(), &[0xff]].concat(), |bytes, filter| [bytes, part(*filter)].concat());
        Self(bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)))
    }

    /// Splits a token into its list and the rest. `None` if the token does not begin with a list.
    pub fn split(token: &str) -> Option<(Self, &str)> {
        let (list, rest) = token.split_once('.')?;
        let list = Self(u32::from_str_radix(list, 16).ok()?);
        token.starts_with(&format!("{list}.")).then_some((list, rest))
    }
}

impl fmt::Display for ListId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// The position between two pages of any list. Its text is opaque.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageToken {
    list: ListId,
    rank: u32,
    at: Timestamp,
    key: Box<str>,
}

impl PageToken {
    /// Returns the token of the page after the row with this timestamp and key, in the part of the list with this rank.
    pub fn new(list: ListId, rank: u32, at: Timestamp, key: &(impl ToString + ?Sized)) -> Self {
        Self { list, rank, at, key: key.to_string().into() }
    }

    /// Returns the token of the page after this row, in the order of changes.
    pub fn after(list: ListId, updated_at: Timestamp, key: &(impl ToString + ?Sized)) -> Self {
        Self::new(list, PageOrder::Updated.rank(), updated_at, key)
    }

    /// Returns its list.
    pub fn list(&self) -> ListId {
        self.list
    }

    /// Returns the part of the list, for a list that has several parts.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Returns the order of its list, for a list that has several orders.
    pub fn order(&self) -> PageOrder {
        if self.rank == PageOrder::Created.rank() { PageOrder::Created } else { PageOrder::Updated }
    }

    /// Returns the timestamp that orders the last row of the page.
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// Returns the id or name of that row: timestamps may be equal.
    pub fn key(&self) -> &str {
        &self.key
    }
}

impl fmt::Display for PageToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{:x}.{}", self.list, self.rank, self.at.as_micros(), self.key)
    }
}

/// The text is not a page token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a page token; take it from the previous page, unchanged")]
pub struct BadPageToken(String);

impl BadPageToken {
    /// Parses a token. The token must print back as `text`: a sign, a leading zero or a clamped timestamp is refused.
    pub fn parse<T: fmt::Display>(text: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, Self> {
        parse(text).filter(|token| token.to_string() == text).ok_or_else(|| Self(text.chars().take(64).collect()))
    }
}

impl FromStr for PageToken {
    type Err = BadPageToken;

    fn from_str(text: &str) -> Result<Self, BadPageToken> {
        BadPageToken::parse(text, |text| {
            // The key may contain dots, the parts before it cannot.
            let (list, rest) = ListId::split(text)?;
            let (rank, rest) = rest.split_once('.')?;
            let (micros, key) = rest.split_once('.')?;
            let at = Timestamp::from_micros(i64::from_str_radix(micros, 16).ok()?);
            let is_key = !key.is_empty() && !key.contains(char::is_control);
            is_key.then_some(Self { list, rank: rank.parse().ok()?, at, key: key.into() })
        })
    }
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    limit: u32,
    order: PageOrder,
    after: Option<PageToken>,
}

impl Page {
    /// Returns a page of `limit` items, clamped to 1 to `PAGE_MAX` (I9), after the token or from the start.
    pub fn new(limit: u32, after: Option<PageToken>) -> Self {
        let order = after.as_ref().map(PageToken::order).unwrap_or_default();
        Self { limit: limit.clamp(1, PAGE_MAX), order, after }
    }

    /// Returns the first page of a list in this order.
    pub fn first(limit: u32, order: PageOrder) -> Self {
        Self { order, ..Self::new(limit, None) }
    }

    /// Returns the order of the list.
    pub fn order(&self) -> PageOrder {
        self.order
    }

    /// Returns the maximum number of items.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Returns the page with one more item, which tells whether another page follows.
    pub(crate) fn with_one_more(&self) -> Self {
        Self { limit: self.limit + 1, order: self.order, after: self.after.clone() }
    }

    /// Returns the token of the row before this page.
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
    fn a_page_has_at_least_one_and_at_most_page_max_items() {
        assert_eq!(Page::new(0, None).limit(), 1);
        assert_eq!(Page::new(u32::MAX, None).limit(), PAGE_MAX);
        assert_eq!(Page::default().limit(), PAGE_DEFAULT);
    }

    #[test]
    fn a_text_that_is_not_a_token_is_refused() {
        let list = ListId::of("sessions", &[]);
        format!("{list}.1.5.a").parse::<PageToken>().expect("a token");
        for bad in [
            "",
            "1.",
            "1.5",
            "1.5.",
            "01.5.a",
            "1.-5.a",
            "1.+5.a",
            "1.05.a",
            "1.zz.a",
            "1.5.a\0",
            "1.7fffffffffffffff.a",
        ] {
            for bad in [bad.to_owned(), format!("{list}.{bad}"), format!("0{list}.1.5.a"), format!("+{list}.1.5.a")] {
                let error = bad.parse::<PageToken>().expect_err(&bad);
                assert!(error.to_string().contains("page token"), "{error}");
            }
        }
    }

    #[test]
    fn lists_differ_by_name_and_by_every_filter() {
        let filters: [&[Option<&str>]; 7] =
            [&[], &[None], &[Some("")], &[Some("a"), None], &[None, Some("a")], &[Some("a"), Some("")], &[Some("aa")]];
        let mut seen = Vec::new();
        for list in ["runs", "sessions"] {
            for filter in filters {
                let id = ListId::of(list, filter);
                assert!(!seen.contains(&id), "{list} {filter:?}");
                assert_eq!(id, ListId::of(list, filter));
                seen.push(id);
            }
        }
    }

    proptest! {
        #[test]
        fn a_token_reads_back(rank in 0_u32..4, micros in 0_i64..250_000_000_000_000_000, key in "[ -~é]{1,60}") {
            let token = PageToken::new(ListId::of("sessions", &[Some(&key)]), rank, Timestamp::from_micros(micros), &key);
            prop_assert_eq!(token.to_string().parse(), Ok(token));
        }

        #[test]
        fn no_text_is_a_token_by_accident(text in ".{0,40}") {
            if let Ok(token) = text.parse::<PageToken>() {
                prop_assert_eq!(token.to_string(), text);
            }
        }
    }
}
